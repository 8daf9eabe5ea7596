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
