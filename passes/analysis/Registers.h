// Registers of threads: what tiles take, what else a loop needs beside them, and how many there
// are. All are of 32 bits.
#ifndef SECTILE_PASSES_ANALYSIS_REGISTERS_H
#define SECTILE_PASSES_ANALYSIS_REGISTERS_H

#include "ir/Target.h"
#include "mlir/IR/Operation.h"

namespace sectile {

/// What a loop with dots in flight needs beside its tiles, as estimated from what ptxas takes.
namespace besideTiles {
inline constexpr unsigned least = 32;     ///< of most kernels, dots in flight or not
inline constexpr unsigned rows = 28;      ///< rows' sums and indices
inline constexpr unsigned copying = 96;   ///< the same and addresses, where threads copy
inline constexpr unsigned promoting = 40; ///< scales and indices
} // namespace besideTiles

/// How `setmaxnreg` moves registers from warps to others: those of each thread in steps, and up to
/// `most`. Threads of a producer partition keep `producer`.
namespace movedRegisters {
inline constexpr unsigned step = 8, most = 240, producer = 24;
} // namespace movedRegisters

/// What a thread needs for its part of a tile, or for a scalar.
unsigned registersOf(mlir::Type type);

/// Whether the threads that do an operation hold these tiles at once, and so much beside them.
bool registersHold(mlir::Operation *op, llvm::ArrayRef<mlir::Type> tiles, unsigned beside,
                   const Target &target);

/// What each thread has at the launch, where the kernel moves registers between its warps later.
unsigned launchedRegistersOf(unsigned warps, const Target &target);
/// What each thread of `warps` warps gets of all that a launch with `others` more has, where these
/// keep `kept` for the threads of one warp after another; 0 where nothing is left.
unsigned registersLeftFor(unsigned warps, unsigned others, unsigned kept, const Target &target);

} // namespace sectile

#endif
