// Which elements of a matrix share a scale.
#pragma once
#include "kernels/calls/Use.h"
#include "kernels/references/HostArray.h"
#include <optional>
#include <sectile/error.h>
#include <string>

namespace sectile {

// In the order of the option's choices.
enum class Granularity : int { tensor, row, group, block };

inline Granularity granularityOf(const OptionValues &options) {
  const std::string &name = options.choice("granularity");
  return name == "tensor"  ? Granularity::tensor
         : name == "row"   ? Granularity::row
         : name == "group" ? Granularity::group
                           : Granularity::block;
}

// The rows and columns that share a scale; of an empty axis one scale, where it is shared whole.
struct ScaleBlock {
  std::int64_t rows, columns;
};
inline ScaleBlock scaleBlockOf(const Invocation &call) {
  const std::int64_t m = std::max<std::int64_t>(call.extent("M"), 1),
                     k = std::max<std::int64_t>(call.extent("K"), 1),
                     block = std::max<std::int64_t>(call.options.integer("block"), 1);
  switch (granularityOf(call.options)) {
  case Granularity::tensor:
    return {m, k};
  case Granularity::row:
    return {1, k};
  case Granularity::group:
    return {1, block};
  case Granularity::block:
    break;
  }
  return {block, block};
}

// What the kernels of this family take of scales beside the formats.
ArgumentRow givenScale();
OptionRow largestMagnitudeOption();
// Throws InputError for an option `block` other than 32, 64 and 128, and for a scale that is given
// beside a scale_format other than f32 or a scale_ub.
void checkScales(const Invocation &call);
// Throws InputError for a scale that is given, and is no positive number.
void checkGivenScale(const Invocation &call, std::span<const HostArray> inputs);

// What scales are beside those of the largest magnitudes.
struct ScaleLimits {
  std::optional<double> given; // what all scales are
  double most = 0;             // of the largest magnitudes; 0: any
};
ScaleLimits limitsOf(const Invocation &call, std::span<const HostArray> inputs);

// How numbers become codes: which of them share a scale, how many scales there are down and across,
// the codes' dtype, and the option scale_format.
struct CodeFormat {
  ScaleBlock block;
  ScaleBlock scales;
  DType code;
  std::string scaleFormat;
  ScaleLimits limits = {};
};
// x [M, K] -> codes and scales.
std::vector<HostArray> quantizedReference(const HostArray &x, const CodeFormat &format,
                                          Arithmetic arithmetic);
// What quantize and, of silu(gate) * up, silu_mul_quantize compute: y and the scales.
ReferenceFunction quantizeReference;

// Smaller scales, those of zeros among them, become this one. It is a normal number, and so is its
// reciprocal.
constexpr double leastScale = 0x1p-126;

} // namespace sectile
