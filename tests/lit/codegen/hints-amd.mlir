// What hints become on AMD's chips: nontemporal accesses, and volatile ones past all caches.
// RUN: sectile-opt --emit-assembly %s | FileCheck %s

// CHECK-LABEL: loads:
// CHECK: global_load_dword {{.*}} nt{{$}}
// CHECK: global_load_dword {{.*}} nt{{$}}
// CHECK: global_load_dword {{.*}}]{{$}}
// CHECK-COUNT-2: global_load_dword {{.*}} sc0 sc1{{$}}
// CHECK-LABEL: stores:
// CHECK: global_store_dword {{.*}} nt{{$}}
// CHECK: global_store_dword {{.*}} nt{{$}}
// CHECK: global_store_dword {{.*}}]{{$}}
// CHECK: global_store_dword {{.*}} sc0 sc1{{$}}
#l = #cta.layout<"64, lane [(1) (2) (4) (8) (16) (32)]">
module attributes {cta.target = "gfx942"} {
  func.func @loads(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %z: !tile.ptr<f32>, %out: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 1 : i32} {
    %i = tile.arange 0 : tensor<64xi32, #l>
    %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #l>
    %xp = tile.addptr %xs, %i : tensor<64x!tile.ptr<f32>, #l>, tensor<64xi32, #l>
    %ys = tile.splat %y : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #l>
    %yp = tile.addptr %ys, %i : tensor<64x!tile.ptr<f32>, #l>, tensor<64xi32, #l>
    %zs = tile.splat %z : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #l>
    %zp = tile.addptr %zs, %i : tensor<64x!tile.ptr<f32>, #l>, tensor<64xi32, #l>
    %os = tile.splat %out : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #l>
    %op = tile.addptr %os, %i : tensor<64x!tile.ptr<f32>, #l>, tensor<64xi32, #l>
    %a = tile.load %xp {cache = 3 : i32} : tensor<64x!tile.ptr<f32>, #l> -> tensor<64xf32, #l>
    %b = tile.load %yp {eviction = 1 : i32} : tensor<64x!tile.ptr<f32>, #l> -> tensor<64xf32, #l>
    %c = tile.load %zp {cache = 2 : i32, eviction = 2 : i32} : tensor<64x!tile.ptr<f32>, #l> -> tensor<64xf32, #l>
    // Nobody uses the first.
    %d = tile.load %zp {isVolatile} : tensor<64x!tile.ptr<f32>, #l> -> tensor<64xf32, #l>
    %e = tile.load %zp {isVolatile} : tensor<64x!tile.ptr<f32>, #l> -> tensor<64xf32, #l>
    %0 = arith.addf %a, %b : tensor<64xf32, #l>
    %1 = arith.addf %c, %e : tensor<64xf32, #l>
    %2 = arith.addf %0, %1 : tensor<64xf32, #l>
    tile.store %op, %2 : tensor<64x!tile.ptr<f32>, #l>, tensor<64xf32, #l>
    return
  }
  func.func @stores(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %z: !tile.ptr<f32>, %w: !tile.ptr<f32>, %a: f32) attributes {tile.kernel, cta.warps = 1 : i32} {
    tile.store %x, %a {cache = 3 : i32} : !tile.ptr<f32>, f32
    tile.store %y, %a {eviction = 1 : i32} : !tile.ptr<f32>, f32
    tile.store %z, %a {cache = 6 : i32} : !tile.ptr<f32>, f32
    tile.store %w, %a {cache = 4 : i32} : !tile.ptr<f32>, f32
    return
  }
}
