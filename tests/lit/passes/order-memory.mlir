// RUN: sectile-opt --order-memory %s | FileCheck %s

#spread = #cta.layout<"512, register [(1) (2)], lane [(4) (8) (16) (32) (64)], warp [(128) (256)]">
#other = #cta.layout<"512, register [(128) (256)], lane [(1) (2) (4) (8) (16)], warp [(32) (64)]">
#shared = #cta.layout<"32, register [], lane [(1) (2) (4) (8) (16)], warp [(0) (0)]">
!ptrs = tensor<512x!tile.ptr<f32>, #spread>
!others = tensor<512x!tile.ptr<f32>, #other>
!few = tensor<32x!tile.ptr<f32>, #shared>

module attributes {cta.target = "sm_80"} {
// Each thread stores what it has loaded itself.
// CHECK-LABEL: func.func @own
// CHECK-NOT: tile.barrier
// CHECK: return
func.func @own(%p: !tile.ptr<f32>) attributes {tile.kernel} {
  %ptrs = tile.splat %p : !tile.ptr<f32> -> !ptrs
  %x = tile.load %ptrs : !ptrs -> tensor<512xf32, #spread>
  tile.store %ptrs, %x : !ptrs, tensor<512xf32, #spread>
  return
}

// Every thread loads what the first one stores.
// CHECK-LABEL: func.func @replicated
// CHECK: tile.load
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.store
func.func @replicated(%p: !tile.ptr<f32>) attributes {tile.kernel} {
  %ptrs = tile.splat %p : !tile.ptr<f32> -> !few
  %x = tile.load %ptrs : !few -> tensor<32xf32, #shared>
  tile.store %ptrs, %x : !few, tensor<32xf32, #shared>
  return
}

// CHECK-LABEL: func.func @scalar
// CHECK: tile.load
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.store
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: tile.load
func.func @scalar(%p: !tile.ptr<f32>, %v: f32) -> f32 attributes {tile.kernel} {
  %x = tile.load %p : !tile.ptr<f32> -> f32
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
func.func @layouts(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %x: tensor<512xf32, #spread>) attributes {tile.kernel} {
  %ptrs = tile.splat %p : !tile.ptr<f32> -> !ptrs
  %others = tile.splat %p : !tile.ptr<f32> -> !others
  %elsewhere = tile.splat %q : !tile.ptr<f32> -> !others
  tile.store %ptrs, %x : !ptrs, tensor<512xf32, #spread>
  %z = tile.load %elsewhere : !others -> tensor<512xf32, #other>
  %y = tile.load %others : !others -> tensor<512xf32, #other>
  return
}

// What one iteration stores the next one loads.
// CHECK-LABEL: func.func @loop
// CHECK: scf.for
// CHECK: tile.barrier
// CHECK-NEXT: tile.load
// CHECK: tile.barrier
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
