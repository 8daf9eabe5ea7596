// Partitions of 2 and 8 warps beside a kernel of 4: each has layouts for its own, and all warps that fill or read a ring arrive at its mbarriers.
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir

// CHECK-LABEL: func.func @warps
// CHECK-DAG: cta.mbarriers {arrivals = 3 : i32, {{.*}}} : !cta.mbarriers<2>
// CHECK-DAG: cta.mbarriers {arrivals = 12 : i32, {{.*}}} : !cta.mbarriers<2>
// CHECK: cta.partition computes warps 2 registers [] {
// CHECK: cta.mbarrier_arrive written
// CHECK: cta.partition computes warps 8 registers [] {
// CHECK: cta.dot
// CHECK: tile.named_barrier 0 of 12 warps arrives

// A reader of eight warps is not counted like one of four.
// RUN: sed -e 's/arrivals = 12/arrivals = 8/' %t.mlir > %t.fewer.mlir
// RUN: not sectile-opt --check-channels %t.fewer.mlir 2>&1 | FileCheck %s --check-prefix=FEWER
// FEWER: error: this {{may|overwrites}}
// RUN: sed -e 's/arrivals = 12/arrivals = 16/' %t.mlir > %t.more.mlir
// RUN: not sectile-opt --check-channels %t.more.mlir 2>&1 | FileCheck %s --check-prefix=MORE
// MORE: error: this waits for ever

// The barrier counts more warps than come.
// RUN: sed -e 's/of 12 warps/of 14 warps/' %t.mlir > %t.barrier.mlir
// RUN: not sectile-opt --check-channels %t.barrier.mlir 2>&1 | FileCheck %s --check-prefix=BARRIER
// BARRIER: error: this waits for ever: fewer warps come to this barrier than it counts

// A tile's layout is for the warps of its partition.
// RUN: sed -e 's/computes warps 8/computes warps 4/' %t.mlir > %t.layout.mlir
// RUN: not sectile-opt --insert-barriers %t.layout.mlir 2>&1 | FileCheck %s --check-prefix=LAYOUT
// LAYOUT: error: {{.*}} has a layout of 32 lanes and 8 warps, but sm_90a has 32 and the partition 4

// RUN: sed -e 's/tile.partition warps 8/tile.partition warps 6/' %s > %t.odd.mlir
// RUN: not sectile-opt --sectile-pipeline %t.odd.mlir 2>&1 | FileCheck %s --check-prefix=ODD
// ODD: error: the number of warps of a partition that computes is a power of two up to 64, not 6

// RUN: sed -e 's/cta.warps = 4/cta.warps = 2/' -e 's/of 12 warps/of 10 warps/' %s > %t.group.mlir
// RUN: not sectile-opt --sectile-pipeline %t.group.mlir 2>&1 | FileCheck %s --check-prefix=GROUP
// GROUP: error: four warps whose numbers begin at a multiple of four do this dot together, and 2 warps come before this partition's

!channel = !tile.channel<2, tensor<64x64xf16>, tensor<64x64xf16>>
!slot = !tile.slot<tensor<64x64xf16>>

module attributes {cta.target = "sm_90a"} {
  func.func @warps(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.below = 1048576 : i64, tile.divisible = 16 : i64}, %n: i32 {tile.below = 1048576 : i64}, %c: !tile.ptr<f16> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %steps = arith.divui %n, %c64 : i32
    %ring = tile.channel : !channel
    tile.partition warps 2 registers [] {
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
    tile.partition warps 8 registers [] {
      %read:2 = scf.for %k = %c0 to %steps step %c1 iter_args(%use = %c0, %sums = %zero) -> (i32, tensor<64x64xf32>) : i32 {
        %slots:2 = tile.wait %ring[%use] : !channel -> !slot, !slot
        %left = tile.read_slot %slots#0 : !slot -> tensor<64x64xf16>
        %right = tile.read_slot %slots#1 : !slot -> tensor<64x64xf16>
        %dot = tile.dot %left, %right, %sums : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
        tile.release %ring[%use] : !channel
        %next = arith.addi %use, %c1 : i32
        scf.yield %next, %dot : i32, tensor<64x64xf32>
      }
      tile.named_barrier 0 of 12 warps arrives
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
    tile.named_barrier 0 of 12 warps
    %half = arith.truncf %read#1 : tensor<64x64xf32> to tensor<64x64xf16>
    %out = tile.make_view %c, [%n, %n], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    tile.store_block %out[%c0, %c0], %half : !tile.view<2xf16>, [i32, i32], tensor<64x64xf16>
    return
  }
}
