// Partitions that pass buffers to each other, as programs of events: right ones run for any number
// of iterations, and each mistake is found for its own reason, whatever the order of the
// partitions.
#include "passes/checks/ChannelRun.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <initializer_list>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace sectile {
namespace {

using Event = ChannelRun::Event;
using Fault = ChannelRun::Fault;
using Partition = ChannelRun::Partition;

constexpr uint32_t depth = 3, bytes = 1024, mathPartitions = 2;
// Cells: a slot each, then the mbarriers that say that one is full, and that one is empty.
constexpr uint32_t full = depth, empty = 2 * depth, numCells = 3 * depth;

/// The programs of a ring that a producer of one thread has filled by the engine, and that threads
/// of several partitions read, as each test breaks them.
struct Ring {
  uint32_t slots = depth;
  uint32_t trips = 0;
  bool releases = true, releasesEarly = false, readsInFlight = false, awaitsDots = true;
  bool waits = true, waitsForEmpty = true;
  int64_t expected = bytes;
  std::optional<int64_t> fullParity, emptyParity;
  uint32_t emptyArrivals = 2 * mathPartitions; ///< two threads stand for a partition's
  std::optional<uint32_t> produced;

  static Event at(Event::Kind kind, uint32_t cell, uint32_t mbarrier, int64_t amount,
                  uint32_t iteration) {
    Event event{kind, cell, cell + 1, amount, mbarrier};
    event.owner = cell < depth ? "slots" : "mbarriers";
    event.position = int32_t(cell % depth);
    event.iteration = iteration;
    return event;
  }
  static Event mark() {
    Event event;
    event.kind = Event::Mark;
    return event;
  }
  static Event meet() {
    Event event;
    event.kind = Event::SyncBlock;
    return event;
  }

  Partition producer() const {
    Partition partition;
    partition.singleThread = true;
    for (uint32_t i = 0; i < 2 * depth; ++i)
      partition.program.push_back(at(Event::InitMbarrier, full + i, i, 0, 0));
    partition.program.push_back(meet());
    for (uint32_t use = 0; use < produced.value_or(trips); ++use) {
      const uint32_t slot = use % slots, turn = use / slots;
      partition.program.push_back(mark());
      if (waitsForEmpty)
        partition.program.push_back(at(Event::WaitPhase, empty + slot, depth + slot,
                                       emptyParity.value_or((turn + 1) % 2), use));
      partition.program.push_back(at(Event::Arrive, full + slot, slot, expected, use));
      Event copy = at(Event::EngineWrite, slot, slot, bytes, use);
      copy.byProxy = true;
      partition.program.push_back(copy);
    }
    return partition;
  }
  Partition math() const {
    Partition partition;
    partition.program.push_back(meet());
    for (uint32_t use = 0; use < trips; ++use) {
      const uint32_t slot = use % slots, turn = use / slots;
      partition.program.push_back(mark());
      if (waits)
        partition.program.push_back(
            at(Event::WaitPhase, full + slot, slot, fullParity.value_or(turn % 2), use));
      const Event release = at(Event::Arrive, empty + slot, depth + slot, 0, use);
      if (releases && releasesEarly)
        partition.program.push_back(release);
      Event read = at(readsInFlight ? Event::QueuedRead : Event::Read, slot, 0, 0, use);
      read.queue = ChannelRun::Dots;
      read.byProxy = readsInFlight;
      partition.program.push_back(read);
      if (readsInFlight) {
        Event close, await;
        close.kind = Event::CloseGroup;
        await.kind = Event::AwaitGroups;
        close.queue = await.queue = ChannelRun::Dots;
        partition.program.push_back(close);
        if (awaitsDots)
          partition.program.push_back(await);
      }
      if (releases && !releasesEarly)
        partition.program.push_back(release);
    }
    return partition;
  }
  std::vector<uint32_t> arrivals() const {
    std::vector<uint32_t> counts(depth, 1);
    counts.resize(2 * depth, emptyArrivals);
    return counts;
  }

