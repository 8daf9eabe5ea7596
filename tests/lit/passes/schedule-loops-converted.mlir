// Loads that operands are computed from come through channels too, as memory has them.
// RUN: sectile-opt %s --assign-layouts --schedule-loops --verify-diagnostics | FileCheck %s

module attributes {cta.target = "sm_80"} {
// CHECK-LABEL: func.func @weights
// CHECK-DAG: %[[A:.*]] = cta.channel : !cta.channel<3, !cta.buffer<64x32xf16
// CHECK-DAG: %[[W:.*]] = cta.channel : !cta.channel<3, !cta.buffer<32x64xi8
// CHECK: scf.for
// CHECK-NOT: tile.load
// CHECK: cta.wait
// CHECK: %[[BYTES:.*]] = cta.local_load %{{.*}} : !cta.buffer<32x64xi8
// CHECK: %[[WEIGHTS:.*]] = arith.sitofp %[[BYTES]]
// CHECK-NOT: cta.alloc
// CHECK: cta.dot %{{.*}}, %[[WEIGHTS]]
// CHECK: cta.release %[[A]], %[[W]]
func.func @weights(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %w: !tile.ptr<i8> {tile.divisible = 16 : i64}, %c: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %flat = tile.arange 0 : tensor<2048xi32>
  %aindex = tile.reshape %flat : tensor<2048xi32> -> tensor<64x32xi32>
  %windex = tile.reshape %flat : tensor<2048xi32> -> tensor<32x64xi32>
  %cflat = tile.arange 0 : tensor<4096xi32>
  %cindex = tile.reshape %cflat : tensor<4096xi32> -> tensor<64x64xi32>
  %as = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
  %ws = tile.splat %w : !tile.ptr<i8> -> tensor<32x64x!tile.ptr<i8>>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %pa = tile.addptr %as, %aindex : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
  %pw = tile.addptr %ws, %windex : tensor<32x64x!tile.ptr<i8>>, tensor<32x64xi32>
  %pc = tile.addptr %cs, %cindex : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %step = arith.constant 2048 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %ahead = arith.muli %i, %step : i32
    %ia = tile.splat %ahead : i32 -> tensor<64x32xi32>
    %iw = tile.splat %ahead : i32 -> tensor<32x64xi32>
    %pai = tile.addptr %pa, %ia : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %pwi = tile.addptr %pw, %iw : tensor<32x64x!tile.ptr<i8>>, tensor<32x64xi32>
    %x = tile.load %pai : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
    %bytes = tile.load %pwi : tensor<32x64x!tile.ptr<i8>> -> tensor<32x64xi8>
    %weights = arith.sitofp %bytes : tensor<32x64xi8> to tensor<32x64xf16>
    %d = cta.dot %x, %weights, %acc by [16, 8, 16] : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  tile.store %pc, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}

// Two codes in a byte: what is joined after the load goes ahead as it is packed.
// CHECK-LABEL: func.func @packed
// CHECK-DAG: cta.channel : !cta.channel<3, !cta.buffer<64x32xf16
// CHECK-DAG: cta.channel : !cta.channel<3, !cta.buffer<64x16xi8
// CHECK: scf.for
// CHECK-NOT: tile.load
// CHECK: %[[BYTES:.*]] = cta.local_load %{{.*}} : !cta.buffer<64x16xi8
// CHECK: tile.join %[[BYTES]]
// CHECK: cta.dot
func.func @packed(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %w: !tile.ptr<i8> {tile.divisible = 16 : i64}, %c: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %flat = tile.arange 0 : tensor<2048xi32>
  %aindex = tile.reshape %flat : tensor<2048xi32> -> tensor<64x32xi32>
  %half = tile.arange 0 : tensor<1024xi32>
  %windex = tile.reshape %half : tensor<1024xi32> -> tensor<64x16xi32>
  %cflat = tile.arange 0 : tensor<4096xi32>
  %cindex = tile.reshape %cflat : tensor<4096xi32> -> tensor<64x64xi32>
  %as = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
  %ws = tile.splat %w : !tile.ptr<i8> -> tensor<64x16x!tile.ptr<i8>>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %pa = tile.addptr %as, %aindex : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
  %pw = tile.addptr %ws, %windex : tensor<64x16x!tile.ptr<i8>>, tensor<64x16xi32>
  %pc = tile.addptr %cs, %cindex : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %step = arith.constant 2048 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %ahead = arith.muli %i, %step : i32
    %ia = tile.splat %ahead : i32 -> tensor<64x32xi32>
    %iw = tile.splat %ahead : i32 -> tensor<64x16xi32>
    %pai = tile.addptr %pa, %ia : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %pwi = tile.addptr %pw, %iw : tensor<64x16x!tile.ptr<i8>>, tensor<64x16xi32>
    %x = tile.load %pai : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
    %bytes = tile.load %pwi : tensor<64x16x!tile.ptr<i8>> -> tensor<64x16xi8>
    %four = arith.constant dense<4> : tensor<64x16xi8>
    %high = arith.shrsi %bytes, %four : tensor<64x16xi8>
    %pairs = tile.join %bytes, %high : tensor<64x16xi8> -> tensor<64x16x2xi8>
    %codes = tile.reshape %pairs : tensor<64x16x2xi8> -> tensor<64x32xi8>
    %numbers = arith.sitofp %codes : tensor<64x32xi8> to tensor<64x32xf16>
    %weights = tile.permute %numbers [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %d = cta.dot %x, %weights, %acc by [16, 8, 16] : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  tile.store %pc, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}
}
