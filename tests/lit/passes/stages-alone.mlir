// A block that shares its multiprocessor with no other, and whose dot in flight holds a slot, has four stages though it asks for
// three or two, as far as there is room: with the slot of the dot a ring of five. A tile of half the columns shares it.
// RUN: sectile-opt --sectile-pipeline %s | FileCheck %s --check-prefix=ALONE
// RUN: sed 's/cta.stages = 3/cta.stages = 6/' %s | sectile-opt --sectile-pipeline | FileCheck %s --check-prefix=DEEPER
// RUN: sed 's/64x128/64x64/g; s/128x128/128x64/g' %s | sectile-opt --sectile-pipeline | FileCheck %s --check-prefix=SHARED
// RUN: sed 's/cta.stages = 3/cta.stages = 2/; s/64x128/64x256/g; s/128x128/128x256/g; s/warps = 4/warps = 8/' %s | sectile-opt --sectile-pipeline | FileCheck %s --check-prefix=ROOM
// ALONE: cta.ring_slot %{{.*}} of 5
// DEEPER: cta.ring_slot %{{.*}} of 7
// SHARED: cta.ring_slot %{{.*}} of 4
// There is room for four slots of 48 KB.
// ROOM: cta.ring_slot %{{.*}} of 4

module attributes {cta.target = "sm_90a"} {
  func.func @product(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                     %extent: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64}, %z: !tile.ptr<f16> {tile.divisible = 16 : i64},
                     %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %a = tile.make_view %x, [%extent, %extent], [%extent, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %extent], [%extent, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%extent, %extent], [%extent, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %k = arith.muli %i, %c64 : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %next = tile.dot %left, %right, %acc : tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>
      scf.yield %next : tensor<128x128xf32>
    }
    %result = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xf16>
    tile.store_block %c[%c0, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x128xf16>
    return
  }
}
