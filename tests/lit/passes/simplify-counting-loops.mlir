// Loops by a condition that count to a bound become loops over a range, of which loads are copied ahead.
// RUN: sectile-opt --simplify %s | FileCheck %s

// CHECK-LABEL: func.func @sum
// CHECK: %[[LOOP:.*]]:2 = scf.for %[[I:.*]] = %arg0 to %arg1 step %c64_i32 iter_args(%[[COUNT:.*]] = %arg0, %[[SUM:.*]] = %arg2)
// CHECK-NEXT: %[[NEXT:.*]] = arith.addi %[[SUM]], %[[I]]
// CHECK-NEXT: %[[MORE:.*]] = arith.addi %[[I]], %c64_i32
// CHECK-NEXT: scf.yield %[[MORE]], %[[NEXT]]
// CHECK: return %[[LOOP]]#0, %[[LOOP]]#1
func.func @sum(%first: i32, %end: i32, %sum: i32) -> (i32, i32) {
  %step = arith.constant 64 : i32
  %r:2 = scf.while (%a = %first, %s = %sum) : (i32, i32) -> (i32, i32) {
    %goes = arith.cmpi slt, %a, %end : i32
    scf.condition(%goes) %a, %s : i32, i32
  } do {
  ^bb0(%a: i32, %s: i32):
    %next = arith.addi %s, %a : i32
    %more = arith.addi %a, %step {tile.fits} : i32
    scf.yield %more, %next : i32, i32
  }
  return %r#0, %r#1 : i32, i32
}

// The tiles of a persistent program. What nobody reads afterwards is not carried.
// CHECK-LABEL: func.func @tiles
// CHECK: %[[PROGRAMS:.*]] = tile.num_programs 0
// CHECK: scf.for %[[T:[^ ]*]] = %{{.*}} to %arg0 step %[[PROGRAMS]]  : i32 {
// CHECK-NEXT: func.call @do(%[[T]])
// CHECK-NEXT: }
func.func private @do(i32)
func.func @tiles(%tiles: i32) {
  %id = tile.program_id 0
  %step = tile.num_programs 0
  %r = scf.while (%t = %id) : (i32) -> i32 {
    %goes = arith.cmpi sgt, %tiles, %t : i32
    scf.condition(%goes) %t : i32
  } do {
  ^bb0(%t: i32):
    func.call @do(%t) : (i32) -> ()
    %next = arith.addi %step, %t {tile.fits} : i32
    scf.yield %next : i32
  }
  return
}

// A number with a width of its own may wrap around, a step may be negative, a bound may move, and a condition may ask
// for more.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-4: scf.while
func.func @others(%first: i32, %end: i32, %step: i32, %go: i1) -> (i32, i32, i32, i32) {
  %one = arith.constant 1 : i32
  %wraps = scf.while (%a = %first) : (i32) -> i32 {
    %goes = arith.cmpi slt, %a, %end : i32
    scf.condition(%goes) %a : i32
  } do {
  ^bb0(%a: i32):
    %more = arith.addi %a, %one : i32
    scf.yield %more : i32
  }
  %back = scf.while (%a = %first) : (i32) -> i32 {
    %goes = arith.cmpi slt, %a, %end : i32
    scf.condition(%goes) %a : i32
  } do {
  ^bb0(%a: i32):
    %more = arith.addi %a, %step {tile.fits} : i32
    scf.yield %more : i32
  }
  %moves:2 = scf.while (%a = %first, %b = %end) : (i32, i32) -> (i32, i32) {
    %goes = arith.cmpi slt, %a, %b : i32
    scf.condition(%goes) %a, %b : i32, i32
  } do {
  ^bb0(%a: i32, %b: i32):
    %more = arith.addi %a, %one {tile.fits} : i32
    %less = arith.subi %b, %step {tile.fits} : i32
    scf.yield %more, %less : i32, i32
  }
  %asks = scf.while (%a = %first) : (i32) -> i32 {
    %below = arith.cmpi slt, %a, %end : i32
    %goes = arith.andi %below, %go : i1
    scf.condition(%goes) %a : i32
  } do {
  ^bb0(%a: i32):
    %more = arith.addi %a, %one {tile.fits} : i32
    scf.yield %more : i32
  }
  return %wraps, %back, %moves#0, %asks : i32, i32, i32, i32
}
