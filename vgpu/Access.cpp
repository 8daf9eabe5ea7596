// Memory accesses: checks at the access itself, then a log that is matched across the lanes when
// the warp meets.
#include "vgpu/Block.h"
#include "vgpu/Program.h"
#include <algorithm>
#include <bit>
#include <tuple>

namespace sectile::vgpu {
namespace {

// A lane whose log is this long waits for the others, so that long loops without a meeting stay
// small.
constexpr size_t fullLog = 1024;

std::string hex(uint64_t value) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (; value || text.empty(); value >>= 4)
    text.insert(text.begin(), digits[value & 15]);
  return "0x" + text;
}

const char *verb(uint32_t access) {
  return access & accessAtomic ? "atomic of " : access & accessStore ? "store of " : "load of ";
}

// Bytes covered by the intervals, which need not be sorted.
uint64_t distinctBytes(MemoryRange *ranges, unsigned count) {
  auto before = [](const MemoryRange &a, const MemoryRange &b) { return a.low < b.low; };
  if (!std::is_sorted(ranges, ranges + count, before))
    std::sort(ranges, ranges + count, before);
  uint64_t total = 0, end = 0;
  for (unsigned i = 0; i < count; ++i) {
    uint64_t low = std::max(ranges[i].low, end);
    if (ranges[i].high > low) {
      total += ranges[i].high - low;
      end = ranges[i].high;
    }
  }
  return total;
}

uint64_t sectorsTouched(const MemoryRange *sorted, unsigned count) {
  uint64_t total = 0, next = 0; // the first sector not counted yet
  for (unsigned i = 0; i < count; ++i) {
    uint64_t low = std::max(sorted[i].low / 32, next), end = (sorted[i].high + 31) / 32;
    if (end > low) {
      total += end - low;
      next = end;
    }
  }
  return total;
}

// Passes through the 32 banks of four bytes: each pass serves a group of lanes that together ask
// for 128 bytes at most, and a bank gives one word per pass. Lanes that read one word share it.
void countWavefronts(AccessCounters &counters, const LogEntry *const *entries, unsigned count) {
  uint32_t width = std::max(4u, entries[0]->access & accessSizeMask);
  unsigned group = 128 / width;
  for (unsigned first = 0; first < count; first += group) {
    uint32_t words[64], wordCount = 0;
    for (unsigned i = first; i < std::min(first + group, count); ++i) {
      uint64_t low = entries[i]->address / 4,
               high = (entries[i]->address + (entries[i]->access & accessSizeMask) + 3) / 4;
      for (uint64_t word = low; word < high && wordCount < 64; ++word)
        words[wordCount++] = uint32_t(word);
    }
    std::sort(words, words + wordCount);
    wordCount = uint32_t(std::unique(words, words + wordCount) - words);
    uint8_t perBank[32] = {};
    uint8_t most = 0;
    for (uint32_t i = 0; i < wordCount; ++i)
      most = std::max(most, ++perBank[words[i] % 32]);
    counters.wavefronts += most;
    counters.idealWavefronts += (wordCount + 31) / 32;
  }
}

} // namespace

bool Block::checkAligned(Thread &thread, uint64_t address, uint32_t bytes, uint32_t site) {
  if (address % bytes == 0)
    return true;
  report(FindingKind::Misaligned, thread, site,
         placeOf(site) + " of " + std::to_string(bytes) + " bytes at " + hex(address) +
             ", which is no multiple of " + std::to_string(bytes));
  return false;
}

size_t Block::rangeAt(uint64_t address) const {
  const auto after =
      std::upper_bound(launch->ranges.begin(), launch->ranges.end(), address,
                       [](uint64_t value, const MemoryRange &range) { return value < range.low; });
  const bool inside = after != launch->ranges.begin() && address < std::prev(after)->high;
  return inside ? size_t(after - launch->ranges.begin()) - 1 : launch->ranges.size();
}

