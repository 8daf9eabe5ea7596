// What devices of CUDA and of HIP have in common: kernels, memory, streams, events and captured
// graphs, by the functions of a driver's table, which have the same names in both tables.
#ifndef SECTILE_RUNTIME_DRIVERDEVICE_H
#define SECTILE_RUNTIME_DRIVERDEVICE_H

#include "runtime/DeviceImpl.h"
#include "runtime/DriverPool.h"
#include "runtime/ForeignStreams.h"
#include "runtime/Lost.h"
#include "runtime/Retired.h"
#include "runtime/Symbol.h"
#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <unordered_map>

namespace sectile::runtime {

/// The same numbers in both.
namespace driver {
inline constexpr int success = 0, errorOutOfMemory = 2, errorNotReady = 600,
                     errorCaptureImplicit = 906;
inline constexpr int captureThreadLocal = 1, captureRelaxed = 2; // modes
inline constexpr int captureNone = 0, captureActive = 1;         // what a stream is in
inline constexpr unsigned streamNonBlocking = 1, eventWithoutTime = 2, hostPortable = 1,
                          userObjectWithoutSync = 1, userObjectMoves = 1; // flags
inline constexpr uintptr_t lastDefaultStream = 2; // of the handles that are numbers
} // namespace driver

/// While it lives, this thread may do beside a capture what a driver calls unsafe.
template <class Driver> class BesideCaptures {
public:
  BesideCaptures() { Driver::get().threadExchangeStreamCaptureMode(&mode); }
  BesideCaptures(const BesideCaptures &) = delete;
  ~BesideCaptures() { Driver::get().threadExchangeStreamCaptureMode(&mode); }

private:
  int mode = driver::captureRelaxed;
};

/// `Current` makes a place, a context or a device, this thread's current one while it lives, or
/// throws. The device stays open for as long as the process.
template <class Driver, class Current> class DriverKernel : public LoadedKernel {
public:
  DriverKernel(const Artifact &artifact, Retired &retired, typename Current::Place place,
               void *module)
      : LoadedKernel(artifact), retired(retired), place(place), module(module) {}
  ~DriverKernel() override {
    const auto unload = [place = place, module = module] {
      const Current current(place);
      const BesideCaptures<Driver> beside; // There may be some that nobody told us of.
      Driver::get().moduleUnload(module);
      return true;
    };
    retired.add(unload, /*alone=*/true); // It may be running.
  }

  void *function = nullptr;

private:
  Retired &retired;
  typename Current::Place place;
  void *module;
};

template <class Driver, class Current> class DriverDevice : public DeviceImpl {
public:
  MemoryInfo memory() override {
    MemoryInfo info{};
    call("asking for the memory there is", table().memGetInfo, &info.free_bytes, &info.total_bytes);
    std::lock_guard lock(memoryMutex);
    info.free_bytes += pool.unusedBytes();
    return info;
  }

  uint64_t allocate(size_t bytes) override {
    if (bytes == 0)
      return 0;
    retired.collect();
    const Current current = enter();
    const BesideCaptures<Driver> beside;
    if (const auto chosen = openMemory())
      return allocateFrom(chosen, bytes);
    uint64_t address = 0;
    int error = pool.allocate(&address, bytes, memoryStream);
    if (error == driver::errorOutOfMemory) {
      retired.wait();
      pool.trim(memoryStream);
      error = pool.allocate(&address, bytes, memoryStream);
    }
    if (!error)
      return address;
    std::string doing = "allocating " + std::to_string(bytes) + " bytes";
    if (error == driver::errorOutOfMemory) {
      const MemoryInfo info = memory();
      doing += " (" + std::to_string(info.free_bytes) + " of " + std::to_string(info.total_bytes) +
               " are free)";
      throw OutOfMemory(name + ": " + doing + ": " + table().describe(error));
    }
    fail(error, doing);
  }
  void free(uint64_t address) noexcept override {
    if (!address)
      return;
    retired.add(
        [this, address] {
          if (isLost())
            return true;
          const Current current(place);
          const BesideCaptures<Driver> beside;
          if (Chosen chosen = takeChosen(address); chosen.allocator) {
            chosen.allocator->free(address, chosen.bytes, memoryStream);
            return true;
          }
          return pool.free(address, memoryStream) == driver::success;
        },
        /*alone=*/!pool.isPool());
  }
  void setAllocator(Allocator given) override {
    if (!given.allocate != !given.free)
      throw DeviceError(name + ": an allocator needs both functions");
    std::lock_guard lock(memoryMutex);
    allocator = given.allocate ? std::make_shared<const Allocator>(std::move(given)) : nullptr;
  }

  void *allocateHost(size_t bytes) override {
    if (bytes == 0)
      return nullptr;
    retired.collect();
    const size_t size = std::bit_ceil(std::max<size_t>(bytes, 4096));
    {
      std::lock_guard lock(memoryMutex);
      if (auto &blocks = freeHostBlocks[size]; !blocks.empty()) {
        void *const block = blocks.back();
        blocks.pop_back();
        freeHostBytes -= size;
        return block;
      }
    }
    const Current current = enter();
    const BesideCaptures<Driver> beside;
    void *block = nullptr;
    check(table().memHostAlloc(&block, size, driver::hostPortable),
          "allocating " + std::to_string(size) + " bytes of host memory");
    std::lock_guard lock(memoryMutex);
    hostBlocks[block] = size;
    return block;
  }
  void freeHost(void *block) noexcept override {
    if (!block)
      return;
    retired.add(
        [this, block] {
          std::unique_lock lock(memoryMutex);
          const size_t size = hostBlocks.at(block);
          if (freeHostBytes + size <= mostFreeHostBytes) {
            freeHostBytes += size;
            freeHostBlocks[size].push_back(block);
            return true;
          }
          hostBlocks.erase(block);
          lock.unlock();
          retired.add([this, block] { return giveHostBack(block); }, /*alone=*/true);
          return true;
        },
        /*alone=*/false);
  }

  void trim() override {
    retired.collect();
    const Current current = enter();
    const BesideCaptures<Driver> beside;
    pool.trim(memoryStream);
    std::vector<void *> unused;
    {
      std::lock_guard lock(memoryMutex);
      for (const auto &[size, blocks] : std::exchange(freeHostBlocks, {}))
        for (void *block : blocks) {
          hostBlocks.erase(block);
          unused.push_back(block);
        }
      freeHostBytes = 0;
    }
    for (void *block : unused)
      retired.add([this, block] { return giveHostBack(block); }, /*alone=*/true);
  }
  void collect() noexcept override { retired.collect(); }

  void copyToDevice(uint64_t to, const void *from, size_t bytes) override {
    waitForAll("copying to the device");
    call("copying to the device", table().memcpyHtoD, to, from, bytes);
    // Of memory that is not pinned the driver has made its own copy by now, and no more.
    call("copying to the device", table().streamSynchronize, legacyStream);
  }
  void copyToHost(void *to, uint64_t from, size_t bytes) override {
    waitForAll("copying to the host");
    call("copying to the host", table().memcpyDtoH, to, from, bytes);
  }
  void copyToDevice(uint64_t to, const void *from, size_t bytes, void *stream) override {
    call("copying to the device", table().memcpyHtoDAsync, to, from, bytes, stream);
  }
  void copyToHost(void *to, uint64_t from, size_t bytes, void *stream) override {
    call("copying to the host", table().memcpyDtoHAsync, to, from, bytes, stream);
  }
  void copyOnDevice(uint64_t to, uint64_t from, size_t bytes, void *stream) override {
    call("copying on the device", table().memcpyDtoDAsync, to, from, bytes, stream);
  }

  bool reaches(const DeviceImpl &other) const override {
    return dynamic_cast<const DriverDevice *>(&other) != nullptr;
  }
  void copyFromOther(uint64_t to, DeviceImpl &other, uint64_t from, size_t bytes,
                     void *stream) override {
    other.requireNotLost();
    call("copying from another device", table().memcpyPeerAsync, to, place, from,
         static_cast<DriverDevice &>(other).place, bytes, stream);
  }

  void fill(uint64_t to, const void *pattern, size_t patternBytes, size_t count,
            void *stream) override {
    uint32_t words[2] = {};
    std::memcpy(words, pattern, patternBytes);
    if (patternBytes == 1)
      call(filling, table().memsetD8Async, to, static_cast<unsigned char>(words[0]), count, stream);
    else if (patternBytes == 2)
      call(filling, table().memsetD16Async, to, static_cast<unsigned short>(words[0]), count,
           stream);
    else if (patternBytes == 4 || words[0] == words[1])
      call(filling, table().memsetD32Async, to, words[0], count * (patternBytes / 4), stream);
    else
      fillPairs(to, words, count, stream);
  }

  void synchronize() override {
    refuse(captureOf(legacyStream) || foreign.captured(), "waiting for the device");
    const uint64_t gone = foreign.gone();
    call("waiting for the device", table().synchronize);
    foreign.waitedForAll(gone);
  }

  void *createStream() override {
    void *stream = nullptr;
    // Flags 0: such a stream keeps its order with the legacy default stream, which the copies to
    // and from the host use.
    call("creating a stream", table().streamCreate, &stream, 0u);
    return stream;
  }
  void destroyStream(void *stream) noexcept override {
    foreign.ending(stream);
    release(table().streamDestroy, stream);
  }
  void synchronizeStream(void *stream) override {
    refuse(captureOf(stream), "waiting for a stream");
    call("waiting for a stream", table().streamSynchronize, stream);
  }
  void adoptStream(void *stream) override {
    // The default streams block; one of them is another stream for each thread.
    if (reinterpret_cast<uintptr_t>(stream) <= driver::lastDefaultStream)
      return;
    // A driver that is asked about a stream ends the capture that it is part of. Any may be one
    // that the driver does not keep in order with others.
    if (isCaptured(stream))
      return foreign.add(stream);
    checkOwnerOf(stream);
    unsigned flags = 0;
    call("asking what a stream is", table().streamGetFlags, stream, &flags);
    if (flags & driver::streamNonBlocking)
      foreign.add(stream);
  }
  void releaseStream(void *stream) noexcept override { foreign.remove(stream); }

  void *createEvent(bool timed) override {
    void *event = nullptr;
    call("creating an event", table().eventCreate, &event, timed ? 0u : driver::eventWithoutTime);
    return event;
  }
  void destroyEvent(void *event) noexcept override { release(table().eventDestroy, event); }
  void recordEvent(void *event, void *stream) override {
    call("recording an event", table().eventRecord, event, stream);
  }
  void synchronizeEvent(void *event) override {
    call("waiting for an event", table().eventSynchronize, event);
  }
  bool eventDone(void *event) override {
    const Current current = enter();
    const BesideCaptures<Driver> beside;
    const int result = table().eventQuery(event);
    if (result != driver::errorNotReady)
      check(result, "asking for an event");
    return result == driver::success;
  }
  void waitEvent(void *stream, void *event) override {
    call("making a stream wait for an event", table().streamWaitEvent, stream, event, 0u);
  }
  float elapsedMilliseconds(void *from, void *to) override {
    float milliseconds = 0;
    call("measuring the time between events", table().eventElapsedTime, &milliseconds, from, to);
    return milliseconds;
  }

  void beginCapture(void *stream) override {
    call("starting a capture", table().streamBeginCapture, stream, driver::captureThreadLocal);
  }
  void *endCapture(void *stream) override {
    void *graph = nullptr;
    call("ending a capture", table().streamEndCapture, stream, &graph);
    const Current current = enter();
    void *executable = nullptr;
    const int result = table().graphInstantiate(&executable, graph, 0ull);
    table().graphDestroy(graph);
    check(result, "making the captured graph executable");
    return executable;
  }
  uint64_t captureOf(void *stream) override {
    const Current current = enter();
    int status = driver::captureNone;
    uint64_t id = 0;
    const int error = table().streamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr);
    // The legacy stream takes part in no capture, but in those of blocking streams as good as.
    if (error == driver::errorCaptureImplicit)
      return impliedCapture;
    check(error, "asking whether a stream is being captured");
    return status == driver::captureActive ? id : status == driver::captureNone ? 0 : endedCapture;
  }
  bool keepInGraph(void *stream, std::shared_ptr<const void> thing) override {
    if (!table().userObjectCreate || !table().graphRetainUserObject || !table().userObjectRelease)
      return false;
    const Current current = enter();
    int status = driver::captureNone;
    uint64_t id = 0;
    void *graph = nullptr, *object = nullptr;
    if (table().streamGetCaptureInfo(stream, &status, &id, &graph, nullptr, nullptr) ||
        status != driver::captureActive)
      return false;
    auto *held = new std::shared_ptr<const void>(std::move(thing));
    const auto drop = [](void *end) { delete static_cast<std::shared_ptr<const void> *>(end); };
    if (table().userObjectCreate(&object, held, drop, 1u, driver::userObjectWithoutSync)) {
      drop(held);
      return false;
    }
    if (!table().graphRetainUserObject(graph, object, 1u, driver::userObjectMoves))
      return true;
    table().userObjectRelease(object, 1u);
    return false;
  }
  void launchGraph(void *graph, void *stream) override {
    call("launching a graph", table().graphLaunch, graph, stream);
  }
  void destroyGraph(void *graph) noexcept override { release(table().graphExecDestroy, graph); }

