// What is known of every byte of a block's shared memory: who wrote it and who read it, and when,
// in the logical time of HappensBefore.h. Clocks never repeat in the life of a shadow, so a new
// block starts without clearing anything.
#pragma once
#include "runtime/virtual/Finding.h"
#include "runtime/virtual/HappensBefore.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace sectile::vgpu {

struct Conflict {
  FindingKind kind;
  uint32_t offset;      // of the byte
  uint32_t otherThread; // who accessed it before
  uint32_t otherSite;
  bool otherWrote;
};

class SharedShadow {
public:
  // Prepares for a block: `origin` is the first clock of its threads.
  void start(size_t bytes, unsigned warps, uint32_t origin, unsigned warpSize);

  std::optional<Conflict> read(const Actor &actor, uint32_t offset, uint32_t bytes);
  std::optional<Conflict> write(const Actor &actor, uint32_t offset, uint32_t bytes, bool atomic);
  // An asynchronous copy: its bytes may be touched by no one between the two.
  std::optional<Conflict> issue(const Actor &actor, uint32_t offset, uint32_t bytes);
  void land(const Actor &actor, uint32_t offset, uint32_t bytes);

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
  static constexpr uint8_t pendingCopy = 1, atomicWrite = 2;

  std::optional<Conflict> unorderedRead(const Actor &actor, uint32_t offset) const;

  std::vector<Cell> cells;
  std::vector<uint8_t> states;
  std::vector<Readers> readers; // by warp, then byte
  unsigned warpCount = 0;
  size_t byteCount = 0;
  uint32_t origin = 0;
  unsigned warpSize = 32;
};

} // namespace sectile::vgpu
