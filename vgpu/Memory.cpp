// Device memory of a virtual GPU.
#include "vgpu/Memory.h"
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace sectile::vgpu {
namespace {

// Red zones keep allocations apart, so that a stray access of a few elements is never inside a
// neighbour.
constexpr size_t redZone = 4096, alignment = 256;
// Freed memory is not handed out again at once, so that a kernel that still uses it is caught.
constexpr size_t quarantineLimit = size_t(64) << 20;

uint64_t number(const void *address) { return reinterpret_cast<uint64_t>(address); }

// The memory of all devices that was freed and not yet given back to the host, where it could come
// to hold anything.
class Freed {
public:
  static Freed &get() {
    static Freed *const freed = new Freed; // Global objects free memory until the very end.
    return *freed;
  }
  void add(uint64_t start, size_t bytes) {
    std::lock_guard lock(mutex);
    sizes[start] = bytes;
  }
  void remove(uint64_t start) {
    std::lock_guard lock(mutex);
    sizes.erase(start);
  }
  // Start and size of what the address lies in; a size of 0: none.
  std::pair<uint64_t, size_t> holding(uint64_t address) const {
    std::lock_guard lock(mutex);
    const auto after = sizes.upper_bound(address);
    if (after == sizes.begin() || address - std::prev(after)->first >= std::prev(after)->second)
      return {0, 0};
    return *std::prev(after);
  }

private:
  mutable std::mutex mutex;
  std::map<uint64_t, size_t> sizes; // of each, by its start
};

// Whether the process has memory there.
bool isMapped(uint64_t address) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return address >= page &&
         msync(reinterpret_cast<void *>(address / page * page), 1, MS_ASYNC) == 0;
}

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
  if (const auto [start, bytes] = Freed::get().holding(address); bytes)
    return "at byte " + std::to_string(address - start) + " of an allocation of " +
           std::to_string(bytes) + " bytes that was freed";
  const uint64_t nearest = std::min(below, above);
  // What is within a red zone is a step too far, whatever else lies behind that.
  const char *const host = nearest > redZone && isMapped(address) ? "; is it host memory?" : "";
  if (nearest > 1u << 20)
    return std::string("near no allocation") + host;
  const MemoryRange &range = below <= above ? *std::prev(after) : *after;
  std::string distance = std::to_string(std::min(below, above)) + " bytes ";
  return distance + (below <= above ? "past the end" : "before the start") +
         " of an allocation of " + std::to_string(range.high - range.low) + " bytes" + host;
}

WrittenBytes::WrittenBytes(size_t bytes)
    // Zeros that nobody touches cost nothing.
    : words(static_cast<Word *>(std::calloc(bytes / 64 + 1, sizeof(Word))), std::free) {
  if (!words)
    throw std::bad_alloc();
}

void WrittenBytes::mark(size_t offset, size_t bytes) {
  for (const size_t end = offset + bytes; offset < end;) {
    const size_t low = offset % 64, count = std::min(64 - low, end - offset);
    const uint64_t bits = ~uint64_t(0) >> (64 - count) << low;
    Word &word = words[offset / 64];
    if ((word.load(std::memory_order_relaxed) & bits) != bits)
      word.fetch_or(bits, std::memory_order_relaxed);
    offset += count;
  }
}

size_t WrittenBytes::firstUnwritten(size_t offset, size_t bytes) const {
  const size_t end = offset + bytes;
  while (offset < end) {
    const size_t low = offset % 64, count = std::min(64 - low, end - offset);
    const uint64_t missing =
        ~words[offset / 64].load(std::memory_order_relaxed) & ~uint64_t(0) >> (64 - count) << low;
    if (missing)
      return offset - low + size_t(std::countr_zero(missing));
    offset += count;
  }
  return end;
}

// At most 64 of them, the first one lowest.
uint64_t WrittenBytes::bitsAt(size_t offset, size_t count) const {
  const size_t low = offset % 64;
  uint64_t bits = words[offset / 64] >> low;
  if (low + count > 64)
    bits |= words[offset / 64 + 1] << (64 - low);
  return bits & ~uint64_t(0) >> (64 - count);
}

