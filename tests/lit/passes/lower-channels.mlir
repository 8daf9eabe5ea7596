// RUN: sectile-opt --lower-channels %s | FileCheck %s

#load = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
!ptrs = tensor<64x64x!tile.ptr<f16>, #load>
!half = tensor<64x64xf16, #load>
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<3, !buffer>

module attributes {cta.target = "sm_80"} {
// Groups are counted over both channels: after a use of the first come the second's and two of the
// next use; the second has only those of uses ahead after it.
// CHECK-LABEL: func.func @two
// CHECK: %[[K:.*]] = cta.channel
// CHECK: %[[V:.*]] = cta.channel
// CHECK: scf.for {{.*}} iter_args(%[[USE:.*]] =
// CHECK-NEXT: cta.async_wait 3
// CHECK: %[[R:.*]] = cta.ring_slot %[[USE]] of 3
// CHECK: %[[BK:.*]] = cta.slot %[[K]][%[[R]]]
// CHECK: %[[LATER:.*]] = cta.ring_advance %[[USE]] by 2 of 3
// CHECK: %[[W:.*]] = cta.ring_slot %[[LATER]] of 3
// CHECK: %[[NK:.*]] = cta.slot %[[K]][%[[W]]]
// CHECK: cta.async_copy %{{.*}}, %[[NK]]
// CHECK-NEXT: cta.async_commit
// CHECK: %[[NV:.*]] = cta.slot %[[V]]
// CHECK: cta.async_copy %{{.*}}, %[[NV]]
// CHECK-NEXT: cta.async_commit
// CHECK-NEXT: cta.local_load %[[BK]]
// CHECK: cta.async_wait 4
// CHECK: %[[BV:.*]] = cta.slot %[[V]]
// CHECK: cta.local_load %[[BV]]
// CHECK-NOT: cta.release
// All copies have landed before the rings' place is free.
// CHECK: }
// CHECK-NEXT: cta.async_wait 0
// CHECK-NEXT: return
func.func @two(%p: !ptrs, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %k = cta.channel : !ring
  %v = cta.channel : !ring
  %k0 = cta.acquire %k[%c0] : !ring -> !buffer
  cta.async_copy %p, %k0 : !ptrs, !buffer
  cta.commit %k[%c0] : !ring
  %v0 = cta.acquire %v[%c0] : !ring -> !buffer
  cta.async_copy %p, %v0 : !ptrs, !buffer
  cta.commit %v[%c0] : !ring
  %k1 = cta.acquire %k[%c1] : !ring -> !buffer
  cta.async_copy %p, %k1 : !ptrs, !buffer
  cta.commit %k[%c1] : !ring
  %v1 = cta.acquire %v[%c1] : !ring -> !buffer
  cta.async_copy %p, %v1 : !ptrs, !buffer
  cta.commit %v[%c1] : !ring
  scf.for %i = %c0 to %n step %c1 iter_args(%use = %c0) -> (i32) : i32 {
    %bk = cta.wait %k[%use] : !ring -> !buffer
    %later = arith.addi %use, %c2 : i32
    %nk = cta.acquire %k[%later] : !ring -> !buffer
    cta.async_copy %p, %nk : !ptrs, !buffer
    cta.commit %k[%later] : !ring
    %nv = cta.acquire %v[%later] : !ring -> !buffer
    cta.async_copy %p, %nv : !ptrs, !buffer
    cta.commit %v[%later] : !ring
    %tk = cta.local_load %bk : !buffer -> !half
    tile.store %p, %tk : !ptrs, !half
    cta.release %k[%use] : !ring
    %bv = cta.wait %v[%use] : !ring -> !buffer
    %tv = cta.local_load %bv : !buffer -> !half
    tile.store %p, %tv : !ptrs, !half
    cta.release %v[%use] : !ring
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  return
}

// One group for both, and constants instead of remainders.
// CHECK-LABEL: func.func @constants
// CHECK: cta.slot %{{.*}}[%[[ONE:.*]]]
// CHECK: cta.async_commit
// CHECK: cta.async_wait 0
// CHECK-NOT: ring_
func.func @constants(%p: !ptrs) {
  %c0 = arith.constant 0 : i32
  %k = cta.channel : !ring
  %v = cta.channel : !ring
  %nk = cta.acquire %k[%c0] : !ring -> !buffer
  cta.async_copy %p, %nk : !ptrs, !buffer
  %nv = cta.acquire %v[%c0] : !ring -> !buffer
  cta.async_copy %p, %nv : !ptrs, !buffer
  cta.commit %k, %v[%c0] : !ring, !ring
  %b:2 = cta.wait %k, %v[%c0] : !ring, !ring -> !buffer, !buffer
  %tk = cta.local_load %b#0 : !buffer -> !half
  tile.store %p, %tk : !ptrs, !half
  %tv = cta.local_load %b#1 : !buffer -> !half
  tile.store %p, %tv : !ptrs, !half
  cta.release %k, %v[%c0] : !ring, !ring
  return
}

// Whichever branch is taken: by one of them a group more is closed after the use, by the other not,
// so that none may stay under way.
// CHECK-LABEL: func.func @branches
// CHECK: scf.if
// CHECK: cta.async_commit
// CHECK: }
// CHECK-NEXT: cta.async_wait 0
// CHECK: cta.async_wait 0
func.func @branches(%p: !ptrs, %which: i1) {
  %c0 = arith.constant 0 : i32
  %k = cta.channel : !ring
  %b = cta.acquire %k[%c0] : !ring -> !buffer
  cta.async_copy %p, %b : !ptrs, !buffer
  cta.commit %k[%c0] : !ring
  scf.if %which {
    %v = cta.channel : !ring
    %w = cta.acquire %v[%c0] : !ring -> !buffer
    cta.async_copy %p, %w : !ptrs, !buffer
    cta.commit %v[%c0] : !ring
  }
  %r = cta.wait %k[%c0] : !ring -> !buffer
  %t = cta.local_load %r : !buffer -> !half
  tile.store %p, %t : !ptrs, !half
  cta.release %k[%c0] : !ring
  return
}
}
