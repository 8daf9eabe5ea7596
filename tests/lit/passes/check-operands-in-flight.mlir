// A dot in flight reads its left operand from registers. In a loop these are the same in all iterations, so that nothing may
// write them before the dot is waited for, unless it has registers of its own.
// RUN: sectile-opt --check-channels %s | FileCheck %s
// CHECK: func.func @squares
// RUN: sed 's/ {cta.own_registers}//' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=WRITTEN
// WRITTEN: error: 'arith.mulf' op writes registers that a dot in flight reads
// Squares that come after the wait need no registers of their own.
// RUN: sed 's/ {cta.own_registers}//; /EARLY/d; s|// LATE ||' %s | sectile-opt --check-channels | FileCheck %s
// One dot is left in flight.
// RUN: sed 's/ {cta.own_registers}//; /EARLY/d; s|// LATE ||; s/pending = 0/pending = 1/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=WRITTEN

#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0)]">
#shared = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
!buffer = !cta.buffer<64x64xf16, #shared>
!flight = !cta.in_flight<tensor<64x64xf32, #acc>>

module attributes {cta.target = "sm_90a"} {
func.func @squares(%n: i32) attributes {cta.warps = 4 : i32, tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zeros = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %ones = arith.constant dense<1.0> : tensor<64x64xf16, #acc>
  %a = cta.alloc %ones {offset = 0 : i32} : !buffer from tensor<64x64xf16, #acc>
  cta.proxy_fence
  cta.barrier
  %begin = cta.dot_begin %zeros : !flight
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%flight = %begin) -> (!flight) : i32 {
    %x = cta.local_load %a : !buffer -> tensor<64x64xf16, #acc>
    %square = arith.mulf %x, %x : tensor<64x64xf16, #acc> // EARLY
    %sums = cta.dot_wait %flight {pending = 0 : i32} : !flight
    // LATE %square = arith.mulf %x, %x : tensor<64x64xf16, #acc>
    %next = cta.dot_start %square, %a, %sums by [64, 64, 16] {cta.own_registers} : tensor<64x64xf16, #acc>, !buffer, tensor<64x64xf32, #acc> -> !flight
    scf.yield %next : !flight
  }
  %all = cta.dot_wait %end : !flight
  return
}
}
