// Events that are kept for the next who needs one.
#include "runtime/Events.h"
#include "runtime/DeviceImpl.h"

namespace sectile::runtime {

void *Events::take(bool timed) {
  {
    std::lock_guard lock(mutex);
    if (!free[timed].empty()) {
      void *const event = free[timed].back();
      free[timed].pop_back();
      return event;
    }
  }
  return device.createEvent(timed);
}

void Events::give(void *event, bool timed) noexcept {
  {
    std::lock_guard lock(mutex);
    if (free[timed].size() < most) {
      free[timed].push_back(event);
      return;
    }
  }
  device.destroyEvent(event);
}

PooledEvent::PooledEvent(DeviceImpl &device, bool timed)
    : handle(device.events.take(timed)), timed(timed), device(device), owned(true) {}
PooledEvent::~PooledEvent() {
  if (owned)
    device.events.give(handle, timed);
}

} // namespace sectile::runtime
