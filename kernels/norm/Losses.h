// What the kernels whose losses are cross entropies share: losses of rows as one number, each row's
// share in a mean, weights of classes, and where the largest logit is.
#pragma once
#include "kernels/calls/Use.h"
#include "kernels/norm/NormReferences.h"

namespace sectile {

struct MeanConfig {
  bool mean = true;                         // else the sum
  bool ofNoneIsZero = false;                // a mean of no rows is 0, not NaN
  bool weighted = false;                    // by classes
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

// What the weights of classes add up to.
struct ClassSums {
  static constexpr int count = 3;
  Float ofTargets; // that count
  Float targets;   // how many these are
  Float ofClasses; // of all

  explicit ClassSums(const View<const float, 1> &sums)
      : ofTargets(load(sums.ptr())), targets(load(sums.ptr() + 1)),
        ofClasses(load(sums.ptr() + 2)) {}

  // lse_square as it is among losses that are divided by the sum of the targets' weights. Its own
  // part of the loss has no weights, and is divided by the number of targets.
  Float squareInMean(const Float &square) const { return square * (ofTargets / targets); }
};

template <class Target> struct CrossEntropySumsArguments {
  View<const Target, 1> targets;
  View<const float, 1> class_weights;
  View<float, 1> sums;
  Tile<std::int64_t> ignore_index;
};

template <class Target>
inline const Kernel crossEntropySums{
    "cross_entropy_sums", [](const CrossEntropySumsArguments<Target> &a, const MeanConfig &config) {
      launch_dependents(); // others load logits meanwhile
      const int block = config.block;
      auto ofTargets = zeros<float>(block), ofClasses = zeros<float>(block);
      auto count = zeros<std::int32_t>(block);
      const Int classes = a.class_weights.extent(0);
      for (auto step : range(0, cdiv(a.targets.extent(0), block))) {
        const auto target = cast<std::int64_t>(a.targets.tile(block).load(step));
        const auto counts = countsOf(a.targets, a.ignore_index, step, block);
        ofTargets += load(a.class_weights.ptr() + target * a.class_weights.stride(0),
                          counts != 0 && target >= 0 && target < classes, 0.0f);
        count += counts;
      }
      for (auto step : range(0, cdiv(classes, block), {.unroll = config.unroll}))
        ofClasses += a.class_weights.tile(block).load(step);
      store(a.sums.ptr(), sum(ofTargets, 0));
      store(a.sums.ptr() + 1, cast<float>(sum(count, 0)));
      store(a.sums.ptr() + 2, sum(ofClasses, 0));
    }};

// The largest logits of rows that come block by block, and where they are: the first of equals, and
// a NaN before all.
struct LargestPlace {
  Tile<float> value;
  Tile<std::int32_t> place;

  void take(const Tile<float> &logits, int axis, const Int &begin) {
    const auto [next, at] = max_with_index(logits, axis, Nan::propagate);
    const auto better = next > value || (next != next && value == value);
    value = where(better, next, value);
    place = where(better, cast<std::int32_t>(begin) + at, place);
  }
};

template <class Target> struct CrossEntropyMeanArguments {
  View<const float, 1> losses;
  View<const Target, 1> targets;
  View<const float, 1> sums;
  View<float, 1> loss;
  Tile<std::int64_t> ignore_index;
};

// The losses of all rows as one; 0/0 where no target counts.
template <class Target>
inline const Kernel crossEntropyMean{
    "cross_entropy_mean", [](const CrossEntropyMeanArguments<Target> &a, const MeanConfig &config) {
      const auto &[losses, targets, sums, loss, ignored] = a;
      Float count = 1.0f;
      if (config.mean && !config.weighted)
        count = countedTargets(targets, ignored, config);
      wait_dependencies(); // the losses are there now
      if (config.mean && config.weighted) {
        const ClassSums all(sums);
        count = all.ofTargets;
        if (config.ofNoneIsZero)
          count = where(all.targets == 0.0f, 1.0f, count);
      }
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
ArgumentRow classWeightsArgument();
std::vector<OptionRow> lossOptions();
// Of all rows, or one number.
std::vector<std::string> reduced(std::vector<std::string> axes, const OptionValues &options);
CrossEntropyValues lossValues(const Invocation &call, std::span<const HostArray> inputs);

// Calls f(Target{}) with the type of the targets.
template <class F> void forTargets(const Invocation &call, F &&f) {
  for_dtype<std::int64_t, std::int32_t>(call.dtype("targets"), f);
}

// Launches what adds up the weights of classes, if the call has any.
inline Tensor<float, 1> classSums(Use &use) {
  if (!use.has("class_weights"))
    return noTensor<float, 1>();
  const auto sums = use.workspace<float, 1>({ClassSums::count});
  forTargets(use.call, [&]<class Target>(Target) {
    use(crossEntropySums<Target>, 1, MeanConfig{}, {{"sums", sums}});
  });
  return sums;
}

} // namespace sectile
