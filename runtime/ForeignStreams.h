// ForeignStreams: the streams of other libraries that a device's memory is used in. A driver keeps
// its copies to and from the host in order with blocking streams only; other libraries' streams
// mostly do not block.
#ifndef SECTILE_RUNTIME_FOREIGNSTREAMS_H
#define SECTILE_RUNTIME_FOREIGNSTREAMS_H

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace sectile::runtime {

class DeviceImpl;
class PooledEvent;

/// A stream's owner may destroy it once nothing wraps it: its handle is used from add() to remove()
/// and not after.
class ForeignStreams {
public:
  explicit ForeignStreams(DeviceImpl &device) : device(device) {}
  ForeignStreams(const ForeignStreams &) = delete;

  /// A stream is here until it was removed as often as it was added.
  void add(void *stream);
  void remove(void *stream) noexcept;
  /// Of a stream of ours: it is destroyed, perhaps before its work is done.
  void ending(void *stream) noexcept;

  /// Whether one is being captured.
  bool captured();
  /// Waits for all work that is in the streams now, or was in one when it was removed. Throws
  /// DeviceError, and waits for nothing, where one is being captured.
  void wait();
  /// Who waits for the whole device asks for the first before and tells the second after it.
  uint64_t gone();
  void waitedForAll(uint64_t gone);

  /// Behind the work to wait for.
  using Marks = std::vector<std::shared_ptr<const PooledEvent>>;
  /// Behind all work that is in the streams now, or was in one when it was removed; nothing where
  /// work was removed that no event tells of. None may be captured.
  std::optional<Marks> marksNow();

private:
  std::shared_ptr<const PooledEvent> markIn(void *stream);
  void markLast(void *stream) noexcept;

  DeviceImpl &device;
  std::mutex mutex; ///< guards what follows
  std::map<void *, unsigned> streams;
  Marks marks;           ///< in the order they were made
  uint64_t unmarked = 0; ///< streams removed that no event could be recorded in,
  uint64_t awaited = 0;  ///< and of those the ones that the whole device was waited for
};

} // namespace sectile::runtime

#endif
