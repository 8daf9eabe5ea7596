// rope_attention and exposb_attention, forward and backward: attention with the positions put into
// queries and keys:
//   o = softmax(s) v, s_ij = scale (R(p_i) q_i . R(p_j) k_j)
// with the rotation R of rope (Su et al., arXiv 2104.09864). ExpoSB, for which we know no paper,
// has a gain of each dim, a boost of each position and a factor of each distance besides:
//   g (1 + boost e^(-boost_decay p)) R(p) x for R(p) x, and s_ij times
//   near_base + near_peak e^(-near_decay |p_i - p_j|), with
//   g_d = gain_base + gain_peak e^(-(d - gain_center)^2 / (2 gain_width^2)).
// Gradients are derived from these. Refused: D outside 16 to 256, what rope refuses, a gain_width
// that is not above 0. A NaN or an infinity may spread within blocks as attention's page says.
#include "kernels/position/Family.h"
#include "kernels/position/References.h"
#include "kernels/position/RotaryScheme.h"
#include "kernels/position/RotarySpec.h"
#include "kernels/position/SchemeSpec.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::scheme;

namespace {

// One program's place.
struct Place {
  Int block = program_id(0), head = program_id(1), batch = program_id(2);
};

Band bandOf(const RotaryAttentionConfig &config, const Int &queries, const Int &keys,
            const Int &left, const Int &right) {
  Band band{.queries = queries, .keys = keys, .offset = keys - queries};
  if (config.left)
    band.left = left;
  if (config.right)
    band.right = right;
  return band;
}

// Puts the positions into all rows of x. A program has the same rows of several heads: what their
// positions do to them is the same.
template <class T>
Kernel turnRows{
    "turn_rows", [](View<const T, 4> x, View<T, 4> y, Int first, Int heads,
                    const RotaryAttentionConfig &config) {
      const Place at;
      const Turn turn(config, at.block, config.m, first);
      const Int from = at.head * heads;
      for (auto head : range(from, minimum(from + heads, x.extent(1)))) {
        const auto rows = turn.load(x.at(at.batch, head));
        const auto parts = turnedParts(y.at(at.batch, head), config.shape());
        for (std::size_t i = 0; i < rows.size(); ++i)
          parts[i].tile(config.m, static_cast<int>(rows[i].extent(1))).store(at.block, 0, rows[i]);
      }
    }};

template <class T>
constexpr auto forward = [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                            View<T, 4> o, View<float, 3> lse, Int groups, Float scale, Int left,
                            Int right, const RotaryAttentionConfig &config) {
  const Place at{.block = blockwise::queryBlock()};
  const Band band = bandOf(config, q.extent(2), k.extent(2), left, right);
  const Int kvHead = at.head / groups;
  const RotaryScheme<T> rotary{config, q.at(at.batch, at.head), k.at(at.batch, kvHead), band.offset,
                               scale};
  attend<T>(rotary, band, config.extents(), at.block, v.at(at.batch, kvHead),
            o.at(at.batch, at.head), lse.at(at.batch, at.head));
};
template <class T> Kernel ropeAttention{"rope_attention", forward<T>};
template <class T> Kernel exposbAttention{"exposb_attention", forward<T>};

template <class T>
constexpr auto backwardQueries =
    [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const T, 4> o,
       View<const float, 3> lse, View<const T, 4> dO, View<T, 4> dq, View<float, 3> deltas,
       Int groups, Float scale, Int left, Int right, const RotaryAttentionConfig &config) {
      const Place at{.block = blockwise::queryBlock()};
      const Band band = bandOf(config, q.extent(2), k.extent(2), left, right);
      const Int kvHead = at.head / groups;
      const RotaryScheme<T> rotary{config, q.at(at.batch, at.head), k.at(at.batch, kvHead),
                                   band.offset, scale};
      const auto total = queryGradients<T>(
          rotary, band, config.extents(), at.block, v.at(at.batch, kvHead), o.at(at.batch, at.head),
          dO.at(at.batch, at.head), lse.at(at.batch, at.head), deltas.at(at.batch, at.head));
      rotary.storeQueries(dq.at(at.batch, at.head), at.block, total);
    };
template <class T>
Kernel ropeAttentionQueries{"rope_attention_backward_queries", backwardQueries<T>};
template <class T>
Kernel exposbAttentionQueries{"exposb_attention_backward_queries", backwardQueries<T>};

// A program has one block of keys, and goes through all queries of all heads that see them.
template <class T>
constexpr auto backwardKeys = [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                                 View<const float, 3> lse, View<const T, 4> dO,
                                 View<const float, 3> deltas, View<T, 4> dk, View<T, 4> dv,
                                 Int groups, Float scale, Int left, Int right,
                                 const RotaryAttentionConfig &config) {
  const Place at;
  const Band band = bandOf(config, q.extent(2), k.extent(2), left, right);
  const Extents extents = config.extents();
  auto rotaryOf = [&](const Int &head) {
    return RotaryScheme<T>{config, q.at(at.batch, head), k.at(at.batch, at.head), band.offset,
                           scale};
  };
  const Int first = at.head * groups;
  const auto rotary = rotaryOf(first);
  const auto keys = rotary.keys(at.block, Part::both);
  const auto values = v.at(at.batch, at.head).tile(extents.n, extents.width).load(at.block, 0);
  auto keyTotal = rotary.noKeys();
  auto valueTotal = zeros<float>(extents.n, extents.width);
  for (auto head : range(first, first + groups))
    keyGradients<T>(rotaryOf(head), band, extents, at.block, keys, values, dO.at(at.batch, head),
                    lse.at(at.batch, head), deltas.at(at.batch, head), keyTotal, valueTotal);
  rotary.storeKeys(dk.at(at.batch, at.head), at.block, keyTotal);
  dv.at(at.batch, at.head).tile(extents.n, extents.width).store(at.block, 0, valueTotal);
};
template <class T> Kernel ropeAttentionKeys{"rope_attention_backward_keys", backwardKeys<T>};
template <class T> Kernel exposbAttentionKeys{"exposb_attention_backward_keys", backwardKeys<T>};

RotaryOptions rotaryOptions(const Invocation &call, bool expo) {
  const BandNumbers band(call);
  RotaryOptions options;
  options.scheme = {.causal = call.options.flag("causal"),
                    .left = band.leftBounded ? band.left : -1,
                    .right = band.rightBounded ? band.right : -1,
                    .scale = scheme::scale(call)};
  options.interleaved = call.options.choice("style") == "interleaved";
  options.theta = call.options.number("theta");
  options.rotary = rotaryDims(call);
  options.expo = expo;
  if (!expo)
    return options;
  auto number = [&](const char *name, std::int64_t otherwise) {
    return call.options.given(name) ? call.options.number(name) : static_cast<double>(otherwise);
  };
  options.gainBase = call.options.number("gain_base");
  options.gainPeak = call.options.number("gain_peak");
  options.gainCenter = number("gain_center", call.extent("D") / 4);
  options.gainWidth = number("gain_width", call.extent("D") / 8);
  options.boost = call.options.number("boost");
  options.boostDecay = call.options.number("boost_decay");
  options.nearBase = call.options.number("near_base");
  options.nearPeak = call.options.number("near_peak");
  options.nearDecay = call.options.number("near_decay");
  return options;
}

RotaryAttentionConfig chosenConfig(const Use &use, bool expo) {
  const RotaryOptions options = rotaryOptions(use.call, expo);
  RotaryAttentionConfig config{use.field("m"), use.field("n"), use.field("warps"),
                               use.field("stages")};
  config.dims = static_cast<int>(use.call.extent("D"));
  config.rotary = static_cast<int>(options.rotary);
  config.interleaved = options.interleaved;
  config.left = options.scheme.left >= 0;
  config.right = options.scheme.right >= 0;
  config.step = frequencyStep(options.theta, options.rotary);
  config.expo = expo;
  config.gainBase = options.gainBase;
  config.gainPeak = options.gainPeak;
  config.gainCenter = options.gainCenter;
  config.gainWidth = options.gainWidth;
  config.boost = options.boost;
  config.boostDecay = options.boostDecay;
  config.nearBase = options.nearBase;
  config.nearPeak = options.nearPeak;
  config.nearDecay = options.nearDecay;
  return config;
}

// An argument's rows [B, H, S, D] with the positions in them, those of row 0 being `first`; in
// scratch memory.
template <class T>
Tensor<T, 4> turned(Use &use, const char *name, std::int64_t first, RotaryAttentionConfig config) {
  const auto rows = use.tensor<T, 4>(name);
  const int width = turnedWidth(config.shape());
  config.m =
      static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(std::clamp(4096 / width, 4, 64))));
  config.warps = 4;
  config.n = config.stages = 1;
  config.queriesTurned = config.keysTurned = config.left = config.right = false;
  const auto result = use.workspace<T, 4>({rows.extent(0), rows.extent(1), rows.extent(2), width});
  const std::int64_t heads = std::clamp<std::int64_t>(rows.extent(1), 1, 4);
  use(turnRows<T>,
      Grid(ceilDiv(rows.extent(2), config.m), ceilDiv(rows.extent(1), heads), rows.extent(0)), rows,
      result, first, heads, config);
  return result;
}

