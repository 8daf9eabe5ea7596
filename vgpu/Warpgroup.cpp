// Warpgroups: how their warps issue wgmma, and wait for it.
#include "vgpu/Warpgroup.h"
#include "vgpu/Block.h"
#include "vgpu/Program.h"
#include "vgpu/WarpOps.h"
#include <bit>

namespace sectile::vgpu {

static constexpr unsigned lanes = 32, warpgroupThreads = lanes * warpgroupWarps;

Warpgroup &Block::warpgroupOf(const Warp &warp) { return warpgroups[warp.index / warpgroupWarps]; }

// `.aligned`: all lanes of the warp are at the same instruction.
bool Block::isAligned(const WarpOp &op) {
  if (!op.wholeWarp())
    return false;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const Thread &thread = laneOf(op.warp, lane);
    if (thread.site == op.site)
      continue;
    report(FindingKind::BarrierDivergence, thread, thread.site,
           "thread waits at " + placeOf(thread.site) + " while others of its warp wait at " +
               placeOf(op.site));
    return false;
  }
  return true;
}

void Block::arriveWarpgroup(const WarpOp &op, uint64_t running) {
  if (!isAligned(op))
    return;
  const unsigned warp = op.warp.index % warpgroupWarps, first = op.warp.index - warp;
  const Thread &speaker = laneOf(op.warp, 0);
  if (first + warpgroupWarps > warps.size()) {
    report(FindingKind::BadOperand, speaker, op.site,
           placeOf(op.site) + " needs four warps, and the block ends before the last of them");
    return;
  }
  Warpgroup &group = warpgroupOf(op.warp);
  if (group.arrived && (group.site != op.site || group.modifiers != op.modifiers)) {
    report(FindingKind::BarrierDivergence, speaker, op.site,
           "warp waits at " + placeOf(op.site) + " while another of its warpgroup waits at " +
               placeOf(group.site));
    return;
  }
  group.site = op.site;
  group.modifiers = op.modifiers;
  group.arrived |= 1u << warp;
  for (unsigned lane = 0; lane < lanes; ++lane)
    laneOf(op.warp, lane).state = ThreadState::AtWarp;
  if (group.arrived != (1u << warpgroupWarps) - 1)
    return;
  group.arrived = 0;
  issueWgmma(group, first, op.site, WgmmaShape::decode(op.modifiers));
  if (failed())
    return;
  for (unsigned i = first; i < first + warpgroupWarps; ++i)
    wake(warps[i], i == op.warp.index ? op.lanes & ~running : warps[i].present);
  for (uint64_t rest = running; rest; rest &= rest - 1)
    laneOf(op.warp, unsigned(std::countr_zero(rest))).state = ThreadState::Ready;
}

// What all threads of the warpgroup know, which for what only one of them knows is nothing. To be
// dropped.
Knowledge *Block::commonKnowledge(uint32_t firstThread, uint32_t count) {
  struct Holders {
    Knowledge *knowledge;
    uint32_t first, count;
  };
  std::vector<Holders> all;
  for (uint32_t i = firstThread; i < firstThread + count; ++i) {
    Knowledge *knowledge = threads[i].knowledge;
    auto same = std::find_if(all.begin(), all.end(),
                             [&](const Holders &each) { return each.knowledge == knowledge; });
    if (same == all.end())
      all.push_back({knowledge, threads[i].who, 1});
    else
      ++same->count;
  }
  if (all.size() == 1) {
    ++all.front().knowledge->users;
    return all.front().knowledge;
  }
  Knowledge *common = cluster.newKnowledge();
  common->users = 1;
  size_t known = all.front().knowledge->seen.size();
  for (const Holders &each : all)
    known = std::min(known, each.knowledge->seen.size());
  common->seen.assign(known, ~0u);
  for (const Holders &each : all)
    for (uint32_t i = 0; i < known; ++i)
      // A thread has seen itself.
      if (each.count > 1 || each.first != i)
        common->seen[i] = std::min(common->seen[i], each.knowledge->seen[i]);
  common->findLeast();
  return common;
}

