// What channels became is run for loops of 0, 1, 2, … iterations. Each line below breaks the kernels in one place.
// RUN: sectile-opt --check-channels %s | FileCheck %s
// CHECK: func.func @engine
// CHECK: func.func @threads

// A wait for the phase before.
// RUN: sed 's/parity %%parity/parity %%other/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: 'cta.mbarrier_wait' op passes one phase early in iteration 0 of 1, at slot 0 (use 0)

// A phase that stays constant is the right one for the first turn of the ring.
// RUN: sed 's/parity %%parity/parity %%c0/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=CONSTANT
// CONSTANT: error: 'cta.mbarrier_wait' op passes one phase early in iteration 3 of 4, at slot 0 (use 3)

// The turn of the ring counted with another depth.
// RUN: sed 's/arith.divui %%use, %%c3/arith.divui %%use, %%c2/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=DEPTH
// DEPTH: error: 'cta.mbarrier_wait' op passes one phase early in iteration 2 of 3, at slot 2 (use 2)

// RUN: sed 's/expects = 8192/expects = 4096/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=MORE
// MORE: error: 'cta.tensor_copy' op copies 4096 bytes more than are expected to slot 0 (use 0)
// RUN: sed '/AHEAD/s/expects = 8192/expects = 16384/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=FEWER
// FEWER: error: 'cta.tensor_copy' op expects 8192 bytes more than are copied to slot 2 in iteration 0 of 3 (use 2)
// FEWER: note: this waits for them for ever in iteration 2 of 3

// A copy into the buffer that is about to be read, and one into that which was read last.
// RUN: sed '/LATER/s/%%c2/%%c3/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=RING
// RING: error: 'cta.local_load' op reads slot 0 in iteration 0 of 3 before its bytes are there (use 3)
// RING: note: these are written here in iteration 0 of 3
// RUN: sed '/MEET/d' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=MEET
// MEET: error: 'cta.tensor_copy' op may complete the phase of slot 0 in iteration 1 of 4 (use 3) before all have seen the one before
// MEET: note: this may wait for ever in iteration 0 of 4

// RUN: sed '/cta.mbarrier_wait/d' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=WAIT
// WAIT: error: 'cta.local_load' op reads slot 0 in iteration 0 of 1 before its bytes are there (use 0)
// RUN: sed '/MADE/d' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=MADE
// MADE: error: 'cta.mbarrier_wait' op reads slot 0 in iteration 0 of 1 before its bytes are there
// RUN: sed '/cta.proxy_fence/d' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=FENCE
// FENCE: error: 'cta.tensor_copy' op does not see slot 0 as it was written, without a fence
// FENCE: note: by this

// Loops of no iterations, of one and of some: a copy that nobody waits for, and a use that nobody copies.
// RUN: sed 's/when %%one //' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: 'cta.tensor_copy' op copies to slot 0 (use 0), for which nobody waits
// RUN: sed 's/when %%two/when %%one/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=ONE
// ONE: error: 'cta.tensor_copy' op copies to slot 1 (use 1), for which nobody waits
// RUN: sed 's/sgt, %%left, %%c2/sge, %%left, %%c2/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=TWO
// TWO: error: 'cta.tensor_copy' op copies to slot 2 in iteration 0 of 2 (use 2), for which nobody waits
// RUN: sed 's/sgt, %%left, %%c2/sgt, %%left, %%c3/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=STUCK
// STUCK: error: 'cta.mbarrier_wait' op waits for ever in iteration 2 of 3: nobody completes the phase of slot 2 (use 2)

// Copies by the threads: a wait that leaves one group too many, none, and copies that are in no group.
// RUN: sed 's/cta.async_wait 1/cta.async_wait 2/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=GROUPS
// RUN: sed '/cta.async_wait 1/d' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=GROUPS
// GROUPS: error: 'cta.dot_start' op reads slot 0 in iteration 0 of 1 before its bytes are there (use 0)
// GROUPS: note: these are written here
// RUN: sed '/CLOSE/d' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=CLOSE
// CLOSE: error: 'cta.dot_start' op reads slot 1 in iteration 1 of 2 before its bytes are there (use 1)
// Instructions do not see what the copies of threads wrote without a fence.
// RUN: sed '/SEEN/d' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=SEEN
// SEEN: error: 'cta.dot_start' op does not see slot 0 in iteration 0 of 1 as it was written, without a fence (use 0)
// The dot of the iteration before reads what is overwritten next.
// RUN: sed 's/cta.dots_wait 1/cta.dots_wait 2/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=DOTS
// DOTS: error: 'cta.async_copy' op overwrites slot 0 in iteration 2 of
// DOTS: note: while this may still read it in iteration 0 of

