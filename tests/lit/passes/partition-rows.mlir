// Rows of numbers beside the operands of dots: the engine copies them, too, and threads read them from
// shared memory when they are needed. Rows that it cannot copy stay loads of the loop.
// RUN: sectile-opt --split-input-file --sectile-pipeline %s -o %t.mlir 2>%t.err
// RUN: FileCheck %s --input-file %t.mlir
// RUN: FileCheck %s --input-file %t.err --check-prefix=REMARK

// CHECK-LABEL: func.func @weighted
// CHECK: cta.partition
// CHECK-COUNT-3: cta.tensor_copy
// That of the last iteration, whose second dot comes after the loop.
// CHECK: scf.for
// CHECK: cta.tensor_copy
// CHECK-NOT: cta.tensor_copy
// CHECK: cta.mbarrier_wait
// CHECK-NOT: tile.load
// CHECK-COUNT-2: cta.dot_start
// CHECK: cta.local_load {{.*}}<64xf32
// CHECK: cta.dot_wait
// CHECK: cta.mbarrier_arrive
// CHECK: arith.mulf
module attributes {cta.target = "sm_90a"} {
  func.func @weighted(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %w: !tile.ptr<f32> {tile.divisible = 16 : i64}, %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %steps: i32)
      attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c1024 = arith.constant 1024 : i32
    %a = tile.make_view %x, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %weights = tile.make_view %w, [%c1024], [%c1] : !tile.ptr<f32>, [i32], [i32] -> !tile.view<1xf32>
    %c = tile.make_view %z, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %l = tile.load_block %a[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
    %sums = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = arith.muli %i, %c64 : i32
      %r = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %s = tile.load_block %a[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %row = tile.load_block %weights[%k] : !tile.view<1xf32>, [i32] -> tensor<64xf32>
      %one = tile.expand_dims %row 0 : tensor<64xf32> -> tensor<1x64xf32>
      %all = tile.broadcast %one : tensor<1x64xf32> -> tensor<128x64xf32>
      %turned = tile.permute %r [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %first = tile.dot %l, %turned, %zero : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      %scaled = arith.mulf %first, %all : tensor<128x64xf32>
      %packed = arith.truncf %scaled : tensor<128x64xf32> to tensor<128x64xf16>
      %dot = tile.dot %packed, %s, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      scf.yield %dot : tensor<128x64xf32>
    } {cta.warp_specialize = true}
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<128x64xf32>
    return
  }
}

// -----

// The row's address is not known to be a multiple of 16 bytes.
// REMARK: remark: this load stays in its loop, beside those of the copy engine: its address is not known to be a multiple of 16 bytes
// CHECK-LABEL: func.func @anywhere
// CHECK: cta.partition
// CHECK-COUNT-2: cta.tensor_copy
// CHECK-NOT: cta.tensor_copy
// CHECK: scf.for
// CHECK: tile.load {{.*}}<64x!tile.ptr<f32>
// CHECK: cta.mbarrier_wait
// CHECK: cta.dot
module attributes {cta.target = "sm_90a"} {
  func.func @anywhere(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %w: !tile.ptr<f32>, %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %steps: i32)
      attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c1024 = arith.constant 1024 : i32
    %a = tile.make_view %x, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %weights = tile.make_view %w, [%c1024], [%c1] : !tile.ptr<f32>, [i32], [i32] -> !tile.view<1xf32>
    %c = tile.make_view %z, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %l = tile.load_block %a[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
    %sums = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = arith.muli %i, %c64 : i32
      %r = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %s = tile.load_block %a[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %row = tile.load_block %weights[%k] : !tile.view<1xf32>, [i32] -> tensor<64xf32>
      %one = tile.expand_dims %row 0 : tensor<64xf32> -> tensor<1x64xf32>
      %all = tile.broadcast %one : tensor<1x64xf32> -> tensor<128x64xf32>
      %turned = tile.permute %r [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %first = tile.dot %l, %turned, %zero : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      %scaled = arith.mulf %first, %all : tensor<128x64xf32>
      %packed = arith.truncf %scaled : tensor<128x64xf32> to tensor<128x64xf16>
      %dot = tile.dot %packed, %s, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      scf.yield %dot : tensor<128x64xf32>
    } {cta.warp_specialize = true}
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<128x64xf32>
    return
  }
}