// The sums that the registers stand for, or new ones with the values in them.
std::shared_ptr<WgmmaSums> Block::sumsOf(Warpgroup &group, uint32_t firstWarp, uint32_t site,
                                         const WgmmaShape &shape, bool accumulates) {
  auto sums = std::make_shared<WgmmaSums>();
  sums->n = shape.n;
  sums->type = shape.accumulator;
  const unsigned count = sums->registers();
  // Whose tokens they are.
  std::shared_ptr<WgmmaSums> pending;
  unsigned tokens = 0;
  bool isYoungest = true;
  for (unsigned thread = 0; thread < warpgroupThreads; ++thread) {
    const uint32_t *words = threads[firstWarp * lanes + thread].registers;
    for (unsigned i = 0; i < count; ++i) {
      const WgmmaToken token = WgmmaToken::decode(words[i]);
      if (!WgmmaToken::isToken(words[i]) || token.ticket >= group.tickets.size() ||
          !group.tickets[token.ticket])
        continue;
      if (!pending)
        pending = group.tickets[token.ticket];
      ++tokens;
      isYoungest &= token == WgmmaToken{pending->ticket, i};
    }
  }
  const bool fits = pending && pending->n == sums->n && pending->type == sums->type &&
                    tokens == warpgroupThreads * count && isYoungest && pending->isUntouched();
  // Sums that start at zero do not depend on the registers, which may hold anything: other sums'
  // tokens as well.
  if (fits && accumulates)
    return pending;
  if (tokens && accumulates) {
    report(FindingKind::BadOperand, threads[firstWarp * lanes], site,
           placeOf(site) + " adds to registers that are not all of the sums of one wgmma, as the "
                           "last one left them, nor all waited for");
    return nullptr;
  }
  sums->words.resize(size_t(wgmmaRows) * shape.n);
  for (unsigned thread = 0; thread < warpgroupThreads && accumulates; ++thread)
    for (unsigned i = 0; i < count; ++i)
      sums->setRegister(thread / lanes, thread % lanes, i,
                        threads[firstWarp * lanes + thread].registers[i]);
  if (launch->checks && !areFenced(group, firstWarp, site))
    return nullptr;
  return sums;
}

// Registers that other instructions have written need a fence before a wgmma uses them.
bool Block::areFenced(const Warpgroup &group, uint32_t firstWarp, uint32_t site) {
  for (unsigned warp = 0; warp < warpgroupWarps; ++warp)
    if (!group.warps[warp].isFenced) {
      report(FindingKind::MissingFence, threads[(firstWarp + warp) * lanes], site,
             placeOf(site) + " uses registers that nothing has fenced since the last wait");
      return false;
    }
  return true;
}

bool Block::checkOperand(const SharedMatrix &matrix, const Actor &actor, uint32_t firstThread) {
  const Thread &speaker = threads[firstThread];
  std::optional<Conflict> conflict;
  bool isInside = true;
  matrix.eachChunk([&](uint32_t address, unsigned, unsigned) {
    constexpr uint32_t bytes = 16;
    isInside = isInside && checkShared(speaker, address, bytes, actor.site);
    if (!isInside || !launch->checks || (conflict && conflict->kind != FindingKind::Uninitialized))
      return;
    if (auto found = shadow.readByAgent(actor, address - sharedOrigin, bytes))
      conflict = found;
  });
  if (isInside && conflict)
    reportConflict(speaker, actor.site, *conflict);
  return isInside && !failed();
}

