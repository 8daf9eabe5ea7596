// Happens-before checks over global memory.
#include "vgpu/GlobalShadow.h"
#include <algorithm>
#include <bit>
#include <new>
#include <sys/mman.h>
#include <thread>

namespace sectile::vgpu {
namespace {

constexpr uint64_t pageBytes = 1024;
constexpr unsigned widestShift = 4; // no access is wider than 16 bytes
constexpr uint32_t mostSites = (1u << 24) - 1;

} // namespace

const Seen *BlocksSeen::of(uint64_t block) const {
  const auto found =
      std::lower_bound(blocks.begin(), blocks.end(), block,
                       [](const auto &entry, uint64_t value) { return entry.first < value; });
  return found != blocks.end() && found->first == block ? found->second.get() : nullptr;
}

void BlocksSeen::add(const BlocksSeen &other) {
  std::vector<std::pair<uint64_t, std::shared_ptr<const Seen>>> all;
  all.reserve(blocks.size() + other.blocks.size());
  auto mine = blocks.begin();
  for (const auto &[block, seen] : other.blocks) {
    while (mine != blocks.end() && mine->first < block)
      all.push_back(std::move(*mine++));
    if (mine == blocks.end() || mine->first != block) {
      all.emplace_back(block, seen);
      continue;
    }
    if (mine->second != seen) {
      auto latest = std::make_shared<Seen>(*seen);
      learn(*latest, *mine->second);
      mine->second = std::move(latest);
    }
    all.push_back(std::move(*mine++));
  }
  std::move(mine, blocks.end(), std::back_inserter(all));
  blocks = std::move(all);
}

// Reads and atomic operations of one warp at its latest clock; none where the clock is 0.
struct GlobalShadow::Accesses {
  uint64_t lanes;
  uint64_t cluster : 52, warp : 12;
  uint32_t clock;
  uint32_t site : 24, reads : 1, atomics : 1;
  uint32_t byThreads : 1; // some of the atomic operations

  bool isOf(const GlobalActor &actor) const {
    return clock && cluster == actor.cluster && warp == actor.warp;
  }
};

struct GlobalShadow::Cell {
  uint64_t cluster : 44, warp : 12, lane : 8; // of the last write, as what follows
  uint32_t clock;                             // 0: none
  uint32_t site : 24, byEngine : 1;
  Accesses since[2]; // the latest first
};

struct GlobalShadow::Page {
  std::atomic<bool> busy = false;
  unsigned shift; // each cell is of 1 << shift bytes
  std::unique_ptr<Cell[]> cells;

