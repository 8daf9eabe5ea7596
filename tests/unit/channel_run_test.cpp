// Parties that pass buffers to each other, as programs of events: right ones run for any number of
// iterations, and each mistake is found for its own reason, whatever the order of the parties.
#include "passes/analysis/ChannelRun.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace sectile {
namespace {

using Event = ChannelRun::Event;
using Fault = ChannelRun::Fault;
using Party = ChannelRun::Party;

constexpr uint32_t depth = 3, bytes = 1024, mathParties = 2;
// Cells: a slot each, then the mbarriers that say that one is full, and that one is empty.
constexpr uint32_t full = depth, empty = 2 * depth, numCells = 3 * depth;

/// The programs of a ring that a producer of one thread has filled by the engine, and that threads
/// of several parties read, as each test breaks them.
struct Ring {
  uint32_t slots = depth;
  uint32_t trips = 0;
  bool releases = true, releasesEarly = false, readsInFlight = false, awaitsDots = true;
  bool waits = true, waitsForEmpty = true;
  int64_t expected = bytes;
  std::optional<int64_t> fullParity, emptyParity;
  uint32_t emptyArrivals = 2 * mathParties; ///< two threads stand for a party's
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
    event.kind = Event::Meet;
    return event;
  }

  Party producer() const {
    Party party;
    party.alone = true;
    for (uint32_t i = 0; i < 2 * depth; ++i)
      party.program.push_back(at(Event::MadePhases, full + i, i, 0, 0));
    party.program.push_back(meet());
    for (uint32_t use = 0; use < produced.value_or(trips); ++use) {
      const uint32_t slot = use % slots, turn = use / slots;
      party.program.push_back(mark());
      if (waitsForEmpty)
        party.program.push_back(at(Event::WaitPhase, empty + slot, depth + slot,
                                   emptyParity.value_or((turn + 1) % 2), use));
      party.program.push_back(at(Event::Arrive, full + slot, slot, expected, use));
      Event copy = at(Event::EngineWrite, slot, slot, bytes, use);
      copy.byProxy = true;
      party.program.push_back(copy);
    }
    return party;
  }
  Party math() const {
    Party party;
    party.program.push_back(meet());
    for (uint32_t use = 0; use < trips; ++use) {
      const uint32_t slot = use % slots, turn = use / slots;
      party.program.push_back(mark());
      if (waits)
        party.program.push_back(
            at(Event::WaitPhase, full + slot, slot, fullParity.value_or(turn % 2), use));
      const Event release = at(Event::Arrive, empty + slot, depth + slot, 0, use);
      if (releases && releasesEarly)
        party.program.push_back(release);
      Event read = at(readsInFlight ? Event::QueuedRead : Event::Read, slot, 0, 0, use);
      read.queue = ChannelRun::Dots;
      read.byProxy = readsInFlight;
      party.program.push_back(read);
      if (readsInFlight) {
        Event close, await;
        close.kind = Event::CloseGroup;
        await.kind = Event::AwaitGroups;
        close.queue = await.queue = ChannelRun::Dots;
        party.program.push_back(close);
        if (awaitsDots)
          party.program.push_back(await);
      }
      if (releases && !releasesEarly)
        party.program.push_back(release);
    }
    return party;
  }
  std::vector<uint32_t> arrivals() const {
    std::vector<uint32_t> counts(depth, 1);
    counts.resize(2 * depth, emptyArrivals);
    return counts;
  }

  /// The first fault of runs of 0, 1, 2, … iterations until they repeat. All orders of the parties
  /// give one or none; which is met first may depend on the order.
  std::optional<Fault> fault() {
    for (trips = 0; trips < 64; ++trips) {
      std::vector<Party> parties{producer()};
      for (uint32_t i = 0; i < mathParties; ++i)
        parties.push_back(math());
      std::optional<Fault> first;
      bool repeats = true;
      for (uint32_t order = 0; order <= mathParties; ++order) {
        ChannelRun run(numCells, arrivals());
        std::optional<Fault> found = run.run(parties);
        if (order == 0)
          first = found;
        EXPECT_EQ(found.has_value(), first.has_value()) << order << " of " << trips;
        repeats &= run.repeats(depth);
        std::ranges::rotate(parties, parties.begin() + 1);
      }
      if (first || repeats)
        return first;
    }
    ADD_FAILURE() << "nothing repeats";
    return std::nullopt;
  }
};

