// Device memory without a type, under Buffer<T>.
#include "runtime/DeviceImpl.h"
#include <sectile/buffer.h>

namespace sectile {
namespace {

struct Allocation {
  std::shared_ptr<runtime::DeviceImpl> device;
  uint64_t address = 0;
  bool isBorrowed = false;

  Allocation(const Device &owner, size_t bytes)
      : device(owner.impl()), address(device->allocate(bytes)) {}
  explicit Allocation(const Device &owner) : device(owner.impl()), isBorrowed(true) {}
  Allocation(const Allocation &) = delete;
  ~Allocation() {
    if (isBorrowed)
      return;
    device->captures.freed(address);
    device->free(address);
  }
};

struct HostAllocation {
  std::shared_ptr<runtime::DeviceImpl> device;
  void *address = nullptr;

  HostAllocation(const Device &owner, size_t bytes)
      : device(owner.impl()), address(device->allocateHost(bytes)) {}
  HostAllocation(const HostAllocation &) = delete;
  ~HostAllocation() { device->freeHost(address); }
};

const Stream &streamOr(const Stream *stream, const runtime::DeviceImpl &device) {
  if (!stream)
    return device.ownStream;
  if (stream->impl()->device.get() != &device)
    throw DeviceError("a stream of " + stream->impl()->device->name + " was given for memory of " +
                      device.name);
  return *stream;
}

} // namespace

namespace detail {

HostMemory::HostMemory(const Device &device, size_t bytes) : bytes_(bytes) {
  auto allocation = std::make_shared<HostAllocation>(device, bytes);
  data_ = allocation->address;
  allocation_ = std::move(allocation);
}

Memory::Memory(const Device &device, size_t bytes) : owner_(device.impl().get()), bytes_(bytes) {
  auto allocation = std::make_shared<Allocation>(device, bytes);
  address_ = allocation->address;
  allocation->device->captures.allocated(address_, bytes, allocation);
  allocation_ = std::move(allocation);
}

Memory Memory::borrow(const Device &device, uint64_t address, size_t bytes) {
  Memory memory;
  memory.allocation_ = std::make_shared<Allocation>(device);
  memory.owner_ = device.impl().get();
  memory.address_ = address;
  memory.bytes_ = bytes;
  return memory;
}

static const std::shared_ptr<runtime::DeviceImpl> &
deviceOf(const std::shared_ptr<void> &allocation) {
  if (!allocation)
    throw DeviceError("this buffer was never allocated on a device");
  return static_cast<const Allocation *>(allocation.get())->device;
}

// For the graph, where the stream is being captured.
static void keepBoth(runtime::DeviceImpl &device, const Stream &stream,
                     const std::shared_ptr<void> &one, const std::shared_ptr<void> &other) {
  const auto capture = device.captures.of(*stream.impl());
  if (!capture)
    return;
  device.captures.keep(*capture, one);
  device.captures.keep(*capture, other);
}

Device Memory::device() const { return Device(deviceOf(allocation_)); }

Memory Memory::slice(size_t offset, size_t bytes) const {
  Memory part = *this;
  part.address_ += offset;
  part.bytes_ = bytes;
  return part;
}

void Memory::upload(const void *source) const {
  if (!bytes_)
    return;
  const auto &device = deviceOf(allocation_);
  device->copyToDevice(address_, source, bytes_);
  device->collect();
  device->debugLogs.reportAll();
}

void Memory::download(void *target) const {
  if (!bytes_)
    return;
  const auto &device = deviceOf(allocation_);
  device->copyToHost(target, address_, bytes_);
  device->collect();
  device->debugLogs.reportAll();
}

// Behind what the source's own stream has now, and before what it gets: what frees or overwrites
// the source there comes later. Graphs keep the memory, and leave the order to whoever captures.
static void copyAcross(const Stream &stream, uint64_t target, runtime::DeviceImpl &other,
                       uint64_t source, size_t bytes) {
  runtime::DeviceImpl &device = *stream.impl()->device;
  const bool captured =
      device.captureOf(stream.native()) || other.captureOf(other.ownStream.native());
  if (!captured)
    stream.wait(other.ownStream.record());
  device.copyFromOther(target, other, source, bytes, stream.native());
  if (!captured)
    other.ownStream.wait(stream.record());
}

void Memory::upload(const HostMemory &source, const Stream &stream) const {
  if (!bytes_)
    return;
  const auto &device = deviceOf(allocation_);
  void *const in = streamOr(&stream, *device).native();
  device->copyToDevice(address_, source.data(), bytes_, in);
  keepBoth(*device, stream, allocation_, source.allocation());
}

void Memory::download(const HostMemory &target, const Stream &stream) const {
  if (!bytes_)
    return;
  const auto &device = deviceOf(allocation_);
  void *const in = streamOr(&stream, *device).native();
  device->copyToHost(target.data(), address_, bytes_, in);
  keepBoth(*device, stream, allocation_, target.allocation());
}

void Memory::copy_from(const Memory &source, const Stream *stream) const {
  if (!bytes_)
    return;
  const auto &device = deviceOf(allocation_), &other = deviceOf(source.allocation_);
  const Stream &in = streamOr(stream, *device);
  if (other == device) {
    device->copyOnDevice(address_, source.address_, bytes_, in.native());
  } else if (device->reaches(*other)) {
    copyAcross(in, address_, *other, source.address_, bytes_);
  } else {
    std::vector<char> bytes(bytes_);
    source.download(bytes.data());
    return upload(bytes.data());
  }
  keepBoth(*device, in, allocation_, source.allocation_);
}

void Memory::fill(const void *pattern, size_t patternBytes, const Stream *stream) const {
  if (!bytes_)
    return;
  const auto &device = deviceOf(allocation_);
  const Stream &in = streamOr(stream, *device);
  device->fill(address_, pattern, patternBytes, bytes_ / patternBytes, in.native());
  keepBoth(*device, in, allocation_, allocation_);
}

void throwSizeMismatch(const char *what, size_t have, size_t given) {
  throw DeviceError(std::string(what) + ": the buffer has " + std::to_string(have) +
                    " elements, asked for are " + std::to_string(given));
}

} // namespace detail
} // namespace sectile
