// cta.dot: matrix instructions or fused multiply-adds, and the turns of warpgroups that start them.
#ifndef SECTILE_CODEGEN_COMMON_DOTS_H
#define SECTILE_CODEGEN_COMMON_DOTS_H

#include "codegen/common/KernelEmitter.h"

namespace sectile {

mlir::LogicalResult emitDotStart(KernelEmitter &emitter, cta::DotStartOp op);
mlir::LogicalResult emitDot(KernelEmitter &emitter, cta::DotOp op);
void emitTurn(KernelEmitter &emitter, bool outside, bool waits);

} // namespace sectile

#endif
