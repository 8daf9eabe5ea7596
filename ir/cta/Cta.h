// The `cta` dialect's attribute, types and operations.
#ifndef SECTILE_IR_CTA_CTA_H
#define SECTILE_IR_CTA_CTA_H

#include "ir/layout/Layout.h"
#include "ir/tile/Tile.h"
#include "mlir/IR/TensorEncoding.h"

namespace sectile::cta {
/// Where a buffer is: in a block's shared memory, or in the memory that a multiprocessor has for
/// sums of matrix instructions.
enum class MemorySpace { Shared, Tensor };
} // namespace sectile::cta

#include "ir/cta/CtaDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/cta/CtaAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/cta/CtaTypes.h.inc"

namespace sectile::cta {
/// Memory effects on shared memory; global memory is MLIR's default resource.
struct SharedMemory : tile::NamedResource<SharedMemory> {
  static constexpr llvm::StringLiteral name = "shared memory";
};
/// Registers of sums in flight.
struct Accumulators : tile::NamedResource<Accumulators> {
  static constexpr llvm::StringLiteral name = "sums in flight";
};
} // namespace sectile::cta

#define GET_OP_CLASSES
#include "ir/cta/CtaOps.h.inc"

namespace sectile::cta {

inline constexpr llvm::StringLiteral targetAttr = "cta.target"; ///< module: name of the target
inline constexpr llvm::StringLiteral warpsAttr = "cta.warps";   ///< kernel: i32
inline constexpr llvm::StringLiteral stagesAttr = "cta.stages"; ///< kernel: i32, depth of pipelines
/// Kernel: i32, the registers of a thread at most, and the programs of a multiprocessor at least.
inline constexpr llvm::StringLiteral maxRegistersAttr = "cta.max_registers";
inline constexpr llvm::StringLiteral minProgramsAttr = "cta.min_programs";
/// kernel: unit, no loop of it is planned
inline constexpr llvm::StringLiteral asWrittenAttr = "cta.as_written";
inline constexpr llvm::StringLiteral sharedBytesAttr =
    "cta.shared_bytes"; ///< kernel: i32, once placed
/// Channel: the engine fills its slots with zeros where a copy's condition is false, also for uses
/// that nobody waits for.
inline constexpr llvm::StringLiteral maskedAttr = "cta.masked";

/// Of a `dot_start`: its A in registers is copied to others where it starts, which nothing else
/// writes.
inline constexpr llvm::StringLiteral ownRegistersAttr = "cta.own_registers";
/// What occupies shared memory, of either dialect: i32, where in it that begins, once placed.
inline constexpr llvm::StringLiteral offsetAttr = "offset";

/// The tile that a dot in flight will be; any other type as it is.
mlir::Type tileOf(mlir::Type type);
/// The layout of a tile's type, or nullptr before layouts are assigned.
const Layout *layoutOf(mlir::Type type);
/// `type` with this layout as its encoding.
mlir::RankedTensorType withLayout(mlir::RankedTensorType type, const Layout &layout);

/// The element of a tile or buffer; a scalar's own type.
mlir::Type elementOf(mlir::Type type);
/// Bits of that element as layouts are planned for: pointers have 64.
unsigned elementBits(mlir::Type type);
/// Bytes of that element in memory.
unsigned elementBytes(mlir::Type type);
/// The shape of a tile or buffer.
llvm::ArrayRef<int64_t> shapeOf(mlir::Type type);

/// Where the round is in a position of a ring, unless the number of its slots is a power of two.
inline constexpr unsigned roundShift = 16;
/// The position of the use of that number, as `ring_advance` describes it.
uint32_t positionOf(uint32_t use, uint32_t slots);
/// The slot at a position.
uint32_t slotAt(uint32_t position, uint32_t slots);

} // namespace sectile::cta

#endif
