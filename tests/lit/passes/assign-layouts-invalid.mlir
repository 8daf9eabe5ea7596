// What cannot have layouts.
// RUN: not sectile-opt %s --assign-layouts 2>&1 | FileCheck %s

// CHECK: error: a kernel takes no tiles
module attributes {cta.target = "sm_80"} {
  func.func @tiles(%x: tensor<64xf32>) attributes {tile.kernel} {
    return
  }
}
