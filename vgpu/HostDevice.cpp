// Devices whose memory and programs are the host's: streams, events, graphs, memory.
#include "vgpu/HostDevice.h"
#include <chrono>
#include <cstring>
#include <functional>
#include <unistd.h>
#include <vector>

namespace sectile::runtime {
namespace {

/// Done in the stream that it is given.
using Work = std::function<void(void *stream)>;

struct HostCapture {
  std::vector<Work> work;
  bool ended = false;
};
struct HostStream {
  std::shared_ptr<HostCapture> capture; // that it was last a part of
  bool began = false;                   // the capture

  bool capturing() const { return capture && !capture->ended; }
};
struct HostEvent {
  std::chrono::steady_clock::time_point time;
  std::shared_ptr<HostCapture> capture; // that it was recorded in
};
struct HostGraph {
  std::vector<Work> work;
};

/// A null handle, and those that CUDA has for its default streams, are a stream that no capture
/// has.
bool isDefault(void *stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }
HostStream &streamOf(void *stream) {
  static HostStream byDefault;
  return isDefault(stream) ? byDefault : *static_cast<HostStream *>(stream);
}

/// Does the work now, or remembers it where the stream is being captured.
void submit(void *stream, Work work) {
  if (HostStream &to = streamOf(stream); to.capturing())
    to.capture->work.push_back(std::move(work));
  else
    work(stream);
}

size_t hostMemory() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

template <class T> T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

} // namespace

MemoryInfo HostDevice::memory() {
  const size_t total = hostMemory(), used = deviceMemory().bytesInUse();
  return {used < total ? total - used : 0, total};
}

uint64_t HostDevice::allocate(size_t bytes) {
  if (bytes == 0)
    return 0;
  std::shared_ptr<const Allocator> chosen;
  {
    std::lock_guard lock(allocatorMutex);
    chosen = allocator;
  }
  if (chosen) {
    const uint64_t given = chosen->allocate(bytes, ownStream.native());
    if (!given)
      throw OutOfMemory(name + ": the allocator that was set gave no memory for " +
                        std::to_string(bytes) + " bytes");
    deviceMemory().adopt(pointer<void>(given), bytes);
    std::lock_guard lock(allocatorMutex);
    fromAllocators[given] = {chosen, bytes};
    return given;
  }
  void *address = bytes > hostMemory() ? nullptr : deviceMemory().allocate(bytes);
  if (!address)
    throw OutOfMemory(name + ": allocating " + std::to_string(bytes) + " bytes: there are " +
                      std::to_string(memory().free_bytes) + " of " +
                      std::to_string(memory().total_bytes));
  return reinterpret_cast<uint64_t>(address);
}

void HostDevice::free(uint64_t address) noexcept {
  finishWork();
  if (!address)
    return;
  std::unique_lock lock(allocatorMutex);
  const auto chosen = fromAllocators.extract(address);
  lock.unlock();
  if (!chosen) {
    deviceMemory().free(pointer<void>(address));
    return;
  }
  deviceMemory().disown(pointer<void>(address));
  chosen.mapped().allocator->free(address, chosen.mapped().bytes, ownStream.native());
}

void HostDevice::setAllocator(Allocator given) {
  if (!given.allocate != !given.free)
    throw DeviceError(name + ": an allocator needs both functions");
  std::lock_guard lock(allocatorMutex);
  allocator = given.allocate ? std::make_shared<const Allocator>(std::move(given)) : nullptr;
}

void HostDevice::checkRange(uint64_t address, size_t bytes, const char *doing) const {
  if (!const_cast<HostDevice *>(this)->deviceMemory().contains(pointer<void>(address), bytes))
    throw DeviceError(name + ": " + doing + ": " + std::to_string(bytes) +
                      " bytes there are not inside one allocation of this device");
}

void HostDevice::copyToDevice(uint64_t to, const void *from, size_t bytes) {
  checkRange(to, bytes, "copying to the device");
  finishWork();
  std::memcpy(pointer<void>(to), from, bytes);
  deviceMemory().written(pointer<void>(to), bytes);
}

void HostDevice::copyToHost(void *to, uint64_t from, size_t bytes) {
  checkRange(from, bytes, "copying to the host");
  finishWork();
  std::memcpy(to, pointer<void>(from), bytes);
}

void HostDevice::copyToDevice(uint64_t to, const void *from, size_t bytes, void *stream) {
  checkRange(to, bytes, "copying to the device");
  submit(stream, [=, this](void *) { copyToDevice(to, from, bytes); });
}

void HostDevice::copyToHost(void *to, uint64_t from, size_t bytes, void *stream) {
  checkRange(from, bytes, "copying to the host");
  submit(stream, [=, this](void *) { copyToHost(to, from, bytes); });
}

void HostDevice::copyOnDevice(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  checkRange(from, bytes, "copying on the device");
  checkRange(to, bytes, "copying on the device");
  submit(stream, [=, this](void *) {
    finishWork();
    std::memmove(pointer<void>(to), pointer<void>(from), bytes);
    deviceMemory().copied(pointer<void>(to), pointer<void>(from), bytes);
  });
}

bool HostDevice::reaches(const DeviceImpl &other) const {
  return dynamic_cast<const HostDevice *>(&other) != nullptr;
}

void HostDevice::copyFromOther(uint64_t to, DeviceImpl &other, uint64_t from, size_t bytes,
                               void *stream) {
  static_cast<HostDevice &>(other).checkRange(from, bytes, "copying from another device");
  checkRange(to, bytes, "copying from another device");
  submit(stream, [=, this, &other](void *) {
    finishWork();
    static_cast<HostDevice &>(other).finishWork();
    std::memcpy(pointer<void>(to), pointer<void>(from), bytes);
    deviceMemory().written(pointer<void>(to), bytes);
  });
}

void HostDevice::fill(uint64_t to, const void *pattern, size_t patternBytes, size_t count,
                      void *stream) {
  checkRange(to, patternBytes * count, "filling memory");
  uint64_t value = 0;
  std::memcpy(&value, pattern, patternBytes);
  submit(stream, [=, this](void *) {
    finishWork();
    for (size_t i = 0; i < count; ++i)
      std::memcpy(pointer<char>(to) + i * patternBytes, &value, patternBytes);
    deviceMemory().written(pointer<void>(to), patternBytes * count);
  });
}

void *HostDevice::createStream() { return new HostStream; }
void HostDevice::destroyStream(void *stream) noexcept { delete static_cast<HostStream *>(stream); }

void HostDevice::synchronizeStream(void *stream) {
  if (streamOf(stream).capturing())
    throw DeviceError(name + ": waiting for a stream: it is being captured");
  finishWork();
}

void *HostDevice::createEvent(bool) { return new HostEvent; }
void HostDevice::destroyEvent(void *event) noexcept { delete static_cast<HostEvent *>(event); }

void HostDevice::recordEvent(void *event, void *stream) {
  // In a capture an event orders streams and is no work: the graph may outlive it.
  const HostStream &in = streamOf(stream);
  *static_cast<HostEvent *>(event) = {std::chrono::steady_clock::now(),
                                      in.capturing() ? in.capture : nullptr};
}

void HostDevice::waitEvent(void *stream, void *event) {
  const auto &capture = static_cast<HostEvent *>(event)->capture;
  if (!capture || capture->ended)
    return;
  refuseDefault(stream);
  HostStream &waits = streamOf(stream);
  if (waits.capturing() && waits.capture != capture)
    throw DeviceError(name + ": waiting for an event of another capture");
  if (waits.capture != capture)
    waits.began = false;
  waits.capture = capture;
}

float HostDevice::elapsedMilliseconds(void *from, void *to) {
  return std::chrono::duration<float, std::milli>(static_cast<HostEvent *>(to)->time -
                                                  static_cast<HostEvent *>(from)->time)
      .count();
}

void HostDevice::refuseDefault(void *stream) const {
  if (isDefault(stream))
    throw DeviceError(name + ": the default stream cannot be captured");
}

void HostDevice::beginCapture(void *stream) {
  refuseDefault(stream);
  HostStream &captured = streamOf(stream);
  if (captured.capturing())
    throw DeviceError(name + ": starting a capture: the stream is being captured already");
  captured.capture = std::make_shared<HostCapture>();
  captured.began = true;
}

void *HostDevice::endCapture(void *stream) {
  HostStream &captured = streamOf(stream);
  if (!captured.capturing())
    throw DeviceError(name + ": ending a capture: the stream is not being captured");
  if (!captured.began)
    throw DeviceError(name + ": ending a capture: it was begun in another stream");
  captured.capture->ended = true;
  return new HostGraph{std::move(captured.capture->work)};
}

uint64_t HostDevice::captureOf(void *stream) {
  const HostStream &in = streamOf(stream);
  return in.capturing() ? reinterpret_cast<uint64_t>(in.capture.get()) : 0;
}

void HostDevice::launchGraph(void *graph, void *stream) {
  for (const Work &work : static_cast<HostGraph *>(graph)->work)
    submit(stream, work);
}

void HostDevice::destroyGraph(void *graph) noexcept { delete static_cast<HostGraph *>(graph); }

void HostDevice::launch(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
                        void *stream) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0)
    return;
  checkGrid(kernel, grid);
  if (!streamOf(stream).capturing())
    return run(kernel, grid, arguments, stream);
  // The graph outlives the caller's arguments. None is wider than a word.
  std::vector<uint64_t> words(argumentCount(kernel));
  for (size_t i = 0; i < words.size(); ++i)
    std::memcpy(&words[i], arguments[i], sizeof(uint64_t));
  submit(stream, [this, kept = kernel.shared_from_this(), grid, words](void *in) mutable {
    std::vector<void *> pointers;
    for (uint64_t &word : words)
      pointers.push_back(&word);
    run(*kept, grid, pointers.data(), in);
  });
}

} // namespace sectile::runtime
