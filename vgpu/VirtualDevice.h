// The virtual GPU as a device like any other: "virtual:sm_90a" runs what would run on the chip.
#ifndef SECTILE_VGPU_VIRTUALDEVICE_H
#define SECTILE_VGPU_VIRTUALDEVICE_H

#include "vgpu/HostDevice.h"
#include "vgpu/Machine.h"
#include <functional>
#include <map>
#include <mutex>
#include <string_view>

namespace sectile::runtime {

/// A chip's stand-in on the host. It runs what bundles have for it; a program that compiles opens
/// one that compiles, too.
class VirtualDevice : public HostDevice {
public:
  explicit VirtualDevice(std::string_view target);

  std::string codeKey() const override;
  std::shared_ptr<LoadedKernel> load(const Artifact &artifact) override;

  vgpu::Machine &machine() { return theMachine; }
  /// How kernels run from now on. At first as SECTILE_VIRTUAL_SEED, SECTILE_VIRTUAL_CHECKS (0 or 1)
  /// and SECTILE_VIRTUAL_DEADLINE (seconds) say. A launch beyond its deadline throws
  /// DeadlinePassed.
  void setOptions(const vgpu::LaunchOptions &options);
  /// From now on launches count their accesses, too, which takes time. At first they do where
  /// SECTILE_VIRTUAL_COUNTERS or a WatchLaunches asks for it.
  void countAccesses();
  /// What the last launch counted, of a device that counts accesses.
  vgpu::Counters lastCounters() const;
  /// The allocations that the last launch read, by address.
  std::vector<vgpu::AllocationCounters> lastAllocations() const;

  /// While it lives, what this thread launches on virtual devices is counted and handed over,
  /// whatever other threads launch. A launch that takes longer than the deadline throws
  /// DeadlinePassed.
  class WatchLaunches {
  public:
    using Launch = std::function<void(const LoadedKernel &, const vgpu::Counters &)>;
    explicit WatchLaunches(Launch launch, double deadline = 0);
    ~WatchLaunches();
    WatchLaunches(const WatchLaunches &) = delete;

  private:
    friend VirtualDevice;
    Launch launch;
    double deadline; ///< seconds of processor time; 0: none
    WatchLaunches *before;
  };

private:
  vgpu::DeviceMemory &deviceMemory() override { return theMachine.memory(); }
  size_t argumentCount(const LoadedKernel &kernel) const override;
  void run(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
           void *stream) override;
  void finishWork() noexcept override;

  const bool launchesOverlap;
  vgpu::Machine theMachine;
  bool printCounters = false; ///< after each launch, as SECTILE_VIRTUAL_COUNTERS says
  mutable std::mutex mutex;   ///< guards what follows
  vgpu::LaunchOptions options;
  vgpu::Counters counters;
  std::vector<vgpu::AllocationCounters> allocations;
  /// By stream, the launch that the next one may overlap.
  std::map<void *, std::shared_ptr<const vgpu::EarlierLaunch>> latest;
};

} // namespace sectile::runtime

#endif
