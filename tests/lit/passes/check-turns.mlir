// Turns of warpgroups are run as barriers are. Each line below breaks the kernel in one place.
// RUN: sectile-opt --check-channels %s | FileCheck %s
// CHECK: func.func @turns

// Nobody begins.
// RUN: sed '/BEGINS/d' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=BEGINS
// BEGINS: error: 'cta.turn_wait' op waits for ever: fewer warps come to this barrier than it counts

// Who has started does not pass the turn on.
// RUN: sed '/PASSES/d' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=PASSES
// PASSES: error: 'cta.turn_wait' op waits for ever: fewer warps come to this barrier than it counts

// RUN: sed 's/^.*PASSES.*$/&\n&/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: 'cta.turn_pass' op comes to a barrier again in iteration 0 of 1, where it may still be counted for the turn before

// All warps meet within a turn: the warpgroup whose turn it is waits for one that waits for it.
// RUN: sed 's/^ *cta.turn_wait .*WAITS/&\n    cta.barrier/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=WITHIN
// WITHIN: error: 'cta.turn_wait' op waits for ever in iteration 0 of 1: fewer warps come to this barrier than it counts

// Without a wait one passes its turn on before it has got it.
// RUN: sed '/cta.turn_wait/d' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=UNAWAITED
// RUN: sed '/WAITS/d' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=WAITS
// WAITS: error: 'cta.turn_pass' op comes to a barrier again in iteration 0 of 1, where it may still be counted for the turn before
// UNAWAITED: error: 'cta.turn_pass' op comes to a barrier again

#acc = #cta.layout<"128x64, register [(0,1) (8,0) (0,8) (0,16) (0,32)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0) (64,0)]">
#a = #cta.layout<"128x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0) (64,0)]">
#b = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#given = #cta.layout<"128x64, register [(0,1) (8,0) (0,8) (0,16) (0,32)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0) (64,0)]">
#givenb = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0) (0,0)]">
!acc = tensor<128x64xf32, #acc>
!a = !cta.buffer<128x64xf16, #a>
!b = !cta.buffer<64x64xf16, #b>
!flight = !cta.in_flight<!acc>

module attributes {cta.target = "sm_90a"} {
func.func @turns(%n: i32) attributes {tile.kernel, cta.warps = 8 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %left = arith.constant dense<1.0> : tensor<128x64xf16, #given>
  %right = arith.constant dense<1.0> : tensor<64x64xf16, #givenb>
  %a = cta.alloc %left {offset = 0 : i32} : !a from tensor<128x64xf16, #given>
  %b = cta.alloc %right {offset = 16384 : i32} : !b from tensor<64x64xf16, #givenb>
  cta.proxy_fence
  cta.barrier
  cta.partition warps 4 registers [24, 240] {
    cta.proxy_fence
  }
  cta.turn_pass outside // BEGINS
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%last = %zero) -> (!acc) : i32 {
    cta.turn_wait // WAITS
    %start = cta.dot_start %a, %b, %zero by [64, 64, 16] : !a, !b, !acc -> !flight
    cta.turn_pass // PASSES
    %sums = cta.dot_wait %start : !flight
    scf.yield %sums : !acc
  }
  cta.turn_wait outside
  return
}
}
