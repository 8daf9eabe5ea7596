// A loop does as many iterations as the smaller of two numbers, one of which a loop ahead of it decides about. What is copied
// ahead of the loop has to agree with the loop about there being an iteration at all.
// RUN: sectile-opt --check-channels %s | FileCheck %s
// CHECK: func.func @chosen(

// Whether the loop ahead finds what it looks for, no argument decides. The number of iterations is chosen all the same, and what
// is wrong with it is an error, whoever made the channels.
// RUN: sed 's/when %%more //' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=BEYOND
// BEYOND: error: 'cta.tensor_copy' op copies to slot 0 {{.*}}, for which nobody waits
// RUN: sed -e 's/when %%more //' -e 's/cta.channel {offset/cta.channel {by_hand, offset/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=BY-HAND
// BY-HAND: error: this copies to slot 0 {{.*}}, for which nobody waits

#lines = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#rows = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
!buffer = !cta.buffer<64x64xf16, #lines>
!half = tensor<64x64xf16, #rows>
!ring = !cta.channel<1, !buffer>

module attributes {cta.target = "sm_90a"} {
func.func @chosen(%map: !cta.tensor_map, %p: !tile.ptr<i32>, %n: i32, %most: i32, %length: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %false = arith.constant false
  %ring = cta.channel {offset = 0 : i32} : !ring
  %barriers = cta.mbarriers {offset = 8192 : i32} : !cta.mbarriers<1>
  %exists = scf.for %i = %c0 to %n step %c1 iter_args(%before = %false) -> (i1) : i32 {
    %loaded = tile.load %p : !tile.ptr<i32> -> i32
    %here = arith.cmpi eq, %i, %loaded : i32
    %now = arith.ori %before, %here : i1
    scf.yield %now : i1
  }
  %own = arith.select %exists, %length, %c0 : i32
  %rows = arith.minsi %own, %most : i32
  %c63 = arith.constant 63 : i32
  %c64 = arith.constant 64 : i32
  %up = arith.addi %rows, %c63 : i32
  %blocks = arith.divsi %up, %c64 : i32
  %any = arith.cmpi sgt, %blocks, %c0 : i32
  %s = cta.slot %ring[%c0] : !ring -> !buffer
  cta.barrier
  cta.tensor_copy %map[%c0, %c0], %s signals %barriers[%c0] when %any {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<1>
  %end = scf.for %i = %c0 to %blocks step %c1 iter_args(%use = %c0) -> (i32) : i32 {
    %parity = arith.andi %use, %c1 : i32
    cta.mbarrier_wait %barriers[%c0] parity %parity : !cta.mbarriers<1>
    %t = cta.local_load %s : !buffer -> !half
    cta.barrier
    %next = arith.addi %use, %c1 : i32
    %more = arith.cmpi slt, %next, %blocks : i32
    cta.tensor_copy %map[%c0, %c0], %s signals %barriers[%c0] when %more {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<1>
    scf.yield %next : i32
  }
  return
}
}
