// Scratch memory: the i-th piece of a call is the i-th block, grown to the longest so far. Blocks
// are allocations of their own, so that a virtual device sees an access beyond one.
#include "kernels/calls/Workspace.h"
#include "runtime/DeviceImpl.h"
#include <map>

using namespace sectile;

namespace {

struct Entry {
  std::weak_ptr<const void> owner; // the stream or the capture
  std::shared_ptr<Workspace> workspace;
};

} // namespace

std::shared_ptr<Workspace> Workspace::of(const Stream &stream) {
  static std::mutex mutex;
  static std::map<std::pair<const void *, const void *>, Entry> entries;
  const std::shared_ptr<const void> capture = stream.impl()->device->captures.of(*stream.impl());
  const std::shared_ptr<const void> owner = capture ? capture : stream.impl();
  std::lock_guard lock(mutex);
  std::erase_if(entries, [](const auto &entry) { return entry.second.owner.expired(); });
  Entry &entry = entries[{owner.get(), capture ? stream.native() : nullptr}];
  if (!entry.workspace)
    entry = {owner, std::make_shared<Workspace>(capture != nullptr)};
  return entry.workspace;
}

std::unique_lock<std::mutex> Workspace::begin() {
  std::unique_lock lock(mutex);
  next = 0;
  return lock;
}

detail::Memory Workspace::take(const Stream &stream, std::size_t bytes) {
  if (!captured && stream.impl()->device->captureOf(stream.native()))
    throw LaunchError("a kernel that needs scratch memory is in a capture that another library "
                      "began, and this driver's graphs keep nothing for others: begin it with "
                      "Stream::begin_capture, or use sectile::prepare_kernel");
  if (next == blocks.size())
    blocks.emplace_back();
  detail::Memory &block = blocks[next++];
  if (!block.owner() || block.bytes() < bytes)
    block = detail::Memory(stream.device(), bytes);
  return block.slice(0, bytes);
}
