// Bodies repeated as loops ask: whole groups in one loop, what is left in another.
// RUN: sectile-opt --unroll-loops --split-input-file --verify-diagnostics %s | FileCheck %s

// CHECK-LABEL: func.func @bounds_at_run_time
// CHECK-SAME: (%[[P:.*]]: !tile.ptr<f32>, %[[LOWER:.*]]: i32, %[[UPPER:.*]]: i32, %[[STEP:.*]]: i32)
// CHECK: %[[FIRST:.*]] = tile.load
// CHECK: %[[ANY:.*]] = arith.cmpi slt, %[[LOWER]], %[[UPPER]]
// CHECK: %[[DISTANCE:.*]] = arith.subi %[[UPPER]], %[[LOWER]]
// CHECK: %[[LAST:.*]] = arith.subi %[[DISTANCE]]
// CHECK: %[[STEPS:.*]] = arith.divui %[[LAST]], %[[STEP]]
// CHECK: %[[TRIPS:.*]] = arith.addi %[[STEPS]]
// CHECK: %[[WHOLE:.*]] = arith.divui %[[TRIPS]]
// CHECK: %[[FITS:.*]] = arith.cmpi ule, %[[STEP]], %{{.*}}
// CHECK: %[[IN_GROUPS:.*]] = arith.andi %[[ANY]], %[[FITS]]
// CHECK: %[[GROUPS:.*]] = arith.select %[[IN_GROUPS]], %[[WHOLE]]
// CHECK: %[[STRIDE:.*]] = arith.muli %[[STEP]]
// CHECK: %[[LENGTH:.*]] = arith.muli %[[GROUPS]], %[[STRIDE]]
// CHECK: %[[MIDDLE:.*]] = arith.addi %[[LOWER]], %[[LENGTH]]
// CHECK: %[[MAIN:.*]] = scf.for %[[I:.*]] = %[[LOWER]] to %[[MIDDLE]] step %[[STRIDE]] iter_args(%[[ACC:.*]] = %[[FIRST]])
// CHECK: arith.sitofp %[[I]]
// CHECK: %[[A:.*]] = arith.addf %[[ACC]]
// CHECK: %[[J:.*]] = arith.addi %[[I]]
// CHECK: arith.sitofp %[[J]]
// CHECK: %[[B:.*]] = arith.addf %[[A]]
// CHECK: scf.yield %[[B]]
// CHECK: } {cta.unroll = 1 : i32}
// CHECK: %[[REST:.*]] = scf.for {{.*}} = %[[MIDDLE]] to %[[UPPER]] step %[[STEP]] iter_args({{.*}} = %[[MAIN]])
// CHECK: } {cta.unroll = 1 : i32}
// CHECK: tile.store %[[P]], %[[REST]]
func.func @bounds_at_run_time(%p: !tile.ptr<f32>, %lower: i32, %upper: i32, %step: i32) {
  %first = tile.load %p : !tile.ptr<f32> -> f32
  %sum = scf.for %i = %lower to %upper step %step iter_args(%acc = %first) -> (f32) : i32 {
    %f = arith.sitofp %i : i32 to f32
    %next = arith.addf %acc, %f : f32
    scf.yield %next : f32
  } {cta.unroll = 2 : i32}
  tile.store %p, %sum : !tile.ptr<f32>, f32
  return
}

// -----

// Nothing is left of a whole number of groups; inner loops are repeated in outer ones.
// CHECK-LABEL: func.func @constant_bounds
// CHECK: scf.for
// CHECK-COUNT-2: scf.for
// CHECK-NOT: scf.for
func.func @constant_bounds(%p: !tile.ptr<i32>) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %six = arith.constant 6 : i64
  scf.for %i = %zero to %six step %one : i64 {
    scf.for %j = %zero to %six step %one : i64 {
      %k = arith.trunci %j : i64 to i32
      tile.store %p, %k : !tile.ptr<i32>, i32
    } {cta.unroll = 3 : i32}
  } {cta.unroll = 2 : i32}
  return
}

// -----

// CHECK-LABEL: func.func @hints_without_effect
func.func @hints_without_effect(%p: !tile.ptr<i32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-remark @below {{a hint has no effect: flatten: nested loops stay nested}}
  // expected-remark @below {{a hint has no effect: warp_specialize: none of this loop's loads are made by the engine for dots that add to what the loop carries}}
  // expected-remark @below {{a hint has no effect: disallow_acc_multi_buffer: accumulators are in registers}}
  scf.for %i = %zero to %n step %one : i32 {
    tile.store %p, %i : !tile.ptr<i32>, i32
  } {cta.flatten, cta.warp_specialize = true, cta.one_accumulator}
  return
}

// -----

// Four steps at once would pass the end of the counter's type: from below as from above.
// CHECK-LABEL: func.func @steps_too_long
// CHECK: scf.for
// CHECK-NOT: scf.for
// CHECK: return
func.func @steps_too_long(%p: !tile.ptr<i32>, %n: i32, %m: i32) {
  %long = arith.constant 536870912 : i32
  // expected-remark @below {{a hint has no effect: unroll: 4 of the loop's steps do not fit in the type of its counter}}
  scf.for %i = %m to %n step %long : i32 {
    tile.store %p, %i : !tile.ptr<i32>, i32
  } {cta.unroll = 4 : i32}
  return
}
