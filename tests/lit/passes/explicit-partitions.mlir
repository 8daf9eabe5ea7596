// Two computing partitions read one ring, of which a partition that computes as well stores one tile and has the engine copy the other. They meet
// at a barrier. Each line below breaks the result in one place.
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir

// All warps of the partition that fills the ring arrive at its full mbarriers, and so does the thread that has the engine copy. Both readers arrive at the empty
// ones.
// CHECK-LABEL: func.func @partitions
// CHECK-DAG: %[[FULL:.*]] = cta.mbarriers {arrivals = 5 : i32, {{.*}}} : !cta.mbarriers<2>
// CHECK-DAG: %[[EMPTY:.*]] = cta.mbarriers {arrivals = 8 : i32, {{.*}}} : !cta.mbarriers<2>
// CHECK: cta.partition computes warps 4 registers [] {
// CHECK: cta.mbarrier_wait %[[EMPTY]]
// CHECK: cta.tensor_copy {{.*}} signals %[[FULL]]{{.*}} {expects = 8192 : i32}
// CHECK: cta.local_store
// CHECK: cta.proxy_fence
// CHECK: cta.mbarrier_arrive written {{.*}} at %[[FULL]]
// CHECK: cta.partition computes warps 4 registers [] {
// CHECK: cta.mbarrier_wait %[[FULL]]
// CHECK: cta.dot
// CHECK: cta.mbarrier_arrive {{.*}} at %[[EMPTY]]
// CHECK: tile.named_barrier 0 of 8 warps arrives
// CHECK: tile.store
// CHECK: cta.mbarrier_wait %[[FULL]]
// CHECK: cta.dot
// CHECK: cta.mbarrier_arrive {{.*}} at %[[EMPTY]]
// CHECK: tile.named_barrier 0 of 8 warps{{$}}
// CHECK: tile.store

// One of the readers does not hand its slots back.
// RUN: sed -e '0,/cta.mbarrier_arrive %%.* at/{/cta.mbarrier_arrive %%.* at/d}' %t.mlir > %t.kept.mlir
// RUN: not sectile-opt --check-channels %t.kept.mlir 2>&1 | FileCheck %s --check-prefix=KEPT
// KEPT: error: this waits for ever

// Dots do not see what was stored.
// RUN: sed -e '/cta.proxy_fence/d' %t.mlir > %t.hidden.mlir
// RUN: not sectile-opt --check-channels %t.hidden.mlir 2>&1 | FileCheck %s --check-prefix=HIDDEN
// HIDDEN: error: this does not see slot {{.*}} without a fence

// The use is there once its copy is.
// RUN: sed -e '/cta.mbarrier_arrive written/d' -e 's/arrivals = 5/arrivals = 1/' %t.mlir > %t.early.mlir
// RUN: not sectile-opt --check-channels %t.early.mlir 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: this {{may complete the phase|reads slot|passes one phase early}}

// Nobody else comes to the barrier.
// RUN: sed -e '/named_barrier 0 of 8 warps arrives/d' %t.mlir > %t.alone.mlir
// RUN: not sectile-opt --check-channels %t.alone.mlir 2>&1 | FileCheck %s --check-prefix=ALONE
// ALONE: error: this waits for ever: fewer warps come to this barrier than it counts

// Both partitions pass what they store through the same bytes.
// RUN: sed -e 's/convert_layout \(.*\) {offset = 40960/convert_layout \1 {offset = 32768/' %t.mlir > %t.shared.mlir
// RUN: not sectile-opt --check-channels %t.shared.mlir 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED: error: this overwrites its bytes

// What the other partition stores passes through the ring, which may have been filled again.
// RUN: sed -e 's/convert_layout \(.*\) {offset = 32768/convert_layout \1 {offset = 8192/' %t.mlir > %t.ring.mlir
// RUN: not sectile-opt --check-channels %t.ring.mlir 2>&1 | FileCheck %s --check-prefix=RING
// RING: error: this {{overwrites|reads}}

!channel = !tile.channel<2, tensor<64x64xf16>, tensor<64x64xf16>>
!slot = !tile.slot<tensor<64x64xf16>>

module attributes {cta.target = "sm_90a"} {
  func.func @partitions(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.below = 1048576 : i64, tile.divisible = 16 : i64}, %n: i32 {tile.below = 1048576 : i64}, %c: !tile.ptr<f16> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %steps = arith.divui %n, %c64 : i32
    %ring = tile.channel : !channel
    tile.partition warps 4 registers [] {
      %view = tile.make_view %a, [%n, %n], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %filled = scf.for %k = %c0 to %steps step %c1 iter_args(%use = %c0) -> (i32) : i32 {
        %at = arith.muli %k, %c64 : i32
        %right = tile.load_block %view[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %twice = arith.addf %right, %right : tensor<64x64xf16>
        %free:2 = tile.acquire %ring[%use] : !channel -> !slot, !slot
        %left = tile.load_block %view[%c0, %at] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        tile.fill %left, %free#0 : tensor<64x64xf16>, !slot
        tile.fill stored %twice, %free#1 : tensor<64x64xf16>, !slot
        tile.commit %ring[%use] : !channel
        %next = arith.addi %use, %c1 : i32
        scf.yield %next : i32
      }
    }
    tile.partition warps 4 registers [] {
      %read:2 = scf.for %k = %c0 to %steps step %c1 iter_args(%use = %c0, %sums = %zero) -> (i32, tensor<64x64xf32>) : i32 {
        %slots:2 = tile.wait %ring[%use] : !channel -> !slot, !slot
        %left = tile.read_slot %slots#0 : !slot -> tensor<64x64xf16>
        %right = tile.read_slot %slots#1 : !slot -> tensor<64x64xf16>
        %dot = tile.dot %left, %right, %sums : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
        tile.release %ring[%use] : !channel
        %next = arith.addi %use, %c1 : i32
        scf.yield %next, %dot : i32, tensor<64x64xf32>
      }
      tile.named_barrier 0 of 8 warps arrives
      %half = arith.truncf %read#1 : tensor<64x64xf32> to tensor<64x64xf16>
      %out = tile.make_view %c, [%n, %n], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      tile.store_block %out[%c64, %c0], %half : !tile.view<2xf16>, [i32, i32], tensor<64x64xf16>
    }
    %read:2 = scf.for %k = %c0 to %steps step %c1 iter_args(%use = %c0, %sums = %zero) -> (i32, tensor<64x64xf32>) : i32 {
      %slots:2 = tile.wait %ring[%use] : !channel -> !slot, !slot
      %left = tile.read_slot %slots#0 : !slot -> tensor<64x64xf16>
      %right = tile.read_slot %slots#1 : !slot -> tensor<64x64xf16>
      %dot = tile.dot %left, %right, %sums : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      tile.release %ring[%use] : !channel
      %next = arith.addi %use, %c1 : i32
      scf.yield %next, %dot : i32, tensor<64x64xf32>
    }
    tile.named_barrier 0 of 8 warps
    %half = arith.truncf %read#1 : tensor<64x64xf32> to tensor<64x64xf16>
    %out = tile.make_view %c, [%n, %n], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    tile.store_block %out[%c0, %c0], %half : !tile.view<2xf16>, [i32, i32], tensor<64x64xf16>
    return
  }
}
