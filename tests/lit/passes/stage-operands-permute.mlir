// A turned operand: its buffer is read through the other axes, unless neither extent is a power of two; then it is
// turned in registers.
// RUN: sectile-opt --select-mma --assign-layouts --schedule-loops --stage-operands %s | FileCheck %s

module attributes {cta.target = "sm_80"} {
// CHECK-LABEL: func.func @in_memory
// CHECK: %[[B:.*]] = cta.alloc %{{.*}} : !cta.buffer<48x64xf16
// CHECK: cta.permute_buffer %[[B]] [1, 0]
func.func @in_memory(%p: !tile.ptr<f16>, %q: !tile.ptr<f32>, %stride: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %zero = arith.constant dense<0.0> : tensor<64x48xf32>
  %as = tile.splat %p : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>>
  %a = tile.load %as : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
  %bs = tile.splat %p : !tile.ptr<f16> -> tensor<48x64x!tile.ptr<f16>>
  %b = tile.load %bs : tensor<48x64x!tile.ptr<f16>> -> tensor<48x64xf16>
  %t = tile.permute %b [1, 0] : tensor<48x64xf16> -> tensor<64x48xf16>
  %d = tile.dot %a, %t, %zero : tensor<64x64xf16>, tensor<64x48xf16>, tensor<64x48xf32>
  %ds = tile.splat %q : !tile.ptr<f32> -> tensor<64x48x!tile.ptr<f32>>
  tile.store %ds, %d : tensor<64x48x!tile.ptr<f32>>, tensor<64x48xf32>
  return
}

// CHECK-LABEL: func.func @in_registers
// CHECK-NOT: cta.permute_buffer
// CHECK: tile.permute %{{.*}} [1, 0]
// CHECK-NOT: cta.permute_buffer
// CHECK: cta.dot
func.func @in_registers(%p: !tile.ptr<f16>, %q: !tile.ptr<f32>, %stride: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %zero = arith.constant dense<0.0> : tensor<64x48xf32>
  %as = tile.splat %p : !tile.ptr<f16> -> tensor<64x48x!tile.ptr<f16>>
  %a = tile.load %as : tensor<64x48x!tile.ptr<f16>> -> tensor<64x48xf16>
  %bs = tile.splat %p : !tile.ptr<f16> -> tensor<48x48x!tile.ptr<f16>>
  %b = tile.load %bs : tensor<48x48x!tile.ptr<f16>> -> tensor<48x48xf16>
  %t = tile.permute %b [1, 0] : tensor<48x48xf16> -> tensor<48x48xf16>
  %d = tile.dot %a, %t, %zero : tensor<64x48xf16>, tensor<48x48xf16>, tensor<64x48xf32>
  %ds = tile.splat %q : !tile.ptr<f32> -> tensor<64x48x!tile.ptr<f32>>
  tile.store %ds, %d : tensor<64x48x!tile.ptr<f32>>, tensor<64x48xf32>
  return
}
}
