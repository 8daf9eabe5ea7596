// Not a pass: --sectile-pipeline stops where it is told, and refuses stages that are none.
// RUN: sectile-opt --sectile-pipeline=stage=tile %s | FileCheck %s
// RUN: not sectile-opt --sectile-pipeline=stage=sass %s 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// CHECK: func.func @empty
// UNKNOWN: {{.*}}stage{{.*}}sass
module attributes {cta.target = "sm_80"} {
  func.func @empty() attributes {tile.kernel} {
    return
  }
}
