// Cache operators and eviction priorities of accesses reach the instructions; so do volatile loads and small elements.
// RUN: sectile-opt --emit-assembly %s | FileCheck %s
// RUN: sed 's/sm_80/gfx942/' %s > %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=AMD


// CHECK-LABEL: .entry hints
// CHECK: ld.global.cg.b32
// CHECK: ld.global.L1::evict_last.b32
// CHECK: ld.volatile.global.b32
// CHECK: st.global.cs.b32
// CHECK: st.global.L1::evict_first.b32
// Booleans are bytes in memory.
// CHECK-LABEL: .entry booleans
// CHECK: ld.global.b8
// CHECK: st.global.b8

// AMD-LABEL: booleans:
// AMD: global_load_ubyte
// AMD: global_store_byte
module attributes {cta.target = "sm_80"} {
  func.func @hints(%x: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 1 : i32} {
    %a = tile.load %x {cache = 2 : i32} : !tile.ptr<f32> -> f32
    %b = tile.load %x {eviction = 2 : i32} : !tile.ptr<f32> -> f32
    %c = tile.load %x {isVolatile} : !tile.ptr<f32> -> f32
    %d = arith.addf %a, %b : f32
    %e = arith.addf %c, %d : f32
    tile.store %x, %e {cache = 3 : i32} : !tile.ptr<f32>, f32
    tile.store %x, %d {eviction = 1 : i32} : !tile.ptr<f32>, f32
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
