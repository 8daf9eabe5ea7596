// What the kernels that turn rows have in common on the host: how pairs are made, how many turn,
// how fast, and the launch that turns them.
#pragma once
#include "kernels/Use.h"
#include "kernels/position/References.h"

namespace sectile {

// Options style, theta and rotary.
std::vector<OptionRow> rotationOptions();
void checkRotation(const Invocation &call);
// As those say.
RopeOptions ropeOptions(const Invocation &call);

// The fields m, heads and warps for rows of so many dims.
Config rowTiles(std::int64_t heads, std::int64_t dims);
// y [B, H, S, D] are the rows of x turned; y may be x. positions: [B, S], or offset, offset + 1,
// ...
void rotateRows(Use &use, const AnyTensor &x, const AnyTensor &y, const RopeOptions &options,
                const Config &tiles, const std::optional<Tensor<std::int32_t, 2>> &positions = {});

} // namespace sectile
