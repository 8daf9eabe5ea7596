// Every dialect that Sectile's IR uses, for contexts and tools.
#ifndef SECTILE_IR_DIALECTS_H
#define SECTILE_IR_DIALECTS_H

#include "mlir/IR/DialectRegistry.h"

namespace sectile {

/// tile, cta, and the upstream dialects that kernels are made of: arith, math, scf, func.
void registerDialects(mlir::DialectRegistry &registry);

} // namespace sectile

#endif
