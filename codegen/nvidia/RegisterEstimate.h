// How many registers NVIDIA's assembler will take for a kernel, from its optimised LLVM IR.
#ifndef SECTILE_CODEGEN_NVIDIA_REGISTERESTIMATE_H
#define SECTILE_CODEGEN_NVIDIA_REGISTERESTIMATE_H

#include "ir/Target.h"

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace sectile::nvidia {

struct RegisterEstimate {
  unsigned fewest = 0; ///< with which nothing is spilled
  unsigned usual = 0;  ///< that the assembler takes, which loads ahead where that is for nothing
};

/// The most that a thread of a block of so many can have.
unsigned registerLimit(const Target &target, unsigned threads);

/// Registers of one thread of such a block. The module is changed.
RegisterEstimate estimateRegisters(llvm::Module &module, llvm::TargetMachine &machine,
                                   const Target &target, unsigned threads);

/// By how much `fewest` may exceed so many and the kernel do with them nevertheless.
constexpr unsigned registerError(unsigned registers) { return registers / 20; }

} // namespace sectile::nvidia

#endif
