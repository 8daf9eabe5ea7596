// The mbarriers of a block: phases that complete when enough threads have arrived and all expected
// bytes have come.
#pragma once
#include "vgpu/HappensBefore.h"
#include <cstdint>
#include <utility>
#include <vector>

namespace sectile::vgpu {

class Block;

struct Mbarrier {
  static constexpr uint32_t bytes = 8;             // of shared memory, aligned to as much
  static constexpr uint32_t most = (1u << 20) - 1; // arrivals of a phase, and bytes

  Block *home = nullptr;              // whose shared memory it lies in
  uint32_t expected = 0, pending = 0; // arrivals: of every phase, and still to come in this one
  uint64_t phase = 0;                 // how many have completed
  int64_t outstanding = 0;            // bytes expected in this phase and not come

  // Who initialised it, and its clock then and when it fenced that for others; 0: not yet.
  uint32_t initThread = 0, initClock = 0, initFence = 0, initSite = 0;

  // Whose loads it counts, as an agent; 0: no one's yet. The phases, counted from 1, of the last of
  // them and the last that a thread has waited for.
  uint32_t agent = 0, loadSite = 0;
  uint64_t loadedPhase = 0, seenPhase = 0;

  // What the arrivals of this phase have told, and all phases before it: for who waits.
  Seen arriving, known;
  std::shared_ptr<const BlocksSeen> arrivingOthers, knownOthers;
  // Who has learned that already: many threads know the same.
  std::vector<std::pair<Knowledge *, Knowledge *>> learned;
  std::vector<uint32_t> sleepers; // threads that wait

  // The state that an arrival gives, and that is waited for.
  uint64_t state() const { return phase << 32 | pending; }
  bool hasCompleted(uint64_t ofState) const { return phase > ofState >> 32; }
  // Whether the latest completed phase is of this parity; before the first one, it is odd.
  bool hasParity(uint64_t parity) const { return (phase & 1) != (parity & 1); }
};

} // namespace sectile::vgpu
