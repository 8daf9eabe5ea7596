// Loops whose number of iterations is computed, loaded or constant: each is run long enough to find a mistake that only shows
// when the ring is filled for the second time.
// RUN: sectile-opt --check-channels %s | FileCheck %s
// RUN: sed 's/parity %%parity/parity %%c0/' %s | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=CONSTANT
// CONSTANT-COUNT-4: error: 'cta.mbarrier_wait' op passes one phase early in iteration 2 of 3, at slot 0 (use 2)
// CONSTANT: error: 'cta.mbarrier_wait' op passes one phase early in iteration 2 of 1000001, at slot 0 (use 2)
// CONSTANT: error: 'cta.mbarrier_wait' op passes one phase early in iteration 2 of 3, at slot 0 (use 2)
// CONSTANT: error: 'cta.mbarrier_wait' op passes one phase early in iteration 0 of 2, at slot 0 (use 2)
// CONSTANT: error: 'cta.mbarrier_wait' op passes one phase early in iteration 2 of 3, at slot 0 (use 2)
// An attribute of the kernel is no place in shared memory.
// RUN: sed 's/attributes {tile.kernel/attributes {offset = 3 : i32, tile.kernel/' %s | sectile-opt --check-channels -o /dev/null

#lines = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#rows = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
!buffer = !cta.buffer<64x64xf16, #lines>
!half = tensor<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>

