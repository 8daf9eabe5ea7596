// DeviceImpl: what a back end (CUDA, HIP, the virtual GPU) does for the devices, streams, events
// and graphs that the public headers show. Every function but the marked ones throws DeviceError or
// LaunchError.
#ifndef SECTILE_RUNTIME_DEVICEIMPL_H
#define SECTILE_RUNTIME_DEVICEIMPL_H

#include "runtime/Artifact.h"
#include "runtime/Captures.h"
#include "runtime/Chip.h"
#include "runtime/DebugLogs.h"
#include "runtime/Events.h"
#include <atomic>
#include <memory>
#include <sectile/device.h>
#include <sectile/stream.h>
#include <string>

namespace sectile::runtime {

struct GridExtents {
  unsigned x = 1, y = 1, z = 1;
  bool dependent = false; ///< the blocks may start before the kernel ahead of them is done
};

/// A launch took longer than it was allowed to.
class DeadlinePassed : public DeviceError {
public:
  using DeviceError::DeviceError;
};

/// The device has too little memory.
class OutOfMemory : public DeviceError {
public:
  using DeviceError::DeviceError;
};

/// A kernel did what it must not do.
class KernelFault : public DeviceError {
public:
  using DeviceError::DeviceError;
};

/// A kernel on a device, ready to launch.
class LoadedKernel : public std::enable_shared_from_this<LoadedKernel> {
public:
  explicit LoadedKernel(const Artifact &artifact)
      : name(artifact.entry), threads(artifact.plan.threads),
        sharedBytes(artifact.plan.sharedBytes), cluster(artifact.plan.cluster),
        wait(artifact.plan.wait), firstTensorMap(artifact.plan.firstTensorMap),
        tensorMaps(artifact.plan.tensorMaps), resources(artifact.resources),
        debug(artifact.debugSites.empty() ? nullptr
                                          : std::make_shared<DebugKernel>(
                                                DebugKernel{artifact.entry, artifact.debugSites})) {
  }
  virtual ~LoadedKernel() = default;

  const std::string name;
  const unsigned threads;
  const unsigned sharedBytes;
  /// The grid's axis that a launch exchanges with the first one, as its code does.
  unsigned longAxis = 0;
  const unsigned cluster; ///< blocks along the grid's first axis that run side by side
  const WaitPoint wait;
  /// The last arguments, which a launch makes of the others: from this number on.
  const unsigned firstTensorMap;
  const std::vector<TensorMapPlan> tensorMaps;
  Resources resources; ///< as far as they are known
  /// Of a kernel that asserts or prints: it is launched through DebugLogs.
  const std::shared_ptr<DebugKernel> debug;
};

/// All of a chip that compiled code depends on.
std::string codeKeyOf(const Chip &chip);

class DeviceImpl : public std::enable_shared_from_this<DeviceImpl> {
public:
  virtual ~DeviceImpl() = default;

  std::string name, description, target;
  DeviceLimits limits;
  int dlpackDevice = 0; ///< DLPack's number of this kind of device
  int dlpackIndex = 0;  ///< and of this one among them
  Stream ownStream{nullptr};
  DebugLogs debugLogs{*this};
  Captures captures{*this};
  Events events{*this};

  /// A kernel that does not end cannot be stopped, and much of a driver waits for it: from now on
  /// the driver is not asked for anything, whatever asks for it throws this message, and what is
  /// given back stays with the driver until the process ends.
  void abandon(const std::string &why);
  static bool anyIsLost();
  /// The same of a device that the driver has nothing of any more.
  void end(const std::string &why);
  bool isLost() const { return lost.load(std::memory_order_acquire) != nullptr; }
  /// Throws DeviceError where it is.
  void requireNotLost() const {
    if (isLost())
      throw DeviceError(*lost.load(std::memory_order_acquire));
  }

  /// What other libraries of the vendor need of this thread, for as long as this is kept.
  virtual std::shared_ptr<void> makeCurrent() { return nullptr; }
  /// Destroys all that the process has on the device, after end(). Whatever handles there are stay.
  virtual void reset() {}
  /// Whether streams of this device can wait for events of the other, and copy from its memory.
  virtual bool reaches(const DeviceImpl &other) const { return this == &other; }
  /// Of the driver under it; empty where there is none.
  virtual std::string driverVersion() { return ""; }
  virtual MemoryInfo memory() = 0;
  /// Memory that all streams may use, and its end: when the work is done that the streams known
  /// here have now. Neither waits, where there are pools, and captures go on.
  virtual uint64_t allocate(size_t bytes) = 0;
  virtual void free(uint64_t address) noexcept = 0;
  /// The same for host memory that the device copies from and to.
  virtual void *allocateHost(size_t bytes);
  virtual void freeHost(void *address) noexcept;
  virtual void setAllocator(Allocator allocator) = 0;
  virtual void trim() {}
  /// Gives the driver back what has come to its end meanwhile.
  virtual void collect() noexcept {}

