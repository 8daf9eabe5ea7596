// The passes from tile IR to placed cta IR, one file each; passes/Pipelines.cpp has their order.
#ifndef SECTILE_PASSES
#define SECTILE_PASSES

include "mlir/Pass/PassBase.td"

def InlineFunctions : Pass<"inline-functions", "::mlir::ModuleOp"> {
  let summary = "put the bodies of called functions where they are called";
}

def CheckOffsets : Pass<"check-offsets", "::mlir::func::FuncOp"> {
  let summary = "in a checked kernel, assert that 32-bit arithmetic of addresses does not overflow and that promises hold";
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def LowerDebug : Pass<"lower-debug", "::mlir::func::FuncOp"> {
  let summary = "turn assertions and prints into entries of a log that the kernel takes as an argument, or leave them out";
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def LowerViews : Pass<"lower-views", "::mlir::func::FuncOp"> {
  let summary = "turn block loads, stores and atomics of views into those of pointers with masks";
}

def Simplify : Pass<"simplify", "::mlir::func::FuncOp"> {
  let summary = "canonicalise, share what is computed twice, and hoist what loops do not change";
}

def ExpandScaledDots : Pass<"expand-scaled-dots", "::mlir::func::FuncOp"> {
  let summary = "decode and scale the operands of dots in the microscaling formats";
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def SelectMma : Pass<"select-mma", "::mlir::func::FuncOp"> {
  let summary = "turn every dot into the target's matrix instructions, or fused multiply-adds where it has none";
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def AssignLayouts : Pass<"assign-layouts", "::mlir::func::FuncOp"> {
  let summary = "give every tile a layout, and convert where two operations want different ones";
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def SelectVectors : Pass<"select-vectors", "::mlir::func::FuncOp"> {
  let summary = "set how many elements each memory access moves at once";
}

def StageOperands : Pass<"stage-operands", "::mlir::func::FuncOp"> {
  let summary = "bring the operands of dots through shared memory, and loads of loops through channels";
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def LowerChannels : Pass<"lower-channels", "::mlir::func::FuncOp"> {
  let summary = "turn channels into slots of rings, and into groups of asynchronous copies where those fill them";
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def PlaceShared : Pass<"place-shared", "::mlir::func::FuncOp"> {
  let summary = "place buffers, channels and scratch in shared memory by liveness";
}

def InsertBarriers : Pass<"insert-barriers", "::mlir::func::FuncOp"> {
  let summary = "insert the barriers that hazards over shared and global memory need";
  let description = [{
    Expects layouts on all tiles and a place for everything in shared memory. Afterwards no two threads access the same
    bytes in an order that nothing fixes, where one of them writes: `cta.barrier` orders shared memory, `tile.barrier`
    global memory too, and copies that a later access could overtake are waited for. Programs are ordered against
    themselves only; what other programs do is for atomic operations to order.
  }];
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def UnrollLoops : Pass<"unroll-loops", "::mlir::func::FuncOp"> {
  let summary = "repeat the bodies of loops that ask for it, and say which hints have no effect";
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif
