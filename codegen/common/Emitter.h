// From placed cta IR to LLVM IR for a target.
#ifndef SECTILE_CODEGEN_COMMON_EMITTER_H
#define SECTILE_CODEGEN_COMMON_EMITTER_H

#include "ir/Target.h"
#include "mlir/Support/LLVM.h"
#include "runtime/Artifact.h"
#include <memory>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace mlir {
class ModuleOp;
namespace func {
class FuncOp;
} // namespace func
} // namespace mlir

namespace sectile {

/// Emits every kernel of the module. What cannot be emitted is reported as a diagnostic at the
/// operation; then there is no module. Where `reportsDivisors` says so, sectile.divisor is told
/// what integers are divided by, for a machine that reports zeros.
mlir::FailureOr<std::unique_ptr<llvm::Module>> emitLLVM(mlir::ModuleOp module, const Target &target,
                                                        llvm::LLVMContext &context,
                                                        bool reportsDivisors = false);

/// Where the code waits that this kernel becomes.
WaitPoint waitPointOf(mlir::func::FuncOp kernel, const Target &target);

} // namespace sectile

#endif