bool Block::checkGlobal(Thread &thread, uint64_t address, uint32_t bytes, uint32_t site,
                        const char *what) {
  if (const MemoryRange *last = thread.lastRange;
      last && address >= last->low && address + bytes <= last->high && address + bytes > address)
    return true;
  const size_t at = rangeAt(address);
  if (at < launch->ranges.size() && bytes <= launch->ranges[at].high - address) {
    thread.lastRange = &launch->ranges[at];
    return true;
  }
  report(FindingKind::OutOfBounds, thread, site,
         std::string(what) + std::to_string(bytes) + " bytes at " + hex(address) + ", " +
             describeAddress(launch->ranges, address));
  return false;
}

bool Block::checkShared(const Thread &thread, uint32_t address, uint32_t bytes, uint32_t site,
                        bool mayBeOthers) {
  const bool isOthers = mayBeOthers && isOfCluster(address);
  const uint32_t offset = isOthers ? offsetOf(address) : address;
  const bool exists = !isOthers || rankOf(address) < cluster.size;
  const bool lives = !isOthers || (exists && cluster.blocks[rankOf(address)]->isAlive());
  if (lives && offset >= sharedOrigin && offset < sharedEnd && bytes <= sharedEnd - offset)
    return true;
  std::string where = "shared offset " + std::to_string(int64_t(int32_t(offset)) - sharedOrigin) +
                      " of " + std::to_string(sharedEnd - sharedOrigin);
  if (isOthers)
    where += " of rank " + std::to_string(rankOf(address)) +
             (!exists  ? ", of which the cluster has only " + std::to_string(cluster.size)
              : !lives ? ", a block that has ended"
                       : "");
  report(FindingKind::BadSharedAddress, thread, site,
         placeOf(site) + " of " + std::to_string(bytes) + " bytes at " + where);
  return false;
}

void Block::append(Thread &thread, uint64_t address, uint32_t access, uint32_t site) {
  thread.log.push_back({address, site, access});
  if (thread.log.size() >= fullLog)
    letOthersRun(thread, site);
}

void Block::letOthersRun(Thread &thread, uint32_t site) {
  thread.site = site;
  suspend(thread, ThreadState::LogFull);
  if (failed())
    stop(thread);
}

void Block::accessGlobal(Thread &thread, uint64_t address, uint32_t access, uint32_t site) {
  if (!access)
    return;
  if (launch->checks) {
    uint32_t bytes = access & accessSizeMask;
    if (!checkAligned(thread, address, access & accessWords ? 4 : bytes, site) ||
        !checkGlobal(thread, address, bytes, site, verb(access)) ||
        !checkOrder(thread, address, access, site))
      stop(thread);
  }
  if (launch->counters)
    append(thread, address, access, site);
  else if (++thread.unlogged % fullLog == 0) // it may wait for what another one writes
    letOthersRun(thread, site);
}

char *Block::accessShared(Thread &thread, uint32_t offset, uint32_t access, uint32_t site) {
  if (launch->checks) {
    uint32_t bytes = access & accessSizeMask;
    if (!checkShared(thread, offset, bytes, site, access & accessCluster) ||
        !checkAligned(thread, offset, bytes, site))
      stop(thread);
  }
  if (launch->checks || launch->counters)
    append(thread, offset, access | logShared, site);
  return homeOf(offset).sharedStart + offsetOf(offset);
}

Block &Block::homeOf(uint32_t address) {
  const bool isOthers = isOfCluster(address) && rankOf(address) < cluster.size;
  return isOthers ? *cluster.blocks[rankOf(address)] : *this;
}

void Block::accessGeneric(Thread &thread, uint64_t address, uint32_t access, uint32_t site) {
  uint64_t offset = address - reinterpret_cast<uint64_t>(sharedStart);
  if (offset >= sharedOrigin && offset < sharedEnd) {
    accessShared(thread, uint32_t(offset), access, site);
    return;
  }
  // The thread's own stack holds its private variables.
  auto low = reinterpret_cast<uint64_t>(stacks.low(thread.index));
  if (address >= low && address < low + stacks.bytes())
    return;
  accessGlobal(thread, address, access, site);
}

