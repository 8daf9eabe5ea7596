// What no thread does is not in the code: a load whose mask is known to be false gives its other values, and ptxas (13.0),
// which takes wrong halves of a constant apart, does not meet it.
// RUN: sectile-opt --sectile-pipeline %s | sectile-opt --emit-assembly - | FileCheck %s
module attributes {cta.target = "sm_90a"} {

// CHECK-LABEL: .entry never
// CHECK-NOT: ld.global
// CHECK-NOT: atom
// CHECK-NOT: red.
// CHECK: st.global
// CHECK-NOT: st.global
// CHECK: ret
func.func @never(%p: !tile.ptr<i32>, %q: !tile.ptr<i32>) attributes {tile.kernel, cta.warps = 1 : i32} {
  %i = tile.arange 0 : tensor<32xi32>
  %zero = arith.constant dense<0> : tensor<32xi32>
  %seven = arith.constant dense<7> : tensor<32xi32>
  %mask = arith.cmpi slt, %i, %zero : tensor<32xi32>
  %ps = tile.splat %p : !tile.ptr<i32> -> tensor<32x!tile.ptr<i32>>
  %qs = tile.splat %q : !tile.ptr<i32> -> tensor<32x!tile.ptr<i32>>
  %from = tile.addptr %ps, %i : tensor<32x!tile.ptr<i32>>, tensor<32xi32>
  %to = tile.addptr %qs, %i : tensor<32x!tile.ptr<i32>>, tensor<32xi32>
  %x = tile.load %from mask %mask other %seven : tensor<32x!tile.ptr<i32>> mask tensor<32xi1> other tensor<32xi32> -> tensor<32xi32>
  %old = tile.atomic_rmw add, %from, %x mask %mask : tensor<32x!tile.ptr<i32>>, tensor<32xi32> mask tensor<32xi1> -> tensor<32xi32>
  %sum = arith.addi %x, %old : tensor<32xi32>
  tile.store %from, %sum mask %mask : tensor<32x!tile.ptr<i32>>, tensor<32xi32> mask tensor<32xi1>
  tile.store %to, %sum : tensor<32x!tile.ptr<i32>>, tensor<32xi32>
  return
}
}
