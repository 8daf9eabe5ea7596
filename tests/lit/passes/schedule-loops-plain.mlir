// Loops without dots that ask for stages: their loads are copied ahead to shared memory, or made one iteration ahead
// in registers.
// RUN: sectile-opt --schedule-loops --split-input-file %s 2>&1 | FileCheck %s
// RUN: sed 's/sm_80/gfx1100/; s/@copied/@of_amd/' %s | sectile-opt --schedule-loops --split-input-file 2>&1 | FileCheck --check-prefix=AMD %s

#row = #cta.layout<"512, register [(1) (2)], lane [(4) (8) (16) (32) (64)], warp [(128) (256)]">
!row = tensor<512xf32, #row>
!view = !tile.view<1xf32>
module attributes {cta.target = "sm_80"} {
// CHECK-LABEL: func.func @copied
// CHECK: %[[CHANNEL:.*]] = cta.channel : !cta.channel<3,
// CHECK: cta.async_copy_block
// CHECK: cta.async_copy_block
// CHECK: scf.for
// CHECK: %[[SLOT:.*]] = cta.wait %[[CHANNEL]]
// CHECK: cta.async_copy_block
// CHECK: %[[X:.*]] = cta.local_load %[[SLOT]]
// CHECK: cta.release %[[CHANNEL]]
// CHECK: arith.addf %{{.*}}, %[[X]]
// CHECK-NOT: tile.load_block
// CHECK: return

// AMD: remark: this load is one iteration ahead, in registers: the chip has no asynchronous copies
// AMD-LABEL: func.func @of_amd
// AMD: %[[FIRST:.*]] = tile.load_block %{{.*}} when
// AMD: scf.for {{.*}} iter_args(%[[SUM:.*]] = %{{.*}}, %[[X:.*]] = %[[FIRST]])
// AMD: %[[NEXT:.*]] = tile.load_block %{{.*}} when
// AMD: %[[MORE:.*]] = arith.addf %[[SUM]], %[[X]]
// AMD: scf.yield %[[MORE]], %[[NEXT]]
func.func @copied(%p: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64}, %steps: i32, %zero: !row) -> !row
    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %width = arith.constant 512 : i32
  %v = tile.make_view %p, [%n], [%c1] : !tile.ptr<f32>, [i32], [i32] -> !view
  %r = scf.for %i = %c0 to %steps step %c1 iter_args(%sum = %zero) -> (!row) : i32 {
    %at = arith.muli %i, %width : i32
    %x = tile.load_block %v[%at] : !view, [i32] -> !row
    %more = arith.addf %sum, %x : !row
    scf.yield %more : !row
  } {cta.stages = 3 : i32}
  return %r : !row
}
}

// -----

#row = #cta.layout<"512, register [(1) (2)], lane [(4) (8) (16) (32) (64)], warp [(128) (256)]">
!row = tensor<512xf32, #row>
!view = !tile.view<1xf32>
module attributes {cta.target = "sm_80"} {
// Two stages take registers. An address that follows from memory is loaded ahead with its load.
// CHECK-LABEL: func.func @carried
// CHECK-NOT: channel
// CHECK: tile.load %{{.*}} mask
// CHECK: tile.load_block %{{.*}} when
// CHECK: scf.for
// CHECK: tile.load %{{.*}} mask
// CHECK: %[[NEXT:.*]] = tile.load_block %{{.*}} when
// CHECK-NOT: tile.load
// CHECK: scf.yield %{{.*}}, %[[NEXT]]
func.func @carried(%p: !tile.ptr<f32> {tile.divisible = 16 : i64}, %pages: !tile.ptr<i32>, %n: i32 {tile.divisible = 16 : i64}, %steps: i32, %zero: !row) -> !row
    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %width = arith.constant 512 : i32
  %v = tile.make_view %p, [%n], [%c1] : !tile.ptr<f32>, [i32], [i32] -> !view
  %r = scf.for %i = %c0 to %steps step %c1 iter_args(%sum = %zero) -> (!row) : i32 {
    %entry = tile.addptr %pages, %i : !tile.ptr<i32>, i32
    %page = tile.load %entry : !tile.ptr<i32> -> i32
    %at = arith.muli %page, %width : i32
    %x = tile.load_block %v[%at] : !view, [i32] -> !row
    %more = arith.addf %sum, %x : !row
    scf.yield %more : !row
  } {cta.stages = 2 : i32}
  return %r : !row
}

// What the loop writes itself stays where it is.
// CHECK-LABEL: func.func @written
// CHECK-NOT: channel
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %{{[a-z0-9]+}}) ->
// CHECK: tile.load_block
// CHECK: tile.store_block
func.func @written(%p: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64}, %steps: i32, %zero: !row) -> !row
    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %v = tile.make_view %p, [%n], [%c1] : !tile.ptr<f32>, [i32], [i32] -> !view
  %r = scf.for %i = %c0 to %steps step %c1 iter_args(%sum = %zero) -> (!row) : i32 {
    %x = tile.load_block %v[%i] : !view, [i32] -> !row
    %more = arith.addf %sum, %x : !row
    tile.store_block %v[%i], %more : !view, [i32], !row
    scf.yield %more : !row
  } {cta.stages = 3 : i32}
  return %r : !row
}
}
