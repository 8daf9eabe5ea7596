// Partitions that a user has written go through a ring by loops and conditions of different forms: steps of 64 up to 64 n, steps
// of one up to n, and a last use in a loop of one iteration or none, by a condition that the reader negates. The numbers behind them are chosen once for both.
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// CHECK-LABEL: func.func @unlike
// CHECK: arith.cmpi sgt, %[[N:.*]], %c4_i32
// CHECK: cta.partition
// CHECK: scf.for {{.*}} step %c64_i32
// CHECK: scf.for %{{.*}} = %c0_i32 to %[[N]] step %c1_i32
// CHECK: arith.cmpi sge, %[[N]], %c5_i32

// One form is another condition, or one of the loops is another loop.
// RUN: sed 's/arith.cmpi sge/arith.cmpi sgt/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: sed 's/step %%c64_i32/step %%c1_i32/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: this {{waits for ever|copies to slot .*, for which nobody waits}}

!channel = !tile.channel<2, tensor<64x64xf16>>
!slot = !tile.slot<tensor<64x64xf16>>

module attributes {cta.target = "sm_90a"} {
  func.func @unlike(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %c: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32)
                    attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c5 = arith.constant 5 : i32
    %c64 = arith.constant 64 : i32
    %ring = tile.channel : !channel
    tile.partition warps 4 registers [] {
      %view = tile.make_view %a, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %far = arith.muli %n, %c64 : i32
      %filled = scf.for %k = %c0 to %far step %c64 iter_args(%use = %c0) -> (i32) : i32 {
        %free = tile.acquire %ring[%use] : !channel -> !slot
        %left = tile.load_block %view[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        tile.fill %left, %free : tensor<64x64xf16>, !slot
        tile.commit %ring[%use] : !channel
        %next = arith.addi %use, %c1 : i32
        scf.yield %next : i32
      }
      %more = arith.cmpi sgt, %n, %c4 : i32
      %once = arith.select %more, %c1, %c0 : i32
      %all = scf.for %k = %c0 to %once step %c1 iter_args(%use = %filled) -> (i32) : i32 {
        %free = tile.acquire %ring[%use] : !channel -> !slot
        %left = tile.load_block %view[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        tile.fill %left, %free : tensor<64x64xf16>, !slot
        tile.commit %ring[%use] : !channel
        %next = arith.addi %use, %c1 : i32
        scf.yield %next : i32
      }
    }
    %zero = arith.constant dense<0.0> : tensor<64x64xf16>
    %out = tile.make_view %c, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %read:2 = scf.for %k = %c0 to %n step %c1 iter_args(%use = %c0, %sums = %zero) -> (i32, tensor<64x64xf16>) : i32 {
      %slot = tile.wait %ring[%use] : !channel -> !slot
      %first = tile.read_slot %slot : !slot -> tensor<64x64xf16>
      %sum = arith.addf %sums, %first : tensor<64x64xf16>
      tile.release %ring[%use] : !channel
      %next = arith.addi %use, %c1 : i32
      scf.yield %next, %sum : i32, tensor<64x64xf16>
    }
    %none = arith.cmpi slt, %n, %c5 : i32
    %end = arith.select %none, %c0, %c1 : i32
    %all:2 = scf.for %k = %c0 to %end step %c1 iter_args(%use = %read#0, %sums = %read#1) -> (i32, tensor<64x64xf16>) : i32 {
      %slot = tile.wait %ring[%use] : !channel -> !slot
      %last = tile.read_slot %slot : !slot -> tensor<64x64xf16>
      %sum = arith.addf %sums, %last : tensor<64x64xf16>
      tile.release %ring[%use] : !channel
      %next = arith.addi %use, %c1 : i32
      scf.yield %next, %sum : i32, tensor<64x64xf16>
    }
    tile.store_block %out[%c0, %c0], %all#1 : !tile.view<2xf16>, [i32, i32], tensor<64x64xf16>
    return
  }
}
