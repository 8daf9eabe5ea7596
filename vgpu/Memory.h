// The device memory of a virtual GPU: allocations on the host with red zones, and their registry.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace sectile::vgpu {

// Which bytes of an allocation anyone has written. Thread-safe.
class WrittenBytes {
public:
  explicit WrittenBytes(size_t bytes);

  void mark(size_t offset, size_t bytes);
  // Of the bytes from `offset` on the first that nothing wrote, or their end.
  size_t firstUnwritten(size_t offset, size_t bytes) const;
  // Makes these bytes as the source's are, which may be the same ones in part.
  void copy(size_t offset, const WrittenBytes &source, size_t sourceOffset, size_t bytes);

private:
  uint64_t bitsAt(size_t offset, size_t count) const;
  using Word = std::atomic<uint64_t>;
  std::unique_ptr<Word[], void (*)(void *)> words; // a bit for each byte
};

struct MemoryRange {
  uint64_t low, high;              // bytes [low, high)
  WrittenBytes *written = nullptr; // null where all bytes are
};

// Where an address lies among the allocations, in words: "4 bytes past the end of an allocation of
// 4000 bytes". Says also whether it lies in memory that was freed of late, and asks whether it is
// the host's where the process has memory there.
std::string describeAddress(const std::vector<MemoryRange> &ranges, uint64_t address);

// Thread-safe.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;
  ~DeviceMemory();

  // 256-byte aligned and filled with 0xFF, which is NaN in every floating-point type; nothing of it
  // counts as written. Null when there is no memory.
  void *allocate(size_t bytes);
  // False when `address` is not the start of an allocation.
  bool free(void *address);
  // Host memory that kernels may access as it is.
  void adopt(const void *address, size_t bytes);
  void disown(const void *address);

  // The host has written these bytes of an allocation, or copied them from the source's: those of
  // the source that nothing wrote are not written then either.
  void written(const void *address, size_t bytes);
  void copied(const void *address, const void *source, size_t bytes);

  // Whether [address, address + bytes) lies within one allocation.
  bool contains(const void *address, size_t bytes) const;
  // All allocations, sorted.
  std::vector<MemoryRange> ranges() const;
  size_t bytesInUse() const;

private:
  struct Allocation {
    size_t bytes;
    void *block; // null for adopted memory, of which every byte counts as written
    std::unique_ptr<WrittenBytes> written;
  };
  static void release(const Allocation &allocation);
  using Allocations = std::map<uint64_t, Allocation>;
  Allocations::const_iterator holderOf(uint64_t address) const;
  mutable std::mutex mutex;
  Allocations allocations;
  std::deque<Allocation> quarantine; // freed, oldest first
  size_t quarantineBytes = 0;
};

} // namespace sectile::vgpu