// Options, rules and configuration of the forward and the backward kernels.
KernelSpec commonSpec(const std::string &name, bool expo, bool backward) {
  KernelSpec spec;
  spec.name = name;
  spec.options = scheme::options(true);
  const auto own = rotationOptions();
  spec.options.insert(spec.options.end(), own.begin(), own.end());
  auto number = [&](const char *option, const char *initial, const char *sample, const char *doc) {
    spec.options.push_back({.name = option,
                            .kind = OptionSpec::number,
                            .initial = initial,
                            .samples = {sample},
                            .doc = doc});
  };
  if (expo) {
    number("gain_base", "0.8", "1.1", "g far from gain_center");
    number("gain_peak", "0.4", "-0.3", "what g has more at gain_center");
    number("gain_center", "", "3", "the dim of the peak; D / 4 rounded down if not given");
    number("gain_width", "", "2.5",
           "standard deviation of the peak; D / 8 rounded down if not given");
    number("boost", "0.2", "0.5", "what rows at position 0 are larger by");
    number("boost_decay", "0.001", "0.1", "of the boost, per position");
    number("near_base", "0.7", "0.4", "factor of scores far away");
    number("near_peak", "0.3", "0.6", "what it has more at distance 0");
    number("near_decay", "0.005", "0.1", "of that, per position");
  }
  scheme::configure(spec, backward, 1);
  if (!backward)
    scheme::inWarpgroups(spec,
                         {{96, {{"m", 128}, {"n", 96}, {"warps", 8}, {"stages", 2}}},
                          {128, {{"m", 128}, {"n", 128}, {"warps", 8}, {"stages", 2}}},
                          {256, {{"m", expo ? 64 : 128}, {"n", 64}, {"warps", 8}, {"stages", 2}}}});
  spec.check = [expo](const Invocation &call) {
    scheme::check(call);
    checkRotation(call);
    if (expo && rotaryOptions(call, true).gainWidth <= 0)
      throw InputError(call.kernel->name + ": option 'gain_width' must be above 0");
  };
  return spec;
}

