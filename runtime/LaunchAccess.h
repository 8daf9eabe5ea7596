// LaunchAccess: what the library does with a kept launch beside launching it at once.
#ifndef SECTILE_RUNTIME_LAUNCHACCESS_H
#define SECTILE_RUNTIME_LAUNCHACCESS_H

#include "runtime/Chip.h"
#include "runtime/CompileOptions.h"
#include "runtime/DeviceImpl.h"
#include <sectile/kernel.h>

namespace sectile::runtime {

struct LaunchAccess {
  /// Compiles the kernel and loads it, unless that has been done. It stays loaded.
  static const LoadedKernel &prepare(const detail::BoundLaunch &launch, const Device &device);
  /// The same for whoever keeps it: no launch finds it.
  static std::shared_ptr<const LoadedKernel> load(const detail::BoundLaunch &launch,
                                                  const Device &device);
  /// The code of it, not loaded; compiled unless the cache has it.
  static std::shared_ptr<const Artifact> code(const detail::BoundLaunch &launch,
                                              const Device &device);
  /// The grid as that code is launched.
  static Grid extents(const detail::BoundLaunch &launch, const Device &device);
  static void launch(const detail::BoundLaunch &launch, const Stream &stream);
  /// As Kernel::launch() does it.
  static void launch(const detail::KernelBase &kernel, const Stream &stream, const Grid &grid,
                     const detail::PackedLaunch &packed) {
    kernel.launch(stream, grid, packed);
  }
  /// The same with the code that prepare() or load() gave, in a stream of that device.
  static void launch(const detail::BoundLaunch &launch, const LoadedKernel &code,
                     const Stream &stream);
  /// Throws LaunchError where an argument lies elsewhere.
  static void checkOwners(const detail::BoundLaunch &launch, const Device &device);
  /// With the kernel's own options and the defaults where the launch says nothing.
  static CompileOptions options(const detail::BoundLaunch &launch);

  /// What the launch's code depends on beside the kernel and the chip: two launches of one kernel
  /// that have the same text here have the same code.
  static std::string specialization(const detail::BoundLaunch &launch, const Chip &chip);
};

/// While this is there, this thread's launches are those of one call. The kernel ahead of the first
/// may be anybody's: that launch overlaps it only where its code waits before it does anything
/// else.
class LaunchesOfCall {
public:
  LaunchesOfCall();
  ~LaunchesOfCall();
  LaunchesOfCall(const LaunchesOfCall &) = delete;
  LaunchesOfCall &operator=(const LaunchesOfCall &) = delete;

private:
  const bool before; ///< what it was for a call around this one
};

/// Whether this thread's launches are prepared only; returns what it was.
bool exchangePreparing(bool preparing);

} // namespace sectile::runtime

#endif
