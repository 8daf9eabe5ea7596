// How the layouts of an operation's operands and results depend on each other.
#ifndef SECTILE_PASSES_ANALYSIS_LAYOUTRULES_H
#define SECTILE_PASSES_ANALYSIS_LAYOUTRULES_H

#include "ir/MmaInstruction.h"
#include "ir/cta/Cta.h"
#include "ir/layout/Builders.h"

namespace sectile {

/// The layout that a matrix instruction's operand (0 is A, 1 is B) must have for this accumulator.
Layout dotOperandLayout(cta::DotOp dot, const Layout &accumulator, unsigned operand);
Layout dotOperandLayout(const MmaInstruction &instruction, llvm::ArrayRef<int64_t> shape,
                        const Layout &accumulator, unsigned operand);

/// What each thread reads of an operand of this shape when fused multiply-adds make these sums:
/// along `kept` (0 for A, 1 for B) what the sums have, along the inner dimension everything.
Layout multiplyAddOperandLayout(const Layout &sums, llvm::ArrayRef<int64_t> shape, unsigned kept);

/// The layout of a join's result, and of a split's operand, by that of the other side: the last
/// axis, of extent 2, is the highest of a core's register bits.
Layout withPairs(const Layout &layout, llvm::ArrayRef<int64_t> shape);

/// Whether an operation can be done with its tiles in this layout; most can in any.
bool canRunIn(mlir::Operation *op, const Layout &layout);

/// The layout an operand must have for the result to have `result`; nothing when any will do, or
/// none would (a reshape whose repeats do not line up). For operations without results that take
/// tiles (stores), `result` is the layout of all of them. Operations with regions are not asked.
std::optional<Layout> operandLayout(mlir::OpOperand &operand, const Layout &result);

/// The layout that a result gets from an operand's, for operations where it follows; nothing
/// elsewhere.
std::optional<Layout> resultLayout(mlir::Operation *op, mlir::OpOperand &operand,
                                   const Layout &layout);

} // namespace sectile

#endif
