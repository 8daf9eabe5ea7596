// What code generation refuses, and what it says.
// RUN: split-file %s %t
// RUN: not sectile-opt --emit-llvm %t/target.mlir 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not sectile-opt --emit-llvm %t/warps.mlir 2>&1 | FileCheck %s --check-prefix=WARPS
// RUN: not sectile-opt --emit-llvm %t/argument.mlir 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: not sectile-opt --emit-llvm %t/fp8.mlir 2>&1 | FileCheck %s --check-prefix=FP8
// RUN: not sectile-opt --emit-llvm %t/view.mlir 2>&1 | FileCheck %s --check-prefix=VIEW
// RUN: not sectile-opt --emit-llvm %t/buffer.mlir 2>&1 | FileCheck %s --check-prefix=BUFFER
// RUN: not sectile-opt --emit-llvm %t/vector.mlir 2>&1 | FileCheck %s --check-prefix=VECTOR
// RUN: not sectile-opt --emit-llvm %t/nowhere.mlir 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: not sectile-opt --emit-nothing %t/fp8.mlir 2>&1 | FileCheck %s --check-prefix=USAGE

// NOWHERE: sectile-opt: cannot open input file
// USAGE: sectile-opt: use --emit-llvm, --emit-optimized or --emit-assembly, then one file

//--- target.mlir
// TARGET: unknown target 'sm_1'; known are sm_80
module attributes {cta.target = "sm_1"} {}

//--- warps.mlir
// WARPS: warps.mlir:3:3: error: kernel without 'cta.warps'
module attributes {cta.target = "sm_80"} {
  func.func @f() attributes {tile.kernel} {
    return
  }
}

//--- argument.mlir
// ARGUMENT: error: a kernel cannot take an argument of type '!tile.view<2xf32>'
module attributes {cta.target = "sm_80"} {
  func.func @f(%x: !tile.view<2xf32>) attributes {tile.kernel, cta.warps = 1 : i32} {
    return
  }
}

//--- fp8.mlir
// FP8: error: code generation has no code for 'arith.addf' on 'f8E4M3FN'
module attributes {cta.target = "sm_80"} {
  func.func @f(%x: f8E4M3FN) attributes {tile.kernel, cta.warps = 1 : i32} {
    %y = arith.addf %x, %x : f8E4M3FN
    return
  }
}

//--- view.mlir
// VIEW: error: code generation knows no operation 'tile.make_view' at this stage
module attributes {cta.target = "sm_80"} {
  func.func @f(%x: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, cta.warps = 1 : i32} {
    %y = tile.make_view %x, [%n], [%n] : !tile.ptr<f32>, [i32], [i32] -> !tile.view<1xf32>
    return
  }
}

//--- buffer.mlir
// BUFFER: error: has no place in shared memory yet
#s = #cta.layout<"2, shared [(1)]">
module attributes {cta.target = "sm_80"} {
  func.func @f() attributes {tile.kernel, cta.warps = 1 : i32} {
    %b = cta.alloc : !cta.buffer<2xf32, #s>
    return
  }
}

//--- vector.mlir
// VECTOR: error: vectors of 2 elements are not contiguous in the buffer
#s = #cta.layout<"64, shared [(2) (1) (4) (8) (16) (32)]">
#l = #cta.layout<"64, register [(1)], lane [(2) (4) (8) (16) (32)]">
module attributes {cta.target = "sm_80"} {
  func.func @f(%x: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 1 : i32, cta.shared_bytes = 256 : i32} {
    %b = cta.alloc {offset = 0 : i32} : !cta.buffer<64xf32, #s>
    %i = tile.arange 0 : tensor<64xi32, #l>
    %p = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #l>
    %q = tile.addptr %p, %i : tensor<64x!tile.ptr<f32>, #l>, tensor<64xi32, #l>
    cta.async_copy %q, %b {vector = 2 : i32} : tensor<64x!tile.ptr<f32>, #l>, !cta.buffer<64xf32, #s>
    return
  }
}
