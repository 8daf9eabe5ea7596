// Blocks of views as the copy engine accesses them: boxes of the tensor that is a whole argument.
#ifndef SECTILE_PASSES_MEMORY_TENSORBLOCK_H
#define SECTILE_PASSES_MEMORY_TENSORBLOCK_H

#include "ir/Target.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "passes/analysis/Blocks.h"
#include <optional>
#include <string>

namespace sectile {

/// The tensor that a block is a part of, and where in it the block lies.
struct TensorBlock {
  mlir::Value view;                           ///< with dimensions of the tensor ahead of its own
  llvm::SmallVector<mlir::Value> coordinates; ///< in those dimensions, 32 bits

  /// The dimension of the block whose extent the kernel computes: the coordinate there is `first`
  /// more than the block's own offset.
  struct Segment {
    unsigned dim;
    mlir::Value first;
    bool mayBeOutside; ///< whole blocks may lie below the view or far after it
  };
  std::optional<Segment> segment = {};

  /// The coordinates of a block with these offsets. `map` has what became of the other values.
  llvm::SmallVector<mlir::Value> coordinatesOf(mlir::OpBuilder &builder, mlir::Location loc,
                                               mlir::ValueRange offsets,
                                               const mlir::IRMapping &map = {}) const;
};

/// Puts a block before all of its tensor where it is not `inside`: the engine then reads nothing,
/// fills the buffer with zeros, and signals as for any other block.
void moveOutsideUnless(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value inside,
                       llvm::MutableArrayRef<mlir::Value> coordinates);

/// Why the copy engine cannot access a block; empty when it can.
std::string whyNoTensorBlock(const ViewBlock &block, const ContiguityAnalysis &contiguity);

/// Why the copy engine cannot store a block; empty when it can.
std::string whyNoTensorStore(const ViewBlock &block, const ContiguityAnalysis &contiguity);

/// The block as a part of a tensor, for one that whyNoTensorBlock has nothing against. The tensor
/// follows from arguments and is made where the builder is, coordinates where the block's view is.
TensorBlock makeTensorBlock(mlir::OpBuilder &builder, const ViewBlock &block,
                            const ContiguityAnalysis &contiguity);

/// Whether both blocks of a cluster make the same copy of a block, where `copy` stands, to buffers
/// that can be filled by halves: each then copies one half for both.
bool isSharedInCluster(tile::LoadBlockOp load, mlir::Operation *copy, const TensorBlock &block,
                       cta::BufferType buffer, const Target &target);

/// The tile of more dimensions whose lines along the last one are those of a tile of two, in
/// row-major order, layouts aside; null for other tiles.
mlir::Value blockOfLines(mlir::Value tile);
/// The tile of two dimensions that has a block's lines; null for other tiles.
mlir::Value linesOf(mlir::Value block);

/// The extents of a block's dimensions ahead of the last, where its lines are those of a buffer.
mlir::DenseI64ArrayAttr extentsOfLines(mlir::RankedTensorType block);

/// The dimension of a view in which neighbours are neighbours in memory.
std::optional<unsigned> denseDimension(tile::MakeViewOp view);

} // namespace sectile

#endif