KernelSpec forwardSpec(bool expo) {
  KernelSpec spec = commonSpec(expo ? "exposb_attention" : "rope_attention", expo, false);
  spec.summary = expo ? "attention with ExpoSB positions: turned, weighed by dim and distance"
                      : "attention with queries and keys turned by their positions (RoPE)";
  spec.arguments = scheme::inputs({"q"}, {"k"});
  spec.arguments.push_back(scheme::queryLike("o", "0 in rows that see no key", true));
  spec.arguments.back().like = "q";
  spec.arguments.push_back(scheme::logarithms(true));
  spec.reference = [expo](const Invocation &call, std::span<const HostArray> inputs,
                          Arithmetic arithmetic) {
    auto result = rotaryAttentionReference(inputs[0], inputs[1], inputs[2],
                                           rotaryOptions(call, expo), arithmetic);
    return std::vector{result.o, result.lse};
  };
  spec.spaces.front().part = spec.name;
  spec.apply = [expo](Use &use) {
    const Invocation &call = use.call;
    RotaryAttentionConfig chosen = chosenConfig(use, expo);
    const BandNumbers band(call);
    const Grid grid(ceilDiv(call.extent("Sq"), chosen.m), call.extent("Hq"), call.extent("B"));
    const std::int64_t groups = call.extent("Hq") / std::max<std::int64_t>(call.extent("Hkv"), 1);
    chosen.keysTurned = call.extent("Sq") > chosen.m; // several programs need the same keys
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      const auto k = chosen.keysTurned ? turned<T>(use, "k", 0, chosen) : use.tensor<T, 4>("k");
      use(expo ? exposbAttention<T> : ropeAttention<T>, grid, use.tensor<T, 4>("q"), k,
          use.tensor<T, 4>("v"), use.tensor<T, 4>("o"), use.tensor<float, 3>("lse"), groups,
          static_cast<float>(scheme::scale(call)), band.left, band.right, chosen);
    });
  };
  return spec;
}