  /// The first fault of runs of 0, 1, 2, … iterations until they repeat. All orders of the
  /// partitions give one or none; which is met first may depend on the order.
  std::optional<Fault> fault() {
    for (trips = 0; trips < 64; ++trips) {
      std::vector<Partition> partitions{producer()};
      for (uint32_t i = 0; i < mathPartitions; ++i)
        partitions.push_back(math());
      std::optional<Fault> first;
      bool repeats = true;
      for (uint32_t order = 0; order <= mathPartitions; ++order) {
        ChannelRun run(numCells, arrivals());
        std::optional<Fault> found = run.run(partitions);
        if (order == 0)
          first = found;
        EXPECT_EQ(found.has_value(), first.has_value()) << order << " of " << trips;
        repeats &= run.repeats(depth);
        std::ranges::rotate(partitions, partitions.begin() + 1);
      }
      if (first || repeats)
        return first;
    }
    ADD_FAILURE() << "nothing repeats";
    return std::nullopt;
  }
};

TEST(ChannelRun, PartitionsPassOnASlot) {
  Ring ring;
  EXPECT_FALSE(ring.fault());
  EXPECT_GT(ring.trips, 2 * depth);
  EXPECT_LT(ring.trips, 6 * depth);
}

TEST(ChannelRun, SlotsThatDotsInFlightRead) {
  Ring ring;
  ring.readsInFlight = true;
  EXPECT_FALSE(ring.fault());
}

bool isOneOf(const std::optional<Fault> &fault, std::initializer_list<Fault::Kind> kinds) {
  return fault && std::ranges::find(kinds, fault->kind) != kinds.end();
}

/// What goes wrong, and in which iteration.
using Found = std::pair<std::optional<Fault::Kind>, uint32_t>;
Found foundIn(Ring &ring) {
  std::optional<Fault> fault = ring.fault();
  return fault ? Found{fault->kind, fault->at.iteration} : Found{};
}

TEST(ChannelRun, ReleasedWhileItIsRead) {
  Ring ring;
  ring.releasesEarly = true;
  EXPECT_EQ(foundIn(ring), Found(Fault::Overwrites, depth));
}

TEST(ChannelRun, ReleasedWhileADotInFlightReads) {
  Ring ring;
  ring.readsInFlight = true;
  ring.awaitsDots = false;
  EXPECT_EQ(foundIn(ring), Found(Fault::Overwrites, depth));
}

TEST(ChannelRun, NeverReleased) {
  Ring ring;
  ring.releases = false;
  EXPECT_EQ(foundIn(ring), Found(Fault::Deadlock, depth));
}

TEST(ChannelRun, ReleasedByTooFew) {
  Ring ring;
  ring.emptyArrivals = 2 * mathPartitions + 1;
  EXPECT_EQ(foundIn(ring), Found(Fault::Deadlock, depth));
}

// The producer does not wait for all who read.
TEST(ChannelRun, ReleasedByMoreThanAreCounted) {
  Ring ring;
  ring.emptyArrivals = 1;
  EXPECT_TRUE(isOneOf(ring.fault(), {Fault::Overwrites, Fault::ArrivesEarly}));
}

TEST(ChannelRun, TheProducerWaitsForAPhaseThatStaysConstant) {
  Ring ring;
  ring.emptyParity = 0; // nobody has filled the first slot
  EXPECT_EQ(foundIn(ring), Found(Fault::Deadlock, 0));
  ring.emptyParity = 1; // right for the first turn alone
  EXPECT_EQ(foundIn(ring), Found(Fault::ArrivesEarly, depth));
}

TEST(ChannelRun, TheReadersWaitForAPhaseThatStaysConstant) {
  Ring ring;
  ring.fullParity = 1; // over before anything is copied
  EXPECT_EQ(foundIn(ring), Found(Fault::PassesEarly, 0));
  ring.fullParity = 0; // right for the first turn alone
  EXPECT_TRUE(isOneOf(ring.fault(), {Fault::PassesEarly, Fault::ArrivesEarly}));
}

TEST(ChannelRun, ReadWithoutAWait) {
  Ring ring;
  ring.waits = false;
  EXPECT_TRUE(isOneOf(ring.fault(), {Fault::ReadsEarly}));
}

TEST(ChannelRun, FilledWithoutAWait) {
  Ring ring;
  ring.waitsForEmpty = false;
  EXPECT_TRUE(isOneOf(ring.fault(), {Fault::Overwrites, Fault::ArrivesEarly}));
}

TEST(ChannelRun, BytesOtherThanExpected) {
  Ring ring;
  ring.expected = bytes + 16;
  EXPECT_EQ(foundIn(ring), Found(Fault::FewerBytes, 0));
  ring.expected = bytes - 16;
  EXPECT_EQ(foundIn(ring), Found(Fault::MoreBytes, 0));
}

TEST(ChannelRun, OneUseMoreIsReadThanIsFilled) {
  Ring ring;
  ring.trips = 2;
  ring.produced = 1;
  const std::vector<Partition> partitions{ring.producer(), ring.math(), ring.math()};
  ChannelRun run(numCells, ring.arrivals());
  std::optional<Fault> found = run.run(partitions);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Fault::Deadlock);
  EXPECT_EQ(found->at.iteration, 1u);
  EXPECT_EQ(found->at.position, 1);
}

