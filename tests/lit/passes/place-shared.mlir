// RUN: sectile-opt --place-shared --split-input-file --verify-diagnostics %s | FileCheck %s

#tile = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
#plain = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,0) (2,0) (4,0) (8,0) (16,0) (32,0)]">
#turned = #cta.layout<"64x64, shared [(1,0) (2,0) (4,0) (8,0) (16,0) (32,0) (0,1) (0,2) (0,4) (0,8) (0,16) (0,32)]">
!buffer = !cta.buffer<64x64xf16, #plain>
!turned = !cta.buffer<64x64xf16, #turned>

module attributes {cta.target = "sm_80"} {
// Buffers that are never alive together share their place; those that are do not.
// CHECK-LABEL: func.func @share
// CHECK-SAME: cta.shared_bytes = 16384 : i32
// CHECK: cta.alloc {{.*}} {offset = 0 : i32}
// CHECK: cta.alloc {{.*}} {offset = 8192 : i32}
// CHECK: cta.alloc {{.*}} {offset = 0 : i32}
func.func @share(%x: tensor<64x64xf16, #tile>) attributes {tile.kernel} {
  %a = cta.alloc %x : !buffer from tensor<64x64xf16, #tile>
  %b = cta.alloc %x : !buffer from tensor<64x64xf16, #tile>
  %v = cta.local_load %a : !buffer -> tensor<64x64xf16, #tile>
  %c = cta.alloc %v : !buffer from tensor<64x64xf16, #tile>
  %w = cta.local_load %b : !buffer -> tensor<64x64xf16, #tile>
  cta.local_store %w, %c : tensor<64x64xf16, #tile>, !buffer
  return
}

// What is read in a loop lives as long as the loop, also when it is read through other axes.
// CHECK-LABEL: func.func @loop
// CHECK-SAME: cta.shared_bytes = 16384 : i32
// CHECK: cta.alloc {{.*}} {offset = 0 : i32}
// CHECK: scf.for
// CHECK: cta.alloc {{.*}} {offset = 8192 : i32}
// CHECK: cta.alloc {{.*}} {offset = 0 : i32}
func.func @loop(%x: tensor<64x64xf16, #tile>, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = cta.alloc %x : !buffer from tensor<64x64xf16, #tile>
  %t = cta.permute_buffer %a [1, 0] : !buffer -> !turned
  scf.for %i = %c0 to %n step %c1 : i32 {
    %v = cta.local_load %t : !turned -> tensor<64x64xf16, #tile>
    %b = cta.alloc %v : !buffer from tensor<64x64xf16, #tile>
    %w = cta.local_load %b : !buffer -> tensor<64x64xf16, #tile>
    cta.local_store %w, %b : tensor<64x64xf16, #tile>, !buffer
  }
  %c = cta.alloc %x : !buffer from tensor<64x64xf16, #tile>
  return
}

// A ring is written until its copies have been waited for.
// CHECK-LABEL: func.func @copies
// CHECK-SAME: cta.shared_bytes = 32768 : i32
// CHECK: cta.channel {offset = 0 : i32}
// CHECK: cta.alloc {{.*}} {offset = 24576 : i32}
// CHECK: cta.async_wait 0
// CHECK: cta.alloc {{.*}} {offset = 0 : i32}
func.func @copies(%x: tensor<64x64xf16, #tile>, %p: tensor<64x64x!tile.ptr<f16>, #tile>) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %ring = cta.channel : !cta.channel<3, !buffer>
  %s = cta.slot %ring[%c0] : !cta.channel<3, !buffer> -> !buffer
  cta.async_copy %p, %s : tensor<64x64x!tile.ptr<f16>, #tile>, !buffer
  cta.async_commit
  %a = cta.alloc %x : !buffer from tensor<64x64xf16, #tile>
  cta.async_wait 0
  %b = cta.alloc %x : !buffer from tensor<64x64xf16, #tile>
  return
}
}

// -----

#plain = #cta.layout<"128x128, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (0,64) (1,0) (2,0) (4,0) (8,0) (16,0) (32,0) (64,0)]">

module attributes {cta.target = "sm_86"} {
// expected-error @+1 {{kernel 'large' needs 192 KiB of shared memory, sm_86 has 99 KiB: lower the stages or the tile's extents}}
func.func @large() attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  // expected-note @+1 {{128 KiB are for 4 stages of a tile of 128x128xf16}}
  %ring = cta.channel : !cta.channel<4, !cta.buffer<128x128xf16, #plain>>
  // expected-note @+1 {{64 KiB are for a tile of 128x128xf32}}
  %a = cta.alloc : !cta.buffer<128x128xf32, #plain>
  %s = cta.slot %ring[%c0] : !cta.channel<4, !cta.buffer<128x128xf16, #plain>> -> !cta.buffer<128x128xf16, #plain>
  %b = cta.permute_buffer %a [0, 1] : !cta.buffer<128x128xf32, #plain> -> !cta.buffer<128x128xf32, #plain>
  return
}
}