void Block::accessRange(Thread &thread, uint64_t address, uint64_t bytes, uint32_t flags,
                        uint32_t site) {
  // Piece by piece, as the hardware's copy loop would.
  for (uint64_t done = 0; done < bytes;) {
    uint64_t width = 16;
    while ((address + done) % width || width > bytes - done)
      width /= 2;
    accessGeneric(thread, address + done, uint32_t(width) | flags, site);
    done += width;
  }
}

// Of an address in the allocation that the thread used last.
std::string Block::byteOf(const Thread &thread, uint64_t address) const {
  const MemoryRange &range = *thread.lastRange;
  return "byte " + std::to_string(address - range.low) + " of an allocation of " +
         std::to_string(range.high - range.low);
}

GlobalActor Block::globalActorOf(const Thread &thread, uint32_t site) const {
  return {actorOf(thread, site), cluster.number, thread.others.get()};
}

// What launches that may still run write is not there yet, and what they read must not change.
bool Block::checkEarlier(const Thread &thread, uint64_t address, uint32_t access, uint32_t site) {
  if (thread.hasWaited)
    return true;
  const GlobalAccess how = access & accessAtomic  ? GlobalAccess::Atomic
                           : access & accessStore ? GlobalAccess::Write
                                                  : GlobalAccess::Read;
  for (const EarlierLaunch *earlier = launch->overlapped; earlier;
       earlier = earlier->overlapped.get())
    if (const auto use = earlier->accesses->conflictWith(address, access & accessSizeMask, how)) {
      report(FindingKind::MissingWait, thread, site,
             placeOf(site) + " of " + byteOf(thread, use->address) + ", which kernel " +
                 earlier->program->kernel() + ", launched before, may not have " +
                 (use->otherAccess == GlobalAccess::Read ? "read" : "written") +
                 " yet: " + placeOf(*earlier->program, use->otherSite));
      return false;
    }
  return true;
}

bool Block::checkOrder(Thread &thread, uint64_t address, uint32_t access, uint32_t site) {
  if (!checkEarlier(thread, address, access, site))
    return false;
  const MemoryRange &range = *thread.lastRange;
  const uint32_t bytes = access & accessSizeMask;
  const bool isAtomic = access & (accessAtomic | accessVolatile), writes = access & accessStore;
  const bool releases = isAtomic && writes && access & accessFenced && thread.release.knowledge;
  // A volatile load is there to see what others write meanwhile.
  if (!isAtomic || writes) {
    GlobalActor actor = globalActorOf(thread, site);
    if (access & accessByEngine)
      actor.fence = &thread.proxyFence;
    // It is part of the release: who acquires knows of it as of what came before.
    if (releases)
      actor.clock = thread.release.clock;
    const auto conflict = launch->shadow->access(size_t(thread.lastRange - launch->ranges.data()),
                                                 actor, address, bytes,
                                                 isAtomic ? GlobalAccess::Atomic
                                                 : writes ? GlobalAccess::Write
                                                          : GlobalAccess::Read);
    if (conflict) {
      reportConflict(thread, site, *conflict);
      return false;
    }
  }
  if (isAtomic && access & accessFenced) {
    if (releases)
      publish(thread, address);
    if (std::find(thread.atomics.begin(), thread.atomics.end(), address) == thread.atomics.end())
      thread.atomics.push_back(address);
  }
  if (!range.written)
    return true;
  if (!writes || access & accessAtomic) {
    const uint64_t unwritten =
        range.low + range.written->firstUnwritten(address - range.low, bytes);
    if (unwritten < address + bytes && !uninitialized)
      report(FindingKind::Uninitialized, thread, site,
             placeOf(site) + " of " + byteOf(thread, unwritten) + ", which nothing has written");
  }
  if (writes)
    range.written->mark(address - range.low, bytes);
  return true;
}

