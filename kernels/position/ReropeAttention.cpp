// rerope_attention, forward and backward: attention with two sets of queries and keys, one for keys
// near a query and one for those far from it:
//   o = softmax(s) v, s_ij = scale (q1_i . k1_j where |p_i - p_j| < window, else q2_i . k2_j),
// as ReRoPE has it (Su, github.com/bojone/rerope); gradients are derived from it. Near keys are a
// band, and attention of its own; so are far ones, and the two are merged by their logarithms. With
// the merged ones the gradients of each are what attention's are. Refused: what attention refuses,
// a negative window.
#include "kernels/attention/Family.h"
#include "kernels/attention/Options.h"
#include "kernels/attention/References.h"
#include "kernels/calls/Slice.h"
#include "kernels/position/Family.h"
#include "kernels/serving/Merge.h"

using namespace sectile;

namespace {

std::int64_t windowOf(const Invocation &call) {
  // One beyond any distance that there is is kept small, so that sums with it fit an Int.
  return std::min<std::int64_t>(call.options.integer("window"), 1 << 29);
}

AttentionNumbers nearNumbers(const Invocation &call) {
  AttentionNumbers numbers(call);
  const std::int64_t farthest = windowOf(call) - 1;
  const auto limit = [&](bool &bounded, std::int64_t &distance) {
    distance = bounded ? std::min(distance, farthest) : farthest;
    bounded = true;
  };
  limit(numbers.leftBounded, numbers.left);
  limit(numbers.rightBounded, numbers.right);
  return numbers;
}
// Where all far keys that a query sees are on one side they are an interval: blocks of near ones
// are never read.
AttentionNumbers farNumbers(const Invocation &call) {
  AttentionNumbers numbers(call);
  const std::int64_t window = windowOf(call);
  if (numbers.rightBounded && numbers.right < window)
    numbers.right = -window;
  else if (numbers.leftBounded && numbers.left < window)
    numbers.left = -window;
  else
    numbers.minDistance = window;
  numbers.sinks = 0; // the near ones have them
  return numbers;
}
AttentionNumbers numbersOf(const Invocation &call, bool far) {
  return far ? farNumbers(call) : nearNumbers(call);
}

// Points into the inputs.
AttentionSettings settingsOf(const Invocation &call, std::span<const HostArray> inputs) {
  AttentionSettings settings = attentionSettings(call, inputs);
  settings.farQueries = &inputs[1];
  settings.farKeys = &inputs[3];
  settings.far = windowOf(call);
  return settings;
}

// A kernel of attention as one of ours: queries, keys and their gradients are there twice.
KernelSpec reropeSpec(KernelSpec spec) {
  spec.name = "rerope_" + spec.name;
  spec.follow = [](Invocation &call) { call.extents["Dv"] = call.extent("D"); };
  for (ArgumentSpec argument : std::exchange(spec.arguments, {})) {
    if (argument.like == "q")
      argument.like = "q1";
    const std::string name = argument.name;
    const bool isTwice = name == "q" || name == "k" || name == "dq" || name == "dk";
    if (isTwice)
      argument.name += "1";
    spec.arguments.push_back(argument);
    if (!isTwice)
      continue;
    argument.name = name + "2";
    argument.dtypes.clear();
    argument.like = "q1";
    spec.arguments.push_back(argument);
  }
  spec.add_options({{"window: integer = 512 from 0 e.g. 0, 7",
                     "keys nearer than this meet q1 and k1, the others q2 and k2"}});
  spec.check = checkAttention;
  return spec;
}

} // namespace

KernelSpec sectile::reropeAttentionSpec() {
  KernelSpec spec = reropeSpec(attentionSpec());
  spec.summary = "attention with queries and keys for near positions and others for far ones";
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    const auto result = attentionReference(in[0], in[2], in[4], settingsOf(call, in), arithmetic);
    return std::vector{result.o, result.lse};
  };
  spec.apply = [](Use &use) {
    const std::int64_t batches = use.extent("B"), heads = use.extent("Hq"),
                       queries = use.extent("Sq"), width = use.extent("Dv");
    const auto partial = use.workspace<float, 5>({2, batches, heads, queries, width});
    const auto logs = use.workspace<float, 4>({2, batches, heads, queries});
    for (const bool far : {false, true}) {
      AttentionTensors tensors(use, far ? "q2" : "q1", far ? "k2" : "k1");
      tensors.o = oneOf(partial, far);
      tensors.lse = oneOf(logs, far);
      launchAttention(use, numbersOf(use.call, far), tensors);
    }
    const MergeConfig config{.width = paddedWidth(width)};
    for_dtype<half, bfloat16, float>(use.call.dtype("v"), [&]<class T>(T) {
      use(mergeStates<float, T>, Grid(ceilDiv(queries, config.m), heads, batches), partial, logs,
          use.tensor<T, 4>("o"), use.tensor<float, 3>("lse"), config);
    });
  };
  return spec;
}

KernelSpec sectile::reropeAttentionBackwardSpec() {
  KernelSpec spec = reropeSpec(attentionBackwardSpec());
  spec.summary = "gradients of rerope_attention";
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    const auto result =
        attentionBackwardReference(denseLayout(in[0], in[2], in[4]), in[0], in[2], in[4], in[5],
                                   in[6], in[7], settingsOf(call, in), arithmetic);
    return std::vector{result.dq, result.dFarQueries, result.dk,    result.dFarKeys,
                       result.dv, result.dbias,       result.dsinks};
  };
  spec.apply = [](Use &use) {
    const int parts = use.field("kv_parts");
    const std::int64_t batches = use.extent("B"), heads = use.extent("Hkv") * parts,
                       keys = use.extent("Sk"), width = use.extent("Dv");
    // Parts of near and far pairs in turn, which are added up in this order.
    const auto sums = use.workspace<float, 4>({batches, 2 * heads, keys, width});
    for (const bool far : {false, true}) {
      GradientTensors tensors(use, far ? "q2" : "q1", far ? "k2" : "k1");
      tensors.dvParts =
          Tensor<float, 4>(sums.data() + far * sums.stride(1), {batches, heads, keys, width},
                           {sums.stride(0), 2 * sums.stride(1), width, 1}, sums.memory());
      tensors.addsBias = far;
      launchAttentionGradients(use, numbersOf(use.call, far), tensors);
    }
    addHeadParts(use, sums, anyTensor(use, "dv"), 2 * parts, 1);
  };
  return spec;
}
