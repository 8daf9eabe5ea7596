// What passes compute ahead of where the program says: for an iteration that may never come.
#ifndef SECTILE_PASSES_LOOPS_AHEAD_H
#define SECTILE_PASSES_LOOPS_AHEAD_H

#include "llvm/ADT/StringRef.h"

namespace sectile {

/// On an integer division that is computed ahead. It may be by zero where the program does not
/// divide at all, so nobody reports it.
inline constexpr llvm::StringLiteral computedAheadAttr = "sectile.computed_ahead";

} // namespace sectile

#endif
