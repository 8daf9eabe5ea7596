// ForeignStreams: the streams of other libraries that a device's memory is used in. A driver keeps
// its copies to and from the host in order with blocking streams only; other libraries' streams
// mostly do not block.
#ifndef SECTILE_RUNTIME_FOREIGNSTREAMS_H
#define SECTILE_RUNTIME_FOREIGNSTREAMS_H

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace sectile::runtime {

class DeviceImpl;

/// A stream's owner may destroy it once nothing wraps it: its handle is used from add() to remove()
/// and not after.
class ForeignStreams {
public:
  explicit ForeignStreams(DeviceImpl &device) : device(device) {}
  ForeignStreams(const ForeignStreams &) = delete;

  /// A stream is here until it was removed as often as it was added.
  void add(void *stream);
  void remove(void *stream) noexcept;

  /// Whether one is being captured.
  bool captured();
  /// Waits for all work that is in the streams now, or was in one when it was removed. Throws
  /// DeviceError, and waits for nothing, where one is being captured.
  void wait();

private:
  /// An event behind the work to wait for.
  struct Mark;
  void mark(void *stream);

  DeviceImpl &device;
  std::mutex mutex; ///< guards what follows
  std::map<void *, unsigned> streams;
  std::vector<std::shared_ptr<const Mark>> marks; ///< in the order they were made
  uint64_t unmarked = 0; ///< streams removed that no event could be recorded in,
  uint64_t awaited = 0;  ///< and of those the ones that the whole device was waited for
};

} // namespace sectile::runtime

#endif
