// Scratch memory of a stream's launches: kept between calls, because allocating and freeing wait
// for the device. Launches of one stream run in order, so that each call may use the memory anew. A
// graph may be launched in any stream: what is captured has memory of its own, which the graph
// keeps.
#pragma once
#include <memory>
#include <mutex>
#include <sectile/buffer.h>
#include <vector>

namespace sectile {

class Workspace {
public:
  // That of a stream, or of its part of the capture in progress; it lasts as long.
  static std::shared_ptr<Workspace> of(const Stream &stream);

  // From here to the end of the lock what is taken is the caller's.
  std::unique_lock<std::mutex> begin();
  // Throws LaunchError in a capture that another library began, where its graph keeps nothing.
  detail::Memory take(const Stream &stream, std::size_t bytes);

  explicit Workspace(bool captured) : captured(captured) {}

private:
  const bool captured;
  std::mutex mutex;
  std::vector<detail::Memory> blocks;
  std::size_t next = 0; // of the blocks, that is taken
};

} // namespace sectile
