// Warpgroups that compute beside their dots start these in turn. The first begins, and takes the turn that is left.
// RUN: sectile-opt --take-turns --verify-diagnostics %s | FileCheck %s

#acc = #cta.layout<"128x64, register [(0,1) (8,0) (0,8) (0,16) (0,32)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0) (64,0)]">
#a = #cta.layout<"128x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0) (64,0)]">
#b = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
!acc = tensor<128x64xf32, #acc>
!a = !cta.buffer<128x64xf16, #a>
!b = !cta.buffer<64x64xf16, #b>
#columns = #cta.layout<"128x64, register [(0,1) (8,0) (16,0) (32,0) (64,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(0,8) (0,16) (0,32)]">
!columns = tensor<128x64xf32, #columns>
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
// CHECK-NOT: cta.takes_turns
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
  } {cta.takes_turns}
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
  } {cta.takes_turns}
  %sums = cta.dot_wait %loop : !flight
  return
}

// This loop's plan has no turns.
// CHECK-LABEL: func.func @together
// CHECK-NOT: cta.turn
func.func @together(%n: i32) attributes {tile.kernel, cta.warps = 8 : i32} {
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

// The second dot needs the first.
// CHECK-LABEL: func.func @after
// CHECK-NOT: cta.turn
func.func @after(%n: i32) attributes {tile.kernel, cta.warps = 8 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %a = cta.alloc : !a
  %b = cta.alloc : !b
  cta.partition warps 4 registers [24, 240] {
    cta.proxy_fence
  }
  // expected-remark @+1 {{warpgroups do not start the dots of this loop in turn: one is waited for before another is started}}
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%last = %zero) -> (!acc) : i32 {
    %first = cta.dot_start %a, %b, %zero by [64, 64, 16] : !a, !b, !acc -> !flight
    %sums = cta.dot_wait %first : !flight
    %second = cta.dot_start %a, %b, %sums by [64, 64, 16] : !a, !b, !acc -> !flight
    %all = cta.dot_wait %second : !flight
    scf.yield %all : !acc
  } {cta.takes_turns}
  return
}

// Warpgroups wait for each other before they read what the others wrote.
// CHECK-LABEL: func.func @across
// CHECK-NOT: cta.turn
func.func @across(%n: i32) attributes {tile.kernel, cta.warps = 8 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %a = cta.alloc : !a
  %b = cta.alloc : !b
  cta.partition warps 4 registers [24, 240] {
    cta.proxy_fence
  }
  // expected-remark @+1 {{warpgroups do not start the dots of this loop in turn: a tile goes through shared memory}}
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%last = %zero) -> (!acc) : i32 {
    %start = cta.dot_start %a, %b, %zero by [64, 64, 16] : !a, !b, !acc -> !flight
    %sums = cta.dot_wait %start : !flight
    %columns = cta.convert_layout %sums : !acc -> !columns
    %doubled = arith.addf %columns, %columns : !columns
    %all = cta.convert_layout %doubled : !columns -> !acc
    scf.yield %all : !acc
  } {cta.takes_turns}
  return
}
}
