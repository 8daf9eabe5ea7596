// What a dot reads is copied ahead though the loop computes with it, too, as the squares of a norm beside a product.
// Threads read it from the slot that the dot reads.
// RUN: sectile-opt --sectile-pipeline %s 2>%t.err | FileCheck %s --implicit-check-not=tile.load
// RUN: sed 's/cta.specialized/cta.warp_specialize/' %s | sectile-opt --sectile-pipeline | FileCheck %s --check-prefixes=CHECK,PRODUCER
// RUN: sed 's/target = "sm_90a"/target = "sm_80"/' %s | sectile-opt --sectile-pipeline | FileCheck %s --check-prefix=THREADS
// RUN: sed 's/target = "sm_90a"/target = "gfx942"/' %s | sectile-opt --sectile-pipeline 2>&1 | FileCheck %s --check-prefix=REGISTERS
// RUN: FileCheck %s --check-prefix=REMARK --allow-empty --input-file %t.err
// REMARK-NOT: remark

// PRODUCER: cta.partition
// PRODUCER-COUNT-2: cta.tensor_copy
// CHECK: scf.for
// PRODUCER-NOT: cta.barrier
// CHECK: cta.mbarrier_wait
// CHECK: %[[TILE:.*]] = cta.local_load %[[SLOT:[^ ]*]] : !cta.buffer<128x64xf16
// CHECK: arith.mulf %[[TILE]], %[[TILE]]
// CHECK: cta.dot_start %[[SLOT]],
// CHECK: scf.yield

// THREADS: scf.for
// THREADS: cta.async_wait
// THREADS-COUNT-2: cta.async_copy
// THREADS: %[[TILE:.*]] = cta.local_load %[[SLOT:[^ ]*]] : !cta.buffer<128x64xf16
// THREADS: arith.mulf %[[TILE]], %[[TILE]]
// THREADS: cta.dot %[[SLOT]],
// THREADS: scf.yield

// REGISTERS: this load goes through registers to shared memory, not ahead of its loop: it is also used by arith.mulf

module attributes {cta.target = "sm_90a"} {
  func.func @norm(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %w: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %a = tile.make_view %x, [%c128, %extent], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %d = tile.make_view %w, [%c128, %c128], [%c128, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %none = arith.constant dense<0.0> : tensor<128x64xf16>
    %sums:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %squares = %none) -> (tensor<128x128xf32>, tensor<128x64xf16>) : i32 {
      %k = arith.muli %i, %depth {tile.fits} : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %square = arith.mulf %left, %left : tensor<128x64xf16>
      %more = arith.addf %squares, %square : tensor<128x64xf16>
      %next = tile.dot %left, %right, %acc : tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>
      scf.yield %next, %more : tensor<128x128xf32>, tensor<128x64xf16>
    } {cta.specialized = true}
    %norm = tile.reduce %sums#1 1 : (tensor<128x64xf16>) -> tensor<128xf16> {
    ^bb0(%p: f16, %q: f16):
      %s = arith.addf %p, %q : f16
      tile.yield %s : f16
    }
    %column = tile.expand_dims %norm 1 : tensor<128xf16> -> tensor<128x1xf16>
    %wide = tile.broadcast %column : tensor<128x1xf16> -> tensor<128x128xf16>
    %product = arith.truncf %sums#0 : tensor<128x128xf32> to tensor<128x128xf16>
    %result = arith.divf %product, %wide : tensor<128x128xf16>
    tile.store_block %d[%c0, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x128xf16>
    return
  }
}
