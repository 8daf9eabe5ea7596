// rope_attention and exposb_attention, forward and backward: attention with the positions put into
// queries and keys:
//   o = softmax(s) v, s_ij = scale (R(p_i) q_i . R(p_j) k_j)
// with the rotation R of rope (Su et al., arXiv 2104.09864). ExpoSB, for which we know no paper,
// has a gain of each dim, a boost of each position and a factor of each distance besides:
//   g (1 + boost e^(-boost_decay p)) R(p) x for R(p) x, and s_ij times
//   near_base + near_peak e^(-near_decay |p_i - p_j|), with
//   g_d = gain_base + gain_peak e^(-(d - gain_center)^2 / (2 gain_width^2)).
// Gradients are derived from these. All else is attention: rows are rotated in launches of their
// own, before the loops and after them. Refused: what attention and rope refuse, a gain_width that
// is not above 0.
#include "kernels/attention/Family.h"
#include "kernels/attention/Options.h"
#include "kernels/attention/References.h"
#include "kernels/attention/Tiles.h"
#include "kernels/position/Family.h"
#include "kernels/position/RotarySpec.h"

using namespace sectile;

namespace {

bool isExposb(const Invocation &call) { return call.options.values.contains("gain_base"); }

std::optional<Nearness> nearness(const Invocation &call) {
  if (!isExposb(call))
    return {};
  const OptionValues &options = call.options;
  return Nearness{options.number("near_base"), options.number("near_peak"),
                  options.number("near_decay")};
}

// How rows are rotated, the first of which has position `first`; `back`: their gradients.
RotationOptions rotation(const Invocation &call, std::int64_t first, bool back = false) {
  RotationOptions result = ropeOptions(call);
  result.offset = first;
  result.back = back;
  if (!result.scaling.length)
    result.scaling.length = call.extent("Sk");
  if (!isExposb(call))
    return result;
  const auto number = [&](const char *name, std::int64_t otherwise = 0) {
    return call.options.given(name) ? call.options.number(name) : static_cast<double>(otherwise);
  };
  result.gains = RowGains{.base = number("gain_base"),
                          .peak = number("gain_peak"),
                          .center = number("gain_center", call.extent("D") / 4),
                          .width = number("gain_width", call.extent("D") / 8),
                          .boost = number("boost"),
                          .boostDecay = number("boost_decay")};
  return result;
}
RotationOptions queryRotation(const Invocation &call, bool back = false) {
  return rotation(call, call.extent("Sk") - call.extent("Sq"), back);
}

void rotate(Use &use, const AnyTensor &from, const AnyTensor &to, const RotationOptions &options) {
  const auto &extents = from.extents;
  rotateRows(use, from, to, options, rowTiles(extents[0], extents[1], extents[2], extents[3]));
}
// In scratch memory.
AnyTensor rotated(Use &use, const AnyTensor &rows, const RotationOptions &options) {
  // Without queries nothing depends on keys. Nor is there a launch between the one that would turn
  // them and the loop that reads them ahead of its wait.
  if (use.extent("Sq") == 0 || use.extent("Hq") == 0)
    return rows;
  AnyTensor result;
  for_dtype<half, bfloat16, float>(
      rows.dtype, [&]<class T>(T) { result = use.workspace<T, 4>(rows.as<T, 4>().extents()); });
  rotate(use, rows, result, options);
  return result;
}

AttentionNumbers numbersOf(const Invocation &call) {
  AttentionNumbers numbers(call);
  numbers.near = nearness(call);
  return numbers;
}
AttentionSettings settingsOf(const Invocation &call, std::span<const HostArray> inputs) {
  AttentionSettings settings = attentionSettings(call, inputs);
  settings.near = nearness(call);
  return settings;
}

std::vector<HostArray> rotatedInputs(const Invocation &call, std::span<const HostArray> inputs,
                                     Arithmetic arithmetic) {
  std::vector<HostArray> rotated(inputs.begin(), inputs.end());
  rotated[0] = ropeReference(inputs[0], {}, queryRotation(call), arithmetic);
  rotated[1] = ropeReference(inputs[1], {}, rotation(call, 0), arithmetic);
  return rotated;
}

// A kernel of attention as one of ours.
KernelSpec rotarySpec(KernelSpec spec, bool expo) {
  spec.name = (expo ? "exposb_" : "rope_") + spec.name;
  spec.follow = [](Invocation &call) { call.extents["Dv"] = call.extent("D"); };
  spec.add_options(rotationOptions());
  if (expo)
    spec.add_options({
        {"gain_base: number = 0.8 e.g. 1.1", "g far from gain_center"},
        {"gain_peak: number = 0.4 e.g. -0.3", "what g has more at gain_center"},
        {"gain_center: number e.g. 3", "the dim of the peak; D / 4 rounded down if not given"},
        {"gain_width: number e.g. 2.5",
         "standard deviation of the peak; D / 8 rounded down if not given"},
        {"boost: number = 0.2 e.g. 0.5", "what rows at position 0 are larger by"},
        {"boost_decay: number = 0.001 e.g. 0.1", "of the boost, per position"},
        {"near_base: number = 0.7 e.g. 0.4", "factor of scores far away"},
        {"near_peak: number = 0.3 e.g. 0.6", "what it has more at distance 0"},
        {"near_decay: number = 0.005 e.g. 0.1", "of that, per position"},
    });
  spec.check = [](const Invocation &call) {
    checkAttention(call);
    checkRotation(call, rotation(call, 0));
    if (isExposb(call) && rotation(call, 0).gains->width <= 0)
      refuse(call, "option 'gain_width' must be above 0");
  };
  if (expo)
    spec.defaults = [plain = spec.defaults](Invocation call, const std::string &target) {
      tiles::markLambda(call);
      return plain(call, target);
    };
  return spec;
}

KernelSpec forwardSpec(bool expo) {
  KernelSpec spec = rotarySpec(attentionSpec(), expo);
  spec.summary = expo ? "attention with ExpoSB positions: turned, weighed by dim and distance"
                      : "attention with queries and keys turned by their positions (RoPE)";
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    return forwardReference(settingsOf)(call, rotatedInputs(call, in, arithmetic), arithmetic);
  };
  spec.apply = [](Use &use) {
    AttentionTensors tensors(use);
    tensors.q = rotated(use, tensors.q, queryRotation(use.call));
    tensors.k = rotated(use, tensors.k, rotation(use.call, 0));
    launchAttention(use, numbersOf(use.call), tensors);
  };
  return spec;
}

