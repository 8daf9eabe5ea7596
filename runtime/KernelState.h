// What is kept for a kernel: its loaded code, and how launches find it.
#ifndef SECTILE_RUNTIME_KERNELSTATE_H
#define SECTILE_RUNTIME_KERNELSTATE_H

#include "runtime/LaunchFacts.h"
#include "runtime/Specialization.h"
#include <array>
#include <map>
#include <mutex>

namespace sectile::detail {

struct KernelState {
  explicit KernelState(const KernelDesc &desc)
      : masks{runtime::countingBits(desc.args, runtime::noBound),
              runtime::countingBits(desc.args, runtime::someIndices),
              runtime::countingBits(desc.args, runtime::allIndices)} {}

  const std::vector<runtime::ArgumentMask> &masksFor(const runtime::DeviceImpl &device) const {
    return masks[runtime::boundKindOf(device.indexBound())];
  }
  size_t countArguments() const { return masks[0].size(); }

  const std::array<std::vector<runtime::ArgumentMask>, runtime::boundKinds> masks;
  runtime::SpecializationTable table;
  std::mutex mutex; ///< guards what follows
  std::map<std::vector<uint64_t>, std::string> codeHashes;
  /// What is known of the arguments in each version that was loaded, by the rest of its key.
  std::map<std::vector<uint64_t>, std::vector<std::vector<uint8_t>>> versions;
};

/// With the kernel's own options and the defaults where the launch says nothing.
CompileOptions resolve(const LaunchOptions &launch, const LaunchOptions &kernel);

/// The axis of this grid that is launched as the first one, where a device takes many more programs
/// along that; 0 where the grid is launched as it is.
unsigned longAxisOf(const Grid &grid, const DeviceLimits &limits);

} // namespace sectile::detail

#endif
