// Dots in flight of which one reads its left operand from registers, and waits that leave those started later in flight. Each line below
// breaks the result in one place.
// RUN: split-file %s %t
// RUN: sectile-opt --sectile-pipeline %t/two.mlir -o %t/lowered.mlir
// RUN: FileCheck %s --input-file %t/lowered.mlir

// The first of two is waited for, and its slot handed back, while the second reads another one and registers.
// CHECK-LABEL: func.func @two
// CHECK: cta.partition
// CHECK: %[[FIRST:.*]] = cta.dot_start {{.*}} : !cta.buffer<{{.*}}>, !cta.buffer
// CHECK: %[[SECOND:.*]] = cta.dot_start {{.*}} {cta.own_registers} : tensor<64x64xf16, {{.*}}>, !cta.buffer
// CHECK: cta.dot_wait %[[FIRST]] {pending = 1 : i32}
// CHECK: cta.mbarrier_arrive
// CHECK-NOT: cta.mbarrier_arrive
// CHECK: cta.dot_wait %[[SECOND]] :
// CHECK: cta.mbarrier_arrive

// A wait that leaves one too many: the slots are handed back while the dots read them.
// RUN: sed -e 's/pending = 1/pending = 2/' %t/lowered.mlir > %t/more.mlir
// RUN: not sectile-opt --check-channels %t/more.mlir 2>&1 | FileCheck %s --check-prefix=MORE
// MORE: error: this overwrites slot

// The second dot's slot is handed back after the wait for the first.
// RUN: sed -e '/ONE$/{s/ring/slots/;}; /TWO$/{s/slots/ring/;}' %t/two.mlir > %t/early.mlir
// RUN: not sectile-opt --sectile-pipeline %t/early.mlir 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: this releases a use that a dot in flight reads

// RUN: sectile-opt --select-mma --assign-layouts --simplify --explicit-channels %t/paths.mlir | FileCheck %s --check-prefix=PATHS
// RUN: not sectile-opt --select-mma --assign-layouts --simplify --explicit-channels %t/again.mlir 2>&1 | FileCheck %s --check-prefix=AGAIN