TEST(ChannelRun, PartiesPassOnASlot) {
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
  ring.emptyArrivals = 2 * mathParties + 1;
  EXPECT_EQ(foundIn(ring), Found(Fault::Deadlock, depth));
}

// The producer does not wait for all who read.
TEST(ChannelRun, ReleasedByMoreThanAreCounted) {
  Ring ring;
  ring.emptyArrivals = 1;
  EXPECT_TRUE(isOneOf(ring.fault(), {Fault::Overwrites, Fault::Overrun}));
}

TEST(ChannelRun, TheProducerWaitsForAPhaseThatStaysConstant) {
  Ring ring;
  ring.emptyParity = 0; // nobody has filled the first slot
  EXPECT_EQ(foundIn(ring), Found(Fault::Deadlock, 0));
  ring.emptyParity = 1; // right for the first turn alone
  EXPECT_EQ(foundIn(ring), Found(Fault::Overwrites, depth));
}

TEST(ChannelRun, TheReadersWaitForAPhaseThatStaysConstant) {
  Ring ring;
  ring.fullParity = 1; // over before anything is copied
  EXPECT_EQ(foundIn(ring), Found(Fault::PassesEarly, 0));
  ring.fullParity = 0; // right for the first turn alone
  EXPECT_TRUE(isOneOf(ring.fault(), {Fault::PassesEarly, Fault::Overrun}));
}

TEST(ChannelRun, ReadWithoutAWait) {
  Ring ring;
  ring.waits = false;
  EXPECT_TRUE(isOneOf(ring.fault(), {Fault::ReadsEarly}));
}

TEST(ChannelRun, FilledWithoutAWait) {
  Ring ring;
  ring.waitsForEmpty = false;
  EXPECT_TRUE(isOneOf(ring.fault(), {Fault::Overwrites, Fault::Overrun}));
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
  const std::vector<Party> parties{ring.producer(), ring.math(), ring.math()};
  ChannelRun run(numCells, ring.arrivals());
  std::optional<Fault> found = run.run(parties);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Fault::Deadlock);
  EXPECT_EQ(found->at.iteration, 1u);
  EXPECT_EQ(found->at.position, 1);
}

TEST(ChannelRun, OneUseMoreIsFilledThanIsRead) {
  Ring ring;
  ring.trips = 1;
  ring.produced = 2;
  const std::vector<Party> parties{ring.producer(), ring.math(), ring.math()};
  ChannelRun run(numCells, ring.arrivals());
  std::optional<Fault> found = run.run(parties);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Fault::Abandoned);
}

TEST(ChannelRun, TheSameBytesOfAnother) {
  Party party;
  for (Event::Kind kind : {Event::Write, Event::Meet, Event::Write, Event::Meet, Event::Read})
    party.program.push_back(Ring::at(kind, 0, 0, 0, 0));
  party.program[2].owner = "another";
  ChannelRun run(depth, {});
  EXPECT_TRUE(isOneOf(run.run({&party, 1}), {Fault::Replaced}));
  party.program[4].owner = "another";
  EXPECT_FALSE(run.run({&party, 1}));
}

//===-- A ring that threads fill themselves, in groups of copies
//----------------------------------===//

/// Copies `ahead` uses ahead; each iteration awaits all groups but `pending`, meets, and reads.
std::optional<Fault> runGroups(uint32_t trips, uint32_t ahead, uint32_t pending, bool meets,
                               bool fences = true) {
  Party party;
  auto add = [&](Event::Kind kind, uint32_t cell = 0, int64_t amount = 0) -> Event & {
    Event &event =
        party.program.emplace_back(Ring::at(kind, cell, 0, amount, uint32_t(party.program.size())));
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
      add(Event::Meet);
    copy(use + ahead);
    add(Event::Read, use % depth).byProxy = true;
  }
  ChannelRun run(depth, {});
  return run.run({&party, 1});
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
