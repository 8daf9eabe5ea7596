// Entries of the log of assertions and prints; runtime/DebugLog.h has its form.
#ifndef SECTILE_CODEGEN_COMMON_DEBUGLOG_H
#define SECTILE_CODEGEN_COMMON_DEBUGLOG_H

#include "codegen/common/KernelEmitter.h"

namespace sectile {

void emitAssert(KernelEmitter &emitter, cta::AssertOp op);
mlir::LogicalResult emitRecord(KernelEmitter &emitter, cta::RecordOp op);

} // namespace sectile

#endif