// What came before the thread's release fence is seen by who acquires what it writes there now.
void Block::publish(Thread &thread, uint64_t address) {
  Release &release = thread.release;
  if (!release.all) {
    auto seen = std::make_shared<Seen>(release.knowledge->seen);
    (*seen)[thread.who] = release.clock;
    auto all = release.others ? std::make_shared<BlocksSeen>(*release.others)
                              : std::make_shared<BlocksSeen>();
    all->add(cluster.number, std::move(seen));
    release.all = std::move(all);
  }
  launch->shadow->release(address, release.ofBlock ? std::optional(number) : std::nullopt,
                          *release.all);
}

void Block::fence(Thread &thread, uint32_t order) {
  if (!launch->checks)
    return;
  shadowLog(thread);
  if (failed())
    stop(thread);
  const bool ofBlock = order & fenceOfBlock;
  if (order & fenceAcquires) {
    BlocksSeen found;
    for (const uint64_t address : thread.atomics)
      for (const GlobalShadow::Scope &scope : {GlobalShadow::Scope(), GlobalShadow::Scope(number)})
        if (const auto seen = launch->shadow->released(address, scope))
          found.add(*seen);
    thread.atomics.clear();
    if (const Seen *own = found.of(cluster.number)) {
      Knowledge *knowledge = cluster.newKnowledge();
      knowledge->seen = thread.knowledge->seen;
      learn(knowledge->seen, *own);
      knowledge->findLeast();
      setKnowledge(thread, knowledge);
    }
    if (!ofBlock && !found.isEmpty()) {
      if (thread.others)
        found.add(*thread.others);
      thread.others = std::make_shared<BlocksSeen>(std::move(found));
    }
  }
  if (order & fenceReleases) {
    cluster.drop(thread.release.knowledge);
    ++thread.knowledge->users;
    thread.release = {thread.knowledge, thread.clock, ofBlock, thread.others, nullptr};
    // What comes after is not released. Lanes that do the same keep one clock.
    cluster.topClock = std::max(cluster.topClock, ++thread.clock);
  }
}

void Block::fenceProxy(Thread &thread, uint32_t what) {
  if (!launch->checks)
    return;
  shadowLog(thread);
  if (failed())
    stop(thread);
  if (what & proxyFenceShared)
    for (uint32_t other = 0; other < cluster.size; ++other)
      cluster.blocks[other]->shadow.fenceProxy(thread.who, thread.clock);
  if (what & proxyFenceMbarriers)
    for (auto &[address, barrier] : mbarriers)
      if (barrier.initThread == thread.who && !barrier.initFence)
        barrier.initFence = thread.clock;
  if (what & proxyFenceGlobal) {
    cluster.drop(thread.proxyFence.knowledge);
    ++thread.knowledge->users;
    thread.proxyFence = {thread.knowledge, thread.clock, thread.others};
  }
  // What comes after is not fenced. Lanes that do the same keep one clock.
  cluster.topClock = std::max(cluster.topClock, ++thread.clock);
}

template <class Issued>
bool Block::checkLanding(Thread &thread, const Issued &issued, uint64_t address, uint32_t bytes) {
  GlobalActor actor = globalActorOf(thread, issued.site);
  actor.clock = issued.clock;
  actor.knowledge = issued.knowledge;
  actor.others = issued.others.get();
  // The thread has used other allocations since.
  thread.lastRange = &launch->ranges[rangeAt(address)];
  const auto conflict = launch->shadow->finishRead(size_t(thread.lastRange - launch->ranges.data()),
                                                   actor, address, bytes);
  if (conflict)
    reportConflict(thread, issued.site, *conflict);
  return !conflict;
}

template bool Block::checkLanding(Thread &, const AsyncCopy &, uint64_t, uint32_t);
template bool Block::checkLanding(Thread &, const Transfer &, uint64_t, uint32_t);

