// Programs that go through groups of rows, whose lengths they load, and through the tiles of each. Lengths are loaded on both
// sides of the partition, as the kernel never writes them; nothing is handed over. The engine stores in loops within loops.
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: sectile-opt --check-channels %t.mlir -o /dev/null

// CHECK-LABEL: func.func @groups
// CHECK: %[[FIRST:.*]] = tile.program_id 0
// CHECK: cta.partition warps 4 registers [24, 240] {
// CHECK:   scf.for %{{.*}} iter_args(%{{.*}} = %[[FIRST]], %{{.*}} = %c0_i32, %{{.*}} = %c0_i32) -> (i32, i32, i32)
// CHECK:     tile.load {{.*}} : !tile.ptr<i32> -> i32
// CHECK:     scf.for
// CHECK:       scf.for
// CHECK:         cta.mbarrier_wait
// CHECK:         cta.tensor_copy
// CHECK-NOT: local_store
// CHECK: cta.alloc
// CHECK: %[[ALL:.*]]:4 = scf.for %{{.*}} iter_args(%{{.*}} = %[[FIRST]], %{{.*}} = %c0_i32, %{{.*}} = %false, %{{.*}} = %c0_i32)
// CHECK:   tile.load {{.*}} : !tile.ptr<i32> -> i32
// CHECK:   scf.for %{{.*}} iter_args({{.*}}, %[[STORED:.*]] = %{{.*}}, {{.*}}) -> (i32, i1, i32)
// CHECK:     scf.for
// CHECK:       cta.dot_start
// CHECK:     cta.tensor_store_wait %[[BUFFER:.*]] when %[[STORED]] written
// CHECK:     cta.tensor_store {{.*}}, %[[BUFFER]]
// CHECK:     scf.yield %{{.*}}, %true, %{{.*}} : i32, i1, i32
// CHECK: cta.tensor_store_wait %[[BUFFER]] when %[[ALL]]#2

// The two sides must come to the same tiles. A copy of too many rows of each group:
// RUN: sed '/cta.partition/,/cta.alloc/s/arith.maxsi \(%[0-9]*\), %c0_i32/arith.maxsi \1, %c1_i32/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=LONGER
// LONGER: error: 'cta.tensor_copy' op copies to slot 0 {{.*}}, for which nobody waits
// The length of the first group for all:
// RUN: sed -e '/cta.partition/,/cta.alloc/s/tile.addptr %arg4, %[0-9]*/tile.addptr %arg4, %none/' -e 's/^    cta.partition/    %%none = arith.constant 0 : i64\n&/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=SAME
// SAME: error: 'cta.{{(mbarrier_wait|tensor_copy)}}' op
// Uses that are not counted on from group to group:
// RUN: sed '/cta.partition/,/cta.alloc/s/iter_args(\(%[a-z0-9]*\) = \(%[a-z0-9]*\), \(%[a-z0-9]*\) = %[a-z0-9]*) -> (i32, i32)/iter_args(\1 = \2, \3 = %c0_i32) -> (i32, i32)/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=ANEW
// ANEW: error: 'cta.{{(mbarrier_wait|tensor_copy)}}' op
// A wait for the store before the first:
// RUN: sed 's/when %arg[0-9]* written/written/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=UNWRITTEN
// UNWRITTEN: error: 'cta.tensor_store_wait' op reads its bytes {{.*}} before anything was written there

module attributes {cta.target = "sm_90a"} {
  func.func @groups(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                    %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %rows: i32 {tile.below = 1073741824 : i64},
                    %lengths: !tile.ptr<i32>, %groups: i32 {tile.below = 1073741824 : i64}, %steps: i32)
                    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c127 = arith.constant 127 : i32
    %c128 = arith.constant 128 : i32
    %c1024 = arith.constant 1024 : i32
    %stride = arith.constant 1024 : i64
    %width = arith.constant 64 : i64
    %b = tile.make_view %y, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %first = tile.program_id 0
    %programs = tile.num_programs 0
    scf.for %group = %c0 to %groups step %c1 iter_args(%begin = %first, %start = %c0) -> (i32, i32) : i32 {
      %place = arith.extsi %group : i32 to i64
      %ptr = tile.addptr %lengths, %place : !tile.ptr<i32>, i64
      %length = tile.load %ptr : !tile.ptr<i32> -> i32
      %left = arith.subi %rows, %start {tile.fits} : i32
      %within = arith.minsi %length, %left : i32
      %size = arith.maxsi %within, %c0 : i32
      %more = arith.addi %size, %c127 {tile.fits} : i32
      %tiles = arith.divsi %more, %c128 {tile.fits} : i32
      %from = arith.extsi %start : i32 to i64
      %distance = arith.muli %from, %stride {tile.fits} : i64
      %xs = tile.addptr %x, %distance : !tile.ptr<f16>, i64
      %narrower = arith.muli %from, %width {tile.fits} : i64
      %zs = tile.addptr %z, %narrower : !tile.ptr<f16>, i64
      %a = tile.make_view %xs, [%size, %c1024], [%c1024, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %c = tile.make_view %zs, [%size, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %end = scf.for %tile = %begin to %tiles step %programs iter_args(%next = %begin) -> (i32) : i32 {
        %row = arith.muli %tile, %c128 {tile.fits} : i32
        %sums = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
          %k = arith.muli %i, %c64 {tile.fits} : i32
          %l = tile.load_block %a[%row, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
          %r = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
          %dot = tile.dot %l, %r, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
          scf.yield %dot : tensor<128x64xf32>
        } {cta.warp_specialize = true}
        %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
        tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
        %later = arith.addi %next, %programs {tile.fits} : i32
        scf.yield %later : i32
      }
      %over = arith.subi %end, %tiles {tile.fits} : i32
      %begins = arith.maxsi %over, %c0 : i32
      %ends = arith.addi %start, %size {tile.fits} : i32
      %starts = arith.minsi %rows, %ends : i32
      scf.yield %begins, %starts : i32, i32
    }
    return
  }
}
