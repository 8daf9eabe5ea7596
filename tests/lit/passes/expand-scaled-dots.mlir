// RUN: sectile-opt --expand-scaled-dots %s | FileCheck %s

// Pairs of e2m1 are spread along K, put into an f16 and scaled by what its bias is larger.
// CHECK-LABEL: func.func @packed
// CHECK-SAME: %[[A:.*]]: tensor<16x32xi8>, %[[B:.*]]: tensor<32x16xi8>
// CHECK-DAG: arith.extui %[[A]] : tensor<16x32xi8> to tensor<16x32xi16>
// CHECK: tile.broadcast %{{.*}} : tensor<16x32x1xi16> -> tensor<16x32x2xi16>
// CHECK: tile.reshape %{{.*}} : tensor<16x32x2xi16> -> tensor<16x64xi16>
// CHECK: arith.bitcast %{{.*}} : tensor<16x64xi16> to tensor<16x64xf16>
// CHECK: dense<1.638400e+04> : tensor<16x64xf32>
// CHECK: arith.extui %{{.*}} : tensor<16x2xi8> to tensor<16x2xi32>
// CHECK: tile.reshape %{{.*}} : tensor<16x2x32xf32> -> tensor<16x64xf32>
// CHECK: %[[LEFT:.*]] = arith.truncf %{{.*}} : tensor<16x64xf32> to tensor<16x64xbf16>
// CHECK: arith.extui %[[B]] : tensor<32x16xi8> to tensor<32x16xi16>
// CHECK: tile.reshape %{{.*}} : tensor<32x2x16xi16> -> tensor<64x16xi16>
// CHECK: tile.permute %{{.*}} [1, 0] : tensor<16x64xf32> -> tensor<64x16xf32>
// CHECK: %[[RIGHT:.*]] = arith.truncf %{{.*}} : tensor<64x16xf32> to tensor<64x16xbf16>
// CHECK: tile.dot %[[LEFT]], %[[RIGHT]], %{{.*}} : tensor<16x64xbf16>, tensor<64x16xbf16>, tensor<16x16xf32>
func.func @packed(%a: tensor<16x32xi8>, %b: tensor<32x16xi8>, %s: tensor<16x2xi8>, %acc: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = tile.dot_scaled %a scale %s, %b scale %s, %acc : tensor<16x32xi8> scale tensor<16x2xi8>, tensor<32x16xi8> scale tensor<16x2xi8>, tensor<16x16xf32> -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}

// An operand in bf16 without a scale is multiplied as it is; beside f16 all go as tf32.
// CHECK-LABEL: func.func @plain
// CHECK-SAME: %[[A:.*]]: tensor<16x64xbf16>, %[[H:.*]]: tensor<16x64xf16>, %[[B:.*]]: tensor<64x16xf8E5M2>
// CHECK: %[[W:.*]] = arith.extf %[[B]]
// CHECK: %[[T:.*]] = arith.truncf %[[W]] : tensor<64x16xf32> to tensor<64x16xbf16>
// CHECK: tile.dot %[[A]], %[[T]]
// CHECK: tile.dot %{{.*}} : tensor<16x64xf32>, tensor<64x16xf32>, tensor<16x16xf32>
func.func @plain(%a: tensor<16x64xbf16>, %h: tensor<16x64xf16>, %b: tensor<64x16xf8E5M2>, %acc: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = tile.dot_scaled %a, %b, %acc : tensor<16x64xbf16>, tensor<64x16xf8E5M2>, tensor<16x16xf32> -> tensor<16x16xf32>
  %1 = tile.dot_scaled %h, %b, %0 : tensor<16x64xf16>, tensor<64x16xf8E5M2>, tensor<16x16xf32> -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}
