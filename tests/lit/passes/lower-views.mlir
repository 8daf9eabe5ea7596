// RUN: sectile-opt --lower-views --split-input-file --verify-diagnostics %s | FileCheck %s

// The scalar part of the address goes into the pointer, and steps within the block follow, dimension by dimension: in 64
// bits, but for strides that are small constants. A stride that is the constant 1 is not multiplied by.
// CHECK-LABEL: func.func @load
// CHECK-SAME: %[[P:.*]]: !tile.ptr<f16>, %[[M:.*]]: i32, %[[N:.*]]: i64, %[[S:.*]]: i64
// CHECK-DAG: %[[I:.*]] = tile.program_id 0
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : i32
// CHECK: %[[IW:.*]] = arith.extsi %[[I]] : i32 to i64
// CHECK: %[[ROW:.*]] = arith.muli %[[IW]], %[[S]] : i64
// CHECK: %[[P1:.*]] = tile.addptr %[[P]], %[[ROW]] : !tile.ptr<f16>, i64
// CHECK: %[[P2:.*]] = tile.addptr %[[P1]], %{{.*}} : !tile.ptr<f16>, i64
// CHECK: tile.splat %[[P2]] : !tile.ptr<f16> -> tensor<1x1x!tile.ptr<f16>>
// CHECK: %[[R:.*]] = tile.arange 0 : tensor<96xi32>
// CHECK: %[[R64:.*]] = arith.extsi %[[R]] : tensor<96xi32> to tensor<96xi64>
// CHECK: arith.muli %[[R64]], %{{.*}} : tensor<96xi64>
// CHECK: tile.addptr %{{.*}} : tensor<96x1x!tile.ptr<f16>>, tensor<96x1xi64>
// CHECK: %[[C:.*]] = tile.arange 0 : tensor<32xi32>
// CHECK-NEXT: tile.expand_dims %[[C]] 0
// CHECK: %[[Q:.*]] = tile.addptr %{{.*}} : tensor<96x32x!tile.ptr<f16>>, tensor<96x32xi32>

// What is left of the extents is cut to the block's, so that 32 bits compare.
// CHECK: %[[MW:.*]] = arith.extsi %[[M]] : i32 to i64
// CHECK: %[[LEFT:.*]] = arith.subi %[[MW]], %{{.*}} : i64
// CHECK: arith.maxsi %[[LEFT]]
// CHECK: arith.minsi
// CHECK: arith.trunci %{{.*}} : i64 to i32
// CHECK: arith.cmpi slt, %{{.*}} : tensor<96xi32>
// A program's number is not negative, the argument may be: there both bounds are compared.
// CHECK-NOT: arith.cmpi sge, %{{.*}} : tensor<96xi32>
// CHECK: arith.subi %[[N]], %{{.*}} : i64
// CHECK: arith.cmpi slt, %{{.*}} : tensor<32xi32>
// CHECK: arith.cmpi sge, %{{.*}} : tensor<32xi32>
// CHECK: %[[MASK:.*]] = arith.andi %{{.*}} : tensor<96x32xi1>
// CHECK: %[[OTHER:.*]] = arith.constant dense<-1.000000e+00> : tensor<96x32xf16>
// CHECK: tile.load %[[Q]] mask %[[MASK]] other %[[OTHER]] {cache = 2 : i32}
// CHECK-NOT: tile.make_view
func.func @load(%p: !tile.ptr<f16>, %m: i32, %n: i64, %s: i64, %j: i32) -> tensor<96x32xf16> {
  %one = arith.constant 1 : i32
  %i = tile.program_id 0
  %v = tile.make_view %p, [%m, %n], [%s, %one] : !tile.ptr<f16>, [i32, i64], [i64, i32] -> !tile.view<2xf16>
  %t = tile.load_block %v[%i, %j] padding -1.0 : f16 {cache = 2 : i32} : !tile.view<2xf16>, [i32, i32] -> tensor<96x32xf16>
  return %t : tensor<96x32xf16>
}

