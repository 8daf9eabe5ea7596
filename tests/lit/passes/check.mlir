// What passes refuse before they start: properties of a kernel as a whole.
// RUN: split-file %s %t
// RUN: not sectile-opt --assign-layouts %t/warps.mlir 2>&1 | FileCheck %s --check-prefix=WARPS
// RUN: not sectile-opt --assign-layouts %t/cluster.mlir 2>&1 | FileCheck %s --check-prefix=CLUSTER
// RUN: not sectile-opt --place-shared %t/turns.mlir 2>&1 | FileCheck %s --check-prefix=TURNS
// RUN: not sectile-opt --place-shared %t/boxes.mlir 2>&1 | FileCheck %s --check-prefix=BOXES
// RUN: not sectile-opt --assign-layouts %t/threads.mlir 2>&1 | FileCheck %s --check-prefix=THREADS
// RUN: not sectile-opt --lower-debug %t/divisible.mlir 2>&1 | FileCheck %s --check-prefix=DIVISIBLE
// RUN: not sectile-opt --lower-debug %t/empty.mlir 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not sectile-opt --lower-debug %t/axes.mlir 2>&1 | FileCheck %s --check-prefix=AXES
// RUN: not sectile-opt --lower-debug %t/element.mlir 2>&1 | FileCheck %s --check-prefix=ELEMENT
// RUN: not sectile-opt --lower-debug %t/large.mlir 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not sectile-opt --assign-layouts %t/registers.mlir 2>&1 | FileCheck %s --check-prefix=REGISTERS
// RUN: not sectile-opt --assign-layouts %t/gives.mlir 2>&1 | FileCheck %s --check-prefix=GIVES
// RUN: not sectile-opt --assign-layouts %t/early.mlir 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: not sectile-opt --assign-layouts %t/instruction.mlir 2>&1 | FileCheck %s --check-prefix=INSTRUCTION
// RUN: not sectile-opt --place-shared %t/mbarriers.mlir 2>&1 | FileCheck %s --check-prefix=MBARRIERS
// RUN: not sectile-opt --place-shared %t/fence.mlir 2>&1 | FileCheck %s --check-prefix=FENCE
// RUN: not sectile-opt --assign-layouts %t/sums.mlir 2>&1 | FileCheck %s --check-prefix=SUMS
// RUN: not sectile-opt --lower-debug %t/laid.mlir 2>&1 | FileCheck %s --check-prefix=LAID
// RUN: not sectile-opt --lower-debug %t/view.mlir 2>&1 | FileCheck %s --check-prefix=VIEW
// RUN: not sectile-opt --place-shared %t/copied.mlir 2>&1 | FileCheck %s --check-prefix=COPIED
// RUN: not sectile-opt --place-shared %t/none.mlir 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not sectile-opt --place-shared %t/lanes.mlir 2>&1 | FileCheck %s --check-prefix=LANES
// RUN: not sectile-opt --place-shared %t/blocks.mlir 2>&1 | FileCheck %s --check-prefix=BLOCKS
// RUN: not sectile-opt --place-shared %t/buffer-blocks.mlir 2>&1 | FileCheck %s --check-prefix=BUFFER
// RUN: not sectile-opt --place-shared %t/chosen.mlir 2>&1 | FileCheck %s --check-prefix=CHOSEN
// RUN: not sectile-opt --place-shared %t/space.mlir 2>&1 | FileCheck %s --check-prefix=SPACE
// RUN: not sectile-opt --place-shared %t/ring-space.mlir 2>&1 | FileCheck %s --check-prefix=SPACE
// RUN: not sectile-opt --place-shared %t/vector.mlir 2>&1 | FileCheck %s --check-prefix=VECTOR

