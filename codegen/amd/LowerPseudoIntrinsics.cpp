// AMD's pseudo-intrinsics, conversions to integers, as inline assembly.
#include "codegen/common/PseudoIntrinsics.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace sectile {

void lowerAmdPseudoIntrinsics(Module &module) {
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
