// RUN: sectile-opt --insert-barriers %s | FileCheck %s

#tile = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
#plain = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,0) (2,0) (4,0) (8,0) (16,0) (32,0)]">
#rows = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
#columns = #cta.layout<"64x64, register [(1,0) (2,0) (4,0) (0,16) (0,32)], lane [(8,0) (16,0) (32,0) (0,1) (0,2)], warp [(0,4) (0,8)]">
#sums = #cta.layout<"64, register [(1) (2) (4)], lane [(8) (16) (32) (0) (0)], warp [(0) (0)]">
!tile = tensor<64x64xf16, #tile>
!ptrs = tensor<64x64x!tile.ptr<f16>, #tile>
!buffer = !cta.buffer<64x64xf16, #plain>
!ring2 = !cta.channel<2, !buffer>
!ring3 = !cta.channel<3, !buffer>

module attributes {cta.target = "sm_80"} {
// A read after a write, and a write after a read of the same bytes.
// CHECK-LABEL: func.func @straight
// CHECK-NEXT: cta.alloc
// CHECK-NEXT: cta.alloc
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.local_load
// CHECK-NEXT: cta.local_load
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.alloc
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.local_load
// CHECK-NEXT: return
func.func @straight(%x: !tile) {
  %a = cta.alloc %x {offset = 0 : i32} : !buffer from !tile
  %b = cta.alloc %x {offset = 8192 : i32} : !buffer from !tile
  %v = cta.local_load %a : !buffer -> !tile
  %w = cta.local_load %b : !buffer -> !tile
  %c = cta.alloc %x {offset = 4096 : i32} : !buffer from !tile
  %u = cta.local_load %c : !buffer -> !tile
  return
}

// A barrier that is there is enough.
// CHECK-LABEL: func.func @there
// CHECK-COUNT-1: cta.barrier
// CHECK-NOT: cta.barrier
func.func @there(%x: !tile) {
  %a = cta.alloc %x {offset = 0 : i32} : !buffer from !tile
  cta.barrier
  %v = cta.local_load %a : !buffer -> !tile
  return
}

// What is written before the loop needs one barrier before it, not one per iteration.
// CHECK-LABEL: func.func @hoisted
// CHECK: cta.alloc
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: scf.for
// CHECK-NEXT: cta.local_load
// CHECK-NEXT: }
func.func @hoisted(%x: !tile, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = cta.alloc %x {offset = 0 : i32} : !buffer from !tile
  scf.for %i = %c0 to %n step %c1 : i32 {
    %v = cta.local_load %a : !buffer -> !tile
  }
  return
}

// Around the loop: the next iteration writes what this one reads.
// CHECK-LABEL: func.func @around
// CHECK: scf.for
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.alloc
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.local_load
// CHECK-NEXT: }
func.func @around(%x: !tile, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %a = cta.alloc %x {offset = 0 : i32} : !buffer from !tile
    %v = cta.local_load %a : !buffer -> !tile
  }
  return
}

// With two places in turn, the barrier after the one write is that before the other.
// CHECK-LABEL: func.func @turns
// CHECK: scf.for
// CHECK-COUNT-2: cta.barrier
// CHECK-NOT: cta.barrier
func.func @turns(%x: !tile, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %a = cta.alloc %x {offset = 0 : i32} : !buffer from !tile
    %v = cta.local_load %a : !buffer -> !tile
    %b = cta.alloc %v {offset = 8192 : i32} : !buffer from !tile
    %w = cta.local_load %b : !buffer -> !tile
  }
  return
}

// Branches join, and a loop may run not at all.
// CHECK-LABEL: func.func @branches
// CHECK: scf.if
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.local_load
// CHECK: } else {
// CHECK-NEXT: cta.local_load
// CHECK: }
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.local_store
func.func @branches(%x: !tile, %c: i1) {
  %a = cta.alloc %x {offset = 0 : i32} : !buffer from !tile
  %b = cta.alloc {offset = 8192 : i32} : !buffer
  scf.if %c {
    %v = cta.local_load %a : !buffer -> !tile
  } else {
    %v = cta.local_load %b : !buffer -> !tile
  }
  cta.local_store %x, %b : !tile, !buffer
  return
}

// CHECK-LABEL: func.func @while
// CHECK: scf.while
// CHECK: cta.barrier
// CHECK-NEXT: cta.local_load
// CHECK: } do {
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.local_store
func.func @while(%x: !tile, %c: i1) {
  %a = cta.alloc {offset = 0 : i32} : !buffer
  scf.while : () -> () {
    %v = cta.local_load %a : !buffer -> !tile
    scf.condition(%c)
  } do {
    cta.local_store %x, %a : !tile, !buffer
    scf.yield
  }
  return
}