  explicit Page(unsigned shift) : shift(shift), cells(new Cell[pageBytes >> shift]()) {}
  void lock() {
    while (busy.exchange(true, std::memory_order_acquire))
      while (busy.load(std::memory_order_relaxed))
        std::this_thread::yield();
  }
  void unlock() { busy.store(false, std::memory_order_release); }
  void split(unsigned finer) {
    std::unique_ptr<Cell[]> parts(new Cell[pageBytes >> finer]);
    for (size_t i = 0; i < pageBytes >> finer; ++i)
      parts[i] = cells[i >> (shift - finer)];
    cells = std::move(parts);
    shift = finer;
  }
};

GlobalShadow::GlobalShadow(std::vector<MemoryRange> ranges, unsigned warpSize)
    : ranges(std::move(ranges)), warpSize(warpSize), directories(this->ranges.size()) {}

GlobalShadow::~GlobalShadow() {
  for (size_t range = 0; range < directories.size(); ++range)
    if (Slot *slots = directories[range].load())
      munmap(slots, pagesOf(range) * sizeof(Slot));
}

uint64_t GlobalShadow::pagesOf(size_t range) const {
  return ranges[range].high / pageBytes - ranges[range].low / pageBytes + 1;
}

GlobalShadow::Slot &GlobalShadow::slotOf(size_t range, uint64_t address) {
  const uint64_t first = ranges[range].low / pageBytes;
  Slot *slots = directories[range].load(std::memory_order_acquire);
  if (!slots) {
    std::lock_guard lock(mutex);
    slots = directories[range].load(std::memory_order_relaxed);
    if (!slots) {
      // Zeros that nobody touches cost nothing, however large the allocation is.
      void *zeros = mmap(nullptr, pagesOf(range) * sizeof(Slot), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (zeros == MAP_FAILED)
        throw std::bad_alloc();
      slots = static_cast<Slot *>(zeros);
      directories[range].store(slots, std::memory_order_release);
    }
  }
  return slots[address / pageBytes - first];
}

GlobalShadow::Page &GlobalShadow::pageOf(size_t range, uint64_t address, unsigned shift) {
  Slot &slot = slotOf(range, address);
  Page *page = slot.load(std::memory_order_acquire);
  if (!page) {
    std::lock_guard lock(mutex);
    page = slot.load(std::memory_order_relaxed);
    if (!page) {
      page = pages.emplace_back(std::make_unique<Page>(shift)).get();
      slot.store(page, std::memory_order_release);
    }
  }
  return *page;
}

// Calls `check` for the cells of the bytes, until one gives a conflict.
template <class Check>
std::optional<GlobalConflict> GlobalShadow::each(size_t range, uint64_t address, uint32_t bytes,
                                                 Check check) {
  // Several words need not be aligned to their size.
  if (const uint64_t here = pageBytes - address % pageBytes; bytes > here) {
    if (std::optional<GlobalConflict> conflict = each(range, address, uint32_t(here), check))
      return conflict;
    return each(range, address + here, uint32_t(bytes - here), check);
  }
  const unsigned shift =
      std::min(widestShift, unsigned(std::countr_zero(address | uint64_t(bytes))));
  Page &page = pageOf(range, address, shift);
  std::lock_guard lock(page);
  if (page.shift > shift)
    page.split(shift);
  const uint64_t first = address % pageBytes >> page.shift;
  for (uint64_t i = first; i < first + (bytes >> page.shift); ++i)
    if (std::optional<GlobalConflict> conflict = check(page.cells[i])) {
      conflict->address = address / pageBytes * pageBytes + (i << page.shift);
      return conflict;
    }
  return std::nullopt;
}

std::optional<GlobalConflict> GlobalShadow::unorderedWrite(const Cell &cell,
                                                           const GlobalActor &actor) const {
  if (!cell.clock)
    return std::nullopt;
  const uint32_t thread = cell.warp * warpSize + cell.lane;
  const bool isOrdered = cell.cluster == actor.cluster
                             ? !actor.isUnordered(thread, cell.clock)
                             : actor.others && actor.others->sees(cell.cluster, thread, cell.clock);
  if (isOrdered)
    return std::nullopt;
  return GlobalConflict{0, cell.cluster, thread, cell.site, GlobalAccess::Write};
}

std::optional<GlobalConflict> GlobalShadow::unorderedSince(const Accesses &since,
                                                           const GlobalActor &actor) const {
  const bool isOwn = since.cluster == actor.cluster;
  if (isOwn && since.clock <= actor.knowledge->least)
    return std::nullopt;
  for (uint64_t lanes = since.lanes; lanes; lanes &= lanes - 1) {
    const uint32_t thread = since.warp * warpSize + uint32_t(std::countr_zero(lanes));
    const bool isOrdered =
        isOwn ? !actor.isUnordered(thread, since.clock)
              : actor.others && actor.others->sees(since.cluster, thread, since.clock);
    if (!isOrdered)
      return GlobalConflict{0, since.cluster, thread, since.site,
                            since.atomics ? GlobalAccess::Atomic : GlobalAccess::Read};
  }
  return std::nullopt;
}

static bool isFenced(const GlobalActor &actor, uint64_t cluster, uint32_t thread, uint32_t clock) {
  const ProxyFence &fence = *actor.fence;
  if (!fence.knowledge)
    return false;
  if (cluster != actor.cluster)
    return fence.others && fence.others->sees(cluster, thread, clock);
  return thread == actor.thread ? clock <= fence.clock : fence.knowledge->sees(thread, clock);
}

std::optional<GlobalConflict> GlobalShadow::unfencedWrite(const Cell &cell,
                                                          const GlobalActor &actor) const {
  const uint32_t writer = cell.warp * warpSize + cell.lane;
  if (cell.clock && !cell.byEngine && !isFenced(actor, cell.cluster, writer, cell.clock))
    return GlobalConflict{0, cell.cluster, writer, cell.site, GlobalAccess::Write, true};
  for (const Accesses &since : cell.since)
    for (uint64_t lanes = since.clock && since.byThreads ? since.lanes : 0; lanes;
         lanes &= lanes - 1) {
      const uint32_t thread = since.warp * warpSize + uint32_t(std::countr_zero(lanes));
      if (!isFenced(actor, since.cluster, thread, since.clock))
        return GlobalConflict{0, since.cluster, thread, since.site, GlobalAccess::Atomic, true};
    }
  return std::nullopt;
}

std::optional<GlobalConflict> GlobalShadow::access(size_t range, const GlobalActor &actor,
                                                   uint64_t address, uint32_t bytes,
                                                   GlobalAccess access) {
  const uint32_t site = std::min(actor.site, mostSites);
  return each(range, address, bytes, [&](Cell &cell) -> std::optional<GlobalConflict> {
    if (auto conflict = unorderedWrite(cell, actor))
      return conflict;
    for (const Accesses &since : cell.since) {
      // Reads do not race with reads, nor atomic operations with each other.
      const bool isHarmless = access == GlobalAccess::Read     ? !since.atomics
                              : access == GlobalAccess::Atomic ? !since.reads
                                                               : false;
      if (since.clock && !isHarmless)
        if (auto conflict = unorderedSince(since, actor))
          return conflict;
    }
    if (actor.fence && access == GlobalAccess::Read)
      if (auto conflict = unfencedWrite(cell, actor))
        return conflict;
    if (access == GlobalAccess::Write) {
      cell.cluster = actor.cluster;
      cell.warp = actor.warp;
      cell.lane = uint32_t(std::countr_zero(actor.lanes));
      cell.clock = actor.clock;
      cell.site = site;
      cell.byEngine = actor.fence != nullptr;
      cell.since[0].clock = cell.since[1].clock = 0;
      return std::nullopt;
    }
    Accesses &latest = cell.since[0], &other = cell.since[1];
    if (!latest.isOf(actor)) {
      const bool keepsOther = other.clock && !other.isOf(actor) && other.cluster != actor.cluster &&
                              latest.cluster == actor.cluster;
      if (latest.clock && !keepsOther)
        std::swap(latest, other);
    }
    if (!latest.isOf(actor) || latest.clock != actor.clock) {
      latest = {};
      latest.cluster = actor.cluster;
      latest.warp = actor.warp;
      latest.clock = actor.clock;
    }
    latest.lanes |= actor.lanes;
    latest.site = site;
    if (access == GlobalAccess::Atomic) {
      latest.atomics = 1;
      latest.byThreads |= actor.fence == nullptr;
    } else
      latest.reads = 1;
    return std::nullopt;
  });
}

std::optional<GlobalConflict> GlobalShadow::finishRead(size_t range, const GlobalActor &actor,
                                                       uint64_t address, uint32_t bytes) {
  return each(range, address, bytes, [&](Cell &cell) -> std::optional<GlobalConflict> {
    if (auto conflict = unorderedWrite(cell, actor))
      return conflict;
    // The read itself is among those since the last write, unless that came later.
    if (cell.clock && !cell.since[0].clock)
      return GlobalConflict{0, cell.cluster, cell.warp * warpSize + cell.lane, cell.site,
                            GlobalAccess::Write};
    for (const Accesses &since : cell.since)
      if (since.clock && since.atomics)
        if (auto conflict = unorderedSince(since, actor))
          return conflict;
    return std::nullopt;
  });
}

std::optional<GlobalConflict> GlobalShadow::conflictWith(uint64_t address, uint32_t bytes,
                                                         GlobalAccess access) const {
  const auto range = std::find_if(ranges.begin(), ranges.end(), [&](const MemoryRange &each) {
    return each.low <= address && address < each.high;
  });
  const Slot *slots =
      range == ranges.end() ? nullptr : directories[size_t(range - ranges.begin())].load();
  if (!slots)
    return std::nullopt;
  for (uint64_t at = address; at < std::min(address + bytes, range->high);) {
    const Page *page = slots[at / pageBytes - range->low / pageBytes].load();
    if (!page) {
      at = (at / pageBytes + 1) * pageBytes;
      continue;
    }
    const Cell &cell = page->cells[at % pageBytes >> page->shift];
    if (cell.clock)
      return GlobalConflict{at, cell.cluster, cell.warp * warpSize + cell.lane, cell.site,
                            GlobalAccess::Write};
    for (const Accesses &since : cell.since) {
      const bool atomics = since.atomics && access != GlobalAccess::Atomic,
                 reads = since.reads && access != GlobalAccess::Read;
      if (since.clock && (atomics || reads))
        return GlobalConflict{at, since.cluster,
                              since.warp * warpSize + uint32_t(std::countr_zero(since.lanes)),
                              since.site, atomics ? GlobalAccess::Atomic : GlobalAccess::Read};
    }
    at = ((at >> page->shift) + 1) << page->shift;
  }
  return std::nullopt;
}

void GlobalShadow::release(uint64_t address, Scope scope, const BlocksSeen &seen) {
  std::lock_guard lock(mutex);
  std::shared_ptr<const BlocksSeen> &place = places[{address, scope}];
  auto all = place ? std::make_shared<BlocksSeen>(*place) : std::make_shared<BlocksSeen>();
  all->add(seen);
  place = std::move(all);
}

std::shared_ptr<const BlocksSeen> GlobalShadow::released(uint64_t address, Scope scope) {
  std::lock_guard lock(mutex);
  const auto found = places.find({address, scope});
  return found == places.end() ? nullptr : found->second;
}

} // namespace sectile::vgpu
