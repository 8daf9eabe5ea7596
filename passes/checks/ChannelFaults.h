// Errors about what channels were lowered to.
#ifndef SECTILE_PASSES_CHECKS_CHANNELFAULTS_H
#define SECTILE_PASSES_CHECKS_CHANNELFAULTS_H

#include "mlir/IR/Operation.h"
#include "passes/checks/ChannelRun.h"

namespace sectile {

/// The operation that an event is of: its tag.
mlir::Operation *operationOf(const ChannelRun::Event &event);

/// Reports a fault at its operation. `ring`: how many positions the cells of its event are one
/// of.
void report(const ChannelRun::Fault &fault, uint32_t ring);

} // namespace sectile

#endif