void Block::reportConflict(const Thread &thread, uint32_t site, const GlobalConflict &conflict) {
  const char *what = conflict.otherAccess == GlobalAccess::Write    ? "a write"
                     : conflict.otherAccess == GlobalAccess::Atomic ? "an atomic operation"
                                                                    : "a read";
  const uint32_t other = conflict.otherThread % cluster.threadsPerBlock;
  const uint32_t otherRank = conflict.otherThread / cluster.threadsPerBlock;
  std::string who = "thread " + std::to_string(other);
  if (conflict.otherCluster != cluster.number || otherRank != rank) {
    uint64_t first = conflict.otherCluster;
    uint32_t inside = otherRank;
    std::string place;
    for (int axis = 0; axis < 3; ++axis) {
      const uint32_t extent = launch->cluster[axis], clusters = launch->grid[axis] / extent;
      place += (axis ? "," : "") + std::to_string(first % clusters * extent + inside % extent);
      first /= clusters;
      inside /= extent;
    }
    who += " of block (" + place + ")";
  }
  if (conflict.isUnfenced) {
    report(FindingKind::MissingProxyFence, thread, site,
           placeOf(site) + " of " + byteOf(thread, conflict.address) +
               " has no fence.proxy.async of its thread between it and " + what + " by " + who +
               ": " + placeOf(conflict.otherSite));
    return;
  }
  report(FindingKind::GlobalRace, thread, site,
         placeOf(site) + " of " + byteOf(thread, conflict.address) + " is not ordered after " +
             what + " by " + who + ": " + placeOf(conflict.otherSite));
}

Actor Block::actorOf(const Thread &thread, uint32_t site) const {
  return {thread.who,
          thread.who / launch->warpSize,
          uint64_t(1) << thread.lane,
          thread.clock,
          site,
          thread.knowledge};
}

void Block::reportConflict(const Thread &thread, uint32_t site, const Conflict &conflict) {
  std::string where = "shared byte " + std::to_string(conflict.offset);
  std::string other = cluster.nameOf(conflict.otherThread);
  switch (conflict.kind) {
  case FindingKind::BadOperand:
    report(conflict.kind, thread, site,
           placeOf(site) + " of " + where +
               ", where an mbarrier is: " + placeOf(conflict.otherSite));
    break;
  case FindingKind::MissingProxyFence:
    report(conflict.kind, thread, site,
           placeOf(site) + " of " + where + ", which " + other +
               (conflict.otherWrote ? " wrote" : " read") +
               " without a fence.proxy.async behind it: " + placeOf(conflict.otherSite));
    break;
  case FindingKind::Uninitialized:
    report(conflict.kind, thread, site,
           placeOf(site) + " of " + where + ", which nothing has written");
    break;
  case FindingKind::MissingWait:
    report(conflict.kind, thread, site,
           placeOf(site) + " of " + where + ", where " +
               (conflict.otherThread < cluster.threadCount()
                    ? "an asynchronous copy of " + other + " has not landed: "
                    : other + " has not been waited for: ") +
               placeOf(conflict.otherSite));
    break;
  default:
    report(conflict.kind, thread, site,
           placeOf(site) + " of " + where + " is not ordered after a " +
               (conflict.otherWrote ? "write" : "read") + " by " + other + ": " +
               placeOf(conflict.otherSite));
  }
}

void Block::shadowAccess(Thread &thread, const LogEntry &entry) {
  Actor actor = actorOf(thread, entry.site);
  SharedShadow &shadow = homeOf(uint32_t(entry.address)).shadow;
  auto offset = offsetOf(uint32_t(entry.address)) - sharedOrigin;
  uint32_t bytes = entry.access & accessSizeMask;
  std::optional<Conflict> conflict;
  if (entry.access & logIssue)
    conflict = shadow.issue(actor, offset, bytes);
  else if (entry.access & logLand)
    shadow.land(actor, offset, bytes);
  else if (entry.access & accessStore)
    conflict = shadow.write(actor, offset, bytes, entry.access & accessAtomic);
  else
    conflict = shadow.read(actor, offset, bytes);
  if (conflict)
    reportConflict(thread, entry.site, *conflict);
}

