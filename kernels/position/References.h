// What the kernels of this family must compute, done plainly on the host.
#pragma once
#include "kernels/References.h"

namespace sectile {

struct RopeOptions {
  bool interleaved = false;
  double theta = 10000;
  std::int64_t rotary = 0; // how many of the dims turn
  std::int64_t offset = 0; // position of the first row where no positions are given
  bool back = false;       // by the negative angle
};
// x [B, H, S, D], positions [B, S] or empty.
HostArray ropeReference(const HostArray &x, const HostArray &positions, const RopeOptions &options,
                        Arithmetic arithmetic);

} // namespace sectile
