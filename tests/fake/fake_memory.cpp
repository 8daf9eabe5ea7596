// The fake CUDA driver's memory: plain, of pools, of the host; copies and fills.
#include "tests/fake/FakeDriver.h"
#include <cstdlib>
#include <cstring>

using namespace fake;

namespace {

int forget(uint64_t address, bool pooled) {
  auto found = driver().memory.find(address);
  if (found == driver().memory.end() || found->second.pooled != pooled)
    return invalidValue;
  driver().used[found->second.device] -= found->second.bytes;
  driver().memory.erase(found);
  std::free(reinterpret_cast<void *>(address));
  return success;
}

// Only of pinned memory a driver copies later.
bool inHostMemory(const void *address, size_t bytes) {
  for (const auto &[start, size] : driver().hostMemory)
    if (address >= start &&
        static_cast<const char *>(address) + bytes <= static_cast<const char *>(start) + size)
      return true;
  return false;
}

// The layouts of CUmemPoolProps and CUmemAccessDesc, written down once more.
struct PoolProperties {
  int allocations, handles, locationType, locationId;
  void *security;
  char rest[64];
};
struct PoolAccess {
  int locationType, locationId, flags;
};

template <class T> int set(void *handle, uint64_t target, size_t pitch, T value, size_t count) {
  if (!inBounds(target, count ? (count - 1) * pitch + sizeof value : 0))
    return invalidValue;
  return submit(handle, [=, device = contexts.back()] {
    if (!inBounds(device, target, count ? (count - 1) * pitch + sizeof value : 0))
      return illegalAddress;
    // The tuner fills much memory with zeros.
    if (value == 0 && pitch == sizeof value)
      std::memset(reinterpret_cast<void *>(target), 0, count * pitch);
    else
      for (size_t i = 0; i < count; ++i)
        std::memcpy(reinterpret_cast<char *>(target) + i * pitch, &value, sizeof value);
    return success;
  });
}

} // namespace

