// Operations in which values move between threads.
#ifndef SECTILE_CODEGEN_COMMON_CONVERSIONS_H
#define SECTILE_CODEGEN_COMMON_CONVERSIONS_H

#include "codegen/common/KernelEmitter.h"
#include "ir/layout/Conversion.h"

namespace sectile {

mlir::LogicalResult emitConvertLayout(KernelEmitter &emitter, cta::ConvertLayoutOp op);
mlir::LogicalResult emitReduce(KernelEmitter &emitter, tile::ReduceOp op);
mlir::LogicalResult emitScan(KernelEmitter &emitter, tile::ScanOp op);
mlir::LogicalResult emitGather(KernelEmitter &emitter, tile::GatherOp op);
mlir::LogicalResult emitHistogram(KernelEmitter &emitter, tile::HistogramOp op);
/// Where elements change threads.
mlir::LogicalResult emitReshapeThroughScratch(KernelEmitter &emitter, tile::ReshapeOp op);

/// A conversion through shared memory in its two halves; the caller puts the barrier between them.
/// Not for plans whose repeats take turns.
void storeScratch(KernelEmitter &emitter, const ConversionPlan &plan,
                  llvm::ArrayRef<llvm::Value *> values, mlir::Type element, llvm::Value *scratch);
Registers loadScratch(KernelEmitter &emitter, const ConversionPlan &plan, mlir::Type element,
                      llvm::Value *scratch);

} // namespace sectile

#endif
