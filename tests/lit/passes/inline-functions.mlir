// Bodies go where they are called, whatever the order of the functions.
// RUN: sectile-opt --inline-functions --split-input-file --verify-diagnostics %s | FileCheck %s
// RUN: sectile-opt --inline-functions --split-input-file --verify-diagnostics --mlir-print-debuginfo %s | FileCheck %s --check-prefix=LINES

// CHECK-LABEL: func.func @kernel
// CHECK-SAME: (%[[P:.*]]: !tile.ptr<f32>, %[[N:.*]]: i32)
// CHECK-NOT: call
// CHECK: %[[X:.*]] = tile.load %[[P]]
// CHECK: scf.for {{.*}} iter_args(%[[ACC:.*]] = %[[X]])
// CHECK: %[[SQUARE:.*]] = arith.mulf %[[ACC]], %[[ACC]]
// CHECK: %[[SUM:.*]] = arith.addf %[[SQUARE]], %[[X]]
// CHECK: scf.yield %[[SUM]]
// CHECK-NOT: func.func private
func.func @kernel(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %x = tile.load %p : !tile.ptr<f32> -> f32
  %sum = scf.for %i = %zero to %n step %one iter_args(%acc = %x) -> (f32) : i32 {
    %next, %old = func.call @step(%acc, %x) : (f32, f32) -> (f32, f32)
    scf.yield %next : f32
  }
  func.call @write(%p, %sum) : (!tile.ptr<f32>, f32) -> ()
  return
}
func.func private @write(%p: !tile.ptr<f32>, %x: f32) {
  tile.store %p, %x : !tile.ptr<f32>, f32
  return
}
func.func private @step(%a: f32, %b: f32) -> (f32, f32) {
  %square = func.call @square(%a) : (f32) -> f32
  %sum = arith.addf %square, %b : f32
  return %sum, %a : f32, f32
}
func.func private @square(%a: f32) -> f32 {
  %square = arith.mulf %a, %a : f32
  return %square : f32
}

// -----

// What is wrong with an operation is told with the line of the function and that of the call.
// LINES-LABEL: func.func @lines
// LINES: arith.addf {{.*}} loc(#[[AT:.*]])
// LINES: #[[LINE:.*]] = loc("f.cpp":3:1)
// LINES: #[[CALL:.*]] = loc("f.cpp":7:1)
// LINES: #[[AT]] = loc(callsite(#[[LINE]] at #[[CALL]]))
func.func @lines(%p: !tile.ptr<f32>) attributes {tile.kernel} {
  %x = tile.load %p : !tile.ptr<f32> -> f32
  %y = func.call @twice(%x) : (f32) -> f32 loc("f.cpp":7:1)
  tile.store %p, %y : !tile.ptr<f32>, f32
  return
}
func.func private @twice(%a: f32) -> f32 {
  %b = arith.addf %a, %a : f32 loc("f.cpp":3:1)
  return %b : f32
}

// -----

func.func @forever(%p: !tile.ptr<f32>) {
  func.call @again(%p) : (!tile.ptr<f32>) -> ()
  return
}
func.func private @again(%p: !tile.ptr<f32>) {
  // expected-error @below {{calls 'again' while that is being called: a kernel cannot recurse}}
  func.call @again(%p) : (!tile.ptr<f32>) -> ()
  return
}

// -----

func.func @elsewhere(%p: !tile.ptr<f32>) {
  // expected-error @below {{calls 'missing', of which the module has no body to put here}}
  func.call @missing(%p) : (!tile.ptr<f32>) -> ()
  return
}
func.func private @missing(!tile.ptr<f32>)
