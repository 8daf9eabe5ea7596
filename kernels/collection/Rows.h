// What the kernels over rows of numbers share: the extreme values of a type, and configurations by
// the rows' length.
#pragma once
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/references/Sample.h"
#include <algorithm>
#include <limits>

namespace sectile {

// Below (above) or equal to all other values but NaN.
template <class T> constexpr auto lowestOf() {
  if constexpr (std::is_integral_v<T>)
    return std::numeric_limits<T>::min();
  else
    return -std::numeric_limits<float>::infinity();
}
template <class T> constexpr auto highestOf() {
  if constexpr (std::is_integral_v<T>)
    return std::numeric_limits<T>::max();
  else
    return std::numeric_limits<float>::infinity();
}

inline std::int64_t powerFor(std::int64_t length, std::int64_t least, std::int64_t most) {
  return std::clamp(powerAtLeast(std::max<std::int64_t>(length, 1)), least, most);
}

inline ArgumentRow rowsArgument(const char *doc) {
  const auto sample = [](const Invocation &, HostArray &array, std::mt19937_64 &random) {
    std::normal_distribution<double> normal(0, is_floating(array.dtype) ? 1 : 20);
    fillDrawn(array, [&] {
      return is_floating(array.dtype) ? normal(random) : std::round(normal(random));
    });
  };
  return {"x: [..., N] f32|f16|bf16|i32", doc, {.sample = sample}};
}

// The place of the option's value among its choices.
inline int choiceOf(const Invocation &call, const std::string &option) {
  const auto &options = call.kernel->options;
  const auto spec = std::find_if(options.begin(), options.end(),
                                 [&](const OptionSpec &one) { return one.name == option; });
  return static_cast<int>(
      std::find(spec->choices.begin(), spec->choices.end(), call.options.choice(option)) -
      spec->choices.begin());
}

// Blocks of a row for a number of warps, for the tuner.
inline std::vector<SearchSpace> blockSpaces(const char *part) {
  return {{.part = part,
           .axes = {{"block", {64, 256, 1024, 2048, 4096, 8192}}, {"warps", {1, 2, 4, 8}}},
           .where = tilesWithin({"block"}, 1, 64, {{"block", 64, "N"}})}};
}

const std::vector<ConfigSpec> blockConfig = {{"block", "elements of a row held at once"},
                                             {"warps", "warps of one program"}};

} // namespace sectile
