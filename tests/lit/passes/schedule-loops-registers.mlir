// Targets without asynchronous copies: the loads of the next use are issued before an iteration
// computes, and stored after it.
// RUN: sectile-opt --schedule-loops --stage-operands --split-input-file %s | FileCheck %s
// RUN: sectile-opt --schedule-loops --stage-operands --lower-channels --simplify --select-vectors --place-shared --insert-barriers --split-input-file %s | FileCheck --check-prefix=PLACED %s

#load = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
#flat = #cta.layout<"4096, register [(1) (2) (4) (1024) (2048)], lane [(8) (16) (32) (64) (128)], warp [(256) (512)]">
!ptrs = tensor<64x64x!tile.ptr<f32>, #load>
!tile = tensor<64x64xf32, #load>
module attributes {cta.target = "gfx1100"} {
// With three stages and more there are two buffers where they fit, so that one barrier does.
// CHECK-LABEL: func.func @two_buffers
// CHECK: %[[CH:.*]] = cta.channel : !cta.channel<2,
// CHECK: %[[V0:.*]] = tile.load %{{.*}} mask
// CHECK: %[[S0:.*]] = cta.acquire %[[CH]][%c0
// CHECK-NEXT: cta.local_store %[[V0]], %[[S0]]
// CHECK-NEXT: cta.commit %[[CH]]
// CHECK: scf.for {{.*}} iter_args({{.*}}, %[[USE:.*]] = %c0
// CHECK-NEXT: %[[BUF:.*]] = cta.wait %[[CH]][%[[USE]]]
// CHECK: %[[V:.*]] = tile.load %{{.*}} mask
// CHECK: cta.dot %[[BUF]], %[[BUF]]
// CHECK: %[[LATER:.*]] = arith.addi %[[USE]], %c1
// CHECK: %[[S:.*]] = cta.acquire %[[CH]][%[[LATER]]]
// CHECK-NEXT: cta.local_store %[[V]], %[[S]]
// CHECK-NEXT: cta.commit %[[CH]][%[[LATER]]]
// CHECK: scf.yield
// PLACED-LABEL: func.func @two_buffers
// PLACED: scf.for
// PLACED-NOT: async
// PLACED: tile.load
// PLACED: cta.barrier
// PLACED-NEXT: cta.dot
// PLACED-NOT: barrier
// PLACED: cta.local_store
// PLACED-NOT: barrier
// PLACED: return
func.func @two_buffers(%k: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32, %zero: !tile) -> !tile attributes {cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ks = tile.splat %k : !tile.ptr<f32> -> !ptrs
  %flat = tile.arange 0 : tensor<4096xi32, #flat>
  %index = tile.reshape %flat : tensor<4096xi32, #flat> -> tensor<64x64xi32, #load>
  %p = tile.addptr %ks, %index : !ptrs, tensor<64x64xi32, #load>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!tile) : i32 {
    %v = tile.load %p : !ptrs -> !tile
    %d = cta.dot %v, %v, %acc : !tile, !tile, !tile
    scf.yield %d : !tile
  }
  return %r : !tile
}

// With two there is one, and a barrier on each side of the store.
// CHECK-LABEL: func.func @one_buffer
// CHECK: cta.channel : !cta.channel<1,
// PLACED-LABEL: func.func @one_buffer
// PLACED: scf.for
// PLACED: tile.load
// PLACED: cta.barrier
// PLACED-NEXT: cta.dot
// PLACED: cta.barrier
// PLACED-NEXT: cta.local_store
// PLACED: return
func.func @one_buffer(%k: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32, %zero: !tile) -> !tile attributes {cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ks = tile.splat %k : !tile.ptr<f32> -> !ptrs
  %flat = tile.arange 0 : tensor<4096xi32, #flat>
  %index = tile.reshape %flat : tensor<4096xi32, #flat> -> tensor<64x64xi32, #load>
  %p = tile.addptr %ks, %index : !ptrs, tensor<64x64xi32, #load>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!tile) : i32 {
    %v = tile.load %p : !ptrs -> !tile
    %d = cta.dot %v, %v, %acc : !tile, !tile, !tile
    scf.yield %d : !tile
  }
  return %r : !tile
}

// Use 0 of a loop that runs for sure needs no mask.
// CHECK-LABEL: func.func @sure
// CHECK: cta.channel
// CHECK: tile.load %{{[^ ]*}} :
// CHECK: scf.for
// CHECK: tile.load %{{.*}} mask
func.func @sure(%k: !tile.ptr<f32> {tile.divisible = 16 : i64}, %zero: !tile) -> !tile attributes {cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %p = tile.splat %k : !tile.ptr<f32> -> !ptrs
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%acc = %zero) -> (!tile) : i32 {
    %v = tile.load %p : !ptrs -> !tile
    %d = cta.dot %v, %v, %acc : !tile, !tile, !tile
    scf.yield %d : !tile
  }
  return %r : !tile
}

// The loop asks for one stage: nothing goes ahead.
// CHECK-LABEL: func.func @none
// CHECK-NOT: cta.channel
// CHECK: scf.for
// CHECK: tile.load
// CHECK-NEXT: cta.alloc
func.func @none(%k: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32, %zero: !tile) -> !tile {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ks = tile.splat %k : !tile.ptr<f32> -> !ptrs
  %flat = tile.arange 0 : tensor<4096xi32, #flat>
  %index = tile.reshape %flat : tensor<4096xi32, #flat> -> tensor<64x64xi32, #load>
  %p = tile.addptr %ks, %index : !ptrs, tensor<64x64xi32, #load>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!tile) : i32 {
    %v = tile.load %p : !ptrs -> !tile
    %d = cta.dot %v, %v, %acc : !tile, !tile, !tile
    scf.yield %d : !tile
  } {cta.stages = 1 : i32}
  return %r : !tile
}
}

// -----

#load = #cta.layout<"128x128, register [(0,1) (0,2) (16,0) (32,0) (64,0) (8,0)], lane [(0,4) (0,8) (0,16) (0,32) (0,64) (1,0)], warp [(2,0) (4,0)]">
!ptrs = tensor<128x128x!tile.ptr<f32>, #load>
!tile = tensor<128x128xf32, #load>
module attributes {cta.target = "gfx942"} {
// Two buffers of 64 KiB do not fit.
// CHECK-LABEL: func.func @large
// CHECK: cta.channel : !cta.channel<1,
func.func @large(%k: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32, %zero: !tile) -> !tile attributes {cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %p = tile.splat %k : !tile.ptr<f32> -> !ptrs
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!tile) : i32 {
    %v = tile.load %p : !ptrs -> !tile
    %d = cta.dot %v, %v, %acc : !tile, !tile, !tile
    scf.yield %d : !tile
  }
  return %r : !tile
}
}
