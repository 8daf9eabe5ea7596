// Loops count the slots of a ring whose depth is no power of two, and whether the round is an odd one.
// RUN: sectile-opt --count-slots --split-input-file %s | FileCheck %s

#tile = #cta.layout<"8x8, shared [(0,1) (0,2) (0,4) (1,0) (2,0) (4,0)]">
!buffer = !cta.buffer<8x8xf16, #tile>
!ring = !cta.channel<5, !buffer>

module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: func.func @one_loop
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %c0_i32, %[[SLOT:[^ ,]*]] = %{{.*}}, %[[PARITY:[^ ,]*]] = %{{.*}}) -> (i32, i32, i32)
// CHECK-NOT: remui
// CHECK-NOT: divui
// CHECK: cta.mbarrier_wait %{{.*}}[%[[SLOT]]] parity %[[PARITY]]
// Two uses on: one that may be in the next round.
// CHECK: cta.slot %{{.*}}[%[[AHEAD:[^ ,]*]]]
// CHECK: scf.yield
func.func @one_loop(%n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c5 = arith.constant 5 : i32
  %ring = cta.channel : !ring
  %full = cta.mbarriers : !cta.mbarriers<5>
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%use = %c0) -> (i32) : i32 {
    %slot = arith.remui %use, %c5 : i32
    %turn = arith.divui %use, %c5 : i32
    %parity = arith.andi %turn, %c1 : i32
    cta.mbarrier_wait %full[%slot] parity %parity : !cta.mbarriers<5>
    %later = arith.addi %use, %c2 : i32
    %other = arith.remui %later, %c5 : i32
    %buffer = cta.slot %ring[%other] : !ring -> !buffer
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  return
}
}

// -----

module attributes {cta.target = "sm_90a"} {
// The loop around both carries them from tile to tile. A phase waited for is the one before.
// CHECK-LABEL: func.func @nested
// CHECK: %[[OUTER:.*]]:3 = scf.for {{.*}} iter_args(%{{.*}} = %c0_i32, %[[SLOT:[^ ,]*]] = %{{.*}}, %[[PARITY:[^ ,]*]] = %{{[^ ,]*}})
// CHECK: %[[INNER:.*]]:3 = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[S:[^ ,]*]] = %[[SLOT]], %[[P:[^ ,]*]] = %[[PARITY]])
// CHECK-NOT: divui
// CHECK: %[[BEFORE:.*]] = arith.xori %[[P]], %
// CHECK: cta.mbarrier_wait %{{.*}}[%[[S]]] parity %[[BEFORE]]
// CHECK: %[[SUM:.*]] = arith.addi %[[S]], %
// CHECK: %[[OVER:.*]] = arith.cmpi uge, %[[SUM]], %
// CHECK: %[[NEXT:.*]] = arith.select %[[OVER]], %{{.*}}, %[[SUM]]
// CHECK: %[[TURNED:.*]] = arith.xori %[[P]], %
// CHECK: %[[THEN:.*]] = arith.select %[[OVER]], %[[TURNED]], %[[P]]
// CHECK: scf.yield %{{.*}}, %[[NEXT]], %[[THEN]]
// CHECK: scf.yield %[[INNER]]#0, %[[INNER]]#1, %[[INNER]]#2
func.func @nested(%n: i32, %m: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %empty = cta.mbarriers : !cta.mbarriers<3>
  %all = scf.for %t = %c0 to %m step %c1 iter_args(%first = %c0) -> (i32) : i32 {
    %end = scf.for %i = %c0 to %n step %c1 iter_args(%use = %first) -> (i32) : i32 {
      %slot = arith.remui %use, %c3 : i32
      %turn = arith.divui %use, %c3 : i32
      %last = arith.addi %turn, %c1 : i32
      %parity = arith.andi %last, %c1 : i32
      cta.mbarrier_wait %empty[%slot] parity %parity : !cta.mbarriers<3>
      %next = arith.addi %use, %c1 : i32
      scf.yield %next : i32
    }
    scf.yield %end : i32
  }
  return
}

// Of a power of two a remainder is the lower bits.
// CHECK-LABEL: func.func @power_of_two
// CHECK: arith.remui
// CHECK: arith.divui
func.func @power_of_two(%n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %full = cta.mbarriers : !cta.mbarriers<4>
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%use = %c0) -> (i32) : i32 {
    %slot = arith.remui %use, %c4 : i32
    %turn = arith.divui %use, %c4 : i32
    %parity = arith.andi %turn, %c1 : i32
    cta.mbarrier_wait %full[%slot] parity %parity : !cta.mbarriers<4>
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  return
}

// A program's own numbers may pass the type's end, where a counted remainder would be another. And
// where a loop adds what only it knows, counting is a division as well.
// CHECK-LABEL: func.func @left_alone
// CHECK: scf.for {{.*}} -> (i32, i32)
// CHECK: arith.remui
// CHECK: arith.remui
func.func @left_alone(%n: i32, %p: !tile.ptr<i32>) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c5 = arith.constant 5 : i32
  %full = cta.mbarriers : !cta.mbarriers<5>
  %end:2 = scf.for %i = %c0 to %n step %c1 iter_args(%own = %c0, %use = %c0) -> (i32, i32) : i32 {
    %rest = arith.remui %own, %c5 : i32
    tile.store %p, %rest : !tile.ptr<i32>, i32
    %slot = arith.remui %use, %c5 : i32
    cta.mbarrier_wait %full[%slot] parity %c0 : !cta.mbarriers<5>
    %following = arith.subi %own, %c1 : i32
    %next = arith.addi %use, %i : i32
    scf.yield %following, %next : i32, i32
  }
  return
}
}
