// Atomic operations on global memory, and how what one thread does for all gets to all.
#ifndef SECTILE_CODEGEN_COMMON_ATOMICS_H
#define SECTILE_CODEGEN_COMMON_ATOMICS_H

#include "codegen/common/KernelEmitter.h"

namespace sectile {

mlir::LogicalResult emitAtomic(KernelEmitter &emitter, tile::AtomicRMWOp op);
mlir::LogicalResult emitAtomic(KernelEmitter &emitter, tile::AtomicCasOp op);

/// Registers of the result of an operation that is done once, of which only the writers' are right
/// (see KernelEmitter::isWriter): gives them to every thread that holds the same elements.
mlir::LogicalResult shareResult(KernelEmitter &emitter, mlir::Operation *op, Registers &values);

} // namespace sectile

#endif
