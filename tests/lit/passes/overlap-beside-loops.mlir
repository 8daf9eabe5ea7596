// A dot that is in flight while a loop runs, whose own dot is in flight over the end of its iterations: the loop's was started
// last, so that a wait for it leaves none of the two.
// RUN: sectile-opt --sectile-pipeline %s | FileCheck %s
// CHECK: %[[BEFORE:.*]] = cta.dot_start
// CHECK: %[[LOOP:.*]] = scf.for
// CHECK: cta.dot_start
// CHECK-NEXT: cta.dots_wait 1
// CHECK: cta.dot_wait %[[LOOP]] :
// CHECK: cta.dot_wait %[[BEFORE]] :

module attributes {cta.target = "sm_90a"} {
  func.func @beside_a_loop(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                           %extent: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64}, %z: !tile.ptr<f32> {tile.divisible = 16 : i64},
                           %n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %a = tile.make_view %x, [%extent, %extent], [%extent, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %extent], [%extent, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%extent, %extent], [%extent, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %all = scf.for %t = %c0 to %n step %c1 iter_args(%before = %zero) -> (tensor<64x64xf32>) : i32 {
      %k = arith.muli %t, %c64 : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %halved = arith.negf %before : tensor<64x64xf32>
      %first = tile.dot %left, %right, %halved : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
        %next = tile.dot %right, %left, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
        scf.yield %next : tensor<64x64xf32>
      }
      tile.store_block %c[%k, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
      scf.yield %first : tensor<64x64xf32>
    } {cta.stages = 2 : i32}
    tile.store_block %c[%c64, %c0], %all : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}
