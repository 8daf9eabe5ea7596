// Shared buffers: where they are, reads and writes of whole tiles, asynchronous copies.
#ifndef SECTILE_CODEGEN_COMMON_BUFFERS_H
#define SECTILE_CODEGEN_COMMON_BUFFERS_H

#include "codegen/common/KernelEmitter.h"

namespace sectile {

mlir::LogicalResult emitAlloc(KernelEmitter &emitter, cta::AllocOp op);
mlir::LogicalResult emitChannel(KernelEmitter &emitter, cta::ChannelOp op);
void emitSlot(KernelEmitter &emitter, cta::SlotOp op);
void emitRing(KernelEmitter &emitter, cta::RingAdvanceOp op);
void emitRing(KernelEmitter &emitter, cta::RingSlotOp op);
void emitRing(KernelEmitter &emitter, cta::RingParityOp op);
void emitLocalLoad(KernelEmitter &emitter, cta::LocalLoadOp op);
void emitLocalStore(KernelEmitter &emitter, cta::LocalStoreOp op);
mlir::LogicalResult emitAsyncCopy(KernelEmitter &emitter, cta::AsyncCopyOp op);
mlir::LogicalResult emitMbarriers(KernelEmitter &emitter, cta::MbarriersOp op);
void emitMbarrierWait(KernelEmitter &emitter, cta::MbarrierWaitOp op);
void emitMbarrierArrive(KernelEmitter &emitter, cta::MbarrierArriveOp op);
void emitMbarrierSignal(KernelEmitter &emitter, cta::MbarrierSignalOp op);
void emitClusterBarrier(KernelEmitter &emitter);
void emitClusterAcquire(KernelEmitter &emitter, cta::ClusterAcquireOp op);
void emitTensorCopy(KernelEmitter &emitter, cta::TensorCopyOp op);
void emitTensorStore(KernelEmitter &emitter, cta::TensorStoreOp op);

} // namespace sectile

#endif
