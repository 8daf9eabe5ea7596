// A kernel's instructions as what they do to registers: the 32-bit units that each reads and
// defines.
#ifndef SECTILE_CODEGEN_NVIDIA_REGISTERUNITS_H
#define SECTILE_CODEGEN_NVIDIA_REGISTERUNITS_H

#include "llvm/ADT/SmallVector.h"
#include <vector>

namespace llvm {
class Function;
}

namespace sectile::nvidia {

/// One instruction of the chip, more or less.
struct Step {
  llvm::SmallVector<unsigned, 4> uses;    ///< units, each once
  llvm::SmallVector<unsigned, 4> defines; ///< units
  llvm::SmallVector<unsigned, 2> after;   ///< steps of its block that memory keeps it behind
  unsigned latency = 0;                   ///< cycles, until its results can be used
  unsigned scratch = 0;                   ///< registers that it takes for itself while it runs
  bool fetches = false;                   ///< from global memory
};

struct StepBlock {
  std::vector<Step> steps;
  llvm::SmallVector<unsigned, 8> arguments; ///< units that its phis define
  /// A block behind it, and the units that its phis take from here.
  struct Edge {
    unsigned block;
    llvm::SmallVector<unsigned, 8> uses;
  };
  llvm::SmallVector<Edge, 2> successors;
};

struct StepGraph {
  std::vector<StepBlock> blocks; ///< the first is the entry
  unsigned units = 0;            ///< how many there are
};

/// Where registers are short, what is cheap is computed anew for each use instead of being kept.
enum class Room { Ample, Short };

/// What takes no register (constants, kernel parameters, predicates, what warps have in common) has
/// no units; what an instruction reads as part of another (an offset of an address, half of a pair,
/// a sign) is no step.
StepGraph registerUnits(const llvm::Function &kernel, Room room);

} // namespace sectile::nvidia

#endif
