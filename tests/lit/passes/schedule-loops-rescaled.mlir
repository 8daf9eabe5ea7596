// Sums that a loop rescales before each dot: it is complete in its iteration, and a producer
// partition copies for the next ones all the same.
// RUN: sectile-opt --sectile-pipeline %s 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.err
// REMARK: remark: this dot is complete in its own iteration: the loop does more with its sums than add to them

// CHECK: cta.partition warps 4
// CHECK: cta.tensor_copy
// CHECK: %[[LOOP:.*]]:2 = scf.for {{.*}} iter_args(%[[SUMS:[^ ]*]] =
// CHECK: %[[RESCALED:.*]] = arith.mulf %[[SUMS]],
// CHECK: cta.dot %{{.*}}, %{{.*}}, %[[RESCALED]]
// CHECK: cta.mbarrier_arrive

module attributes {cta.target = "sm_90a"} {
  func.func @rescaled(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %w: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i32
    %a = tile.make_view %x, [%c128, %extent], [%stride, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %d = tile.make_view %w, [%c128, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %half = arith.constant dense<0.5> : tensor<128x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %k = arith.muli %i, %depth {tile.fits} : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %rescaled = arith.mulf %acc, %half : tensor<128x128xf32>
      %next = tile.dot %left, %right, %rescaled : tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>
      scf.yield %next : tensor<128x128xf32>
    } {cta.warp_specialize = true}
    %result = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xf16>
    tile.store_block %d[%c0, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x128xf16>
    return
  }
}
