// Where threads wait for each other: warp operations, barriers, asynchronous copies.
#include "vgpu/Block.h"
#include "vgpu/Program.h"
#include "vgpu/WarpOps.h"
#include <algorithm>
#include <bit>
#include <cstring>

namespace sectile::vgpu {
namespace {

constexpr uint64_t bit(unsigned lane) { return uint64_t(1) << lane; }

} // namespace

// Whether only lanes at the same instruction meet, as those of a wave, which has one program
// counter.
static bool isOfWave(Op op) {
  return op == Op::ReadFirstLane || op == Op::ReadLane || op == Op::BackPermute ||
         op == Op::Permute || op == Op::Swizzle || op == Op::Dpp || op == Op::LaneSwap ||
         op == Op::PermuteInRow || op == Op::PermuteAcrossRows;
}

void Block::meetWarp(Thread &thread, uint32_t site, Op op, uint32_t modifiers, uint64_t mask,
                     uint32_t *registers) {
  Warp &warp = *thread.warpState;
  mask &= warp.present;
  thread.registers = registers;
  thread.site = site;
  if (!(mask & bit(thread.lane))) {
    report(FindingKind::BadOperand, thread, site,
           placeOf(site) + " names lanes that do not include its own");
    stop(thread);
  }
  size_t index = 0;
  const uint32_t place = isOfWave(op) ? site : 0;
  while (index < warp.meetings.size() &&
         (warp.meetings[index].op != op || warp.meetings[index].modifiers != modifiers ||
          warp.meetings[index].mask != mask || warp.meetings[index].site != place))
    ++index;
  if (index == warp.meetings.size())
    warp.meetings.push_back({op, modifiers, mask, 0, place});
  Meeting &meeting = warp.meetings[index];
  meeting.arrived |= bit(thread.lane);
  if (meeting.arrived == (mask & warp.live))
    completeMeeting(warp, index, site, bit(thread.lane));
  else
    thread.state = ThreadState::AtWarp;
  // Still waiting where other lanes, or other warps, have not come yet.
  if (!failed() && thread.state == ThreadState::AtWarp)
    suspend(thread, ThreadState::AtWarp);
  if (failed())
    stop(thread);
}

// Waves whose lanes all wait at different instructions go on with those at the first one: sites
// count so that the others are where the lanes meet again.
bool Block::runDivergedWaves() {
  bool any = false;
  for (Warp &warp : warps) {
    uint64_t arrived = 0;
    for (const Meeting &meeting : warp.meetings)
      arrived |= isOfWave(meeting.op) ? meeting.arrived : 0;
    if (warp.meetings.size() < 2 || arrived != warp.live || failed())
      continue;
    const auto first =
        std::min_element(warp.meetings.begin(), warp.meetings.end(),
                         [](const Meeting &a, const Meeting &b) { return a.site < b.site; });
    completeMeeting(warp, std::size_t(first - warp.meetings.begin()), first->site, 0);
    any = true;
  }
  return any;
}

void Block::completeMeeting(Warp &warp, size_t index, uint32_t site, uint64_t running) {
  ++cluster.progress;
  Meeting meeting = warp.meetings[index];
  warp.meetings.erase(warp.meetings.begin() + ptrdiff_t(index));
  flush(warp, meeting.arrived);
  if (failed())
    return;
  const WarpOp op{*this, warp, meeting.arrived, meeting.op, meeting.modifiers, site};
  if (meeting.op == Op::Wgmma) {
    arriveWarpgroup(op, running);
    return;
  }
  ++siteCounters[site].executions;
  if (meeting.op == Op::SetMaxRegisters) {
    setMaxRegisters(op, running);
    return;
  }
  runWarpOp(op);
  wake(warp, meeting.arrived & ~running);
}

void Block::setMaxRegisters(const WarpOp &op, uint64_t running) {
  if (!isAligned(op))
    return;
  const uint32_t wanted = op.modifiers & (registersIncrease - 1);
  const bool increases = op.modifiers & registersIncrease;
  const uint32_t has = op.warp.registers;
  if (increases ? wanted < has : wanted > has) {
    report(FindingKind::BadOperand, laneOf(op.warp, 0), op.site,
           placeOf(op.site) + " to " + std::to_string(wanted) + " of a warp with " +
               std::to_string(has) + " registers for each thread");
    return;
  }
  for (unsigned lane = 0; lane < launch->warpSize; ++lane)
    laneOf(op.warp, lane).state = ThreadState::AtWarp;
  if (!increases) {
    freeRegisters += has - wanted;
    op.warp.registers = wanted;
    wake(op.warp, op.lanes & ~running);
  } else {
    registerWaits.emplace_back(&op.warp, wanted);
  }
  // Who came first gets them first.
  bool isGranted = !increases;
  while (!registerWaits.empty()) {
    const auto [warp, count] = registerWaits.front();
    if (count - warp->registers > freeRegisters)
      break;
    freeRegisters -= count - warp->registers;
    warp->registers = count;
    registerWaits.pop_front();
    isGranted |= warp == &op.warp;
    wake(*warp, warp == &op.warp ? op.lanes & ~running : warp->present);
  }
  for (uint64_t rest = isGranted ? running : 0; rest; rest &= rest - 1)
    laneOf(op.warp, unsigned(std::countr_zero(rest))).state = ThreadState::Ready;
}

void Block::synchronize(Warp &warp, uint64_t lanes) {
  Thread *members[64];
  size_t count = 0;
  for (; lanes; lanes &= lanes - 1)
    members[count++] = &laneOf(warp, unsigned(std::countr_zero(lanes)));
  join(members, count, members, count);
}

uint32_t Block::meetBarrier(Thread &thread, uint32_t site, uint32_t kind, uint32_t id,
                            uint32_t count, uint32_t predicate) {
  Warp &warp = *thread.warpState;
  thread.site = site;
  thread.result = predicate;
  if (warp.atBarrier) {
    bool same = warp.barrierKind == kind && warp.barrierId == id && warp.barrierCount == count;
    if (!same || (kind & barrierAligned && warp.barrierSite != site)) {
      unsigned other = unsigned(std::countr_zero(warp.atBarrier));
      report(FindingKind::BarrierDivergence, thread, site,
             "thread waits at " + placeOf(site) + " while thread " +
                 std::to_string(warp.firstThread + other) + " of its warp waits at " +
                 placeOf(warp.barrierSite));
      stop(thread);
    }
  } else {
    warp.barrierKind = kind;
    warp.barrierId = id;
    warp.barrierCount = count;
    warp.barrierSite = site;
  }
  warp.atBarrier |= bit(thread.lane);
  if (warp.atBarrier == warp.live) {
    arriveWarp(warp, bit(thread.lane));
    if (failed())
      stop(thread);
    // Still waiting when the barrier was not completed by this arrival.
    if (thread.state == ThreadState::AtBarrier)
      suspend(thread, ThreadState::AtBarrier);
  } else {
    suspend(thread, ThreadState::AtBarrier);
  }
  if (failed())
    stop(thread);
  return thread.result;
}

// All live lanes of the warp are at the barrier: the warp arrives as a whole. `running` is the lane
// that is executing.
void Block::arriveWarp(Warp &warp, uint64_t running) {
  uint64_t lanes = warp.atBarrier;
  warp.atBarrier = 0;
  flush(warp, lanes);
  if (failed())
    return;
  ++siteCounters[warp.barrierSite].executions;
  auto kind = BarrierKind(warp.barrierKind & ~barrierAligned);
  NamedBarrier &barrier = barriers[warp.barrierId];
  uint32_t blockThreads = uint32_t(threads.size());
  uint32_t expected = warp.barrierCount ? warp.barrierCount : blockThreads;
  Thread &speaker = laneOf(warp, unsigned(std::countr_zero(lanes)));
  if (warp.barrierCount % launch->warpSize) {
    report(FindingKind::BadOperand, speaker, warp.barrierSite,
           "a barrier for " + std::to_string(warp.barrierCount) +
               " threads, which are no whole warps");
    return;
  }
  if (barrier.expected && barrier.expected != expected) {
    report(FindingKind::BadOperand, speaker, warp.barrierSite,
           "barrier " + std::to_string(warp.barrierId) + " is entered with a count of " +
               std::to_string(expected) + " while others wait with " +
               std::to_string(barrier.expected));
    return;
  }
  barrier.expected = expected;
  barrier.arrived += warp.barrierCount ? launch->warpSize : uint32_t(std::popcount(lanes));
  bool waits = kind != BarrierKind::Arrive;
  for (uint64_t rest = lanes; rest; rest &= rest - 1) {
    Thread &thread = laneOf(warp, unsigned(std::countr_zero(rest)));
    barrier.members.push_back(&thread);
    if (waits)
      barrier.waiters.push_back(&thread);
    if (kind == BarrierKind::ReducePopcount)
      barrier.reduction += thread.result != 0;
    else if (thread.result == 0)
      barrier.anyFalse = true;
    else
      barrier.anyTrue = true;
    thread.state = waits ? ThreadState::AtBarrier : ThreadState::Ready;
  }
  if (barrier.arrived >= barrier.expected)
    finishBarrier(warp.barrierId, warp, running);
  else if (!waits)
    wake(warp, lanes & ~running);
}

void Block::finishBarrier(uint32_t id, Warp &warp, uint64_t running) {
  ++cluster.progress;
  NamedBarrier barrier = std::move(barriers[id]);
  barriers.erase(id);
  join(barrier.members.data(), barrier.members.size(), barrier.waiters.data(),
       barrier.waiters.size());
  auto kind = BarrierKind(warp.barrierKind & ~barrierAligned);
  uint32_t result = kind == BarrierKind::ReducePopcount ? barrier.reduction
                    : kind == BarrierKind::ReduceAnd    ? !barrier.anyFalse
                    : kind == BarrierKind::ReduceOr     ? barrier.anyTrue
                                                        : 0;
  for (Thread *waiter : barrier.waiters) {
    Thread &thread = *waiter;
    thread.result = result;
    thread.state = ThreadState::Ready;
    if (thread.warpState != &warp || !(running & bit(thread.lane)))
      wake(*thread.warpState, bit(thread.lane));
  }
  if (kind == BarrierKind::Arrive)
    wake(warp, warp.live & ~running);
}

void Block::startCopy(Thread &thread, uint32_t site, uint32_t target, uint64_t source,
                      uint32_t bytes, uint32_t sourceBytes) {
  sourceBytes = std::min(sourceBytes, bytes);
  if (launch->checks) {
    if (!checkShared(thread, target, bytes, site) || !checkAligned(thread, target, bytes, site))
      stop(thread);
    // With nothing to read the source address is not followed.
    if (sourceBytes && (!checkAligned(thread, source, bytes, site) ||
                        !checkGlobal(thread, source, sourceBytes, site, "asynchronous copy of ") ||
                        !checkOrder(thread, source, sourceBytes, site)))
      stop(thread);
  }
  if (launch->checks || launch->counters)
    append(thread, target, bytes | accessStore | logShared | logIssue, site);
  if (launch->counters && sourceBytes)
    append(thread, source, sourceBytes, site);
  // The bytes are nobody's until the copy has landed.
  std::memset(sharedStart + target, 0xFF, bytes);
  if (thread.knowledge)
    ++thread.knowledge->users;
  thread.copies.push_back({source, target, bytes, sourceBytes, site, thread.clock, thread.knowledge,
                           thread.others, false});
  ++thread.uncommitted;
}

void Block::commitCopies(Thread &thread) {
  thread.groups.push_back(thread.uncommitted);
  thread.uncommitted = 0;
}

void Block::waitCopies(Thread &thread, uint32_t site, uint32_t mayStay) {
  ++thread.ticks;
  if (thread.lane == 0)
    ++siteCounters[site].executions;
  size_t land = 0;
  if (mayStay == ~0u) {
    land = thread.copies.size();
    thread.groups.clear();
    thread.uncommitted = 0;
  }
  while (mayStay != ~0u && thread.groups.size() > mayStay) {
    land += thread.groups.front();
    thread.groups.pop_front();
  }
  for (size_t i = 0; i < land; ++i)
    if (!thread.copies[i].landed && !landCopy(thread, thread.copies[i]))
      stop(thread);
  // The log last: it may suspend the thread.
  std::vector<AsyncCopy> landed(thread.copies.begin(), thread.copies.begin() + ptrdiff_t(land));
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + ptrdiff_t(land));
  thread.firstCopy += uint32_t(land);
  for (const AsyncCopy &copy : landed)
    if (launch->checks && !copy.landed)
      append(thread, copy.target, copy.bytes | accessStore | logShared | logLand, copy.site);
}

