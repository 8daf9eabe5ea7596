// The virtual GPU as a device like any other: "virtual:sm_90" runs what would run on the chip.
#ifndef SECTILE_RUNTIME_VIRTUAL_VIRTUALDEVICE_H
#define SECTILE_RUNTIME_VIRTUAL_VIRTUALDEVICE_H

#include "runtime/DeviceImpl.h"
#include "runtime/virtual/Machine.h"
#include <mutex>
#include <string_view>

namespace sectile::runtime {

/// A kernel did on the virtual GPU what it must not do.
class KernelFault : public DeviceError {
public:
  KernelFault(const std::string &device, vgpu::Finding finding)
      : DeviceError(device + ": " + finding.text()), finding(std::move(finding)) {}

  const vgpu::Finding finding;
};

/// Streams of a virtual device keep order by doing everything at once: a launch returns when the
/// kernel has run.
class VirtualDevice final : public DeviceImpl {
public:
  explicit VirtualDevice(std::string_view target);

  MemoryInfo memory() override;
  uint64_t allocate(size_t bytes) override;
  void free(uint64_t address) noexcept override;
  void copyToDevice(uint64_t target, const void *source, size_t bytes) override;
  void copyToHost(void *target, uint64_t source, size_t bytes) override;
  void copyOnDevice(uint64_t target, uint64_t source, size_t bytes, void *stream) override;
  void fill(uint64_t target, const void *pattern, size_t patternBytes, size_t count,
            void *stream) override;

  void synchronize() override {}
  void *createStream() override;
  void destroyStream(void *stream) noexcept override;
  void synchronizeStream(void *stream) override;
  void *createEvent() override;
  void destroyEvent(void *event) noexcept override;
  void recordEvent(void *event, void *stream) override;
  void synchronizeEvent(void *) override {}
  bool eventDone(void *) override { return true; }
  void waitEvent(void *, void *) override {}
  float elapsedMilliseconds(void *from, void *to) override;
  void beginCapture(void *stream) override;
  void *endCapture(void *stream) override;
  void launchGraph(void *graph, void *stream) override;
  void destroyGraph(void *graph) noexcept override;

  std::unique_ptr<LoadedKernel> load(const Artifact &artifact) override;
  void launch(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
              void *stream) override;

  vgpu::Machine &machine() { return theMachine; }
  /// How kernels run from now on. At first as SECTILE_VIRTUAL_SEED and SECTILE_VIRTUAL_CHECKS (0 or
  /// 1) say.
  void setOptions(const vgpu::LaunchOptions &options);
  /// What the last launch counted.
  vgpu::Counters lastCounters() const;

private:
  void checkRange(uint64_t address, size_t bytes, const char *doing) const;
  void run(const LoadedKernel &kernel, const GridExtents &grid, void **arguments);

  vgpu::Machine theMachine;
  bool printCounters = false; ///< after each launch, as SECTILE_VIRTUAL_COUNTERS says
  mutable std::mutex mutex;   ///< guards what follows
  vgpu::LaunchOptions options;
  vgpu::Counters counters;
};

/// "sm_90" or any other target's name.
std::shared_ptr<DeviceImpl> openVirtualDevice(std::string_view target);

} // namespace sectile::runtime

#endif
