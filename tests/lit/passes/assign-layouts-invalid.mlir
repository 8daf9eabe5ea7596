// What cannot have layouts.
// RUN: not sectile-opt %s --split-input-file --assign-layouts 2>&1 | FileCheck %s

// CHECK: error: a kernel takes no tiles
module attributes {cta.target = "sm_80"} {
  func.func @tiles(%x: tensor<64xf32>) attributes {tile.kernel} {
    return
  }
}

// -----

// CHECK: error: 'tile.dot_scaled' op is left where layouts are assigned
module attributes {cta.target = "sm_80"} {
  func.func @scaled(%n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
    %x = arith.constant dense<0.0> : tensor<64x64xf8E4M3FN>
    %scale = arith.constant dense<0> : tensor<64x2xi8>
    %sums = arith.constant dense<0.0> : tensor<64x64xf32>
    %y = tile.dot_scaled %x scale %scale, %x scale %scale, %sums : tensor<64x64xf8E4M3FN> scale tensor<64x2xi8>, tensor<64x64xf8E4M3FN> scale tensor<64x2xi8>, tensor<64x64xf32> -> tensor<64x64xf32>
    return
  }
}
