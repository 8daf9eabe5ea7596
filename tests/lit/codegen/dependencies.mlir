// Waiting for the kernel ahead, and letting the one behind start, where launches can overlap; what is before stays before.
// RUN: sed 's/TARGET/sm_90a/' %s | sectile-opt --sectile-pipeline - | sectile-opt --emit-assembly - | FileCheck %s
// RUN: sed 's/TARGET/sm_80/' %s | sectile-opt --sectile-pipeline - | sectile-opt --emit-assembly - | FileCheck %s --check-prefix=NONE
// RUN: sed 's/TARGET/gfx942/' %s | sectile-opt --sectile-pipeline - | sectile-opt --emit-assembly - | FileCheck %s --check-prefix=NONE

// CHECK-LABEL: .entry k
// CHECK: ld.global.b32
// CHECK: griddepcontrol.wait;
// CHECK: ld.global.b32
// CHECK: griddepcontrol.launch_dependents;
// CHECK: st.global.b32
// NONE-NOT: griddepcontrol
module attributes {cta.target = "TARGET"} {
  func.func @k(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 1 : i32} {
    %a = tile.load %x : !tile.ptr<f32> -> f32
    tile.wait_dependencies
    %b = tile.load %x : !tile.ptr<f32> -> f32
    tile.launch_dependents
    %c = arith.addf %a, %b : f32
    tile.store %y, %c : !tile.ptr<f32>, f32
    return
  }
}