// The shadow learns of the thread's accesses so far, while the thread's clock and knowledge are
// still theirs.
void Block::shadowLog(Thread &thread) {
  for (; thread.shadowed < thread.log.size() && !failed(); ++thread.shadowed) {
    const LogEntry &entry = thread.log[thread.shadowed];
    if (entry.access & logShared)
      shadowAccess(thread, entry);
  }
}

void Block::countRequest(uint32_t site, const LogEntry *const *entries, unsigned count) {
  AccessCounters &counters = siteCounters[site].access;
  if (entries[0]->access & logIssue) {
    // The other side of a copy, whose request and bytes its source counts.
    countWavefronts(counters, entries, count);
    return;
  }
  ++counters.requests;
  MemoryRange ranges[64];
  for (unsigned i = 0; i < count; ++i) {
    uint32_t bytes = entries[i]->access & accessSizeMask;
    counters.bytes += bytes;
    ranges[i] = {entries[i]->address, entries[i]->address + bytes};
  }
  if (entries[0]->access & logShared) {
    countWavefronts(counters, entries, count);
    return;
  }
  uint64_t distinct = distinctBytes(ranges, count);
  counters.sectors += sectorsTouched(ranges, count);
  counters.idealSectors += (distinct + 31) / 32;
  if (!(entries[0]->access & (accessStore | accessAtomic)))
    countRead(ranges, count);
}

// Adds to what was read of each allocation. The accesses are sorted; no sector is of two.
void Block::countRead(const MemoryRange *accesses, unsigned count) {
  while (count) {
    const size_t allocation = rangeAt(accesses->low);
    unsigned same = 1;
    while (same < count && (allocation == launch->ranges.size() ||
                            accesses[same].low < launch->ranges[allocation].high))
      ++same;
    if (allocation < launch->ranges.size())
      sectorsRead[allocation] += sectorsTouched(accesses, same);
    accesses += same;
    count -= same;
  }
}

// The sectors of one contiguous access of its own.
void Block::countSectors(AccessCounters &counters, const MemoryRange &run, bool isRead) {
  counters.sectors += sectorsTouched(&run, 1);
  counters.idealSectors += (run.high - run.low + 31) / 32;
  if (isRead)
    countRead(&run, 1);
}

// Matches the lanes' logs: entries at the same position belong together as long as all lanes made
// the same accesses.
void Block::flush(Warp &warp, uint64_t lanes) {
  Thread *members[64];
  unsigned count = 0;
  size_t longest = 0;
  bool equal = true;
  for (uint64_t rest = lanes; rest; rest &= rest - 1) {
    Thread &thread = laneOf(warp, unsigned(std::countr_zero(rest)));
    equal &= count == 0 || thread.log.size() == longest;
    longest = std::max(longest, thread.log.size());
    members[count++] = &thread;
  }
  if (!longest)
    return;
  const LogEntry *entries[64];
  for (size_t position = 0; position < longest && !failed(); ++position) {
    for (unsigned i = 0; i < count && equal; ++i) {
      entries[i] = &members[i]->log[position];
      equal = entries[i]->site == entries[0]->site && entries[i]->access == entries[0]->access;
    }
    if (!equal) {
      flushDivergent(warp, lanes, position);
      break;
    }
    uint32_t access = entries[0]->access;
    if (launch->checks && access & logShared)
      for (unsigned i = 0; i < count; ++i)
        if (position >= members[i]->shadowed)
          shadowAccess(*members[i], *entries[i]);
    if (launch->counters && !(access & logLand))
      countRequest(entries[0]->site, entries, count);
  }
  for (unsigned i = 0; i < count; ++i) {
    members[i]->log.clear();
    members[i]->shadowed = 0;
  }
}

