// The sine and the cosine of one number share the reduction of the angle with its branch for large ones, and both
// polynomials; behind a nested block, whose reduction is not known there, it is made anew.
// RUN: sectile-opt --emit-assembly %s | FileCheck %s

#l = #cta.layout<"128, lane [(1) (2) (4) (8) (16)], warp [(32) (64)]">

// Seven multiplications for the polynomials, which near and far angles share. A far one is reduced with a factor of 2^-32.
// CHECK-LABEL: .entry both
// CHECK: bra [[NEAR:.*]];
// CHECK-NOT: bra
// CHECK: {{^}}[[NEAR]]:
// CHECK-COUNT-7: fma.rn.f32
// CHECK-NOT: fma.rn.f32
// CHECK-NOT: bra
// CHECK: ret

// CHECK-LABEL: .entry nested
// CHECK-COUNT-2: 0f2F800000
// CHECK: ret
module attributes {cta.target = "sm_80"} {
  func.func @both(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<128xi32, #l>
    %xs = tile.splat %x : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #l>
    %ys = tile.splat %y : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #l>
    %p = tile.addptr %xs, %i : tensor<128x!tile.ptr<f32>, #l>, tensor<128xi32, #l>
    %q = tile.addptr %ys, %i : tensor<128x!tile.ptr<f32>, #l>, tensor<128xi32, #l>
    %v = tile.load %p : tensor<128x!tile.ptr<f32>, #l> -> tensor<128xf32, #l>
    %s = math.sin %v : tensor<128xf32, #l>
    %c = math.cos %v : tensor<128xf32, #l>
    %n = arith.addf %s, %c : tensor<128xf32, #l>
    tile.store %q, %n : tensor<128x!tile.ptr<f32>, #l>, tensor<128xf32, #l>
    return
  }
  func.func @nested(%x: f32, %y: !tile.ptr<f32>, %condition: i1) attributes {tile.kernel, cta.warps = 4 : i32} {
    scf.if %condition {
      %s = math.sin %x : f32
      tile.store %y, %s : !tile.ptr<f32>, f32
    }
    %c = math.cos %x : f32
    tile.store %y, %c : !tile.ptr<f32>, f32
    return
  }
}
