// Views that end where the kernel says, as the segments of packed sequences: the engine copies them, and the buffer gets zeros
// beyond the segment's end. `length` comes from memory, as `begin` does.
// RUN: sectile-opt --sectile-pipeline %s 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --allow-empty --input-file %t.err
// REMARK-NOT: is copied by threads

// Four dimensions of the map are columns, the row in its segment of 2^30 rows that ends where the segment does, 2^30 rows less, whose
// stride is 2^34 bytes less a row's, and where the segment ends.
// CHECK: func.func @rows(
// CHECK-SAME: !cta.tensor_map {cta.tensor_map = {box = array<i64: 64, 64, 1, 1>, element_bytes = 2 : i64, extents = array<i64: -1, 64, 1, -1, 1073741824, 1, -1, 2147483647, 1, -1, 2147483647, 1>, pointer = 0 : i64, strides = array<i64: 1, 0, 1, 1, 8589934592, -1, 1, 0, 1>, swizzle = 128 : i64}}
// CHECK-DAG: %[[ROWS:.*]] = arith.constant 1073741824 : i32
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK: %[[BEGIN:.*]] = arith.minsi
// CHECK: %[[LENGTH:.*]] = arith.minsi
// A length may be negative, and is then none.
// CHECK: %[[CLAMPED:.*]] = arith.maxsi %[[LENGTH]], %[[ZERO]]
// CHECK: %[[END:.*]] = arith.addi %[[BEGIN]], %[[CLAMPED]]
// CHECK: %[[FIRST:.*]] = arith.subi %[[ROWS]], %[[CLAMPED]]
// CHECK: scf.for
// CHECK: %[[ROW:.*]] = arith.addi %[[FIRST]], %{{.*}} : i32
// CHECK: cta.tensor_copy %{{.*}}[%[[ZERO]], %[[ROW]], %[[ROWS]], %[[END]]]

// The segment lies across the rows of the operand, which is transposed, and begins with the argument.
// CHECK: func.func @columns(
// CHECK-SAME: extents = array<i64: -1, 64, 1, -1, 1073741824, 1, -1, 2147483647, 1, -1, 2147483647, 1>

// A block that may begin below the segment is a multiple of its rows away: all of it lies below, or nothing.
// CHECK: func.func @below(
// CHECK: %[[FIRST:.*]] = arith.subi
// CHECK: %[[INSIDE:.*]] = arith.minui %{{.*}}, %c1073741823_i32
// CHECK: %[[ROW:.*]] = arith.addi %[[FIRST]], %[[INSIDE]]
// CHECK: cta.tensor_copy %{{.*}}[%{{[^,]*}}, %[[ROW]], %c1073741824_i32, %{{[^,]*}}]

module attributes {cta.target = "sm_90a"} {
  func.func @rows(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64},
                  %total: i32 {tile.below = 1000000 : i64}, %at: !tile.ptr<i32>, %z: !tile.ptr<f32> {tile.divisible = 16 : i64})
      attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %first = tile.load %at : !tile.ptr<i32> -> i32
    %positive = arith.maxsi %first, %c0 : i32
    %begin = arith.minsi %positive, %total : i32
    %next = tile.addptr %at, %c1 : !tile.ptr<i32>, i32
    %given = tile.load %next : !tile.ptr<i32> -> i32
    %length = arith.minsi %given, %total : i32
    %wide = arith.extsi %begin : i32 to i64
    %pitch = arith.extsi %stride : i32 to i64
    %offset = arith.muli %wide, %pitch : i64
    %from = tile.addptr %x, %offset : !tile.ptr<f16>, i64
    %a = tile.make_view %from, [%length, %c64], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %row = %c0 to %length step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %left = tile.load_block %a[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %a[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %sum = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %sum : tensor<64x64xf32>
    }
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }

  func.func @columns(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64},
                     %total: i32 {tile.below = 1000000 : i64}, %at: !tile.ptr<i32>, %z: !tile.ptr<f32> {tile.divisible = 16 : i64})
      attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %given = tile.load %at : !tile.ptr<i32> -> i32
    %length = arith.minsi %given, %total : i32
    %a = tile.make_view %x, [%c64, %length], [%c1, %stride] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %x, [%length, %c64], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %row = %c0 to %length step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %left = tile.load_block %a[%c0, %row] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %sum = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %sum : tensor<64x64xf32>
    }
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }

  func.func @below(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64},
                   %total: i32 {tile.divisible = 16 : i64, tile.below = 1000000 : i64}, %block: i32, %at: !tile.ptr<i32>, %z: !tile.ptr<f32> {tile.divisible = 16 : i64})
      attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %given = tile.load %at : !tile.ptr<i32> -> i32
    %length = arith.minsi %given, %total : i32
    %row = arith.muli %block, %c64 : i32
    %a = tile.make_view %x, [%length, %total], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %k = %c0 to %total step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %left = tile.load_block %a[%row, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %a[%row, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %sum = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %sum : tensor<64x64xf32>
    }
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}
