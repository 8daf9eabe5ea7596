// What a dot gives is scaled and added in the next iteration, beside its dot, and the last of it after the loop.
// RUN: sectile-opt --schedule-loops %s 2>&1 | FileCheck %s
// RUN: sed 's/sm_90a/sm_89/; s/by .64, [0-9]*, 32./by [16, 8, 32]/' %s | sectile-opt --schedule-loops 2>&1 | FileCheck %s --check-prefix=NONE

// CHECK: [[@LINE+122]]:13: remark: this dot is complete in its own iteration, before its result is added to other sums: registers do not hold two of its results

// Where the dot is complete when its threads go on, nothing would run beside it.
// NONE-NOT: cta.unroll
// NONE-NOT: remark

#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0)]">
#row = #cta.layout<"64x1, register [(8,0)], lane [(0,0) (0,0) (1,0) (2,0) (4,0)], warp [(16,0) (32,0)]">
#a = #cta.layout<"64x128, register [(0,1) (0,2) (8,0) (0,16) (0,32) (0,64)], lane [(0,4) (0,8) (1,0) (2,0) (4,0)], warp [(16,0) (32,0)]">
#b = #cta.layout<"128x64, register [(1,0) (2,0) (4,0) (8,0) (0,16) (0,32)], lane [(16,0) (32,0) (64,0) (0,1) (0,2)], warp [(0,4) (0,8)]">
#large = #cta.layout<"64x256, register [(0,1) (8,0) (0,8) (0,16) (0,32) (0,64) (0,128)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0)]">
#wide = #cta.layout<"128x256, register [(1,0) (2,0) (4,0) (8,0) (0,16) (0,32) (0,64) (0,128)], lane [(16,0) (32,0) (64,0) (0,1) (0,2)], warp [(0,4) (0,8)]">
!acc = tensor<64x64xf32, #acc>
!row = tensor<64x1xf32, #row>
!a = tensor<64x128xf8E4M3FN, #a>
!b = tensor<128x64xf8E4M3FN, #b>
!large = tensor<64x256xf32, #large>
!wide = tensor<128x256xf8E4M3FN, #wide>

module attributes {cta.target = "sm_90a"} {
// The scales are carried on as they are, not for each element.
// CHECK-LABEL: func.func @scaled
// CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<64x64xf32
// CHECK-DAG: %[[EMPTY:.*]] = arith.constant dense<0.000000e+00> : tensor<64x1xf32
// CHECK: %[[LOOP:.*]]:5 = scf.for {{.*}} iter_args(%[[TOTAL:[^ ]*]] = %{{[^ ]*}}, %[[SCALE:[^ ]*]] = %{{[^ ]*}}, %{{[^ ]*}} = %{{[^ ]*}}, %[[SUMS:[^ ]*]] = %{{[^ ]*}}, %[[BEFORE:[^ ]*]] = %[[EMPTY]])
// CHECK: %[[DOT:.*]] = cta.dot
// CHECK: %[[ALL:.*]] = tile.broadcast %[[BEFORE]]
// CHECK: %[[SCALED:.*]] = arith.mulf %[[SUMS]], %[[ALL]]
// CHECK: %[[ADDED:.*]] = arith.addf %[[TOTAL]], %[[SCALED]]
// CHECK: scf.yield %[[ADDED]], %{{[^ ]*}}, %{{[^ ]*}}, %[[DOT]], %[[SCALE]]
// CHECK: cta.unroll = 4
// CHECK: %[[ALL:.*]] = tile.broadcast %[[LOOP]]#4
// CHECK: %[[SCALED:.*]] = arith.mulf %[[LOOP]]#3, %[[ALL]]
// CHECK: %[[ADDED:.*]] = arith.addf %[[LOOP]]#0, %[[SCALED]]
// CHECK: return %[[ADDED]]
func.func @scaled(%a: !a, %b: !b, %scales: !row, %n: i32) -> !acc attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %loop:3 = scf.for %i = %c0 to %n step %c1 iter_args(%total = %zero, %scale = %scales, %left = %a) -> (!acc, !row, !a) : i32 {
    %sums = cta.dot %left, %b, %zero by [64, 64, 32] : !a, !b, !acc
    %all = tile.broadcast %scale : !row -> !acc
    %scaled = arith.mulf %sums, %all : !acc
    %next = arith.addf %total, %scaled : !acc
    %other = arith.addf %scale, %scale : !row
    %negated = arith.negf %left : !a
    scf.yield %next, %other, %negated : !acc, !row, !a
  } {cta.warp_specialize = true}
  return %loop#0 : !acc
}

// Threads make this loop's copies, and need registers for addresses.
// CHECK-LABEL: func.func @together
// CHECK-NOT: cta.unroll
func.func @together(%a: !a, %b: !b, %n: i32) -> !acc attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%total = %zero) -> (!acc) : i32 {
    %sums = cta.dot %a, %b, %zero by [64, 64, 32] : !a, !b, !acc
    %next = arith.addf %total, %sums : !acc
    scf.yield %next : !acc
  }
  return %loop : !acc
}

// Zeros times what the loop is given may be no zeros: it may be infinite.
// CHECK-LABEL: func.func @given
// CHECK-NOT: cta.unroll
func.func @given(%a: !a, %b: !b, %scale: !acc, %n: i32) -> !acc attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%total = %zero) -> (!acc) : i32 {
    %sums = cta.dot %a, %b, %zero by [64, 64, 32] : !a, !b, !acc
    %scaled = arith.mulf %sums, %scale : !acc
    %next = arith.addf %total, %scaled : !acc
    scf.yield %next : !acc
  } {cta.warp_specialize = true}
  return %loop : !acc
}

// What comes of a result may not be zero where the result is.
// CHECK-LABEL: func.func @shifted
// CHECK-NOT: cta.unroll
func.func @shifted(%a: !a, %b: !b, %n: i32) -> !acc attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%total = %zero) -> (!acc) : i32 {
    %sums = cta.dot %a, %b, %zero by [64, 64, 32] : !a, !b, !acc
    %powers = math.exp %sums : !acc
    %next = arith.addf %total, %powers : !acc
    scf.yield %next : !acc
  } {cta.warp_specialize = true}
  return %loop : !acc
}

// The sums of this iteration are needed in it.
// CHECK-LABEL: func.func @needed
// CHECK-NOT: cta.unroll
func.func @needed(%a: !a, %b: !b, %n: i32) -> (!acc, !acc) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %loop:2 = scf.for %i = %c0 to %n step %c1 iter_args(%total = %zero, %most = %zero) -> (!acc, !acc) : i32 {
    %sums = cta.dot %a, %b, %zero by [64, 64, 32] : !a, !b, !acc
    %next = arith.addf %total, %sums : !acc
    %more = arith.maximumf %most, %next : !acc
    scf.yield %next, %more : !acc, !acc
  } {cta.warp_specialize = true}
  return %loop#0, %loop#1 : !acc, !acc
}

// There is no room for two results of a large one.
// CHECK-LABEL: func.func @large
// CHECK-NOT: cta.unroll
func.func @large(%a: !a, %b: !wide, %n: i32) -> !large attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !large
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%total = %zero) -> (!large) : i32 {
    %sums = cta.dot %a, %b, %zero by [64, 128, 32] : !a, !wide, !large
    %next = arith.addf %total, %sums : !large
    scf.yield %next : !large
  } {cta.warp_specialize = true}
  return %loop : !large
}
}