void Block::issueWgmma(Warpgroup &group, uint32_t firstWarp, uint32_t site,
                       const WgmmaShape &shape) {
  const uint32_t firstThread = firstWarp * lanes;
  ++siteCounters[site].executions;
  if (!group.agent)
    group.agent =
        cluster.newAgent("wgmma of warpgroup " + std::to_string(firstWarp / warpgroupWarps));

  // What all threads must agree on.
  const unsigned sumWords = shape.accumulator == Element::F16 ? shape.n / 4 : shape.n / 2;
  const unsigned aWords = shape.aInRegisters ? 4 : 2;
  const uint32_t *operands = threads[firstThread].registers + sumWords;
  for (uint32_t i = firstThread; i < firstThread + warpgroupThreads; ++i) {
    const uint32_t *own = threads[i].registers + sumWords;
    if (std::equal(own + (shape.aInRegisters ? aWords : 0), own + aWords + 3,
                   operands + (shape.aInRegisters ? aWords : 0)))
      continue;
    report(FindingKind::BadOperand, threads[i], site,
           placeOf(site) + " has another descriptor or predicate in this thread than in thread " +
               std::to_string(firstThread));
    return;
  }
  auto descriptor = [](const uint32_t *words) { return words[0] | uint64_t(words[1]) << 32; };
  Wgmma wgmma{};
  wgmma.shape = shape;
  wgmma.b = descriptor(operands + aWords);
  wgmma.accumulates = operands[aWords + 2] & 1;
  wgmma.site = site;
  if (shape.aInRegisters) {
    for (uint32_t i = firstThread; i < firstThread + warpgroupThreads; ++i) {
      const uint32_t *own = threads[i].registers + sumWords;
      wgmma.aWords.insert(wgmma.aWords.end(), own, own + 4);
    }
    if (launch->checks && !areFenced(group, firstWarp, site))
      return;
  } else {
    wgmma.a = descriptor(operands);
  }
  wgmma.sums = sumsOf(group, firstWarp, site, shape, wgmma.accumulates);
  if (!wgmma.sums)
    return;
  wgmma.clock = ++cluster.topClock;
  Actor actor{group.agent, 0, 0, wgmma.clock, site, nullptr};
  Knowledge *knowledge = launch->checks ? commonKnowledge(firstThread, warpgroupThreads) : nullptr;
  actor.knowledge = knowledge;
  const bool isSound = (shape.aInRegisters || checkOperand(wgmma.matrixA(), actor, firstThread)) &&
                       checkOperand(wgmma.matrixB(), actor, firstThread);
  cluster.drop(knowledge);
  if (!isSound)
    return;

  for (unsigned warp = 0; warp < warpgroupWarps; ++warp)
    wgmma.groups[warp] = group.warps[warp].committed;
  group.nextTicket = (group.nextTicket + 1) % WgmmaToken::tickets;
  group.tickets.resize(WgmmaToken::tickets);
  group.tickets[group.nextTicket] = wgmma.sums;
  wgmma.sums->ticket = group.nextTicket;
  for (uint32_t i = firstThread; i < firstThread + warpgroupThreads; ++i)
    for (uint32_t word = 0; word < sumWords; ++word)
      threads[i].registers[word] = WgmmaToken{group.nextTicket, word}.encode();
  group.queue.push_back(std::move(wgmma));
}

void Block::fenceWgmma(const WarpOp &op) {
  if (isAligned(op))
    warpgroupOf(op.warp).warps[op.warp.index % warpgroupWarps].isFenced = true;
}

void Block::commitWgmma(const WarpOp &op) {
  if (!isAligned(op))
    return;
  Warpgroup &group = warpgroupOf(op.warp);
  ++group.warps[op.warp.index % warpgroupWarps].committed;
  // With a seed it may be done at once, or at some point later.
  if (launch->seed && random(2))
    while (advance(group))
      ;
}

// Does the oldest wgmma that has been committed, if there is one.
bool Block::advance(Warpgroup &group) {
  for (Wgmma &wgmma : group.queue) {
    if (wgmma.isDone)
      continue;
    for (unsigned warp = 0; warp < warpgroupWarps; ++warp)
      if (wgmma.groups[warp] >= group.warps[warp].committed)
        return false;
    wgmma.execute(sharedStart);
    return wgmma.isDone = true;
  }
  return false;
}

void Block::advanceAgents() {
  if (!transfers.empty() && random(8) == 0)
    advanceTransfer();
  for (Warpgroup &group : warpgroups)
    if (!group.queue.empty() && random(16) == 0)
      advance(group);
}

void Block::waitForWgmma(const WarpOp &op) {
  if (!isAligned(op))
    return;
  Warpgroup &group = warpgroupOf(op.warp);
  const unsigned warp = op.warp.index % warpgroupWarps;
  Warpgroup::State &state = group.warps[warp];
  const unsigned words = op.modifiers & ((1u << wgmmaWaitGroupsShift) - 1);
  const unsigned mayStay = op.modifiers >> wgmmaWaitGroupsShift;
  state.waited = std::max(state.waited, state.committed - std::min(state.committed, mayStay));
  state.isFenced = false;
  uint32_t clock = 0;
  for (Wgmma &wgmma : group.queue) {
    if (!group.isWaitedFor(wgmma, warp))
      break;
    if (!wgmma.isDone)
      wgmma.execute(sharedStart);
    wgmma.isDone = true;
    clock = wgmma.clock;
  }
  if (clock && launch->checks)
    learnOf(op.warp, op.lanes, group.agent, clock);
  resolveSums(op, group, words);
  auto isOver = [&](const Wgmma &wgmma) {
    for (unsigned each = 0; each < warpgroupWarps; ++each)
      if (!group.isWaitedFor(wgmma, each))
        return false;
    return true;
  };
  while (!group.queue.empty() && isOver(group.queue.front()))
    group.queue.pop_front();
}

