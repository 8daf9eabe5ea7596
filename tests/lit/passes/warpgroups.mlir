// A dot whose instructions read shared memory themselves: how its operands lie there, and the fence that they need.
// RUN: sectile-opt --sectile-pipeline %s | FileCheck %s
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=PTX

// Four steps along K, each of the whole width; B is turned.
// PTX: fence.proxy.async.shared::cta
// PTX: bar.sync
// PTX: wgmma.fence.sync.aligned
// PTX-COUNT-4: wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {{.*}} 1, 1, 0, 1;
// PTX-NOT: wgmma.mma_async
// PTX: wgmma.commit_group.sync.aligned
// PTX: wgmma.wait_group.sync.aligned 1
// PTX: wgmma.wait_group.sync.aligned 0

module attributes {cta.target = "sm_90a"} {
  // Threads copy, as the engine takes no address like %x's. Copies fill the ring; before the dot that reads it, each thread
  // fences what it copied, and all meet. Lines of 128 bytes, of A along K, of B along N.
  // CHECK-DAG: #[[$B:shared[0-9]*]] = #cta.layout<"64x128, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0) (0,64)]">
  // CHECK-DAG: #[[$A:shared[0-9]*]] = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
  // CHECK-LABEL: func.func @loop
  // CHECK: scf.for
  // CHECK: cta.async_wait
  // CHECK: cta.proxy_fence
  // CHECK-NEXT: cta.barrier
  // CHECK: cta.dot_start {{.*}} by [64, 128, 16] : !cta.buffer<64x64xf16, #[[$A]]>, !cta.buffer<64x128xf16, #[[$B]]>
  func.func @loop(%x: !tile.ptr<f16> {tile.divisible = 8 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %z: !tile.ptr<f32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c8 = arith.constant 8 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i64
    %c128 = arith.constant 128 : i64
    %one = arith.constant 1 : i64
    %extent = arith.constant 512 : i64
    %a = tile.make_view %x, [%c64, %extent], [%extent, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c128], [%c128, %one] : !tile.ptr<f32>, [i64, i64], [i64, i64] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %sums = scf.for %i = %c0 to %c8 step %c1 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
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
