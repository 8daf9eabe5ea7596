// Ends of segments that no other warp can load, or no iteration ahead of its own: those that the loop may write, those that a load
// has to give anew each time, and those found by a loop which may not end beyond the last iteration.
// RUN: sectile-opt --split-input-file --sectile-pipeline %s 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.err

// REMARK: remark: all warps do the same work: its copies depend on tile.load
// REMARK: remark: this load goes through registers to shared memory, not ahead of its loop: the loop may write to what its address depends on
// CHECK-LABEL: func.func @written
// CHECK-NOT: cta.partition
// CHECK: return
module attributes {cta.target = "sm_90a"} {
  func.func @written(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64},
                     %total: i32 {tile.below = 1000000 : i64}, %at: !tile.ptr<i32>, %z: !tile.ptr<f32> {tile.divisible = 16 : i64},
                     %tasks: i32, %halvings: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    scf.for %task = %c0 to %tasks step %c1 : i32 {
      %segment = scf.for %i = %c0 to %halvings step %c1 iter_args(%found = %c0) -> (i32) : i32 {
        %p = tile.addptr %at, %found : !tile.ptr<i32>, i32
        %v = tile.load %p : !tile.ptr<i32> -> i32
        %more = arith.cmpi slt, %v, %task : i32
        %next = arith.addi %found, %c1 : i32
        %new = arith.select %more, %next, %found : i32
        scf.yield %new : i32
      }
      %length = arith.minsi %segment, %total : i32
      %rows = tile.make_view %x, [%length, %c64], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %left = tile.load_block %rows[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %sums = scf.for %row = %c0 to %length step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
        %right = tile.load_block %rows[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %sum = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
        scf.yield %sum : tensor<64x64xf32>
      } {cta.warp_specialize = true}
      %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
      tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
      tile.store %at, %task : !tile.ptr<i32>, i32
    } {cta.warp_specialize = true}
    return
  }
}

// -----

// REMARK: remark: this load goes through registers to shared memory, not ahead of its loop: the loop orders memory
// CHECK-LABEL: func.func @volatile
// CHECK-NOT: tensor_copy
// CHECK: return
module attributes {cta.target = "sm_90a"} {
  func.func @volatile(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64},
                      %total: i32 {tile.below = 1000000 : i64}, %at: !tile.ptr<i32>, %z: !tile.ptr<f32> {tile.divisible = 16 : i64},
                      %tasks: i32, %halvings: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %task = %c0 to %tasks step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %segment = scf.for %i = %c0 to %halvings step %c1 iter_args(%found = %c0) -> (i32) : i32 {
        %p = tile.addptr %at, %found : !tile.ptr<i32>, i32
        %v = tile.load %p {isVolatile} : !tile.ptr<i32> -> i32
        scf.yield %v : i32
      }
      %length = arith.minsi %segment, %total : i32
      %rows = tile.make_view %x, [%length, %c64], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %left = tile.load_block %rows[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %sum = tile.dot %left, %left, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %sum : tensor<64x64xf32>
    }
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}

// -----

// A step of zero beyond the last iteration would never end.
// REMARK: remark: this load goes through registers to shared memory, not ahead of its loop: its address depends on scf.for
// CHECK-LABEL: func.func @endless
// CHECK-NOT: tensor_copy
// CHECK: return
module attributes {cta.target = "sm_90a"} {
  func.func @endless(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64},
                     %total: i32 {tile.below = 1000000 : i64}, %at: !tile.ptr<i32>, %z: !tile.ptr<f32> {tile.divisible = 16 : i64},
                     %tasks: i32, %halvings: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %task = %c0 to %tasks step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %step = arith.subi %tasks, %task : i32
      %segment = scf.for %i = %c0 to %halvings step %step iter_args(%found = %c0) -> (i32) : i32 {
        %p = tile.addptr %at, %found : !tile.ptr<i32>, i32
        %v = tile.load %p : !tile.ptr<i32> -> i32
        scf.yield %v : i32
      }
      %length = arith.minsi %segment, %total : i32
      %rows = tile.make_view %x, [%length, %c64], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %left = tile.load_block %rows[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %sum = tile.dot %left, %left, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %sum : tensor<64x64xf32>
    }
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}

// -----

// Nor need a loop without a count end there.
// REMARK: remark: this load goes through registers to shared memory, not ahead of its loop: its address depends on scf.while
// CHECK-LABEL: func.func @uncounted
// CHECK-NOT: tensor_copy
// CHECK: return
module attributes {cta.target = "sm_90a"} {
  func.func @uncounted(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64},
                     %total: i32 {tile.below = 1000000 : i64}, %at: !tile.ptr<i32>, %z: !tile.ptr<f32> {tile.divisible = 16 : i64},
                     %tasks: i32, %halvings: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %task = %c0 to %tasks step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %segment = scf.while (%found = %task) : (i32) -> i32 {
        %more = arith.cmpi slt, %found, %halvings : i32
        scf.condition(%more) %found : i32
      } do {
      ^bb0(%found: i32):
        %p = tile.addptr %at, %found : !tile.ptr<i32>, i32
        %v = tile.load %p : !tile.ptr<i32> -> i32
        scf.yield %v : i32
      }
      %length = arith.minsi %segment, %total : i32
      %rows = tile.make_view %x, [%length, %c64], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %left = tile.load_block %rows[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %sum = tile.dot %left, %left, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %sum : tensor<64x64xf32>
    }
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}

// -----

// A place that may be negative is none of the engine's coordinates.
// REMARK: remark: this load is copied by threads, not by the copy engine: its view is not known to begin at or after its argument
// CHECK-LABEL: func.func @negative
// CHECK-NOT: tensor_copy
// CHECK: return
module attributes {cta.target = "sm_90a"} {
  func.func @negative(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64},
                      %total: i32 {tile.below = 1000000 : i64}, %at: !tile.ptr<i32>, %z: !tile.ptr<f32> {tile.divisible = 16 : i64},
                      %tasks: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %pitch = arith.extsi %stride : i32 to i64
    %sums = scf.for %task = %c0 to %tasks step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %p = tile.addptr %at, %task : !tile.ptr<i32>, i32
      %v = tile.load %p : !tile.ptr<i32> -> i32
      %begin = arith.minsi %v, %total : i32
      %wide = arith.extsi %begin : i32 to i64
      %offset = arith.muli %wide, %pitch : i64
      %from = tile.addptr %x, %offset : !tile.ptr<f16>, i64
      %rows = tile.make_view %from, [%total, %c64], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %left = tile.load_block %rows[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %sum = tile.dot %left, %left, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %sum : tensor<64x64xf32>
    }
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}
