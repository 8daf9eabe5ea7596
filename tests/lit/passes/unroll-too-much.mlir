// A hint that would fill memory is not followed, and a remark says so.
// RUN: sectile-opt --unroll-loops --verify-diagnostics %s | FileCheck %s

// CHECK-LABEL: func.func @far
// CHECK: scf.for
// CHECK-NOT: scf.for
func.func @far(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-remark @+1 {{a hint has no effect: unroll: 2147483647 times a body of 4 operations is too much}}
  scf.for %i = %c0 to %n step %c1 : i32 {
    %0 = tile.load %p : !tile.ptr<f32> -> f32
    %1 = arith.addf %0, %0 : f32
    tile.store %p, %1 : !tile.ptr<f32>, f32
  } {cta.unroll = 2147483647 : i32}
  return
}
