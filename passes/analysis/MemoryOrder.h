// What orders accesses of global memory: the one answer for all passes that move, delay or fence
// them.
#ifndef SECTILE_PASSES_ANALYSIS_MEMORYORDER_H
#define SECTILE_PASSES_ANALYSIS_MEMORYORDER_H

#include "ir/cta/Cta.h"

namespace sectile {

class AddressAnalysis;

/// What an operation orders besides its own access, without the operations in it.
struct OrderingEffects {
  /// Accesses before it are done by then: others may learn that they are.
  bool releases = false;
  /// Accesses after it see what other programs released, or other threads of this one wrote.
  bool acquires = false;
  /// Accesses after it see what the launches ahead wrote.
  bool awaitsLaunches = false;

  explicit operator bool() const { return releases || acquires || awaitsLaunches; }
};
OrderingEffects memoryOrderOf(mlir::Operation *op);
bool isAtomic(mlir::Operation *op);

/// Whether the block's threads meet before an atomic operation, and after it: the barriers are its
/// own.
std::pair<bool, bool> meetsAround(mlir::Operation *op);

/// Whether an operation, or one in it, may write global memory.
bool writesGlobalMemory(mlir::Operation *op);

/// When an operation is done ahead of another one.
enum class IsAhead {
  Never,
  InIterationsBefore, ///< it stands after it, in a loop around both
  Always
};
IsAhead isAhead(mlir::Operation *first, mlir::Operation *second);

/// Whether a load or a copy has to stay after an operation that acquires. An atomic operation that
/// comes first only because a loop around both goes on concerns what programs write through the
/// load's own argument: a kernel that reads through one argument what was written through another
/// has a barrier in between.
bool mustFollow(mlir::Operation *access, mlir::Operation *acquire, AddressAnalysis &addresses);

/// On a proxy fence: it is for global memory, and not for shared memory.
inline constexpr llvm::StringLiteral globalFenceAttr = "cta.global";

} // namespace sectile

#endif
