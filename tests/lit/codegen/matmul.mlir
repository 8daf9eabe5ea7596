// A pipelined product of matrices, through all passes: cp.async groups, ldmatrix straight and transposed, mma.
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s
// RUN: sed 's/sm_80/gfx942/' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=AMD

// A product of each type on each of AMD's chips.
// RUN: sed 's/sm_80/gfx90a/; s/f16/bf16/g' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=BF16-CDNA2
// RUN: sed 's/sm_80/gfx942/; s/f16/f32/g' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=F32-CDNA3
// RUN: sed 's/sm_80/gfx942/; s/f16/f8E4M3FNUZ/g' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=FP8-CDNA3
// RUN: sed 's/sm_80/gfx90a/; s/f16\|f32/f64/g' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=F64-CDNA2
// RUN: sed 's/sm_80/gfx950/' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=F16-CDNA4
// RUN: sed 's/sm_80/gfx950/; s/f16/bf16/g' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=BF16-CDNA4
// RUN: sed 's/sm_80/gfx950/; s/f16/f8E5M2/g' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=FP8-CDNA4
// RUN: sed 's/sm_80/gfx1100/' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=F16-RDNA
// RUN: sed 's/sm_80/gfx1100/; s/f16/bf16/g' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=BF16-RDNA
// RUN: sed 's/sm_80/gfx1201/' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=F16-RDNA
// RUN: sed 's/sm_80/gfx1201/; s/f16/bf16/g' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=BF16-RDNA
// RUN: sed 's/sm_80/gfx1201/; s/f16/f8E4M3FN/g' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=FP8-RDNA4

// RUN: sed 's/f16\|f32/f64/g' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=F64-AMPERE
// RUN: sed 's/sm_80/sm_90a/; s/f16\|f32/f64/g' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=F64-HOPPER
// RUN: sed 's/sm_80/sm_120/; s/f16\|f32/f64/g' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=F64-HOPPER

// F64-AMPERE: mma.sync.aligned.m8n8k4.row.col.f64
// F64-HOPPER: mma.sync.aligned.m16n8k8.row.col.f64
// BF16-CDNA2: v_mfma_f32_32x32x8{{_?}}bf16_1k
// F32-CDNA3: v_mfma_f32_32x32x4_xf32
// FP8-CDNA3: v_mfma_f32_32x32x16_fp8_fp8
// F64-CDNA2: v_mfma_f64_16x16x4{{_?}}f64
// F16-CDNA4: v_mfma_f32_32x32x16_f16
// BF16-CDNA4: v_mfma_f32_32x32x16_bf16
// FP8-CDNA4: v_mfma_f32_32x32x16_bf8_bf8
// F16-RDNA: v_wmma_f32_16x16x16_f16
// BF16-RDNA: v_wmma_f32_16x16x16_bf16
// FP8-RDNA4: v_wmma_f32_16x16x16_fp8_fp8

// Eight warps have no 32x32 sums each.
// RUN: sed 's/sm_80/gfx942/; s/cta.warps = 4/cta.warps = 8/' %s | sectile-opt --sectile-pipeline -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=SMALL
// SMALL: v_mfma_f32_16x16x16_f16

// CHECK-LABEL: .entry matmul
// CHECK: cp.async.cg.shared.global
// CHECK: cp.async.commit_group
// CHECK: cp.async.wait_group 1
// CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-COUNT-8: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK: st.global.v{{[24]}}.b32

// AMD-LABEL: matmul:
// AMD: ds_read_{{.*}}
// AMD: v_mfma_f32_32x32x8_f16
module attributes {cta.target = "sm_80"} {
  func.func @matmul(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %b: !tile.ptr<f16> {tile.divisible = 16 : i64}, %c: !tile.ptr<f32> {tile.divisible = 16 : i64},
      %m: i32, %n: i32 {tile.divisible = 16 : i64}, %k: i32 {tile.divisible = 16 : i64})
      attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %i = tile.program_id 0
    %j = tile.program_id 1
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c32 = arith.constant 32 : i32
    %i0 = arith.muli %i, %c64 : i32
    %j0 = arith.muli %j, %c64 : i32
    %va = tile.make_view %a, [%m, %k], [%k, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %vb = tile.make_view %b, [%k, %n], [%n, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %vc = tile.make_view %c, [%m, %n], [%n, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %r = scf.for %kk = %c0 to %k step %c32 iter_args(%acc = %zero) -> tensor<64x64xf32> : i32 {
      %x = tile.load_block %va[%i0, %kk] : !tile.view<2xf16>, [i32, i32] -> tensor<64x32xf16>
      %y = tile.load_block %vb[%kk, %j0] : !tile.view<2xf16>, [i32, i32] -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.store_block %vc[%i0, %j0], %r : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}