//--- two.mlir
!tile = tensor<64x64xf16>
!ring = !tile.channel<2, !tile>
module attributes {cta.target = "sm_90a"} {
  func.func @two(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.below = 1048576 : i64, tile.divisible = 16 : i64}, %n: i32 {tile.below = 1048576 : i64}, %c: !tile.ptr<f32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %none = arith.constant dense<0.0> : !tile
    %steps = arith.divui %n, %c64 : i32
    %ring = tile.channel : !ring
    %slots = tile.channel : !ring
    tile.partition warps 4 registers [] {
      %view = tile.make_view %a, [%n, %n], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %filled = scf.for %k = %c0 to %steps step %c1 iter_args(%use = %c0) -> (i32) : i32 {
        %at = arith.muli %k, %c64 : i32
        %one = tile.acquire %ring[%use] : !ring -> !tile.slot<!tile>
        %left = tile.load_block %view[%c0, %at] : !tile.view<2xf16>, [i32, i32] -> !tile
        tile.fill %left, %one : !tile, !tile.slot<!tile>
        tile.commit %ring[%use] : !ring
        %two = tile.acquire %slots[%use] : !ring -> !tile.slot<!tile>
        %right = tile.load_block %view[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> !tile
        tile.fill %right, %two : !tile, !tile.slot<!tile>
        tile.commit %slots[%use] : !ring
        %next = arith.addi %use, %c1 : i32
        scf.yield %next : i32
      }
    }
    %read:3 = scf.for %k = %c0 to %steps step %c1 iter_args(%use = %c0, %last = %none, %acc = %zero) -> (i32, !tile, tensor<64x64xf32>) : i32 {
      %slot = tile.wait %ring[%use] : !ring -> !tile.slot<!tile>
      %left = tile.read_slot %slot : !tile.slot<!tile> -> !tile
      %first = tile.dot %left, %left, %zero {tile.in_flight} : !tile, !tile, tensor<64x64xf32>
      %other = tile.wait %slots[%use] : !ring -> !tile.slot<!tile>
      %right = tile.read_slot %other : !tile.slot<!tile> -> !tile
      %second = tile.dot %last, %right, %acc {tile.in_flight} : !tile, !tile, tensor<64x64xf32>
      %scores = tile.dot_wait %first : tensor<64x64xf32>
      tile.release %ring[%use] : !ring // ONE
      %sums = tile.dot_wait %second : tensor<64x64xf32>
      tile.release %slots[%use] : !ring // TWO
      %half = arith.truncf %scores : tensor<64x64xf32> to !tile
      %next = arith.addi %use, %c1 : i32
      scf.yield %next, %half, %sums : i32, !tile, tensor<64x64xf32>
    }
    %out = tile.make_view %c, [%n, %n], [%stride, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    tile.store_block %out[%c0, %c0], %read#2 : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}

//--- paths.mlir
// A path around the first loop starts no dot: what is left is as many as were started on that path.
// PATHS-LABEL: func.func @paths
// PATHS: %[[FIRST:[a-z0-9]*]] = cta.dot_start
// PATHS: scf.for
// PATHS: cta.dot_wait {{[^{]*}} :
// PATHS: }
// PATHS: cta.dot_start
// PATHS: cta.dot_wait %[[FIRST]] {pending = 1 : i32}
// PATHS: cta.dot_wait {{[^{]*}} :
// Sums that a loop carries were started before the iteration's own dot, in whatever iteration.
// PATHS: scf.for {{.*}} iter_args(%[[SUMS:[a-z0-9]*]] = %
// PATHS: %[[NEXT:[a-z0-9]*]] = cta.dot_start
// PATHS: cta.dot_wait %[[SUMS]] {pending = 1 : i32}
// PATHS: cta.dot_start
// PATHS: cta.dot_wait %[[NEXT]] {pending = 1 : i32}
// PATHS: }
// PATHS: cta.dot_wait {{[^{]*}} :
!tile = tensor<64x64xf16>
!sums = tensor<64x64xf32>
!ring = !tile.channel<1, !tile>
module attributes {cta.target = "sm_90a"} {
  func.func @paths(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.below = 1048576 : i64, tile.divisible = 16 : i64}, %n: i32 {tile.below = 1048576 : i64}, %c: !tile.ptr<f32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : !sums
    %ring = tile.channel : !ring
    %view = tile.make_view %a, [%n, %n], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %slot = tile.acquire %ring[%c0] : !ring -> !tile.slot<!tile>
    %block = tile.load_block %view[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> !tile
    tile.fill %block, %slot : !tile, !tile.slot<!tile>
    tile.commit %ring[%c0] : !ring
    %there = tile.wait %ring[%c0] : !ring -> !tile.slot<!tile>
    %x = tile.read_slot %there : !tile.slot<!tile> -> !tile
    %first = tile.dot %x, %x, %zero {tile.in_flight} : !tile, !tile, !sums
    %inner = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!sums) : i32 {
      %dot = tile.dot %x, %x, %acc {tile.in_flight} : !tile, !tile, !sums
      %done = tile.dot_wait %dot : !sums
      scf.yield %done : !sums
    }
    %second = tile.dot %x, %x, %inner {tile.in_flight} : !tile, !tile, !sums
    %one = tile.dot_wait %first : !sums
    %two = tile.dot_wait %second : !sums
    %begin = arith.addf %one, %two : !sums
    %carried:2 = scf.for %k = %c0 to %n step %c1 iter_args(%flying = %zero, %acc = %begin) -> (!sums, !sums) : i32 {
      %dot = tile.dot %x, %x, %acc {tile.in_flight} : !tile, !tile, !sums
      %before = tile.dot_wait %flying : !sums
      %again = tile.dot %x, %x, %before {tile.in_flight} : !tile, !tile, !sums
      %done = tile.dot_wait %dot : !sums
      scf.yield %again, %done : !sums, !sums
    }
    %last = tile.dot_wait %carried#0 : !sums
    tile.release %ring[%c0] : !ring
    %sum = arith.addf %last, %carried#1 : !sums
    %out = tile.make_view %c, [%n, %n], [%stride, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    tile.store_block %out[%c0, %c0], %sum : !tile.view<2xf32>, [i32, i32], !sums
    return
  }
}

//--- again.mlir
// Two iterations would write the same registers.
// AGAIN: error: this dot is started again while the one before may still read its left operand from registers
!tile = tensor<64x64xf16>
!sums = tensor<64x64xf32>
!ring = !tile.channel<1, !tile>
module attributes {cta.target = "sm_90a"} {
  func.func @again(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.below = 1048576 : i64, tile.divisible = 16 : i64}, %n: i32 {tile.below = 1048576 : i64}, %c: !tile.ptr<f32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : !sums
    %ring = tile.channel : !ring
    %view = tile.make_view %a, [%n, %n], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %slot = tile.acquire %ring[%c0] : !ring -> !tile.slot<!tile>
    %block = tile.load_block %view[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> !tile
    tile.fill %block, %slot : !tile, !tile.slot<!tile>
    tile.commit %ring[%c0] : !ring
    %there = tile.wait %ring[%c0] : !ring -> !tile.slot<!tile>
    %x = tile.read_slot %there : !tile.slot<!tile> -> !tile
    %sums = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!sums) : i32 {
      %left = tile.load_block %view[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> !tile
      %dot = tile.dot %left, %x, %acc {tile.in_flight} : !tile, !tile, !sums
      tile.dots_wait 1
      scf.yield %dot : !sums
    }
    %last = tile.dot_wait %sums : !sums
    tile.release %ring[%c0] : !ring
    %out = tile.make_view %c, [%n, %n], [%stride, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    tile.store_block %out[%c0, %c0], %last : !tile.view<2xf32>, [i32, i32], !sums
    return
  }
}
