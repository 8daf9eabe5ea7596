// Losses of rows as one number, and each row's share in a mean, for the kernels whose losses are
// cross entropies.
#pragma once
#include "kernels/calls/Use.h"
#include "kernels/norm/NormReferences.h"

namespace sectile {

struct MeanConfig {
  bool mean = true;                         // else the sum
  bool ofNoneIsZero = false;                // a mean of no rows is 0, not NaN
  int block = 4096, unroll = 4, warps = 16; // one program: many loads in flight
};

// To count targets alone leaves registers for all that are in flight.
inline MeanConfig countConfig(bool ofNoneIsZero = false) {
  return {.ofNoneIsZero = ofNoneIsZero, .block = 16384, .unroll = 1};
}

// One for each target of a block that counts.
template <class Target>
Tile<std::int32_t> countsOf(const View<const Target, 1> &targets, const Tile<std::int64_t> &ignored,
                            const Int &step, int block) {
  auto inside = step * block + arange(0, block) < targets.extent(0);
  auto target = cast<std::int64_t>(targets.tile(block).load(step));
  return cast<std::int32_t>(inside && target != ignored);
}

// How many targets count.
template <class Target>
Float countedTargets(const View<const Target, 1> &targets, const Tile<std::int64_t> &ignored,
                     const MeanConfig &config) {
  const int block = config.block;
  auto count = zeros<std::int32_t>(block);
  for (auto step : range(0, cdiv(targets.extent(0), block), {.unroll = config.unroll}))
    count += countsOf(targets, ignored, step, block);
  const auto all = cast<float>(sum(count, 0));
  return config.ofNoneIsZero ? maximum(all, 1.0f) : all;
}

template <class Target> struct CrossEntropyMeanArguments {
  View<const float, 1> losses;
  View<const Target, 1> targets;
  View<float, 1> loss;
  Tile<std::int64_t> ignore_index;
};

// The losses of all rows as one; 0/0 where no target counts.
template <class Target>
inline const Kernel crossEntropyMean{
    "cross_entropy_mean", [](const CrossEntropyMeanArguments<Target> &a, const MeanConfig &config) {
      const auto &[losses, targets, loss, ignored] = a;
      Float count = 1.0f;
      if (config.mean)
        count = countedTargets(targets, ignored, config);
      wait_dependencies(); // the losses are there now
      auto total = zeros<float>(config.block);
      for (auto step : range(0, cdiv(losses.extent(0), config.block), {.unroll = config.unroll}))
        total += losses.tile(config.block).load(step);
      Float result = sum(total, 0);
      if (config.mean)
        result = result / count;
      store(loss.ptr(), result);
    }};

template <class Target> struct CrossEntropyShareArguments {
  View<const Target, 1> targets;
  View<float, 1> share;
  Tile<std::int64_t> ignore_index;
};

// What a row's gradient is multiplied by in a mean.
template <class Target>
inline const Kernel crossEntropyShare{
    "cross_entropy_share",
    [](const CrossEntropyShareArguments<Target> &a, const MeanConfig &config) {
      launch_dependents(); // the gradients' programs load logits meanwhile
      store(a.share.ptr(), 1.0f / countedTargets(a.targets, a.ignore_index, config));
    }};

// What their descriptions share.
ArgumentRow targetsArgument(const std::string &axes);
std::vector<OptionRow> lossOptions();
// Of all rows, or one number.
std::vector<std::string> reduced(std::vector<std::string> axes, const OptionValues &options);
CrossEntropyValues lossValues(const OptionValues &options);

// Calls f(Target{}) with the type of the targets.
template <class F> void forTargets(const Invocation &call, F &&f) {
  for_dtype<std::int64_t, std::int32_t>(call.dtype("targets"), f);
}

} // namespace sectile
