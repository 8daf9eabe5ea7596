// LLVM's optimiser and code generators for the chips we target.
#ifndef SECTILE_CODEGEN_OPTIMIZER_H
#define SECTILE_CODEGEN_OPTIMIZER_H

#include "ir/Target.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace sectile {

/// The code generator for a target; LLVM's parts for its vendor are set up at the first call.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createTargetMachine(const Target &target);

/// Runs the -O3 pipeline with the real target machine, so that it knows which operations are
/// convergent, what address spaces mean and what instructions cost.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);

/// Assembly text, or an object file's bytes, of a module whose pseudo-intrinsics become
/// instructions.
llvm::Expected<std::string> emitAssembly(llvm::Module &module, llvm::TargetMachine &machine);
llvm::Expected<std::string> emitObject(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace sectile

#endif
