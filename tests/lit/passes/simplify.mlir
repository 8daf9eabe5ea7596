// RUN: sectile-opt --simplify %s | FileCheck %s

// What does not depend on the loop leaves it, and what is computed twice is computed once.
// CHECK-LABEL: func.func @hoist
// CHECK: %[[RANGE:.*]] = tile.arange 0
// CHECK: %[[SUM:.*]] = arith.addi %[[RANGE]]
// CHECK: %[[TWICE:.*]] = arith.addi %[[SUM]], %[[SUM]]
// CHECK: scf.for
// CHECK-NOT: tile.arange
// CHECK: arith.addi %{{.*}}, %[[TWICE]]
// CHECK-NEXT: scf.yield
func.func @hoist(%n: i32, %p: !tile.ptr<i32>) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0> : tensor<128xi32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128xi32>) : i32 {
    %a = tile.arange 0 : tensor<128xi32>
    %b = tile.arange 0 : tensor<128xi32>
    %s = tile.splat %n : i32 -> tensor<128xi32>
    %c = arith.addi %a, %s : tensor<128xi32>
    %d = arith.addi %b, %s : tensor<128xi32>
    %e = arith.addi %c, %d : tensor<128xi32>
    %f = arith.addi %acc, %e : tensor<128xi32>
    scf.yield %f : tensor<128xi32>
  }
  %a = tile.arange 0 : tensor<128xi32>
  %ps = tile.splat %p : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>>
  %q = tile.addptr %ps, %a : tensor<128x!tile.ptr<i32>>, tensor<128xi32>
  tile.store %q, %r : tensor<128x!tile.ptr<i32>>, tensor<128xi32>
  return
}

// A splat stays one under changes of shape, and arithmetic on splats is arithmetic on scalars.
// CHECK-LABEL: func.func @splats
// CHECK-SAME: %[[A:.*]]: i32, %[[B:.*]]: i32
// CHECK: %[[S:.*]] = arith.muli %[[A]], %[[B]] : i32
// CHECK: %[[C:.*]] = arith.cmpi slt, %[[S]], %{{.*}} : i32
// CHECK: %[[R:.*]] = tile.splat %[[C]] : i1 -> tensor<16x8xi1>
// CHECK: return %[[R]]
func.func @splats(%a: i32, %b: i32) -> tensor<16x8xi1> {
  %as = tile.splat %a : i32 -> tensor<8xi32>
  %bs = tile.splat %b : i32 -> tensor<1x8xi32>
  %ax = tile.expand_dims %as 0 : tensor<8xi32> -> tensor<1x8xi32>
  %p = arith.muli %ax, %bs : tensor<1x8xi32>
  %hundred = arith.constant dense<100> : tensor<1x8xi32>
  %c = arith.cmpi slt, %p, %hundred : tensor<1x8xi32>
  %r = tile.broadcast %c : tensor<1x8xi1> -> tensor<16x8xi1>
  return %r : tensor<16x8xi1>
}

