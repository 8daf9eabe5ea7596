// Sums that are added to memory, and whose result nobody asks for, are added by the copy engine.
// RUN: sectile-opt --sectile-pipeline %s | FileCheck %s
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=PTX

// The map says that its numbers are halves.
// CHECK: func.func @added
// CHECK-SAME: !cta.tensor_map {cta.tensor_map = {box = array<i64: 64, 64>, element_bytes = 2 : i64, extents = array<i64: -1, 128, 1, -1, 64, 1>, number = 1 : i64, pointer = 4 : i64, strides = array<i64: -1, 128, 1>, swizzle = 128 : i64, written}}
// CHECK: scf.for
// CHECK: cta.dot_wait
// CHECK: %[[FROM:.*]] = cta.alloc %{{.*}} {offset = 0 : i32} : !cta.buffer<64x128xf16
// CHECK-NEXT: cta.proxy_fence
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.tensor_store %{{.*}}[%c0_i32, %c0_i32], %[[FROM]] adds
// CHECK-NEXT: cta.tensor_store_wait %[[FROM]]
// CHECK-NEXT: return

// PTX-COUNT-2: cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group
// PTX: cp.async.bulk.commit_group
// PTX-NOT: red.global

module attributes {cta.target = "sm_90a"} {
  func.func @added(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i32
    %a = tile.make_view %x, [%c64, %extent], [%stride, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %k = arith.muli %i, %depth : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %result = arith.truncf %sums : tensor<64x128xf32> to tensor<64x128xf16>
    %old = tile.atomic_block fadd, %c[%c0, %c0], %result {order = 0 : i32} : !tile.view<2xf16>, [i32, i32], tensor<64x128xf16> -> tensor<64x128xf16>
    return
  }
}
