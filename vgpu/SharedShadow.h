// What is known of every byte of a block's shared memory: who wrote it and who read it, and when,
// in the logical time of HappensBefore.h. Clocks never repeat in the life of a shadow, so a new
// block starts without clearing anything.
#pragma once
#include "vgpu/Finding.h"
#include "vgpu/HappensBefore.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace sectile::vgpu {

struct Conflict {
  FindingKind kind;
  uint32_t offset;      // of the byte
  uint32_t otherThread; // who accessed it before: a thread or an agent
  uint32_t otherSite;
  bool otherWrote;
};

class SharedShadow {
public:
  // Prepares for a block: `threads` are its cluster's, `origin` is their first clock.
  void start(size_t bytes, unsigned threads, uint32_t origin, unsigned warpSize);

  std::optional<Conflict> read(const Actor &actor, uint32_t offset, uint32_t bytes);
  std::optional<Conflict> write(const Actor &actor, uint32_t offset, uint32_t bytes, bool atomic);
  // An asynchronous copy: its bytes may be touched by no one between the two.
  std::optional<Conflict> issue(const Actor &actor, uint32_t offset, uint32_t bytes);
  void land(const Actor &actor, uint32_t offset, uint32_t bytes);
  // The same of a copy that an agent makes, through the asynchronous proxy: what threads wrote and
  // read there must be fenced.
  std::optional<Conflict> issueByAgent(const Actor &actor, uint32_t offset, uint32_t bytes);
  void landByAgent(uint32_t agent, uint32_t clock, uint32_t offset, uint32_t bytes);
  // The bytes become those of an mbarrier, which nothing else may touch, or cease to be.
  void setBarrier(uint32_t offset, uint32_t bytes, bool is);
  // A read by an agent, through the asynchronous proxy: what threads wrote must be fenced too.
  std::optional<Conflict> readByAgent(const Actor &actor, uint32_t offset, uint32_t bytes);
  // What the thread has written up to this clock is there, and what it has read is read, for the
  // asynchronous proxy, for who has seen the thread at a later one.
  void fenceProxy(uint32_t thread, uint32_t clock) { proxyFences[thread].push_back(clock); }

private:
  struct Cell {
    uint32_t writeClock, readClock;
    uint16_t writeThread, readThread;
    uint16_t writeSite, readSite;
  };
  // The lanes of one warp that read a byte at the latest clock any of them did.
  struct Readers {
    uint64_t lanes;
    uint32_t clock;
  };
  // Of each byte, when an agent read it last, and where.
  struct AgentReads {
    std::vector<uint32_t> clocks;
    std::vector<uint16_t> sites;
  };
  static constexpr uint8_t pendingCopy = 1, atomicWrite = 2, readByAgents = 4, barrier = 8;

  // Why the byte may be touched by no one now, if it may not.
  std::optional<Conflict> forbidden(uint32_t offset) const;
  std::optional<Conflict> unorderedWrite(const Actor &actor, uint32_t offset) const;
  std::optional<Conflict> unorderedRead(const Actor &actor, uint32_t offset) const;
  std::optional<Conflict> unorderedAgentRead(const Actor &actor, uint32_t offset) const;
  bool isFenced(const Actor &reader, uint32_t writer, uint32_t clock) const;
  std::optional<Conflict> unseenRead(const Actor &actor, uint32_t offset, uint32_t bytes) const;

  std::vector<Cell> cells;
  std::vector<uint8_t> states;
  std::vector<std::vector<Readers>> readers;      // by warp, then byte; empty: none yet
  std::vector<AgentReads> agentReads;             // by agent
  std::vector<std::vector<uint32_t>> proxyFences; // by thread
  unsigned threadCount = 0;
  size_t byteCount = 0;
  uint32_t origin = 0;
  unsigned warpSize = 32;
};

} // namespace sectile::vgpu
