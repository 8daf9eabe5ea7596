// How a tensor gets from one distributed layout to another: nothing, register moves, shuffles
// within warps or a round through shared memory, whichever is cheapest.
#pragma once

#include "ir/layout/Shared.h"

namespace sectile {

/// A conversion within warps. Register numbers are those of a core; every repeat is done alike.
struct ShufflePlan {
  /// First, in lanes whose bit i is set, registers r and r ^ before[i] change places (for every i;
  /// zero for none). Over the source's registers.
  llvm::SmallVector<uint32_t, 6> before;
  /// Then lanes exchange: each reads registers `from` of the lane laneMap(lane) ^ laneXor into
  /// registers `to`. They fit 32 bits together, or are one element.
  struct Exchange {
    uint32_t laneXor = 0;
    llvm::SmallVector<unsigned, 4> from, to;
  };
  llvm::SmallVector<Exchange, 8> exchanges;
  /// The lane map's columns: lane bit i contributes laneColumns[i].
  llvm::SmallVector<uint32_t, 6> laneColumns;
  /// Last, as `before`, over the destination's registers.
  llvm::SmallVector<uint32_t, 6> after;

  bool laneMapIsIdentity() const;
  /// Whether lanes keep their own values in this exchange.
  bool staysInLane(const Exchange &exchange) const {
    return exchange.laneXor == 0 && laneMapIsIdentity();
  }
};

/// The layout of one core alone: of one repeat.
Layout coreOf(const Layout &layout);

/// A conversion through shared memory.
struct ScratchPlan {
  /// The buffer: of the tensor's shape, or of its core alone when the repeats take turns.
  Layout buffer;
  bool repeatsTakeTurns = false;
  SharedAccess store, load;
  unsigned bytes = 0;
  /// Each warp reads only what it wrote: a warp's barrier is enough.
  bool withinWarps = false;
};

struct ConversionOptions {
  BankModel banks;
  /// Shared memory a conversion may take; beyond it the repeats take turns.
  unsigned maxScratchBytes = 1u << 16;
  /// An estimate is dearer where a conversion takes more: loops have less room for their rings.
  unsigned spareScratchBytes = ~0u;
};

struct ConversionPlan {
  enum class Kind { None, Registers, Shuffles, Scratch };
  Kind kind = Kind::None;

  /// The layouts without duplicate registers, between which shuffles and scratch are planned: value
  /// i of `source` is the given source's register sourceRegisters[i], and register i of the given
  /// destination is value destinationRegisters[i] of `destination`. Repeats included.
  Layout source, destination;
  llvm::SmallVector<unsigned, 16> sourceRegisters, destinationRegisters;

  /// None and Registers: the given source's register for each of the given destination's.
  llvm::SmallVector<unsigned, 16> registers;
  ShufflePlan shuffles;
  ScratchPlan scratch;

  /// Estimated cycles of a warp.
  double cost = 0;
};

/// The cheapest way from `source` to `destination`: distributed layouts of one shape and equal
/// numbers of lanes, warps and blocks, whose blocks hold the same.
ConversionPlan planConversion(const Layout &source, const Layout &destination, unsigned elementBits,
                              const ConversionOptions &options = {});

/// About planConversion's cost, without the search for the best buffer: for comparing many layouts.
double estimateConversion(const Layout &source, const Layout &destination, unsigned elementBits,
                          const ConversionOptions &options = {});

/// The single ways, for tests and for those who must have that one.
std::optional<ShufflePlan> planShuffles(const Layout &source, const Layout &destination,
                                        unsigned elementBits);
ScratchPlan planScratch(const Layout &source, const Layout &destination, unsigned elementBits,
                        const ConversionOptions &options = {});

} // namespace sectile
