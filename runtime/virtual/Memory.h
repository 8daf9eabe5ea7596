// The device memory of a virtual GPU: allocations on the host with red zones, and their registry.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace sectile::vgpu {

struct MemoryRange {
  uint64_t low, high; // bytes [low, high)
};

// Where an address lies among the allocations, in words: "4 bytes past the end of an allocation of
// 4000 bytes".
std::string describeAddress(const std::vector<MemoryRange> &ranges, uint64_t address);

// Thread-safe.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;
  ~DeviceMemory();

  // 256-byte aligned and filled with 0xFF, which is NaN in every floating-point type. Null when
  // there is no memory.
  void *allocate(size_t bytes);
  // False when `address` is not the start of an allocation.
  bool free(void *address);
  // Host memory that kernels may access as it is.
  void adopt(const void *address, size_t bytes);
  void disown(const void *address);

  // Whether [address, address + bytes) lies within one allocation.
  bool contains(const void *address, size_t bytes) const;
  // All allocations, sorted.
  std::vector<MemoryRange> ranges() const;
  size_t bytesInUse() const;

private:
  struct Allocation {
    size_t bytes;
    void *block; // null for adopted memory
  };
  mutable std::mutex mutex;
  std::map<uint64_t, Allocation> allocations;
  std::deque<Allocation> quarantine; // freed, oldest first
  size_t quarantineBytes = 0;
};

} // namespace sectile::vgpu