// Lanes went different ways: the n-th access of one instruction by one lane belongs with the n-th
// of the others.
void Block::flushDivergent(Warp &warp, uint64_t lanes, size_t from) {
  struct Access {
    uint32_t site, side, occurrence, lane; // side: 1 for the shared side of a copy
    const LogEntry *entry;
  };
  std::vector<Access> accesses;
  for (uint64_t rest = lanes; rest; rest &= rest - 1) {
    Thread &thread = laneOf(warp, unsigned(std::countr_zero(rest)));
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> occurrences; // by site and side
    for (size_t i = from; i < thread.log.size(); ++i) {
      const LogEntry &entry = thread.log[i];
      if (launch->checks && entry.access & logShared && i >= thread.shadowed)
        shadowAccess(thread, entry);
      if (!launch->counters || entry.access & logLand)
        continue;
      uint32_t side = entry.access & logIssue ? 1 : 0;
      accesses.push_back(
          {entry.site, side, occurrences[{entry.site, side}]++, thread.lane, &entry});
    }
  }
  if (!launch->counters)
    return;
  std::sort(accesses.begin(), accesses.end(), [](const Access &a, const Access &b) {
    return std::tie(a.site, a.side, a.occurrence, a.lane) <
           std::tie(b.site, b.side, b.occurrence, b.lane);
  });
  const LogEntry *entries[64];
  for (size_t i = 0; i < accesses.size();) {
    unsigned count = 0;
    size_t first = i;
    while (i < accesses.size() && accesses[i].site == accesses[first].site &&
           accesses[i].side == accesses[first].side &&
           accesses[i].occurrence == accesses[first].occurrence)
      entries[count++] = accesses[i++].entry;
    countRequest(accesses[first].site, entries, count);
  }
}

// Who touches which bytes of a matrix's row: four lanes a word each, or two elements by all lanes
// of a position where the matrix is transposed.
void Block::shadowRow(Warp &warp, uint32_t site, unsigned row, uint32_t offset, bool transpose,
                      bool store) {
  offset -= sharedOrigin;
  std::optional<Conflict> conflict;
  Thread *thread = nullptr;
  if (!store) {
    // All of the row's readers at once.
    uint64_t readers = transpose ? 0x11111111u : 0xfu;
    readers <<= transpose ? row / 2 : 4 * row;
    thread = &laneOf(warp, unsigned(std::countr_zero(readers)));
    Actor actor = actorOf(*thread, site);
    actor.lanes = readers;
    conflict = shadow.read(actor, offset, 16);
    if (conflict)
      reportConflict(*thread, site, *conflict);
    return;
  }
  for (unsigned element = 0; element < 8 && !conflict; ++element) {
    thread = &laneOf(warp, transpose ? 4 * element + row / 2 : 4 * row + element / 2);
    conflict = shadow.write(actorOf(*thread, site), offset + 2 * element, 2, /*atomic=*/false);
  }
  if (conflict)
    reportConflict(*thread, site, *conflict);
}

// All lanes go on at the latest clock of one, which a release may have moved on alone.
void Block::alignClocks(Warp &warp) {
  uint32_t latest = 0;
  for (unsigned lane = 0; lane < launch->warpSize; ++lane)
    latest = std::max(latest, laneOf(warp, lane).clock);
  for (unsigned lane = 0; lane < launch->warpSize; ++lane)
    laneOf(warp, lane).clock = latest;
}

bool Block::matrixRows(Warp &warp, uint32_t site, unsigned firstLane, const uint32_t *offsets,
                       bool transpose, bool store) {
  constexpr uint32_t rowBytes = 16;
  LogEntry entries[8];
  const LogEntry *pointers[8];
  if (launch->checks)
    alignClocks(warp);
  for (unsigned row = 0; row < 8; ++row) {
    entries[row] = {offsets[row], site, rowBytes | logShared};
    pointers[row] = &entries[row];
    if (!launch->checks)
      continue;
    Thread &thread = laneOf(warp, firstLane + row);
    if (!checkShared(thread, offsets[row], rowBytes, site) ||
        !checkAligned(thread, offsets[row], rowBytes, site))
      return false;
    shadowRow(warp, site, row, offsets[row], transpose, store);
  }
  if (launch->counters) {
    AccessCounters &counters = siteCounters[site].access;
    counters.bytes += 8 * rowBytes;
    countWavefronts(counters, pointers, 8);
  }
  return !failed();
}

} // namespace sectile::vgpu
