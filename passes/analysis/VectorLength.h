// How many elements of one thread a memory access can move at once.
#ifndef SECTILE_PASSES_ANALYSIS_VECTORLENGTH_H
#define SECTILE_PASSES_ANALYSIS_VECTORLENGTH_H

#include "ir/Target.h"
#include "ir/layout/Layout.h"
#include "passes/analysis/Blocks.h"

namespace sectile {

/// The longest aligned runs along a dimension, a power of two of elements, that are neighbours in
/// memory, begin at a multiple of their own size, and have one mask value.
unsigned vectorLength(const AccessContiguity &access, unsigned dim);

/// The longest vector that a thread which holds its elements as in `layout` can move at once on
/// this target.
unsigned vectorLength(const AccessContiguity &access, const Layout &layout, const Target &target);

/// The longest that a thread can copy of what a load reads.
unsigned copiedAtOnce(mlir::Operation *load, const ContiguityAnalysis &contiguity,
                      const Target &target);

} // namespace sectile

#endif