//--- warps.mlir
// WARPS: the number of warps is a power of two, not 3
module attributes {cta.target = "sm_80"} {
func.func @f() attributes {cta.warps = 3 : i32, tile.kernel} { return }
}
//--- space.mlir
// SPACE: is in tensor memory, and no code is made for that yet
#plain = #cta.layout<"4x4, shared [(0,1) (0,2) (1,0) (2,0)]">
module attributes {cta.target = "sm_100a"} {
func.func @f() attributes {tile.kernel} {
  %0 = cta.alloc : !cta.buffer<4x4xf32, #plain, tensor>
  return
}
}
//--- ring-space.mlir
#plain = #cta.layout<"4x4, shared [(0,1) (0,2) (1,0) (2,0)]">
module attributes {cta.target = "sm_100a"} {
func.func @f() attributes {tile.kernel} {
  %0 = cta.channel : !cta.channel<2, !cta.buffer<4x4xf32, #plain, tensor>>
  return
}
}
//--- threads.mlir
// THREADS: 32 warps are 2048 threads; gfx942 has at most 1024 in a block
module attributes {cta.target = "gfx942"} {
func.func @f() attributes {cta.warps = 32 : i32, tile.kernel} { return }
}
//--- divisible.mlir
// DIVISIBLE: tile.divisible is a number from 1 to
func.func @f(%n: i32 {tile.divisible = 0 : i64}) attributes {tile.kernel} { return }
//--- empty.mlir
// EMPTY: 'tensor<0xi32>' is empty
func.func @f() attributes {tile.kernel} {
  %0 = tile.arange 0 : tensor<0xi32>
  return
}
//--- axes.mlir
// AXES: 'tensor<i32>' has no axes
func.func @f(%x: i32) attributes {tile.kernel} {
  %0 = tile.splat %x : i32 -> tensor<i32>
  return
}
//--- element.mlir
// ELEMENT: 'tensor<4xi7>' has elements of a type that is not computed with
func.func @f(%x: i32) attributes {tile.kernel} {
  %0 = tile.splat %x : i32 -> tensor<4xi32>
  %1 = arith.trunci %0 : tensor<4xi32> to tensor<4xi7>
  return
}
//--- large.mlir
// LARGE: is too large for any chip
func.func @f(%x: i32) attributes {tile.kernel} {
  %0 = tile.splat %x : i32 -> tensor<65536x65536xi32>
  return
}
//--- registers.mlir
// REGISTERS: error: a tile of [1048576] is 8192 elements for each of 128 threads; at most 2048 can be compiled: use smaller tiles, or more warps
module attributes {cta.target = "sm_80"} {
func.func @f(%x: i32) attributes {tile.kernel} {
  %0 = tile.splat %x : i32 -> tensor<1048576xi32>
  return
}
}
//--- gives.mlir
// GIVES: a kernel gives no tiles
module attributes {cta.target = "sm_80"} {
func.func @f(%x: i32) -> tensor<64xi32> {
  %0 = tile.splat %x : i32 -> tensor<64xi32>
  return %0 : tensor<64xi32>
}
}
//--- early.mlir
// EARLY: 'tile.dot' op is left where layouts are assigned
module attributes {cta.target = "sm_80"} {
func.func @f(%x: f32) attributes {tile.kernel} {
  %0 = tile.splat %x : f32 -> tensor<16x32xf32>
  %1 = tile.splat %x : f32 -> tensor<32x64xf32>
  %2 = tile.splat %x : f32 -> tensor<16x64xf32>
  %3 = tile.dot %0, %1, %2 : tensor<16x32xf32>, tensor<32x64xf32>, tensor<16x64xf32>
  return
}
}
//--- instruction.mlir
// INSTRUCTION: 'cta.dot' op sm_80 has no such instruction
module attributes {cta.target = "sm_80"} {
func.func @f(%x: f16, %y: f32) attributes {tile.kernel} {
  %0 = tile.splat %x : f16 -> tensor<64x64xf16>
  %1 = tile.splat %y : f32 -> tensor<64x64xf32>
  %2 = cta.dot %0, %0, %1 by [32, 8, 8] : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
  return
}
}
//--- mbarriers.mlir
// MBARRIERS: 'cta.mbarriers' op gfx1100 has no such instruction
module attributes {cta.target = "gfx1100"} {
func.func @f() attributes {tile.kernel} {
  %0 = cta.mbarriers : !cta.mbarriers<3>
  return
}
}
//--- fence.mlir
// FENCE: 'cta.proxy_fence' op gfx942 has no such instruction
module attributes {cta.target = "gfx942"} {
func.func @f() attributes {tile.kernel} {
  cta.proxy_fence
  return
}
}
//--- sums.mlir
// SUMS: 'cta.dot' op of 'f16' and 'f16' cannot sum in 'f64'
module attributes {cta.target = "sm_80"} {
func.func @f(%x: f16, %y: f64) attributes {tile.kernel} {
  %0 = tile.splat %x : f16 -> tensor<64x64xf16>
  %1 = tile.splat %y : f64 -> tensor<64x64xf64>
  %2 = "cta.dot"(%0, %0, %1) : (tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf64>) -> tensor<64x64xf64>
  return
}
}
//--- none.mlir
// NONE: has a tile without a layout: 'tensor<64xi32>'
module attributes {cta.target = "sm_80"} {
func.func @f() attributes {tile.kernel} {
  %0 = tile.arange 0 : tensor<64xi32>
  return
}
}
//--- lanes.mlir
// LANES: has a layout of 4 lanes and 1 warps, but sm_80 has 32 and the kernel 1
module attributes {cta.target = "sm_80"} {
func.func @f() attributes {cta.warps = 1 : i32, tile.kernel} {
  %0 = tile.arange 0 : tensor<4xi32, #cta.layout<"4, lane [(1) (2)]">>
  return
}
}
//--- blocks.mlir
// BLOCKS: has a layout over 2 blocks; a tile belongs to one
module attributes {cta.target = "sm_80"} {
func.func @f(%p: !tile.ptr<f32>) attributes {cta.warps = 1 : i32, tile.kernel} {
  %0 = arith.constant dense<1.0> : tensor<64xf32, #cta.layout<"64, lane [(1) (2) (4) (8) (16)], block [(32)]">>
  %1 = "tile.reduce"(%0) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tile.yield %s : f32
  }) : (tensor<64xf32, #cta.layout<"64, lane [(1) (2) (4) (8) (16)], block [(32)]">>) -> f32
  tile.store %p, %1 : !tile.ptr<f32>, f32
  return
}
}
//--- buffer-blocks.mlir
// BUFFER: has a layout over 2 blocks; a tile belongs to one
module attributes {cta.target = "sm_80"} {
func.func @f() attributes {cta.warps = 1 : i32, tile.kernel} {
  %0 = cta.alloc : !cta.buffer<32xi32, #cta.layout<"32, shared [(1) (2) (4) (8)], block [(16)]">>
  return
}
}
//--- chosen.mlir
// CHOSEN: 'cta.local_load' op uses a buffer that is not made in this kernel
module attributes {cta.target = "sm_80"} {
func.func @f(%b: !cta.buffer<32xi32, #cta.layout<"32, shared [(1) (2) (4) (8) (16)]">>) attributes {cta.warps = 1 : i32, tile.kernel} {
  %0 = cta.local_load %b : !cta.buffer<32xi32, #cta.layout<"32, shared [(1) (2) (4) (8) (16)]">> -> tensor<32xi32, #cta.layout<"32, lane [(1) (2) (4) (8) (16)]">>
  return
}
}
//--- vector.mlir
// VECTOR: 'tile.store' op takes 8 at once of 4 registers
#quads = #cta.layout<"128, register [(1) (2)], lane [(4) (8) (16) (32) (64)]">
module attributes {cta.target = "sm_80"} {
func.func @f(%p: !tile.ptr<f32>) attributes {cta.warps = 1 : i32, tile.kernel} {
  %0 = arith.constant dense<0.0> : tensor<128xf32, #quads>
  %1 = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #quads>
  tile.store %1, %0 {vector = 8 : i32} : tensor<128x!tile.ptr<f32>, #quads>, tensor<128xf32, #quads>
  return
}
}