// -----

#rows = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
#same = #cta.layout<"64x64, register [(16,0) (32,0) (0,1) (0,2) (0,4)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
#columns = #cta.layout<"64x64, register [(1,0) (2,0) (4,0) (0,16) (0,32)], lane [(8,0) (16,0) (32,0) (0,1) (0,2)], warp [(0,4) (0,8)]">
#sums = #cta.layout<"64, register [(1) (2) (4)], lane [(8) (16) (32) (0) (0)], warp [(0) (0)]">
// Scratch: of conversions that need it, and of sums over warps. Small ones that follow each other
// have places of their own.
// CHECK-LABEL: func.func @scratch
// CHECK-SAME: cta.shared_bytes = 16384 : i32
// CHECK-NEXT: cta.convert_layout %{{.*}} {offset = 0 : i32}
// CHECK-NEXT: cta.convert_layout %{{[^ ]*}} : tensor
// CHECK-NEXT: tile.reduce %{{.*}} 0 {offset = 0 : i32}
// CHECK: tile.reduce %{{.*}} 0 {offset = 1024 : i32}
module attributes {cta.target = "sm_80"} {
func.func @scratch(%x: tensor<64x64xf32, #rows>) attributes {tile.kernel} {
  %y = cta.convert_layout %x : tensor<64x64xf32, #rows> -> tensor<64x64xf32, #columns>
  %z = cta.convert_layout %x : tensor<64x64xf32, #rows> -> tensor<64x64xf32, #same>
  %s = tile.reduce %x 0 : (tensor<64x64xf32, #rows>) -> tensor<64xf32, #sums> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }
  %t = tile.reduce %x 0 : (tensor<64x64xf32, #rows>) -> tensor<64xf32, #sums> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }
  return
}
}

// -----

#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0)]">
#lines = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#rows = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
!acc = tensor<64x64xf32, #acc>
!half = tensor<64x64xf16, #rows>
!buffer = !cta.buffer<64x64xf16, #lines>
!ring = !cta.channel<1, !buffer>
!flight = !cta.in_flight<tensor<64x64xf32, #acc>>

module attributes {cta.target = "sm_90a"} {
// What a dot in flight reads lives until the wait for it.
// CHECK-LABEL: func.func @in_flight
// CHECK-SAME: cta.shared_bytes = 24576 : i32
// CHECK: cta.channel {offset = 0 : i32}
// CHECK: cta.channel {offset = 8192 : i32}
// CHECK: cta.alloc {{.*}} {offset = 16384 : i32}
// CHECK: cta.dot_wait
// CHECK: cta.alloc {{.*}} {offset = 0 : i32}
func.func @in_flight(%x: !half, %zero: !acc) -> !acc attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %left = cta.channel : !ring
  %right = cta.channel : !ring
  %a = cta.slot %left[%c0] : !ring -> !buffer
  %b = cta.slot %right[%c0] : !ring -> !buffer
  %dot = cta.dot_start %a, %b, %zero by [64, 64, 16] : !buffer, !buffer, !acc -> !flight
  %beside = cta.alloc %x : !buffer from !half
  %sums = cta.dot_wait %dot : !flight
  %after = cta.alloc %x : !buffer from !half
  return %sums : !acc
}

// In a loop, with the next dot; a wait that leaves one in flight ends the first one alone.
// CHECK-LABEL: func.func @in_flight_over_loops
// CHECK: cta.channel {offset = 0 : i32}
// CHECK: scf.for
// CHECK: cta.alloc {{.*}} {offset = 8192 : i32}
// CHECK: }
// CHECK: cta.alloc {{.*}} {offset = 8192 : i32}
// CHECK: cta.dot_wait
// CHECK: cta.alloc {{.*}} {offset = 0 : i32}
func.func @in_flight_over_loops(%x: !half, %zero: !acc, %n: i32) -> !acc attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = cta.channel : !ring
  %begin = cta.dot_begin %zero : !flight
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %begin) -> (!flight) : i32 {
    %beside = cta.alloc %x : !buffer from !half
    %a = cta.slot %ring[%c0] : !ring -> !buffer
    %dot = cta.dot_start %a, %a, %sums by [64, 64, 16] : !buffer, !buffer, !flight -> !flight
    cta.dots_wait 1
    scf.yield %dot : !flight
  }
  %later = cta.alloc %x : !buffer from !half
  %done = cta.dot_wait %end : !flight
  %after = cta.alloc %x : !buffer from !half
  return %done : !acc
}
}
