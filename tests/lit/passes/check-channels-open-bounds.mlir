// Bounds, steps and conditions that have no inverse, in nests, with a producer partition and without one. The check chooses what each
// iteration of a loop does, the same for all who compute its bounds alike: valid kernels pass, and a fault is an error.
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir

// CHECK-LABEL: func.func @plain
// CHECK: scf.for
// CHECK: math.absi
// CHECK: cta.tensor_copy
// CHECK: scf.for
// CHECK: cta.tensor_copy
// CHECK-LABEL: func.func @parted
// CHECK: cta.partition
// CHECK: scf.for
// CHECK: math.absi
// CHECK: arith.cmpf ogt
// CHECK: arith.shli
// CHECK: scf.for
// CHECK: cta.tensor_copy
// CHECK: cta.in_flight

// What is copied ahead of a loop and in it is for one iteration too many.
// RUN: sed '/@plain/,/return/s/arith.cmpi ugt/arith.cmpi uge/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=MORE
// MORE: error: 'cta.tensor_copy' op {{copies to slot .*, for which nobody waits|may count for an earlier phase}}
// Not all that a loop waits for is copied.
// RUN: sed '/@plain/,/return/s/arith.cmpi ugt/arith.cmpi eq/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=FEWER
// FEWER: error: 'cta.{{(mbarrier_wait|tensor_copy)}}' op
// Uses begin anew in each iteration of the outer loop.
// RUN: sed '/@plain/,/return/s/iter_args(\(.*\) = %arg[0-9]*)/iter_args(\1 = %c0_i32)/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=ANEW
// ANEW: error: 'cta.{{(mbarrier_wait|tensor_copy)}}' op

// The partition computes its loop's bound in another way, by one operation of each kind.
// RUN: sed '/cta.partition/,/^    }/s/math.absi \(%[0-9]*\)/arith.addi \1, %c0_i32/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: sed '/cta.partition/,/^    }/s/arith.shli/arith.shrui/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: sed '/cta.partition/,/^    }/s/arith.cmpf ogt/arith.cmpf oge/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: sed '/cta.partition/,/^    }/s/arith.select \(%[0-9]*\), \(%[0-9]*\), \(%[0-9]*\)/arith.select \1, \3, \2/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: sed '/@steps/,/return/{/cta.partition/,/^    }/s/arith.andi %high/arith.andi %low/}' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: 'cta.{{(mbarrier_wait|tensor_copy)}}' op
// The main partition keeps the last slot.
// RUN: sed '/cta.dot_wait/,/scf.yield/{/cta.mbarrier_arrive/d}' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=KEPT
// RUN: sed '/@hundred/,/return/{/cta.mbarrier_arrive/d}' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=KEPT
// RUN: sed '/@reduced/,/return/s/arith.cmpi ugt/arith.cmpi eq/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=FEWER
// KEPT: error: 'cta.mbarrier_wait' op waits for ever

