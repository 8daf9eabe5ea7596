// All warps meet within the turn of the first loop: those that wait for it would never come, so it has none.
// RUN: sectile-opt --insert-barriers --verify-diagnostics %s | FileCheck %s

module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: func.func @turns
// CHECK: cta.turn_pass outside
// CHECK: scf.for
// CHECK-NOT: cta.turn
// CHECK: tile.barrier
// CHECK-NOT: cta.turn
// CHECK: scf.for
// CHECK: cta.turn_wait
// CHECK-NEXT: cta.turn_pass
// CHECK-NEXT: tile.barrier
// CHECK: cta.turn_wait outside
func.func @turns(%n: i32) attributes {tile.kernel, cta.warps = 8 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  cta.turn_pass outside
  scf.for %i = %c0 to %n step %c1 : i32 {
    // expected-remark @+1 {{warpgroups do not start these dots in turn: a barrier is among them}}
    cta.turn_wait
    tile.barrier
    cta.turn_pass
  }
  scf.for %i = %c0 to %n step %c1 : i32 {
    cta.turn_wait
    cta.turn_pass
    tile.barrier
  }
  cta.turn_wait outside
  return
}
}