  void launch(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
              void *stream) override {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
      return;
    checkGrid(kernel, grid);
    if (captures.any())
      if (const auto capture = captures.of(stream))
        captures.keep(*capture, kernel.shared_from_this());
    const Current current = enter();
    if (const int error = start(static_cast<const Kernel &>(kernel), grid, arguments, stream))
      fail(error, "launching kernel '" + kernel.name + "'");
  }

protected:
  using Kernel = DriverKernel<Driver, Current>;
  static constexpr char filling[] = "filling memory";
  /// The driver's own stream. Copies to and from the host run in it, and blocking streams keep
  /// their order with it.
  static constexpr void *legacyStream = nullptr;
  /// In place of a capture's number: some capture of a blocking stream; one that cannot be a graph
  /// any more.
  static constexpr uint64_t impliedCapture = UINT64_MAX, endedCapture = UINT64_MAX - 1;

  /// In place of the device's number: another library's context. A driver's pools are of devices,
  /// and their memory is none of such a context.
  static constexpr int noOrdinal = -1;

  explicit DriverDevice(int ordinal, typename Current::Place place = {})
      : ordinal(ordinal), place(place) {}

  static const Driver &table() { return Driver::get(); }

  /// Throws DeviceError where another library's stream is none of this device.
  virtual void checkOwnerOf(void *) {}
  /// Eight bytes that are no four bytes twice.
  virtual void fillPairs(uint64_t to, const uint32_t (&words)[2], size_t count, void *stream) = 0;
  /// What a launch is to the driver; its error.
  virtual int start(const Kernel &kernel, const GridExtents &grid, void **arguments,
                    void *stream) = 0;

