// What a masked copy reads is chosen once, however many terms its mask has.
// RUN: sectile-opt --emit-assembly %s | FileCheck %s

// CHECK-LABEL: .entry copies
// CHECK-NOT: selp
// CHECK: selp.b32 [[READ:%r[0-9]+]], 16, 0, %p
// CHECK-NOT: selp
// CHECK: cp.async.cg.shared.global [%{{.*}}], [%{{.*}}], 16, [[READ]];
// CHECK-NOT: selp

#s = #cta.layout<"128, shared [(1) (2) (4) (8) (16) (32) (64)]">
#l = #cta.layout<"128, register [(1) (2)], lane [(4) (8) (16) (32) (64)]">
module attributes {cta.target = "sm_80"} {
  func.func @copies(%x: !tile.ptr<f32>, %n: i32, %k: i32) attributes {tile.kernel, cta.warps = 1 : i32, cta.shared_bytes = 512 : i32} {
    %b = cta.alloc {offset = 0 : i32} : !cta.buffer<128xf32, #s>
    %i = tile.arange 0 : tensor<128xi32, #l>
    %p = tile.splat %x : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #l>
    %q = tile.addptr %p, %i : tensor<128x!tile.ptr<f32>, #l>, tensor<128xi32, #l>
    %zero = arith.constant 0 : i32
    %some = arith.cmpi slt, %n, %k : i32
    %odd = arith.cmpi ne, %n, %zero : i32
    %both = arith.andi %some, %odd : i1
    %three = arith.cmpi sgt, %k, %zero : i32
    %all = arith.andi %both, %three : i1
    %mask = tile.splat %all : i1 -> tensor<128xi1, #l>
    cta.async_copy %q, %b mask %mask {vector = 4 : i32} : tensor<128x!tile.ptr<f32>, #l>, !cta.buffer<128xf32, #s> mask tensor<128xi1, #l>
    cta.async_commit
    cta.async_wait 0
    %v = cta.local_load %b : !cta.buffer<128xf32, #s> -> tensor<128xf32, #l>
    tile.store %q, %v : tensor<128x!tile.ptr<f32>, #l>, tensor<128xf32, #l>
    return
  }
}
