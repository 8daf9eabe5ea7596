// What a launch costs the host beyond the driver's call.
#ifndef SECTILE_BENCH_LAUNCH_H
#define SECTILE_BENCH_LAUNCH_H

#include <string>
#include <vector>

namespace sectile::bench {

struct LaunchCost {
  std::string kernel;
  unsigned arguments; ///< flattened
  double nanoseconds; ///< of one launch of a known specialisation: the fastest of many batches
};

/// Launches of a small and of a large kernel on a device that does nothing.
std::vector<LaunchCost> measureLaunches();

} // namespace sectile::bench

#endif