//--- laid.mlir
// LAID: has a layout before layouts are assigned
#row = #cta.layout<"32, lane [(1) (2) (4) (8) (16)]">
module attributes {cta.target = "sm_80"} {
func.func @laid(%p: !tile.ptr<i32>) attributes {tile.kernel, cta.warps = 1 : i32} {
  %true = arith.constant dense<true> : tensor<32xi1, #row>
  tile.assert %true, "never" : tensor<32xi1, #row>
  return
}
}
//--- view.mlir
// VIEW: view.mlir:13:8: error: the view of this block is chosen by a branch or carried by a loop that changes it
func.func @f(%p: !tile.ptr<f32>, %n: i32, %b: i1) -> tensor<8xf32> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %v = tile.make_view %p, [%n], [%c1] : !tile.ptr<f32>, [i32], [i32] -> !tile.view<1xf32>
  %w = tile.make_view %p, [%c1], [%c1] : !tile.ptr<f32>, [i32], [i32] -> !tile.view<1xf32>
  %x = scf.if %b -> !tile.view<1xf32> {
    scf.yield %v : !tile.view<1xf32>
  } else {
    scf.yield %w : !tile.view<1xf32>
  }
  %t = tile.load_block %v[%c0] : !tile.view<1xf32>, [i32] -> tensor<8xf32>
  %u = tile.load_block %x[%c0] : !tile.view<1xf32>, [i32] -> tensor<8xf32>
  return %u : tensor<8xf32>
}
//--- copied.mlir
// COPIED: 'cta.async_copy_block' op has a layout of 32 lanes and 1 warps, but sm_80 has 32 and the kernel 2
#shared = #cta.layout<"64, shared [(1) (2) (4) (8) (16) (32)]">
module attributes {cta.target = "sm_80"} {
func.func @f(%p: !tile.ptr<f32>, %n: i32) attributes {cta.warps = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %v = tile.make_view %p, [%n], [%c1] : !tile.ptr<f32>, [i32], [i32] -> !tile.view<1xf32>
  %b = cta.alloc : !cta.buffer<64xf32, #shared>
  cta.async_copy_block %v[%c0], %b {layout = #cta.layout<"64, register [(1)], lane [(2) (4) (8) (16) (32)]">}
      : !tile.view<1xf32>, [i32], !cta.buffer<64xf32, #shared>
  return
}
}

//--- cluster.mlir
// CLUSTER: error: tile.cluster is a number from 1 to 2
module attributes {cta.target = "sm_90a"} {
func.func @f() attributes {cta.warps = 4 : i32, tile.cluster = 96 : i32} {
  return
}
}

//--- turns.mlir
// TURNS: error: 'cta.turn_pass' op is for the turns of two warpgroups
module attributes {cta.target = "sm_90a"} {
func.func @f() attributes {cta.warps = 4 : i32} {
  cta.turn_pass
  return
}
}

//--- boxes.mlir
// BOXES: error: 'cta.tensor_copy_block' op cannot move blocks by
#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,0) (2,0) (4,0) (8,0) (16,0) (32,0)]">
module attributes {cta.target = "sm_90a"} {
func.func @f(%v: !tile.view<2xf16>, %i: i32) attributes {cta.warps = 4 : i32} {
  %ring = cta.channel : !cta.channel<2, !cta.buffer<64x64xf16, #rows>>
  %full = cta.mbarriers : !cta.mbarriers<2>
  %slot = cta.slot %ring[%i] : !cta.channel<2, !cta.buffer<64x64xf16, #rows>> -> !cta.buffer<64x64xf16, #rows>
  cta.tensor_copy_block %v[%i, %i], %slot signals %full[%i] : !tile.view<2xf16>, [i32, i32], !cta.buffer<64x64xf16, #rows>, !cta.mbarriers<2>
  return
}
}
