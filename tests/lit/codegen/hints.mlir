// Cache operators and eviction priorities of accesses reach the instructions, in the combinations that these have; so do
// volatile accesses and small elements.
// RUN: sectile-opt --emit-assembly %s | FileCheck %s
// RUN: sed 's/sm_80/gfx942/' %s > %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=AMD

// CHECK-LABEL: .entry loads
// CHECK: ld.global.ca.b32
// CHECK: ld.global.cg.b32
// CHECK: ld.global.cs.b32
// CHECK: ld.global.cv.b32
// CHECK: ld.volatile.global.b32
// CHECK: ld.volatile.global.b32
// CHECK: ld.volatile.global.b32

// Priorities in L1 go with no cache operator; those in L2 do.
// CHECK-LABEL: .entry priorities
// CHECK-DAG: createpolicy.fractional.L2::evict_first.b64 [[FIRST:%rd[0-9]+]], 1.0;
// CHECK-DAG: createpolicy.fractional.L2::evict_last.b64 [[LAST:%rd[0-9]+]], 1.0;
// CHECK-NOT: createpolicy
// CHECK: ld.global.L1::evict_first.L2::cache_hint.b32 %{{.*}}, [%{{.*}}], [[FIRST]];
// CHECK: ld.global.L1::evict_last.L2::cache_hint.b32 %{{.*}}, [%{{.*}}], [[LAST]];
// CHECK: ld.global.cg.L2::cache_hint.b32 %{{.*}}, [%{{.*}}], [[LAST]];
// CHECK: st.global.L1::evict_first.L2::cache_hint.b32 [%{{.*}}], %{{.*}}, [[FIRST]];
// CHECK: st.global.L1::evict_last.L2::cache_hint.b32 [%{{.*}}], %{{.*}}, [[LAST]];
// CHECK: st.global.wt.L2::cache_hint.b32 [%{{.*}}], %{{.*}}, [[FIRST]];

// CHECK-LABEL: .entry stores
// CHECK: st.global.cg.b32
// CHECK: st.global.cs.b32
// CHECK: st.global.wb.b32
// CHECK: st.global.wt.b32
// CHECK: st.volatile.global.b32

// Booleans are bytes in memory.
// CHECK-LABEL: .entry booleans
// CHECK: ld.global.b8
// CHECK: st.global.b8

// AMD-LABEL: booleans:
// AMD: global_load_ubyte
// AMD: global_store_byte
module attributes {cta.target = "sm_80"} {
  func.func @loads(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 1 : i32} {
    %a = tile.load %x {cache = 1 : i32} : !tile.ptr<f32> -> f32
    %b = tile.load %x {cache = 2 : i32} : !tile.ptr<f32> -> f32
    %c = tile.load %x {cache = 3 : i32} : !tile.ptr<f32> -> f32
    %d = tile.load %x {cache = 4 : i32} : !tile.ptr<f32> -> f32
    // Nobody uses the first, and the others are the same: all three stay.
    %e = tile.load %x {isVolatile} : !tile.ptr<f32> -> f32
    %f = tile.load %x {isVolatile} : !tile.ptr<f32> -> f32
    %g = tile.load %x {isVolatile, eviction = 1 : i32} : !tile.ptr<f32> -> f32
    %0 = arith.addf %a, %b : f32
    %1 = arith.addf %c, %d : f32
    %2 = arith.addf %f, %g : f32
    %3 = arith.addf %0, %1 : f32
    %4 = arith.addf %2, %3 : f32
    tile.store %y, %4 : !tile.ptr<f32>, f32
    return
  }
  func.func @priorities(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 1 : i32} {
    %a = tile.load %x {eviction = 1 : i32} : !tile.ptr<f32> -> f32
    %b = tile.load %x {eviction = 2 : i32} : !tile.ptr<f32> -> f32
    %c = tile.load %x {cache = 2 : i32, eviction = 2 : i32} : !tile.ptr<f32> -> f32
    tile.store %y, %a {eviction = 1 : i32} : !tile.ptr<f32>, f32
    tile.store %y, %b {eviction = 2 : i32} : !tile.ptr<f32>, f32
    tile.store %y, %c {cache = 6 : i32, eviction = 1 : i32} : !tile.ptr<f32>, f32
    return
  }
  func.func @stores(%x: !tile.ptr<f32>, %a: f32) attributes {tile.kernel, cta.warps = 1 : i32} {
    tile.store %x, %a {cache = 2 : i32} : !tile.ptr<f32>, f32
    tile.store %x, %a {cache = 3 : i32} : !tile.ptr<f32>, f32
    tile.store %x, %a {cache = 5 : i32} : !tile.ptr<f32>, f32
    tile.store %x, %a {cache = 6 : i32} : !tile.ptr<f32>, f32
    tile.store %x, %a {cache = 4 : i32} : !tile.ptr<f32>, f32
    return
  }
  func.func @booleans(%x: !tile.ptr<i1>) attributes {tile.kernel, cta.warps = 1 : i32} {
    %true = arith.constant true
    %a = tile.load %x : !tile.ptr<i1> -> i1
    %b = arith.xori %a, %true : i1
    tile.store %x, %b : !tile.ptr<i1>, i1
    return
  }
}
