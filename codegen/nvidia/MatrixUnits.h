// mma.sync and ldmatrix as NVVM intrinsics.
#ifndef SECTILE_CODEGEN_NVIDIA_MATRIXUNITS_H
#define SECTILE_CODEGEN_NVIDIA_MATRIXUNITS_H

#include "ir/Target.h"
#include "llvm/IR/IRBuilder.h"

namespace sectile::nvidia {

/// As in TargetHooks.
llvm::SmallVector<llvm::Value *, 4> matrixLoad(llvm::IRBuilder<> &b, llvm::Value *row,
                                               unsigned count, bool transposed);
void mma(llvm::IRBuilder<> &b, const MmaInstruction &instruction, llvm::ArrayRef<llvm::Value *> a,
         llvm::ArrayRef<llvm::Value *> bRegisters, llvm::MutableArrayRef<llvm::Value *> acc);

} // namespace sectile::nvidia

#endif
