// A virtual GPU: device memory and launches. Kernels come as Programs.
#pragma once
#include "vgpu/Counters.h"
#include "vgpu/Finding.h"
#include "vgpu/Memory.h"
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace sectile::vgpu {

class Cluster;
class Program;
struct EarlierLaunch;

struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1}; // threads
  uint32_t sharedBytes = 0;      // dynamic shared memory
  // Blocks that run together, in each direction a divisor of the grid; zeros: the launch has no
  // clusters.
  uint32_t cluster[3] = {};
};

struct LaunchOptions {
  uint64_t seed = 0;        // 0: in order; any other value is another schedule
  bool checks = true;       // bounds, alignment, races, …
  bool counters = true;     // accesses; operations are always counted
  unsigned hostThreads = 0; // 0: all
  double deadline = 0;      // seconds of processor time of a host thread; 0: none
  // A launch that may still run until a thread waits for it.
  std::shared_ptr<const EarlierLaunch> overlapped = nullptr;
};

struct LaunchResult {
  Counters counters; // complete only without a finding
  std::optional<Finding> finding;
  std::vector<AllocationCounters> allocations;       // those that were read, by address
  std::shared_ptr<EarlierLaunch> launched = nullptr; // for the next one; null without checks
};

class Machine {
public:
  explicit Machine(unsigned warpSize);
  ~Machine();

  DeviceMemory &memory() { return deviceMemory; }
  unsigned warpSize() const { return lanes; }

  // Runs a grid to its end. `arguments` points to each argument's value, as for the drivers'
  // launches. Deterministic for kernels whose blocks do not communicate: the finding is the one of
  // the first block that has any. Several host threads may launch at once; memory that a running
  // kernel uses must not be freed.
  LaunchResult launch(const Program &program, const LaunchShape &shape, void **arguments,
                      const LaunchOptions &options = {});

private:
  std::unique_ptr<Cluster> takeCluster();

  DeviceMemory deviceMemory;
  unsigned lanes;
  std::mutex mutex;
  std::vector<std::unique_ptr<Cluster>> idleClusters; // with their stacks and shadows
};

} // namespace sectile::vgpu
