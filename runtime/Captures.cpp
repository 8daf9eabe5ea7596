// What captures keep.
#include "runtime/Captures.h"
#include "runtime/DeviceImpl.h"
#include <algorithm>

namespace sectile::runtime {

std::shared_ptr<Capture> Captures::of(const StreamImpl &stream) {
  return any() || stream.owner == StreamOwner::otherLibrary ? of(stream.handle) : nullptr;
}

std::shared_ptr<Capture> Captures::of(void *stream) {
  const uint64_t id = device.captureOf(stream);
  if (!id)
    return nullptr;
  {
    std::lock_guard lock(mutex);
    const auto found = std::ranges::find(captures, id, [](const auto &one) { return one->id; });
    if (found != captures.end())
      return *found;
    for (const std::weak_ptr<Capture> &other : others)
      if (auto capture = other.lock(); capture && capture->id == id)
        return capture;
  }
  return ofOthers(id, stream);
}

std::shared_ptr<Capture> Captures::ofOthers(uint64_t id, void *stream) {
  // The graph lets go of it where a driver must not be called.
  const std::shared_ptr<Capture> capture(new Capture{id, nullptr, {}}, [this](Capture *gone) {
    std::lock_guard lock(mutex);
    orphans.push_back(std::move(gone->kept));
    delete gone;
    --count;
  });
  ++count;
  if (!device.keepInGraph(stream, capture))
    return nullptr;
  std::lock_guard lock(mutex);
  std::erase_if(others, [](const auto &other) { return other.expired(); });
  others.push_back(capture);
  return capture;
}

void Captures::collect() noexcept {
  std::vector<Kept> gone; // ends without the lock
  std::lock_guard lock(mutex);
  gone.swap(orphans);
}

void Captures::begin(void *stream) {
  auto capture = std::make_shared<Capture>(Capture{device.captureOf(stream), stream, {}});
  std::lock_guard lock(mutex);
  captures.push_back(std::move(capture));
  ++count;
}

Kept Captures::end(void *stream) noexcept {
  std::lock_guard lock(mutex);
  const auto found =
      std::ranges::find(captures, stream, [](const auto &one) { return one->stream; });
  if (found == captures.end())
    return {};
  Kept kept = std::move((*found)->kept);
  captures.erase(found);
  --count;
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
  collect();
  if (!address)
    return;
  std::lock_guard lock(mutex);
  allocations[address] = {bytes, allocation};
}

void Captures::freed(uint64_t address) noexcept {
  std::lock_guard lock(mutex);
  allocations.erase(address);
}

} // namespace sectile::runtime
