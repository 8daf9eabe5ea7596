// mbarriers: arrivals, expected bytes, and threads that wait for a phase.
#include "vgpu/Mbarrier.h"
#include "vgpu/Block.h"
#include "vgpu/Program.h"
#include <algorithm>
#include <bit>
#include <cstring>

namespace sectile::vgpu {
namespace {

std::string bytesText(uint32_t address) {
  return "the mbarrier at shared byte " + std::to_string(offsetOf(address) - sharedOrigin) +
         (isOfCluster(address) ? " of rank " + std::to_string(rankOf(address)) : "");
}

void addOthers(std::shared_ptr<const BlocksSeen> &to,
               const std::shared_ptr<const BlocksSeen> &from) {
  if (!from || from == to)
    return;
  auto both = std::make_shared<BlocksSeen>(*from);
  if (to)
    both->add(*to);
  to = std::move(both);
}

} // namespace

uint64_t Block::mbarrier(Thread &thread, uint32_t site, MbarrierOp op, uint32_t address,
                         uint64_t operand) {
  const bool mayBeRemote = op >= MbarrierOp::Arrive && op <= MbarrierOp::ArriveExpectBytes;
  if (&homeOf(address) == this) {
    address = offsetOf(address);
  } else if (!mayBeRemote) {
    report(FindingKind::BadOperand, thread, site,
           placeOf(site) + " of " + bytesText(address) + ", which is another block's");
    stop(thread);
  }
  if (op == MbarrierOp::Init) {
    initMbarrier(thread, site, address, operand);
    return 0;
  }
  Mbarrier &barrier = mbarrierAt(thread, site, address);
  const uint64_t before = barrier.state();
  switch (op) {
  case MbarrierOp::Init:
    break;
  case MbarrierOp::Invalidate:
    invalidateMbarrier(thread, site, address);
    break;
  case MbarrierOp::Arrive:
  case MbarrierOp::ArriveDrop:
  case MbarrierOp::ArriveNoComplete:
    release(thread, barrier);
    if (op == MbarrierOp::ArriveDrop)
      barrier.expected -= std::min(barrier.expected, uint32_t(operand));
    if (!arrive(thread, site, barrier, address, operand))
      stop(thread);
    if (op == MbarrierOp::ArriveNoComplete && barrier.phase != before >> 32) {
      report(FindingKind::BadOperand, thread, site,
             placeOf(site) + " completes a phase of " + bytesText(address));
      stop(thread);
    }
    break;
  case MbarrierOp::ExpectBytes:
  case MbarrierOp::CompleteBytes:
  case MbarrierOp::ArriveExpectBytes: {
    const auto count = int64_t(uint32_t(operand));
    if (op == MbarrierOp::ArriveExpectBytes)
      release(thread, barrier);
    if (!addBytes(thread, site, barrier, address, op == MbarrierOp::CompleteBytes ? -count : count))
      stop(thread);
    if (op == MbarrierOp::ArriveExpectBytes && !arrive(thread, site, barrier, address, 1))
      stop(thread);
    completePhase(barrier);
    break;
  }
  case MbarrierOp::TestParity:
  case MbarrierOp::TestState:
  case MbarrierOp::Wait:
    return waitAtMbarrier(thread, site, op, address, operand);
  case MbarrierOp::CopyArrive:
    ++barrier.pending;
    [[fallthrough]];
  case MbarrierOp::CopyArriveNoInc: {
    Transfer transfer;
    transfer.thread = &thread;
    transfer.site = site;
    transfer.mbarrier = address;
    transfer.copies = thread.firstCopy + uint32_t(thread.copies.size());
    // What the copies have told once they have landed.
    if (launch->checks) {
      shadowLog(thread);
      if (failed())
        stop(thread);
      transfer.clock = thread.clock;
      transfer.knowledge = thread.knowledge;
      ++thread.knowledge->users;
      transfer.others = thread.others;
      cluster.topClock = std::max(cluster.topClock, ++thread.clock);
    }
    transfers.push_back(std::move(transfer));
    break;
  }
  }
  return before;
}

void Block::initMbarrier(Thread &thread, uint32_t site, uint32_t address, uint64_t count) {
  if (!checkShared(thread, address, Mbarrier::bytes, site) ||
      !checkAligned(thread, address, Mbarrier::bytes, site))
    stop(thread);
  if (!count || count > Mbarrier::most || mbarriers.count(address)) {
    report(FindingKind::BadOperand, thread, site,
           mbarriers.count(address)
               ? placeOf(site) + " of " + bytesText(address) + ", which is one already"
               : placeOf(site) + " for " + std::to_string(count) + " arrivals");
    stop(thread);
  }
  Mbarrier &barrier = mbarriers[address];
  barrier.expected = barrier.pending = uint32_t(count);
  barrier.home = this;
  barrier.initThread = thread.who;
  barrier.initClock = thread.clock;
  barrier.initSite = site;
  if (!launch->checks)
    return;
  shadowLog(thread);
  if (failed())
    stop(thread);
  const uint32_t offset = address - sharedOrigin;
  if (const auto conflict = shadow.write(actorOf(thread, site), offset, Mbarrier::bytes, false)) {
    reportConflict(thread, site, *conflict);
    stop(thread);
  }
  shadow.setBarrier(offset, Mbarrier::bytes, true);
  // What the thread fences from here on comes after.
  cluster.topClock = std::max(cluster.topClock, ++thread.clock);
}

void Block::invalidateMbarrier(Thread &thread, uint32_t site, uint32_t address) {
  Mbarrier &barrier = mbarriers[address];
  if (!barrier.sleepers.empty() || barrier.outstanding) {
    report(FindingKind::BadOperand, thread, site,
           placeOf(site) + " of " + bytesText(address) + ", which is in use");
    stop(thread);
  }
  forgetLearned(barrier);
  mbarriers.erase(address);
  if (launch->checks)
    shadow.setBarrier(address - sharedOrigin, Mbarrier::bytes, false);
}

// The mbarrier there, which the thread must know to be initialised.
Mbarrier &Block::mbarrierAt(Thread &thread, uint32_t site, uint32_t address) {
  if (!checkShared(thread, address, Mbarrier::bytes, site, /*mayBeOthers=*/true))
    stop(thread);
  Block &home = homeOf(address);
  const auto found = home.mbarriers.find(offsetOf(address));
  if (found == home.mbarriers.end()) {
    report(FindingKind::BadOperand, thread, site,
           placeOf(site) + " at shared byte " + std::to_string(offsetOf(address) - sharedOrigin) +
               ", where no mbarrier is initialised");
    stop(thread);
  }
  Mbarrier &barrier = found->second;
  if (launch->checks && barrier.initThread != thread.who &&
      !thread.knowledge->sees(barrier.initThread, barrier.initClock)) {
    report(FindingKind::SharedRace, thread, site,
           placeOf(site) + " is not ordered after the initialisation of " + bytesText(address) +
               " by " + cluster.nameOf(barrier.initThread) + ": " + placeOf(barrier.initSite));
    stop(thread);
  }
  return barrier;
}

// What the thread has done and knows is told to who waits for this phase.
void Block::release(Thread &thread, Mbarrier &barrier) {
  if (!launch->checks)
    return;
  shadowLog(thread);
  if (failed())
    stop(thread);
  learn(barrier.arriving, thread.knowledge->seen);
  learn(barrier.arriving, thread.who, thread.clock);
  addOthers(barrier.arrivingOthers, thread.others);
  // What comes after is not told. Lanes that do the same keep one clock.
  cluster.topClock = std::max(cluster.topClock, ++thread.clock);
}

bool Block::arrive(const Thread &thread, uint32_t site, Mbarrier &barrier, uint32_t address,
                   uint64_t count) {
  if (!count || count > barrier.pending) {
    report(FindingKind::BadOperand, thread, site,
           placeOf(site) + " arrives " + std::to_string(count) + " times at " + bytesText(address) +
               ", whose phase " + std::to_string(barrier.phase) + " expects only " +
               std::to_string(barrier.pending) + " more");
    return false;
  }
  barrier.pending -= uint32_t(count);
  completePhase(barrier);
  return true;
}

bool Block::addBytes(const Thread &thread, uint32_t site, Mbarrier &barrier, uint32_t address,
                     int64_t bytes) {
  barrier.outstanding += bytes;
  if (std::abs(barrier.outstanding) <= int64_t(Mbarrier::most))
    return true;
  report(FindingKind::BadOperand, thread, site,
         placeOf(site) + " makes " + bytesText(address) + " expect " +
             std::to_string(barrier.outstanding) + " bytes, more than it can count");
  return false;
}

// If nothing of the phase is outstanding any more, the next one begins. Says whether it does.
bool Block::beginPhase(Mbarrier &barrier) {
  ++cluster.progress;
  if (barrier.pending || barrier.outstanding)
    return false;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  learn(barrier.known, barrier.arriving);
  addOthers(barrier.knownOthers, barrier.arrivingOthers);
  forgetLearned(barrier);
  return true;
}

void Block::completePhase(Mbarrier &barrier) {
  if (!beginPhase(barrier))
    return;
  for (const uint32_t sleeper : barrier.sleepers) {
    Thread &thread = barrier.home->threads[sleeper];
    barrier.home->wake(*thread.warpState, uint64_t(1) << thread.lane);
  }
  barrier.sleepers.clear();
}

void Block::forgetLearned(Mbarrier &barrier) {
  for (const auto &[before, after] : barrier.learned) {
    cluster.drop(before);
    cluster.drop(after);
  }
  barrier.learned.clear();
}

// A thread comes to know what the arrivals of the completed phases told.
void Block::acquire(Thread &thread, Mbarrier &barrier) {
  barrier.seenPhase = barrier.phase;
  if (!launch->checks)
    return;
  auto same = std::find_if(barrier.learned.begin(), barrier.learned.end(),
                           [&](const auto &each) { return each.first == thread.knowledge; });
  if (same == barrier.learned.end()) {
    Knowledge *after = cluster.newKnowledge();
    after->seen = thread.knowledge->seen;
    learn(after->seen, barrier.known);
    after->findLeast();
    ++after->users;
    ++thread.knowledge->users; // no other may take its place meanwhile
    same = barrier.learned.insert(barrier.learned.end(), {thread.knowledge, after});
  }
  setKnowledge(thread, same->second);
  addOthers(thread.others, barrier.knownOthers);
}

// Whether the phase has completed. A thread sleeps until it has; where it only asks, at most until
// no other thread can go on.
bool Block::waitAtMbarrier(Thread &thread, uint32_t site, MbarrierOp op, uint32_t address,
                           uint64_t operand) {
  auto isDone = [&](const Mbarrier &barrier) {
    return op == MbarrierOp::TestState ? barrier.hasCompleted(operand) : barrier.hasParity(operand);
  };
  if (launch->checks)
    shadowLog(thread);
  if (failed())
    stop(thread);
  Mbarrier *barrier = &mbarriers[address];
  // Who only asks may have to hear no, so that code which does not listen shows it.
  const bool polls = op != MbarrierOp::Wait;
  if (!isDone(*barrier) && !(polls && launch->seed && random(4) == 0)) {
    thread.site = site;
    thread.mbarrier = address;
    thread.polls = polls;
    thread.waitsFor = operand;
    do {
      barrier->sleepers.push_back(thread.index);
      suspend(thread, ThreadState::AtMbarrier);
      if (failed())
        stop(thread);
      barrier = &mbarrierAt(thread, site, address);
    } while (!isDone(*barrier) && !polls);
  }
  if (!isDone(*barrier))
    return false;
  acquire(thread, *barrier);
  return true;
}

// Lets threads go on that ask for a phase in vain.
bool Block::resumePolling() {
  bool any = false;
  for (auto &[address, barrier] : mbarriers)
    std::erase_if(barrier.sleepers, [&](uint32_t index) {
      Thread &thread = threads[index];
      if (thread.polls) {
        wake(*thread.warpState, uint64_t(1) << thread.lane);
        any = true;
      }
      return thread.polls;
    });
  return any;
}

std::string Block::mbarrierText(const Thread &thread) const {
  const auto found = mbarriers.find(thread.mbarrier);
  if (found == mbarriers.end())
    return "";
  const Mbarrier &barrier = found->second;
  std::string text = " for " + bytesText(thread.mbarrier) + " (operand " +
                     std::to_string(thread.waitsFor) + "), whose phase " +
                     std::to_string(barrier.phase) + " lacks " + std::to_string(barrier.pending) +
                     " arrivals";
  if (barrier.outstanding > 0)
    text += " and " + std::to_string(barrier.outstanding) + " bytes";
  if (barrier.outstanding < 0)
    text += ", while " + std::to_string(-barrier.outstanding) + " bytes have come unexpected";
  return text;
}

void Block::finishArrival(const Transfer &transfer) {
  landCopies(*transfer.thread, transfer);
  const auto found = mbarriers.find(transfer.mbarrier);
  if (failed() || found == mbarriers.end())
    return;
  Mbarrier &barrier = found->second;
  if (launch->checks) {
    learn(barrier.arriving, transfer.knowledge->seen);
    learn(barrier.arriving, transfer.thread->who, transfer.clock);
    addOthers(barrier.arrivingOthers, transfer.others);
  }
  arrive(*transfer.thread, transfer.site, barrier, transfer.mbarrier, 1);
}

void Block::arriveCluster(Thread &thread, uint32_t site, bool releases) {
  if (thread.hasArrived) {
    report(FindingKind::BadOperand, thread, site,
           placeOf(site) + " by a thread that has arrived already and not waited");
    stop(thread);
  }
  Mbarrier &barrier = cluster.barrier;
  thread.hasArrived = true;
  thread.clusterPhase = barrier.phase;
  if (releases)
    release(thread, barrier);
  --barrier.pending;
  completeCluster();
}

void Block::waitCluster(Thread &thread, uint32_t site) {
  if (!thread.hasArrived) {
    report(FindingKind::BadOperand, thread, site,
           placeOf(site) + " by a thread that has not arrived");
    stop(thread);
  }
  if (launch->checks)
    shadowLog(thread);
  thread.site = site;
  while (cluster.barrier.phase == thread.clusterPhase && !failed()) {
    cluster.sleepers.push_back(&thread);
    suspend(thread, ThreadState::AtBarrier);
  }
  if (failed())
    stop(thread);
  thread.hasArrived = false;
  acquire(thread, cluster.barrier);
}

// When no thread that lives is missing, those that wait go on.
void Block::completeCluster() {
  if (!beginPhase(cluster.barrier))
    return;
  for (Thread *sleeper : cluster.sleepers)
    sleeper->owner->wake(*sleeper->warpState, uint64_t(1) << sleeper->lane);
  cluster.sleepers.clear();
}

// A thread that has ended is not waited for.
void Block::leaveCluster(Thread &thread) {
  Mbarrier &barrier = cluster.barrier;
  const bool counts = !(thread.hasArrived && thread.clusterPhase == barrier.phase);
  --barrier.expected;
  if (counts)
    --barrier.pending;
  if (barrier.expected)
    completeCluster();
}

} // namespace sectile::vgpu
