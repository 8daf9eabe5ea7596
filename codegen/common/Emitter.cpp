// The module around the kernels.
#include "codegen/common/Emitter.h"
#include "codegen/common/KernelEmitter.h"
#include "passes/checks/Check.h"
#include "llvm/IR/Verifier.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;

namespace sectile {

FailureOr<std::unique_ptr<llvm::Module>>
emitLLVM(ModuleOp module, const Target &target, llvm::LLVMContext &context, bool reportsDivisors) {
  auto result = std::make_unique<llvm::Module>("sectile", context);
  llvm::Triple triple(target.triple);
  result->setTargetTriple(triple);
  result->setDataLayout(triple.computeDataLayout());
  std::unique_ptr<TargetHooks> hooks = TargetHooks::create(target);
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(tile::kernelAttr) &&
        (failed(checkLayouts(function, target)) ||
         failed(KernelEmitter(*result, *hooks, function, reportsDivisors).run())))
      return failure();
  std::string why;
  llvm::raw_string_ostream out(why);
  if (llvm::verifyModule(*result, &out)) {
    module.emitError("emitted LLVM IR that is not valid: ") << why;
    return failure();
  }
  return result;
}

} // namespace sectile
