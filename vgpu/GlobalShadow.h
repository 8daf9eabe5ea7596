// What is known of the global memory that a launch has touched: who wrote each byte last and who
// read it since, in the logical time of HappensBefore.h. It lives as long as the launch, or until
// the next one that overlaps it has been done.
//
// What threads wrote is there for a copy through the asynchronous proxy once the thread that asks
// for the copy has seen it and then fenced.
//
// Of the accesses since the last write, the latest is kept, and the latest by another warp, of
// another block where there is one. Bytes that all accesses so far took together share one cell.
#pragma once
#include "vgpu/HappensBefore.h"
#include "vgpu/Memory.h"
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace sectile::vgpu {

class Program;

enum class GlobalAccess : uint8_t { Read, Write, Atomic };

// What a thread knew at its last fence for the asynchronous proxy: copies that it asks for later
// see what others wrote by then.
struct ProxyFence {
  Knowledge *knowledge = nullptr; // null: there was none
  uint32_t clock = 0;
  std::shared_ptr<const BlocksSeen> others;
};

struct GlobalActor : Actor {
  uint64_t cluster;                  // its number in the grid
  const BlocksSeen *others;          // null while it has acquired nothing
  const ProxyFence *fence = nullptr; // of who asked for a copy; null for a thread's own accesses
};

struct GlobalConflict {
  uint64_t address; // of the byte
  uint64_t otherCluster;
  uint32_t otherThread; // who accessed it before, numbered through its cluster
  uint32_t otherSite;
  GlobalAccess otherAccess;
  bool isUnfenced = false; // it came before, but the asynchronous proxy need not see it
};

// Thread-safe: the blocks of a launch run on several host threads.
class GlobalShadow {
public:
  // The ranges are those of the launch.
  GlobalShadow(std::vector<MemoryRange> ranges, unsigned warpSize);
  GlobalShadow(const GlobalShadow &) = delete;
  ~GlobalShadow();

  // An access inside the range with this index.
  std::optional<GlobalConflict> access(size_t range, const GlobalActor &actor, uint64_t address,
                                       uint32_t bytes, GlobalAccess access);
  // The end of a read that began when the actor was as given: nothing else may have written since.
  std::optional<GlobalConflict> finishRead(size_t range, const GlobalActor &actor, uint64_t address,
                                           uint32_t bytes);

  // After the launch: what it did that races with such an access of another launch.
  std::optional<GlobalConflict> conflictWith(uint64_t address, uint32_t bytes,
                                             GlobalAccess access) const;

  // What atomic operations at the address have released for everyone, or for one block alone.
  using Scope = std::optional<uint64_t>; // the block
  void release(uint64_t address, Scope scope, const BlocksSeen &seen);
  std::shared_ptr<const BlocksSeen> released(uint64_t address, Scope scope);

private:
  struct Page;
  struct Cell;
  struct Accesses;
  using Slot = std::atomic<Page *>;

  uint64_t pagesOf(size_t range) const;
  Slot &slotOf(size_t range, uint64_t address);
  Page &pageOf(size_t range, uint64_t address, unsigned shift);
  template <class Check>
  std::optional<GlobalConflict> each(size_t range, uint64_t address, uint32_t bytes, Check check);
  std::optional<GlobalConflict> unorderedWrite(const Cell &cell, const GlobalActor &actor) const;
  std::optional<GlobalConflict> unfencedWrite(const Cell &cell, const GlobalActor &actor) const;
  std::optional<GlobalConflict> unorderedSince(const Accesses &since,
                                               const GlobalActor &actor) const;

  const std::vector<MemoryRange> ranges;
  const unsigned warpSize;
  std::vector<std::atomic<Slot *>> directories; // by range, null until it is touched
  std::mutex mutex;                             // guards what follows
  std::vector<std::unique_ptr<Page>> pages;
  std::map<std::pair<uint64_t, Scope>, std::shared_ptr<const BlocksSeen>> places;
};

// What a launch did to global memory, for one that may start before it is done.
struct EarlierLaunch {
  const Program *program;
  std::shared_ptr<const GlobalShadow> accesses;
  std::shared_ptr<const EarlierLaunch> overlapped; // may still run as well
  std::shared_ptr<const void> owner;               // of the program
};

} // namespace sectile::vgpu
