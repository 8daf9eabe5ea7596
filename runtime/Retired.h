// Retired: what is given back while work of a device may still use it (memory, code), until that
// work is done. Nothing here waits, unless it is asked to.
#ifndef SECTILE_RUNTIME_RETIRED_H
#define SECTILE_RUNTIME_RETIRED_H

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace sectile::runtime {

class DeviceImpl;
class ForeignStreams;
class PooledEvent;

class Retired {
public:
  /// Gives the thing back to the driver. False where that is to be tried again later.
  using Release = std::function<bool()>;

  /// `known` are streams that the driver does not keep in order with the legacy stream.
  Retired(DeviceImpl &device, ForeignStreams &known) : device(device), known(known) {}
  Retired(const Retired &) = delete;

  /// `alone`: no stream may be captured while it is given back.
  void add(Release release, bool alone) noexcept;
  /// Gives back what no work uses any more.
  void collect() noexcept;
  /// Waits for the work that uses what is here now, and gives it all back. Does nothing where a
  /// stream is captured.
  void wait();

private:
  struct Thing {
    Release release;
    bool alone;
  };
  struct Batch {
    std::vector<Thing> things;
    std::vector<std::shared_ptr<const PooledEvent>> after;
  };

  bool captured();
  /// Has what is not waiting for anything yet wait for all work that there is. Under the lock.
  void mark();
  void release(std::vector<Thing> things) noexcept;

  DeviceImpl &device;
  ForeignStreams &known;
  std::mutex mutex; ///< guards what follows
  std::vector<Thing> unmarked;
  std::deque<Batch> batches; ///< oldest first
};

} // namespace sectile::runtime

#endif
