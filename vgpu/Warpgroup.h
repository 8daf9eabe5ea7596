// wgmma: what four warps have given their matrix unit to do, and what has come of it.
//
// A wgmma is issued when all four warps have reached it, and done later, in the order of issue: at
// the latest when a warp waits for the group that it was committed with. Until then the kernel
// holds tokens in place of its sums.
#pragma once
#include "vgpu/MachineAbi.h"
#include <algorithm>
#include <bitset>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace sectile::vgpu {

constexpr unsigned warpgroupWarps = 4, wgmmaRows = 64;

// A word that stands for a sum that is not there yet: register `index` of the wgmma with this
// ticket. It is NaN as one float and as two halves, so that what is computed from it is garbage. As
// a float, and as the lower half, it is a signalling NaN: arithmetic makes a quiet one of it, which
// is no token any more.
struct WgmmaToken {
  uint32_t ticket, index;

  static constexpr uint32_t tickets = 512;
  static constexpr uint32_t fixedBits = 0x7f807d00, fixed = 0x7fc07f00;

  uint32_t encode() const {
    const uint32_t payload = ticket << 7 | index;
    return fixedBits | (payload & 0xff) | (payload >> 8 & 1) << 15 | (payload >> 9 & 63) << 16 |
           payload >> 15 << 31;
  }
  // Whether the word looks like one.
  static bool isToken(uint32_t word) { return (word & fixed) == fixedBits; }
  static WgmmaToken decode(uint32_t word) {
    const uint32_t payload =
        (word & 0xff) | (word >> 15 & 1) << 8 | (word >> 16 & 63) << 9 | word >> 31 << 15;
    return {payload >> 7, payload & 127};
  }
  bool operator==(const WgmmaToken &) const = default;
};

// The sums of a wgmma, or of several that follow each other: 64 rows of n, each the bits of an fp32
// or int32. Sums of f16 are kept as fp32.
struct WgmmaSums {
  uint32_t n;
  Element type;
  uint32_t ticket = 0; // of the wgmma that was the last to be issued for them
  std::vector<uint32_t> words;
  // Of each warp the registers whose values it has got.
  std::bitset<128> resolved[warpgroupWarps];

  bool isUntouched() const {
    return std::all_of(std::begin(resolved), std::end(resolved),
                       [](const std::bitset<128> &each) { return each.none(); });
  }
  unsigned registers() const { return type == Element::F16 ? n / 4 : n / 2; }
  // The word that this register of a lane of the warp holds.
  uint32_t registerOf(unsigned warp, unsigned lane, unsigned index) const;
  // Takes the sums from it.
  void setRegister(unsigned warp, unsigned lane, unsigned index, uint32_t word);
};

// A matrix in shared memory as a descriptor and its element's size say: lines of 16-byte chunks.
// Lines are rows (m or n) of two chunks along k; of a transposed matrix they are the steps of k,
// whose chunks are eight rows each.
class SharedMatrix {
public:
  SharedMatrix(uint64_t descriptor, bool isTransposed, unsigned rows);

  // Calls visit(shared address, line, chunk) for all of them.
  template <class Visit> void eachChunk(Visit visit) const {
    for (unsigned line = 0; line < lines; ++line)
      for (unsigned chunk = 0; chunk < chunks; ++chunk)
        visit(address(line, chunk), line, chunk);
  }
  // All rows, each of the 32 bytes that a wgmma takes of k.
  void read(const char *shared, char *rows) const;

private:
  uint32_t address(unsigned line, unsigned chunk) const;

  bool isTransposed;
  unsigned lines, chunks;
  uint32_t start, base;             // base: of the swizzle's pattern, in 128 bytes
  uint32_t lineStride, chunkStride; // between groups of eight lines, and of `width` bytes
  uint32_t width;                   // 16 without a swizzle
};

struct Wgmma {
  WgmmaShape shape;
  uint64_t a, b;                // descriptors
  std::vector<uint32_t> aWords; // or registers, four of each thread
  bool accumulates;
  uint32_t site;
  uint32_t clock;                  // of the agent
  uint32_t groups[warpgroupWarps]; // each warp's number of the group
  bool isDone = false;
  std::shared_ptr<WgmmaSums> sums;

  SharedMatrix matrixA() const { return {a, shape.transposeA, wgmmaRows}; }
  SharedMatrix matrixB() const { return {b, shape.transposeB, shape.n}; }
  // Reads the operands and adds to the sums. `shared` is the host's address of shared address zero.
  void execute(const char *shared) const;
};

struct Warpgroup {
  uint32_t agent = 0; // its matrix unit's number; 0: it has not been used
  // Of the warps.
  struct State {
    uint32_t committed = 0; // groups
    uint32_t waited = 0;    // groups, the oldest ones, that it has waited for
    bool isFenced = false;
  };
  State warps[warpgroupWarps];
  // The wgmma that they gather for.
  uint32_t arrived = 0;
  uint32_t site = 0, modifiers = 0;

  std::deque<Wgmma> queue; // that not all warps have waited for, oldest first
  uint32_t nextTicket = 0;
  std::vector<std::shared_ptr<WgmmaSums>> tickets; // by number; null: of no sums

  bool isWaitedFor(const Wgmma &wgmma, unsigned warp) const {
    return wgmma.groups[warp] < warps[warp].waited;
  }
};

} // namespace sectile::vgpu
