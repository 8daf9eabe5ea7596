// RUN: sectile-opt --select-mma --split-input-file --verify-diagnostics %s | FileCheck %s

module attributes {cta.target = "sm_80"} {
  // CHECK-LABEL: func.func @kinds
  // CHECK: cta.dot %{{.*}} by [16, 8, 16] : tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 8, 16] : tensor<32x32xbf16>
  // CHECK: cta.dot %{{.*}} by [16, 8, 8] : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 8, 32] : tensor<32x32xi8>
  // CHECK: cta.dot %{{.*}} by [8, 8, 4] : tensor<32x32xf64>
  // CHECK-NOT: tile.dot
  func.func @kinds(%f16: tensor<32x32xf16>, %bf16: tensor<32x32xbf16>, %f32: tensor<32x32xf32>, %i8: tensor<32x32xi8>,
                   %f64: tensor<32x32xf64>, %acc: tensor<32x32xf32>, %sum: tensor<32x32xi32>) {
    %0 = tile.dot %f16, %f16, %acc : tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>
    %1 = tile.dot %bf16, %bf16, %acc : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xf32>
    %2 = tile.dot %f32, %f32, %acc : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %3 = tile.dot %i8, %i8, %sum : tensor<32x32xi8>, tensor<32x32xi8>, tensor<32x32xi32>
    %4 = tile.dot %f64, %f64, %f64 : tensor<32x32xf64>, tensor<32x32xf64>, tensor<32x32xf64>
    return
  }

