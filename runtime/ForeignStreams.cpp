// Waiting for other libraries' streams without their handles: by events.
#include "runtime/ForeignStreams.h"
#include "runtime/DeviceImpl.h"
#include <algorithm>

namespace sectile::runtime {

struct ForeignStreams::Mark {
  DeviceImpl &device;
  void *event;

  explicit Mark(DeviceImpl &device) : device(device), event(device.createEvent()) {}
  Mark(const Mark &) = delete;
  ~Mark() { device.destroyEvent(event); }
};

void ForeignStreams::mark(void *stream) {
  auto made = std::make_shared<Mark>(device);
  device.recordEvent(made->event, stream);
  marks.push_back(std::move(made));
}

void ForeignStreams::add(void *stream) {
  std::lock_guard lock(mutex);
  ++streams[stream];
}

void ForeignStreams::remove(void *stream) noexcept {
  std::lock_guard lock(mutex);
  const auto found = streams.find(stream);
  if (found == streams.end() || --found->second)
    return;
  streams.erase(found);
  try {
    // A program may wrap a stream for each launch and never copy.
    marks.erase(marks.begin(), std::ranges::find_if(marks, [&](const auto &m) {
                  return !device.eventDone(m->event);
                }));
    // An event that is recorded in a capture belongs to it, and what came before has none.
    if (device.captureOf(stream))
      ++unmarked;
    else
      mark(stream);
  } catch (const std::exception &) { // The next copy finds out what is wrong.
    ++unmarked;
  }
}

bool ForeignStreams::captured() {
  std::lock_guard lock(mutex);
  return std::ranges::any_of(streams,
                             [&](const auto &one) { return device.captureOf(one.first) != 0; });
}

void ForeignStreams::wait() {
  std::vector<std::shared_ptr<const Mark>> pending;
  uint64_t gone;
  bool all;
  {
    std::lock_guard lock(mutex);
    for (const auto &[stream, count] : streams)
      if (device.captureOf(stream))
        throw DeviceError(device.name +
                          ": waiting for another library's stream: it is being captured");
    for (const auto &[stream, count] : streams)
      mark(stream);
    gone = unmarked;
    all = gone != awaited;
    pending = marks;
  }
  // Without the lock: whoever wraps or lets go of a stream meanwhile does not wait for its work.
  if (all)
    device.synchronize();
  for (const auto &mark : pending)
    device.synchronizeEvent(mark->event);
  std::lock_guard lock(mutex);
  awaited = std::max(awaited, gone);
  std::erase_if(
      marks, [&](const auto &mark) { return std::ranges::find(pending, mark) != pending.end(); });
}

} // namespace sectile::runtime
