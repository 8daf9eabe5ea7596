// RUN: sectile-opt --lower-debug %s | sectile-opt | FileCheck %s

// A kernel without assertions and prints stays as it is.
// CHECK-LABEL: func.func @none(%{{[^,]*}}: i32) attributes {tile.kernel} {
func.func @none(%x: i32) attributes {tile.kernel} {
  return
}

// One that has some takes the log and the launch's number, and knows its sites.
// CHECK-LABEL: func.func @some(
// CHECK-SAME: %[[C:[^:]*]]: i1, %[[M:[^:]*]]: tensor<2x3xi1>, %[[X:[^:]*]]: tensor<8xf16>, %[[LOG:[^:]*]]: !tile.ptr<i8>, %[[LAUNCH:[^:]*]]: i64)
// CHECK-SAME: tile.debug_sites = [{loc = #loc{{[0-9]*}}, shape = array<i64>, text = "c holds"}
// CHECK-SAME: {loc = #loc{{[0-9]*}}, shape = array<i64: 2, 3>, text = "m holds"}
// CHECK-SAME: {hex, loc = #loc{{[0-9]*}}, text = "x", unsigned = array<i1: false, false>, values = [tensor<8xf16>, i1]}]
func.func @some(%c: i1, %m: tensor<2x3xi1>, %x: tensor<8xf16>) attributes {tile.kernel} {
  // CHECK: cta.assert %[[C]], %[[LOG]], %[[LAUNCH]] site 0 :
  tile.assert %c, "c holds" : i1
  // The first element that does not hold, by its number in row-major order.
  // CHECK: %[[ROW:.*]] = arith.muli %{{.*}}, %{{.*}} : tensor<2xi32>
  // CHECK: %[[NUMBER:.*]] = arith.addi %{{.*}}, %{{.*}} : tensor<2x3xi32>
  // CHECK: %[[NONE:.*]] = arith.constant dense<2147483647> : tensor<2x3xi32>
  // CHECK: %[[FAILED:.*]] = arith.select %[[M]], %[[NONE]], %[[NUMBER]]
  // CHECK: %[[ROWS:.*]] = tile.reduce %[[FAILED]] 1
  // CHECK: arith.minsi
  // CHECK: %[[FIRST:.*]] = tile.reduce %[[ROWS]] 0
  // CHECK: %[[ALL:.*]] = arith.cmpi eq, %[[FIRST]], %{{.*}} : i32
  // CHECK: cta.assert %[[ALL]], %[[LOG]], %[[LAUNCH]] site 1 index %[[FIRST]] :
  tile.assert %m, "m holds" : tensor<2x3xi1>
  // CHECK: %[[FITS:.*]], %[[VALUES:.*]]:2 = cta.record %[[LOG]], %[[LAUNCH]] site 2 bytes 64 at [0, 16] : !tile.ptr<i8> -> !tile.ptr<f16>, !tile.ptr<i8>
  // CHECK: %[[START:.*]] = tile.splat %[[VALUES]]#0
  // CHECK: %[[PLACES:.*]] = tile.addptr %[[START]], %{{.*}}
  // CHECK: %[[ALLFIT:.*]] = tile.splat %[[FITS]]
  // CHECK: tile.store %[[PLACES]], %[[X]] mask %[[ALLFIT]]
  // CHECK: %[[BYTE:.*]] = arith.extui %[[C]] : i1 to i8
  // CHECK: tile.store %[[VALUES]]#1, %[[BYTE]] mask %[[FITS]]
  tile.print "x" hex, %x, %c : tensor<8xf16>, i1 {isUnsigned = array<i1: false, false>}
  return
}

// CHECK-LABEL: func.func @without(%{{[^,]*}}: i1)
// CHECK-NEXT: return
func.func @without(%c: i1) attributes {tile.kernel, tile.without_debug} {
  tile.assert %c, "c holds" : i1
  tile.print "c", %c : i1
  return
}
