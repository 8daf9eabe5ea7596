// Scans by shuffles, gathers and histograms through shared memory, in code for chips.
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s
// RUN: sed 's/sm_80/gfx942/' %s > %t.in.mlir && sectile-opt --sectile-pipeline %t.in.mlir -o %t.amd.mlir
// RUN: sectile-opt --emit-assembly %t.amd.mlir | FileCheck %s --check-prefix=AMD
// RUN: sectile-opt --emit-llvm %t.amd.mlir | FileCheck %s --check-prefix=SHUFFLES

// Pairs that lie next to each other in memory are a thread's own: nothing moves.
// CHECK-LABEL: .entry pairs
// CHECK: ld.global.v4.b32
// CHECK-NOT: {{shfl|shared}}
// CHECK: ret;

// One element of a run and its neighbour first, then between lanes; no shared memory within a warp.
// CHECK-LABEL: .entry scan
// CHECK: shfl.sync.bfly.b32 {{.*}}, 1, 31, -1;
// CHECK: shfl.sync.bfly.b32 {{.*}}, 2, 31, -1;
// CHECK: shfl.sync.bfly.b32 {{.*}}, 16, 31, -1;
// CHECK-NOT: bar.sync
// SHUFFLES-LABEL: void @scan(
// SHUFFLES-COUNT-6: call i32 @llvm.amdgcn.ds.bpermute(
// SHUFFLES: ret void
// AMD-LABEL: scan:
// AMD-NOT: s_barrier
// AMD: s_endpgm

// The index is held within the scratch.
// CHECK-LABEL: .entry gather
// CHECK: st.shared
// CHECK: bar.sync
// CHECK: min.u32
// CHECK: ld.shared.b32
// AMD-LABEL: gather:
// AMD: ds_write
// AMD-DAG: v_min_u32
// AMD-DAG: s_barrier
// AMD: ds_read_b32
// What is read is there before the next barrier, after which other threads may write.
// AMD: s_barrier

// CHECK-LABEL: .entry count
// CHECK: st.shared.b32
// CHECK: bar.sync
// CHECK: atom{{.*}}.shared{{.*}}.add
// CHECK: bar.sync
// CHECK: {{ld.*shared}}
// AMD-LABEL: count:
// AMD: ds_write_b32
// AMD: s_barrier
// AMD: ds_add_u32
// AMD: s_barrier
// AMD: ds_read_b32
module attributes {cta.target = "sm_80"} {
  func.func @pairs(%p: !tile.ptr<f32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<512xi32>
    %s = tile.splat %p : !tile.ptr<f32> -> tensor<512x!tile.ptr<f32>>
    %from = tile.addptr %s, %i : tensor<512x!tile.ptr<f32>>, tensor<512xi32>
    %t = tile.load %from : tensor<512x!tile.ptr<f32>> -> tensor<512xf32>
    %pairs = tile.reshape %t : tensor<512xf32> -> tensor<256x2xf32>
    %a, %b = tile.split %pairs : tensor<256x2xf32> -> tensor<256xf32>
    %sum = arith.addf %a, %b : tensor<256xf32>
    %both = tile.join %sum, %a : tensor<256xf32> -> tensor<256x2xf32>
    %r = tile.reshape %both : tensor<256x2xf32> -> tensor<512xf32>
    tile.store %from, %r : tensor<512x!tile.ptr<f32>>, tensor<512xf32>
    return
  }
  func.func @scan(%p: !tile.ptr<i32>) attributes {tile.kernel, cta.warps = 1 : i32} {
    %i = tile.arange 0 : tensor<128xi32>
    %s = tile.splat %p : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>>
    %from = tile.addptr %s, %i : tensor<128x!tile.ptr<i32>>, tensor<128xi32>
    %t = tile.load %from : tensor<128x!tile.ptr<i32>> -> tensor<128xi32>
    %r = tile.scan %t 0 : (tensor<128xi32>) -> tensor<128xi32> {
    ^bb0(%a: i32, %b: i32):
      %c = arith.addi %a, %b : i32
      tile.yield %c : i32
    }
    tile.store %from, %r : tensor<128x!tile.ptr<i32>>, tensor<128xi32>
    return
  }
  func.func @gather(%p: !tile.ptr<i32>) attributes {tile.kernel, cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<128xi32>
    %s = tile.splat %p : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>>
    %from = tile.addptr %s, %i : tensor<128x!tile.ptr<i32>>, tensor<128xi32>
    %t = tile.load %from : tensor<128x!tile.ptr<i32>> -> tensor<128xi32>
    %r = tile.gather %t[%t] 0 : tensor<128xi32>, tensor<128xi32> -> tensor<128xi32>
    tile.store %from, %r : tensor<128x!tile.ptr<i32>>, tensor<128xi32>
    return
  }
  func.func @count(%p: !tile.ptr<i32>) attributes {tile.kernel, cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<128xi32>
    %s = tile.splat %p : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>>
    %from = tile.addptr %s, %i : tensor<128x!tile.ptr<i32>>, tensor<128xi32>
    %t = tile.load %from : tensor<128x!tile.ptr<i32>> -> tensor<128xi32>
    %r = tile.histogram %t : tensor<128xi32> -> tensor<128xi32>
    tile.store %from, %r : tensor<128x!tile.ptr<i32>>, tensor<128xi32>
    return
  }
}
