// RUN: sectile-opt --select-vectors --split-input-file --verify-diagnostics %s | FileCheck %s

#eight = #cta.layout<"1024, register [(1) (2) (4)], lane [(8) (16) (32) (64) (128)], warp [(256) (512)]">
#spread = #cta.layout<"1024, register [(128) (256) (512)], lane [(1) (2) (4) (8) (16)], warp [(32) (64)]">
module attributes {cta.target = "sm_80"} {
  // As wide as layout, alignment, mask and 16 bytes allow.
  // CHECK-LABEL: func.func @widths
  func.func @widths(%p: !tile.ptr<f16> {tile.divisible = 16 : i64}, %q: !tile.ptr<f32> {tile.divisible = 16 : i64},
                    %n: i32 {tile.divisible = 4 : i64}, %m: i32) attributes {cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<1024xi32, #eight>
    %ps = tile.splat %p : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>, #eight>
    %pi = tile.addptr %ps, %i : tensor<1024x!tile.ptr<f16>, #eight>, tensor<1024xi32, #eight>
    %qs = tile.splat %q : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #eight>
    %qi = tile.addptr %qs, %i : tensor<1024x!tile.ptr<f32>, #eight>, tensor<1024xi32, #eight>
    // CHECK: tile.load %{{.*}} {vector = 8 : i32} : tensor<1024x!tile.ptr<f16>
    %0 = tile.load %pi : tensor<1024x!tile.ptr<f16>, #eight> -> tensor<1024xf16, #eight>
    // CHECK: tile.load %{{.*}} {vector = 4 : i32} : tensor<1024x!tile.ptr<f32>
    %1 = tile.load %qi : tensor<1024x!tile.ptr<f32>, #eight> -> tensor<1024xf32, #eight>
    %ns = tile.splat %n : i32 -> tensor<1024xi32, #eight>
    %four = arith.cmpi slt, %i, %ns : tensor<1024xi32, #eight>
    // CHECK: tile.store %{{.*}} {vector = 4 : i32} : tensor<1024x!tile.ptr<f16>
    tile.store %pi, %0 mask %four : tensor<1024x!tile.ptr<f16>, #eight>, tensor<1024xf16, #eight> mask tensor<1024xi1, #eight>
    %ms = tile.splat %m : i32 -> tensor<1024xi32, #eight>
    %any = arith.cmpi slt, %i, %ms : tensor<1024xi32, #eight>
    // CHECK-NOT: vector
    tile.store %qi, %1 mask %any : tensor<1024x!tile.ptr<f32>, #eight>, tensor<1024xf32, #eight> mask tensor<1024xi1, #eight>
    return
  }

  // Two halves are added at once where they share a word; nothing else of an atomic operation is wide.
  // CHECK-LABEL: func.func @atomics
  func.func @atomics(%p: !tile.ptr<f16> {tile.divisible = 16 : i64}, %q: !tile.ptr<f32> {tile.divisible = 16 : i64},
                     %r: !tile.ptr<f16>) attributes {cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<1024xi32, #eight>
    %ps = tile.splat %p : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>, #eight>
    %pi = tile.addptr %ps, %i : tensor<1024x!tile.ptr<f16>, #eight>, tensor<1024xi32, #eight>
    %qs = tile.splat %q : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #eight>
    %qi = tile.addptr %qs, %i : tensor<1024x!tile.ptr<f32>, #eight>, tensor<1024xi32, #eight>
    %rs = tile.splat %r : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>, #eight>
    %ri = tile.addptr %rs, %i : tensor<1024x!tile.ptr<f16>, #eight>, tensor<1024xi32, #eight>
    %h = arith.constant dense<1.0> : tensor<1024xf16, #eight>
    %f = arith.constant dense<1.0> : tensor<1024xf32, #eight>
    // CHECK: tile.atomic_rmw fadd, {{.*}} {vector = 2 : i32}
    %0 = tile.atomic_rmw fadd, %pi, %h : tensor<1024x!tile.ptr<f16>, #eight>, tensor<1024xf16, #eight> -> tensor<1024xf16, #eight>
    // CHECK-NOT: vector
    %1 = tile.atomic_rmw fadd, %qi, %f : tensor<1024x!tile.ptr<f32>, #eight>, tensor<1024xf32, #eight> -> tensor<1024xf32, #eight>
    %2 = tile.atomic_rmw fmax, %pi, %h : tensor<1024x!tile.ptr<f16>, #eight>, tensor<1024xf16, #eight> -> tensor<1024xf16, #eight>
    // The address is a multiple of two bytes only.
    %3 = tile.atomic_rmw fadd, %ri, %h : tensor<1024x!tile.ptr<f16>, #eight>, tensor<1024xf16, #eight> -> tensor<1024xf16, #eight>
    return
  }

