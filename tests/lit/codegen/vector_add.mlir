// Kernels, elementwise arithmetic, predicated vector accesses, line tables.
// RUN: sectile-opt --emit-llvm %s | FileCheck %s
// RUN: sectile-opt --emit-llvm %s | llc -mtriple=nvptx64-nvidia-cuda -mcpu=sm_80 -mattr=+ptx80 -filetype=null
// RUN: sectile-opt --emit-assembly %s | FileCheck %s --check-prefix=PTX

#l = #cta.layout<"1024, register [(1) (2) (512)], lane [(4) (8) (16) (32) (64)], warp [(128) (256)]">

// CHECK-LABEL: define ptx_kernel void @vector_add
// CHECK-SAME: ptr addrspace(1) noundef align 16 %0, ptr addrspace(1) noundef align 16 %1,
// CHECK-SAME: ptr addrspace(1) noundef align 16 %2, i32 noundef %3

// A thread's place, once: its first element is 4 · thread.
// CHECK: %[[T:.*]] = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
// CHECK: shl nuw nsw i32 %[[T]], 2
// CHECK: call <4 x i32> @sectile.nv.load.v4i32.0(ptr addrspace(1) {{.*}}, i1 {{.*}}, <4 x i32> zeroinitializer)
// CHECK: call void @sectile.nv.store.v4i32.0
// CHECK: attributes {{.*}}"nvvm.reqntid"="128"{{.*}}"target-cpu"="sm_80"

// PTX: .visible .entry vector_add
// PTX: .reqntid 128
// An operation that changes nothing keeps ptxas from taking the index for a register to read again.
// PTX: mov.u32 index, %tid.x;
// PTX-NOT: {{^[[:space:]]+[a-z@]}}
// PTX: and.b32 %r{{[0-9]+}}, index, 1023;
// PTX: .loc
// PTX-COUNT-4: @%p{{[0-9]+}} ld.global.v4.b32
// PTX-COUNT-2: @%p{{[0-9]+}} st.global.v4.b32
module attributes {cta.target = "sm_80"} {
  func.func @vector_add(%x: !tile.ptr<f32> {tile.divisible = 16 : i64}, %y: !tile.ptr<f32> {tile.divisible = 16 : i64},
                        %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
      attributes {tile.kernel, cta.warps = 4 : i32} {
    %c1024 = arith.constant 1024 : i32
    %id = tile.program_id 0
    %start = arith.muli %id, %c1024 : i32
    %range = tile.arange 0 : tensor<1024xi32, #l>
    %starts = tile.splat %start : i32 -> tensor<1024xi32, #l>
    %i = arith.addi %starts, %range : tensor<1024xi32, #l>
    %ns = tile.splat %n : i32 -> tensor<1024xi32, #l>
    %inside = arith.cmpi slt, %i, %ns : tensor<1024xi32, #l>
    %xs = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #l>
    %ys = tile.splat %y : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #l>
    %zs = tile.splat %z : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #l>
    %xp = tile.addptr %xs, %i : tensor<1024x!tile.ptr<f32>, #l>, tensor<1024xi32, #l>
    %yp = tile.addptr %ys, %i : tensor<1024x!tile.ptr<f32>, #l>, tensor<1024xi32, #l>
    %zp = tile.addptr %zs, %i : tensor<1024x!tile.ptr<f32>, #l>, tensor<1024xi32, #l>
    %a = tile.load %xp mask %inside {vector = 4 : i32} : tensor<1024x!tile.ptr<f32>, #l> mask tensor<1024xi1, #l> -> tensor<1024xf32, #l>
    %b = tile.load %yp mask %inside {vector = 4 : i32} : tensor<1024x!tile.ptr<f32>, #l> mask tensor<1024xi1, #l> -> tensor<1024xf32, #l>
    %s = arith.addf %a, %b : tensor<1024xf32, #l>
    tile.store %zp, %s mask %inside {vector = 4 : i32} : tensor<1024x!tile.ptr<f32>, #l>, tensor<1024xf32, #l> mask tensor<1024xi1, #l>
    return
  }
}
