// Building blocks of the intrinsic tables: the ways in which a call is replaced.
#pragma once
#include "codegen/virtual/Lowering.h"

namespace sectile::vgpu::rules {

using Result = llvm::Expected<llvm::Value *>;

// A 32-bit field of the thread's header at offset `first`.
Result field(Lowering &, llvm::CallInst &, const IntrinsicRule &);
// The constant `first`.
Result constant(Lowering &, llvm::CallInst &, const IntrinsicRule &);
// Nothing: hints, and what the machine does anyway.
Result nothing(Lowering &, llvm::CallInst &, const IntrinsicRule &);
// The target-independent intrinsic `first`, overloaded on the result type.
Result generic(Lowering &, llvm::CallInst &, const IntrinsicRule &);
// A function of the host, sectile_vg_<symbol>, over the same operands; halves and vectors pass as
// integers.
Result hostCall(Lowering &, llvm::CallInst &, const IntrinsicRule &);
// The machine's function <symbol>(thread) with the result's type.
Result query(Lowering &, llvm::CallInst &, const IntrinsicRule &);

llvm::ArrayRef<IntrinsicRule> nvidiaRules();
llvm::ArrayRef<IntrinsicRule> amdRules();
llvm::ArrayRef<IntrinsicRule> commonRules();

} // namespace sectile::vgpu::rules
