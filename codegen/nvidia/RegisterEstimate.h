// How many registers NVIDIA's assembler will take for a kernel, from its optimised LLVM IR.
#ifndef SECTILE_CODEGEN_NVIDIA_REGISTERESTIMATE_H
#define SECTILE_CODEGEN_NVIDIA_REGISTERESTIMATE_H

#include "ir/Target.h"

namespace llvm {
class Module;
}

namespace sectile::nvidia {

struct RegisterEstimate {
  unsigned fewest = 0; ///< that hold what is alive, in the best of some orders of instructions
  unsigned usual = 0;  ///< that the assembler takes, which loads ahead where that is for nothing
};

/// The most that a thread of a block of so many can have.
unsigned registerLimit(const Target &target, unsigned threads);

/// Registers of one thread of such a block. The module is changed.
RegisterEstimate estimateRegisters(llvm::Module &module, const Target &target, unsigned threads);

/// By how much `fewest` may exceed so many and the kernel do with them nevertheless. The most that
/// was seen is 19%.
constexpr unsigned registerError(unsigned registers) { return registers / 4; }

} // namespace sectile::nvidia

#endif
