// Software pipelining: loads of a loop that go to shared memory are issued iterations ahead.
#ifndef SECTILE_PASSES_LOOPS_FETCHAHEAD_H
#define SECTILE_PASSES_LOOPS_FETCHAHEAD_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/analysis/Addresses.h"
#include "passes/layouts/DotOperands.h"
#include "passes/memory/TensorBlock.h"

namespace sectile {

struct LoopPlan;

/// A load in a loop's body, by pointers or from a view, whose tile is read from shared memory, in
/// the same loop: by the `uses`, and by whatever else takes it, as a tile.
struct FetchedLoad {
  mlir::Operation *load;
  mlir::Value tile; ///< what dots read: what it loads, or the lines of that
  cta::BufferType buffer;
  llvm::SmallVector<BufferUse, 2> uses;
  /// Elements copied at once: what the load's own addresses and mask allow. They are those of its
  /// copies, though less can be shown of an iteration that is computed ahead.
  unsigned vector = 0;
  /// Of a load that the copy engine makes.
  std::optional<TensorBlock> tensor = {};
  /// Whether the other block of the cluster copies the same at the same time.
  bool isShared = false;
  /// Whether a dot still in flight reads the slot during the next iteration, so that the ring needs
  /// one more slot.
  bool outlivesIteration = false;
  /// Whether its ring has one slot, where the others of its loop have more: it is read early in an
  /// iteration, and a producer partition copies the next meanwhile.
  bool hasOneSlot = false;

  unsigned slots(unsigned depth) const { return hasOneSlot ? 1 : depth + outlivesIteration; }
  bool byEngine() const { return tensor.has_value(); }
  /// Whether the buffer has the lines of a block of more dimensions.
  bool hasLines() const { return tile != load->getResult(0); }

  /// Users of what it loads that do more than hand it to the `uses`.
  llvm::SmallVector<mlir::Operation *> takers() const;
  /// What reads the buffer: operations in the loop, at any depth.
  llvm::SmallVector<mlir::Operation *> readers() const;
};

/// On loads: it is that of the iteration before.
inline constexpr llvm::StringLiteral delayedAttr = "cta.delayed";

/// Who fills the buffers of a channel.
enum class Producer {
  Copies,    ///< asynchronous copies, stages - 1 iterations ahead
  Registers, ///< loads one iteration ahead, stored when the iteration before has been computed
  Partition  ///< the engine, in the same iteration: partition-warps lets it run ahead
};

/// Why a loop cannot issue this load iterations ahead; empty when it can. The load is in the loop's
/// body, or in branches there.
std::string whyNotAhead(mlir::scf::ForOp loop, mlir::Operation *load, Producer producer,
                        AddressAnalysis &addresses);

/// On loads: they were in a branch, and read nothing where that is not taken. True: as their only
/// condition.
inline constexpr llvm::StringLiteral ofBranchAttr = "cta.of_branch";
/// Moves a load that can be made ahead out of all branches of a loop's body, with what its address
/// follows from.
void moveOutOfBranches(mlir::scf::ForOp loop, mlir::Operation *load);
/// Moves it back to where it is used.
void moveIntoBranches(mlir::Operation *load);

/// Channels that a loop's loads are waited for in together, and how many uses of them there were
/// when the loop is done.
struct Ring {
  llvm::SmallVector<mlir::Value> channels;
  mlir::Value uses; ///< a result of the loop

  mlir::Block *block() const { return mlir::Value(uses).getParentBlock(); }
  cta::ChannelType type() const { return mlir::cast<cta::ChannelType>(channels.front().getType()); }
};

/// Makes each load of the plan a channel, and gives their rings. Replaces the loop. Copies are
/// issued depth - 1 iterations ahead of what reads them, so that they need two buffers and more;
/// registers do with one.
llvm::SmallVector<Ring> fetchAhead(const LoopPlan &plan);

/// Has the loop make these loads of its body one iteration ahead, and carry what they give in
/// registers. Replaces the loop.
void loadAhead(mlir::scf::ForOp loop, llvm::ArrayRef<mlir::Operation *> loads);

/// Whether the loop computes the address of one load from what the other gives.
bool followsFrom(mlir::scf::ForOp loop, mlir::Operation *load, mlir::Operation *other);

/// Whether the loop computes the addresses of a load from what it carries.
bool followsCarried(mlir::scf::ForOp loop, mlir::Operation *load);

} // namespace sectile

#endif