// A pipeline of three stages: one barrier per iteration, after the wait; none for the copies.
// CHECK-LABEL: func.func @pipeline
// CHECK-NOT: cta.barrier
// CHECK: scf.for
// CHECK-NEXT: cta.async_wait 1
// CHECK-NOT: cta.barrier
// CHECK: cta.barrier
// CHECK-NEXT: cta.async_copy
// CHECK-NOT: cta.barrier
// CHECK: return
func.func @pipeline(%p: !ptrs, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %ring = cta.channel {offset = 0 : i32} : !ring3
  %s0 = cta.slot %ring[%c0] : !ring3 -> !buffer
  cta.async_copy %p, %s0 : !ptrs, !buffer
  cta.async_commit
  %s1 = cta.slot %ring[%c1] : !ring3 -> !buffer
  cta.async_copy %p, %s1 : !ptrs, !buffer
  cta.async_commit
  scf.for %i = %c0 to %n step %c1 iter_args(%use = %c0) -> (i32) : i32 {
    cta.async_wait 1
    %later = arith.addi %use, %c2 : i32
    %w = cta.ring_slot %later of 3
    %sw = cta.slot %ring[%w] : !ring3 -> !buffer
    cta.async_copy %p, %sw : !ptrs, !buffer
    cta.async_commit
    %r = cta.ring_slot %use of 3
    %sr = cta.slot %ring[%r] : !ring3 -> !buffer
    %v = cta.local_load %sr : !buffer -> !tile
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  cta.async_wait 0
  return
}

// Two stages, and a buffer that takes the ring's place afterwards.
// CHECK-LABEL: func.func @two_stages
// CHECK: scf.for
// CHECK-NEXT: cta.async_wait 0
// CHECK-COUNT-1: cta.barrier
// CHECK-NOT: cta.barrier
// CHECK: cta.async_wait 0
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.alloc
// CHECK-NOT: cta.barrier
func.func @two_stages(%p: !ptrs, %x: !tile, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = cta.channel {offset = 0 : i32} : !ring2
  %s0 = cta.slot %ring[%c0] : !ring2 -> !buffer
  cta.async_copy %p, %s0 : !ptrs, !buffer
  cta.async_commit
  scf.for %i = %c0 to %n step %c1 iter_args(%use = %c0) -> (i32) : i32 {
    cta.async_wait 0
    %later = arith.addi %use, %c1 : i32
    %w = cta.ring_slot %later of 2
    %sw = cta.slot %ring[%w] : !ring2 -> !buffer
    cta.async_copy %p, %sw : !ptrs, !buffer
    cta.async_commit
    %r = cta.ring_slot %use of 2
    %sr = cta.slot %ring[%r] : !ring2 -> !buffer
    %v = cta.local_load %sr : !buffer -> !tile
    scf.yield %later : i32
  }
  cta.async_wait 0
  %a = cta.alloc %x {offset = 0 : i32} : !buffer from !tile
  return
}

// Too short a ring for what is under way: the copy into the slot just read waits for its readers.
// CHECK-LABEL: func.func @short
// CHECK: scf.for
// CHECK: cta.barrier
// CHECK: cta.local_load
// CHECK: cta.barrier
// CHECK: cta.async_copy
// CHECK-NOT: cta.barrier
func.func @short(%p: !ptrs, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = cta.channel {offset = 0 : i32} : !ring2
  %s0 = cta.slot %ring[%c0] : !ring2 -> !buffer
  cta.async_copy %p, %s0 : !ptrs, !buffer
  cta.async_commit
  %s1 = cta.slot %ring[%c1] : !ring2 -> !buffer
  cta.async_copy %p, %s1 : !ptrs, !buffer
  cta.async_commit
  scf.for %i = %c0 to %n step %c1 iter_args(%use = %c0) -> (i32) : i32 {
    cta.async_wait 1
    %r = cta.ring_slot %use of 2
    %sr = cta.slot %ring[%r] : !ring2 -> !buffer
    %v = cta.local_load %sr : !buffer -> !tile
    %later = arith.addi %use, %c2 : i32
    %w = cta.ring_slot %later of 2
    %sw = cta.slot %ring[%w] : !ring2 -> !buffer
    cta.async_copy %p, %sw : !ptrs, !buffer
    cta.async_commit
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  return
}

// A read that nothing waits for: the pass waits itself.
// CHECK-LABEL: func.func @unwaited
// CHECK: cta.async_copy
// CHECK-NEXT: cta.async_commit
// CHECK-NEXT: cta.async_wait 0
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.local_load
func.func @unwaited(%p: !ptrs) {
  %a = cta.alloc {offset = 0 : i32} : !buffer
  cta.async_copy %p, %a : !ptrs, !buffer
  %v = cta.local_load %a : !buffer -> !tile
  return
}

// Scratch: a conversion and a sum over warps. Each has a barrier inside, which orders the other's
// reads before its own next writes; alone in a loop one needs a barrier of its own.// CHECK-LABEL: func.func @scratches
// CHECK-NOT: cta.barrier
// CHECK: return
func.func @scratches(%x: tensor<64x64xf32, #rows>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %y = cta.convert_layout %x {offset = 0 : i32} : tensor<64x64xf32, #rows> -> tensor<64x64xf32, #columns>
    %s = tile.reduce %x 0 {offset = 16384 : i32} : (tensor<64x64xf32, #rows>) -> tensor<64xf32, #sums> {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    }
  }
  return
}

// CHECK-LABEL: func.func @alone
// CHECK: scf.for
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.convert_layout
func.func @alone(%x: tensor<64x64xf32, #rows>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %y = cta.convert_layout %x {offset = 0 : i32} : tensor<64x64xf32, #rows> -> tensor<64x64xf32, #columns>
  }
  return
}
}
