// RUN: sectile-opt %s --assign-layouts --schedule-loops | FileCheck %s

// What a loop loads for matrix instructions is not loaded in their layout, even where that costs no
// more: through a buffer it can come ahead of its use.
// CHECK-LABEL: func.func @product
// CHECK-COUNT-2: cta.channel
// CHECK: scf.for
// CHECK-NOT: tile.load
// CHECK: cta.dot %{{.*}} : !cta.buffer<128x16xf32, {{.*}}>, !cta.buffer<16x128xf32,
module attributes {cta.target = "sm_80"} {
func.func @product(%a: !tile.ptr<f32> {tile.divisible = 16 : i64}, %b: !tile.ptr<f32> {tile.divisible = 16 : i64}, %c: !tile.ptr<f32> {tile.divisible = 16 : i64}, %k: i32 {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c16 = arith.constant 16 : i32
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %wide = tile.arange 0 : tensor<128xi32>
  %deep = tile.arange 0 : tensor<16xi32>
  %rows = tile.expand_dims %wide 1 : tensor<128xi32> -> tensor<128x1xi32>
  %columns = tile.expand_dims %wide 0 : tensor<128xi32> -> tensor<1x128xi32>
  %rowsk = tile.expand_dims %deep 1 : tensor<16xi32> -> tensor<16x1xi32>
  %columnsk = tile.expand_dims %deep 0 : tensor<16xi32> -> tensor<1x16xi32>
  %c128 = arith.constant dense<128> : tensor<16x1xi32>
  %c128w = arith.constant dense<128> : tensor<128x1xi32>
  %ks = tile.splat %k : i32 -> tensor<128x1xi32>
  %arow = arith.muli %rows, %ks : tensor<128x1xi32>
  %arows = tile.broadcast %arow : tensor<128x1xi32> -> tensor<128x16xi32>
  %acolumns = tile.broadcast %columnsk : tensor<1x16xi32> -> tensor<128x16xi32>
  %aindex = arith.addi %arows, %acolumns : tensor<128x16xi32>
  %brow = arith.muli %rowsk, %c128 : tensor<16x1xi32>
  %brows = tile.broadcast %brow : tensor<16x1xi32> -> tensor<16x128xi32>
  %bcolumns = tile.broadcast %columns : tensor<1x128xi32> -> tensor<16x128xi32>
  %bindex = arith.addi %brows, %bcolumns : tensor<16x128xi32>
  %as = tile.splat %a : !tile.ptr<f32> -> tensor<128x16x!tile.ptr<f32>>
  %pa = tile.addptr %as, %aindex : tensor<128x16x!tile.ptr<f32>>, tensor<128x16xi32>
  %bs = tile.splat %b : !tile.ptr<f32> -> tensor<16x128x!tile.ptr<f32>>
  %pb = tile.addptr %bs, %bindex : tensor<16x128x!tile.ptr<f32>>, tensor<16x128xi32>
  %r = scf.for %i = %c0 to %k step %c16 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
    %ia = tile.splat %i : i32 -> tensor<128x16xi32>
    %pai = tile.addptr %pa, %ia : tensor<128x16x!tile.ptr<f32>>, tensor<128x16xi32>
    %ib = tile.splat %i : i32 -> tensor<16x128xi32>
    %pbi = tile.addptr %pb, %ib : tensor<16x128x!tile.ptr<f32>>, tensor<16x128xi32>
    %va = tile.load %pai : tensor<128x16x!tile.ptr<f32>> -> tensor<128x16xf32>
    %vb = tile.load %pbi : tensor<16x128x!tile.ptr<f32>> -> tensor<16x128xf32>
    %d = cta.dot %va, %vb, %acc by [16, 8, 8] : tensor<128x16xf32>, tensor<16x128xf32>, tensor<128x128xf32>
    scf.yield %d : tensor<128x128xf32>
  }
  %crow = arith.muli %rows, %c128w : tensor<128x1xi32>
  %crows = tile.broadcast %crow : tensor<128x1xi32> -> tensor<128x128xi32>
  %ccolumns = tile.broadcast %columns : tensor<1x128xi32> -> tensor<128x128xi32>
  %cindex = arith.addi %crows, %ccolumns : tensor<128x128xi32>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<128x128x!tile.ptr<f32>>
  %pc = tile.addptr %cs, %cindex : tensor<128x128x!tile.ptr<f32>>, tensor<128x128xi32>
  tile.store %pc, %r : tensor<128x128x!tile.ptr<f32>>, tensor<128x128xf32>
  return
}
}