TEST(ChannelRun, OneUseMoreIsFilledThanIsRead) {
  Ring ring;
  ring.trips = 1;
  ring.produced = 2;
  const std::vector<Partition> partitions{ring.producer(), ring.math(), ring.math()};
  ChannelRun run(numCells, ring.arrivals());
  std::optional<Fault> found = run.run(partitions);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Fault::Abandoned);
}

TEST(ChannelRun, TheSameBytesOfAnother) {
  Partition partition;
  for (Event::Kind kind :
       {Event::Write, Event::SyncBlock, Event::Write, Event::SyncBlock, Event::Read})
    partition.program.push_back(Ring::at(kind, 0, 0, 0, 0));
  const char another = 0;
  partition.program[2].owner = &another;
  ChannelRun run(depth, {});
  EXPECT_TRUE(isOneOf(run.run({&partition, 1}), {Fault::Replaced}));
  partition.program[4].owner = &another;
  EXPECT_FALSE(run.run({&partition, 1}));
}

//===-- All interleavings, of small programs
//------------------------------------------------------===//

/// Tries every order of the threads and of the engine's landings. Says whether in some order two
/// accesses of a slot can be next to each other of which one is a write, a slot is read that
/// nothing has written, more arrive than a phase takes, or nobody can go on.
class Interleavings {
public:
  Interleavings(const std::vector<Partition> &partitions, const std::vector<uint32_t> &arrivals)
      : arrivals(arrivals) {
    for (const Partition &partition : partitions)
      for (bool first : {true, false})
        if (first || !partition.singleThread)
          threads.push_back({&partition.program, first});
  }

  bool areFaulty() {
    State state;
    state.next.assign(threads.size(), 0);
    state.written.assign(depth, false);
    for (uint32_t count : arrivals)
      state.phases.push_back({count, 0, 0});
    visit(state);
    return faulty;
  }

private:
  struct Phase {
    uint32_t pending = 0;
    int64_t bytes = 0;
    uint32_t parity = 0; ///< of the phase in flight
    auto operator<=>(const Phase &) const = default;
  };
  struct State {
    std::vector<size_t> next;
    std::vector<bool> written;
    std::vector<Phase> phases;
    std::multiset<std::pair<uint32_t, uint32_t>> underWay; ///< slot and mbarrier of copies
    auto operator<=>(const State &) const = default;
  };
  struct Thread {
    const std::vector<Event> *program;
    bool first;
  };

  static bool reads(const Event &event) { return event.kind == Event::Read; }
  static bool writes(const Event &event) { return event.kind == Event::EngineWrite; }

  void advance(Phase &phase, uint32_t mbarrier) const {
    if (phase.pending == 0 && phase.bytes == 0)
      phase = {arrivals[mbarrier], 0, 1 - phase.parity};
  }

  /// What the thread does next; nullptr at its end.
  const Event *nextOf(State &state, size_t thread) const {
    const auto &[program, first] = threads[thread];
    size_t &next = state.next[thread];
    while (next < program->size() &&
           ((*program)[next].kind == Event::Mark || (*program)[next].kind == Event::InitMbarrier))
      ++next;
    return next < program->size() ? &(*program)[next] : nullptr;
  }

