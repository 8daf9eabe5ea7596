// Sums that each iteration adds to memory, beside copies of a producer partition: the engine reads
// them while the next step computes, and additions need not wait for each other.
// RUN: sectile-opt --sectile-pipeline %s | FileCheck %s
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=PTX

// The map says that its numbers are floats.
// CHECK: !cta.tensor_map {cta.tensor_map = {box = array<i64: 32, 128>, element_bytes = 4 : i64,{{.*}} number = 3 : i64, pointer = 4 : i64
// CHECK: %[[BUFFER:.*]] = cta.alloc {{.*}}!cta.buffer<128x128xf32
// CHECK: scf.for {{.*}} %[[STORED:arg[0-9]+]] = %false)
// CHECK: %[[PRODUCT:.*]] = cta.dot
// CHECK: cta.tensor_store_wait %[[BUFFER]] when %[[STORED]] :
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.local_store %[[PRODUCT]], %[[BUFFER]]
// CHECK-NEXT: cta.proxy_fence
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.tensor_store {{.*}}, %[[BUFFER]] adds
// CHECK: scf.yield {{.*}}, %true
// CHECK: cta.tensor_store_wait %[[BUFFER]] when

// PTX: cp.async.bulk.wait_group.read 0;
// PTX: cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group

module attributes {cta.target = "sm_90a"} {
  func.func @added(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %w: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i32
    %a = tile.make_view %x, [%c128, %extent], [%stride, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%extent, %c128], [%c128, %one] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %d = tile.make_view %w, [%c128, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %k = arith.muli %i, %depth {tile.fits} : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %product = tile.dot %left, %right, %zero : tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>
      %next = tile.dot %left, %right, %acc : tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>
      %old = tile.atomic_block fadd, %c[%k, %c0], %product {order = 0 : i32} : !tile.view<2xf32>, [i32, i32], tensor<128x128xf32> -> tensor<128x128xf32>
      scf.yield %next : tensor<128x128xf32>
    } {cta.warp_specialize = true}
    %result = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xf16>
    tile.store_block %d[%c0, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x128xf16>
    return
  }
}
