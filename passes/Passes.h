// Declarations and registration of every pass in Passes.td.
#ifndef SECTILE_PASSES_PASSES_H
#define SECTILE_PASSES_PASSES_H

#include "ir/cta/Cta.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

namespace sectile {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

} // namespace sectile

#endif
