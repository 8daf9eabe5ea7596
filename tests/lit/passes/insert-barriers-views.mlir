// RUN: sectile-opt --lower-views --insert-barriers --split-input-file %s | FileCheck %s

// Column tiles of a view whose row stride is an argument: no barrier where the launch says that its elements have
// different addresses. What accesses go by tells of which block they are.

#tile = #cta.layout<"16x16, register [(0,1) (0,2)], lane [(0,4) (0,8) (1,0) (2,0) (4,0)], warp [(8,0) (0,0)]">
!tile = tensor<16x16xf32, #tile>
!view = !tile.view<2xf32>
module attributes {cta.target = "sm_80"} {
// CHECK-LABEL: func.func @distinct
// CHECK-SAME: {tile.distinct = array<i64: 0, 1>}
// CHECK: scf.for
// CHECK: %[[BLOCK:.*]] = cta.of_block %{{.*}} in %arg0, [%arg1, %arg2], [%arg3, %{{.*}}] at[%{{.*}}, %{{.*}}]
// CHECK-NOT: barrier
// CHECK: tile.store %[[BLOCK]]
// CHECK-NOT: barrier
// CHECK: return
func.func @distinct(%p: !tile.ptr<f32> {tile.distinct = array<i64: 0, 1>}, %m: i32, %n: i32, %s: i32, %unused: i32,
                    %x: !tile, %tiles: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %width = arith.constant 16 : i32
  %v = tile.make_view %p, [%m, %n], [%s, %one] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !view
  scf.for %j = %zero to %tiles step %one : i32 {
    %at = arith.muli %j, %width : i32
    tile.store_block %v[%zero, %at], %x : !view, [i32, i32], !tile
  }
  return
}

// CHECK-LABEL: func.func @unknown
// CHECK-NOT: of_block
// CHECK: scf.for
// CHECK: tile.barrier
// CHECK: tile.store
func.func @unknown(%p: !tile.ptr<f32>, %m: i32, %n: i32, %s: i32, %unused: i32, %x: !tile, %tiles: i32)
    attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %width = arith.constant 16 : i32
  %v = tile.make_view %p, [%m, %n], [%s, %one] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !view
  scf.for %j = %zero to %tiles step %one : i32 {
    %at = arith.muli %j, %width : i32
    tile.store_block %v[%zero, %at], %x : !view, [i32, i32], !tile
  }
  return
}

// The extent is not the view's: more columns than a row has.
// CHECK-LABEL: func.func @wider
// CHECK-NOT: of_block
// CHECK: tile.barrier
func.func @wider(%p: !tile.ptr<f32> {tile.distinct = array<i64: 0, 1>}, %m: i32, %n: i32, %s: i32, %unused: i32,
                 %x: !tile, %tiles: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %width = arith.constant 16 : i32
  %v = tile.make_view %p, [%m, %tiles], [%s, %one] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !view
  scf.for %j = %zero to %tiles step %one : i32 {
    %at = arith.muli %j, %width : i32
    tile.store_block %v[%zero, %at], %x : !view, [i32, i32], !tile
  }
  return
}

// Nor the stride: that of the other axis.
// CHECK-LABEL: func.func @other_stride
// CHECK-NOT: of_block
// CHECK: tile.barrier
func.func @other_stride(%p: !tile.ptr<f32> {tile.distinct = array<i64: 0, 0>}, %m: i32, %n: i32, %s: i32, %t: i32,
                        %x: !tile, %tiles: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %width = arith.constant 16 : i32
  %v = tile.make_view %p, [%m, %n], [%t, %s] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !view
  scf.for %j = %zero to %tiles step %one : i32 {
    %at = arith.muli %j, %width : i32
    tile.store_block %v[%zero, %at], %x : !view, [i32, i32], !tile
  }
  return
}
}
