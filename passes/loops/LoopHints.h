// Attributes of loops, in addition to cta.stages: hints that a kernel gives, of which a remark
// reports each that has no effect, and what a plan leaves to later passes.
#ifndef SECTILE_PASSES_LOOPS_LOOPHINTS_H
#define SECTILE_PASSES_LOOPS_LOOPHINTS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace sectile::hints {

/// i32: how often the body is repeated; 1 keeps the loop as it is, through LLVM too.
inline constexpr llvm::StringLiteral unroll = "cta.unroll";
/// i1: whether a producer partition makes the loads.
inline constexpr llvm::StringLiteral warpSpecialize = "cta.warp_specialize";
/// Unit attributes.
inline constexpr llvm::StringLiteral flatten = "cta.flatten";
inline constexpr llvm::StringLiteral oneAccumulator = "cta.one_accumulator";

inline bool asksForProducer(mlir::Operation *loop) {
  auto hint = loop->getAttrOfType<mlir::BoolAttr>(warpSpecialize);
  return hint && hint.getValue();
}

} // namespace sectile::hints

namespace sectile {

/// On loops: warpgroups start their dots in turn.
inline constexpr llvm::StringLiteral takesTurnsAttr = "cta.takes_turns";

/// On loops: they have at most one iteration, so that there is none to fetch ahead.
inline constexpr llvm::StringLiteral onceAttr = "cta.once";

/// On an integer division that is computed ahead, for an iteration that may never come. It may be
/// by zero where the program does not divide at all, so nobody reports it.
inline constexpr llvm::StringLiteral computedAheadAttr = "sectile.computed_ahead";

} // namespace sectile

#endif
