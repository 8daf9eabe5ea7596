// Segments whose ends a loop loads, and looks for, in each iteration: the engine copies them, by coordinates that each side of a
// partition computes for itself, or that an iteration computes for a later one.
// RUN: sectile-opt --split-input-file --sectile-pipeline %s -o %t.mlir 2>%t.err
// RUN: FileCheck %s --input-file %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK --allow-empty --input-file %t.err
// RUN: sectile-opt --split-input-file --check-channels %t.mlir -o /dev/null
// REMARK-NOT: copied by threads
// REMARK-NOT: through registers
// REMARK-NOT: warp_specialize

// Rows of a segment for each task, and the segment's keys beside them.
// CHECK-LABEL: func.func @tasks
// CHECK-SAME: extents = array<i64: -1, 64, 1, -1, 1073741824, 1, -1, 2147483647, 1, -1, 2147483647, 1>
// CHECK: cta.partition warps 4
// CHECK:   scf.for
// CHECK:     %[[FOUND:.*]] = scf.for
// CHECK:       tile.load {{.*}} : !tile.ptr<i32> -> i32
// CHECK:     tile.load {{.*}} : !tile.ptr<i32> -> i32
// CHECK:     tile.load {{.*}} : !tile.ptr<i32> -> i32
// CHECK:     cta.mbarrier_wait
// CHECK:     cta.tensor_copy
// CHECK:     scf.for
// CHECK:       cta.mbarrier_wait
// CHECK:       cta.tensor_copy
// CHECK: scf.for
// CHECK:   scf.for
// CHECK:     tile.load {{.*}} : !tile.ptr<i32> -> i32
// CHECK:   tile.load {{.*}} : !tile.ptr<i32> -> i32
// CHECK-NOT: cta.tensor_copy
// CHECK:   scf.for
// CHECK:     cta.dot_start

// The producer would copy fewer blocks of keys than are waited for if its segments ended elsewhere.
// RUN: sed '/cta.partition/,/^    }/s/arith.minsi \(%[0-9]*\), %arg2/arith.minsi \1, %c1_i32/' %t.mlir | not sectile-opt --split-input-file --check-channels 2>&1 | FileCheck %s --check-prefix=FEWER
// FEWER: error: 'cta.{{(mbarrier_wait|tensor_copy)}}' op

module attributes {cta.target = "sm_90a"} {
  func.func @tasks(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64},
                   %total: i32 {tile.below = 1000000 : i64}, %at: !tile.ptr<i32>, %z: !tile.ptr<f32> {tile.divisible = 16 : i64},
                   %tasks: i32, %halvings: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %pitch = arith.extsi %stride : i32 to i64
    scf.for %task = %c0 to %tasks step %c1 : i32 {
      %segment = scf.for %i = %c0 to %halvings step %c1 iter_args(%found = %c0) -> (i32) : i32 {
        %p = tile.addptr %at, %found : !tile.ptr<i32>, i32
        %v = tile.load %p : !tile.ptr<i32> -> i32
        %more = arith.cmpi slt, %v, %task : i32
        %next = arith.addi %found, %c1 : i32
        %new = arith.select %more, %next, %found : i32
        scf.yield %new : i32
      }
      %here = tile.addptr %at, %segment : !tile.ptr<i32>, i32
      %first = tile.load %here : !tile.ptr<i32> -> i32
      %positive = arith.maxsi %first, %c0 : i32
      %begin = arith.minsi %positive, %total : i32
      %there = tile.addptr %here, %c1 : !tile.ptr<i32>, i32
      %last = tile.load %there : !tile.ptr<i32> -> i32
      %length = arith.minsi %last, %total : i32
      %wide = arith.extsi %begin : i32 to i64
      %offset = arith.muli %wide, %pitch : i64
      %from = tile.addptr %x, %offset : !tile.ptr<f16>, i64
      %rows = tile.make_view %from, [%length, %c64], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %left = tile.load_block %rows[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %sums = scf.for %row = %c0 to %length step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
        %right = tile.load_block %rows[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %sum = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
        scf.yield %sum : tensor<64x64xf32>
      } {cta.warp_specialize = true}
      %down = arith.muli %task, %c64 : i32
      %tall = arith.muli %tasks, %c64 : i32
      %c = tile.make_view %z, [%tall, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
      tile.store_block %c[%down, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    } {cta.warp_specialize = true}
    return
  }
}

// -----

// Without a producer an iteration issues the copies of a later one, and computes their segments: loads beyond the last iteration
// are masked off.
// CHECK-LABEL: func.func @ahead
// CHECK: cta.tensor_copy
// CHECK: scf.for
// CHECK:   scf.for
// CHECK:     tile.load {{.*}} mask {{.*}} : !tile.ptr<i32> mask i1 -> i32
// CHECK:   %[[BEGIN:.*]] = tile.load {{.*}} mask {{.*}} : !tile.ptr<i32> mask i1 -> i32
// CHECK:   %[[LENGTH:.*]] = tile.load {{.*}} mask {{.*}} : !tile.ptr<i32> mask i1 -> i32
// CHECK:   cta.tensor_copy
// CHECK: return
module attributes {cta.target = "sm_90a"} {
  func.func @ahead(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64},
                   %total: i32 {tile.below = 1000000 : i64}, %at: !tile.ptr<i32>, %z: !tile.ptr<f32> {tile.divisible = 16 : i64},
                   %tasks: i32, %halvings: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %pitch = arith.extsi %stride : i32 to i64
    %sums = scf.for %task = %c0 to %tasks step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %segment = scf.for %i = %c0 to %halvings step %c1 iter_args(%found = %c0) -> (i32) : i32 {
        %p = tile.addptr %at, %found : !tile.ptr<i32>, i32
        %v = tile.load %p : !tile.ptr<i32> -> i32
        %more = arith.cmpi slt, %v, %task : i32
        %next = arith.addi %found, %c1 : i32
        %new = arith.select %more, %next, %found : i32
        scf.yield %new : i32
      }
      %here = tile.addptr %at, %segment : !tile.ptr<i32>, i32
      %first = tile.load %here : !tile.ptr<i32> -> i32
      %positive = arith.maxsi %first, %c0 : i32
      %begin = arith.minsi %positive, %total : i32
      %there = tile.addptr %here, %c1 : !tile.ptr<i32>, i32
      %last = tile.load %there : !tile.ptr<i32> -> i32
      %length = arith.minsi %last, %total : i32
      %wide = arith.extsi %begin : i32 to i64
      %offset = arith.muli %wide, %pitch : i64
      %from = tile.addptr %x, %offset : !tile.ptr<f16>, i64
      %rows = tile.make_view %from, [%length, %c64], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %left = tile.load_block %rows[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %rows[%c64, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %sum = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %sum : tensor<64x64xf32>
    }
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}
