// AMD's pseudo-intrinsics, conversions to integers, as inline assembly, and what keeps loads before
// fences.
#include "codegen/common/PseudoIntrinsics.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace sectile {

// LLVM 22 sinks loads past fences into a branch behind them, but not past what may write memory.
// For passes over LLVM's IR it writes none of theirs, so that uniform loads stay scalar.
static void keepLoadsBeforeFences(Function &function) {
  for (Instruction &instruction : instructions(function)) {
    auto *fence = dyn_cast<FenceInst>(&instruction);
    if (!fence || !isReleaseOrStronger(fence->getOrdering()))
      continue;
    IRBuilder<> b(fence);
    CallInst *writes = b.CreateCall(InlineAsm::get(FunctionType::get(b.getVoidTy(), false), "",
                                                   "~{memory}", /*hasSideEffects=*/true));
    writes->setOnlyAccessesInaccessibleMemory();
    writes->setDoesNotThrow();
  }
}

void lowerAmdPseudoIntrinsics(Module &module) {
  if (module.getTargetTriple().isAMDGCN())
    for (Function &function : module)
      keepLoadsBeforeFences(function);
  for (Function &function : make_early_inc_range(module)) {
    StringRef name = function.getName();
    if (!name.consume_front(pseudo::amdConvert))
      continue;
    auto [to, from] = name.split('.');
    InlineAsm *instruction =
        InlineAsm::get(function.getFunctionType(), ("v_cvt_" + to + "_" + from + " $0, $1").str(),
                       "=v,v", /*hasSideEffects=*/false);
    for (User *user : make_early_inc_range(function.users())) {
      auto &call = cast<CallInst>(*user);
      IRBuilder<> b(&call);
      CallInst *converted = b.CreateCall(instruction, {call.getArgOperand(0)});
      converted->setDoesNotAccessMemory();
      call.replaceAllUsesWith(converted);
      call.eraseFromParent();
    }
    function.eraseFromParent();
  }
}

} // namespace sectile
