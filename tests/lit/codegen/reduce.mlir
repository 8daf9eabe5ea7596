// Reductions: in threads, by shuffles, through scratch; their barrier; line tables without debug sections.
// RUN: sectile-opt --emit-assembly %s | FileCheck %s
// RUN: sed 's/sm_80/gfx1100/' %s > %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=AMD
// RUN: sectile-opt --emit-llvm %t.mlir | FileCheck %s --check-prefix=SHUFFLES

#l = #cta.layout<"512, register [(1) (256)], lane [(2) (4) (8) (16) (32)], warp [(64) (128)]">

// CHECK-LABEL: .entry sum
// CHECK-NOT: .section
// CHECK-COUNT-3: add.f32
// CHECK: shfl.sync.bfly.b32 {{.*}}, 1, 31, -1;
// CHECK: shfl.sync.bfly.b32 {{.*}}, 2, 31, -1;
// CHECK: shfl.sync.bfly.b32 {{.*}}, 4, 31, -1;
// CHECK: shfl.sync.bfly.b32 {{.*}}, 8, 31, -1;
// CHECK: shfl.sync.bfly.b32 {{.*}}, 16, 31, -1;
// One lane of each warp writes the warp's part.
// CHECK: @%p{{[0-9]+}} bra
// CHECK: st.shared.b32 [%rd{{[0-9]+}}+64]
// CHECK: bar.sync
// CHECK: ld.shared.v4.b32 {{.*}}, [sectile_shared+64];
// CHECK-NOT: bar.sync
// One thread stores the scalar.
// CHECK: @%p{{[0-9]+}} st.global.b32

// SHUFFLES-LABEL: void @sum(
// SHUFFLES-COUNT-5: call i32 @llvm.amdgcn.ds.bpermute(
// SHUFFLES-NOT: @llvm.amdgcn.ds.bpermute(
// SHUFFLES: ret void
// AMD-LABEL: sum:
// AMD: ds_store_b32 v{{[0-9]+}}, v{{[0-9]+}} offset:64
// AMD: s_barrier
// AMD: ds_load_b128 v[{{.*}}], v{{[0-9]+}} offset:64
module attributes {cta.target = "sm_80"} {
  func.func @sum(%x: !tile.ptr<f32> {tile.divisible = 16 : i64}, %y: !tile.ptr<f32>)
      attributes {tile.kernel, cta.warps = 4 : i32, cta.shared_bytes = 80 : i32} {
    %i = tile.arange 0 : tensor<512xi32, #l>
    %p = tile.splat %x : !tile.ptr<f32> -> tensor<512x!tile.ptr<f32>, #l>
    %q = tile.addptr %p, %i : tensor<512x!tile.ptr<f32>, #l>, tensor<512xi32, #l>
    %v = tile.load %q {vector = 2 : i32} : tensor<512x!tile.ptr<f32>, #l> -> tensor<512xf32, #l>
    %s = tile.reduce %v 0 {offset = 64 : i32} : (tensor<512xf32, #l>) -> f32 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    }
    tile.store %y, %s : !tile.ptr<f32>, f32
    return
  }
}
