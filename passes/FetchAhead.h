// Software pipelining: loads of a loop that go to shared memory are issued iterations ahead.
#ifndef SECTILE_PASSES_FETCHAHEAD_H
#define SECTILE_PASSES_FETCHAHEAD_H

#include "ir/cta/Cta.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/analysis/Addresses.h"

namespace sectile {

/// An operand that is to read a buffer instead of a tile: axis i of it is axis order[i] of the
/// buffer.
struct BufferUse {
  mlir::OpOperand *operand;
  llvm::SmallVector<int32_t, 2> order;
};
/// Lets the operand read `buffer`, through a permute_buffer where the axes differ.
void readBuffer(mlir::OpBuilder &builder, const BufferUse &use, mlir::Value buffer);

/// A load in a loop's body, by pointers or from a view, whose tile is read from shared memory, in
/// the same loop: by the `uses`, and where there are none by whatever takes it, as a tile.
struct FetchedLoad {
  mlir::Operation *load;
  cta::BufferType buffer;
  llvm::SmallVector<BufferUse, 2> uses;
  /// Elements copied at once: what the load's own addresses and mask allow. They are those of its
  /// copies, though less can be shown of an iteration that is computed ahead.
  unsigned vector = 0;
  /// Of a load that the copy engine makes: its view with all dimensions of the argument that it is
  /// a part of, and where in those that it has not itself the load's view lies.
  mlir::Value engineView = {};
  llvm::SmallVector<mlir::Value> engineOffsets = {};
  /// The dimension of the load whose extent the kernel computes: the position there is `first` more
  /// than the load's own offset.
  struct Segment {
    unsigned dim;
    mlir::Value first;
    bool mayBeBelow; ///< whole blocks may lie below the load's view, and read zeros
  };
  std::optional<Segment> engineSegment = {};

  bool byEngine() const { return bool(engineView); }

  /// What reads the buffer: operations in the loop, at any depth.
  llvm::SmallVector<mlir::Operation *> readers() const;
};

/// Who fills the buffers of a channel.
enum class Producer {
  Copies,   ///< asynchronous copies, stages - 1 iterations ahead
  Registers ///< loads one iteration ahead, stored when the iteration before has been computed
};

/// Why a loop cannot issue this load of its body iterations ahead; empty when it can.
std::string whyNotAhead(mlir::scf::ForOp loop, mlir::Operation *load, Producer producer,
                        AddressAnalysis &addresses);

/// Makes each load a channel of `depth` buffers. Replaces the loop. Copies are issued depth - 1
/// iterations ahead, so that they need two buffers and more; registers do with one. Where `lag` is
/// one, they are issued one iteration later: the use before may still be read then.
void fetchAhead(mlir::scf::ForOp loop, llvm::ArrayRef<FetchedLoad> loads, Producer producer,
                unsigned depth, unsigned lag);

} // namespace sectile

#endif
