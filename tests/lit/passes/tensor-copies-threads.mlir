// Buffers that the copy engine fills and threads read: by `ldmatrix`, which takes rows of the engine's swizzle without a
// conflict of banks. Any chip with an engine does that, whether or not code is for it alone.
// RUN: sed 's/TARGET/sm_90/' %s | sectile-opt --split-input-file --sectile-pipeline 2>%t.err | FileCheck %s --check-prefixes=CHECK,KEPT
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.err
// RUN: sed 's/TARGET/sm_100a/' %s | sectile-opt --split-input-file --sectile-pipeline 2>%t.err | FileCheck %s --check-prefixes=CHECK,MOVED
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.err
// RUN: sed 's/TARGET/sm_120/' %s | sectile-opt --split-input-file --sectile-pipeline 2>%t.err | FileCheck %s --check-prefixes=CHECK,KEPT
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.err
// RUN: sed 's/TARGET/sm_120a/' %s | sectile-opt --split-input-file --sectile-pipeline 2>%t.err | FileCheck %s --check-prefixes=CHECK,MOVED
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.err
// RUN: sed 's/TARGET/sm_89/' %s | sectile-opt --split-input-file --sectile-pipeline 2>&1 | FileCheck %s --check-prefix=THREADS
// THREADS-NOT: tensor_copy

// REMARK-NOT: remark: this load is copied by threads
// REMARK: remark: this load is copied by threads, not by the copy engine: threads would read the engine's swizzle with more bank conflicts
// REMARK-NOT: remark: this load is copied by threads

// What is overwritten has been read by threads: they fence and meet before the engine writes, which goes through another proxy.
// CHECK-LABEL: func.func @halves
// CHECK: cta.mbarriers {{.*}} : !cta.mbarriers<3>
// CHECK-NOT: cta.async_copy
// CHECK: cta.tensor_copy {{.*}} {expects = 24576 : i32}
// CHECK: scf.for
// CHECK: cta.mbarrier_wait
// CHECK: cta.proxy_fence
// CHECK-NEXT: cta.barrier
// CHECK: cta.tensor_copy
// CHECK: cta.dot {{.*}} by [16, 8, 16]
// CHECK-NOT: cta.async
module attributes {cta.target = "TARGET"} {
  func.func @halves(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %a = tile.make_view %x, [%c64, %extent], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c128], [%c128, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
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

// -----

// A partition of one warp makes the copies where threads keep their registers, and of four where they are moved.
// CHECK-LABEL: func.func @partition
// CHECK: cta.mbarriers {arrivals = 4 : i32
// KEPT: cta.partition warps 1 registers []
// MOVED: cta.partition warps 4 registers []
// CHECK: cta.tensor_copy
// CHECK: cta.dot {{.*}} by [16, 8, 16]
// CHECK: cta.mbarrier_arrive
module attributes {cta.target = "TARGET"} {
  func.func @partition(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %a = tile.make_view %x, [%c64, %extent], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c128], [%c128, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %k = arith.muli %i, %depth : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    } {cta.warp_specialize = true}
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x128xf32>
    return
  }
}

// -----

// Elements of 32 bits across K are read one by one: there a buffer that is made for that is better.
// CHECK-LABEL: func.func @across
// CHECK-NOT: cta.tensor_copy
// CHECK: cta.async_copy
// CHECK-NOT: cta.tensor_copy
module attributes {cta.target = "TARGET"} {
  func.func @across(%x: !tile.ptr<f32> {tile.divisible = 16 : i64}, %y: !tile.ptr<f32> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 32 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %a = tile.make_view %x, [%c64, %extent], [%stride, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %c = tile.make_view %z, [%c64, %c128], [%c128, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %k = arith.muli %i, %depth : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf32>, [i32, i32] -> tensor<64x32xf32>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf32>, [i32, i32] -> tensor<32x128xf32>
      %next = tile.dot %left, %right, %acc : tensor<64x32xf32>, tensor<32x128xf32>, tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x128xf32>
    return
  }
}
