// Reshapes of tiles whose extents are no powers of two: where odd factors stay among the same powers of two, nothing
// moves; elsewhere both sides have the layouts that suit them.
// RUN: sectile-opt --assign-layouts --split-input-file %s | FileCheck %s

module attributes {cta.target = "sm_80"} {
  // CHECK-LABEL: func.func @in_place
  // CHECK: tile.reshape %{{.*}} : tensor<48x8xi32, #{{.*}}> -> tensor<3x128xi32, #{{.*}}>
  func.func @in_place(%p: !tile.ptr<i32>) attributes {cta.warps = 4 : i32} {
    %from = tile.splat %p : !tile.ptr<i32> -> tensor<48x8x!tile.ptr<i32>>
    %to = tile.splat %p : !tile.ptr<i32> -> tensor<3x128x!tile.ptr<i32>>
    %t = tile.load %from : tensor<48x8x!tile.ptr<i32>> -> tensor<48x8xi32>
    %r = tile.reshape %t : tensor<48x8xi32> -> tensor<3x128xi32>
    tile.store %to, %r : tensor<3x128x!tile.ptr<i32>>, tensor<3x128xi32>
    return
  }
}

// -----

module attributes {cta.target = "sm_80"} {
  // CHECK-LABEL: func.func @out_of_place
  // CHECK: tile.reshape %{{.*}} : tensor<16x48xi32, #{{.*}}> -> tensor<768xi32, #{{.*}}>
  // CHECK-NOT: cta.convert_layout
  func.func @out_of_place(%p: !tile.ptr<i32>) attributes {cta.warps = 4 : i32} {
    %from = tile.splat %p : !tile.ptr<i32> -> tensor<16x48x!tile.ptr<i32>>
    %to = tile.splat %p : !tile.ptr<i32> -> tensor<768x!tile.ptr<i32>>
    %t = tile.load %from : tensor<16x48x!tile.ptr<i32>> -> tensor<16x48xi32>
    %r = tile.reshape %t : tensor<16x48xi32> -> tensor<768xi32>
    tile.store %to, %r : tensor<768x!tile.ptr<i32>>, tensor<768xi32>
    return
  }
}
