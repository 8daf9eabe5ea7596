// flash::attend and flash::backward: calls of `attention` and `attention_backward` in all but the
// loops' code.
#include "kernels/Tune.h"
#include "kernels/attention/Options.h"
#include "kernels/attention/Tiles.h"
#include <charconv>

using namespace sectile;

namespace {

// With all digits.
std::string text(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

// A kernel of the library under the name that messages to callers have.
const KernelSpec &specOf(bool backward, bool packed) {
  static const auto named = [](const char *kernel, const char *name) {
    KernelSpec spec = findKernel(kernel);
    spec.name = name;
    return spec;
  };
  static const KernelSpec forward = named("attention", "flash::attend"),
                          gradients = named("attention_backward", "flash::backward"),
                          packedForward = named("attention_varlen", "flash::attend"),
                          packedGradients = named("attention_varlen_backward", "flash::backward");
  if (packed)
    return backward ? packedGradients : packedForward;
  return backward ? gradients : forward;
}

// A gradient has the operand's extents.
void checkLearned(const Invocation &call, flash::Along along, const Tensor<float, 3> &gradient) {
  const std::int64_t batches = call.extent("B"), heads = call.extent("Hq"),
                     width = gradient.extent(2);
  const auto fits = [&] {
    switch (along) {
    case flash::Along::heads:
      return width == 1;
    case flash::Along::queries:
      return width == call.extent("Sq");
    case flash::Along::keys:
      return width == call.extent("Sk");
    case flash::Along::distances:
      return width % 2 == 1 && width >= 3;
    }
    return false;
  };
  if ((gradient.extent(0) != 1 && gradient.extent(0) != batches) ||
      (gradient.extent(1) != 1 && gradient.extent(1) != heads) || !fits())
    throw InputError(call.kernel->name + ": a learned operand is " +
                     toString(Shape(gradient.extents().begin(), gradient.extents().end())) +
                     ", but has to be [1 or B, 1 or H, W] for B=" + std::to_string(batches) +
                     ", H=" + std::to_string(heads) +
                     ", and W 1, Sq, Sk or an odd number of distances, 3 at least");
}

NamedTensors run(const Stream &stream, bool backward, flash::detail::Call call,
                 const flash::detail::Launcher &launch) {
  try {
    const bool packed = call.inputs.contains("cu_seqlens_q");
    const KernelSpec &spec = specOf(backward, packed);
    const flash::Options &options = call.options;
    KernelOptions words{{"causal", call.causal ? "true" : "false"},
                        {"dropout", text(options.dropout)},
                        {"seed", std::to_string(options.seed)},
                        {"precision", options.tf32 ? "tf32" : "exact"}};
    if (options.scale)
      words["scale"] = text(*options.scale);
    if (options.sinks)
      call.inputs["sinks"] = *options.sinks;
    Invocation invocation = callOn(spec, call.inputs, words, call.outputs);
    if (call.modified)
      tiles::markLambda(invocation);
    Assignments fields;
    for (const auto &[name, value] : options.config)
      fields.emplace_back(name, std::to_string(value));
    const Config own = parseConfig(spec, fields);
    // What was measured is kept under the kernel's own name.
    Invocation known = invocation;
    known.kernel = &findKernel(std::string("attention") + (packed ? "_varlen" : "") +
                               (backward ? "_backward" : ""));
    Config config = configFor(known, stream.device());
    for (const auto &[name, value] : own)
      config[name] = value;
    if (packed && !call.learned.empty())
      throw InputError(spec.name + ": learned operands of packed sequences have no gradients");
    for (const auto &[along, gradient] : call.learned)
      checkLearned(invocation, along, gradient);
    const AttentionNumbers numbers(invocation);
    return runCall(stream, invocation, config, call.inputs, call.outputs, [&](Use &use) {
      if (packed)
        return backward ? launchVarlenGradients(use, numbers, call.modified, launch)
                        : launchVarlen(use, numbers, call.modified, launch);
      if (backward)
        launchGradients(use, numbers, call.modified, call.learned, GradientTensors(use), launch);
      else
        launchForward(use, numbers, call.modified, AttentionTensors(use), launch);
    });
  } catch (const InputError &error) {
    throw LaunchError(error.what());
  }
}

} // namespace

NamedTensors flash::detail::attend(const Stream &stream, Call call, const Launcher &launch) {
  return run(stream, false, std::move(call), launch);
}
NamedTensors flash::detail::backward(const Stream &stream, Call call, const Launcher &launch) {
  return run(stream, true, std::move(call), launch);
}
