// What dots in a branch of a loop multiply is loaded ahead of the branch, where an earlier iteration
// can know whether that is taken, and what it is.
// RUN: sectile-opt %s --split-input-file --load-before-branches | FileCheck %s
// RUN: sectile-opt %s --split-input-file --load-before-branches --assign-layouts --schedule-loops | FileCheck %s --check-prefix=AHEAD

module attributes {cta.target = "sm_80"} {
// CHECK-LABEL: @skipped
// CHECK: scf.for %[[I:.*]] = %{{.*}} iter_args
// CHECK: %[[THERE:.*]] = arith.trunci
// CHECK: %[[ROW:.*]] = arith.muli %[[I]]
// CHECK: tile.load_block %{{.*}}[%[[ROW]], %{{.*}}] when %[[THERE]] {cta.of_branch = true}
// CHECK: scf.if %[[THERE]]
// CHECK-NOT: tile.load_block
// CHECK: cta.dot
// AHEAD-LABEL: @skipped
// AHEAD: scf.for
// AHEAD: cta.wait
// AHEAD: cta.async_copy_block
// AHEAD: cta.commit
// AHEAD: scf.if
// AHEAD-NOT: tile.load_block
// AHEAD: cta.dot
// AHEAD: cta.release
func.func @skipped(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %c: !tile.ptr<f32> {tile.divisible = 16 : i64}, %flags: i32, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %va = tile.make_view %a, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %vc = tile.make_view %c, [%n, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %bits = arith.shrui %flags, %i : i32
    %isThere = arith.trunci %bits : i32 to i1
    %next = scf.if %isThere -> (tensor<64x64xf32>) {
      %row = arith.muli %i, %c64 : i32
      %x = tile.load_block %va[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %d = cta.dot %x, %x, %acc by [16, 8, 16] : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    } else {
      scf.yield %acc : tensor<64x64xf32>
    }
    scf.yield %next : tensor<64x64xf32>
  }
  tile.store_block %vc[%c0, %c0], %r : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
  return
}
}

// -----

// By a page number that the branch loads, which nobody reads where it is not taken. The other side
// of the branch multiplies another load.
module attributes {cta.target = "sm_80"} {
// CHECK-LABEL: @pages
// CHECK: scf.for
// CHECK: %[[THERE:.*]] = arith.trunci
// CHECK: %[[PAGE:.*]] = tile.load %{{.*}} mask %[[THERE]] :
// CHECK: tile.splat %[[PAGE]]
// CHECK: %[[MASK:.*]] = tile.splat %[[THERE]]
// CHECK: tile.load %{{.*}} mask %[[MASK]] {cta.of_branch = true}
// CHECK: %[[OTHER:.*]] = arith.xori %[[THERE]]
// CHECK: %[[REST:.*]] = tile.splat %[[OTHER]]
// CHECK: tile.load %{{.*}} mask %[[REST]] {cta.of_branch = true}
// CHECK: scf.if
// AHEAD-LABEL: @pages
// AHEAD: scf.for
// AHEAD: cta.wait
// AHEAD-COUNT-2: cta.async_copy {{.*}} filled
// AHEAD: scf.if
func.func @pages(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %c: !tile.ptr<f32> {tile.divisible = 16 : i64}, %pages: !tile.ptr<i32>, %flags: i32, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %size = arith.constant dense<4096> : tensor<64x64xi32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %flat = tile.arange 0 : tensor<4096xi32>
  %index = tile.reshape %flat : tensor<4096xi32> -> tensor<64x64xi32>
  %as = tile.splat %a : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %pa = tile.addptr %as, %index : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
  %pc = tile.addptr %cs, %index : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %bits = arith.shrui %flags, %i : i32
    %isThere = arith.trunci %bits : i32 to i1
    %next = scf.if %isThere -> (tensor<64x64xf32>) {
      %at = tile.addptr %pages, %i : !tile.ptr<i32>, i32
      %page = tile.load %at : !tile.ptr<i32> -> i32
      %ps = tile.splat %page : i32 -> tensor<64x64xi32>
      %start = arith.muli %ps, %size : tensor<64x64xi32>
      %pi = tile.addptr %pa, %start : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
      %x = tile.load %pi : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
      %d = cta.dot %x, %x, %acc by [16, 8, 16] : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    } else {
      %y = tile.load %pa : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
      %d = cta.dot %y, %y, %acc by [16, 8, 16] : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    scf.yield %next : tensor<64x64xf32>
  }
  tile.store %pc, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}
}

// -----

// A load in a loop within a branch stays there, beside a row that is loaded ahead.
module attributes {cta.target = "sm_80"} {
// CHECK-LABEL: @searches
// AHEAD-LABEL: @searches
// AHEAD: %[[ROW:.*]] = tile.load_block {{.*}} -> tensor<64x1xf32
// AHEAD: scf.for
// AHEAD-SAME: %[[ROW]]
// AHEAD: scf.if
// AHEAD: scf.for
// AHEAD: tile.load
func.func @searches(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %c: !tile.ptr<f32> {tile.divisible = 16 : i64}, %counts: !tile.ptr<i32>, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %va = tile.make_view %a, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %vc = tile.make_view %c, [%n, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %seen = %c0) -> (tensor<64x64xf32>, i32) : i32 {
    %row = arith.muli %i, %c64 : i32
    %x = tile.load_block %va[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %s = tile.load_block %vc[%row, %c0] : !tile.view<2xf32>, [i32, i32] -> tensor<64x1xf32>
    %d = cta.dot %x, %x, %zero by [16, 8, 16] : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    %w = tile.broadcast %s : tensor<64x1xf32> -> tensor<64x64xf32>
    %e = arith.mulf %d, %w : tensor<64x64xf32>
    %next = arith.addf %acc, %e : tensor<64x64xf32>
    %isThere = arith.trunci %i : i32 to i1
    %more = scf.if %isThere -> (i32) {
      %found = scf.for %j = %c0 to %n step %c1 iter_args(%t = %seen) -> (i32) : i32 {
        %p = tile.addptr %counts, %j : !tile.ptr<i32>, i32
        %v = tile.load %p : !tile.ptr<i32> -> i32
        %u = arith.addi %t, %v : i32
        scf.yield %u : i32
      }
      scf.yield %found : i32
    } else {
      scf.yield %seen : i32
    }
    scf.yield %next, %more : tensor<64x64xf32>, i32
  }
  %at = tile.addptr %counts, %n : !tile.ptr<i32>, i32
  tile.store %at, %r#1 : !tile.ptr<i32>, i32
  tile.store_block %vc[%n, %c0], %r#0 : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
  return
}
}