// The bytes of a copy come.
bool Block::landCopy(Thread &thread, const AsyncCopy &copy) {
  if (launch->checks && copy.sourceBytes &&
      !checkLanding(thread, copy, copy.source, copy.sourceBytes))
    return false;
  cluster.drop(copy.knowledge);
  char *target = sharedStart + copy.target;
  if (copy.sourceBytes)
    std::memcpy(target, std::bit_cast<const void *>(copy.source), copy.sourceBytes);
  std::memset(target + copy.sourceBytes, 0, copy.bytes - copy.sourceBytes);
  return true;
}

// Those before the transfer land without their thread.
void Block::landCopies(Thread &thread, const Transfer &transfer) {
  for (size_t i = 0; i < thread.copies.size() && thread.firstCopy + i < transfer.copies; ++i) {
    AsyncCopy &copy = thread.copies[i];
    if (copy.landed)
      continue;
    if (!landCopy(thread, copy))
      return;
    copy.landed = true;
    if (!launch->checks)
      continue;
    Actor actor = actorOf(thread, copy.site);
    actor.clock = transfer.clock;
    shadow.land(actor, copy.target - sharedOrigin, copy.bytes);
  }
  // A thread that only uses mbarriers never waits for groups.
  const bool all = std::all_of(thread.copies.begin(), thread.copies.end(),
                               [](const AsyncCopy &copy) { return copy.landed; });
  if (all && thread.uncommitted == thread.copies.size()) {
    thread.firstCopy += uint32_t(thread.copies.size());
    thread.copies.clear();
    thread.uncommitted = 0;
  }
}

void Block::trap(Thread &thread, uint32_t site, const char *why) {
  report(FindingKind::Trap, thread, site, why + (" at " + placeOf(site)));
  stop(thread);
}

} // namespace sectile::vgpu
