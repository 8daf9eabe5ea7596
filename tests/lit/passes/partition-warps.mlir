// A loop over tiles that asks for warps of its own: one thread of four more warps has the engine make the copies of all tiles. The
// others compute, and store each tile while the copies of the next one are under way. The pass that checks channels runs both
// sides; each line below breaks the kernel in one place.
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: sectile-opt --check-channels %t.mlir -o /dev/null
// RUN: sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=PTX

// CHECK-LABEL: func.func @tiles
// CHECK-DAG: %[[FULL:.*]] = cta.mbarriers {offset = {{[0-9]*}} : i32} : !cta.mbarriers<4>
// CHECK-DAG: %[[EMPTY:.*]] = cta.mbarriers {arrivals = 8 : i32, {{.*}}} : !cta.mbarriers<4>
// CHECK-DAG: cta.channel {between_warps,
// CHECK: cta.barrier
// CHECK: cta.partition warps 4 registers [24, 240] {
// CHECK:   scf.for {{.*}} iter_args(%[[BEGIN:.*]] = %c0_i32) -> (i32)
// CHECK:     scf.for {{.*}} iter_args({{.*}} = %[[BEGIN]]) -> (i32)
// CHECK:       cta.mbarrier_wait %[[EMPTY]]
// CHECK:       cta.tensor_copy {{.*}} signals %[[FULL]]{{.*}}expects = 24576
// CHECK:       cta.tensor_copy {{.*}} signals %[[FULL]]
// CHECK-NOT: cta.tensor_copy
// CHECK: %[[STORED:.*]] = cta.alloc {offset
// CHECK: scf.for
// CHECK:   scf.for
// CHECK:     cta.mbarrier_wait %[[FULL]]
// CHECK:     cta.dot_start
// CHECK:     cta.dots_wait 1
// A dot is in flight: what the one before has read is handed back.
// CHECK:     cta.mbarrier_arrive {{.*}} at %[[EMPTY]][{{.*}}] when
// CHECK:   cta.dot_wait
// CHECK:   cta.mbarrier_arrive {{.*}} at %[[EMPTY]][{{.*}}] when
// CHECK:   cta.tensor_store_wait %[[STORED]] when {{.*}} written
// CHECK:   cta.barrier
// CHECK:   cta.local_store {{.*}}, %[[STORED]]
// CHECK:   cta.proxy_fence
// CHECK:   cta.barrier
// CHECK:   cta.tensor_store {{.*}}, %[[STORED]]
// CHECK: cta.tensor_store_wait %[[STORED]] when

// PTX: .reqntid 384
// PTX: .minnctapersm 1
// PTX: bar.sync 0;
// PTX: setmaxnreg.dec.sync.aligned.u32 24
// PTX: cp.async.bulk.tensor
// PTX: setmaxnreg.inc.sync.aligned.u32 240
// PTX-NOT: bar.sync 0;
// PTX-DAG: bar.sync 1, 256;
// PTX-DAG: wgmma.mma_async
// PTX-DAG: mbarrier.arrive.shared

// 640 threads are launched with 96 registers each, and no more can be moved: 4 warps with 24 and 16 with 112 are 1888 of 1920.
// RUN: sed 's/cta.warps = 8 : i32/cta.warps = 16 : i32/' %s | sectile-opt --sectile-pipeline | FileCheck %s --check-prefix=SIXTEEN
// SIXTEEN: cta.partition warps 4 registers [24, 112] {

// RUN: sed '/cta.mbarrier_arrive/d' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=NEVER
// NEVER: error: 'cta.mbarrier_wait' op waits for ever in iteration 0 of 2: nobody completes the phase of slot 0
// RUN: sed '/cta.mbarrier_wait %%1/d' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=UNASKED
// UNASKED: error: 'cta.tensor_copy' op may count for an earlier phase of slot 0
// RUN: sed 's/cta.dots_wait 1/cta.dots_wait 2/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: 'cta.tensor_copy' op overwrites slot 0
// RUN: sed 's/expects = 24576/expects = 16384/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=BYTES
// BYTES: error: 'cta.tensor_copy' op copies 8192 bytes more than are expected
// RUN: sed 's/arrivals = 8/arrivals = 1/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=FEWER
// FEWER: error: 'cta.mbarrier_arrive' op
// What the tile is stored from shares bytes with the ring, which is filled meanwhile.
// RUN: sed 's/cta.alloc {offset = [0-9]*/cta.alloc {offset = 0/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED: error: 'cta.local_store' op overwrites

module attributes {cta.target = "sm_90a"} {
  func.func @tiles(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                   %extent: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64}, %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %tiles: i32,
                   %n: i32) attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
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
      tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
    }
    return
  }
}
