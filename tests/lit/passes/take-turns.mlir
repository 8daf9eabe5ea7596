// Warpgroups that compute beside their dots start these in turn. The first begins, and takes the turn that is left.
// RUN: sectile-opt --take-turns %s | FileCheck %s
// RUN: sed 's/cta.warps = 8/cta.warps = 4/' %s | sectile-opt --take-turns | FileCheck %s --check-prefix=ONE

// ONE-NOT: cta.turn

#acc = #cta.layout<"128x64, register [(0,1) (8,0) (0,8) (0,16) (0,32)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0) (64,0)]">
#a = #cta.layout<"128x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0) (64,0)]">
#b = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
!acc = tensor<128x64xf32, #acc>
!a = !cta.buffer<128x64xf16, #a>
!b = !cta.buffer<64x64xf16, #b>
!flight = !cta.in_flight<!acc>

module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: func.func @waited
// CHECK: cta.partition
// CHECK: }
// CHECK-NEXT: cta.turn_pass outside
// CHECK: scf.for
// CHECK: cta.turn_wait
// CHECK-NEXT: cta.dot_start
// CHECK-NEXT: cta.turn_pass
// CHECK-NEXT: cta.dot_wait
// CHECK: cta.turn_wait outside
// CHECK-NEXT: return
func.func @waited(%n: i32) attributes {tile.kernel, cta.warps = 8 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %a = cta.alloc : !a
  %b = cta.alloc : !b
  cta.partition warps 4 registers [24, 240] {
    cta.proxy_fence
  }
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%last = %zero) -> (!acc) : i32 {
    %start = cta.dot_start %a, %b, %zero by [64, 64, 16] : !a, !b, !acc -> !flight
    %sums = cta.dot_wait %start : !flight
    scf.yield %sums : !acc
  }
  return
}

// Sums that stay in flight leave the matrix unit nothing to wait for.
// CHECK-LABEL: func.func @carried
// CHECK-NOT: cta.turn
func.func @carried(%n: i32) attributes {tile.kernel, cta.warps = 8 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %a = cta.alloc : !a
  %b = cta.alloc : !b
  cta.partition warps 4 registers [24, 240] {
    cta.proxy_fence
  }
  %begin = cta.dot_begin %zero : !flight
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%last = %begin) -> (!flight) : i32 {
    %start = cta.dot_start %a, %b, %last by [64, 64, 16] : !a, !b, !flight -> !flight
    scf.yield %start : !flight
  }
  %sums = cta.dot_wait %loop : !flight
  return
}

// Barriers of all warps hold the warpgroups together.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: cta.turn
func.func @whole(%n: i32) attributes {tile.kernel, cta.warps = 8 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %a = cta.alloc : !a
  %b = cta.alloc : !b
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%last = %zero) -> (!acc) : i32 {
    %start = cta.dot_start %a, %b, %zero by [64, 64, 16] : !a, !b, !acc -> !flight
    %sums = cta.dot_wait %start : !flight
    scf.yield %sums : !acc
  }
  return
}
}
