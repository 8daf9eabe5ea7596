// Waiting for other libraries' streams without their handles: by events.
#include "runtime/ForeignStreams.h"
#include "runtime/DeviceImpl.h"
#include <algorithm>

namespace sectile::runtime {

std::shared_ptr<const PooledEvent> ForeignStreams::markIn(void *stream) {
  auto made = std::make_shared<PooledEvent>(device, /*timed=*/false);
  device.recordEvent(made->handle, stream);
  return made;
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
  markLast(stream);
}

void ForeignStreams::ending(void *stream) noexcept {
  std::lock_guard lock(mutex);
  markLast(stream);
}

void ForeignStreams::markLast(void *stream) noexcept {
  try {
    // A program may wrap a stream for each launch and never copy.
    marks.erase(marks.begin(), std::ranges::find_if(marks, [&](const auto &m) {
                  return !device.eventDone(m->handle);
                }));
    // An event that is recorded in a capture belongs to it, and what came before has none.
    if (device.captureOf(stream))
      ++unmarked;
    else
      marks.push_back(markIn(stream));
  } catch (const std::exception &) { // The next copy finds out what is wrong.
    ++unmarked;
  }
}

uint64_t ForeignStreams::gone() {
  std::lock_guard lock(mutex);
  return unmarked;
}

void ForeignStreams::waitedForAll(uint64_t gone) {
  std::lock_guard lock(mutex);
  awaited = std::max(awaited, gone);
}

bool ForeignStreams::captured() {
  std::lock_guard lock(mutex);
  return std::ranges::any_of(streams,
                             [&](const auto &one) { return device.captureOf(one.first) != 0; });
}

void ForeignStreams::wait() {
  Marks pending;
  uint64_t gone;
  bool all;
  {
    std::lock_guard lock(mutex);
    for (const auto &[stream, count] : streams)
      if (device.captureOf(stream))
        throw DeviceError(device.name +
                          ": waiting for another library's stream: it is being captured");
    for (const auto &[stream, count] : streams)
      marks.push_back(markIn(stream));
    gone = unmarked;
    all = gone != awaited;
    pending = marks;
  }
  // Without the lock: whoever wraps or lets go of a stream meanwhile does not wait for its work.
  if (all)
    device.synchronize();
  for (const auto &mark : pending)
    device.synchronizeEvent(mark->handle);
  std::lock_guard lock(mutex);
  std::erase_if(
      marks, [&](const auto &mark) { return std::ranges::find(pending, mark) != pending.end(); });
}

std::optional<ForeignStreams::Marks> ForeignStreams::marksNow() {
  std::lock_guard lock(mutex);
  if (unmarked != awaited)
    return std::nullopt;
  Marks all = marks;
  for (const auto &[stream, count] : streams)
    all.push_back(markIn(stream));
  return all;
}

} // namespace sectile::runtime
