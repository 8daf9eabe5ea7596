// Which matrix instructions multiply tiles of which types.
#ifndef SECTILE_IR_MMAELEMENTS_H
#define SECTILE_IR_MMAELEMENTS_H

#include "ir/Target.h"
#include "ir/cta/Cta.h"

namespace sectile {

/// The target's instructions that multiply elements of these types into sums of the third, the best
/// first. Those for f32 operands follow from the precision; with any but the default, instructions
/// whose sums are promoted are none of them.
llvm::SmallVector<const MmaInstruction *, 4> mmasFor(const Target &target, mlir::Type a,
                                                     mlir::Type b, mlir::Type sum,
                                                     tile::Precision precision);

/// The instruction that a dot is to be made of; nullptr when the target has none such.
const MmaInstruction *instructionOf(cta::DotOp dot, const Target &target);
const MmaInstruction *instructionOf(cta::DotStartOp dot, const Target &target);

/// Whether threads add up what the instruction sums for each group along K. Not where one group of
/// zeros is all that there is.
bool isPromoted(const MmaInstruction &instruction, mlir::Value a, mlir::Value acc);

/// Whether the dot's instruction runs beside its threads.
bool isAsynchronous(cta::DotOp dot, const Target &target);

} // namespace sectile

#endif
