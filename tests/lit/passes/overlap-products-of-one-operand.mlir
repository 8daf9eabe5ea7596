// Two products of one operand, as a gated layer has them: both are in flight while the next iteration begins, with a
// partition that copies and without.
// RUN: sectile-opt --sectile-pipeline %s | FileCheck %s --check-prefixes=CHECK,MADE
// RUN: sed 's/cta.warp_specialize = true/cta.warp_specialize = false/' %s | sectile-opt --sectile-pipeline | FileCheck %s
// CHECK-LABEL: func.func @gated
// MADE: cta.partition
// CHECK: scf.for
// CHECK: %[[ONE:.*]] = cta.dot_start
// CHECK-NEXT: %[[OTHER:.*]] = cta.dot_start
// CHECK: cta.dots_wait 2
// CHECK: scf.yield
// CHECK: cta.dot_wait
// CHECK: cta.dot_wait
module attributes {cta.target = "sm_90a"} {
  func.func @gated(%arg0: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg1: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg2: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg3: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg4: i32 {tile.below = 1073741824 : i64}, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg7: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg8: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg9: i32 {tile.below = 1073741824 : i64}, %arg10: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg11: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg12: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg13: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg14: i32 {tile.below = 1073741824 : i64}, %arg15: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg16: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg17: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg18: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg19: i32 {tile.below = 1073741824 : i64}) attributes {cta.stages = 3 : i32, cta.warps = 8 : i32, tile.kernel} {
    %c128_i32 = arith.constant 128 : i32
    %c0_i32 = arith.constant 0 : i32
    %c63_i32 = arith.constant 63 : i32
    %c64_i32 = arith.constant 64 : i32
    %cst = arith.constant dense<0.000000e+00> : tensor<128x64xf32>
    %c1_i32 = arith.constant 1 : i32
    %0 = tile.program_id 0
    %1 = tile.program_id 1
    %2 = arith.addi %arg2, %c63_i32 {tile.fits} : i32
    %3 = arith.divsi %2, %c64_i32 {tile.fits} : i32
    %4 = arith.muli %0, %c128_i32 {tile.fits} : i32
    %5 = tile.make_view %arg0, [%arg1, %arg2], [%arg3, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %6 = arith.muli %1, %c64_i32 {tile.fits} : i32
    %7 = tile.make_view %arg5, [%arg6, %arg7], [%arg8, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %8 = tile.make_view %arg10, [%arg11, %arg12], [%arg13, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %9:2 = scf.for %arg20 = %c0_i32 to %3 step %c1_i32 iter_args(%arg21 = %cst, %arg22 = %cst) -> (tensor<128x64xf32>, tensor<128x64xf32>)  : i32 {
      %13 = arith.muli %arg20, %c64_i32 {tile.fits} : i32
      %14 = tile.load_block %5[%4, %13] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
      %15 = tile.load_block %7[%13, %6] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %16 = tile.dot %14, %15, %arg21 : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      %17 = tile.load_block %8[%13, %6] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %18 = tile.dot %14, %17, %arg22 : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      scf.yield %16, %18 : tensor<128x64xf32>, tensor<128x64xf32>
    } {cta.warp_specialize = true}
    %10 = arith.mulf %9#0, %9#1 : tensor<128x64xf32>
    %11 = arith.truncf %10 : tensor<128x64xf32> to tensor<128x64xf16>
    %12 = tile.make_view %arg15, [%arg16, %arg17], [%arg18, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    tile.store_block %12[%4, %6], %11 : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
    return
  }
}

