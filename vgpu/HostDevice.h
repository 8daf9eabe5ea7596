// Devices that the host plays: the virtual GPUs and the interpreter.
#ifndef SECTILE_VGPU_HOSTDEVICE_H
#define SECTILE_VGPU_HOSTDEVICE_H

#include "runtime/DeviceImpl.h"
#include "vgpu/Finding.h"
#include "vgpu/Memory.h"
#include <map>
#include <mutex>

namespace sectile::runtime {

/// A kernel's fault with what was found.
class FoundFault : public KernelFault {
public:
  FoundFault(const std::string &device, vgpu::Finding finding)
      : KernelFault(device + ": " + finding.text()), finding(std::move(finding)) {}

  const vgpu::Finding finding;
};

/// Streams keep order by doing everything at once: a launch returns when the kernel has run.
class HostDevice : public DeviceImpl {
public:
  MemoryInfo memory() override;
  uint64_t allocate(size_t bytes) override;
  void free(uint64_t address) noexcept override;
  void setAllocator(Allocator allocator) override;
  void copyToDevice(uint64_t target, const void *source, size_t bytes) override;
  void copyToHost(void *target, uint64_t source, size_t bytes) override;
  void copyToDevice(uint64_t target, const void *source, size_t bytes, void *stream) override;
  void copyToHost(void *target, uint64_t source, size_t bytes, void *stream) override;
  void copyOnDevice(uint64_t target, uint64_t source, size_t bytes, void *stream) override;
  bool reaches(const DeviceImpl &other) const override;
  void copyFromOther(uint64_t target, DeviceImpl &other, uint64_t source, size_t bytes,
                     void *stream) override;
  void fill(uint64_t target, const void *pattern, size_t patternBytes, size_t count,
            void *stream) override;

  void synchronize() override { finishWork(); }
  void *createStream() override;
  void destroyStream(void *stream) noexcept override;
  void synchronizeStream(void *stream) override;
  void *createEvent(bool timed) override;
  void destroyEvent(void *event) noexcept override;
  void recordEvent(void *event, void *stream) override;
  void synchronizeEvent(void *) override { finishWork(); }
  bool eventDone(void *) override { return true; }
  void waitEvent(void *stream, void *event) override;
  float elapsedMilliseconds(void *from, void *to) override;
  void beginCapture(void *stream) override;
  void *endCapture(void *stream) override;
  uint64_t captureOf(void *stream) override;
  void launchGraph(void *graph, void *stream) override;
  void destroyGraph(void *graph) noexcept override;
  bool namesLines() const override { return true; }
  void launch(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
              void *stream) final;

protected:
  virtual vgpu::DeviceMemory &deviceMemory() = 0;
  virtual size_t argumentCount(const LoadedKernel &kernel) const = 0;
  /// The host or other work waits for what was launched so far.
  virtual void finishWork() noexcept {}
  /// Runs the kernel to its end.
  virtual void run(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
                   void *stream) = 0;

private:
  void refuseDefault(void *stream) const;
  /// An allocation of the user's allocator.
  struct Chosen {
    std::shared_ptr<const Allocator> allocator;
    size_t bytes;
  };

  void checkRange(uint64_t address, size_t bytes, const char *doing) const;

  std::mutex allocatorMutex; ///< guards what follows
  std::shared_ptr<const Allocator> allocator;
  std::map<uint64_t, Chosen> fromAllocators;
};

} // namespace sectile::runtime

#endif
