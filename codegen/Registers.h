// How many registers a kernel's tiles take, before code is made of them. NVIDIA's chips have a
// better estimate: nvidia/RegisterEstimate.h.
#ifndef SECTILE_CODEGEN_REGISTERS_H
#define SECTILE_CODEGEN_REGISTERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sectile {

/// The fewest 32-bit registers of one thread in which a kernel whose tiles have layouts can be done
/// without spilling, an operation at a time: tiles of data that are alive across one that no
/// element gets past alone (a product, a reduction, a loop). Indices, pointers and masks do not
/// count, as they can be computed anew, nor what an elementwise operation makes for the next.
unsigned fewestRegisters(mlir::func::FuncOp kernel);

/// What a compiler makes of that, on average: addresses, fragments of operands and copies come on
/// top.
unsigned usualRegisters(unsigned fewest);

} // namespace sectile

#endif
