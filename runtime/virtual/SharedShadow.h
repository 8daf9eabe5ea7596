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
  // `proxy`: whether the kernel has instructions that see what was fenced alone.
  void start(size_t bytes, unsigned warps, uint32_t origin, unsigned warpSize, bool proxy);

  std::optional<Conflict> read(const Actor &actor, uint32_t offset, uint32_t bytes);
  std::optional<Conflict> write(const Actor &actor, uint32_t offset, uint32_t bytes, bool atomic);
  // By an instruction that sees what was fenced alone; `actor` has what its thread knew when the
  // instruction was issued.
  std::optional<Conflict> readByProxy(const Actor &actor, uint32_t offset, uint32_t bytes);
  // What the thread wrote so far is there for such instructions.
  void fence(uint32_t thread);
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
  static constexpr uint8_t pendingCopy = 1, atomicWrite = 2, unfenced = 4;

  std::optional<Conflict> unorderedRead(const Actor &actor, uint32_t offset) const;

  std::vector<Cell> cells;
  void hide(uint32_t thread, uint32_t offset, uint32_t bytes);

  std::vector<uint8_t> states;
  // What threads wrote since their last fence: offset and bytes. Empty unless `hasProxy`.
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> written;
  bool hasProxy = false;
  std::vector<Readers> readers; // by warp, then byte
  unsigned warpCount = 0;
  size_t byteCount = 0;
  uint32_t origin = 0;
  unsigned warpSize = 32;
};

} // namespace sectile::vgpu
