// Code that a kernel brings along: inline assembly, and functions of LLVM bitcode libraries.
#ifndef SECTILE_CODEGEN_USERCODE_H
#define SECTILE_CODEGEN_USERCODE_H

#include "ir/Target.h"
#include "ir/tile/Tile.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"
#include <string>

namespace sectile {

/// Puts the meaning in place of assembly that does not run: another vendor's, or any on the virtual
/// GPU. KernelError where such assembly has no meaning.
llvm::Error resolveAssembly(mlir::ModuleOp module, const Target &target, bool forVirtualDevice);

/// Remembers the first error that LLVM reports of a module's code: an assembler that refuses a
/// text.
class AssemblerErrors {
public:
  explicit AssemblerErrors(llvm::LLVMContext &context);
  /// KernelError for what was reported, at the line of the text.
  llvm::Error take(mlir::ModuleOp module);

private:
  struct Report {
    std::string message;
    uint64_t line = 0;
  };
  std::shared_ptr<Report> report = std::make_shared<Report>();
};

/// What the function that is called is named in the kernel's module, in which the kernel or a
/// function of another library may have its own name.
std::string nameOfCallee(tile::ExternCallOp call);

/// The type of the function that is called.
llvm::FunctionType *typeOfCall(tile::ExternCallOp call, llvm::LLVMContext &context);

/// Links the functions that the kernel calls into its code; KernelError where a library, a function
/// or its type is not what the kernel says.
llvm::Error linkLibraries(mlir::ModuleOp module, llvm::Module &code);

/// What the module's libraries hold, by hash; empty without any. Part of cache keys.
std::string describeLibraries(mlir::ModuleOp module);

} // namespace sectile

#endif
