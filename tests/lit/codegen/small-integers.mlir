// Codes of few bits become f32 without the unit that converts: an integer operation and a subtraction. Others take it.
// RUN: sed 's/TARGET/sm_90a/' %s | sectile-opt --emit-assembly - | FileCheck %s
// RUN: sed 's/TARGET/gfx942/; s/lane .(1) (2) (4) (8) (16)./lane [(1) (2) (4) (8) (16) (32)]/; s/(32)], lane/(64)], lane/; s/64, r/128, r/; s/64x/128x/g' %s | sectile-opt --emit-assembly - | FileCheck %s --check-prefix=AMD

#l = #cta.layout<"64, register [(32)], lane [(1) (2) (4) (8) (16)]">

// CHECK-LABEL: .entry of_nibbles
// CHECK-NOT: cvt.rn
// CHECK: or.b32 {{.*}}, 1258291200;
// CHECK: {{add|sub}}.rn.f32 {{.*}}, {{0f[0-9A-F]+}};
// CHECK-NOT: cvt.rn
// CHECK: ret;

// CHECK-LABEL: .entry of_bytes
// CHECK-NOT: cvt.rn
// CHECK: xor.b{{.*}}, {{-?}}128;
// CHECK: or.b32 {{.*}}, 1258291200;
// CHECK: {{add|sub}}.rn.f32 {{.*}}, {{0f[0-9A-F]+}};
// CHECK-NOT: cvt.rn
// CHECK: ret;

// CHECK-LABEL: .entry of_words
// CHECK: cvt.rn.f32.s32

// AMD: v_cvt_f32_ubyte0
// AMD-NOT: 0x4b000000
module attributes {cta.target = "TARGET"} {
  func.func @of_nibbles(%x: !tile.ptr<i8>, %y: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 1 : i32} {
    %c = arith.constant dense<15> : tensor<64xi8, #l>
    %i = tile.arange 0 : tensor<64xi32, #l>
    %p = tile.splat %x : !tile.ptr<i8> -> tensor<64x!tile.ptr<i8>, #l>
    %q = tile.addptr %p, %i : tensor<64x!tile.ptr<i8>, #l>, tensor<64xi32, #l>
    %v = tile.load %q : tensor<64x!tile.ptr<i8>, #l> -> tensor<64xi8, #l>
    %n = arith.andi %v, %c : tensor<64xi8, #l>
    %f = arith.uitofp %n : tensor<64xi8, #l> to tensor<64xf32, #l>
    %r = tile.splat %y : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #l>
    %s = tile.addptr %r, %i : tensor<64x!tile.ptr<f32>, #l>, tensor<64xi32, #l>
    tile.store %s, %f : tensor<64x!tile.ptr<f32>, #l>, tensor<64xf32, #l>
    return
  }
  func.func @of_bytes(%x: !tile.ptr<i8>, %y: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 1 : i32} {
    %i = tile.arange 0 : tensor<64xi32, #l>
    %p = tile.splat %x : !tile.ptr<i8> -> tensor<64x!tile.ptr<i8>, #l>
    %q = tile.addptr %p, %i : tensor<64x!tile.ptr<i8>, #l>, tensor<64xi32, #l>
    %v = tile.load %q : tensor<64x!tile.ptr<i8>, #l> -> tensor<64xi8, #l>
    %f = arith.sitofp %v : tensor<64xi8, #l> to tensor<64xf32, #l>
    %r = tile.splat %y : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #l>
    %s = tile.addptr %r, %i : tensor<64x!tile.ptr<f32>, #l>, tensor<64xi32, #l>
    tile.store %s, %f : tensor<64x!tile.ptr<f32>, #l>, tensor<64xf32, #l>
    return
  }
  func.func @of_words(%x: !tile.ptr<i32>, %y: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 1 : i32} {
    %i = tile.arange 0 : tensor<64xi32, #l>
    %p = tile.splat %x : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>, #l>
    %q = tile.addptr %p, %i : tensor<64x!tile.ptr<i32>, #l>, tensor<64xi32, #l>
    %v = tile.load %q : tensor<64x!tile.ptr<i32>, #l> -> tensor<64xi32, #l>
    %f = arith.sitofp %v : tensor<64xi32, #l> to tensor<64xf32, #l>
    %r = tile.splat %y : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #l>
    %s = tile.addptr %r, %i : tensor<64x!tile.ptr<f32>, #l>, tensor<64xi32, #l>
    tile.store %s, %f : tensor<64x!tile.ptr<f32>, #l>, tensor<64xf32, #l>
    return
  }
}
