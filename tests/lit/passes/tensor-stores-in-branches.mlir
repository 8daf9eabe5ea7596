// A loop over tiles that stores some of them, and tells other programs of it before the next one is stored. The engine's stores
// are in memory by then: the one thread waits ahead of the atomic operation, as it does ahead of the next store. Whether there is
// something to wait for is a value of the loop.
// RUN: split-file %s %t
// RUN: sectile-opt --sectile-pipeline %t/told.mlir -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: sectile-opt --check-channels %t.mlir -o /dev/null

// CHECK-LABEL: func.func @told
// CHECK: cta.partition
// CHECK-NOT: tile.atomic_rmw
// CHECK: %[[STORED:.*]] = cta.alloc {offset
// CHECK: %[[ALL:.*]]:2 = scf.for {{.*}} iter_args(%[[BEFORE:.*]] = %false
// CHECK:   cta.dot_wait
// CHECK:   cta.tensor_store_wait %[[STORED]] when %[[BEFORE]] written
// CHECK-NEXT: %[[TOLD:.*]] = tile.atomic_rmw
// CHECK:   %[[DONE:.*]] = arith.cmpi eq, %[[TOLD]]
// CHECK:   scf.if %[[DONE]] {
// CHECK:     cta.tensor_store_wait %[[STORED]] when %[[BEFORE]] written
// CHECK:     cta.local_store {{.*}}, %[[STORED]]
// CHECK:     cta.tensor_store {{.*}}, %[[STORED]]
// CHECK:   %[[NOW:.*]] = arith.ori %[[BEFORE]], %[[DONE]]
// CHECK:   scf.yield %[[NOW]]
// CHECK: cta.tensor_store_wait %[[STORED]] when %[[ALL]]#0

// Without a tile that was stored before there is nothing to wait for.
// RUN: sed 's/ when %[a-z0-9#]* written/ written/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=ALWAYS
// ALWAYS: error: 'cta.tensor_store_wait' op reads its bytes in iteration 0 of 1 before anything was written there
// RUN: sed 's/cta.alloc {offset = [0-9]*/cta.alloc {offset = 0/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED: error: 'cta.local_store' op overwrites

// Afterwards nobody waits, so threads store.
// RUN: sectile-opt --sectile-pipeline %t/telling.mlir -o /dev/null 2>&1 | FileCheck %s --check-prefix=AFTER
// AFTER: remark: this block is stored by threads, not by the copy engine: the kernel orders memory for other programs

//--- told.mlir
module attributes {cta.target = "sm_90a"} {
  func.func @told(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                   %extent: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64}, %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %tiles: i32,
                   %n: i32,
                  %flag: !tile.ptr<i32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %a = tile.make_view %x, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %first = tile.program_id 0
    %programs = tile.num_programs 0
    scf.for %tile = %first to %tiles step %programs : i32 {
      %row = arith.muli %tile, %c128 {tile.fits} : i32
      %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
        %k = arith.muli %i, %c64 {tile.fits} : i32
        %left = tile.load_block %a[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
        %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %next = tile.dot %left, %right, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
        scf.yield %next : tensor<128x64xf32>
      } {cta.warp_specialize = true}
      %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
      %told = tile.atomic_rmw add, %flag, %c1 : !tile.ptr<i32>, i32 -> i32
      %isDone = arith.cmpi eq, %told, %c1 : i32
      scf.if %isDone {
        tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
      }
    }
    return
  }
}
//--- telling.mlir
module attributes {cta.target = "sm_90a"} {
  func.func @telling(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                   %extent: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64}, %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %tiles: i32,
                   %n: i32,
                     %flag: !tile.ptr<i32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %a = tile.make_view %x, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %first = tile.program_id 0
    %programs = tile.num_programs 0
    scf.for %tile = %first to %tiles step %programs : i32 {
      %row = arith.muli %tile, %c128 {tile.fits} : i32
      %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
        %k = arith.muli %i, %c64 {tile.fits} : i32
        %left = tile.load_block %a[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
        %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %next = tile.dot %left, %right, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
        scf.yield %next : tensor<128x64xf32>
      } {cta.warp_specialize = true}
      %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
      %isDone = arith.cmpi slt, %tile, %n : i32
      scf.if %isDone {
        tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
      }
      %told = tile.atomic_rmw add, %flag, %c1 : !tile.ptr<i32>, i32 -> i32
    }
    return
  }
}
