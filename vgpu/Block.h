// One block of a launch on one host thread: its threads as fibers, its warps, its shared memory.
#pragma once
#include "vgpu/Cluster.h"
#include "vgpu/Counters.h"
#include "vgpu/Fiber.h"
#include "vgpu/Finding.h"
#include "vgpu/GlobalShadow.h"
#include "vgpu/Mbarrier.h"
#include "vgpu/Memory.h"
#include "vgpu/SharedShadow.h"
#include "vgpu/Transfer.h"
#include "vgpu/VirtualObject.h"
#include "vgpu/Warpgroup.h"
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sectile::vgpu {

class Block;
class Program;
struct Warp;
struct WarpOp;

// Flags of a log entry's access word beside those of the machine ABI.
constexpr uint32_t logShared = 1u << 24;      // the address is a shared offset
constexpr uint32_t logIssue = 1u << 25;       // an asynchronous copy starts: its shared side
constexpr uint32_t logLand = 1u << 26;        // it lands: for the shadow only
constexpr uint32_t accessByEngine = 1u << 27; // through the asynchronous proxy

struct LogEntry {
  uint64_t address;
  uint32_t site;
  uint32_t access;
};

struct AsyncCopy {
  uint64_t source;
  uint32_t target;
  uint32_t bytes, sourceBytes;
  uint32_t site;
  // Who issued it, with what it knew then; null without checks.
  uint32_t clock;
  Knowledge *knowledge;
  std::shared_ptr<const BlocksSeen> others;
  bool landed = false; // before the thread waited for it
};

// What a thread has made ready for others by its last release fence.
struct Release {
  Knowledge *knowledge = nullptr; // null: none
  uint32_t clock = 0;
  bool ofBlock = false; // for threads of its own block only
  std::shared_ptr<const BlocksSeen> others;
  std::shared_ptr<const BlocksSeen> all; // the above together, once an atomic operation needs it
};

enum class ThreadState : uint8_t { Ready, AtWarp, AtBarrier, AtMbarrier, LogFull, Exited };

struct Thread : ThreadHeader {
  Block *owner;
  Warp *warpState;
  uint32_t index; // within the block
  uint32_t who;   // through the cluster, as clocks are known
  ThreadState state;
  FiberContext context;

  std::vector<LogEntry> log;    // accesses since the warp last met
  size_t shadowed;              // entries of it that the shadow knows already
  uint32_t unlogged;            // accesses of global memory that were not logged
  const MemoryRange *lastRange; // the allocation it used last, of the launch's; null: none

  uint32_t clock;
  Knowledge *knowledge;
  std::shared_ptr<const BlocksSeen> others; // what it knows of other blocks; null: nothing
  Release release;
  ProxyFence proxyFence;         // its last one of global memory
  std::vector<uint64_t> atomics; // where it did atomic operations since its last acquire fence

  // The warp operation or barrier it waits at.
  uint32_t *registers;
  uint32_t site;
  uint32_t result;

  // The mbarrier where it waits, the parity or state it waits for, and whether it only asks.
  uint32_t mbarrier;
  uint64_t waitsFor;
  bool polls;

  std::vector<AsyncCopy> copies; // not waited for yet, oldest first
  uint32_t firstCopy;            // the number of the oldest
  std::deque<uint32_t>
      groups;           // committed groups: how many of `copies` belong to each, oldest first
  uint32_t uncommitted; // the last ones of `copies`
  uint64_t ticks;
  bool hasWaited;          // for the launches that may still run
  bool letsNextStartEarly; // it has let the next one start and had not waited then

  // Its bulk stores: the agent that reads shared memory for them (0: none yet) and its clock, the
  // groups committed and those waited for, the agent's clock at the end of each, and the last
  // store.
  uint32_t bulkAgent, bulkClock;
  uint32_t bulkGroups, bulkWaited;
  std::vector<uint32_t> bulkClocks;
  uint32_t lastStoreSite, lastStoreGroup; // ~0: there is none

  // Of barrier.cluster: whether it has arrived and not waited yet, and in which phase.
  bool hasArrived;
  uint64_t clusterPhase;
};

// Lanes that gather for one operation.
struct Meeting {
  Op op;
  uint32_t modifiers;
  uint64_t mask;
  uint64_t arrived;
  uint32_t site; // where only lanes at the same instruction meet
};

struct Warp {
  uint32_t index;
  uint32_t firstThread;
  uint64_t present; // lanes that exist
  uint64_t live;    // and have not exited
  uint64_t ready;
  std::vector<Meeting> meetings;
  uint64_t atBarrier; // lanes that wait for the rest of the warp at a barrier
  uint32_t barrierKind, barrierId, barrierCount, barrierSite;
  uint32_t registers; // that each of its threads may use, as setmaxnreg counts
};

struct NamedBarrier {
  uint32_t arrived = 0;          // threads, whole warps counted
  uint32_t expected = 0;         // 0: no one has arrived
  std::vector<Thread *> members; // that arrived: their accesses come before
  std::vector<Thread *> waiters; // those of them that wait
  uint32_t reduction = 0;
  bool anyTrue = false, anyFalse = false;
};

// What the blocks of a launch have in common.
struct LaunchContext {
  const Program *program;
  uint32_t grid[3], blockSize[3];
  uint32_t cluster[3]; // blocks
  bool hasClusters;    // the launch asked for them
  uint32_t warpSize;
  uint32_t sharedBytes; // the module's own and the dynamic part
  uint32_t dynamicBytes;
  void **arguments;
  uint64_t dispatch, implicitArgs;
  uint64_t seed;
  bool checks, counters;
  double deadline;                 // 0: none
  std::vector<MemoryRange> ranges; // sorted
  GlobalShadow *shadow;            // null without checks
  const EarlierLaunch *overlapped; // the launch that may still run, and others; null: none
  // The next launch starts once all blocks let it or have ended; one of them had waited by then.
  mutable std::atomic<bool> holdsNextBack = false;
  // Clusters that have a finding: the first of those whose finding is to be reported, in the order
  // in which they started, and whether there are any.
  std::atomic<uint64_t> firstFailed = UINT64_MAX;
  std::atomic<bool> anyFailed = false;
};

class Block {
public:
  Block(Cluster &cluster, uint32_t rank) : cluster(cluster), rank(rank) {}
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  ~Block();

  // The deadline of a launch is that long from here, for all the blocks that this host thread runs.
  void startClock();

  // A block's life, which its cluster directs. It adds to `siteCounters` and `sectorsRead`.
  // `begin` says why it cannot run; `proceed` lets threads run until none of them can, or, so that
  // schedules differ, others are to; it is false if none could.
  std::optional<Finding> begin(const LaunchContext &launch, Knowledge *knowledge);
  bool proceed();
  bool isAlive() const { return liveThreads; }
  bool wasAbandoned() const { return isAbandoned; }
  std::optional<Finding> end();
  // What may let threads go on that cannot by themselves.
  bool resumeFullLogs();
  bool runDivergedWaves();
  bool advanceTransfer();
  bool resumePolling();
  // Where all threads are.
  std::string places() const { return placesOf(groupThreads()); }
  void diagnoseStuck(const std::string &others);
  void forgetShadow() { shadow = SharedShadow(); }

  std::vector<SiteCounters> siteCounters;
  std::vector<uint64_t> sectorsRead; // by the launch's ranges
  uint64_t instructions = 0;

  // The machine's functions: called on a thread's fiber.
  void accessGlobal(Thread &thread, uint64_t address, uint32_t access, uint32_t site);
  char *accessShared(Thread &thread, uint32_t offset, uint32_t access, uint32_t site);
  void accessGeneric(Thread &thread, uint64_t address, uint32_t access, uint32_t site);
  void accessRange(Thread &thread, uint64_t address, uint64_t bytes, uint32_t flags, uint32_t site);
  void meetWarp(Thread &thread, uint32_t site, Op op, uint32_t modifiers, uint64_t mask,
                uint32_t *registers);
  uint32_t meetBarrier(Thread &thread, uint32_t site, uint32_t kind, uint32_t id, uint32_t count,
                       uint32_t predicate);
  void startCopy(Thread &thread, uint32_t site, uint32_t target, uint64_t source, uint32_t bytes,
                 uint32_t sourceBytes);
  void commitCopies(Thread &thread);
  void waitCopies(Thread &thread, uint32_t site, uint32_t mayStay);
  void fence(Thread &thread, uint32_t order);
  void fenceProxy(Thread &thread, uint32_t what);
  void arriveCluster(Thread &thread, uint32_t site, bool releases);
  void waitCluster(Thread &thread, uint32_t site);
  void copyTensor(Thread &thread, uint32_t site, BulkOp op, unsigned dimensions,
                  const uint32_t *registers);
  void copyBulk(Thread &thread, uint32_t site, BulkOp op, const uint32_t *registers);
  void commitBulk(Thread &thread);
  void waitForBulk(Thread &thread, uint32_t site, uint32_t mayStay, bool onlyReads);
  uint64_t mbarrier(Thread &thread, uint32_t site, MbarrierOp op, uint32_t address,
                    uint64_t operand);
  void trap(Thread &thread, uint32_t site, const char *why);
  void overrun(Thread &thread, uint32_t site);

  // For the warp operations (WarpOps.cpp, Mma.cpp).
  Thread &laneOf(const Warp &warp, unsigned lane) { return threads[warp.firstThread + lane]; }
  const LaunchContext &context() const { return *launch; }
  // Records a finding; the first one stays. The caller returns, and the block stops soon after.
  void report(FindingKind kind, const Thread &thread, uint32_t site, std::string message);
  bool failed() const { return finding.has_value() || isAbandoned; }
  char *sharedAt(uint32_t offset) { return sharedStart + offset; }
  // The rows of one matrix that a warp moves together, 16 bytes each, their addresses given by the
  // lanes from `firstLane` on: checked, and their wavefronts counted.
  bool matrixRows(Warp &warp, uint32_t site, unsigned firstLane, const uint32_t *offsets,
                  bool transpose, bool store);
  void countMatrixRequest(uint32_t site) { ++siteCounters[site].access.requests; }
  // Orders the accesses of the lanes before against those after.
  void synchronize(Warp &warp, uint64_t lanes);
  // Operations of a warp of a warpgroup (Warpgroup.cpp).
  void fenceWgmma(const WarpOp &op);
  void commitWgmma(const WarpOp &op);
  void waitForWgmma(const WarpOp &op);

private:
  [[noreturn]] void stop(Thread &thread);
  void prepare(Knowledge *knowledge);
  static void threadMain(void *thread);
  void exitThread(Thread &thread);

  // Scheduling.
  Thread *next();
  void suspend(Thread &thread, ThreadState state);
  void wake(Warp &warp, uint64_t lanes);
  // Threads that are at the same place.
  struct Group {
    ThreadState state;
    uint32_t site;     // where they wait
    uint32_t mbarrier; // and at which one
    std::vector<uint32_t> members;
  };
  std::vector<Group> groupThreads() const;
  std::string placesOf(const std::vector<Group> &groups) const;
  uint32_t random(uint32_t bound);

  void completeMeeting(Warp &warp, size_t meeting, uint32_t site, uint64_t running);
  void arriveWarp(Warp &warp, uint64_t running);
  void finishBarrier(uint32_t id, Warp &running, uint64_t runningLanes);

  // setmaxnreg: gives registers back to the block, or waits until it has enough of them.
  void setMaxRegisters(const WarpOp &op, uint64_t running);

  // Warpgroup.cpp
  Warpgroup &warpgroupOf(const Warp &warp);
  bool isAligned(const WarpOp &op);
  void arriveWarpgroup(const WarpOp &op, uint64_t running);
  void issueWgmma(Warpgroup &group, uint32_t firstWarp, uint32_t site, const WgmmaShape &shape);
  std::shared_ptr<WgmmaSums> sumsOf(Warpgroup &group, uint32_t firstWarp, uint32_t site,
                                    const WgmmaShape &shape, bool accumulates);
  bool areFenced(const Warpgroup &group, uint32_t firstWarp, uint32_t site);
  bool checkOperand(const SharedMatrix &matrix, const Actor &actor, uint32_t firstThread);
  bool advance(Warpgroup &group);
  void advanceAgents();
  void resolveSums(const WarpOp &op, Warpgroup &group, unsigned words);
  void endWarpgroupOf(const Warp &warp);

  // The block with this address in its shared memory: the own one, or another of the cluster.
  Block &homeOf(uint32_t address);
  void leaveCluster(Thread &thread);
  void completeCluster();

  // Mbarrier.cpp
  void initMbarrier(Thread &thread, uint32_t site, uint32_t address, uint64_t count);
  void invalidateMbarrier(Thread &thread, uint32_t site, uint32_t address);
  Mbarrier &mbarrierAt(Thread &thread, uint32_t site, uint32_t address);
  void release(Thread &thread, Mbarrier &barrier);
  bool arrive(const Thread &thread, uint32_t site, Mbarrier &barrier, uint32_t address,
              uint64_t count);
  bool addBytes(const Thread &thread, uint32_t site, Mbarrier &barrier, uint32_t address,
                int64_t bytes);
  bool beginPhase(Mbarrier &barrier);
  void completePhase(Mbarrier &barrier);
  void acquire(Thread &thread, Mbarrier &barrier);
  void forgetLearned(Mbarrier &barrier);
  bool waitAtMbarrier(Thread &thread, uint32_t site, MbarrierOp op, uint32_t address,
                      uint64_t operand);
  std::string mbarrierText(const Thread &thread) const;
  void finishArrival(const Transfer &transfer);
  bool landCopy(Thread &thread, const AsyncCopy &copy);
  void landCopies(Thread &thread, const Transfer &transfer);

  // BulkCopy.cpp
  void checkCoordinates(Thread &thread, uint32_t site, BulkOp op, const TensorMap &map,
                        const uint32_t *coordinates);
  const TensorMap &tensorMapAt(Thread &thread, uint32_t site, uint64_t address,
                               unsigned dimensions);
  void start(Thread &thread, uint32_t site, BulkOp op, uint32_t mbarrier, uint32_t blocks,
             Transfer transfer);
  void startLoads(Thread &thread, uint32_t blocks, const Transfer &transfer);
  void startLoad(Thread &thread, Block &target, const Transfer &transfer, bool readsGlobal);
  void startStore(Thread &thread, Transfer &transfer);
  void countTransfer(const Transfer &transfer);
  bool advance(Transfer &transfer);
  void finishLoad(const Transfer &transfer);
  void readForStore(Transfer &transfer);
  void finishStore(const Transfer &transfer);
  void endBulkOf(const Thread &thread);
  void finishTransfers();

  // Of the launch's ranges the one with this address, or their number.
  size_t rangeAt(uint64_t address) const;
  bool checkGlobal(Thread &thread, uint64_t address, uint32_t bytes, uint32_t site,
                   const char *what);
  // What the shadow and the allocation say of an access that is inside of it. False: it is a
  // finding, and the thread has to stop.
  bool checkEarlier(const Thread &thread, uint64_t address, uint32_t access, uint32_t site);
  bool checkOrder(Thread &thread, uint64_t address, uint32_t access, uint32_t site);
  // At the end of a read of global memory: nothing may have written it since it was issued.
  template <class Issued>
  bool checkLanding(Thread &thread, const Issued &issued, uint64_t address, uint32_t bytes);
  GlobalActor globalActorOf(const Thread &thread, uint32_t site) const;
  void reportConflict(const Thread &thread, uint32_t site, const GlobalConflict &conflict);
  std::string byteOf(const Thread &thread, uint64_t address) const;
  void publish(Thread &thread, uint64_t address);
  bool checkAligned(Thread &thread, uint64_t address, uint32_t bytes, uint32_t site);
  bool checkShared(const Thread &thread, uint32_t address, uint32_t bytes, uint32_t site,
                   bool mayBeOthers = false);
  void append(Thread &thread, uint64_t address, uint32_t access, uint32_t site);
  void letOthersRun(Thread &thread, uint32_t site);
  std::string placeOf(uint32_t site) const;
  static std::string placeOf(const Program &program, uint32_t site);
  bool isLate() const;
  bool mayBeAbandoned();
  std::string lateness() const;

  // AccessLog.cpp
  void flush(Warp &warp, uint64_t lanes);
  void shadowAccess(Thread &thread, const LogEntry &entry);
  void shadowLog(Thread &thread);
  void countRequest(uint32_t site, const LogEntry *const *entries, unsigned count);
  void countRead(const MemoryRange *accesses, unsigned count);
  void countSectors(AccessCounters &counters, const MemoryRange &run, bool isRead);
  void flushDivergent(Warp &warp, uint64_t lanes, size_t from);
  void reportConflict(const Thread &thread, uint32_t site, const Conflict &conflict);
  Actor actorOf(const Thread &thread, uint32_t site) const;
  void alignClocks(Warp &warp);
  void shadowRow(Warp &warp, uint32_t site, unsigned row, uint32_t offset, bool transpose,
                 bool store);

  Knowledge *commonKnowledge(uint32_t firstThread, uint32_t count);
  void learnOf(Warp &warp, uint64_t members, uint32_t agent, uint32_t clock);
  void setKnowledge(Thread &thread, Knowledge *knowledge);
  void joinOthers(Thread *const *members, size_t count, Thread *const *learners,
                  size_t learnerCount);
  void join(Thread *const *members, size_t count, Thread *const *learners, size_t learnerCount);

  Cluster &cluster;
  const uint32_t rank;
  const LaunchContext *launch = nullptr;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  uint32_t freeRegisters = 0; // given back: the sum over warps, of one thread each
  // Warps that wait for registers, and how many each of their threads wants, in order.
  std::deque<std::pair<Warp *, uint32_t>> registerWaits;
  std::map<uint32_t, Mbarrier> mbarriers; // by their shared addresses
  std::vector<Transfer> transfers;        // not done yet, oldest first
  std::map<uint32_t, NamedBarrier> barriers;
  StackPool stacks;
  FiberContext main;
  std::vector<char> arena;
  char *sharedStart = nullptr; // host address of shared address zero
  uint32_t sharedEnd = 0;      // the first shared address behind the arena
  SharedShadow shadow;

  uint64_t readyWarps = 0;
  uint32_t currentWarp = 0;
  uint32_t liveThreads = 0;
  uint64_t randomState = 0;
  double started = 0;  // on the clock of this host thread's processor time
  uint64_t number = 0; // in the grid
  uint32_t coordinates[3] = {};
  uint32_t vainLooks = 0;   // at the clock, since another block had a finding
  bool isAbandoned = false; // it may wait for a block that has stopped
  std::optional<Finding> finding;
  std::optional<Finding> uninitialized; // gives way to the race it may be a sign of
};

} // namespace sectile::vgpu
