// What operations do to shared memory: which of them occupy it, and what each reads and writes.
#ifndef SECTILE_PASSES_ANALYSIS_SHAREDMEMORY_H
#define SECTILE_PASSES_ANALYSIS_SHAREDMEMORY_H

#include "ir/Target.h"
#include "ir/cta/Cta.h"
#include "ir/layout/Conversion.h"
#include "ir/layout/Reduction.h"
#include "ir/layout/Scan.h"

namespace sectile {

/// How a conversion runs: the plan by which its scratch is placed and its code generated.
ConversionPlan planOf(cta::ConvertLayoutOp convert);

/// How a reduction's partial results are gathered from several warps, per source: the scratch of
/// source i begins at offsets[i] within the operation's. Every source is stored, then there is one
/// barrier, then every source is read.
struct GatherPlan {
  ReductionPlan reduction;
  llvm::SmallVector<ConversionPlan, 2> conversions; ///< none when warps hold whole results
  llvm::SmallVector<int64_t, 2> offsets;
  int64_t bytes = 0;
};
GatherPlan planOf(tile::ReduceOp reduce);

/// What a program does once, though several of its threads hold the same element: atomic
/// operations, and loads of what others may write meanwhile. One thread does it for all of them;
/// how the others get the result.
struct SharingPlan {
  enum class Kind {
    None,   ///< nobody else holds it, or nobody uses it
    Lanes,  ///< the other lanes of the warp do
    Scratch ///< so do other warps
  };
  Kind kind = Kind::None;
  ConversionPlan conversion; ///< a tile's way through scratch and back
  int64_t bytes = 0;         ///< of scratch
};
bool isDoneOnce(mlir::Operation *op);
/// For operations that are done once; those have one result.
SharingPlan sharingPlanOf(mlir::Operation *op);

/// How a scan runs, and where in its scratch the totals of each source begin. Nothing when this
/// layout cannot be scanned.
struct ScanScratch {
  ScanPlan plan;
  llvm::SmallVector<int64_t, 2> offsets;
  int64_t bytes = 0;
};
std::optional<ScanScratch> planOf(tile::ScanOp scan);

/// Whether a reshape leaves elements in their threads; else it goes through scratch.
bool staysInThreads(tile::ReshapeOp reshape);

/// Shared memory that an operation uses between its own writes and reads, and nobody else.
struct Scratch {
  int64_t bytes = 0;
  /// Whether data passes between warps, so that the operation contains a barrier of the block
  /// between its writes and its reads.
  bool acrossWarps = false;
};
Scratch scratchOf(mlir::Operation *op);
/// Bytes of the operations in `around` other than those `without`; they take turns in them.
int64_t scratchIn(mlir::Operation *around, const llvm::DenseSet<mlir::Operation *> &without);

/// Bytes that an operation occupies: an alloc, a channel, or one that needs scratch; else 0.
int64_t sharedBytes(mlir::Operation *op);
/// Where they begin, once placed.
std::optional<int64_t> sharedOffset(mlir::Operation *op);
void setSharedOffset(mlir::Operation *op, int64_t offset);

/// The alloc or channel behind a buffer, and its index in the channel's ring where it has one.
struct BufferOrigin {
  mlir::Operation *owner = nullptr; ///< nullptr when it cannot be told
  mlir::Value index;
  mlir::Value buffer; ///< before its axes were permuted
};
BufferOrigin originOf(mlir::Value buffer);
/// Whether it is a slot of a ring that a producer partition fills.
bool isFilledByProducer(mlir::Value buffer);

/// Whether what the operation does to shared memory goes through the proxy of instructions that
/// access it themselves, and of the copy engine.
bool isThroughProxy(mlir::Operation *op, const Target &target);

/// One use of shared memory by one operation.
struct BufferAccess {
  /// The copy engine's writes are over once an mbarrier says so: those who wait for that see them.
  enum Kind { Read, Write, AsyncWrite, EngineWrite };
  Kind kind;
  BufferOrigin origin;
};
/// What the operation itself does (not the regions in it), its scratch aside.
llvm::SmallVector<BufferAccess, 2> bufferAccesses(mlir::Operation *op);

/// A number that is `base` + `offset`, or `offset` alone without a base. A base is what a loop
/// carries or its result.
struct LinearCount {
  mlir::Value base;
  unsigned offset = 0;
};
/// Understands constants, and what is added to a count or advances it in a ring, in i32.
std::optional<LinearCount> linearCount(mlir::Value count);
/// The base of a count and those that loops make of it, or it of.
llvm::SmallPtrSet<const void *, 8> countsOf(llvm::ArrayRef<mlir::Value> bases);
/// The use, modulo the depth, that a slot's number stands for: understands what `ringSlot` makes.
std::optional<LinearCount> ringPosition(mlir::Value slot, unsigned depth);

/// The position in a ring that is `by` uses after another, its slot, and the parity of its round or
/// of the round before: operations, or a constant of a constant.
mlir::Value ringAdvance(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value position,
                        int64_t by, unsigned depth);
mlir::Value ringSlot(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value position,
                     unsigned depth);
mlir::Value ringParity(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value position,
                       unsigned depth, bool before);

/// A constant's value.
std::optional<int64_t> constantInt(mlir::Value value);

} // namespace sectile

#endif
