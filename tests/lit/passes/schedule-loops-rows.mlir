// Rows beside operands that no ring takes are loaded one iteration ahead, in registers.
// RUN: sectile-opt %s --assign-layouts --schedule-loops --verify-diagnostics | FileCheck %s

module attributes {cta.target = "sm_80"} {
// Scales of which a thread would copy two bytes.
// CHECK-LABEL: func.func @weights
// CHECK: cta.channel : !cta.channel<3, !cta.buffer<32x64xi8
// CHECK: %[[FIRST:.*]] = tile.load %{{.*}} mask
// CHECK: scf.for {{.*}} iter_args({{.*}}, %[[SCALES:[^ ]*]] = %[[FIRST]]
// CHECK: %[[NEXT:.*]] = tile.load %{{.*}} mask
// CHECK: tile.expand_dims %[[SCALES]]
// CHECK: cta.dot
// CHECK: scf.yield {{.*}}, %[[NEXT]]
func.func @weights(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %w: !tile.ptr<i8> {tile.divisible = 16 : i64}, %s: !tile.ptr<f16> {tile.divisible = 16 : i64}, %c: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %flat = tile.arange 0 : tensor<2048xi32>
  %row = tile.arange 0 : tensor<64xi32>
  %aindex = tile.reshape %flat : tensor<2048xi32> -> tensor<64x32xi32>
  %windex = tile.reshape %flat : tensor<2048xi32> -> tensor<32x64xi32>
  %cflat = tile.arange 0 : tensor<4096xi32>
  %cindex = tile.reshape %cflat : tensor<4096xi32> -> tensor<64x64xi32>
  %as = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
  %ws = tile.splat %w : !tile.ptr<i8> -> tensor<32x64x!tile.ptr<i8>>
  %ss = tile.splat %s : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %pa = tile.addptr %as, %aindex : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
  %pw = tile.addptr %ws, %windex : tensor<32x64x!tile.ptr<i8>>, tensor<32x64xi32>
  %ps = tile.addptr %ss, %row : tensor<64x!tile.ptr<f16>>, tensor<64xi32>
  %pc = tile.addptr %cs, %cindex : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %step = arith.constant 2048 : i32
  %width = arith.constant 64 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %ahead = arith.muli %i, %step : i32
    %rows = arith.muli %i, %width : i32
    %ia = tile.splat %ahead : i32 -> tensor<64x32xi32>
    %iw = tile.splat %ahead : i32 -> tensor<32x64xi32>
    %is = tile.splat %rows : i32 -> tensor<64xi32>
    %pai = tile.addptr %pa, %ia : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %pwi = tile.addptr %pw, %iw : tensor<32x64x!tile.ptr<i8>>, tensor<32x64xi32>
    %psi = tile.addptr %ps, %is : tensor<64x!tile.ptr<f16>>, tensor<64xi32>
    %x = tile.load %pai : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
    %bytes = tile.load %pwi : tensor<32x64x!tile.ptr<i8>> -> tensor<32x64xi8>
    // expected-remark @+1 {{one iteration ahead, in registers: neighbours in memory that one thread copies have less than 4 bytes}}
    %scales = tile.load %psi : tensor<64x!tile.ptr<f16>> -> tensor<64xf16>
    %expanded = tile.expand_dims %scales 0 : tensor<64xf16> -> tensor<1x64xf16>
    %wide = tile.broadcast %expanded : tensor<1x64xf16> -> tensor<32x64xf16>
    %codes = arith.sitofp %bytes : tensor<32x64xi8> to tensor<32x64xf16>
    %weights = arith.mulf %codes, %wide : tensor<32x64xf16>
    %d = cta.dot %x, %weights, %acc by [16, 8, 16] : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  tile.store %pc, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}

// Scales of what the only dot gives.
// CHECK-LABEL: func.func @sums
// CHECK: %[[FIRST:.*]] = tile.load %{{.*}} mask
// CHECK: scf.for {{.*}} iter_args({{.*}}, %[[SCALES:[^ ]*]] = %[[FIRST]]
// CHECK: %[[NEXT:.*]] = tile.load %{{.*}} mask
// CHECK: cta.dot
// CHECK: tile.expand_dims %[[SCALES]]
// CHECK: scf.yield {{.*}}, %[[NEXT]]
func.func @sums(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %b: !tile.ptr<f16> {tile.divisible = 16 : i64}, %s: !tile.ptr<f32> {tile.divisible = 16 : i64}, %c: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %flat = tile.arange 0 : tensor<2048xi32>
  %row = tile.arange 0 : tensor<64xi32>
  %aindex = tile.reshape %flat : tensor<2048xi32> -> tensor<64x32xi32>
  %bindex = tile.reshape %flat : tensor<2048xi32> -> tensor<32x64xi32>
  %cflat = tile.arange 0 : tensor<4096xi32>
  %cindex = tile.reshape %cflat : tensor<4096xi32> -> tensor<64x64xi32>
  %as = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
  %bs = tile.splat %b : !tile.ptr<f16> -> tensor<32x64x!tile.ptr<f16>>
  %ss = tile.splat %s : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %pa = tile.addptr %as, %aindex : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
  %pb = tile.addptr %bs, %bindex : tensor<32x64x!tile.ptr<f16>>, tensor<32x64xi32>
  %ps = tile.addptr %ss, %row : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %pc = tile.addptr %cs, %cindex : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %step = arith.constant 2048 : i32
  %width = arith.constant 64 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %ahead = arith.muli %i, %step : i32
    %rows = arith.muli %i, %width : i32
    %ia = tile.splat %ahead : i32 -> tensor<64x32xi32>
    %ib = tile.splat %ahead : i32 -> tensor<32x64xi32>
    %is = tile.splat %rows : i32 -> tensor<64xi32>
    %pai = tile.addptr %pa, %ia : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %pbi = tile.addptr %pb, %ib : tensor<32x64x!tile.ptr<f16>>, tensor<32x64xi32>
    %psi = tile.addptr %ps, %is : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
    %x = tile.load %pai : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
    %y = tile.load %pbi : tensor<32x64x!tile.ptr<f16>> -> tensor<32x64xf16>
    %d = cta.dot %x, %y, %zero by [16, 8, 16] : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>
    %scales = tile.load %psi : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
    %expanded = tile.expand_dims %scales 0 : tensor<64xf32> -> tensor<1x64xf32>
    %wide = tile.broadcast %expanded : tensor<1x64xf32> -> tensor<64x64xf32>
    %scaled = arith.mulf %d, %wide : tensor<64x64xf32>
    %next = arith.addf %acc, %scaled : tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.store %pc, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}
}
