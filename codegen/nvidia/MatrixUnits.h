// mma.sync, ldmatrix, stmatrix and wgmma as NVVM intrinsics and pseudo-intrinsics.
#ifndef SECTILE_CODEGEN_NVIDIA_MATRIXUNITS_H
#define SECTILE_CODEGEN_NVIDIA_MATRIXUNITS_H

#include "codegen/common/TargetHooks.h"
#include "llvm/IR/IRBuilder.h"

namespace sectile::nvidia {

/// As in TargetHooks.
llvm::SmallVector<llvm::Value *, 4> matrixLoad(llvm::IRBuilder<> &b, llvm::Value *row,
                                               unsigned count, bool transposed);
void matrixStore(llvm::IRBuilder<> &b, llvm::Value *row, llvm::ArrayRef<llvm::Value *> matrices,
                 bool transposed);
void mma(llvm::IRBuilder<> &b, const MmaInstruction &instruction, llvm::ArrayRef<llvm::Value *> a,
         llvm::ArrayRef<llvm::Value *> bRegisters, llvm::MutableArrayRef<llvm::Value *> acc);

void warpgroupMma(llvm::IRBuilder<> &b, const MmaInstruction &instruction,
                  const std::variant<TargetHooks::SharedOperand, llvm::ArrayRef<llvm::Value *>> &a,
                  const TargetHooks::SharedOperand &bOperand,
                  llvm::MutableArrayRef<llvm::Value *> acc);
void warpgroupWait(llvm::IRBuilder<> &b, unsigned pending,
                   llvm::MutableArrayRef<llvm::Value *> sums);
void warpgroupSums(llvm::IRBuilder<> &b, llvm::MutableArrayRef<llvm::Value *> sums);
void warpgroupOperand(llvm::IRBuilder<> &b, llvm::MutableArrayRef<llvm::Value *> words);

} // namespace sectile::nvidia

#endif
