// Layouts around scans, and operands that dots read from shared memory.
// RUN: sectile-opt %s --assign-layouts --split-input-file | FileCheck %s

// A scan along the rows of a tile runs within threads: each has rows that follow each other, and
// lanes lie along the columns, where loads and stores are whole sectors, too.
// CHECK: #[[RUNS:.*]] = #cta.layout<"64x128, register [(0,1) (1,0) (2,0) (4,0) (8,0)], lane [(0,2) (0,4) (0,8) (0,16) (0,32)], warp [(0,64) (16,0) (32,0)]">
// CHECK-LABEL: func.func @down_columns
// CHECK: tile.load {{.*}} -> tensor<64x128xf32, #[[RUNS]]>
// CHECK-NOT: convert_layout
// CHECK: tile.scan {{.*}} (tensor<64x128xf32, #[[RUNS]]>)
// CHECK-NOT: convert_layout
// CHECK: tile.store
module attributes {cta.target = "sm_90a"} {
func.func @down_columns(%a: !tile.ptr<f32> {tile.divisible = 16 : i64}, %b: !tile.ptr<f32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
  %r = tile.arange 0 : tensor<64xi32>
  %c = tile.arange 0 : tensor<128xi32>
  %r1 = tile.expand_dims %r 1 : tensor<64xi32> -> tensor<64x1xi32>
  %c1 = tile.expand_dims %c 0 : tensor<128xi32> -> tensor<1x128xi32>
  %width = arith.constant dense<128> : tensor<64x1xi32>
  %row = arith.muli %r1, %width : tensor<64x1xi32>
  %rows = tile.broadcast %row : tensor<64x1xi32> -> tensor<64x128xi32>
  %columns = tile.broadcast %c1 : tensor<1x128xi32> -> tensor<64x128xi32>
  %at = arith.addi %rows, %columns : tensor<64x128xi32>
  %as = tile.splat %a : !tile.ptr<f32> -> tensor<64x128x!tile.ptr<f32>>
  %bs = tile.splat %b : !tile.ptr<f32> -> tensor<64x128x!tile.ptr<f32>>
  %pa = tile.addptr %as, %at : tensor<64x128x!tile.ptr<f32>>, tensor<64x128xi32>
  %pb = tile.addptr %bs, %at : tensor<64x128x!tile.ptr<f32>>, tensor<64x128xi32>
  %x = tile.load %pa : tensor<64x128x!tile.ptr<f32>> -> tensor<64x128xf32>
  %s = tile.scan %x 0 : (tensor<64x128xf32>) -> tensor<64x128xf32> {
  ^bb0(%left: f32, %right: f32):
    %sum = arith.addf %left, %right : f32
    tile.yield %sum : f32
  }
  tile.store %pb, %s : tensor<64x128x!tile.ptr<f32>>, tensor<64x128xf32>
  return
}
}

// -----

// What a warpgroup's instructions multiply is computed in the layout of the scan: they read it from
// shared memory. One conversion of the scan, to fragments of which both warpgroups hold the same,
// would be fewer than one of each operand.
// CHECK-LABEL: func.func @multiplied
// CHECK: tile.scan {{.*}} (tensor<64x128xf32, #[[RUNS:.*]]>)
// CHECK-NOT: convert_layout
// CHECK-COUNT-2: arith.mulf {{.*}} : tensor<64x128xf32, #[[RUNS]]>
module attributes {cta.target = "sm_90a"} {
func.func @multiplied(%a: !tile.ptr<f32> {tile.divisible = 16 : i64}, %b: !tile.ptr<f32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
  %r = tile.arange 0 : tensor<64xi32>
  %c = tile.arange 0 : tensor<128xi32>
  %r1 = tile.expand_dims %r 1 : tensor<64xi32> -> tensor<64x1xi32>
  %c1 = tile.expand_dims %c 0 : tensor<128xi32> -> tensor<1x128xi32>
  %k1 = tile.expand_dims %r 0 : tensor<64xi32> -> tensor<1x64xi32>
  %width = arith.constant dense<128> : tensor<64x1xi32>
  %row = arith.muli %r1, %width : tensor<64x1xi32>
  %rows = tile.broadcast %row : tensor<64x1xi32> -> tensor<64x128xi32>
  %columns = tile.broadcast %c1 : tensor<1x128xi32> -> tensor<64x128xi32>
  %at = arith.addi %rows, %columns : tensor<64x128xi32>
  %as = tile.splat %a : !tile.ptr<f32> -> tensor<64x128x!tile.ptr<f32>>
  %pa = tile.addptr %as, %at : tensor<64x128x!tile.ptr<f32>>, tensor<64x128xi32>
  %x = tile.load %pa : tensor<64x128x!tile.ptr<f32>> -> tensor<64x128xf32>
  %s = tile.scan %x 0 : (tensor<64x128xf32>) -> tensor<64x128xf32> {
  ^bb0(%left: f32, %right: f32):
    %sum = arith.addf %left, %right : f32
    tile.yield %sum : f32
  }
  %z = arith.addf %x, %x : tensor<64x128xf32>
  %w = arith.mulf %s, %z : tensor<64x128xf32>
  %n = arith.truncf %w : tensor<64x128xf32> to tensor<64x128xbf16>
  %y = arith.mulf %s, %x : tensor<64x128xf32>
  %m = arith.truncf %y : tensor<64x128xf32> to tensor<64x128xbf16>
  %t = tile.permute %m [1, 0] : tensor<64x128xbf16> -> tensor<128x64xbf16>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %e = cta.dot %m, %t, %zero by [64, 32, 16] : tensor<64x128xbf16>, tensor<128x64xbf16>, tensor<64x64xf32>
  %d = cta.dot %n, %t, %e by [64, 32, 16] : tensor<64x128xbf16>, tensor<128x64xbf16>, tensor<64x64xf32>
  %orow = tile.broadcast %r1 : tensor<64x1xi32> -> tensor<64x64xi32>
  %ocol = tile.broadcast %k1 : tensor<1x64xi32> -> tensor<64x64xi32>
  %sixty = arith.constant dense<64> : tensor<64x64xi32>
  %orows = arith.muli %orow, %sixty : tensor<64x64xi32>
  %oat = arith.addi %orows, %ocol : tensor<64x64xi32>
  %bs = tile.splat %b : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %pb = tile.addptr %bs, %oat : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  tile.store %pb, %d : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}
}