  // CHECK-LABEL: func.func @layout_decides
  // CHECK-NOT: vector
  func.func @layout_decides(%p: !tile.ptr<f16> {tile.divisible = 16 : i64}) attributes {cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<1024xi32, #spread>
    %ps = tile.splat %p : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>, #spread>
    %pi = tile.addptr %ps, %i : tensor<1024x!tile.ptr<f16>, #spread>, tensor<1024xi32, #spread>
    %0 = tile.load %pi : tensor<1024x!tile.ptr<f16>, #spread> -> tensor<1024xf16, #spread>
    return
  }

  // Scalars have no vectors.
  // CHECK-LABEL: func.func @scalar
  // CHECK: tile.load %{{.*}} : !tile.ptr<f16> -> f16
  func.func @scalar(%p: !tile.ptr<f16>) -> f16 {
    %0 = tile.load %p : !tile.ptr<f16> -> f16
    return %0 : f16
  }
}

// -----

#eight = #cta.layout<"1024, register [(1) (2) (4)], lane [(8) (16) (32) (64) (128)], warp [(256) (512)]">
#flat = #cta.layout<"1024, shared [(1) (2) (4) (8) (16) (32) (64) (128) (256) (512)]">
module attributes {cta.target = "sm_80"} {
  // CHECK-LABEL: func.func @copies
  func.func @copies(%p: !tile.ptr<f16> {tile.divisible = 16 : i64}) attributes {cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<1024xi32, #eight>
    %ps = tile.splat %p : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>, #eight>
    %pi = tile.addptr %ps, %i : tensor<1024x!tile.ptr<f16>, #eight>, tensor<1024xi32, #eight>
    %buffer = cta.alloc : !cta.buffer<1024xf16, #flat>
    // CHECK: cta.async_copy %{{.*}} {vector = 8 : i32}
    cta.async_copy %pi, %buffer : tensor<1024x!tile.ptr<f16>, #eight>, !cta.buffer<1024xf16, #flat>
    return
  }
}

// -----

#eight = #cta.layout<"1024, register [(1) (2) (4)], lane [(8) (16) (32) (64) (128)], warp [(256) (512)]">
#flat = #cta.layout<"1024, shared [(1) (2) (4) (8) (16) (32) (64) (128) (256) (512)]">
module attributes {cta.target = "sm_80"} {
  func.func @narrow_copy(%p: !tile.ptr<f16>) attributes {cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<1024xi32, #eight>
    %buffer = cta.alloc : !cta.buffer<1024xf16, #flat>
    %ps = tile.splat %p : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>, #eight>
    %pi = tile.addptr %ps, %i : tensor<1024x!tile.ptr<f16>, #eight>, tensor<1024xi32, #eight>
    // expected-error @+1 {{moves 2 bytes at once; asynchronous copies move 4, 8 or 16}}
    cta.async_copy %pi, %buffer : tensor<1024x!tile.ptr<f16>, #eight>, !cta.buffer<1024xf16, #flat>
    return
  }
}
