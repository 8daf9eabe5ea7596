// Happens-before checks over shared memory, byte by byte.
#include "vgpu/SharedShadow.h"
#include <algorithm>
#include <bit>

namespace sectile::vgpu {
namespace {

uint16_t narrow(uint32_t site) { return uint16_t(std::min<uint32_t>(site, 0xffff)); }

} // namespace

void SharedShadow::start(size_t bytes, unsigned threads, uint32_t first, unsigned lanes) {
  const unsigned warps = (threads + lanes - 1) / lanes;
  threadCount = threads;
  proxyFences.resize(threads);
  for (std::vector<uint32_t> &fences : proxyFences)
    fences.clear();
  if (bytes > byteCount) {
    byteCount = bytes;
    cells.assign(byteCount, Cell{});
    states.assign(byteCount, 0);
    readers.clear();
  }
  if (warps > readers.size())
    readers.resize(warps);
  std::fill(states.begin(), states.begin() + ptrdiff_t(bytes), uint8_t(0));
  origin = first;
  warpSize = lanes;
}

std::optional<Conflict> SharedShadow::forbidden(uint32_t offset) const {
  if (!(states[offset] & (pendingCopy | barrier)))
    return std::nullopt;
  const Cell &cell = cells[offset];
  return Conflict{states[offset] & barrier ? FindingKind::BadOperand : FindingKind::MissingWait,
                  offset, cell.writeThread, cell.writeSite, true};
}

void SharedShadow::setBarrier(uint32_t offset, uint32_t bytes, bool is) {
  std::fill_n(states.begin() + offset, bytes, is ? barrier : uint8_t(0));
}

std::optional<Conflict> SharedShadow::read(const Actor &actor, uint32_t offset, uint32_t bytes) {
  std::vector<Readers> &row = readers[actor.warp];
  if (row.empty())
    row.resize(byteCount);
  Readers *own = row.data() + offset;
  Cell *cell = cells.data() + offset;
  std::optional<Conflict> unwritten;
  for (uint32_t i = 0; i < bytes; ++i, ++cell, ++own) {
    if (auto conflict = forbidden(offset + i))
      return conflict;
    if (cell->writeClock < origin) {
      if (!unwritten)
        unwritten = Conflict{FindingKind::Uninitialized, offset + i, 0, 0, false};
    } else if (auto conflict = unorderedWrite(actor, offset + i)) {
      return conflict;
    }
    if (own->clock == actor.clock)
      own->lanes |= actor.lanes;
    else
      *own = {actor.lanes, actor.clock};
    if (cell->readClock <= actor.clock) {
      cell->readClock = actor.clock;
      cell->readThread = uint16_t(actor.thread);
      cell->readSite = narrow(actor.site);
    }
  }
  return unwritten;
}

// The last write of the byte if the actor has not seen it. One by an agent is not waited for.
std::optional<Conflict> SharedShadow::unorderedWrite(const Actor &actor, uint32_t offset) const {
  const Cell &cell = cells[offset];
  if (!actor.isUnordered(cell.writeThread, cell.writeClock))
    return std::nullopt;
  return Conflict{cell.writeThread < threadCount ? FindingKind::SharedRace
                                                 : FindingKind::MissingWait,
                  offset, cell.writeThread, cell.writeSite, true};
}

// A read of the byte that the actor has not seen, if there is one.
std::optional<Conflict> SharedShadow::unorderedRead(const Actor &actor, uint32_t offset) const {
  const Cell &cell = cells[offset];
  if (cell.readClock < origin || cell.readClock <= actor.knowledge->least)
    return std::nullopt;
  size_t threads = actor.knowledge->threads;
  unsigned warps = unsigned((threads + warpSize - 1) / warpSize);
  for (unsigned warp = 0; warp < warps; ++warp) {
    if (readers[warp].empty())
      continue;
    const Readers &entry = readers[warp][offset];
    if (entry.clock < origin || entry.clock <= actor.knowledge->least)
      continue;
    for (uint64_t lanes = entry.lanes; lanes; lanes &= lanes - 1) {
      uint32_t thread = warp * warpSize + uint32_t(std::countr_zero(lanes));
      if (actor.isUnordered(thread, entry.clock))
        return Conflict{FindingKind::SharedRace, offset, thread, cell.readSite, false};
    }
  }
  return std::nullopt;
}

std::optional<Conflict> SharedShadow::unorderedAgentRead(const Actor &actor,
                                                         uint32_t offset) const {
  for (uint32_t agent = 0; agent < agentReads.size(); ++agent) {
    const AgentReads &reads = agentReads[agent];
    if (offset < reads.clocks.size() && reads.clocks[offset] >= origin &&
        actor.isUnordered(threadCount + agent, reads.clocks[offset]))
      return Conflict{FindingKind::SharedRace, offset, threadCount + agent, reads.sites[offset],
                      false};
  }
  return std::nullopt;
}

// A fence counts for its thread's accesses before it, where the agent has seen the thread after it.
bool SharedShadow::isFenced(const Actor &reader, uint32_t writer, uint32_t clock) const {
  if (writer >= threadCount)
    return true;
  const std::vector<uint32_t> &fences = proxyFences[writer];
  const auto fence = std::lower_bound(fences.begin(), fences.end(), clock);
  return fence != fences.end() && reader.knowledge->sees(writer, *fence + 1);
}

std::optional<Conflict> SharedShadow::readByAgent(const Actor &actor, uint32_t offset,
                                                  uint32_t bytes) {
  const uint32_t agent = actor.thread - threadCount;
  if (agentReads.size() <= agent)
    agentReads.resize(agent + 1);
  AgentReads &reads = agentReads[agent];
  reads.clocks.resize(byteCount);
  reads.sites.resize(byteCount);
  std::optional<Conflict> unwritten;
  const Cell *checked = nullptr; // whose write is ordered and fenced
  for (uint32_t i = offset; i < offset + bytes; ++i) {
    const Cell &cell = cells[i];
    if (auto other = forbidden(i))
      return other;
    if (cell.writeClock < origin) {
      if (!unwritten)
        unwritten = Conflict{FindingKind::Uninitialized, i, 0, 0, false};
    } else if (!checked || cell.writeThread != checked->writeThread ||
               cell.writeClock != checked->writeClock) {
      if (auto conflict = unorderedWrite(actor, i))
        return conflict;
      if (!isFenced(actor, cell.writeThread, cell.writeClock))
        return Conflict{FindingKind::MissingProxyFence, i, cell.writeThread, cell.writeSite, true};
      checked = &cell;
    }
    states[i] |= readByAgents;
    reads.clocks[i] = actor.clock;
    reads.sites[i] = narrow(actor.site);
  }
  return unwritten;
}

std::optional<Conflict> SharedShadow::write(const Actor &actor, uint32_t offset, uint32_t bytes,
                                            bool atomic) {
  Cell *cell = cells.data() + offset;
  for (uint32_t i = 0; i < bytes; ++i, ++cell) {
    uint8_t &state = states[offset + i];
    if (auto conflict = forbidden(offset + i))
      return conflict;
    if (cell->writeClock >= origin && !(atomic && state & atomicWrite))
      if (auto conflict = unorderedWrite(actor, offset + i))
        return conflict;
    if (auto conflict = unorderedRead(actor, offset + i))
      return conflict;
    if (state & readByAgents)
      if (auto conflict = unorderedAgentRead(actor, offset + i))
        return conflict;
    state = atomic ? atomicWrite : 0;
    cell->writeClock = actor.clock;
    cell->writeThread = uint16_t(actor.thread);
    cell->writeSite = narrow(actor.site);
  }
  return std::nullopt;
}

std::optional<Conflict> SharedShadow::issue(const Actor &actor, uint32_t offset, uint32_t bytes) {
  if (auto conflict = write(actor, offset, bytes, /*atomic=*/false))
    return conflict;
  std::fill_n(states.begin() + offset, bytes, pendingCopy);
  return std::nullopt;
}

std::optional<Conflict> SharedShadow::issueByAgent(const Actor &actor, uint32_t offset,
                                                   uint32_t bytes) {
  const Cell *checked = nullptr; // whose write is ordered and fenced
  for (uint32_t i = offset; i < offset + bytes; ++i) {
    const Cell &cell = cells[i];
    if (cell.writeClock < origin || (checked && cell.writeThread == checked->writeThread &&
                                     cell.writeClock == checked->writeClock))
      continue;
    if (auto conflict = unorderedWrite(actor, i))
      return conflict;
    if (!isFenced(actor, cell.writeThread, cell.writeClock))
      return Conflict{FindingKind::MissingProxyFence, i, cell.writeThread, cell.writeSite, true};
    checked = &cell;
  }
  if (auto conflict = unseenRead(actor, offset, bytes))
    return conflict;
  return issue(actor, offset, bytes);
}

// A read by a thread that an agent's write is not ordered after, or else by no fence.
std::optional<Conflict> SharedShadow::unseenRead(const Actor &actor, uint32_t offset,
                                                 uint32_t bytes) const {
  std::optional<Conflict> unfenced;
  for (const std::vector<Readers> &row : readers) {
    if (row.empty())
      continue;
    const auto warp = uint32_t(&row - readers.data());
    Readers checked{};
    for (uint32_t i = offset; i < offset + bytes; ++i) {
      const Readers &entry = row[i];
      if (entry.clock < origin || (entry.clock == checked.clock && entry.lanes == checked.lanes))
        continue;
      for (uint64_t lanes = entry.lanes; lanes; lanes &= lanes - 1) {
        const uint32_t thread = warp * warpSize + uint32_t(std::countr_zero(lanes));
        if (actor.isUnordered(thread, entry.clock))
          return Conflict{FindingKind::SharedRace, i, thread, cells[i].readSite, false};
        if (!unfenced && !isFenced(actor, thread, entry.clock))
          unfenced = Conflict{FindingKind::MissingProxyFence, i, thread, cells[i].readSite, false};
      }
      checked = entry;
    }
  }
  return unfenced;
}

void SharedShadow::land(const Actor &actor, uint32_t offset, uint32_t bytes) {
  std::fill_n(states.begin() + offset, bytes, uint8_t(0));
  for (uint32_t i = 0; i < bytes; ++i)
    cells[offset + i].writeClock = actor.clock;
}

void SharedShadow::landByAgent(uint32_t agent, uint32_t clock, uint32_t offset, uint32_t bytes) {
  std::fill_n(states.begin() + offset, bytes, uint8_t(0));
  for (uint32_t i = offset; i < offset + bytes; ++i) {
    cells[i].writeClock = clock;
    cells[i].writeThread = uint16_t(agent);
  }
}

} // namespace sectile::vgpu
