// RUN: sectile-opt %s --assign-layouts | FileCheck %s

// Rows that mask what is loaded before a loop of dots and what is stored behind it are converted
// themselves. The mask of all columns would be kept in registers beside the loop's.
// CHECK-LABEL: func.func @rows
// CHECK-NOT: convert_layout {{.*}}tensor<64x512xi1
// CHECK: tile.store
// CHECK-NOT: convert_layout {{.*}}tensor<64x512xi1
module attributes {cta.target = "sm_90a"} {
func.func @rows(%a: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %b: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %c: !tile.ptr<bf16>, %heads: i32, %count: i32, %n: i32, %steps: i32) attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x512xf32>
  %numbers = tile.arange 0 : tensor<64xi32>
  %hs = tile.splat %heads : i32 -> tensor<64xi32>
  %row = arith.divsi %numbers, %hs : tensor<64xi32>
  %counts = tile.splat %count : i32 -> tensor<64xi32>
  %there = arith.cmpi slt, %row, %counts : tensor<64xi32>
  %there1 = tile.expand_dims %there 1 : tensor<64xi1> -> tensor<64x1xi1>
  %mask = tile.broadcast %there1 : tensor<64x1xi1> -> tensor<64x512xi1>
  %wide = tile.arange 0 : tensor<512xi32>
  %columns = tile.expand_dims %wide 0 : tensor<512xi32> -> tensor<1x512xi32>
  %rows = tile.expand_dims %numbers 1 : tensor<64xi32> -> tensor<64x1xi32>
  %c512 = arith.constant dense<512> : tensor<64x1xi32>
  %begin = arith.muli %rows, %c512 : tensor<64x1xi32>
  %begins = tile.broadcast %begin : tensor<64x1xi32> -> tensor<64x512xi32>
  %across = tile.broadcast %columns : tensor<1x512xi32> -> tensor<64x512xi32>
  %index = arith.addi %begins, %across : tensor<64x512xi32>
  %as = tile.splat %a : !tile.ptr<bf16> -> tensor<64x512x!tile.ptr<bf16>>
  %pa = tile.addptr %as, %index : tensor<64x512x!tile.ptr<bf16>>, tensor<64x512xi32>
  %q = tile.load %pa mask %mask : tensor<64x512x!tile.ptr<bf16>> mask tensor<64x512xi1> -> tensor<64x512xbf16>
  %bs = tile.splat %b : !tile.ptr<bf16> -> tensor<64x512x!tile.ptr<bf16>>
  %pb = tile.addptr %bs, %index : tensor<64x512x!tile.ptr<bf16>>, tensor<64x512xi32>
  %sum0 = arith.constant dense<0.0> : tensor<64x64xf32>
  %r = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (tensor<64x512xf32>) : i32 {
    %k = tile.load %pb : tensor<64x512x!tile.ptr<bf16>> -> tensor<64x512xbf16>
    %kt = tile.permute %k [1, 0] : tensor<64x512xbf16> -> tensor<512x64xbf16>
    %s = cta.dot %q, %kt, %sum0 by [64, 32, 16] : tensor<64x512xbf16>, tensor<512x64xbf16>, tensor<64x64xf32>
    %p = arith.truncf %s : tensor<64x64xf32> to tensor<64x64xbf16>
    %o = cta.dot %p, %k, %acc by [64, 256, 16] : tensor<64x64xbf16>, tensor<64x512xbf16>, tensor<64x512xf32>
    scf.yield %o : tensor<64x512xf32>
  }
  %cs = tile.splat %c : !tile.ptr<bf16> -> tensor<64x512x!tile.ptr<bf16>>
  %strides = tile.splat %n : i32 -> tensor<64x1xi32>
  %start = arith.muli %rows, %strides : tensor<64x1xi32>
  %starts = tile.broadcast %start : tensor<64x1xi32> -> tensor<64x512xi32>
  %place = arith.addi %starts, %across : tensor<64x512xi32>
  %pc = tile.addptr %cs, %place : tensor<64x512x!tile.ptr<bf16>>, tensor<64x512xi32>
  %ns = tile.splat %n : i32 -> tensor<1x512xi32>
  %within = arith.cmpi slt, %columns, %ns : tensor<1x512xi32>
  %inside = tile.broadcast %within : tensor<1x512xi1> -> tensor<64x512xi1>
  %both = arith.andi %mask, %inside : tensor<64x512xi1>
  %out = arith.truncf %r : tensor<64x512xf32> to tensor<64x512xbf16>
  tile.store %pc, %out mask %both : tensor<64x512x!tile.ptr<bf16>>, tensor<64x512xbf16> mask tensor<64x512xi1>
  return
}
}