// CHECK-LABEL: func.func @shapes
// CHECK-SAME: %[[T:.*]]: tensor<4x8xf32>, %[[ONE:.*]]: tensor<1x1xf32>
// CHECK-DAG: %[[R:.*]] = tile.reshape %[[T]] : tensor<4x8xf32> -> tensor<2x16xf32>
// CHECK-DAG: %[[B:.*]] = tile.broadcast %[[ONE]] : tensor<1x1xf32> -> tensor<4x8xf32>
// CHECK: return %[[R]], %[[B]], %[[T]]
func.func @shapes(%t: tensor<4x8xf32>, %one: tensor<1x1xf32>)
    -> (tensor<2x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %flat = tile.reshape %t : tensor<4x8xf32> -> tensor<32xf32>
  %r = tile.reshape %flat : tensor<32xf32> -> tensor<2x16xf32>
  %row = tile.broadcast %one : tensor<1x1xf32> -> tensor<1x8xf32>
  %b = tile.broadcast %row : tensor<1x8xf32> -> tensor<4x8xf32>
  %p = tile.permute %t [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  %q = tile.permute %p [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
  return %r, %b, %q : tensor<2x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// Masks that are known: the access goes without, or goes.
// CHECK-LABEL: func.func @masks
// CHECK-SAME: %[[P:[^:]*]]: tensor<64x!tile.ptr<f32>>
// CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<64xf32>
// CHECK: %[[V:.*]] = tile.load %[[P]] : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
// CHECK-NEXT: tile.store %[[P]], %[[ZERO]] : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
// CHECK-NEXT: return %[[V]], %[[ZERO]]
func.func @masks(%p: tensor<64x!tile.ptr<f32>>, %other: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %r = tile.arange 0 : tensor<64xi32>
  %end = arith.constant dense<64> : tensor<64xi32>
  %zero = arith.constant dense<0> : tensor<64xi32>
  %all = arith.cmpi slt, %r, %end : tensor<64xi32>
  %none = arith.cmpi slt, %r, %zero : tensor<64xi32>
  %v = tile.load %p mask %all other %other : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> other tensor<64xf32> -> tensor<64xf32>
  %w = tile.load %p mask %none : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> -> tensor<64xf32>
  tile.store %p, %w mask %all : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
  tile.store %p, %v mask %none : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
  return %v, %w : tensor<64xf32>, tensor<64xf32>
}

// A comparison whose elements differ is left alone.
// CHECK-LABEL: func.func @part
// CHECK: arith.cmpi slt
func.func @part() -> tensor<64xi1> {
  %r = tile.arange 0 : tensor<64xi32>
  %end = arith.constant dense<63> : tensor<64xi32>
  %m = arith.cmpi slt, %r, %end : tensor<64xi32>
  return %m : tensor<64xi1>
}

// CHECK-LABEL: func.func @conversions
// CHECK-SAME: %[[T:[^:]*]]: tensor<64xf32, #[[A:.*]]>, %[[X:[^:]*]]: f32
// CHECK-DAG: %[[C:.*]] = cta.convert_layout %[[T]] : tensor<64xf32, #[[A]]> -> tensor<64xf32, #{{.*}}>
// CHECK-DAG: %[[S:.*]] = tile.splat %[[X]] : f32 -> tensor<64xf32, #{{.*}}>
// CHECK-DAG: %[[K:.*]] = arith.constant dense<1.000000e+00>
// CHECK: return %[[C]], %[[S]], %[[T]], %[[K]]
#a = #cta.layout<"64, register [(1)], lane [(2) (4) (8) (16) (32)]">
#b = #cta.layout<"64, register [(32)], lane [(1) (2) (4) (8) (16)]">
#c = #cta.layout<"64, register [(2)], lane [(1) (4) (8) (16) (32)]">
func.func @conversions(%t: tensor<64xf32, #a>, %x: f32)
    -> (tensor<64xf32, #c>, tensor<64xf32, #b>, tensor<64xf32, #a>, tensor<64xf32, #b>) attributes {cta.warps = 1 : i32} {
  %0 = cta.convert_layout %t : tensor<64xf32, #a> -> tensor<64xf32, #b>
  %1 = cta.convert_layout %0 : tensor<64xf32, #b> -> tensor<64xf32, #c>
  %2 = cta.convert_layout %0 : tensor<64xf32, #b> -> tensor<64xf32, #a>
  %s = tile.splat %x : f32 -> tensor<64xf32, #a>
  %3 = cta.convert_layout %s : tensor<64xf32, #a> -> tensor<64xf32, #b>
  %k = arith.constant dense<1.0> : tensor<64xf32, #a>
  %4 = cta.convert_layout %k : tensor<64xf32, #a> -> tensor<64xf32, #b>
  return %1, %3, %2, %4 : tensor<64xf32, #c>, tensor<64xf32, #b>, tensor<64xf32, #a>, tensor<64xf32, #b>
}

// Atomic operations under a constant mask.
// CHECK-LABEL: func.func @constant_masks_of_atomics
// CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK: tile.atomic_rmw add, %{{.*}}, %{{.*}} : !tile.ptr<i32>, i32 -> i32
// CHECK-NOT: tile.atomic
// CHECK: return %{{.*}}, %[[ZERO]], %[[ZERO]]
func.func @constant_masks_of_atomics(%p: !tile.ptr<i32>, %x: i32) -> (i32, i32, i32) {
  %true = arith.constant true
  %false = arith.constant false
  %0 = tile.atomic_rmw add, %p, %x mask %true : !tile.ptr<i32>, i32 mask i1 -> i32
  %1 = tile.atomic_rmw add, %p, %x mask %false : !tile.ptr<i32>, i32 mask i1 -> i32
  %2 = tile.atomic_cas %p, %x, %x mask %false : !tile.ptr<i32>, i32 mask i1 -> i32
  return %0, %1, %2 : i32, i32, i32
}

// A loop from another's counter to its next value has one iteration, whatever the counter is.
// CHECK-LABEL: func @one_iteration
// CHECK: scf.for
// CHECK-NOT: scf.for
// CHECK: return
func.func @one_iteration(%n: i32, %p: !tile.ptr<i32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %end = arith.addi %i, %c1 : i32
    scf.for %j = %i to %end step %c1 : i32 {
      tile.store %p, %j : !tile.ptr<i32>, i32
    }
  }
  return
}

// Beyond the step the sum may overflow: then there are no iterations.
// CHECK-LABEL: func @may_overflow
// CHECK: scf.for
// CHECK: scf.for
func.func @may_overflow(%n: i32, %p: !tile.ptr<i32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %end = arith.addi %i, %c2 : i32
    scf.for %j = %i to %end step %c2 : i32 {
      tile.store %p, %j : !tile.ptr<i32>, i32
    }
  }
  return
}

// Loops of no iterations and of one, also where the bounds are further apart than the type counts with a sign.
// CHECK-LABEL: func.func @trivial_loops
// CHECK-DAG: %[[LOW:.*]] = arith.constant -2147483648 : i32
// CHECK-NOT: scf.for
// CHECK: tile.store %{{.*}}, %[[LOW]]
// CHECK: scf.for
// CHECK-NOT: scf.for
// CHECK: return
func.func @trivial_loops(%p: !tile.ptr<i32>) attributes {tile.kernel} {
  %low = arith.constant -2147483648 : i32
  %far = arith.constant 1610612736 : i32
  %high = arith.constant 2147483647 : i32
  %c1 = arith.constant 1 : i32
  %m1 = arith.constant -1 : i32
  scf.for %i = %high to %low step %c1 : i32 {
    tile.store %p, %i : !tile.ptr<i32>, i32
  }
  scf.for %i = %low to %m1 step %high : i32 {
    tile.store %p, %i : !tile.ptr<i32>, i32
  }
  scf.for %i = %low to %high step %far : i32 {
    tile.store %p, %i : !tile.ptr<i32>, i32
  }
  return
}

// A number wins over a signalling NaN, on whichever side, and -0 is the smaller zero: as chips have it.
// CHECK-LABEL: func.func @numbers
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-DAG: %[[MINUS_ZERO:.*]] = arith.constant -0.000000e+00 : f32
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-DAG: %[[NAN:.*]] = arith.constant 0x7FC00000 : f32
// CHECK: return %[[ONE]], %[[ONE]], %[[MINUS_ZERO]], %[[ZERO]], %[[NAN]], %arg0
func.func @numbers(%x: f32) -> (f32, f32, f32, f32, f32, f32) {
  %signalling = arith.constant 0x7F800001 : f32
  %quiet = arith.constant 0x7FC00000 : f32
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %minusZero = arith.constant -0.0 : f32
  %0 = tile.minimum_number %signalling, %one : f32
  %1 = tile.maximum_number %one, %signalling : f32
  %2 = tile.minimum_number %zero, %minusZero : f32
  %3 = tile.maximum_number %minusZero, %zero : f32
  %4 = tile.maximum_number %quiet, %quiet : f32
  %5 = tile.minimum_number %x, %x : f32
  return %0, %1, %2, %3, %4, %5 : f32, f32, f32, f32, f32, f32
}
