// A block's life: setting it up, scheduling its fibers, what happens when it cannot go on.
#include "vgpu/Block.h"
#include "vgpu/Program.h"
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace sectile::vgpu {
namespace {

constexpr size_t stackSlack = 64 * 1024;      // for the machine's own functions
constexpr uint32_t registerFile = 65536;      // of a multiprocessor
constexpr uint64_t fewInstructions = 1 << 16; // of a thread, between two looks at the clock
constexpr uint32_t mostVainLooks = 1 << 10;
constexpr uint64_t bit(unsigned lane) { return uint64_t(1) << lane; }

// Another process's work does not count against a launch.
double processorSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

} // namespace

Block::~Block() = default;

uint32_t Block::random(uint32_t bound) {
  randomState += 0x9e3779b97f4a7c15ull;
  return uint32_t((mix(randomState) >> 32) * bound >> 32);
}

void Block::setKnowledge(Thread &thread, Knowledge *knowledge) {
  ++knowledge->users;
  cluster.drop(thread.knowledge);
  thread.knowledge = knowledge;
}

// Each learner comes to know what every member knows and has done; the members' next accesses are
// newer.
void Block::join(Thread *const *members, size_t count, Thread *const *learners,
                 size_t learnerCount) {
  if (!launch->checks)
    return;
  Knowledge *joined = cluster.newKnowledge();
  joined->seen = members[0]->knowledge->seen;
  const Knowledge *last = members[0]->knowledge;
  for (size_t i = 1; i < count; ++i) {
    const Knowledge *other = members[i]->knowledge;
    if (other == last)
      continue;
    last = other;
    learn(joined->seen, other->seen);
  }
  ++cluster.topClock;
  for (size_t i = 0; i < count; ++i) {
    Thread &thread = *members[i];
    joined->seen[thread.who] = thread.clock;
    thread.clock = cluster.topClock;
  }
  joined->findLeast();
  ++joined->users; // so that it survives the loop
  for (size_t i = 0; i < learnerCount; ++i)
    setKnowledge(*learners[i], joined);
  cluster.drop(joined);
  joinOthers(members, count, learners, learnerCount);
}

// The same of what they know of other blocks.
void Block::joinOthers(Thread *const *members, size_t count, Thread *const *learners,
                       size_t learnerCount) {
  std::shared_ptr<const BlocksSeen> joined = members[0]->others;
  for (size_t i = 1; i < count; ++i) {
    const std::shared_ptr<const BlocksSeen> &other = members[i]->others;
    if (!other || other == joined)
      continue;
    auto both = std::make_shared<BlocksSeen>(*other);
    if (joined)
      both->add(*joined);
    joined = std::move(both);
  }
  for (size_t i = 0; i < learnerCount && joined; ++i)
    learners[i]->others = joined;
}

void Block::prepare(Knowledge *knowledge) {
  const Program &program = *launch->program;
  finding.reset();
  uninitialized.reset();
  isAbandoned = false;
  vainLooks = 0;
  barriers.clear();
  mbarriers.clear();
  transfers.clear();
  randomState = mix(launch->seed * 0x9e3779b97f4a7c15ull + number);

  const uint32_t *size = launch->blockSize;
  uint32_t count = size[0] * size[1] * size[2];
  uint32_t warpSize = launch->warpSize, warpCount = (count + warpSize - 1) / warpSize;
  threads.resize(count);
  warps.resize(warpCount);
  warpgroups.assign((warpCount + warpgroupWarps - 1) / warpgroupWarps, {});

  // Shared memory starts as NaN: what a kernel reads without writing should not look right.
  size_t sharedBytes = launch->sharedBytes;
  if (arena.size() < sharedBytes + 256)
    arena.resize(sharedBytes + 256);
  char *start = arena.data() + 128 - reinterpret_cast<uintptr_t>(arena.data()) % 128;
  std::memset(start, 0xFF, sharedBytes);
  sharedStart = start - sharedOrigin;
  sharedEnd = sharedOrigin + uint32_t(sharedBytes);

  const uint32_t origin = cluster.origin;
  if (launch->checks)
    shadow.start(sharedBytes, cluster.threadCount(), origin, warpSize);

  // What the kernel states, or all that the registers of a multiprocessor give each thread.
  const uint32_t registers = program.maxRegisters()
                                 ? program.maxRegisters()
                                 : std::min(255u, registerFile / (warpCount * warpSize)) / 8 * 8;
  freeRegisters = 0;
  registerWaits.clear();

  if (siteCounters.size() < program.sites().size())
    siteCounters.resize(program.sites().size());
  for (uint32_t w = 0; w < warpCount; ++w) {
    uint32_t lanes = std::min(warpSize, count - w * warpSize);
    uint64_t present = lanes == 64 ? ~uint64_t(0) : bit(lanes) - 1;
    Warp &warp = warps[w];
    warp.index = w;
    warp.firstThread = w * warpSize;
    warp.present = warp.live = warp.ready = present;
    warp.meetings.clear();
    warp.atBarrier = 0;
    warp.registers = registers;
  }
  for (uint32_t i = 0; i < count; ++i) {
    Thread &thread = threads[i];
    uint32_t position[3] = {i % size[0], i / size[0] % size[1], i / size[0] / size[1]};
    for (int axis = 0; axis < 3; ++axis) {
      thread.thread[axis] = position[axis];
      thread.block[axis] = coordinates[axis];
      thread.blockSize[axis] = size[axis];
      thread.gridSize[axis] = launch->grid[axis];
    }
    thread.lane = i % warpSize;
    thread.warp = i / warpSize;
    thread.warpCount = warpCount;
    thread.warpSize = warpSize;
    thread.sharedBytes = launch->dynamicBytes;
    thread.clusterRank = rank;
    thread.clusterSize = cluster.size;
    thread.isExplicitCluster = launch->hasClusters;
    for (int axis = 0; axis < 3; ++axis) {
      const uint32_t extent = launch->cluster[axis];
      thread.clusterBlock[axis] = coordinates[axis] % extent;
      thread.clusterBlocks[axis] = extent;
      thread.cluster[axis] = coordinates[axis] / extent;
      thread.clusters[axis] = launch->grid[axis] / extent;
    }
    thread.dispatch = launch->dispatch;
    thread.implicitArgs = launch->implicitArgs;
    thread.shared = sharedStart;
    thread.instructions = 0;
    thread.allowed = fewInstructions;
    thread.owner = this;
    thread.warpState = &warps[thread.warp];
    thread.index = i;
    thread.who = rank * cluster.threadsPerBlock + i;
    thread.state = ThreadState::Ready;
    thread.log.clear();
    thread.shadowed = 0;
    thread.unlogged = 0;
    thread.lastRange = nullptr;
    thread.clock = origin;
    thread.knowledge = nullptr;
    if (knowledge)
      setKnowledge(thread, knowledge);
    thread.others.reset();
    thread.release = {};
    thread.proxyFence = {};
    thread.atomics.clear();
    thread.copies.clear();
    thread.firstCopy = 0;
    thread.groups.clear();
    thread.uncommitted = 0;
    thread.ticks = 0;
    thread.hasWaited = thread.letsNextStartEarly = false;
    thread.bulkAgent = thread.bulkClock = 0;
    thread.bulkGroups = thread.bulkWaited = 0;
    thread.bulkClocks.clear();
    thread.lastStoreSite = ~0u;
    thread.lastStoreGroup = 0;
    thread.hasArrived = false;
    thread.clusterPhase = 0;
    // Different offsets keep the same variable of different threads out of the same cache set.
    prepareFiber(thread.context, stacks.low(i), stacks.bytes(), size_t(i % 59) * 320, threadMain,
                 &thread);
  }
  liveThreads = count;
  readyWarps = warpCount == 64 ? ~uint64_t(0) : bit(warpCount) - 1;
  currentWarp = 0;
}

void Block::startClock() { started = processorSeconds(); }

bool Block::isLate() const {
  return launch->deadline > 0 && processorSeconds() - started > launch->deadline;
}

std::string Block::lateness() const {
  char text[64];
  std::snprintf(text, sizeof text, "the launch did not end within %g s", launch->deadline);
  return text;
}

// A block that has stopped with a finding sets no flags that others may wait for. Those that
// started before it have time to come to a finding of their own, which would be the one to report.
bool Block::mayBeAbandoned() {
  return launch->anyFailed &&
         (cluster.position > launch->firstFailed || ++vainLooks > mostVainLooks);
}

void Block::overrun(Thread &thread, uint32_t site) {
  thread.allowed = thread.instructions + fewInstructions;
  if (mayBeAbandoned()) {
    isAbandoned = true;
    stop(thread);
  }
  if (!isLate())
    return;
  report(FindingKind::TimedOut, thread, site,
         lateness() + "; thread " + std::to_string(thread.index) + " is at " + placeOf(site) +
             "; " + placesOf(groupThreads()));
  stop(thread);
}

std::optional<Finding> Block::begin(const LaunchContext &context, Knowledge *knowledge) {
  launch = &context;
  // Clusters follow each other as blocks do, and blocks so within one.
  uint64_t first = cluster.number, inside = rank;
  for (int axis = 0; axis < 3; ++axis) {
    const uint32_t extent = context.cluster[axis], clusters = context.grid[axis] / extent;
    coordinates[axis] = uint32_t(first % clusters) * extent + uint32_t(inside % extent);
    first /= clusters;
    inside /= extent;
  }
  number = coordinates[0] +
           context.grid[0] * (coordinates[1] + uint64_t(context.grid[1]) * coordinates[2]);
  auto ofWhole = [&](FindingKind kind, std::string message) {
    Finding result;
    result.kind = kind;
    std::copy_n(coordinates, 3, result.block);
    result.ofThread = false;
    result.kernel = context.program->kernel();
    result.message = std::move(message);
    return result;
  };
  uint32_t count = context.blockSize[0] * context.blockSize[1] * context.blockSize[2];
  // The deepest stagger of the stacks is added to what each needs.
  if (!stacks.reserve(count, context.program->stackBytes() + stackSlack + 59 * 320))
    return ofWhole(FindingKind::BadOperand, "the host has no memory for the stacks of " +
                                                std::to_string(count) + " threads");
  if (isLate())
    return ofWhole(FindingKind::TimedOut, lateness());
  prepare(knowledge);
  return std::nullopt;
}

bool Block::proceed() {
  Thread *thread = next();
  if (thread)
    switchFiber(main, thread->context);
  return thread || readyWarps;
}

std::optional<Finding> Block::end() {
  bool waited = false, early = false;
  for (const Thread &thread : threads) {
    instructions += thread.instructions;
    waited |= thread.hasWaited;
    early |= thread.letsNextStartEarly;
  }
  if (waited && !early)
    launch->holdsNextBack = true;
  // What does not explain an uninitialised read may be its consequence.
  if (uninitialized && !(finding && explainsUninitialized(finding->kind)))
    return std::move(uninitialized);
  return std::move(finding);
}

// Generated code carries no type for the function sanitizer to check.
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
void Block::threadMain(void *argument) {
  auto &thread = *static_cast<Thread *>(argument);
  fiberEntered(thread.context);
  Block &block = *thread.owner;
  block.launch->program->entry()(&thread, block.launch->arguments);
  block.exitThread(thread);
}

void Block::exitThread(Thread &thread) {
  Warp &warp = *thread.warpState;
  thread.state = ThreadState::Exited;
  warp.live &= ~bit(thread.lane);
  --liveThreads;
  leaveCluster(thread);
  ++cluster.progress;
  // The others of the warp no longer wait for this lane.
  for (size_t i = 0; i < warp.meetings.size() && !failed();) {
    Meeting &meeting = warp.meetings[i];
    if (meeting.arrived == (meeting.mask & warp.live))
      completeMeeting(warp, i, laneOf(warp, unsigned(std::countr_zero(meeting.arrived))).site, 0);
    else
      ++i;
  }
  if (!failed() && warp.atBarrier && warp.atBarrier == warp.live)
    arriveWarp(warp, 0);
  if (!warp.live && !failed())
    flush(warp, warp.present);
  if (!failed() && launch->checks)
    endBulkOf(thread);
  if (!warp.live && !failed() && launch->checks)
    endWarpgroupOf(warp);
  if (!liveThreads && !failed())
    finishTransfers();
  Thread *other = failed() ? nullptr : next();
  leaveFiber(thread.context, other ? other->context : main);
}

// Leaves the block for good; its fibers are abandoned.
void Block::stop(Thread &thread) { leaveFiber(thread.context, main); }

Thread *Block::next() {
  if (launch->seed)
    advanceAgents();
  if (failed() || !readyWarps)
    return nullptr;
  if (cluster.size > 1 && launch->seed && random(32) == 0)
    return nullptr; // another block's turn
  if (launch->seed && (random(8) == 0 || !(readyWarps & bit(currentWarp)))) {
    unsigned skip = random(uint32_t(std::popcount(readyWarps)));
    uint64_t rest = readyWarps;
    while (skip--)
      rest &= rest - 1;
    currentWarp = uint32_t(std::countr_zero(rest));
  } else if (!(readyWarps & bit(currentWarp))) {
    uint64_t later = readyWarps & ~(bit(currentWarp) - 1);
    currentWarp = uint32_t(std::countr_zero(later ? later : readyWarps));
  }
  Warp &warp = warps[currentWarp];
  unsigned lane = unsigned(std::countr_zero(warp.ready));
  if (launch->seed) {
    unsigned rotation = random(64);
    lane = (unsigned(std::countr_zero(std::rotr(warp.ready, int(rotation)))) + rotation) % 64;
  }
  warp.ready &= ~bit(lane);
  if (!warp.ready)
    readyWarps &= ~bit(currentWarp);
  return &laneOf(warp, lane);
}

void Block::suspend(Thread &thread, ThreadState state) {
  thread.state = state;
  Thread *other = next();
  if (other == &thread)
    return;
  switchFiber(thread.context, other ? other->context : main);
}

void Block::wake(Warp &warp, uint64_t lanes) {
  if (!lanes)
    return;
  for (uint64_t rest = lanes; rest; rest &= rest - 1)
    laneOf(warp, unsigned(std::countr_zero(rest))).state = ThreadState::Ready;
  warp.ready |= lanes;
  readyWarps |= bit(warp.index);
}

// Threads that stopped because their log was full go on once nothing else can run: by then their
// warps are as far as they come.
bool Block::resumeFullLogs() {
  bool any = false;
  for (Warp &warp : warps) {
    uint64_t full = 0;
    for (uint64_t rest = warp.live; rest; rest &= rest - 1) {
      unsigned lane = unsigned(std::countr_zero(rest));
      if (laneOf(warp, lane).state == ThreadState::LogFull)
        full |= bit(lane);
    }
    if (!full)
      continue;
    flush(warp, full);
    wake(warp, full);
    any = true;
  }
  return any;
}

std::string Block::placeOf(uint32_t site) const { return placeOf(*launch->program, site); }

std::string Block::placeOf(const Program &program, uint32_t site) {
  const Site &place = program.sites()[site];
  std::string result = place.name;
  if (!place.file.empty())
    result += " (" + place.file + ":" + std::to_string(place.line) + ")";
  return result;
}

void Block::report(FindingKind kind, const Thread &thread, uint32_t site, std::string message) {
  std::optional<Finding> &slot = kind == FindingKind::Uninitialized ? uninitialized : finding;
  if (slot)
    return;
  Finding result;
  result.kind = kind;
  std::copy_n(thread.block, 3, result.block);
  result.thread = thread.index;
  result.kernel = launch->program->kernel();
  const Site &place = launch->program->sites()[site];
  result.file = place.file;
  result.line = place.line;
  result.message = std::move(message);
  slot = std::move(result);
}

std::vector<Block::Group> Block::groupThreads() const {
  std::vector<Group> groups;
  for (const Thread &thread : threads) {
    const bool isAtMbarrier = thread.state == ThreadState::AtMbarrier;
    const bool isSomewhere = isAtMbarrier || thread.state == ThreadState::AtWarp ||
                             thread.state == ThreadState::AtBarrier;
    const uint32_t site = isSomewhere ? thread.site : 0;
    const uint32_t mbarrier = isAtMbarrier ? thread.mbarrier : 0;
    auto same = std::find_if(groups.begin(), groups.end(), [&](const Group &group) {
      return group.state == thread.state && group.site == site && group.mbarrier == mbarrier;
    });
    if (same == groups.end())
      same = groups.insert(groups.end(), Group{thread.state, site, mbarrier, {}});
    same->members.push_back(thread.index);
  }
  return groups;
}

// "threads 0-31 have exited; threads 32-63 wait at …"
std::string Block::placesOf(const std::vector<Group> &groups) const {
  auto span = [](const std::vector<uint32_t> &members) {
    std::string text;
    for (size_t i = 0; i < members.size();) {
      size_t end = i;
      while (end + 1 < members.size() && members[end + 1] == members[end] + 1)
        ++end;
      if (text.size() > 80)
        return text + ", …";
      text += (text.empty() ? "" : ", ") + std::to_string(members[i]);
      if (end > i)
        text += "-" + std::to_string(members[end]);
      i = end + 1;
    }
    return text;
  };
  std::string message;
  for (const Group &group : groups) {
    message += (message.empty() ? "threads " : "; threads ") + span(group.members);
    if (group.state == ThreadState::Exited)
      message += " have exited";
    else if (group.state == ThreadState::AtWarp || group.state == ThreadState::AtBarrier)
      message += " wait at " + placeOf(group.site);
    else if (group.state == ThreadState::AtMbarrier)
      message += " wait at " + placeOf(group.site) + mbarrierText(threads[group.members.front()]);
    else
      message += " can go on";
  }
  return message;
}

// No thread can run. Says who waits for what, and whether a barrier is what they disagree about.
void Block::diagnoseStuck(const std::string &others) {
  const std::vector<Group> groups = groupThreads();
  const Thread *witness = nullptr;
  size_t atBarriers = 0;
  bool exited = false;
  for (const Group &group : groups) {
    if (group.state == ThreadState::Exited) {
      exited = true;
      continue;
    }
    bool barrier = group.state == ThreadState::AtBarrier;
    atBarriers += barrier;
    if (!witness || (barrier && witness->state != ThreadState::AtBarrier))
      witness = &threads[group.members.front()];
  }
  bool divergence = atBarriers > 1 || (atBarriers == 1 && exited);
  report(divergence ? FindingKind::BarrierDivergence : FindingKind::Deadlock, *witness,
         witness->site, placesOf(groups) + others);
}

} // namespace sectile::vgpu
