// RUN: sectile-opt --insert-barriers --split-input-file %s | FileCheck %s

#spread = #cta.layout<"512, register [(1) (2)], lane [(4) (8) (16) (32) (64)], warp [(128) (256)]">
#other = #cta.layout<"512, register [(128) (256)], lane [(1) (2) (4) (8) (16)], warp [(32) (64)]">
#shared = #cta.layout<"32, register [], lane [(1) (2) (4) (8) (16)], warp [(0) (0)]">
#ring = #cta.layout<"512, shared [(1) (2) (4) (8) (16) (32) (64) (128) (256)]">
!ptrs = tensor<512x!tile.ptr<f32>, #spread>
!others = tensor<512x!tile.ptr<f32>, #other>
!few = tensor<32x!tile.ptr<f32>, #shared>
!tile = tensor<512xf32, #spread>
!ints = tensor<512xi32, #spread>
!buffer = !cta.buffer<512xf32, #ring>

module attributes {cta.target = "sm_80"} {
// Each thread stores what it has loaded itself.
// CHECK-LABEL: func.func @own
// CHECK-NOT: barrier
// CHECK: return
func.func @own(%p: !tile.ptr<f32>) attributes {tile.kernel} {
  %i = tile.arange 0 : !ints
  %base = tile.splat %p : !tile.ptr<f32> -> !ptrs
  %ptrs = tile.addptr %base, %i : !ptrs, !ints
  %x = tile.load %ptrs : !ptrs -> !tile
  tile.store %ptrs, %x : !ptrs, !tile
  return
}

// The same layout is not the same threads where addresses are shifted.
// CHECK-LABEL: func.func @shifted
// CHECK: tile.store
// CHECK: tile.barrier
// CHECK-NEXT: tile.load
func.func @shifted(%p: !tile.ptr<f32>, %x: !tile) attributes {tile.kernel} {
  %c1 = arith.constant 1 : i32
  %i = tile.arange 0 : !ints
  %base = tile.splat %p : !tile.ptr<f32> -> !ptrs
  %ptrs = tile.addptr %base, %i : !ptrs, !ints
  tile.store %ptrs, %x : !ptrs, !tile
  %q = tile.addptr %p, %c1 : !tile.ptr<f32>, i32
  %next = tile.splat %q : !tile.ptr<f32> -> !ptrs
  %shifted = tile.addptr %next, %i : !ptrs, !ints
  %y = tile.load %shifted : !ptrs -> !tile
  return
}

// Nor where the order is another.
// CHECK-LABEL: func.func @reversed
// CHECK: tile.load
// CHECK: tile.barrier
// CHECK-NEXT: tile.store
func.func @reversed(%p: !tile.ptr<f32>) attributes {tile.kernel} {
  %last = arith.constant dense<511> : !ints
  %i = tile.arange 0 : !ints
  %back = arith.subi %last, %i : !ints
  %base = tile.splat %p : !tile.ptr<f32> -> !ptrs
  %ptrs = tile.addptr %base, %i : !ptrs, !ints
  %x = tile.load %ptrs : !ptrs -> !tile
  %reversed = tile.addptr %base, %back : !ptrs, !ints
  tile.store %reversed, %x : !ptrs, !tile
  return
}

// What begins where the other ends is other memory, whoever holds it.
// CHECK-LABEL: func.func @halves
// CHECK-NOT: barrier
// CHECK: return
func.func @halves(%p: !tile.ptr<f32>, %x: !tile) attributes {tile.kernel} {
  %c512 = arith.constant 512 : i32
  %i = tile.arange 0 : !ints
  %base = tile.splat %p : !tile.ptr<f32> -> !ptrs
  %ptrs = tile.addptr %base, %i : !ptrs, !ints
  tile.store %ptrs, %x : !ptrs, !tile
  %q = tile.addptr %p, %c512 : !tile.ptr<f32>, i32
  %next = tile.splat %q : !tile.ptr<f32> -> !others
  %j = tile.arange 0 : tensor<512xi32, #other>
  %second = tile.addptr %next, %j : !others, tensor<512xi32, #other>
  %y = tile.load %second : !others -> tensor<512xf32, #other>
  return
}

// Every thread loads what the first one stores.
// CHECK-LABEL: func.func @replicated
// CHECK: tile.load
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.store
func.func @replicated(%p: !tile.ptr<f32>) attributes {tile.kernel} {
  %i = tile.arange 0 : tensor<32xi32, #shared>
  %base = tile.splat %p : !tile.ptr<f32> -> !few
  %ptrs = tile.addptr %base, %i : !few, tensor<32xi32, #shared>
  %x = tile.load %ptrs : !few -> tensor<32xf32, #shared>
  tile.store %ptrs, %x : !few, tensor<32xf32, #shared>
  return
}

// The first thread stores scalars, all of them load.
// CHECK-LABEL: func.func @scalar
// CHECK: tile.load
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.store
// CHECK-NEXT: tile.store
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.load
func.func @scalar(%p: !tile.ptr<f32>, %v: f32) -> f32 attributes {tile.kernel} {
  %x = tile.load %p : !tile.ptr<f32> -> f32
  tile.store %p, %x : !tile.ptr<f32>, f32
  tile.store %p, %v : !tile.ptr<f32>, f32
  %y = tile.load %p : !tile.ptr<f32> -> f32
  return %y : f32
}

// Other threads read what was written; other arguments are other memory.
// CHECK-LABEL: func.func @layouts
// CHECK: tile.store
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.load
func.func @layouts(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %x: !tile) attributes {tile.kernel} {
  %ptrs = tile.splat %p : !tile.ptr<f32> -> !ptrs
  %others = tile.splat %p : !tile.ptr<f32> -> !others
  %elsewhere = tile.splat %q : !tile.ptr<f32> -> !others
  tile.store %ptrs, %x : !ptrs, !tile
  %z = tile.load %elsewhere : !others -> tensor<512xf32, #other>
  %y = tile.load %others : !others -> tensor<512xf32, #other>
  return
}

// The next iteration loads what this one stores, one element further on.
// CHECK-LABEL: func.func @loop
// CHECK: scf.for
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.addptr
// CHECK-NEXT: tile.store
func.func @loop(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 iter_args(%at = %p) -> (!tile.ptr<f32>) : i32 {
    %x = tile.load %at : !tile.ptr<f32> -> f32
    %next = tile.addptr %at, %c1 : !tile.ptr<f32>, i32
    tile.store %next, %x : !tile.ptr<f32>, f32
    scf.yield %next : !tile.ptr<f32>
  }
  return
}

// Blocks that a loop walks over do not meet, however it counts.
// CHECK-LABEL: func.func @blocks
// CHECK-NOT: barrier
// CHECK: return
func.func @blocks(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c512 = arith.constant 512 : i32
  %i = tile.arange 0 : !ints
  %j = tile.arange 0 : tensor<512xi32, #other>
  scf.for %at = %c0 to %n step %c512 iter_args(%moved = %p) -> (!tile.ptr<f32>) : i32 {
    %first = tile.addptr %p, %at : !tile.ptr<f32>, i32
    %base = tile.splat %first : !tile.ptr<f32> -> !ptrs
    %ptrs = tile.addptr %base, %i : !ptrs, !ints
    %x = tile.load %ptrs : !ptrs -> !tile
    %again = tile.splat %moved : !tile.ptr<f32> -> !ptrs
    %same = tile.addptr %again, %i : !ptrs, !ints
    tile.store %same, %x : !ptrs, !tile
    %next = tile.addptr %moved, %c512 : !tile.ptr<f32>, i32
    scf.yield %next : !tile.ptr<f32>
  }
  return
}

// A pointer that a loop swaps with another is either.
// CHECK-LABEL: func.func @swapped
// CHECK: scf.for
// CHECK: tile.barrier
// CHECK-NEXT: tile.load
// CHECK: tile.store
func.func @swapped(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a, %b = scf.for %i = %c0 to %n step %c1 iter_args(%from = %p, %to = %q) -> (!tile.ptr<f32>, !tile.ptr<f32>) : i32 {
    %x = tile.load %from : !tile.ptr<f32> -> f32
    tile.store %to, %x : !tile.ptr<f32>, f32
    scf.yield %to, %from : !tile.ptr<f32>, !tile.ptr<f32>
  }
  return
}

// A branch may choose the argument, a loaded pointer may point anywhere.
// CHECK-LABEL: func.func @chosen
// CHECK: tile.store
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.load
// CHECK-NEXT: return
func.func @chosen(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %r: !tile.ptr<!tile.ptr<f32>>, %c: i1, %v: f32) attributes {tile.kernel} {
  %to = arith.select %c, %p, %q : !tile.ptr<f32>
  tile.store %to, %v : !tile.ptr<f32>, f32
  %any = tile.load %r : !tile.ptr<!tile.ptr<f32>> -> !tile.ptr<f32>
  %y = tile.load %q : !tile.ptr<f32> -> f32
  %z = tile.load %any : !tile.ptr<f32> -> f32
  return
}

// An asynchronous copy reads what other threads wrote, and has to be over before they write again.
// CHECK-LABEL: func.func @copied
// CHECK: tile.store
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: cta.async_copy
// CHECK-NEXT: cta.async_commit
// CHECK-NEXT: cta.async_commit
// CHECK-NEXT: cta.async_wait 0
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.store
func.func @copied(%p: !tile.ptr<f32>, %x: !tile) attributes {tile.kernel} {
  %a = cta.alloc {offset = 0 : i32} : !buffer
  %i = tile.arange 0 : !ints
  %base = tile.splat %p : !tile.ptr<f32> -> !ptrs
  %ptrs = tile.addptr %base, %i : !ptrs, !ints
  tile.store %ptrs, %x : !ptrs, !tile
  cta.async_copy %ptrs, %a {vector = 4 : i32} : !ptrs, !buffer
  cta.async_commit
  tile.store %ptrs, %x : !ptrs, !tile
  return
}

// Atomic operations are in order with loads and stores, sums among each other in any.
// CHECK-LABEL: func.func @atomics
// CHECK: tile.store
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.atomic_rmw
// CHECK-NEXT: tile.atomic_rmw
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.atomic_rmw
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.load
func.func @atomics(%p: !tile.ptr<i32>, %x: !ints) attributes {tile.kernel} {
  %ptrs = tile.splat %p : !tile.ptr<i32> -> tensor<512x!tile.ptr<i32>, #spread>
  tile.store %ptrs, %x : tensor<512x!tile.ptr<i32>, #spread>, !ints
  %a = tile.atomic_rmw add, %ptrs, %x {order = 0 : i32} : tensor<512x!tile.ptr<i32>, #spread>, !ints -> !ints
  %b = tile.atomic_rmw add, %ptrs, %x {order = 0 : i32} : tensor<512x!tile.ptr<i32>, #spread>, !ints -> !ints
  %c = tile.atomic_rmw max, %ptrs, %x {order = 0 : i32} : tensor<512x!tile.ptr<i32>, #spread>, !ints -> !ints
  %y = tile.load %ptrs : tensor<512x!tile.ptr<i32>, #spread> -> !ints
  return
}

// A barrier of the program's own is enough.
// CHECK-LABEL: func.func @ordered
// CHECK-COUNT-1: tile.barrier
// CHECK-NOT: tile.barrier
// CHECK: return
func.func @ordered(%p: !tile.ptr<f32>, %v: f32) attributes {tile.kernel} {
  %x = tile.load %p : !tile.ptr<f32> -> f32
  tile.barrier
  tile.store %p, %v : !tile.ptr<f32>, f32
  return
}
}

