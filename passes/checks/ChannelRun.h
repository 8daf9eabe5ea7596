// Runs what channels were lowered to: partitions with programs of events over shared memory,
// whatever their relative speed, to see that each waits for what it reads and for what it
// overwrites.
#ifndef SECTILE_PASSES_CHECKS_CHANNELRUN_H
#define SECTILE_PASSES_CHECKS_CHANNELRUN_H

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace sectile {

/// A block of threads, or the blocks of a cluster, the copy engine, and dots in flight, all at the
/// same time.
///
/// One run stands for all interleavings. Each thread keeps what it knows to be over: steps of other
/// threads, phases of mbarriers, groups of copies, dots. An access is safe if its thread knows that
/// the earlier ones it conflicts with are over; which of the two comes first in this run does not
/// matter. That is so because waits and arrivals are deterministic: a phase that may be over before
/// a thread has seen the one before it is a fault, and so is an arrival that may count for an
/// earlier phase.
class ChannelRun {
public:
  /// What threads have done for them, in the order of asking, and wait for by number.
  enum Queue { Copies, Dots };

  /// One step of a program.
  struct Event {
    enum Kind {
      Allocate,      ///< uses of the cells are counted anew
      InitMbarrier,  ///< `mbarrier` begins its first phase
      Read,          ///< the cells, by each thread
      Write,         ///< the cells, by the threads together
      QueuedRead,    ///< by the queue's group that is open
      QueuedWrite,   ///< by the queue's group that is open
      CloseGroup,    ///< of the queue
      AwaitGroups,   ///< until at most `amount` groups of the queue are in flight
      EngineWrite,   ///< `amount` bytes, which count for `mbarrier`
      Arrive,        ///< at `mbarrier`, whose cells these are; `amount` bytes will count for it
      WaitPhase,     ///< until the phase of parity `amount` of `mbarrier` is over
      BarrierArrive, ///< at the named barrier `mbarrier`, as `amount` of its warps
      BarrierWait,   ///< until all warps that it counts have arrived there
      Fence,         ///< what the thread wrote is there for accesses through the other proxy
      SyncBlock,     ///< all threads of the partition's block meet
      SyncPartition, ///< all threads of the partition meet
      SyncCluster,   ///< all threads of all blocks meet
      Mark,          ///< the run's state is noted here
    };
    Kind kind;
    uint32_t begin = 0, end = 0; ///< cells
    int64_t amount = 0;
    uint32_t mbarrier = 0;
    uint32_t times = 1; ///< that an arrival at an mbarrier counts
    Queue queue = Copies;
    bool singleThread = false; ///< only the partition's first thread does it
    bool byProxy = false;      ///< the access is an instruction's or the engine's own
    /// Of `mbarrier` and the named barrier after it: the thread's own, or the other's.
    enum Turn { None, Own, Others } turn = None;
    bool atFirst = false;  ///< only if that is the first thread's
    bool isShared = false; ///< a copy that counts in a phase which another block may begin later
    const void *owner = nullptr;       ///< of the cells: others' writes are not what it reads
    const void *tag = nullptr;         ///< the caller's
    int32_t position = -1;             ///< in the owner's ring, likewise
    uint32_t iteration = 0, trips = 0; ///< of the innermost loop, likewise
  };

  /// Threads with one program. Two of them stand for any number: the first, which does what one
  /// thread does for all, and any other.
  struct Partition {
    std::vector<Event> program;
    bool singleThread = false; ///< it has no other
    uint32_t block = 0;        ///< in its cluster
  };

  struct Fault {
    enum Kind {
      Deadlock,     ///< `at` waits for what never happens
      PassesEarly,  ///< the wait `at` takes an earlier phase for the one that it is for
      Overrun,      ///< the phase `at` completes may be over before `other` saw the one before
      ArrivesEarly, ///< `at` may count for a phase before its own, as `other` did
      ReadsEarly,   ///< `at` may read before `other` has written; before anything, without `other`
      Overwrites,   ///< `at` may write before `other` is over
      Replaced,     ///< `at` reads what `other` has overwritten
      Hidden,       ///< `at` does not see what `other` wrote without a fence
      FewerBytes,   ///< for the phase of the arrival `at`, `bytes` fewer are copied than expected
      MoreBytes,    ///< the copy `at` is for more bytes than are expected
      Abandoned,    ///< nobody waits for the copy `at`
    };
    Kind kind;
    Event at;
    std::optional<Event> other;
    int64_t bytes = 0;
    uint32_t round = 0; ///< how often the cells, or the phase, had been used before
  };

  /// `arrivals`: for each mbarrier, how many complete a phase. `warps`: for each named barrier, how
  /// many come to it, each of them with both of the threads that stand for all.
  ChannelRun(uint32_t cells, std::vector<uint32_t> arrivals, std::vector<uint32_t> warps = {});

  /// Runs the programs to their ends, from a fresh start; gives the first fault.
  std::optional<Fault> run(std::span<const Partition> partitions);

  /// Whether the state at some mark of the last run was that at an earlier one, not counting the
  /// last `tail` marks.
  bool repeats(uint32_t tail) const { return repeated && *repeated + tail < marks; }

private:
  /// Something that goes on by itself and is over up to a time: a thread's steps and those of its
  /// writes that are fenced, its groups of copies and those fenced, its dots; an mbarrier's phases.
  enum Component { Steps, Fenced, Groups, FencedGroups, DotGroups, PerThread };
  struct Moment {
    uint32_t component, time;
  };
  struct Access {
    Moment over;     ///< for other threads' accesses
    Moment overSeen; ///< for accesses through the other proxy
    const Event *event;
    uint32_t thread;
  };
  using Knowledge = std::vector<uint32_t>; ///< by component: up to when it is over

  struct Cell {
    const void *owner = nullptr; ///< of what was written last
    const Event *fill = nullptr; ///< that wrote it last, which several threads may share in
    uint32_t round = 0;
    std::vector<Access> writes, reads; ///< of the last fill
  };
  struct Mbarrier {
    uint32_t completed = 0, pending = 0;
    int64_t bytes = 0; ///< still to come in this phase
    Knowledge released;
    const Event *arrival = nullptr;
    std::vector<Access> waits; ///< that passed and saw `completed` phases
  };
  /// Uses of a barrier follow one another: no thread arrives again before it knows that the use
  /// before is over.
  struct NamedBarrier {
    uint32_t missing = 0;
    Knowledge gathered;
    std::vector<Knowledge> released; ///< by use
    const Event *last = nullptr;
  };
  struct Thread {
    const Partition *partition = nullptr;
    bool first = false;
    uint32_t next = 0, lastMark = 0, marks = 0;
    bool meets = false; ///< at the event that is its next
    Knowledge knows;
    uint32_t closed[2] = {};
    std::vector<bool> passedAtOnce; ///< by mbarrier: the last wait learnt nothing
    std::vector<const Event *> lastWait;
    std::vector<uint32_t> uses; ///< by named barrier: those until the one it arrived for is over
  };

  bool step(uint32_t thread);
  bool meet();
  bool meet(Event::Kind kind, const std::vector<Thread *> &together);
  void read(Thread &thread, const Event &event);
  void write(Thread &thread, const Event &event);
  void arrive(Thread &thread, const Event &event);
  void copied(Thread &thread, const Event &event);
  bool wait(Thread &thread, const Event &event);
  void complete(const Event &event, Mbarrier &mbarrier);
  static std::optional<uint32_t> barrierOf(const Thread &thread, const Event &event);
  void arriveAtNamed(Thread &thread, const Event &event);
  bool waitAtNamed(Thread &thread, const Event &event);
  void finish();
  void mark(Thread &thread);

  uint32_t numberOf(const Thread &thread) const { return uint32_t(&thread - threads.data()); }
  uint32_t componentOf(const Thread &thread, Component component) const {
    return numberOf(thread) * PerThread + component;
  }
  uint32_t componentOf(uint32_t mbarrier) const {
    return uint32_t(threads.size()) * PerThread + mbarrier;
  }
  uint32_t componentOfNamed(uint32_t barrier) const {
    return componentOf(uint32_t(arrivals.size()) + barrier);
  }
  uint32_t latest(uint32_t component) const;
  Access accessBy(const Thread &thread, const Event &event) const;
  void fail(Fault::Kind kind, const Event &at, const Event *other = nullptr, uint32_t round = 0,
            int64_t bytes = 0);

  const uint32_t numCells;
  const std::vector<uint32_t> arrivals, warps;
  std::vector<Cell> cells;
  std::vector<Mbarrier> mbarriers;
  std::vector<NamedBarrier> named;
  std::vector<Thread> threads;
  std::set<std::vector<int64_t>> states; ///< at marks
  uint32_t marks = 0;
  std::optional<uint32_t> repeated; ///< the first mark whose state was there before
  std::optional<Fault> fault;
};

} // namespace sectile

#endif
