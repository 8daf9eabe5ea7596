// Accesses of two branches that differ in their hints, or atomic operations in their scopes, stay two instructions: a
// chip has them in the instruction, not in a register.
// RUN: sectile-opt --emit-assembly %s | FileCheck %s
// RUN: sectile-opt --emit-llvm %s | FileCheck %s --check-prefix=LLVM

// CHECK-LABEL: .entry stores
// CHECK-DAG: st.global.cs.b32
// CHECK-DAG: st.global.wt.b32
// LLVM: call void @sectile.nv.store.i32.3(
// LLVM: call void @sectile.nv.store.i32.6(

// CHECK-LABEL: .entry atomics
// CHECK-DAG: {{(atom|red)}}.relaxed.cta.global.add.u32
// CHECK-DAG: {{(atom|red)}}.relaxed.sys.global.add.u32
module attributes {cta.target = "sm_80"} {
  func.func @stores(%x: !tile.ptr<i32>, %n: i32, %which: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %some = arith.cmpi sgt, %n, %c0 : i32
    %first = arith.cmpi sgt, %which, %c0 : i32
    scf.if %first {
      tile.store %x, %n mask %some {cache = 3 : i32} : !tile.ptr<i32>, i32 mask i1
    } else {
      tile.store %x, %n mask %some {cache = 6 : i32} : !tile.ptr<i32>, i32 mask i1
    }
    return
  }
  func.func @atomics(%x: !tile.ptr<i32>, %n: i32, %which: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %some = arith.cmpi sgt, %n, %c0 : i32
    %first = arith.cmpi sgt, %which, %c0 : i32
    scf.if %first {
      tile.atomic_rmw add, %x, %n mask %some {order = 0 : i32, scope = 0 : i32} : !tile.ptr<i32>, i32 mask i1 -> i32
    } else {
      tile.atomic_rmw add, %x, %n mask %some {order = 0 : i32, scope = 2 : i32} : !tile.ptr<i32>, i32 mask i1 -> i32
    }
    return
  }
}
