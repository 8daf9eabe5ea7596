// MFMA and WMMA as amdgcn intrinsics.
#ifndef SECTILE_CODEGEN_AMD_MATRIXUNITS_H
#define SECTILE_CODEGEN_AMD_MATRIXUNITS_H

#include "ir/Target.h"
#include "llvm/IR/IRBuilder.h"

namespace sectile::amd {

/// As in TargetHooks.
void mma(llvm::IRBuilder<> &b, const MmaInstruction &instruction, llvm::ArrayRef<llvm::Value *> a,
         llvm::ArrayRef<llvm::Value *> bRegisters, llvm::MutableArrayRef<llvm::Value *> acc);

} // namespace sectile::amd

#endif
