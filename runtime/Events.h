// Events: a device's events, used again. Making one costs more than recording it.
#ifndef SECTILE_RUNTIME_EVENTS_H
#define SECTILE_RUNTIME_EVENTS_H

#include <mutex>
#include <vector>

namespace sectile::runtime {

class DeviceImpl;

class Events {
public:
  explicit Events(DeviceImpl &device) : device(device) {}
  Events(const Events &) = delete;

  /// One that nobody has. What was recorded in it before is of no account.
  void *take(bool timed);
  void give(void *event, bool timed) noexcept;

private:
  /// More than these at once go back to the driver.
  static constexpr size_t most = 256;

  DeviceImpl &device;
  std::mutex mutex;            ///< guards what follows
  std::vector<void *> free[2]; ///< those without a time, those with one
};

/// One event, for as long as this lives.
class PooledEvent {
public:
  PooledEvent(DeviceImpl &device, bool timed);
  /// Of another library, which has it back.
  PooledEvent(DeviceImpl &device, void *handle) : handle(handle), timed(true), device(device) {}
  PooledEvent(const PooledEvent &) = delete;
  ~PooledEvent();

  void *const handle;
  const bool timed;

private:
  DeviceImpl &device;
  const bool owned = false;
};

} // namespace sectile::runtime

#endif
