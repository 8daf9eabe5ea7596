// Conversions of layouts: by shuffles within a warp, through shared memory between warps; what is missing is said.
// RUN: sectile-opt --emit-assembly %s | FileCheck %s
// RUN: sed 's/{offset = 128 : i32} //' %s > %t.mlir && not sectile-opt --emit-llvm %t.mlir 2>&1 | FileCheck %s --check-prefix=UNPLACED

#a = #cta.layout<"64, register [(1)], lane [(2) (4) (8) (16) (32)], warp [(0)]">
#b = #cta.layout<"64, register [(32)], lane [(1) (2) (4) (8) (16)], warp [(0)]">
#c = #cta.layout<"64, lane [(1) (2) (4) (8) (16)], warp [(32)]">
#d = #cta.layout<"64, lane [(2) (4) (8) (16) (32)], warp [(1)]">

// CHECK-LABEL: .entry shuffles
// CHECK-NOT: st.shared
// CHECK: shfl.sync
// CHECK: ret

// CHECK-LABEL: .entry scratch
// CHECK: st.shared
// CHECK: bar.sync
// CHECK: {{ldmatrix|ld.shared}}

// UNPLACED: error: needs scratch in shared memory, which has not been placed
module attributes {cta.target = "sm_80"} {
  func.func @shuffles(%x: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 2 : i32} {
    %i = tile.arange 0 : tensor<64xi32, #a>
    %p = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #a>
    %q = tile.addptr %p, %i : tensor<64x!tile.ptr<f32>, #a>, tensor<64xi32, #a>
    %v = tile.load %q : tensor<64x!tile.ptr<f32>, #a> -> tensor<64xf32, #a>
    %w = cta.convert_layout %v : tensor<64xf32, #a> -> tensor<64xf32, #b>
    %j = tile.arange 64 : tensor<64xi32, #b>
    %r = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #b>
    %s = tile.addptr %r, %j : tensor<64x!tile.ptr<f32>, #b>, tensor<64xi32, #b>
    tile.store %s, %w : tensor<64x!tile.ptr<f32>, #b>, tensor<64xf32, #b>
    return
  }
  func.func @scratch(%x: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 2 : i32, cta.shared_bytes = 384 : i32} {
    %i = tile.arange 0 : tensor<64xi32, #c>
    %p = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #c>
    %q = tile.addptr %p, %i : tensor<64x!tile.ptr<f32>, #c>, tensor<64xi32, #c>
    %v = tile.load %q : tensor<64x!tile.ptr<f32>, #c> -> tensor<64xf32, #c>
    %w = cta.convert_layout %v {offset = 128 : i32} : tensor<64xf32, #c> -> tensor<64xf32, #d>
    %j = tile.arange 64 : tensor<64xi32, #d>
    %r = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #d>
    %s = tile.addptr %r, %j : tensor<64x!tile.ptr<f32>, #d>, tensor<64xi32, #d>
    tile.store %s, %w : tensor<64x!tile.ptr<f32>, #d>, tensor<64xf32, #d>
    return
  }
}
