// How much of a dot's inner dimension its code covers. Matrix instructions are many: a kernel of
// several dots, unrolled whole, is more than an instruction cache holds and takes long to assemble.
// Dots then loop over K, as far as it takes for the kernel's dots to have a bounded size.
#ifndef SECTILE_CODEGEN_COMMON_DOTSTEPS_H
#define SECTILE_CODEGEN_COMMON_DOTSTEPS_H

#include "codegen/common/KernelEmitter.h"

namespace sectile {

/// On kernels: i32, instructions of unrolled dots from which on they loop, in place of the default.
inline constexpr llvm::StringLiteral dotInstructionsAttr = "cta.dot_instructions";

/// The inner dimension of a product in steps, so that the code of one step serves all: where the
/// steps of an operand begin is a linear map of their number.
struct DotSteps {
  int64_t length; ///< along the inner dimension
  unsigned count;
  llvm::SmallVector<uint32_t> images[2]; ///< of the number's bits, in bytes of an operand's buffer
};

/// Steps of this length; nothing where there would be one only, where the inner dimension is no
/// power of two, or where the steps of a buffer do not begin at multiples of 16 bytes.
std::optional<DotSteps> planSteps(cta::DotOp op, int64_t length);

/// Emits `body` once for all steps, in a loop that changes `values`. It gets where each buffer's
/// step begins, see SharedPlaces.
void emitSteps(KernelEmitter &emitter, const DotSteps &steps, Registers &values,
               llvm::function_ref<void(ThreadPart, ThreadPart)> body);

/// How far a step of each dot goes that is to loop, of dots by instructions of one warp. The
/// largest are cut first, by halves.
llvm::DenseMap<mlir::Operation *, int64_t> chooseSteps(mlir::func::FuncOp kernel,
                                                       const Target &target);

} // namespace sectile

#endif
