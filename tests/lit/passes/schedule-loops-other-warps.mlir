// Warps of their own have the engine make all copies of an iteration ahead of its first dot, though what the second dot reads is
// addressed only behind that: the addresses go ahead, too.
// RUN: sectile-opt --select-mma --assign-layouts --schedule-loops %s | FileCheck %s
// RUN: sectile-opt --sectile-pipeline %s | FileCheck %s --check-prefix=PARTITION

// CHECK-LABEL: func.func @two_dots
// CHECK: scf.for %[[I:.*]] = %c0_i32 to
// CHECK: %[[FIRST:.*]] = arith.muli %[[I]], %c64_i32
// CHECK: %[[OTHER:.*]] = arith.xori %[[I]], %c1_i32
// CHECK: %[[SECOND:.*]] = arith.muli %[[OTHER]], %c64_i32
// CHECK-NOT: cta.dot
// CHECK: cta.tensor_copy_block {{.*}}[%[[FIRST]], %{{.*}}]
// CHECK: cta.tensor_copy_block {{.*}}[%[[SECOND]], %{{.*}}]
// CHECK: cta.commit
// CHECK: cta.wait
// CHECK: cta.dot
// CHECK-NOT: arith.xori
// CHECK: cta.dot

// PARTITION: cta.partition warps 4
// PARTITION: scf.for
// PARTITION: arith.xori
// PARTITION-COUNT-4: cta.tensor_copy
// PARTITION-NOT: cta.tensor_copy
module attributes {cta.target = "sm_90a"} {
  func.func @two_dots(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                      %extent: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64}, %z: !tile.ptr<f32> {tile.divisible = 16 : i64},
                      %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %a = tile.make_view %x, [%c64, %extent], [%extent, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %k = arith.muli %i, %c64 {tile.fits} : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %first = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      %other = arith.xori %i, %c1 : i32
      %k2 = arith.muli %other, %c64 {tile.fits} : i32
      %left2 = tile.load_block %a[%c0, %k2] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right2 = tile.load_block %b[%k2, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %second = tile.dot %left2, %right2, %first : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %second : tensor<64x64xf32>
    } {cta.warp_specialize = true}
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}
