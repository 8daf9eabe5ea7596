// What captures keep, and memory that is given back meanwhile.
#include "runtime/Captures.h"
#include "runtime/DeviceImpl.h"
#include <algorithm>

namespace sectile::runtime {

std::shared_ptr<Capture> Captures::of(void *stream) {
  if (!any())
    return nullptr;
  const uint64_t id = device.captureOf(stream);
  if (!id)
    return nullptr;
  std::lock_guard lock(mutex);
  const auto found = std::ranges::find(captures, id, [](const auto &one) { return one->id; });
  return found == captures.end() ? nullptr : *found;
}

void Captures::begin(void *stream) {
  auto capture = std::make_shared<Capture>(Capture{device.captureOf(stream), stream, {}});
  std::lock_guard lock(mutex);
  captures.push_back(std::move(capture));
  ++count;
}

std::set<std::shared_ptr<const void>> Captures::end(void *stream) noexcept {
  std::set<std::shared_ptr<const void>> kept;
  std::vector<uint64_t> free;
  {
    std::lock_guard lock(mutex);
    const auto found =
        std::ranges::find(captures, stream, [](const auto &one) { return one->stream; });
    if (found == captures.end())
      return kept;
    kept = std::move((*found)->kept);
    captures.erase(found);
    if (--count == 0)
      free = std::exchange(unused, {});
  }
  for (const uint64_t address : free)
    device.free(address);
  return kept;
}

void Captures::keep(Capture &capture, std::shared_ptr<const void> used) {
  std::lock_guard lock(mutex);
  capture.kept.insert(std::move(used));
}

void Captures::keep(Capture &capture, uint64_t address) {
  std::shared_ptr<const void> owner;
  {
    std::lock_guard lock(mutex);
    const auto after = allocations.upper_bound(address);
    if (after == allocations.begin())
      return;
    const auto &[start, allocation] = *std::prev(after);
    if (address - start < allocation.bytes)
      owner = allocation.owner.lock();
  }
  if (owner)
    keep(capture, std::move(owner));
}

void Captures::allocated(uint64_t address, size_t bytes,
                         const std::shared_ptr<const void> &allocation) {
  if (!address)
    return;
  std::lock_guard lock(mutex);
  allocations[address] = {bytes, allocation};
}

void Captures::free(uint64_t address) noexcept {
  {
    std::lock_guard lock(mutex);
    allocations.erase(address);
    if (!captures.empty()) {
      unused.push_back(address);
      return;
    }
  }
  device.free(address);
}

} // namespace sectile::runtime