// A buffer in the ring's place, before the last copies have arrived.
// RUN: sed '/cta.async_wait 0/d' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: error: 'cta.alloc' op overwrites its bytes
// PLACE: note: while this may still write it

#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0)]">
#lines = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#rows = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
!acc = tensor<64x64xf32, #acc>
!buffer = !cta.buffer<64x64xf16, #lines>
!half = tensor<64x64xf16, #rows>
!ptrs = tensor<64x64x!tile.ptr<f16>, #rows>
!ring = !cta.channel<3, !buffer>
!deep = !cta.channel<4, !buffer>
!flight = !cta.in_flight<tensor<64x64xf32, #acc>>

module attributes {cta.target = "sm_90a"} {
// The engine copies two uses ahead into three buffers, the first of which held something else.
func.func @engine(%map: !cta.tensor_map, %p: !ptrs, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %ring = cta.channel {offset = 0 : i32} : !ring
  %x = tile.load %p : !ptrs -> !half
  %before = cta.alloc %x {offset = 0 : i32} : !buffer from !half
  cta.proxy_fence
  cta.barrier
  %barriers = cta.mbarriers {offset = 24576 : i32} : !cta.mbarriers<3>
  cta.barrier // MADE
  %one = arith.cmpi sgt, %n, %c0 : i32
  %s0 = cta.slot %ring[%c0] : !ring -> !buffer
  cta.tensor_copy %map[%c0, %c0], %s0 signals %barriers[%c0] when %one {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<3>
  %two = arith.cmpi sgt, %n, %c1 : i32
  %s1 = cta.slot %ring[%c1] : !ring -> !buffer
  cta.tensor_copy %map[%c0, %c1], %s1 signals %barriers[%c1] when %two {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<3>
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%use = %c0) -> (i32) : i32 {
    %slot = arith.remui %use, %c3 : i32
    %turn = arith.divui %use, %c3 : i32
    %parity = arith.andi %turn, %c1 : i32
    %other = arith.xori %parity, %c1 : i32
    cta.mbarrier_wait %barriers[%slot] parity %parity : !cta.mbarriers<3>
    cta.barrier // MEET
    %left = arith.subi %n, %i : i32
    %more = arith.cmpi sgt, %left, %c2 : i32
    %later = arith.addi %use, %c2 : i32 // LATER
    %next = arith.remui %later, %c3 : i32
    %filled = cta.slot %ring[%next] : !ring -> !buffer
    cta.tensor_copy %map[%c0, %later], %filled signals %barriers[%next] when %more {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<3> // AHEAD
    %read = cta.slot %ring[%slot] : !ring -> !buffer
    %t = cta.local_load %read : !buffer -> !half
    tile.store %p, %t : !ptrs, !half
    %count = arith.addi %use, %c1 : i32
    scf.yield %count : i32
  }
  return
}

// Threads copy two uses ahead into four buffers, as the dot of the iteration before still reads one.
func.func @threads(%p: !ptrs, %zero: !acc, %n: i32) -> !acc attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c4 = arith.constant 4 : i32
  %x = tile.load %p : !ptrs -> !half
  %b = cta.alloc %x {offset = 32768 : i32} : !buffer from !half
  %ring = cta.channel {offset = 0 : i32} : !deep
  %s0 = cta.slot %ring[%c0] : !deep -> !buffer
  cta.async_copy %p, %s0 {vector = 8 : i32} : !ptrs, !buffer
  cta.async_commit
  %s1 = cta.slot %ring[%c1] : !deep -> !buffer
  cta.async_copy %p, %s1 {vector = 8 : i32} : !ptrs, !buffer
  cta.async_commit
  %begin = cta.dot_begin %zero : !flight
  %end:2 = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %begin, %use = %c0) -> (!flight, i32) : i32 {
    cta.async_wait 1
    cta.proxy_fence // SEEN
    cta.barrier
    %later = arith.addi %use, %c2 : i32
    %next = arith.remui %later, %c4 : i32
    %filled = cta.slot %ring[%next] : !deep -> !buffer
    cta.async_copy %p, %filled {vector = 8 : i32} : !ptrs, !buffer
    cta.async_commit // CLOSE
    %slot = arith.remui %use, %c4 : i32
    %a = cta.slot %ring[%slot] : !deep -> !buffer
    %dot = cta.dot_start %a, %b, %sums by [64, 64, 16] : !buffer, !buffer, !flight -> !flight
    cta.dots_wait 1
    %count = arith.addi %use, %c1 : i32
    scf.yield %dot, %count : !flight, i32
  }
  %done = cta.dot_wait %end#0 : !flight
  cta.async_wait 0
  cta.barrier
  %after = cta.alloc %x {offset = 0 : i32} : !buffer from !half
  return %done : !acc
}
}
