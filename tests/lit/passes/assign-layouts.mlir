// RUN: sectile-opt %s --assign-layouts | FileCheck %s

// A reduction's result and what is computed from it need no conversion.
// CHECK: #[[L:.+]] = #cta.layout<"1024, register [(1) (2) (512)], lane [(4) (8) (16) (32) (64)], warp [(128) (256)]">
// CHECK-LABEL: func.func @normalize
// CHECK: tile.load %{{.*}} -> tensor<1024xf32, #[[L]]>
// CHECK-NOT: convert_layout
// CHECK: tile.store %{{.*}}, tensor<1024xf32, #[[L]]>
module attributes {cta.target = "sm_80"} {
  func.func @normalize(%x: !tile.ptr<f32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<1024xi32>
    %p = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
    %q = tile.addptr %p, %i : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    %v = tile.load %q : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
    %s = tile.reduce %v 0 : (tensor<1024xf32>) -> f32 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    }
    %sv = tile.splat %s : f32 -> tensor<1024xf32>
    %o = arith.divf %v, %sv : tensor<1024xf32>
    tile.store %q, %o : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
    return
  }
}