KernelSpec backwardSpec(bool expo) {
  KernelSpec spec = rotarySpec(attentionBackwardSpec(), expo);
  spec.summary = expo ? "gradients of exposb_attention" : "gradients of rope_attention";
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    auto gradients =
        backwardReference(settingsOf)(call, rotatedInputs(call, in, arithmetic), arithmetic);
    gradients[0] = ropeReference(gradients[0], {}, queryRotation(call, true), arithmetic);
    gradients[1] = ropeReference(gradients[1], {}, rotation(call, 0, true), arithmetic);
    return gradients;
  };
  spec.apply = [](Use &use) {
    GradientTensors tensors(use);
    tensors.q = rotated(use, tensors.q, queryRotation(use.call));
    tensors.k = rotated(use, tensors.k, rotation(use.call, 0));
    launchAttentionGradients(use, numbersOf(use.call), tensors);
    rotate(use, tensors.dq, tensors.dq, queryRotation(use.call, true));
    rotate(use, tensors.dk, tensors.dk, rotation(use.call, 0, true));
  };
  return spec;
}

} // namespace

KernelSpec sectile::ropeAttentionSpec() { return forwardSpec(false); }

KernelSpec sectile::ropeAttentionBackwardSpec() { return backwardSpec(false); }

KernelSpec sectile::exposbAttentionSpec() { return forwardSpec(true); }

KernelSpec sectile::exposbAttentionBackwardSpec() { return backwardSpec(true); }