  void visit(State state) {
    std::vector<const Event *> next;
    for (size_t i = 0; i < threads.size(); ++i)
      next.push_back(nextOf(state, i));
    if (faulty || !seen.insert(state).second)
      return;
    for (size_t i = 0; i < next.size(); ++i) {
      if (!next[i] || (!reads(*next[i]) && !writes(*next[i])))
        continue;
      const uint32_t slot = next[i]->begin;
      faulty |= reads(*next[i]) && !state.written[slot];
      for (const auto &[filled, mbarrier] : state.underWay)
        faulty |= filled == slot;
      for (size_t j = 0; j < next.size(); ++j)
        faulty |= j != i && next[j] && writes(*next[j]) && next[j]->begin == slot;
    }
    bool goesOn = false;
    const bool allMeet = std::ranges::all_of(
        next, [](const Event *event) { return event && event->kind == Event::SyncBlock; });
    if (allMeet) {
      State after = state;
      for (size_t &at : after.next)
        ++at;
      goesOn = true;
      visit(after);
    }
    for (size_t i = 0; i < next.size(); ++i) {
      if (!next[i] || next[i]->kind == Event::SyncBlock)
        continue;
      const Event &event = *next[i];
      State after = state;
      ++after.next[i];
      Phase &phase = after.phases[event.mbarrier];
      if (event.kind == Event::WaitPhase && phase.parity == event.amount)
        continue;
      if (event.kind == Event::Arrive) {
        faulty |= phase.pending == 0;
        --phase.pending;
        phase.bytes += event.amount;
        advance(phase, event.mbarrier);
      } else if (event.kind == Event::EngineWrite) {
        after.underWay.insert({event.begin, event.mbarrier});
      }
      goesOn = true;
      visit(after);
    }
    for (auto copy = state.underWay.begin(); copy != state.underWay.end(); ++copy) {
      State after = state;
      after.underWay.erase(after.underWay.find(*copy));
      after.written[copy->first] = true;
      after.phases[copy->second].bytes -= bytes;
      advance(after.phases[copy->second], copy->second);
      goesOn = true;
      visit(after);
    }
    faulty |= !goesOn && std::ranges::any_of(next, [](const Event *event) { return event; });
  }

  const std::vector<uint32_t> &arrivals;
  std::vector<Thread> threads;
  std::set<State> seen;
  bool faulty = false;
};

// Rings with one or two random changes. What goes wrong in any order is found; what is right in all
// orders is mostly not refused, but for phases that could be overrun without harm.
TEST(ChannelRun, OneRunStandsForAllInterleavings) {
  std::mt19937 random(17);
  auto below = [&](size_t limit) { return random() % uint32_t(limit); };
  int faulty = 0, right = 0, refused = 0;
  for (int i = 0; i < 1500; ++i) {
    Ring ring;
    ring.slots = 1 + below(2);
    ring.trips = 1 + below(3);
    std::vector<Partition> partitions{ring.producer(), ring.math()};
    const bool alone = below(2);
    partitions[1].singleThread = alone;
    ring.emptyArrivals = alone ? 1 : 2;
    for (uint32_t changes = below(3); changes--;) {
      std::vector<Event> &program = partitions[below(2)].program;
      const size_t setUp = &program == &partitions[0].program ? 2 * depth + 1 : 1;
      if (program.size() < setUp + 2)
        continue;
      const size_t at = setUp + below(program.size() - setUp - 1);
      switch (below(5)) {
      case 0:
        program.erase(program.begin() + long(at));
        break;
      case 1:
        std::swap(program[at], program[at + 1]);
        break;
      case 2:
        program.insert(program.begin() + long(at), program[at]);
        break;
      case 3:
        if (program[at].kind == Event::WaitPhase)
          program[at].amount ^= 1;
        break;
      case 4:
        if (program[at].kind == Event::Arrive && program[at].amount)
          program[at].amount = bytes * below(3);
        break;
      }
    }
    const bool isFaulty = Interleavings(partitions, ring.arrivals()).areFaulty();
    const bool isFound = ChannelRun(numCells, ring.arrivals()).run(partitions).has_value();
    ASSERT_TRUE(isFound || !isFaulty) << "program " << i;
    faulty += isFaulty;
    right += !isFaulty && !isFound;
    refused += !isFaulty && isFound;
  }
  EXPECT_GT(faulty, 300);
  EXPECT_GT(right, 300);
  EXPECT_LT(refused, 150);
  RecordProperty("faulty", faulty);
  RecordProperty("right", right);
  RecordProperty("refused", refused);
}

