// Scratch memory of a stream's launches: kept between calls, because allocating and freeing wait
// for the device. Launches of one stream run in order, so that each call may use the memory anew.
#pragma once
#include <memory>
#include <mutex>
#include <sectile/buffer.h>
#include <vector>

namespace sectile {

class Workspace {
public:
  // That of a stream; it lasts as long as the stream.
  static std::shared_ptr<Workspace> of(const Stream &stream);

  // From here to the end of the lock what is taken is the caller's.
  std::unique_lock<std::mutex> begin();
  detail::Memory take(const Device &device, std::size_t bytes);

private:
  std::mutex mutex;
  std::vector<detail::Memory> blocks;
  std::size_t next = 0; // of the blocks, that is taken
};

} // namespace sectile
