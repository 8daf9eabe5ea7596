// What a warp has of wgmma: sums that are under way, and the instructions that have not been waited
// for.
#pragma once
#include "codegen/virtual/MachineAbi.h"
#include "runtime/virtual/HappensBefore.h"
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

namespace sectile::vgpu {

// Of one warp, whose 16 rows each instruction computes apart from those of the other warps.
struct WarpgroupDots {
  // Registers are given out as tokens (a NaN with the number of the sums and the register's in it)
  // until a wait turns them into what is here.
  struct Sums {
    uint32_t registers;         // of each lane
    uint32_t underWay = 0;      // instructions that still add to them
    std::vector<float> numbers; // 16 rows of 2 · registers columns
  };
  struct Dot {
    uint32_t sums;
    WarpgroupShape shape;
    uint64_t a, b;                // descriptors
    std::vector<uint32_t> aWords; // where a is in registers: by lane
    uint32_t site;
    Knowledge *knowledge; // of when it was issued; null without checks
    bool isDone = false;
  };

  std::map<uint32_t, Sums> sums; // by number
  std::deque<Dot> dots;          // not waited for, oldest first
  std::deque<uint32_t> groups;   // committed: how many of `dots` belong to each, oldest first
  uint32_t uncommitted = 0;      // the last ones of `dots`
  uint32_t nextSums = 1;
  bool fenced = false;         // since registers may last have been written
  std::vector<uint32_t> sites; // of all instructions so far, which the warpgroup has in common

  void clear() { *this = {}; }
};

} // namespace sectile::vgpu