module attributes {cta.target = "sm_90a"} {
// Blocks of an extent.
// CHECK: func.func @blocks(
func.func @blocks(%map: !cta.tensor_map, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = cta.channel {offset = 0 : i32} : !ring
  %barriers = cta.mbarriers {offset = 16384 : i32} : !cta.mbarriers<2>
  %c63 = arith.constant 63 : i32
  %c64 = arith.constant 64 : i32
  %more = arith.addi %n, %c63 : i32
  %blocks = arith.divsi %more, %c64 : i32
  %end = scf.for %i = %c0 to %blocks step %c1 iter_args(%use = %c0) -> (i32) : i32 {
    %slot = arith.remui %use, %c2 : i32
    %turn = arith.divui %use, %c2 : i32
    %parity = arith.andi %turn, %c1 : i32
    %s = cta.slot %ring[%slot] : !ring -> !buffer
    cta.barrier
    cta.tensor_copy %map[%c0, %c0], %s signals %barriers[%slot] {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<2>
    cta.mbarrier_wait %barriers[%slot] parity %parity : !cta.mbarriers<2>
    %t = cta.local_load %s : !buffer -> !half
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  return
}

// Steps of 64 up to an extent.
// CHECK: func.func @steps(
func.func @steps(%map: !cta.tensor_map, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = cta.channel {offset = 0 : i32} : !ring
  %barriers = cta.mbarriers {offset = 16384 : i32} : !cta.mbarriers<2>
  %c64 = arith.constant 64 : i32
  %end = scf.for %i = %c0 to %n step %c64 iter_args(%use = %c0) -> (i32) : i32 {
    %slot = arith.remui %use, %c2 : i32
    %turn = arith.divui %use, %c2 : i32
    %parity = arith.andi %turn, %c1 : i32
    %s = cta.slot %ring[%slot] : !ring -> !buffer
    cta.barrier
    cta.tensor_copy %map[%c0, %c0], %s signals %barriers[%slot] {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<2>
    cta.mbarrier_wait %barriers[%slot] parity %parity : !cta.mbarriers<2>
    %t = cta.local_load %s : !buffer -> !half
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  return
}

// Tiles of a grid, some of which are one program's.
// CHECK: func.func @tiles(
func.func @tiles(%map: !cta.tensor_map, %m: i32, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = cta.channel {offset = 0 : i32} : !ring
  %barriers = cta.mbarriers {offset = 16384 : i32} : !cta.mbarriers<2>
  %c64 = arith.constant 64 : i32
  %mine = tile.program_id 0
  %programs = tile.num_programs 0
  %rows = arith.ceildivsi %m, %c64 : i32
  %columns = arith.ceildivsi %n, %c64 : i32
  %tiles = arith.muli %rows, %columns : i32
  %end = scf.for %i = %mine to %tiles step %programs iter_args(%use = %c0) -> (i32) : i32 {
    %slot = arith.remui %use, %c2 : i32
    %turn = arith.divui %use, %c2 : i32
    %parity = arith.andi %turn, %c1 : i32
    %s = cta.slot %ring[%slot] : !ring -> !buffer
    cta.barrier
    cta.tensor_copy %map[%c0, %c0], %s signals %barriers[%slot] {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<2>
    cta.mbarrier_wait %barriers[%slot] parity %parity : !cta.mbarriers<2>
    %t = cta.local_load %s : !buffer -> !half
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  return
}

// A number that is loaded, between bounds, one of which is against it.
// CHECK: func.func @loaded(
func.func @loaded(%map: !cta.tensor_map, %p: !tile.ptr<i32>, %from: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = cta.channel {offset = 0 : i32} : !ring
  %barriers = cta.mbarriers {offset = 16384 : i32} : !cta.mbarriers<2>
  %loaded = tile.load %p : !tile.ptr<i32> -> i32
  %above = arith.maxsi %loaded, %c0 : i32
  %other = arith.xori %from, %c1 : i32
  %below = arith.minsi %above, %other : i32
  %end = scf.for %i = %c0 to %below step %c1 iter_args(%use = %c0) -> (i32) : i32 {
    %slot = arith.remui %use, %c2 : i32
    %turn = arith.divui %use, %c2 : i32
    %parity = arith.andi %turn, %c1 : i32
    %s = cta.slot %ring[%slot] : !ring -> !buffer
    cta.barrier
    cta.tensor_copy %map[%c0, %c0], %s signals %barriers[%slot] {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<2>
    cta.mbarrier_wait %barriers[%slot] parity %parity : !cta.mbarriers<2>
    %t = cta.local_load %s : !buffer -> !half
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  return
}

// Too many iterations to run all of them.
// CHECK: func.func @constant(
func.func @constant(%map: !cta.tensor_map) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = cta.channel {offset = 0 : i32} : !ring
  %barriers = cta.mbarriers {offset = 16384 : i32} : !cta.mbarriers<2>
  %many = arith.constant 1000001 : i32
  %end = scf.for %i = %c0 to %many step %c1 iter_args(%use = %c0) -> (i32) : i32 {
    %slot = arith.remui %use, %c2 : i32
    %turn = arith.divui %use, %c2 : i32
    %parity = arith.andi %turn, %c1 : i32
    %s = cta.slot %ring[%slot] : !ring -> !buffer
    cta.barrier
    cta.tensor_copy %map[%c0, %c0], %s signals %barriers[%slot] {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<2>
    cta.mbarrier_wait %barriers[%slot] parity %parity : !cta.mbarriers<2>
    %t = cta.local_load %s : !buffer -> !half
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  return
}

// A loop under a condition that is not known.
// CHECK: func.func @branch(
func.func @branch(%map: !cta.tensor_map, %when: i1, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = cta.channel {offset = 0 : i32} : !ring
  %barriers = cta.mbarriers {offset = 16384 : i32} : !cta.mbarriers<2>
  scf.if %when {
    %end = scf.for %i = %c0 to %n step %c1 iter_args(%use = %c0) -> (i32) : i32 {
      %slot = arith.remui %use, %c2 : i32
      %turn = arith.divui %use, %c2 : i32
      %parity = arith.andi %turn, %c1 : i32
      %s = cta.slot %ring[%slot] : !ring -> !buffer
      cta.barrier
      cta.tensor_copy %map[%c0, %c0], %s signals %barriers[%slot] {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<2>
      cta.mbarrier_wait %barriers[%slot] parity %parity : !cta.mbarriers<2>
      %t = cta.local_load %s : !buffer -> !half
      %next = arith.addi %use, %c1 : i32
      scf.yield %next : i32
    }
  }
  return
}

// Uses that are counted on over an outer loop.
// CHECK: func.func @nested(
func.func @nested(%map: !cta.tensor_map, %m: i32, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = cta.channel {offset = 0 : i32} : !ring
  %barriers = cta.mbarriers {offset = 16384 : i32} : !cta.mbarriers<2>
  %end = scf.for %j = %c0 to %m step %c1 iter_args(%first = %c0) -> (i32) : i32 {
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%use = %first) -> (i32) : i32 {
      %slot = arith.remui %use, %c2 : i32
      %turn = arith.divui %use, %c2 : i32
      %parity = arith.andi %turn, %c1 : i32
      %s = cta.slot %ring[%slot] : !ring -> !buffer
      cta.barrier
      cta.tensor_copy %map[%c0, %c0], %s signals %barriers[%slot] {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<2>
      cta.mbarrier_wait %barriers[%slot] parity %parity : !cta.mbarriers<2>
      %t = cta.local_load %s : !buffer -> !half
      %next = arith.addi %use, %c1 : i32
      scf.yield %next : i32
    }
    scf.yield %last : i32
  }
  return
}

// Until something is loaded.
// CHECK: func.func @until(
func.func @until(%map: !cta.tensor_map, %p: !tile.ptr<i32>) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = cta.channel {offset = 0 : i32} : !ring
  %barriers = cta.mbarriers {offset = 16384 : i32} : !cta.mbarriers<2>
  %end = scf.while (%before = %c0) : (i32) -> i32 {
    %loaded = tile.load %p : !tile.ptr<i32> -> i32
    %again = arith.cmpi sgt, %loaded, %c0 : i32
    scf.condition(%again) %before : i32
  } do {
  ^bb0(%use: i32):
    %slot = arith.remui %use, %c2 : i32
    %turn = arith.divui %use, %c2 : i32
    %parity = arith.andi %turn, %c1 : i32
    %s = cta.slot %ring[%slot] : !ring -> !buffer
    cta.barrier
    cta.tensor_copy %map[%c0, %c0], %s signals %barriers[%slot] {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<2>
    cta.mbarrier_wait %barriers[%slot] parity %parity : !cta.mbarriers<2>
    %t = cta.local_load %s : !buffer -> !half
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  return
}
}
