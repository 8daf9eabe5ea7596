// Assertions and prints: one thread writes, an assertion ends the program, a print's place goes to all threads.
// RUN: sectile-opt --emit-assembly %s | FileCheck %s --check-prefixes=CHECK,BRANCH%{llvm}
// RUN: sed 's/sm_80/gfx942/' %s > %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=AMD
// RUN: sectile-opt --emit-llvm %s | FileCheck %s --check-prefix=LLVM

// CHECK-LABEL: .entry check
// CHECK-NOT: bar.sync
// CHECK: setp.lt.s32 %p[[HOLDS:[0-9]+]], %r{{[0-9]+}}, 7;
// BRANCH22: @%p[[HOLDS]] bra [[HELD:.+]];
// BRANCH22-NEXT: bra.uni [[FAILED:.+]];
// BRANCH22-NEXT: {{^}}[[HELD]]:
// BRANCH23: @!%p[[HOLDS]] bra [[FAILED:.+]];
// CHECK: @%p{{[0-9]+}} st.global.b32
// CHECK: ret;
// CHECK: {{^}}[[FAILED]]:
// CHECK: atom.relaxed.gpu.global.add.u64

// AMD-LABEL: check:
// AMD: global_store_dword
// AMD: s_endpgm
// AMD: global_atomic_add_x2 {{.*}} offset:24 sc0

// LLVM-LABEL: define ptx_kernel void @check
// LLVM: br i1 %{{.*}}, label %assert.holds, label %assert.failed, {{.*}}!prof
// LLVM: assert.failed:
// LLVM: icmp eq i32 %{{.*}}, 0
// LLVM: assert.report:
// LLVM: call i64 @sectile.nv.atomic.gpu.add.u64(ptr addrspace(1) %{{.*}}, i64 1, i1 true)
// LLVM: icmp ult i64 %{{.*}}, 64
// LLVM: assert.end:
// LLVM-NEXT: ret void
// LLVM: assert.holds:
// LLVM-NEXT: call void @sectile.nv.store.i32.{{[0-9]+}}(ptr addrspace(1) %{{.*}}, i32 7,
module attributes {cta.target = "sm_80"} {
  func.func @check(%c: i32, %p: !tile.ptr<i32>, %log: !tile.ptr<i8>, %launch: i64)
      attributes {tile.kernel, cta.warps = 4 : i32} {
    %c7 = arith.constant 7 : i32
    %holds = arith.cmpi slt, %c, %c7 : i32
    cta.assert %holds, %log, %launch site 5 : !tile.ptr<i8>
    tile.store %p, %c7 : !tile.ptr<i32>, i32
    return
  }

// CHECK-LABEL: .entry print
// CHECK: atom.relaxed.gpu.global.add.u64
// CHECK: st.shared.b64 [sectile_shared+16],
// CHECK: bar.sync
// CHECK: ld.shared.b64 {{.*}}, [sectile_shared+16];
// CHECK: @%p{{[0-9]+}} st.global.b32

// AMD-LABEL: print:
// AMD: global_atomic_add_x2
// AMD: ds_write_b64 v{{[0-9]+}}, v[{{[0-9:]+}}] offset:16
// AMD: s_barrier
// AMD: ds_read_b64 v[{{[0-9:]+}}], v{{[0-9]+}} offset:16
// AMD: global_store_dword
  func.func @print(%x: i32, %log: !tile.ptr<i8>, %launch: i64)
      attributes {tile.kernel, cta.warps = 4 : i32, cta.shared_bytes = 24 : i32} {
    %fits, %place = cta.record %log, %launch site 0 bytes 48 at [0] {offset = 16 : i32} : !tile.ptr<i8> -> !tile.ptr<i32>
    tile.store %place, %x mask %fits : !tile.ptr<i32>, i32 mask i1
    return
  }

// Promises: an assumption is LLVM's, a hint has no code.
// LLVM-LABEL: define ptx_kernel void @promise
// LLVM: %[[HOLDS:.*]] = icmp sgt i32 %0, 0
// LLVM-NEXT: call void @llvm.assume(i1 %[[HOLDS]])
// LLVM-NEXT: call void @sectile.nv.store.i32.{{[0-9]+}}(ptr addrspace(1) %{{.*}}, i32 %0,
  func.func @promise(%n: i32, %p: !tile.ptr<i32>) attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %holds = arith.cmpi sgt, %n, %c0 : i32
    tile.assume %holds
    %same = tile.hint %n {divisible = array<i64: 4>} : i32
    tile.store %p, %same : !tile.ptr<i32>, i32
    return
  }
}
