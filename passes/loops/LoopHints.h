// What a kernel may ask of its loops: attributes of scf.for, beside cta.stages. They are hints, and
// what is not done for one is told by a remark.
#ifndef SECTILE_PASSES_LOOPS_LOOPHINTS_H
#define SECTILE_PASSES_LOOPS_LOOPHINTS_H

#include "llvm/ADT/StringRef.h"

namespace sectile::hints {

/// i32: how often the body is repeated; 1 keeps the loop as it is, through LLVM too.
inline constexpr llvm::StringLiteral unroll = "cta.unroll";
/// i1: whether loads are made by warps of their own.
inline constexpr llvm::StringLiteral warpSpecialize = "cta.warp_specialize";
/// Unit attributes.
inline constexpr llvm::StringLiteral flatten = "cta.flatten";
inline constexpr llvm::StringLiteral oneAccumulator = "cta.one_accumulator";

} // namespace sectile::hints

#endif