// -----

#spread = #cta.layout<"512, register [(1) (2)], lane [(4) (8) (16) (32) (64) (128)], warp [(256)]">
#sums = #cta.layout<"4, register [(1) (2)], lane [(0) (0) (0) (0) (0) (0)], warp [(0)]">
!ptrs = tensor<512x!tile.ptr<f32>, #spread>

#flat = #cta.layout<"512, shared [(1) (2) (4) (8) (16) (32) (64) (128) (256)]">

// Here a barrier for shared memory does not order global memory.
module attributes {cta.target = "gfx942"} {
// CHECK-LABEL: func.func @kinds
// CHECK: tile.store
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.local_load
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.load
func.func @kinds(%p: !tile.ptr<f32>, %x: tensor<512xf32, #spread>) attributes {tile.kernel, cta.warps = 2 : i32} {
  %ptrs = tile.splat %p : !tile.ptr<f32> -> !ptrs
  %a = cta.alloc {offset = 0 : i32} : !cta.buffer<512xf32, #flat>
  cta.local_store %x, %a : tensor<512xf32, #spread>, !cta.buffer<512xf32, #flat>
  tile.store %ptrs, %x : !ptrs, tensor<512xf32, #spread>
  %y = cta.local_load %a : !cta.buffer<512xf32, #flat> -> tensor<512xf32, #spread>
  %z = tile.load %ptrs : !ptrs -> tensor<512xf32, #spread>
  return
}
}