// -----

// CHECK-LABEL: func.func @store
// CHECK: arith.extsi %{{.*}} : tensor<64xi32> to tensor<64xi64>
// CHECK: tile.addptr %{{.*}} : tensor<64x!tile.ptr<i32>>, tensor<64xi64>
// CHECK: tile.store %{{.*}}, %{{.*}} mask %{{.*}} : tensor<64x!tile.ptr<i32>>, tensor<64xi32> mask tensor<64xi1>
func.func @store(%p: !tile.ptr<i32>, %n: i32, %s: i32, %t: tensor<64xi32>) {
  %i = tile.program_id 0
  %v = tile.make_view %p, [%n], [%s] : !tile.ptr<i32>, [i32], [i32] -> !tile.view<1xi32>
  tile.store_block %v[%i], %t : !tile.view<1xi32>, [i32], tensor<64xi32>
  return
}

// -----

// CHECK-LABEL: func.func @constant_stride
// CHECK: arith.muli %{{.*}} : tensor<64xi32>
// CHECK: arith.muli %{{.*}} : tensor<64xi64>
func.func @constant_stride(%p: !tile.ptr<i32>, %n: i32) -> (tensor<64xi32>, tensor<64xi32>) {
  %i = tile.program_id 0
  %small = arith.constant 80 : i64
  %large = arith.constant 0x4000000 : i64
  %v = tile.make_view %p, [%n], [%small] : !tile.ptr<i32>, [i32], [i64] -> !tile.view<1xi32>
  %w = tile.make_view %p, [%n], [%large] : !tile.ptr<i32>, [i32], [i64] -> !tile.view<1xi32>
  %0 = tile.load_block %v[%i] : !tile.view<1xi32>, [i32] -> tensor<64xi32>
  %1 = tile.load_block %w[%i] : !tile.view<1xi32>, [i32] -> tensor<64xi32>
  return %0, %1 : tensor<64xi32>, tensor<64xi32>
}

// -----

// A view that a loop only hands on is the one that enters it.
// CHECK-LABEL: func.func @carried
// CHECK: scf.for
// CHECK: tile.load
// CHECK: tile.load
func.func @carried(%p: !tile.ptr<f32>, %n: i32) -> (tensor<8xf32>, tensor<8xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<8xf32>
  %v = tile.make_view %p, [%n], [%c1] : !tile.ptr<f32>, [i32], [i32] -> !tile.view<1xf32>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %w = %v) -> (tensor<8xf32>, !tile.view<1xf32>) : i32 {
    %t = tile.load_block %w[%i] : !tile.view<1xf32>, [i32] -> tensor<8xf32>
    %s = arith.addf %acc, %t : tensor<8xf32>
    scf.yield %s, %w : tensor<8xf32>, !tile.view<1xf32>
  }
  %t = tile.load_block %r#1[%c0] : !tile.view<1xf32>, [i32] -> tensor<8xf32>
  return %r#0, %t : tensor<8xf32>, tensor<8xf32>
}

// -----

func.func @chosen(%p: !tile.ptr<f32>, %n: i32, %b: i1) -> tensor<8xf32> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %v = tile.make_view %p, [%n], [%c1] : !tile.ptr<f32>, [i32], [i32] -> !tile.view<1xf32>
  %w = tile.make_view %p, [%c1], [%c1] : !tile.ptr<f32>, [i32], [i32] -> !tile.view<1xf32>
  %x = scf.if %b -> !tile.view<1xf32> {
    scf.yield %v : !tile.view<1xf32>
  } else {
    scf.yield %w : !tile.view<1xf32>
  }
  // expected-error @+1 {{the view of this block is chosen by a branch or carried by a loop that changes it}}
  %t = tile.load_block %x[%c0] : !tile.view<1xf32>, [i32] -> tensor<8xf32>
  return %t : tensor<8xf32>
}
