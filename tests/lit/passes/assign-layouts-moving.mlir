// Layouts, scratch and barriers of gathers (the source in any layout), scans and histograms.
// RUN: sectile-opt --assign-layouts --place-shared --insert-barriers %s | FileCheck %s

module attributes {cta.target = "sm_80"} {
  // Scratch for the source; it is written again only after all have read it.
  // CHECK-LABEL: func.func @gather
  // CHECK-SAME: cta.shared_bytes = 2048
  // CHECK: scf.for
  // CHECK: cta.barrier
  // CHECK-NEXT: tile.gather %{{.*}}[%{{.*}}] 0 {offset = 0 : i32}
  func.func @gather(%p: !tile.ptr<i32>, %n: i32) attributes {cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %i = tile.arange 0 : tensor<512xi32>
    %s = tile.splat %p : !tile.ptr<i32> -> tensor<512x!tile.ptr<i32>>
    %from = tile.addptr %s, %i : tensor<512x!tile.ptr<i32>>, tensor<512xi32>
    %t = tile.load %from : tensor<512x!tile.ptr<i32>> -> tensor<512xi32>
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%at = %t) -> (tensor<512xi32>) : i32 {
      %g = tile.gather %t[%at] 0 : tensor<512xi32>, tensor<512xi32> -> tensor<512xi32>
      scf.yield %g : tensor<512xi32>
    }
    tile.store %from, %r : tensor<512x!tile.ptr<i32>>, tensor<512xi32>
    return
  }

  // One slot for each warp's total, and the bins of the histogram.
  // CHECK-LABEL: func.func @combine
  // CHECK: tile.scan %{{.*}} 0 {offset = {{[0-9]+}} : i32}
  // CHECK: tile.histogram %{{.*}} {offset = {{[0-9]+}} : i32} : tensor<512xi32, #{{.*}}> -> tensor<20xi32, #{{.*}}>
  func.func @combine(%p: !tile.ptr<i32>) attributes {cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<512xi32>
    %s = tile.splat %p : !tile.ptr<i32> -> tensor<512x!tile.ptr<i32>>
    %from = tile.addptr %s, %i : tensor<512x!tile.ptr<i32>>, tensor<512xi32>
    %t = tile.load %from : tensor<512x!tile.ptr<i32>> -> tensor<512xi32>
    %r = tile.scan %t 0 : (tensor<512xi32>) -> tensor<512xi32> {
    ^bb0(%a: i32, %b: i32):
      %c = arith.addi %a, %b : i32
      tile.yield %c : i32
    }
    %h = tile.histogram %r : tensor<512xi32> -> tensor<20xi32>
    %j = tile.arange 0 : tensor<20xi32>
    %s2 = tile.splat %p : !tile.ptr<i32> -> tensor<20x!tile.ptr<i32>>
    %to = tile.addptr %s2, %j : tensor<20x!tile.ptr<i32>>, tensor<20xi32>
    tile.store %to, %h : tensor<20x!tile.ptr<i32>>, tensor<20xi32>
    return
  }
}
