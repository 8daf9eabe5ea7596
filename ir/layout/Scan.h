// How a scan along one dimension runs: within threads, between lanes, between warps.
#pragma once

#include "ir/layout/Layout.h"

namespace sectile {

/// Elements that lie next to each other along the axis in one thread make a *run*. Level by level,
/// runs are put together to larger blocks: at each level the block with the smaller coordinates
/// hands its total to the other.
struct ScanPlan {
  /// The layout without duplicate registers, in whose registers all numbers below are; the given
  /// layout's register for each of its registers, and the other way round.
  Layout layout;
  llvm::SmallVector<unsigned, 16> toGiven, ofGiven;

  /// What is xored to a run's first register for its elements, in ascending order along the axis.
  llvm::SmallVector<unsigned, 8> run;
  /// First registers of the runs of one core: those without the bits that count within a run.
  llvm::SmallVector<unsigned, 8> runs;
  /// Registers, Lane: the one bit that tells the two blocks apart. Warp: all bits of warps along
  /// the axis, from the lowest; there is one such level at most. In ascending order along the axis;
  /// the repeats of the core are beyond all of them.
  struct Level {
    In in;
    llvm::SmallVector<unsigned, 3> bits;
  };
  llvm::SmallVector<Level, 10> levels;

  /// At the level of warps: the registers that hold a block's total then, repeats included, in
  /// ascending order; of the lanes that hold the same total by then, the bits; and how many slots
  /// of scratch a total takes (one for each warp and each lane that differs).
  llvm::SmallVector<unsigned, 8> totals;
  uint32_t lanesTogether = 0;
  unsigned slotsPerTotal = 0;
  bool acrossWarps() const { return slotsPerTotal != 0; }
};

/// Nothing when the layout mixes the axis with others, or holds an element at places that differ
/// along the axis: then the tile has to be converted first.
std::optional<ScanPlan> planScan(const Layout &layout, unsigned axis);

} // namespace sectile
