// Scratch memory: the i-th piece of a call is the i-th block, grown to the longest so far. Blocks
// are allocations of their own, so that a virtual device sees an access beyond one.
#include "kernels/Workspace.h"
#include <unordered_map>

using namespace sectile;

namespace {

struct Entry {
  std::weak_ptr<runtime::StreamImpl> stream;
  std::shared_ptr<Workspace> workspace;
};

} // namespace

std::shared_ptr<Workspace> Workspace::of(const Stream &stream) {
  static std::mutex mutex;
  static std::unordered_map<const runtime::StreamImpl *, Entry> entries;
  std::lock_guard lock(mutex);
  std::erase_if(entries, [](const auto &entry) { return entry.second.stream.expired(); });
  Entry &entry = entries[stream.impl().get()];
  if (!entry.workspace)
    entry = {stream.impl(), std::make_shared<Workspace>()};
  return entry.workspace;
}

std::unique_lock<std::mutex> Workspace::begin() {
  std::unique_lock lock(mutex);
  next = 0;
  return lock;
}

detail::Memory Workspace::take(const Device &device, std::size_t bytes) {
  if (next == blocks.size())
    blocks.emplace_back();
  detail::Memory &block = blocks[next++];
  if (!block.owner() || block.bytes() < bytes)
    block = detail::Memory(device, bytes);
  return block.slice(0, bytes);
}
