// Buffers that the copy engine fills: one mbarrier for what is waited for together, a phase of it for each use of a slot.
// RUN: sectile-opt --sectile-pipeline %s | FileCheck %s
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=PTX

// PTX: .param .align 64 .b8 loop_param_{{.*}}[128]
// PTX-COUNT-4: mbarrier.init.shared.b64
// PTX: fence.proxy.async.shared::cta
// PTX: bar.sync
// PTX: mbarrier.arrive.expect_tx.shared.b64
// PTX-COUNT-3: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
// PTX: mbarrier.try_wait.parity.shared::cta.b64

// A map takes the view's numbers from arguments; A is contiguous along its second dimension, which comes first there.
// CHECK: func.func @loop(%[[X:.*]]: !tile.ptr<f16>
// CHECK-SAME: !cta.tensor_map {cta.tensor_map = {box = array<i64: 64, 64>, element_bytes = 2 : i64, extents = array<i64: 2, 0, 1, -1, 64, 1>, pointer = 0 : i64, strides = array<i64: 3, 0, 1>, swizzle = 128 : i64}}
// CHECK: %[[BARRIERS:.*]] = cta.mbarriers {{.*}} : !cta.mbarriers<4>
// CHECK-NEXT: cta.barrier
// What a use gets in all, 8192 and 16384 bytes, is said with its first copy.
// CHECK: cta.tensor_copy {{.*}} signals %[[BARRIERS]]{{.*}} {expects = 24576 : i32}
// CHECK-NOT: expects
// CHECK: cta.tensor_copy {{.*}} signals %[[BARRIERS]]
// CHECK: scf.for {{.*}} iter_args({{.*}}, %[[USE:.*]] = %{{.*}}) ->
// CHECK: %[[SLOT:.*]] = cta.ring_slot %[[USE]] of 4
// CHECK: %[[PARITY:.*]] = cta.ring_parity %[[USE]] of 4
// CHECK: cta.mbarrier_wait %[[BARRIERS]][%[[SLOT]]] parity %[[PARITY]]
// What is overwritten has been read, and needs no fence: the dots that read it went through the same proxy.
// CHECK-NOT: cta.proxy_fence
// CHECK: cta.barrier
// CHECK: cta.tensor_copy
// CHECK: cta.dot_start
// CHECK-NOT: cta.async_wait

module attributes {cta.target = "sm_90a"} {
  func.func @loop(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i32
    %a = tile.make_view %x, [%c64, %extent], [%stride, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c128], [%c128, %one] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %k = arith.muli %i, %depth : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x128xf32>
    return
  }
}