  [[noreturn]] void fail(int error, const std::string &doing) const {
    driver::throwDriverError(error, name + ": " + doing + ": " + table().describe(error));
  }
  void check(int error, const std::string &doing) const {
    if (error)
      fail(error, doing);
  }
  Current enter() const {
    requireNotLost();
    return Current(place);
  }
  template <class Function, class... Arguments>
  void call(const char *doing, Function function, Arguments... arguments) {
    const Current current = enter();
    check(function(arguments...), doing);
  }
  /// The driver would end the capture.
  void refuse(bool captured, const char *doing) const {
    if (captured)
      throw DeviceError(name + ": " + doing + ": a stream of the device is being captured");
  }
  /// Before a copy, which itself waits for blocking streams.
  void waitForAll(const char *doing) {
    refuse(captureOf(legacyStream), doing);
    foreign.wait();
  }
  /// Gives something back. A failure has been or will be reported by the calls that do work.
  template <class Function, class Handle> void release(Function function, Handle handle) noexcept {
    if (!handle || isLost())
      return;
    try {
      const Current current(place);
      function(handle);
    } catch (const DeviceError &) { // The context is gone, and what it had with it.
    }
  }

  /// The kernel that a module was loaded for.
  std::shared_ptr<Kernel> kernelIn(const Artifact &artifact, void *module) {
    auto kernel = std::make_shared<Kernel>(artifact, retired, place, module);
    check(table().moduleGetFunction(&kernel->function, module, symbolOf(artifact.entry).c_str()),
          "finding kernel '" + artifact.entry + "' in its code");
    return kernel;
  }
  void requireKind(const Artifact &artifact, std::initializer_list<const char *> kinds) const {
    if (std::find(kinds.begin(), kinds.end(), artifact.kind) == kinds.end())
      throw DeviceError(name + ": cannot load kernel '" + artifact.entry +
                        "': its code is of the kind '" + artifact.kind + "'");
  }

