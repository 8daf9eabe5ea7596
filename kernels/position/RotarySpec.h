// What the kernels that rotate rows have in common on the host: how pairs are made, how many
// rotate, how fast, and the launch that rotates them.
#pragma once
#include "kernels/calls/Use.h"
#include "kernels/position/References.h"

namespace sectile {

// Options style, theta and rotary, and those of the scaling of frequencies.
std::vector<OptionRow> rotationOptions();
// options: those of the call, with the length for dynamic scaling where the kernel knows it.
void checkRotation(const Invocation &call, const RotationOptions &options);
// As those say.
RotationOptions ropeOptions(const Invocation &call);

// RotaryNumbers, by the names of its fields.
struct RotaryValues {
  double step, rampBase = 0, rampPair = 0, rampFrequency = 0, rampShrink = 0, magnitude = 1;
};
RotaryValues rotaryValues(const RotationOptions &options);

// The fields m, heads and warps for x [batches, heads, rows, dims].
Config rowTiles(std::int64_t batches, std::int64_t heads, std::int64_t rows, std::int64_t dims);
// y [B, H, S, D] are the rows of x rotated; y may be x. positions: [B, S], or offset, offset + 1,
// ...
void rotateRows(Use &use, const AnyTensor &x, const AnyTensor &y, const RotationOptions &options,
                const Config &tiles, const std::optional<Tensor<std::int32_t, 2>> &positions = {});

} // namespace sectile
