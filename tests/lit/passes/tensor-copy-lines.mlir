// A tile of two dimensions that has the lines of a block of more: the engine copies the block's box, and its lines lie one behind the
// other. Stores go the other way.
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: sectile-opt --check-channels %t.mlir -o /dev/null
// RUN: sed 's/sm_90a/sm_89/' %s | sectile-opt --sectile-pipeline 2>&1 | FileCheck %s --check-prefix=THREADS

// CHECK-LABEL: func.func @pixels
// The channel is the map's first dimension, then columns, rows and images; a box has 64 channels of 16 columns in 8 rows.
// CHECK-SAME: box = array<i64: 64, 16, 8, 1>
// CHECK: cta.tensor_copy %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}], %{{.*}} : !cta.tensor_map, !cta.buffer<128x64xf16
// CHECK-NOT: tile.reshape
// CHECK: cta.tensor_store %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}], %{{.*}} : !cta.tensor_map, !cta.buffer<128x64xf16

// THREADS-LABEL: func.func @pixels
// THREADS: tile.reshape
// THREADS-NOT: cta.tensor_copy

module attributes {cta.target = "sm_90a"} {
  func.func @pixels(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %w: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                    %rows: i32 {tile.below = 1073741824 : i64}, %channels: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64},
                    %rowStride: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64}, %n: i32)
      attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c8 = arith.constant 8 : i32
    %cm1 = arith.constant -1 : i32
    %c64 = arith.constant 64 : i32
    %image = tile.make_view %x, [%rows, %rows, %rows, %channels], [%rowStride, %rowStride, %channels, %c1] : !tile.ptr<f16>, [i32, i32, i32, i32], [i32, i32, i32, i32] -> !tile.view<4xf16>
    %out = tile.make_view %y, [%rows, %rows, %rows, %channels], [%rowStride, %rowStride, %channels, %c1] : !tile.ptr<f16>, [i32, i32, i32, i32], [i32, i32, i32, i32] -> !tile.view<4xf16>
    %filters = tile.make_view %w, [%channels, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = arith.muli %i, %c64 : i32
      %block = tile.load_block %image[%c0, %cm1, %cm1, %k] : !tile.view<4xf16>, [i32, i32, i32, i32] -> tensor<1x8x16x64xf16>
      %left = tile.reshape %block : tensor<1x8x16x64xf16> -> tensor<128x64xf16>
      %right = tile.load_block %filters[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %next = tile.dot %left, %right, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      scf.yield %next : tensor<128x64xf32>
    }
    %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
    %pixels = tile.reshape %result : tensor<128x64xf16> -> tensor<1x8x16x64xf16>
    tile.store_block %out[%c0, %c0, %c0, %c0], %pixels : !tile.view<4xf16>, [i32, i32, i32, i32], tensor<1x8x16x64xf16>
    return
  }
}
