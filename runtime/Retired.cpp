// Giving back behind events: one in the legacy stream, which the driver keeps behind all work of
// blocking streams, and one in each known stream that does not block.
#include "runtime/Retired.h"
#include "runtime/DeviceImpl.h"
#include "runtime/ForeignStreams.h"
#include <algorithm>
#include <iterator>
#include <utility>

namespace sectile::runtime {

bool Retired::captured() { return device.captureOf(nullptr) || known.captured(); }

void Retired::add(Release release, bool alone) noexcept {
  {
    std::lock_guard lock(mutex);
    unmarked.push_back({std::move(release), alone});
  }
  collect();
}

void Retired::mark() {
  // In a capture an event would become a part of it.
  if (unmarked.empty() || captured())
    return;
  auto after = known.marksNow();
  if (!after)
    return;
  after->push_back(std::make_shared<PooledEvent>(device, /*timed=*/false));
  device.recordEvent(after->back()->handle, nullptr);
  batches.push_back({std::exchange(unmarked, {}), std::move(*after)});
}

void Retired::collect() noexcept {
  std::vector<Thing> done;
  try {
    std::lock_guard lock(mutex);
    mark();
    while (!batches.empty()) {
      auto &after = batches.front().after;
      while (!after.empty() && device.eventDone(after.back()->handle))
        after.pop_back();
      if (!after.empty())
        break;
      std::ranges::move(batches.front().things, std::back_inserter(done));
      batches.pop_front();
    }
  } catch (const std::exception &) { // Whoever does work next is told what is wrong.
  }
  release(std::move(done));
}

void Retired::wait() {
  std::vector<Thing> done;
  {
    std::lock_guard lock(mutex);
    if (captured())
      return;
    mark();
    if (!unmarked.empty()) { // behind work that no event tells of
      device.synchronize();
      done = std::exchange(unmarked, {});
    }
    for (const Batch &batch : batches)
      for (const auto &event : batch.after)
        device.synchronizeEvent(event->handle);
    for (Batch &batch : batches)
      std::ranges::move(batch.things, std::back_inserter(done));
    batches.clear();
  }
  release(std::move(done));
}

/// Whether the thing is given back, or gone with its context.
static bool isReleased(const Retired::Release &release) noexcept {
  try {
    return release();
  } catch (const std::exception &) {
    return true;
  }
}

void Retired::release(std::vector<Thing> things) noexcept {
  bool alone = true;
  if (std::ranges::any_of(things, &Thing::alone))
    try {
      alone = !captured();
    } catch (const std::exception &) {
      alone = false;
    }
  std::vector<Thing> again;
  for (Thing &thing : things)
    if ((thing.alone && !alone) || !isReleased(thing.release))
      again.push_back(std::move(thing));
  if (again.empty())
    return;
  std::lock_guard lock(mutex);
  std::ranges::move(again, std::back_inserter(unmarked));
}

} // namespace sectile::runtime
