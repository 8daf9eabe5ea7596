// cta.dot: matrix instructions or fused multiply-adds.
#ifndef SECTILE_CODEGEN_COMMON_DOTS_H
#define SECTILE_CODEGEN_COMMON_DOTS_H

#include "codegen/common/KernelEmitter.h"

namespace sectile {

mlir::LogicalResult emitDotStart(KernelEmitter &emitter, cta::DotStartOp op);
mlir::LogicalResult emitDot(KernelEmitter &emitter, cta::DotOp op);

} // namespace sectile

#endif