  // In full precision there is no instruction for f32, which needs no remark.
  // CHECK-LABEL: func.func @ieee
  // CHECK: cta.dot %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} {precision = 1 : i32}
  func.func @ieee(%a: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = tile.dot %a, %a, %a {precision = 1 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }

  // Split operands go to the units of their parts. K is a multiple of theirs.
  // CHECK-LABEL: func.func @split
  // CHECK: cta.dot %{{.*}} by [16, 8, 8] {precision = 2 : i32}
  // CHECK: cta.dot %{{.*}} by [16, 8, 16] {precision = 3 : i32}
  // CHECK: cta.dot %{{.*}} by [16, 8, 16] {precision = 4 : i32}
  // CHECK: cta.dot %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} {precision = 4 : i32}
  func.func @split(%a: tensor<32x32xf32>, %b: tensor<32x8xf32>, %c: tensor<8x32xf32>) {
    %0 = tile.dot %a, %a, %a {precision = 2 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %1 = tile.dot %a, %a, %a {precision = 3 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %2 = tile.dot %a, %a, %a {precision = 4 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    // expected-remark @+1 {{computed by fused multiply-adds instead of matrix instructions: k = 8 is no multiple of the instruction's 16}}
    %3 = tile.dot %b, %c, %a {precision = 4 : i32} : tensor<32x8xf32>, tensor<8x32xf32>, tensor<32x32xf32>
    return
  }

  // Several matrices are multiplied as one is.
  // CHECK-LABEL: func.func @batch
  // CHECK: cta.dot %{{.*}} by [16, 8, 16] : tensor<3x48x16xf16>, tensor<3x16x24xf16>, tensor<3x48x24xf32>
  func.func @batch(%a: tensor<3x48x16xf16>, %b: tensor<3x16x24xf16>, %acc: tensor<3x48x24xf32>) -> tensor<3x48x24xf32> {
    %0 = tile.dot %a, %b, %acc : tensor<3x48x16xf16>, tensor<3x16x24xf16>, tensor<3x48x24xf32>
    return %0 : tensor<3x48x24xf32>
  }

  // A chip without fp8 matrix units multiplies them as f16, which is exact.
  // CHECK-LABEL: func.func @fp8
  // CHECK: %[[A:.*]] = arith.extf %{{.*}} : tensor<32x32xf8E4M3FN> to tensor<32x32xf16>
  // CHECK: %[[B:.*]] = arith.extf %{{.*}} : tensor<32x32xf8E5M2> to tensor<32x32xf16>
  // CHECK: cta.dot %[[A]], %[[B]], %{{.*}} by [16, 8, 16]
  func.func @fp8(%a: tensor<32x32xf8E4M3FN>, %b: tensor<32x32xf8E5M2>, %acc: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = tile.dot %a, %b, %acc : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E5M2>, tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }

  // f16 sums stay f16 in matrix instructions; fused multiply-adds sum in f32.
  // CHECK-LABEL: func.func @f16_sums
  // CHECK: cta.dot %{{.*}} by [16, 8, 16] : tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf16>
  // CHECK: %[[ACC:.*]] = arith.extf %{{.*}} : tensor<4x4xf16> to tensor<4x4xf32>
  // CHECK: %[[SUM:.*]] = cta.dot %{{.*}}, %{{.*}}, %[[ACC]] : tensor<4x4xf16>, tensor<4x4xf16>, tensor<4x4xf32>
  // CHECK: arith.truncf %[[SUM]] : tensor<4x4xf32> to tensor<4x4xf16>
  func.func @f16_sums(%a: tensor<32x32xf16>, %b: tensor<4x4xf16>) -> (tensor<32x32xf16>, tensor<4x4xf16>) {
    %0 = tile.dot %a, %a, %a : tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf16>
    // expected-remark @+1 {{computed by fused multiply-adds instead of matrix instructions: m = 4 is no multiple of the instruction's 16}}
    %1 = tile.dot %b, %b, %b : tensor<4x4xf16>, tensor<4x4xf16>, tensor<4x4xf16>
    return %0, %1 : tensor<32x32xf16>, tensor<4x4xf16>
  }

  // Extents need not be powers of two.
  // CHECK-LABEL: func.func @odd
  // CHECK: cta.dot %{{.*}} by [16, 8, 16] : tensor<48x80xf16>, tensor<80x176xf16>
  func.func @odd(%a: tensor<48x80xf16>, %b: tensor<80x176xf16>, %acc: tensor<48x176xf32>) -> tensor<48x176xf32> {
    %0 = tile.dot %a, %b, %acc : tensor<48x80xf16>, tensor<80x176xf16>, tensor<48x176xf32>
    return %0 : tensor<48x176xf32>
  }
}

// -----

module attributes {cta.target = "sm_89"} {
  // CHECK-LABEL: func.func @fp8_units
  // CHECK: cta.dot %{{.*}} by [16, 8, 32] : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E5M2>
  // CHECK: cta.dot %{{.*}} by [16, 8, 16] : tensor<32x16xf16>, tensor<16x32xf16>
  func.func @fp8_units(%a: tensor<32x32xf8E4M3FN>, %b: tensor<32x32xf8E5M2>, %acc: tensor<32x32xf32>,
                       %c: tensor<32x16xf8E4M3FN>, %d: tensor<16x32xf8E4M3FN>) {
    %0 = tile.dot %a, %b, %acc : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E5M2>, tensor<32x32xf32>
    %1 = tile.dot %c, %d, %acc : tensor<32x16xf8E4M3FN>, tensor<16x32xf8E4M3FN>, tensor<32x32xf32>
    return
  }
}

// -----

module attributes {cta.target = "gfx90a"} {
  // CHECK-LABEL: func.func @cdna2
  // CHECK: cta.dot %{{.*}} by [16, 16, 16] : tensor<32x32xf16>
  // CHECK: cta.dot %{{.*}} by [16, 16, 16] : tensor<32x32xbf16>
  // CHECK: cta.dot %{{.*}} by [16, 16, 4]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 4]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 4]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 16]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 16] : tensor<32x32xi8>
  // CHECK: cta.dot %{{.*}} by [16, 16, 4] : tensor<32x32xf64>
  func.func @cdna2(%f16: tensor<32x32xf16>, %bf16: tensor<32x32xbf16>, %f32: tensor<32x32xf32>, %i8: tensor<32x32xi8>,
                 %f64: tensor<32x32xf64>, %sum: tensor<32x32xi32>) {
    %0 = tile.dot %f16, %f16, %f32 : tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>
    %1 = tile.dot %bf16, %bf16, %f32 : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xf32>
    %2 = tile.dot %f32, %f32, %f32 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %3 = tile.dot %f32, %f32, %f32 {precision = 1 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %4 = tile.dot %f32, %f32, %f32 {precision = 2 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %5 = tile.dot %f32, %f32, %f32 {precision = 3 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %6 = tile.dot %i8, %i8, %sum : tensor<32x32xi8>, tensor<32x32xi8>, tensor<32x32xi32>
    %7 = tile.dot %f64, %f64, %f64 : tensor<32x32xf64>, tensor<32x32xf64>, tensor<32x32xf64>
    return
  }
}

// -----

module attributes {cta.target = "gfx942"} {
  // CHECK-LABEL: func.func @cdna3
  // CHECK: cta.dot %{{.*}} by [16, 16, 16] : tensor<32x32xf16>
  // CHECK: cta.dot %{{.*}} by [16, 16, 16] : tensor<32x32xbf16>
  // CHECK: cta.dot %{{.*}} by [16, 16, 8]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 4]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 4]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 16]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 32] : tensor<32x32xi8>
  // CHECK: cta.dot %{{.*}} by [16, 16, 4] : tensor<32x32xf64>
  func.func @cdna3(%f16: tensor<32x32xf16>, %bf16: tensor<32x32xbf16>, %f32: tensor<32x32xf32>, %i8: tensor<32x32xi8>,
                 %f64: tensor<32x32xf64>, %sum: tensor<32x32xi32>) {
    %0 = tile.dot %f16, %f16, %f32 : tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>
    %1 = tile.dot %bf16, %bf16, %f32 : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xf32>
    %2 = tile.dot %f32, %f32, %f32 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %3 = tile.dot %f32, %f32, %f32 {precision = 1 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %4 = tile.dot %f32, %f32, %f32 {precision = 2 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %5 = tile.dot %f32, %f32, %f32 {precision = 3 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %6 = tile.dot %i8, %i8, %sum : tensor<32x32xi8>, tensor<32x32xi8>, tensor<32x32xi32>
    %7 = tile.dot %f64, %f64, %f64 : tensor<32x32xf64>, tensor<32x32xf64>, tensor<32x32xf64>
    return
  }

  // The formats of the chip are multiplied as they are, others as f16.
  // CHECK-LABEL: func.func @fp8_of_cdna3
  // CHECK: cta.dot %{{.*}} by [16, 16, 32] : tensor<32x32xf8E4M3FNUZ>, tensor<32x32xf8E5M2FNUZ>
  // CHECK: cta.dot %{{.*}} by [16, 16, 16] : tensor<32x32xf16>, tensor<32x32xf16>
  func.func @fp8_of_cdna3(%a: tensor<32x32xf8E4M3FNUZ>, %b: tensor<32x32xf8E5M2FNUZ>, %c: tensor<32x32xf8E4M3FN>,
                          %acc: tensor<32x32xf32>) {
    %0 = tile.dot %a, %b, %acc : tensor<32x32xf8E4M3FNUZ>, tensor<32x32xf8E5M2FNUZ>, tensor<32x32xf32>
    %1 = tile.dot %c, %c, %acc : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN>, tensor<32x32xf32>
    return
  }

  // There are no sums in f16.
  // CHECK-LABEL: func.func @f16_sums_in_f32
  // CHECK: %[[ACC:.*]] = arith.extf %{{.*}} : tensor<32x32xf16> to tensor<32x32xf32>
  // CHECK: %[[SUM:.*]] = cta.dot %{{.*}}, %{{.*}}, %[[ACC]] by [16, 16, 16] : tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>
  // CHECK: arith.truncf %[[SUM]]
  func.func @f16_sums_in_f32(%a: tensor<32x32xf16>) -> tensor<32x32xf16> {
    %0 = tile.dot %a, %a, %a : tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf16>
    return %0 : tensor<32x32xf16>
  }
}

// -----

module attributes {cta.target = "gfx950"} {
  // CHECK-LABEL: func.func @cdna4
  // CHECK: cta.dot %{{.*}} by [16, 16, 32] : tensor<32x32xf16>
  // CHECK: cta.dot %{{.*}} by [16, 16, 32] : tensor<32x32xbf16>
  // CHECK: cta.dot %{{.*}} by [16, 16, 4]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 4]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 4]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 32]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 32] : tensor<32x32xi8>
  // CHECK: cta.dot %{{.*}} by [16, 16, 4] : tensor<32x32xf64>
  func.func @cdna4(%f16: tensor<32x32xf16>, %bf16: tensor<32x32xbf16>, %f32: tensor<32x32xf32>, %i8: tensor<32x32xi8>,
                 %f64: tensor<32x32xf64>, %sum: tensor<32x32xi32>) {
    %0 = tile.dot %f16, %f16, %f32 : tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>
    %1 = tile.dot %bf16, %bf16, %f32 : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xf32>
    %2 = tile.dot %f32, %f32, %f32 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %3 = tile.dot %f32, %f32, %f32 {precision = 1 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %4 = tile.dot %f32, %f32, %f32 {precision = 2 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %5 = tile.dot %f32, %f32, %f32 {precision = 3 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %6 = tile.dot %i8, %i8, %sum : tensor<32x32xi8>, tensor<32x32xi8>, tensor<32x32xi32>
    %7 = tile.dot %f64, %f64, %f64 : tensor<32x32xf64>, tensor<32x32xf64>, tensor<32x32xf64>
    return
  }

  // CHECK-LABEL: func.func @deep_bytes
  // CHECK: cta.dot %{{.*}} by [16, 16, 64] : tensor<32x64xi8>
  func.func @deep_bytes(%a: tensor<32x64xi8>, %b: tensor<64x32xi8>, %sum: tensor<32x32xi32>) {
    %0 = tile.dot %a, %b, %sum : tensor<32x64xi8>, tensor<64x32xi8>, tensor<32x32xi32>
    return
  }

  // CHECK-LABEL: func.func @fp8_of_cdna4
  // CHECK: cta.dot %{{.*}} by [16, 16, 32] : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E5M2>
  func.func @fp8_of_cdna4(%a: tensor<32x32xf8E4M3FN>, %b: tensor<32x32xf8E5M2>, %acc: tensor<32x32xf32>) {
    %0 = tile.dot %a, %b, %acc : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E5M2>, tensor<32x32xf32>
    return
  }
}

// -----

module attributes {cta.target = "gfx1100"} {
  // CHECK-LABEL: func.func @rdna3
  // CHECK: cta.dot %{{.*}} by [16, 16, 16] : tensor<32x32xf16>
  // CHECK: cta.dot %{{.*}} by [16, 16, 16] : tensor<32x32xbf16>
  // CHECK: cta.dot %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}{{( {.*})?}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}{{( {.*})?}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}{{( {.*})?}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 16]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 16] : tensor<32x32xi8>
  // CHECK: cta.dot %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} : tensor<32x32xf64>
  func.func @rdna3(%f16: tensor<32x32xf16>, %bf16: tensor<32x32xbf16>, %f32: tensor<32x32xf32>, %i8: tensor<32x32xi8>,
                 %f64: tensor<32x32xf64>, %sum: tensor<32x32xi32>) {
    %0 = tile.dot %f16, %f16, %f32 : tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>
    %1 = tile.dot %bf16, %bf16, %f32 : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xf32>
    // expected-remark @+1 {{computed by fused multiply-adds instead of matrix instructions: gfx1100 has none for f32 and f32 with sums in f32}}
    %2 = tile.dot %f32, %f32, %f32 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %3 = tile.dot %f32, %f32, %f32 {precision = 1 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    // expected-remark @+1 {{computed by fused multiply-adds instead of matrix instructions: gfx1100 has none for f32 and f32 with sums in f32}}
    %4 = tile.dot %f32, %f32, %f32 {precision = 2 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %5 = tile.dot %f32, %f32, %f32 {precision = 3 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %6 = tile.dot %i8, %i8, %sum : tensor<32x32xi8>, tensor<32x32xi8>, tensor<32x32xi32>
    // expected-remark @+1 {{computed by fused multiply-adds instead of matrix instructions: gfx1100 has none for f64 and f64 with sums in f64}}
    %7 = tile.dot %f64, %f64, %f64 : tensor<32x32xf64>, tensor<32x32xf64>, tensor<32x32xf64>
    return
  }
}

// -----

module attributes {cta.target = "gfx1201"} {
  // CHECK-LABEL: func.func @rdna4
  // CHECK: cta.dot %{{.*}} by [16, 16, 16] : tensor<32x32xf16>
  // CHECK: cta.dot %{{.*}} by [16, 16, 16] : tensor<32x32xbf16>
  // CHECK: cta.dot %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}{{( {.*})?}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}{{( {.*})?}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}{{( {.*})?}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 16]{{.*}} : tensor<32x32xf32>
  // CHECK: cta.dot %{{.*}} by [16, 16, 16] : tensor<32x32xi8>
  // CHECK: cta.dot %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} : tensor<32x32xf64>
  func.func @rdna4(%f16: tensor<32x32xf16>, %bf16: tensor<32x32xbf16>, %f32: tensor<32x32xf32>, %i8: tensor<32x32xi8>,
                 %f64: tensor<32x32xf64>, %sum: tensor<32x32xi32>) {
    %0 = tile.dot %f16, %f16, %f32 : tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>
    %1 = tile.dot %bf16, %bf16, %f32 : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xf32>
    // expected-remark @+1 {{computed by fused multiply-adds instead of matrix instructions: gfx1201 has none for f32 and f32 with sums in f32}}
    %2 = tile.dot %f32, %f32, %f32 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %3 = tile.dot %f32, %f32, %f32 {precision = 1 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    // expected-remark @+1 {{computed by fused multiply-adds instead of matrix instructions: gfx1201 has none for f32 and f32 with sums in f32}}
    %4 = tile.dot %f32, %f32, %f32 {precision = 2 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %5 = tile.dot %f32, %f32, %f32 {precision = 3 : i32} : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    %6 = tile.dot %i8, %i8, %sum : tensor<32x32xi8>, tensor<32x32xi8>, tensor<32x32xi32>
    // expected-remark @+1 {{computed by fused multiply-adds instead of matrix instructions: gfx1201 has none for f64 and f64 with sums in f64}}
    %7 = tile.dot %f64, %f64, %f64 : tensor<32x32xf64>, tensor<32x32xf64>, tensor<32x32xf64>
    return
  }

  // CHECK-LABEL: func.func @fp8_of_rdna4
  // CHECK: cta.dot %{{.*}} by [16, 16, 16] : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E5M2>
  func.func @fp8_of_rdna4(%a: tensor<32x32xf8E4M3FN>, %b: tensor<32x32xf8E5M2>, %acc: tensor<32x32xf32>) {
    %0 = tile.dot %a, %b, %acc : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E5M2>, tensor<32x32xf32>
    return
  }
}

// -----

module attributes {cta.target = "gfx90a"} {
  // Each of the four warps has sums of 32x32.
  // CHECK-LABEL: func.func @large_cdna2
  // CHECK: cta.dot %{{.*}} by [32, 32, 8] : tensor<64x64xf16>
  // CHECK: cta.dot %{{.*}} by [32, 32, 8] : tensor<64x64xbf16>
  // CHECK: cta.dot %{{.*}} by [32, 32, 2] : tensor<64x64xf32>
  // CHECK: cta.dot %{{.*}} by [32, 32, 8] : tensor<64x64xi8>
  func.func @large_cdna2(%f16: tensor<64x64xf16>, %bf16: tensor<64x64xbf16>, %f32: tensor<64x64xf32>, %i8: tensor<64x64xi8>,
                 %sum: tensor<64x64xi32>) {
    %0 = tile.dot %f16, %f16, %f32 : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    %1 = tile.dot %bf16, %bf16, %f32 : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
    %2 = tile.dot %f32, %f32, %f32 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
    %3 = tile.dot %i8, %i8, %sum : tensor<64x64xi8>, tensor<64x64xi8>, tensor<64x64xi32>
    return
  }
}

// -----

module attributes {cta.target = "gfx942"} {
  // Each of the four warps has sums of 32x32.
  // CHECK-LABEL: func.func @large_cdna3
  // CHECK: cta.dot %{{.*}} by [32, 32, 8] : tensor<64x64xf16>
  // CHECK: cta.dot %{{.*}} by [32, 32, 8] : tensor<64x64xbf16>
  // CHECK: cta.dot %{{.*}} by [32, 32, 4] : tensor<64x64xf32>
  // CHECK: cta.dot %{{.*}} by [32, 32, 16] : tensor<64x64xi8>
  func.func @large_cdna3(%f16: tensor<64x64xf16>, %bf16: tensor<64x64xbf16>, %f32: tensor<64x64xf32>, %i8: tensor<64x64xi8>,
                 %sum: tensor<64x64xi32>) {
    %0 = tile.dot %f16, %f16, %f32 : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    %1 = tile.dot %bf16, %bf16, %f32 : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
    %2 = tile.dot %f32, %f32, %f32 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
    %3 = tile.dot %i8, %i8, %sum : tensor<64x64xi8>, tensor<64x64xi8>, tensor<64x64xi32>
    return
  }
}

// -----

module attributes {cta.target = "gfx950"} {
  // Each of the four warps has sums of 32x32.
  // CHECK-LABEL: func.func @large_cdna4
  // CHECK: cta.dot %{{.*}} by [32, 32, 16] : tensor<64x64xf16>
  // CHECK: cta.dot %{{.*}} by [32, 32, 16] : tensor<64x64xbf16>
  // CHECK: cta.dot %{{.*}} by [32, 32, 2] : tensor<64x64xf32>
  // CHECK: cta.dot %{{.*}} by [32, 32, 32] : tensor<64x64xi8>
  func.func @large_cdna4(%f16: tensor<64x64xf16>, %bf16: tensor<64x64xbf16>, %f32: tensor<64x64xf32>, %i8: tensor<64x64xi8>,
                 %sum: tensor<64x64xi32>) {
    %0 = tile.dot %f16, %f16, %f32 : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    %1 = tile.dot %bf16, %bf16, %f32 : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
    %2 = tile.dot %f32, %f32, %f32 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
    %3 = tile.dot %i8, %i8, %sum : tensor<64x64xi8>, tensor<64x64xi8>, tensor<64x64xi32>
    return
  }
}

// -----

// -----

// expected-error @+1 {{the module says no target: it needs the string attribute cta.target}}
func.func @nowhere() {
  return
}

// -----

module attributes {cta.target = "sm_1"} {
  // expected-error @+1 {{unknown target 'sm_1'; known are sm_80}}
  func.func @unknown() {
    return
  }
}