//===-- Partitions that take turns at named barriers
//----------------------------------------------------===//

struct TurnStep {
  enum Kind { Sync, Arrive, Write } kind;
  uint32_t barrier = 0;
  bool operator==(const TurnStep &) const = default;
};
using TurnSteps = std::vector<TurnStep>;

/// Two partitions write one cell in turns. A barrier for each counts both of them.
std::vector<TurnSteps> turns(uint32_t trips) {
  std::vector<TurnSteps> sides(2);
  sides[1].push_back({TurnStep::Arrive, 0});
  for (uint32_t side : {0, 1})
    for (uint32_t i = 0; i < trips; ++i)
      sides[side].insert(sides[side].end(),
                         {{TurnStep::Sync, side}, {TurnStep::Write}, {TurnStep::Arrive, 1 - side}});
  return sides;
}

std::optional<Fault> runTurns(const std::vector<TurnSteps> &sides) {
  std::vector<Partition> partitions;
  for (const TurnSteps &steps : sides) {
    Partition &partition = partitions.emplace_back();
    partition.singleThread = true;
    for (const TurnStep &step : steps) {
      Event event = Ring::at(Event::Write, 0, step.barrier, 1, 0);
      if (step.kind != TurnStep::Write)
        event.kind = Event::BarrierArrive;
      partition.program.push_back(event);
      if (step.kind == TurnStep::Sync) {
        event.kind = Event::BarrierWait;
        partition.program.push_back(event);
      }
    }
  }
  return ChannelRun(numCells, {}, {1, 1}).run(partitions);
}

/// Tries every order. Says whether in some order both partitions can write next to each other, one
/// comes to a barrier twice in a turn, or nobody can go on.
class TurnInterleavings {
public:
  explicit TurnInterleavings(const std::vector<TurnSteps> &sides) : sides(sides) {}

  bool areFaulty() {
    visit({});
    return faulty;
  }

private:
  struct State {
    size_t next[2] = {};
    bool waits[2] = {};
    int came[2] = {-1, -1}; ///< at each barrier, who did in this turn
    auto operator<=>(const State &) const = default;
  };

  void visit(const State &state) {
    if (faulty || !seen.insert(state).second)
      return;
    auto next = [&](int side) {
      return state.next[side] < sides[side].size() ? &sides[side][state.next[side]] : nullptr;
    };
    auto writes = [&](int side) { return next(side) && next(side)->kind == TurnStep::Write; };
    faulty |= writes(0) && writes(1);
    bool goesOn = false;
    for (int side : {0, 1}) {
      if (!next(side) || state.waits[side])
        continue;
      goesOn = true;
      State after = state;
      if (next(side)->kind == TurnStep::Write) {
        ++after.next[side];
        visit(after);
        continue;
      }
      int &came = after.came[next(side)->barrier];
      if (came == side) {
        faulty = true;
        return;
      }
      const bool isOver = came >= 0;
      came = isOver ? -1 : side;
      // Who waits at this barrier goes on with the one that comes last.
      if (isOver && after.waits[1 - side] &&
          *next(1 - side) == TurnStep{TurnStep::Sync, next(side)->barrier}) {
        after.waits[1 - side] = false;
        ++after.next[1 - side];
      }
      if (next(side)->kind == TurnStep::Sync && !isOver)
        after.waits[side] = true;
      else
        ++after.next[side];
      visit(after);
    }
    faulty |= !goesOn && (next(0) || next(1));
  }

  const std::vector<TurnSteps> &sides;
  std::set<State> seen;
  bool faulty = false;
};

