// One matrix of many after another: its number is a coordinate of the tensor map, and the uses of the ring go on from one
// product to the next, as the phases of its mbarriers do.
// RUN: sectile-opt --sectile-pipeline %s | FileCheck %s
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=PTX

// PTX: cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes

// How many there are is not known; no coordinate reaches the extent that stands for it. Boxes of 96 lines are no power of two.
// CHECK: func.func @many(%[[X:[a-z0-9]*]]: !tile.ptr<f16>
// CHECK-SAME: box = array<i64: 64, 96, 1>, element_bytes = 2 : i64, extents = array<i64: 2, 0, 1, -1, 96, 1, -1, 2147483647, 1>, pointer = 0 : i64, strides = array<i64: 3, 0, 1, 4, 0, 1>, swizzle = 128 : i64
// CHECK: cta.mbarriers
// CHECK: scf.for %[[MATRIX:[a-z0-9]*]] = {{.*}} iter_args(%[[BEGIN:[a-z0-9]*]] = %c0_i32) -> (i32)
// CHECK: cta.tensor_copy %{{[a-z0-9]*}}[%c0_i32, %c0_i32, %[[MATRIX]]]
// CHECK: %[[INNER:[0-9]*]]:2 = scf.for {{.*}} iter_args(%{{[a-z0-9]*}} = %{{.*}}, %[[USE:[a-z0-9]*]] = %[[BEGIN]])
// CHECK: cta.ring_parity %[[USE]]
// CHECK: cta.mbarrier_wait
// CHECK: cta.barrier
// CHECK: cta.tensor_copy %{{[a-z0-9]*}}[%{{[a-z0-9_]*}}, %c0_i32, %[[MATRIX]]]
// CHECK: scf.yield %[[INNER]]#1 : i32

module attributes {cta.target = "sm_90a"} {
  func.func @many(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64},
                  %pitch: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64},
                  %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32, %matrices: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c96 = arith.constant 96 : i32
    %c64 = arith.constant 64 : i32
    %b = tile.make_view %y, [%c64, %extent], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<64x96xf32>
    %wide = arith.extsi %pitch : i32 to i64
    scf.for %matrix = %c0 to %matrices step %c1 : i32 {
      %which = arith.extsi %matrix : i32 to i64
      %offset = arith.muli %which, %wide : i64
      %from = tile.addptr %x, %offset : !tile.ptr<f16>, i64
      %a = tile.make_view %from, [%c96, %extent], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x96xf32>) : i32 {
        %k = arith.muli %i, %depth : i32
        %left = tile.load_block %b[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %columns = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<96x64xf16>
        %right = tile.permute %columns [1, 0] : tensor<96x64xf16> -> tensor<64x96xf16>
        %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x96xf16>, tensor<64x96xf32>
        scf.yield %next : tensor<64x96xf32>
      }
      %to = tile.addptr %z, %offset : !tile.ptr<f32>, i64
      %c = tile.make_view %to, [%c64, %c96], [%c96, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
      tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x96xf32>
    }
    return
  }
}
