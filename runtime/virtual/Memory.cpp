// Device memory of a virtual GPU.
#include "runtime/virtual/Memory.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace sectile::vgpu {
namespace {

// Red zones keep allocations apart, so that a stray access of a few elements is never inside a
// neighbour.
constexpr size_t redZone = 4096, alignment = 256;
// Freed memory is not handed out again at once, so that a kernel that still uses it is caught.
constexpr size_t quarantineLimit = size_t(64) << 20;

uint64_t number(const void *address) { return reinterpret_cast<uint64_t>(address); }

} // namespace

std::string describeAddress(const std::vector<MemoryRange> &ranges, uint64_t address) {
  auto after =
      std::upper_bound(ranges.begin(), ranges.end(), address,
                       [](uint64_t value, const MemoryRange &range) { return value < range.low; });
  uint64_t below = after == ranges.begin() ? UINT64_MAX : address - std::prev(after)->high;
  uint64_t above = after == ranges.end() ? UINT64_MAX : after->low - address;
  if (after != ranges.begin() && address < std::prev(after)->high) {
    const MemoryRange &range = *std::prev(after);
    return "at byte " + std::to_string(address - range.low) + " of an allocation of " +
           std::to_string(range.high - range.low) + " bytes";
  }
  if (std::min(below, above) > 1u << 20)
    return "near no allocation";
  const MemoryRange &range = below <= above ? *std::prev(after) : *after;
  std::string distance = std::to_string(std::min(below, above)) + " bytes ";
  return distance + (below <= above ? "past the end" : "before the start") +
         " of an allocation of " + std::to_string(range.high - range.low) + " bytes";
}

DeviceMemory::~DeviceMemory() {
  for (auto &[address, allocation] : allocations)
    std::free(allocation.block);
  for (Allocation &allocation : quarantine)
    std::free(allocation.block);
}

void *DeviceMemory::allocate(size_t bytes) {
  size_t whole = (bytes + alignment - 1) / alignment * alignment;
  if (whole < bytes || whole + 2 * redZone < whole)
    return nullptr;
  void *block = std::aligned_alloc(alignment, whole + 2 * redZone);
  if (!block)
    return nullptr;
  char *start = static_cast<char *>(block) + redZone;
  std::memset(start, 0xFF, whole);
  std::lock_guard lock(mutex);
  allocations[number(start)] = {bytes, block};
  return start;
}

bool DeviceMemory::free(void *address) {
  std::lock_guard lock(mutex);
  auto found = allocations.find(number(address));
  if (found == allocations.end() || !found->second.block)
    return false;
  quarantine.push_back(found->second);
  quarantineBytes += found->second.bytes;
  allocations.erase(found);
  while (quarantineBytes > quarantineLimit) {
    quarantineBytes -= quarantine.front().bytes;
    std::free(quarantine.front().block);
    quarantine.pop_front();
  }
  return true;
}

void DeviceMemory::adopt(const void *address, size_t bytes) {
  std::lock_guard lock(mutex);
  allocations[number(address)] = {bytes, nullptr};
}

void DeviceMemory::disown(const void *address) {
  std::lock_guard lock(mutex);
  allocations.erase(number(address));
}

bool DeviceMemory::contains(const void *address, size_t bytes) const {
  std::lock_guard lock(mutex);
  auto after = allocations.upper_bound(number(address));
  if (after == allocations.begin())
    return false;
  const auto &[start, allocation] = *std::prev(after);
  uint64_t offset = number(address) - start;
  return offset <= allocation.bytes && bytes <= allocation.bytes - offset;
}

std::vector<MemoryRange> DeviceMemory::ranges() const {
  std::lock_guard lock(mutex);
  std::vector<MemoryRange> result;
  result.reserve(allocations.size());
  for (const auto &[start, allocation] : allocations)
    result.push_back({start, start + allocation.bytes});
  return result;
}

size_t DeviceMemory::bytesInUse() const {
  std::lock_guard lock(mutex);
  size_t total = 0;
  for (const auto &[start, allocation] : allocations)
    total += allocation.bytes;
  return total;
}

} // namespace sectile::vgpu