TEST(ChannelRun, PartitionsTakeTurns) {
  for (uint32_t trips = 0; trips < 5; ++trips)
    EXPECT_FALSE(runTurns(turns(trips))) << trips;
  std::vector<TurnSteps> nobodyBegins = turns(2);
  nobodyBegins[1].erase(nobodyBegins[1].begin());
  EXPECT_TRUE(isOneOf(runTurns(nobodyBegins), {Fault::Deadlock}));
  std::vector<TurnSteps> twice = turns(2);
  twice[1].insert(twice[1].begin(), {TurnStep::Arrive, 0});
  EXPECT_TRUE(isOneOf(runTurns(twice), {Fault::ArrivesEarly}));
  std::vector<TurnSteps> together = turns(1);
  std::swap(together[0][1], together[0][2]);
  EXPECT_TRUE(isOneOf(runTurns(together), {Fault::Overwrites}));
}

// Turns with one or two random changes, as for rings above.
TEST(ChannelRun, OneRunOfTurnsStandsForAllInterleavings) {
  std::mt19937 random(23);
  auto below = [&](size_t limit) { return random() % uint32_t(limit); };
  int faulty = 0, right = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<TurnSteps> sides = turns(1 + below(3));
    for (uint32_t changes = below(3); changes--;) {
      TurnSteps &steps = sides[below(2)];
      const size_t at = below(steps.size() - 1);
      switch (below(4)) {
      case 0:
        steps.erase(steps.begin() + long(at));
        break;
      case 1:
        std::swap(steps[at], steps[at + 1]);
        break;
      case 2:
        steps.insert(steps.begin() + long(at), steps[at]);
        break;
      case 3:
        if (steps[at].kind != TurnStep::Write)
          steps[at].kind = steps[at].kind == TurnStep::Sync ? TurnStep::Arrive : TurnStep::Sync;
        break;
      }
    }
    const bool isFaulty = TurnInterleavings(sides).areFaulty();
    const bool isFound = runTurns(sides).has_value();
    ASSERT_TRUE(isFound || !isFaulty) << "program " << i;
    faulty += isFaulty;
    right += !isFaulty && !isFound;
    refused += !isFaulty && isFound;
  }
  EXPECT_GT(faulty, 600);
  EXPECT_GT(right, 600);
  EXPECT_LT(refused, 300);
  RecordProperty("faulty", faulty);
  RecordProperty("right", right);
  RecordProperty("refused", refused);
}

//===-- A ring that threads fill themselves, in groups of copies
//----------------------------------===//

/// Copies `ahead` uses ahead; each iteration awaits all groups but `pending`, meets, and reads.
std::optional<Fault> runGroups(uint32_t trips, uint32_t ahead, uint32_t pending, bool meets,
                               bool fences = true) {
  Partition partition;
  auto add = [&](Event::Kind kind, uint32_t cell = 0, int64_t amount = 0) -> Event & {
    Event &event = partition.program.emplace_back(
        Ring::at(kind, cell, 0, amount, uint32_t(partition.program.size())));
    return event;
  };
  auto copy = [&](uint32_t use) {
    add(Event::QueuedWrite, use % depth);
    add(Event::CloseGroup);
  };
  for (uint32_t use = 0; use < ahead; ++use)
    copy(use);
  for (uint32_t use = 0; use < trips; ++use) {
    add(Event::AwaitGroups, 0, pending);
    if (fences)
      add(Event::Fence);
    if (meets)
      add(Event::SyncBlock);
    copy(use + ahead);
    add(Event::Read, use % depth).byProxy = true;
  }
  ChannelRun run(depth, {});
  return run.run({&partition, 1});
}

TEST(ChannelRun, GroupsOfCopies) {
  for (uint32_t trips = 0; trips < 3 * depth; ++trips)
    EXPECT_FALSE(runGroups(trips, depth - 1, depth - 2, true)) << trips;
  EXPECT_TRUE(isOneOf(runGroups(4, depth - 1, depth - 1, true), {Fault::ReadsEarly}));
  EXPECT_TRUE(isOneOf(runGroups(4, depth - 1, depth - 2, true, false), {Fault::Hidden}));
  // The threads do not meet; then, the copy goes into the slot that is read next.
  EXPECT_TRUE(
      isOneOf(runGroups(4, depth - 1, depth - 2, false), {Fault::Overwrites, Fault::ReadsEarly}));
  EXPECT_TRUE(isOneOf(runGroups(4, depth, depth - 2, true), {Fault::ReadsEarly}));
}

} // namespace
} // namespace sectile