void WrittenBytes::copy(size_t offset, const WrittenBytes &source, size_t sourceOffset,
                        size_t bytes) {
  std::vector<uint64_t> taken;
  for (size_t done = 0; done < bytes; done += 64)
    taken.push_back(source.bitsAt(sourceOffset + done, std::min<size_t>(64, bytes - done)));
  for (size_t done = 0; done < bytes;) {
    const size_t low = (offset + done) % 64, from = done % 64;
    const size_t count = std::min({64 - low, 64 - from, bytes - done});
    const uint64_t mask = ~uint64_t(0) >> (64 - count) << low;
    Word &word = words[(offset + done) / 64];
    word = (word & ~mask) | ((taken[done / 64] >> from << low) & mask);
    done += count;
  }
}

DeviceMemory::~DeviceMemory() {
  for (auto &[address, allocation] : allocations)
    std::free(allocation.block);
  for (Allocation &allocation : quarantine)
    release(allocation);
}

// Gives freed memory back to the host.
void DeviceMemory::release(const Allocation &allocation) {
  Freed::get().remove(number(allocation.block) + redZone);
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
  auto written = std::make_unique<WrittenBytes>(bytes);
  std::lock_guard lock(mutex);
  allocations[number(start)] = {bytes, block, std::move(written)};
  return start;
}

bool DeviceMemory::free(void *address) {
  std::lock_guard lock(mutex);
  auto found = allocations.find(number(address));
  if (found == allocations.end() || !found->second.block)
    return false;
  Freed::get().add(found->first, found->second.bytes);
  quarantineBytes += found->second.bytes;
  quarantine.push_back({found->second.bytes, found->second.block, nullptr});
  allocations.erase(found);
  while (quarantineBytes > quarantineLimit) {
    quarantineBytes -= quarantine.front().bytes;
    release(quarantine.front());
    quarantine.pop_front();
  }
  return true;
}

void DeviceMemory::adopt(const void *address, size_t bytes) {
  std::lock_guard lock(mutex);
  allocations[number(address)] = {bytes, nullptr, nullptr};
}

void DeviceMemory::disown(const void *address) {
  std::lock_guard lock(mutex);
  allocations.erase(number(address));
}

// The last allocation that does not start behind the address.
DeviceMemory::Allocations::const_iterator DeviceMemory::holderOf(uint64_t address) const {
  const auto after = allocations.upper_bound(address);
  return after == allocations.begin() ? allocations.end() : std::prev(after);
}

void DeviceMemory::written(const void *address, size_t bytes) {
  std::lock_guard lock(mutex);
  const auto to = holderOf(number(address));
  if (to != allocations.end() && to->second.written)
    to->second.written->mark(number(address) - to->first, bytes);
}

void DeviceMemory::copied(const void *address, const void *source, size_t bytes) {
  std::lock_guard lock(mutex);
  const auto to = holderOf(number(address)), from = holderOf(number(source));
  if (to == allocations.end() || !to->second.written)
    return;
  WrittenBytes &target = *to->second.written;
  const size_t offset = number(address) - to->first;
  if (from == allocations.end() || !from->second.written)
    return target.mark(offset, bytes);
  target.copy(offset, *from->second.written, number(source) - from->first, bytes);
}

bool DeviceMemory::contains(const void *address, size_t bytes) const {
  std::lock_guard lock(mutex);
  const auto found = holderOf(number(address));
  if (found == allocations.end())
    return false;
  uint64_t offset = number(address) - found->first;
  return offset <= found->second.bytes && bytes <= found->second.bytes - offset;
}

std::vector<MemoryRange> DeviceMemory::ranges() const {
  std::lock_guard lock(mutex);
  std::vector<MemoryRange> result;
  result.reserve(allocations.size());
  for (const auto &[start, allocation] : allocations)
    result.push_back({start, start + allocation.bytes, allocation.written.get()});
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
