// Dots are complete in the order in which they were started: where a later one is waited for, an
// earlier one no longer counts as in flight, or ptxas would have them all wait (C7514).
// RUN: sectile-opt --sectile-pipeline %s | FileCheck %s

// CHECK: scf.for {{.*}} iter_args(%[[FIRST:[^ ]*]] = {{.*}}, %[[SECOND:[^ ]*]] = {{.*}}, %{{.*}} = {{.*}}, %{{.*}} = {{.*}})
// CHECK: %[[EARLIER:.*]] = cta.dot_start %[[A:[^,]*]], %{{[^,]*}}, %[[FIRST]]
// CHECK: %[[ADDED:.*]] = cta.dot_start
// CHECK: %[[LATER:.*]] = cta.dot_start %[[A]], %{{[^,]*}}, %[[SECOND]]
// CHECK: cta.dot_wait %[[EARLIER]] {pending = 2 : i32}
// CHECK-NEXT: %[[SUMS:.*]] = cta.dot_wait %[[ADDED]] {pending = 1 : i32}
// CHECK: cta.local_store %[[SUMS]],
// CHECK: cta.tensor_store {{.*}} adds
// CHECK: cta.dot_wait %[[LATER]] :

module attributes {cta.target = "sm_90a"} {
  func.func @in_order(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                      %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                      %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %w: !tile.ptr<f16> {tile.divisible = 16 : i64},
                      %u: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i32
    %a = tile.make_view %x, [%c128, %extent], [%stride, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c64], [%c64, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%extent, %c64], [%c64, %one] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %d = tile.make_view %w, [%c128, %c64], [%c64, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %e = tile.make_view %u, [%c64, %c64], [%c64, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %known = tile.load_block %e[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %sums:2 = scf.for %i = %c0 to %n step %c1 iter_args(%first = %zero, %second = %zero) -> (tensor<128x64xf32>, tensor<128x64xf32>) : i32 {
      %k = arith.muli %i, %depth {tile.fits} : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %product = tile.dot %left, %right, %zero : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      %half = arith.truncf %product : tensor<128x64xf32> to tensor<128x64xf16>
      %earlier = tile.dot %half, %known, %first : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      %added = tile.dot %left, %known, %zero : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      %later = tile.dot %half, %right, %second : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      %old = tile.atomic_block fadd, %c[%k, %c0], %added {order = 0 : i32} : !tile.view<2xf32>, [i32, i32], tensor<128x64xf32> -> tensor<128x64xf32>
      scf.yield %earlier, %later : tensor<128x64xf32>, tensor<128x64xf32>
    } {cta.warp_specialize = true}
    %both = arith.addf %sums#0, %sums#1 : tensor<128x64xf32>
    %result = arith.truncf %both : tensor<128x64xf32> to tensor<128x64xf16>
    tile.store_block %d[%c0, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
    return
  }
}
