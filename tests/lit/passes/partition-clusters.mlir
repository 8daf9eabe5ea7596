// A partition in a cluster: of what both blocks load, each one's thread for copies fetches a half for both. It waits until its own readers are
// done and tells the other block's. The pass that checks channels runs both sides of both blocks; each line below breaks the kernel in
// one place.
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: sectile-opt --check-channels %t.mlir -o /dev/null
// RUN: sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=PTX

// CHECK-LABEL: func.func @tiles
// CHECK: cta.cluster_barrier
// CHECK-NOT: cta.cluster_barrier
// CHECK: cta.partition warps 4 registers [24, 240] {
// CHECK:     scf.for
// CHECK:       cta.mbarrier_wait
// CHECK:       cta.cluster_acquire
// CHECK:       cta.tensor_copy {{.*}}expects = 24576
// CHECK:       cta.tensor_copy {{.*}} shared signals
// CHECK: scf.for
// CHECK-NOT: cta.cluster_acquire

// PTX: .reqnctapercluster 2, 1, 1
// PTX: barrier.cluster.arrive
// PTX: setmaxnreg.dec.sync.aligned.u32 24
// PTX: multicast::cluster
// PTX: setmaxnreg.inc.sync.aligned.u32 240

// RUN: sed '/cta.cluster_acquire/d' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=UNASKED
// UNASKED: error: 'cta.tensor_copy' op
// RUN: sed '/cta.mbarrier_wait %%3/d' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=OWN
// OWN: error: 'cta.tensor_copy' op
// RUN: sed '/cta.mbarrier_arrive/d' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=NEVER
// NEVER: error: 'cta.mbarrier_wait' op waits for ever

module attributes {cta.target = "sm_90a"} {
  func.func @tiles(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                   %extent: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64}, %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %tiles: i32,
                   %n: i32) attributes {tile.kernel, tile.cluster = 2 : i32, cta.warps = 8 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %a = tile.make_view %x, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %program = tile.program_id 0
    %first = arith.divsi %program, %c2 : i32
    %rank = arith.remsi %program, %c2 : i32
    %programs = tile.num_programs 0
    %clusters = arith.divsi %programs, %c2 : i32
    scf.for %tile = %first to %tiles step %clusters : i32 {
      %two = arith.muli %tile, %c2 : i32
      %own = arith.addi %two, %rank : i32
      %row = arith.muli %own, %c128 : i32
      %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
        %k = arith.muli %i, %c64 : i32
        %left = tile.load_block %a[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
        %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %next = tile.dot %left, %right, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
        scf.yield %next : tensor<128x64xf32>
      } {cta.warp_specialize = true}
      %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
      tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
    }
    return
  }
}
