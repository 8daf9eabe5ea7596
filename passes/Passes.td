// The passes from tile IR to placed cta IR, one file each; passes/Pipelines.cpp has their order.
#ifndef SECTILE_PASSES
#define SECTILE_PASSES

include "mlir/Pass/PassBase.td"

def Simplify : Pass<"simplify", "::mlir::func::FuncOp"> {
  let summary = "canonicalise, share what is computed twice, and hoist what loops do not change";
}

#endif