  const int ordinal;
  typename Current::Place place;

private:
  /// Of another context's stream a driver need not say.
  bool isCaptured(void *stream) {
    const Current current = enter();
    int status = driver::captureNone;
    uint64_t id = 0;
    return !table().streamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr) &&
           status != driver::captureNone;
  }

  /// An allocation of the user's allocator.
  struct Chosen {
    std::shared_ptr<const Allocator> allocator;
    size_t bytes = 0;
  };

  /// What memory comes from: the user's allocator, else the pool.
  std::shared_ptr<const Allocator> openMemory() {
    std::lock_guard lock(memoryMutex);
    if (!memoryStream) {
      check(table().streamCreate(&memoryStream, driver::streamNonBlocking), "creating a stream");
      if (ordinal != noOrdinal)
        pool.open(ordinal);
    }
    return allocator;
  }
  uint64_t allocateFrom(const std::shared_ptr<const Allocator> &chosen, size_t bytes) {
    uint64_t address = 0;
    try {
      address = chosen->allocate(bytes, memoryStream);
    } catch (const std::exception &) { // Some of its memory may only wait for work.
      retired.wait();
      address = chosen->allocate(bytes, memoryStream);
    }
    if (!address)
      throw OutOfMemory(name + ": the allocator that was set gave no memory for " +
                        std::to_string(bytes) + " bytes");
    std::lock_guard lock(memoryMutex);
    fromAllocators[address] = {chosen, bytes};
    return address;
  }
  Chosen takeChosen(uint64_t address) {
    std::lock_guard lock(memoryMutex);
    const auto found = fromAllocators.extract(address);
    return found ? found.mapped() : Chosen{};
  }
  bool giveHostBack(void *block) noexcept {
    if (isLost())
      return true;
    const Current current(place);
    const BesideCaptures<Driver> beside;
    return table().memFreeHost(block) == driver::success;
  }

  ForeignStreams foreign{*this};
  Retired retired{*this, foreign};

  static constexpr size_t mostFreeHostBytes = size_t{64} << 20; ///< kept for the next who asks

  std::mutex memoryMutex; ///< guards what follows
  DriverPool<Driver> pool;
  /// In which memory comes and goes, and nothing else.
  void *memoryStream = nullptr;
  std::shared_ptr<const Allocator> allocator;
  std::unordered_map<uint64_t, Chosen> fromAllocators;
  std::unordered_map<void *, size_t> hostBlocks;
  std::map<size_t, std::vector<void *>> freeHostBlocks;
  size_t freeHostBytes = 0;
};

template <class Driver> unsigned driverDeviceCount() {
  int count = 0;
  if (!Driver::get().missing.empty() || Driver::get().deviceGetCount(&count) != driver::success)
    return 0;
  return static_cast<unsigned>(count);
}

/// Device number `index` of a driver whose devices are called "PREFIX:0" and so on.
template <class Driver, class Device>
std::shared_ptr<DeviceImpl> openDriverDevice(const std::string &prefix, const std::string &kind,
                                             unsigned index) {
  const std::string name = prefix + ":" + std::to_string(index);
  if (!Driver::get().missing.empty())
    throw DeviceError(name + ": " + Driver::get().missing);
  if (const unsigned count = driverDeviceCount<Driver>(); index >= count)
    throw DeviceError(name + ": there " +
                      (count == 1 ? "is 1 " + kind + " device"
                                  : "are " + std::to_string(count) + " " + kind + " devices"));
  return std::make_shared<Device>(name, index);
}

} // namespace sectile::runtime

#endif