KernelSpec backwardSpec(bool expo) {
  const std::string name = expo ? "exposb_attention_backward" : "rope_attention_backward";
  KernelSpec spec = commonSpec(name, expo, true);
  spec.summary = expo ? "gradients of exposb_attention" : "gradients of rope_attention";
  spec.factor = 3;
  spec.arguments = scheme::inputs({"q"}, {"k"});
  auto add = [&](ArgumentSpec argument) {
    argument.like = "q";
    spec.arguments.push_back(std::move(argument));
  };
  add(scheme::queryLike("o", "of the forward kernel", false));
  spec.arguments.push_back(scheme::logarithms(false));
  add(scheme::queryLike("do", "gradient of o", false));
  add(scheme::queryLike("dq", "gradient of q", true));
  add(scheme::keyLike("dk", "gradient of k", true));
  add(scheme::keyLike("dv", "gradient of v", true));
  spec.reference = [expo](const Invocation &call, std::span<const HostArray> inputs,
                          Arithmetic arithmetic) {
    auto result = rotaryAttentionBackwardReference(inputs, rotaryOptions(call, expo), arithmetic);
    return std::vector{result.dq, result.dk, result.dv};
  };
  spec.spaces.front().part =
      expo ? exposbAttentionKeys<half>.name() : ropeAttentionKeys<half>.name();
  spec.apply = [expo](Use &use) {
    const Invocation &call = use.call;
    RotaryAttentionConfig chosen = chosenConfig(use, expo);
    const BandNumbers band(call);
    const std::int64_t batches = call.extent("B"), heads = call.extent("Hq"),
                       kvHeads = call.extent("Hkv"), queries = call.extent("Sq"),
                       keys = call.extent("Sk");
    const std::int64_t groups = heads / std::max<std::int64_t>(kvHeads, 1);
    const auto scale = static_cast<float>(scheme::scale(call));
    const auto deltas = use.workspace<float, 3>({batches, heads, queries});
    chosen.queriesTurned = chosen.keysTurned = true;
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      const auto q = turned<T>(use, "q", keys - queries, chosen),
                 k = turned<T>(use, "k", 0, chosen);
      const auto v = use.tensor<T, 4>("v"), dO = use.tensor<T, 4>("do");
      const auto lse = use.tensor<float, 3>("lse");
      use(expo ? exposbAttentionQueries<T> : ropeAttentionQueries<T>,
          Grid(ceilDiv(queries, chosen.m), heads, batches), q, k, v, use.tensor<T, 4>("o"), lse, dO,
          use.tensor<T, 4>("dq"), deltas, groups, scale, band.left, band.right, chosen);
      use(expo ? exposbAttentionKeys<T> : ropeAttentionKeys<T>,
          Grid(ceilDiv(keys, chosen.n), kvHeads, batches), q, k, v, lse, dO, deltas,
          use.tensor<T, 4>("dk"), use.tensor<T, 4>("dv"), groups, scale, band.left, band.right,
          chosen);
    });
  };
  return spec;
}

} // namespace

KernelSpec sectile::ropeAttentionSpec() { return forwardSpec(false); }

KernelSpec sectile::ropeAttentionBackwardSpec() { return backwardSpec(false); }

KernelSpec sectile::exposbAttentionSpec() { return forwardSpec(true); }

KernelSpec sectile::exposbAttentionBackwardSpec() { return backwardSpec(true); }
