// How many registers a kernel's tiles take, before code is made of them.
#ifndef SECTILE_CODEGEN_REGISTERS_H
#define SECTILE_CODEGEN_REGISTERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sectile {

/// 32-bit registers of one thread for what is alive at the widest place of a kernel whose tiles
/// have layouts.
unsigned countRegisters(mlir::func::FuncOp kernel);

} // namespace sectile

#endif
