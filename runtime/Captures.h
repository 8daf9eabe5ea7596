// Captures: what the work of a device's captures uses. A graph runs after the handles that it was
// captured with are gone, so that it keeps what they named; the graphs of other libraries, too.
#ifndef SECTILE_RUNTIME_CAPTURES_H
#define SECTILE_RUNTIME_CAPTURES_H

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace sectile::runtime {

class DeviceImpl;
struct StreamImpl;

/// Things that a graph keeps.
using Kept = std::set<std::shared_ptr<const void>>;

/// A capture in progress; one that another library began lasts as long as its graph. Work of
/// several streams may be part of it.
struct Capture {
  const uint64_t id;  ///< DeviceImpl::captureOf of its streams
  void *const stream; ///< that it was begun in; null where another library began it
  Kept kept;
};

class Captures {
public:
  explicit Captures(DeviceImpl &device) : device(device) {}
  Captures(const Captures &) = delete;

  /// Whether there may be any in a stream of ours. Costs a launch a load.
  bool any() const { return count.load(std::memory_order_relaxed) != 0; }
  /// That of which work in a stream is a part; null where there is none, or where another library
  /// began it and the driver's graphs keep nothing for others.
  std::shared_ptr<Capture> of(const StreamImpl &stream);
  std::shared_ptr<Capture> of(void *stream);

  void begin(void *stream);
  /// Its end, in whatever way, and what it kept.
  Kept end(void *stream) noexcept;

  /// Has a capture keep a thing; the allocation that an address lies in, if there is one.
  void keep(Capture &capture, std::shared_ptr<const void> used);
  void keep(Capture &capture, uint64_t address);
  /// Lets go of what graphs of other libraries kept that are gone.
  void collect() noexcept;

  /// Allocations of the device, to be found by addresses in them.
  void allocated(uint64_t address, size_t bytes, const std::shared_ptr<const void> &allocation);
  void freed(uint64_t address) noexcept;

private:
  struct Allocation {
    size_t bytes;
    std::weak_ptr<const void> owner;
  };

  std::shared_ptr<Capture> ofOthers(uint64_t id, void *stream);

  DeviceImpl &device;
  std::atomic<unsigned> count = 0; ///< of captures
  std::mutex mutex;                ///< guards what follows
  std::vector<std::shared_ptr<Capture>> captures;
  std::vector<std::weak_ptr<Capture>> others; ///< that other libraries began
  std::vector<Kept> orphans;                  ///< of graphs that are gone
  std::map<uint64_t, Allocation> allocations;
};

} // namespace sectile::runtime

#endif