module attributes {cta.target = "sm_90a"} {
  func.func @plain(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                   %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
                   attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c3 = arith.constant 3 : i32
    %c7 = arith.constant 7 : i32
    %c64 = arith.constant 64 : i32
    %a = tile.make_view %x, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %program = tile.program_id 0
    %begin = arith.andi %program, %c7 : i32
    %times = arith.xori %n, %c3 : i32
    %all = scf.for %i = %begin to %times step %c1 iter_args(%before = %zero) -> (tensor<64x64xf32>) : i32 {
      %distance = arith.subi %n, %i : i32
      %end = math.absi %distance : i32
      %odd = arith.ori %n, %c1 : i32
      %step = arith.shli %c1, %odd : i32
      %sums = scf.for %k = %i to %end step %step iter_args(%acc = %before) -> (tensor<64x64xf32>) : i32 {
        %at = arith.muli %k, %c64 : i32
        %l = tile.load_block %a[%c0, %at] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %r = tile.load_block %b[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %dot = tile.dot %l, %r, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
        scf.yield %dot : tensor<64x64xf32>
      }
      scf.yield %sums : tensor<64x64xf32>
    }
    tile.store_block %c[%c0, %c0], %all : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }

  func.func @parted(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                    %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32, %f: f32)
                    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c3 = arith.constant 3 : i32
    %c7 = arith.constant 7 : i32
    %c64 = arith.constant 64 : i32
    %a = tile.make_view %x, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %program = tile.program_id 0
    %begin = arith.andi %program, %c7 : i32
    %times = arith.xori %n, %c3 : i32
    %all = scf.for %i = %begin to %times step %c1 iter_args(%before = %zero) -> (tensor<64x64xf32>) : i32 {
      %distance = arith.subi %n, %i : i32
      %end = math.absi %distance : i32
      // What floats give is one number, too.
      %part = arith.sitofp %end : i32 to f32
      %above = arith.cmpf ogt, %part, %f : f32
      %doubled = arith.shli %c2, %end : i32
      %many = arith.select %above, %doubled, %end : i32
      %new = scf.for %k = %c0 to %many step %c1 iter_args(%acc = %before) -> (tensor<64x64xf32>) : i32 {
        %at = arith.muli %k, %c64 : i32
        %l = tile.load_block %a[%c0, %at] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %r = tile.load_block %b[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %dot = tile.dot %l, %r, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
        scf.yield %dot : tensor<64x64xf32>
      } {cta.warp_specialize = true}
      scf.yield %new : tensor<64x64xf32>
    }
    tile.store_block %c[%c0, %c0], %all : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }

  // All iterations of the outer loop have the inner one's bounds, but a step of their own.
  // CHECK-LABEL: func.func @steps
  // CHECK: cta.partition
  func.func @steps(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                   %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32, %m: i32)
                   attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c3 = arith.constant 3 : i32
    %c7 = arith.constant 7 : i32
    %c64 = arith.constant 64 : i32
    %a = tile.make_view %x, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %begin = arith.andi %n, %c3 : i32
    %end = arith.andi %m, %c7 : i32
    %all = scf.for %i = %c0 to %m step %c1 iter_args(%before = %zero) -> (tensor<64x64xf32>) : i32 {
      %mixed = arith.xori %i, %n : i32
      %low, %high = arith.mului_extended %mixed, %m : i32
      %few = arith.andi %high, %c3 : i32
      %step = arith.ori %few, %c1 : i32
      %new = scf.for %k = %begin to %end step %step iter_args(%acc = %before) -> (tensor<64x64xf32>) : i32 {
        %at = arith.muli %k, %c64 : i32
        %l = tile.load_block %a[%c0, %at] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %r = tile.load_block %b[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %dot = tile.dot %l, %r, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
        scf.yield %dot : tensor<64x64xf32>
      } {cta.warp_specialize = true}
      scf.yield %new : tensor<64x64xf32>
    }
    tile.store_block %c[%c0, %c0], %all : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }

  // A hundred tiles, of which the check leaves some out, the same in both partitions: what the main one carries besides, as
  // whether a tile was stored before, has no part in that. The loops within have one or two iterations.
  // CHECK-LABEL: func.func @hundred
  // CHECK: cta.partition
  // CHECK: cta.tensor_store_wait
  func.func @hundred(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                     %z: !tile.ptr<f16> {tile.divisible = 16 : i64})
                     attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c100 = arith.constant 100 : i32
    %c6400 = arith.constant 6400 : i32
    %a = tile.make_view %x, [%c6400, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c6400, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    scf.for %tile = %c0 to %c100 step %c1 : i32 {
      %row = arith.muli %tile, %c64 : i32
      %odd = arith.andi %tile, %c1 : i32
      %many = arith.addi %odd, %c1 : i32
      %sums = scf.for %k = %c0 to %many step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
        %at = arith.muli %k, %c64 : i32
        %l = tile.load_block %a[%row, %at] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %r = tile.load_block %b[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %dot = tile.dot %l, %r, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
        scf.yield %dot : tensor<64x64xf32>
      } {cta.warp_specialize = true}
      %result = arith.truncf %sums : tensor<64x64xf32> to tensor<64x64xf16>
      tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<64x64xf16>
    }
    return
  }

  // A bound that an operation with a region gives.
  // CHECK-LABEL: func.func @reduced
  // CHECK: tile.reduce
  // CHECK: cta.tensor_copy
  func.func @reduced(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %counts: !tile.ptr<i32>)
                     attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %a = tile.make_view %x, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %places = tile.arange 0 : tensor<64xi32>
    %from = tile.splat %counts : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>>
    %ptrs = tile.addptr %from, %places : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
    %numbers = tile.load %ptrs : tensor<64x!tile.ptr<i32>> -> tensor<64xi32>
    %end = tile.reduce %numbers 0 : (tensor<64xi32>) -> i32 {
    ^bb0(%one: i32, %other: i32):
      %both = arith.andi %one, %other : i32
      tile.yield %both : i32
    }
    %sums = scf.for %k = %c0 to %end step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %at = arith.muli %k, %c64 : i32
      %l = tile.load_block %a[%c0, %at] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %r = tile.load_block %a[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %dot = tile.dot %l, %r, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %dot : tensor<64x64xf32>
    }
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}