extern "C" {

int cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER(true)

  *free = memoryOfOne - driver().used[contexts.back()];
  *total = memoryOfOne;
  return success;
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  ENTER(true)

  if (const int error = unsafe())
    return error;
  size_t &used = driver().used[contexts.back()];
  if (bytes == 0)
    return invalidValue;
  if (bytes > memoryOfOne - used)
    return outOfMemory;
  *address = reinterpret_cast<uint64_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  driver().memory[*address] = {bytes, contexts.back()};
  used += bytes;
  return success;
}
int cuMemFree_v2(uint64_t address) {
  ENTER(true)

  // It waits for the device, which no mode allows beside a capture.
  if (const int error = forbidden(false, captureUnsupported))
    return error;
  runAll(contexts.back());
  return forget(address, /*pooled=*/false);
}
// The driver calls of a pool: memory that is there, and gone, when the stream comes to it.
int cuMemPoolCreate(void **pool, const PoolProperties *properties) {
  ENTER(true)

  if (properties->allocations != 1 || properties->handles || properties->locationType != 1 ||
      properties->security)
    return invalidValue;
  *pool = keep(new Pool{properties->locationId});
  return success;
}
int cuMemPoolSetAttribute(void *pool, int attribute, void *) {
  ENTER(true)
  return known<Pool>(pool) && attribute == 4 ? success : invalidValue;
}
int cuMemPoolGetAttribute(void *pool, int attribute, void *value) {
  ENTER(true)

  *static_cast<uint64_t *>(value) = 0;
  return known<Pool>(pool) && (attribute == 5 || attribute == 7) ? success : invalidValue;
}
int cuMemPoolTrimTo(void *pool, size_t) {
  ENTER(true)
  return known<Pool>(pool) ? success : invalidValue;
}
int cuDeviceCanAccessPeer(int *can, int device, int peer) {
  ENTER(false)

  *can = device != peer;
  return success;
}
int cuMemPoolSetAccess(void *handle, const PoolAccess *access, size_t count) {
  ENTER(true)

  auto *pool = known<Pool>(handle);
  if (!pool)
    return invalidValue;
  for (size_t i = 0; i < count; ++i)
    pool->peers.push_back(access[i].locationId);
  return success;
}
int cuMemAllocFromPoolAsync(uint64_t *address, size_t bytes, void *handle, void *at) {
  ENTER(true)

  const auto *pool = known<Pool>(handle);
  const Stream *stream = streamOf(at);
  if (!pool || !stream || stream->capture || bytes == 0 || pool->device != stream->device)
    return invalidValue;
  size_t &used = driver().used[pool->device];
  if (bytes > memoryOfOne - used)
    return outOfMemory;
  *address = reinterpret_cast<uint64_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  driver().memory[*address] = {bytes, pool->device, true, false};
  used += bytes;
  return submit(at, [at = *address] {
    driver().memory.at(at).there = true;
    return success;
  });
}
int cuMemFreeAsync(uint64_t address, void *at) {
  ENTER(true)

  Stream *stream = streamOf(at);
  auto found = driver().memory.find(address);
  if (!stream || stream->capture || found == driver().memory.end() || !found->second.pooled)
    return invalidValue;
  const bool idle = isIdle(*stream);
  const int error = submit(at, [=] { return forget(address, /*pooled=*/true); });
  if (idle && !error)
    run(*stream);
  return error;
}
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
  ENTER(true)

  if (const int error = unsafe())
    return error;
  if (flags != 1)
    return invalidValue;
  *address = std::malloc(bytes);
  driver().hostMemory[*address] = bytes;
  return success;
}
int cuMemFreeHost(void *address) {
  ENTER(true)

  if (const int error = forbidden(false, captureUnsupported))
    return error;
  runAll(contexts.back());
  if (!driver().hostMemory.erase(address))
    return invalidValue;
  std::free(address);
  return success;
}
int cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t bytes, void *stream) {
  ENTER(true)

  if (!inBounds(target, bytes) || !inHostMemory(source, bytes))
    return invalidValue;
  return submit(stream, [=, device = contexts.back()] {
    if (!inBounds(device, target, bytes) || !inHostMemory(source, bytes))
      return illegalAddress;
    std::memcpy(reinterpret_cast<void *>(target), source, bytes);
    return success;
  });
}
int cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t bytes, void *stream) {
  ENTER(true)

  if (!inBounds(source, bytes) || !inHostMemory(target, bytes))
    return invalidValue;
  return submit(stream, [=, device = contexts.back()] {
    if (!inBounds(device, source, bytes) || !inHostMemory(target, bytes))
      return illegalAddress;
    std::memcpy(target, reinterpret_cast<const void *>(source), bytes);
    return success;
  });
}
int cuMemcpyHtoD_v2(uint64_t target, const void *source, size_t bytes) {
  ENTER(true)

  if (const int error = unsafe())
    return error;
  if (!inBounds(target, bytes))
    return invalidValue;
  const auto *from = static_cast<const char *>(source);
  return submit(nullptr, [target, staged = std::vector<char>(from, from + bytes)] {
    std::memcpy(reinterpret_cast<void *>(target), staged.data(), staged.size());
    return success;
  });
}
int cuMemcpyDtoH_v2(void *target, uint64_t source, size_t bytes) {
  ENTER(true)

  if (const int error = unsafe())
    return error;
  if (!inBounds(source, bytes))
    return invalidValue;
  const int error = submit(nullptr, [=] {
    std::memcpy(target, reinterpret_cast<const void *>(source), bytes);
    return success;
  });
  if (error)
    return error;
  run(legacy(contexts.back()));
  return takeFault();
}
int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, void *stream) {
  ENTER(true)

  if (!inBounds(source, bytes) || !inBounds(target, bytes))
    return invalidValue;
  return submit(stream, [=, device = contexts.back()] {
    if (!inBounds(device, source, bytes) || !inBounds(device, target, bytes))
      return illegalAddress;
    std::memmove(reinterpret_cast<void *>(target), reinterpret_cast<const void *>(source), bytes);
    return success;
  });
}
int cuMemsetD8Async(uint64_t target, unsigned char value, size_t count, void *stream) {
  ENTER(true)

  return set(stream, target, 1, value, count);
}
int cuMemsetD16Async(uint64_t target, unsigned short value, size_t count, void *stream) {
  ENTER(true)

  return target % 2 ? invalidValue : set(stream, target, 2, value, count);
}
int cuMemsetD32Async(uint64_t target, unsigned value, size_t count, void *stream) {
  ENTER(true)

  return target % 4 ? invalidValue : set(stream, target, 4, value, count);
}
int cuMemsetD2D32Async(uint64_t target, size_t pitch, unsigned value, size_t width, size_t height,
                       void *stream) {
  ENTER(true)

  return width != 1 || target % 4 ? invalidValue : set(stream, target, pitch, value, height);
}
}
