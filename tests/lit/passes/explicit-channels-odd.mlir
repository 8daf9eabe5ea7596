// Rows of 24 f16 numbers are no multiple of the 32 bytes that the engine's lines have.
// RUN: not sectile-opt --sectile-pipeline %s 2>&1 | FileCheck %s
// CHECK: error: the copy engine makes the copies of a partition, where one thread is at work, and cannot make this one: its rows are no multiple of 32 bytes
// Without layouts there is nothing to choose buffers by.
// RUN: not sectile-opt --explicit-channels %s 2>&1 | FileCheck %s --check-prefix=BARE
// BARE: has a tile without a layout

module attributes {cta.target = "sm_90a"} {
  func.func @product(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.below = 1048576 : i64, tile.divisible = 16 : i64}, %n: i32 {tile.below = 1048576 : i64}, %c: !tile.ptr<f16> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<24x24xf32>
    %steps = arith.divui %n, %c64 : i32
    %ring = tile.channel : !tile.channel<2, tensor<24x24xf16>, tensor<24x24xf16>>
    tile.partition warps 4 registers [] {
      %view = tile.make_view %a, [%n, %n], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %filled = scf.for %k = %c0 to %steps step %c1 iter_args(%use = %c0) -> (i32) : i32 {
        %free:2 = tile.acquire %ring[%use] : !tile.channel<2, tensor<24x24xf16>, tensor<24x24xf16>> -> !tile.slot<tensor<24x24xf16>>, !tile.slot<tensor<24x24xf16>>
        %at = arith.muli %k, %c64 : i32
        %left = tile.load_block %view[%c0, %at] : !tile.view<2xf16>, [i32, i32] -> tensor<24x24xf16>
        %right = tile.load_block %view[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<24x24xf16>
        tile.fill %left, %free#0 : tensor<24x24xf16>, !tile.slot<tensor<24x24xf16>>
        tile.fill %right, %free#1 : tensor<24x24xf16>, !tile.slot<tensor<24x24xf16>>
        tile.commit %ring[%use] : !tile.channel<2, tensor<24x24xf16>, tensor<24x24xf16>>
        %next = arith.addi %use, %c1 : i32
        scf.yield %next : i32
      }
    }
    %read:2 = scf.for %k = %c0 to %steps step %c1 iter_args(%use = %c0, %sums = %zero) -> (i32, tensor<24x24xf32>) : i32 {
      %slots:2 = tile.wait %ring[%use] : !tile.channel<2, tensor<24x24xf16>, tensor<24x24xf16>> -> !tile.slot<tensor<24x24xf16>>, !tile.slot<tensor<24x24xf16>>
      %left = tile.read_slot %slots#0 : !tile.slot<tensor<24x24xf16>> -> tensor<24x24xf16>
      %right = tile.read_slot %slots#1 : !tile.slot<tensor<24x24xf16>> -> tensor<24x24xf16>
      %dot = tile.dot %left, %right, %sums {tile.in_flight} : tensor<24x24xf16>, tensor<24x24xf16>, tensor<24x24xf32>
      tile.dots_wait 0
      tile.release %ring[%use] : !tile.channel<2, tensor<24x24xf16>, tensor<24x24xf16>>
      %next = arith.addi %use, %c1 : i32
      scf.yield %next, %dot : i32, tensor<24x24xf32>
    }
    %done = tile.dot_wait %read#1 : tensor<24x24xf32>
    %half = arith.truncf %done : tensor<24x24xf32> to tensor<24x24xf16>
    %out = tile.make_view %c, [%n, %n], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    tile.store_block %out[%c0, %c0], %half : !tile.view<2xf16>, [i32, i32], tensor<24x24xf16>
    return
  }
}
