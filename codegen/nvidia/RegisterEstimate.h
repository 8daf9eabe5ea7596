// Whether a kernel can fit into the registers of NVIDIA's threads, from its optimised LLVM IR. The
// assembler is not asked: this is for dropping configurations before they are compiled.
#ifndef SECTILE_CODEGEN_NVIDIA_REGISTERESTIMATE_H
#define SECTILE_CODEGEN_NVIDIA_REGISTERESTIMATE_H

#include "ir/Target.h"

namespace llvm {
class Module;
}

namespace sectile::nvidia {

/// In 32-bit registers of one thread.
struct RegisterEstimate {
  unsigned fewest = 0; ///< that values alive at one time take; well above the limit, it spills
  unsigned usual = 0;  ///< that the assembler takes, roughly; unlimited
};

/// The most that a thread of a block of so many can have.
unsigned registerLimit(const Target &target, unsigned threads);

/// Counts values that are alive at one time, in the better of two orders of each block; of a module
/// with several functions, in the one that takes the most.
RegisterEstimate estimateRegisters(const llvm::Module &module);

/// By how much `fewest` may exceed so many and the kernel do with them nevertheless.
constexpr unsigned registerError(unsigned registers) { return registers / 20; }

} // namespace sectile::nvidia

#endif
