// Asynchronous copies keep the eviction priority of the load they were.
// RUN: sectile-opt --emit-assembly %s | FileCheck %s

// CHECK-LABEL: .entry copies
// CHECK: createpolicy.fractional.L2::evict_last.b64 [[LAST:%rd[0-9]+]], 1.0;
// CHECK: cp.async.cg.shared.global.L2::cache_hint [%{{.*}}], [%{{.*}}], 16, %{{.*}}, [[LAST]];

#s = #cta.layout<"128, shared [(1) (2) (4) (8) (16) (32) (64)]">
#l = #cta.layout<"128, register [(1) (2)], lane [(4) (8) (16) (32) (64)]">
module attributes {cta.target = "sm_80"} {
  func.func @copies(%x: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 1 : i32, cta.shared_bytes = 512 : i32} {
    %b = cta.alloc {offset = 0 : i32} : !cta.buffer<128xf32, #s>
    %i = tile.arange 0 : tensor<128xi32, #l>
    %p = tile.splat %x : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #l>
    %q = tile.addptr %p, %i : tensor<128x!tile.ptr<f32>, #l>, tensor<128xi32, #l>
    cta.async_copy %q, %b {vector = 4 : i32, eviction = 2 : i32} : tensor<128x!tile.ptr<f32>, #l>, !cta.buffer<128xf32, #s>
    cta.async_commit
    cta.async_wait 0
    %v = cta.local_load %b : !cta.buffer<128xf32, #s> -> tensor<128xf32, #l>
    tile.store %q, %v : tensor<128x!tile.ptr<f32>, #l>, tensor<128xf32, #l>
    return
  }
}