  /// These two wait for all work in the device's streams and in adopted ones, and have done all of
  /// theirs when they return. Like all that waits, they throw DeviceError, and the capture goes on,
  /// where what they would wait for is being captured.
  virtual void copyToDevice(uint64_t target, const void *source, size_t bytes) = 0;
  virtual void copyToHost(void *target, uint64_t source, size_t bytes) = 0;
  /// Work in the stream, with memory of allocateHost().
  virtual void copyToDevice(uint64_t target, const void *source, size_t bytes, void *stream) = 0;
  virtual void copyToHost(void *target, uint64_t source, size_t bytes, void *stream) = 0;
  virtual void copyOnDevice(uint64_t target, uint64_t source, size_t bytes, void *stream) = 0;
  /// From the memory of another device that this one reaches.
  virtual void copyFromOther(uint64_t target, DeviceImpl &other, uint64_t source, size_t bytes,
                             void *stream) = 0;
  /// Writes a pattern of 1, 2, 4 or 8 bytes `count` times.
  virtual void fill(uint64_t target, const void *pattern, size_t patternBytes, size_t count,
                    void *stream) = 0;

  virtual void synchronize() = 0;
  virtual void *createStream() = 0;
  virtual void destroyStream(void *stream) noexcept = 0;
  virtual void synchronizeStream(void *stream) = 0;

  /// A stream that another library made. It has to be there until it was released as often as it
  /// was adopted.
  virtual void adoptStream(void *) {}
  virtual void releaseStream(void *) noexcept {}

  /// To be had from `events`. One without a time costs less.
  virtual void *createEvent(bool timed) = 0;
  virtual void destroyEvent(void *event) noexcept = 0;
  virtual void recordEvent(void *event, void *stream) = 0;
  virtual void synchronizeEvent(void *event) = 0;
  virtual bool eventDone(void *event) = 0;
  virtual void waitEvent(void *stream, void *event) = 0;
  virtual float elapsedMilliseconds(void *from, void *to) = 0;

  virtual void beginCapture(void *stream) = 0;
  virtual void *endCapture(void *stream) = 0;
  /// A number of the capture that work in the stream is part of; 0 where there is none.
  virtual uint64_t captureOf(void *stream) = 0;
  /// Has the graph of a capture that another library began keep a thing; false where it cannot.
  /// What ends with the thing must not call the driver.
  virtual bool keepInGraph(void *, std::shared_ptr<const void>) { return false; }
  virtual void launchGraph(void *graph, void *stream) = 0;
  virtual void destroyGraph(void *graph) noexcept = 0;

  /// All that compiled code depends on beside the kernel and how it is compiled.
  virtual std::string codeKey() const;
  /// Chip::indexBound() of its chip; of none, 0.
  int64_t indexBound() const;
  /// Whether what is loaded names lines of the kernel's source.
  virtual bool namesLines() const { return false; }
  virtual std::shared_ptr<LoadedKernel> load(const Artifact &artifact) = 0;
  /// Neither waits nor allocates on a real device. In a capture the graph keeps the kernel. Each of
  /// `arguments` points to a value in a 64-bit word of its own.
  virtual void launch(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
                      void *stream) = 0;

  /// Throws LaunchError when the device cannot hold one block of this kernel.
  void checkResources(const Artifact &artifact) const;
  /// Throws LaunchError when the grid is larger than the device takes, or no whole clusters.
  void checkGrid(const LoadedKernel &kernel, const GridExtents &grid) const {
    if (grid.x > limits.max_grid[0] || grid.y > limits.max_grid[1] || grid.z > limits.max_grid[2])
      throwGridTooLarge(kernel, grid);
    if (grid.x % kernel.cluster)
      throwGridUneven(kernel, grid);
  }

private:
  [[noreturn]] void throwGridTooLarge(const LoadedKernel &kernel, const GridExtents &grid) const;
  [[noreturn]] void throwGridUneven(const LoadedKernel &kernel, const GridExtents &grid) const;

  std::atomic<const std::string *> lost = nullptr; ///< why; stays for as long as the process
  mutable std::atomic<int64_t> knownBound =
      -1; ///< indexBound(), which every launch asks; -1: not yet
};

/// Who makes and destroys a stream.
enum class StreamOwner { device, handle, otherLibrary };

struct StreamImpl {
  std::shared_ptr<DeviceImpl> device;
  void *handle;
  StreamOwner owner;

  StreamImpl(std::shared_ptr<DeviceImpl> device, void *handle, StreamOwner owner)
      : device(std::move(device)), handle(handle), owner(owner) {
    if (owner == StreamOwner::otherLibrary)
      this->device->adoptStream(handle);
  }
  StreamImpl(const StreamImpl &) = delete;
  ~StreamImpl() {
    if (owner == StreamOwner::device)
      return;
    device->debugLogs.forget(handle);
    if (owner == StreamOwner::otherLibrary) {
      device->releaseStream(handle);
    } else {
      device->captures.end(handle);
      device->destroyStream(handle);
    }
  }
};

struct EventImpl {
  std::shared_ptr<DeviceImpl> device;
  PooledEvent event;
  void *stream = nullptr; ///< that it was recorded in

  EventImpl(const std::shared_ptr<DeviceImpl> &device, bool timed)
      : device(device), event(*device, timed) {}
  /// Of another library.
  EventImpl(const std::shared_ptr<DeviceImpl> &device, void *handle)
      : device(device), event(*device, handle) {}
};

struct GraphImpl {
  std::shared_ptr<DeviceImpl> device;
  void *handle;
  DebugLogs::Log *log; ///< that its kernels write to; nullptr for none
  const Kept used;     ///< memory and code

  GraphImpl(std::shared_ptr<DeviceImpl> device, void *handle, DebugLogs::Log *log, Kept used)
      : device(std::move(device)), handle(handle), log(log), used(std::move(used)) {}
  GraphImpl(const GraphImpl &) = delete;
  ~GraphImpl() { device->destroyGraph(handle); }
};

} // namespace sectile::runtime

#endif