// Puts values in the place of the tokens among the first words of the lanes' registers, where these
// are there by now.
void Block::resolveSums(const WarpOp &op, Warpgroup &group, unsigned words) {
  const unsigned warp = op.warp.index % warpgroupWarps;
  auto isPending = [&](const WgmmaSums *sums) {
    return std::any_of(group.queue.begin(), group.queue.end(), [&](const Wgmma &wgmma) {
      return wgmma.sums.get() == sums && !group.isWaitedFor(wgmma, warp);
    });
  };
  const WgmmaSums *last = nullptr;
  bool lastIsPending = false;
  std::vector<std::pair<WgmmaSums *, unsigned>> resolved;
  for (unsigned lane = 0; lane < lanes; ++lane)
    for (unsigned i = 0; i < words; ++i) {
      uint32_t &word = op.registers(lane)[i];
      const WgmmaToken token = WgmmaToken::decode(word);
      if (!WgmmaToken::isToken(word) || token.ticket >= group.tickets.size() ||
          !group.tickets[token.ticket])
        continue;
      WgmmaSums *sums = group.tickets[token.ticket].get();
      if (sums->ticket != token.ticket || token.index >= sums->registers() ||
          sums->resolved[warp][token.index]) {
        report(FindingKind::BadOperand, laneOf(op.warp, lane), op.site,
               placeOf(op.site) + " is given sums of a wgmma that another one has added to since, "
                                  "or that were waited for before");
        return;
      }
      if (sums != last) {
        last = sums;
        lastIsPending = isPending(sums);
      }
      if (lastIsPending)
        continue;
      word = sums->registerOf(warp, lane, token.index);
      if (lane == lanes - 1)
        resolved.emplace_back(sums, token.index);
    }
  for (const auto &[sums, index] : resolved) {
    sums->resolved[warp].set(index);
    const bool isOver = std::all_of(
        std::begin(sums->resolved), std::end(sums->resolved),
        [&](const std::bitset<128> &each) { return each.count() == sums->registers(); });
    if (isOver)
      sums->words = {};
  }
}

// The warp's threads have seen the agent up to this clock.
void Block::learnOf(Warp &warp, uint64_t members, uint32_t agent, uint32_t clock) {
  std::vector<std::pair<Knowledge *, Knowledge *>> learned; // before and after
  for (; members; members &= members - 1) {
    Thread &thread = laneOf(warp, unsigned(std::countr_zero(members)));
    auto same = std::find_if(learned.begin(), learned.end(),
                             [&](const auto &each) { return each.first == thread.knowledge; });
    if (same == learned.end()) {
      Knowledge *knowledge = cluster.newKnowledge();
      knowledge->seen = thread.knowledge->seen;
      knowledge->least = thread.knowledge->least;
      learn(knowledge->seen, agent, clock);
      same = learned.insert(learned.end(), {thread.knowledge, knowledge});
      ++thread.knowledge->users; // no other may take its place meanwhile
      ++knowledge->users;
    }
    setKnowledge(thread, same->second);
  }
  for (const auto &[before, after] : learned) {
    cluster.drop(before);
    cluster.drop(after);
  }
}

// A warp has ended.
void Block::endWarpgroupOf(const Warp &warp) {
  Warpgroup &group = warpgroupOf(warp);
  for (const Wgmma &wgmma : group.queue)
    if (!group.isWaitedFor(wgmma, warp.index % warpgroupWarps)) {
      report(FindingKind::MissingWait, threads[warp.firstThread], wgmma.site,
             "the kernel ends and has never waited for " + placeOf(wgmma.site));
      return;
    }
}

} // namespace sectile::vgpu
