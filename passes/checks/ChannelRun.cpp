// Threads run in turns, each until it has to wait. What they know of each other decides, not when
// they run: as vector clocks do, in which the engine's phases and groups of copies have entries.
#include "passes/checks/ChannelRun.h"
#include <algorithm>
#include <cassert>
#include <map>

namespace sectile {

static bool knows(const std::vector<uint32_t> &knowledge, uint32_t component, uint32_t time) {
  return knowledge[component] >= time;
}

static void learn(std::vector<uint32_t> &to, const std::vector<uint32_t> &from) {
  for (size_t i = 0; i < to.size(); ++i)
    to[i] = std::max(to[i], from[i]);
}

ChannelRun::ChannelRun(uint32_t cells, std::vector<uint32_t> arrivals, std::vector<uint32_t> warps)
    : numCells(cells), arrivals(std::move(arrivals)), warps(std::move(warps)) {}

std::optional<ChannelRun::Fault> ChannelRun::run(std::span<const Partition> partitions) {
  fault.reset();
  states.clear();
  marks = 0;
  repeated.reset();
  threads.clear();
  for (const Partition &partition : partitions)
    for (bool first : {true, false})
      if (first || !partition.singleThread) {
        Thread &thread = threads.emplace_back();
        thread.partition = &partition;
        thread.first = first;
      }
  const size_t components = threads.size() * PerThread + arrivals.size() + warps.size();
  for (Thread &thread : threads) {
    thread.knows.assign(components, 0);
    thread.passedAtOnce.assign(arrivals.size(), false);
    thread.lastWait.assign(arrivals.size(), nullptr);
    thread.uses.assign(warps.size(), 0);
  }
  cells.assign(numCells, {});
  mbarriers.assign(arrivals.size(), {});
  for (size_t i = 0; i < arrivals.size(); ++i) {
    mbarriers[i].pending = arrivals[i];
    mbarriers[i].released.assign(components, 0);
  }
  named.assign(warps.size(), {});
  for (size_t i = 0; i < warps.size(); ++i) {
    named[i].missing = 2 * warps[i];
    named[i].gathered.assign(components, 0);
  }
  for (bool progress = true; progress;) {
    progress = false;
    for (uint32_t i = 0; i < threads.size(); ++i)
      while (step(i)) {
        if (fault)
          return fault;
        progress = true;
      }
    if (fault)
      return fault;
    progress |= meet();
  }
  finish();
  return fault;
}

void ChannelRun::fail(Fault::Kind kind, const Event &at, const Event *other, uint32_t round,
                      int64_t bytes) {
  if (!fault)
    fault = {kind, at, other ? std::optional(*other) : std::nullopt, bytes, round};
}

/// Does the thread's next step; says whether it could.
bool ChannelRun::step(uint32_t number) {
  Thread &thread = threads[number];
  if (thread.meets || thread.next == thread.partition->program.size())
    return false;
  const Event &event = thread.partition->program[thread.next];
  thread.knows[componentOf(thread, Steps)] = thread.next;
  const bool singleThread = event.singleThread || event.kind == Event::Allocate;
  if (singleThread && !thread.first) {
    ++thread.next;
    return true;
  }
  switch (event.kind) {
  case Event::Allocate:
    for (uint32_t i = event.begin; i < event.end; ++i)
      cells[i].round = 0;
    break;
  case Event::InitMbarrier: {
    // Phases go on counting, so that what is known of earlier ones stays true.
    Mbarrier &mbarrier = mbarriers[event.mbarrier];
    mbarrier.completed += mbarrier.completed % 2;
    mbarrier.pending = arrivals[event.mbarrier];
    mbarrier.bytes = 0;
    mbarrier.waits.clear();
    for (Thread &other : threads)
      other.knows[componentOf(event.mbarrier)] = mbarrier.completed;
    write(thread, event);
    break;
  }
  case Event::Read:
  case Event::QueuedRead:
    read(thread, event);
    break;
  case Event::Write:
  case Event::QueuedWrite:
    write(thread, event);
    break;
  case Event::EngineWrite:
    write(thread, event);
    copied(thread, event);
    break;
  case Event::Arrive:
    read(thread, event);
    arrive(thread, event);
    break;
  case Event::WaitPhase:
    if (!wait(thread, event))
      return false;
    break;
  case Event::BarrierArrive:
    arriveAtNamed(thread, event);
    break;
  case Event::BarrierWait:
    if (!waitAtNamed(thread, event))
      return false;
    break;
  case Event::CloseGroup:
    ++thread.closed[event.queue];
    break;
  case Event::AwaitGroups: {
    const uint32_t closed = thread.closed[event.queue];
    uint32_t &over = thread.knows[componentOf(thread, event.queue == Copies ? Groups : DotGroups)];
    if (closed > event.amount)
      over = std::max(over, closed - uint32_t(event.amount));
    break;
  }
  case Event::Fence:
    thread.knows[componentOf(thread, Fenced)] = thread.next;
    thread.knows[componentOf(thread, FencedGroups)] = thread.knows[componentOf(thread, Groups)];
    break;
  case Event::SyncBlock:
  case Event::SyncPartition:
  case Event::SyncCluster:
    thread.meets = true;
    return true;
  case Event::Mark:
    mark(thread);
    break;
  }
  ++thread.next;
  return true;
}

/// Lets threads go on whose partition, block or cluster has met.
bool ChannelRun::meet() {
  std::vector<Thread *> all;
  std::map<uint32_t, std::vector<Thread *>> blocks;
  std::map<const Partition *, std::vector<Thread *>> partitions;
  for (Thread &thread : threads) {
    all.push_back(&thread);
    blocks[thread.partition->block].push_back(&thread);
    partitions[thread.partition].push_back(&thread);
  }
  bool progress = meet(Event::SyncCluster, all);
  for (const auto &[block, together] : blocks)
    progress |= meet(Event::SyncBlock, together);
  for (const auto &[partition, together] : partitions)
    progress |= meet(Event::SyncPartition, together);
  return progress;
}

bool ChannelRun::meet(Event::Kind kind, const std::vector<Thread *> &together) {
  for (const Thread *thread : together)
    if (!thread->meets || thread->partition->program[thread->next].kind != kind)
      return false;
  Knowledge all = together.front()->knows;
  for (const Thread *thread : together)
    learn(all, thread->knows);
  for (Thread *thread : together) {
    thread->knows = all;
    thread->meets = false;
    ++thread->next;
  }
  return true;
}

ChannelRun::Access ChannelRun::accessBy(const Thread &thread, const Event &event) const {
  const uint32_t now = thread.next + 1, number = numberOf(thread);
  switch (event.kind) {
  case Event::EngineWrite: {
    const Moment over{componentOf(event.mbarrier), mbarriers[event.mbarrier].completed + 1};
    return {over, over, &event, number};
  }
  case Event::QueuedRead:
  case Event::QueuedWrite: {
    const uint32_t group = thread.closed[event.queue] + 1;
    const Moment over{componentOf(thread, event.queue == Copies ? Groups : DotGroups), group};
    return {over, event.queue == Copies ? Moment{componentOf(thread, FencedGroups), group} : over,
            &event, number};
  }
  case Event::InitMbarrier: // fenced with it
    return {{componentOf(thread, Steps), now}, {componentOf(thread, Steps), now}, &event, number};
  default:
    return {{componentOf(thread, Steps), now}, {componentOf(thread, Fenced), now}, &event, number};
  }
}

void ChannelRun::read(Thread &thread, const Event &event) {
  const Access access = accessBy(thread, event);
  for (uint32_t i = event.begin; i < event.end; ++i) {
    Cell &cell = cells[i];
    if (cell.owner && cell.owner != event.owner)
      return fail(Fault::Replaced, event, cell.fill, cell.round);
    if (!cell.owner)
      return fail(Fault::ReadsEarly, event);
    for (const Access &write : cell.writes) {
      const Moment &seen = event.byProxy ? write.overSeen : write.over;
      if (knows(thread.knows, seen.component, seen.time))
        continue;
      if (knows(thread.knows, write.over.component, write.over.time))
        return fail(Fault::Hidden, event, write.event, cell.round - 1);
      if (write.event->kind == Event::EngineWrite) {
        const uint32_t mbarrier = write.event->mbarrier;
        if (thread.passedAtOnce[mbarrier])
          return fail(Fault::PassesEarly, *thread.lastWait[mbarrier], &event, cell.round - 1);
      }
      return fail(Fault::ReadsEarly, event, write.event, cell.round - 1);
    }
    auto same = std::ranges::find_if(cell.reads, [&](const Access &other) {
      return other.over.component == access.over.component;
    });
    if (same == cell.reads.end())
      cell.reads.push_back(access);
    else
      *same = access;
  }
}

void ChannelRun::write(Thread &thread, const Event &event) {
  const Access access = accessBy(thread, event);
  for (uint32_t i = event.begin; i < event.end; ++i) {
    Cell &cell = cells[i];
    const bool shared = cell.fill == &event && !cell.writes.empty() &&
                        std::ranges::none_of(cell.writes, [&](const Access &other) {
                          return other.thread == access.thread;
                        });
    for (const Access &read : cell.reads)
      if (!knows(thread.knows, read.over.component, read.over.time))
        return shared ? fail(Fault::ReadsEarly, *read.event, &event, cell.round - 1)
                      : fail(Fault::Overwrites, event, read.event, cell.round);
    if (!shared) {
      for (const Access &before : cell.writes) {
        if (!knows(thread.knows, before.over.component, before.over.time))
          return fail(Fault::Overwrites, event, before.event, cell.round);
        if (event.byProxy && !knows(thread.knows, before.overSeen.component, before.overSeen.time))
          return fail(Fault::Hidden, event, before.event, cell.round);
      }
      cell.writes.clear();
      cell.reads.clear();
      cell.round = cell.owner == event.owner ? cell.round + 1 : 1;
    }
    cell.fill = &event;
    cell.owner = event.owner;
    cell.writes.push_back(access);
  }
}

void ChannelRun::arrive(Thread &thread, const Event &event) {
  Mbarrier &mbarrier = mbarriers[event.mbarrier];
  if (mbarrier.pending < event.times ||
      !knows(thread.knows, componentOf(event.mbarrier), mbarrier.completed))
    return fail(Fault::ArrivesEarly, event, mbarrier.arrival, mbarrier.completed);
  learn(mbarrier.released, thread.knows);
  mbarrier.arrival = &event;
  mbarrier.bytes += event.amount;
  mbarrier.pending -= event.times;
  if (mbarrier.pending != 0 || mbarrier.bytes != 0)
    return;
  complete(event, mbarrier);
  // A thread that is the only one to arrive there need not wait to know.
  if (arrivals[event.mbarrier] == event.times)
    thread.knows[componentOf(event.mbarrier)] = mbarrier.completed;
}

/// The bytes have to be expected before they are copied: they may be there at once. Those that
/// another block copies may come first, as the phase is not over before this block has arrived.
void ChannelRun::copied(Thread &thread, const Event &event) {
  Mbarrier &mbarrier = mbarriers[event.mbarrier];
  // Whoever sees them knows what the thread waited for before it had them copied.
  learn(mbarrier.released, thread.knows);
  mbarrier.bytes -= event.amount;
  if (mbarrier.bytes < 0 && (!event.isShared || mbarrier.pending == 0))
    return fail(Fault::MoreBytes, event, nullptr, mbarrier.completed, -mbarrier.bytes);
  if (mbarrier.pending == 0 && mbarrier.bytes == 0)
    complete(event, mbarrier);
}

void ChannelRun::complete(const Event &event, Mbarrier &mbarrier) {
  for (const Access &wait : mbarrier.waits)
    if (!knows(mbarrier.released, wait.over.component, wait.over.time))
      return fail(Fault::Overrun, event, wait.event, mbarrier.completed);
  mbarrier.waits.clear();
  ++mbarrier.completed;
  mbarrier.pending = arrivals[event.mbarrier];
}

/// A thread knows how many phases are over at least. If the last of them has the parity, the wait
/// may pass at once.
bool ChannelRun::wait(Thread &thread, const Event &event) {
  read(thread, event);
  Mbarrier &mbarrier = mbarriers[event.mbarrier];
  uint32_t &known = thread.knows[componentOf(event.mbarrier)];
  const bool atOnce = known % 2 != event.amount;
  const uint32_t sees = atOnce ? known : known + 1;
  if (fault)
    return true;
  if (mbarrier.completed < sees)
    return false;
  if (mbarrier.completed > sees) {
    if (atOnce)
      fail(Fault::PassesEarly, event, nullptr, sees);
    else
      fail(Fault::Overrun, *mbarrier.arrival, &event, sees);
    return true;
  }
  if (!atOnce) {
    learn(thread.knows, mbarrier.released);
    known = sees;
  }
  thread.passedAtOnce[event.mbarrier] = atOnce;
  thread.lastWait[event.mbarrier] = &event;
  mbarrier.waits.push_back(accessBy(thread, event));
  return true;
}

/// The named barrier that an event is at, if it takes place for this thread. Of warpgroups in turn
/// each has one, and each thread stands for one of them.
std::optional<uint32_t> ChannelRun::barrierOf(const Thread &thread, const Event &event) {
  if (event.turn == Event::None)
    return event.mbarrier;
  const bool isFirst = thread.first == (event.turn == Event::Own);
  if (event.atFirst && !isFirst)
    return std::nullopt;
  return event.mbarrier + !isFirst;
}

/// No thread may arrive for the next use while it may still be counted for this one.
void ChannelRun::arriveAtNamed(Thread &thread, const Event &event) {
  const std::optional<uint32_t> number = barrierOf(thread, event);
  if (!number)
    return;
  NamedBarrier &barrier = named[*number];
  const uint32_t component = componentOfNamed(*number), over = latest(component);
  if (!knows(thread.knows, component, over) || event.amount > barrier.missing ||
      thread.uses[*number] > over)
    return fail(Fault::ArrivesEarly, event, barrier.last, over);
  learn(barrier.gathered, thread.knows);
  barrier.last = &event;
  thread.uses[*number] = over + 1;
  barrier.missing -= uint32_t(event.amount);
  if (barrier.missing != 0)
    return;
  barrier.missing = 2 * warps[*number];
  barrier.gathered[component] = over + 1;
  barrier.released.push_back(barrier.gathered);
}

bool ChannelRun::waitAtNamed(Thread &thread, const Event &event) {
  const std::optional<uint32_t> number = barrierOf(thread, event);
  if (!number)
    return true;
  const NamedBarrier &barrier = named[*number];
  const uint32_t use = thread.uses[*number];
  if (barrier.released.size() < use)
    return false;
  learn(thread.knows, barrier.released[use - 1]);
  return true;
}

/// Nobody can go on. Who has not come to its end waits for ever; what is still copied has nobody
/// who waits.
void ChannelRun::finish() {
  for (const Thread &thread : threads) {
    if (thread.next == thread.partition->program.size())
      continue;
    const Event &event = thread.partition->program[thread.next];
    if (event.kind == Event::WaitPhase) {
      const Mbarrier &mbarrier = mbarriers[event.mbarrier];
      if (mbarrier.bytes > 0)
        return fail(Fault::FewerBytes, *mbarrier.arrival, &event, mbarrier.completed,
                    mbarrier.bytes);
      return fail(Fault::Deadlock, event, nullptr, mbarrier.completed);
    }
  }
  for (const Thread &thread : threads)
    if (thread.next != thread.partition->program.size() &&
        thread.partition->program[thread.next].kind == Event::BarrierWait)
      return fail(Fault::Deadlock, thread.partition->program[thread.next]);
  for (const Thread &thread : threads)
    if (thread.meets)
      return fail(Fault::Deadlock, thread.partition->program[thread.next]);
  for (const Cell &cell : cells)
    for (const Access &write : cell.writes)
      if (write.event->kind == Event::EngineWrite &&
          std::ranges::none_of(threads, [&](const Thread &thread) {
            return knows(thread.knows, write.over.component, write.over.time);
          }))
        return fail(Fault::Abandoned, *write.event, nullptr, cell.round - 1);
}

uint32_t ChannelRun::latest(uint32_t component) const {
  if (component >= componentOfNamed(0))
    return uint32_t(named[component - componentOfNamed(0)].released.size());
  if (component >= threads.size() * PerThread)
    return mbarriers[component - threads.size() * PerThread].completed;
  const Thread &thread = threads[component / PerThread];
  switch (component % PerThread) {
  case Steps:
    return thread.next;
  case Groups:
    return thread.closed[Copies];
  case DotGroups:
    return thread.closed[Dots];
  default:
    return thread.knows[component];
  }
}

/// Notes the state, in numbers that are the same whenever what follows is: times relative to the
/// latest, and nothing of what all know to be over.
void ChannelRun::mark(Thread &thread) {
  ++thread.marks;
  thread.lastMark = thread.next;
  if (&thread != &threads.front())
    return;
  std::vector<int64_t> state;
  auto add = [&](const Moment &moment) {
    const bool over = std::ranges::all_of(threads, [&](const Thread &other) {
      return knows(other.knows, moment.component, moment.time);
    });
    const int64_t since = std::min<int64_t>(int64_t(moment.time) - latest(moment.component), 1);
    state.insert(state.end(), {moment.component, over, over ? 0 : since});
  };
  for (const Thread &other : threads) {
    state.push_back(int64_t(other.marks) - thread.marks);
    state.push_back(other.next - other.lastMark);
    for (uint32_t i = 0; i < other.knows.size(); ++i)
      state.push_back(int64_t(other.knows[i]) - latest(i));
  }
  for (uint32_t i = 0; i < named.size(); ++i) {
    state.push_back(named[i].missing);
    for (const Thread &other : threads)
      state.push_back(int64_t(other.uses[i]) - latest(componentOfNamed(i)));
  }
  for (const Mbarrier &mbarrier : mbarriers) {
    state.insert(state.end(), {mbarrier.completed % 2, mbarrier.pending, mbarrier.bytes});
    for (const Access &wait : mbarrier.waits)
      add(wait.over);
  }
  for (const Cell &cell : cells) {
    state.push_back(reinterpret_cast<intptr_t>(cell.owner));
    for (const auto *accesses : {&cell.writes, &cell.reads})
      for (const Access &access : *accesses) {
        add(access.over);
        add(access.overSeen);
      }
  }
  if (!states.insert(std::move(state)).second && !repeated)
    repeated = marks;
  ++marks;
}

} // namespace sectile
