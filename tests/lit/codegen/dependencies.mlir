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

// A kernel that does not say where it waits does so first.
// CHECK-LABEL: .entry says_nothing
// CHECK-NOT: {{ld|st}}.global
// CHECK: griddepcontrol.wait;
// CHECK-NOT: {{ld|st}}.global
// CHECK: griddepcontrol.launch_dependents;
// CHECK-NOT: griddepcontrol
// CHECK: ld.global.b32
// CHECK: ret;

// What waits lets the next launch start, and one that waits in some cases only waits at its end as well.
// CHECK-LABEL: .entry waits_sometimes
// CHECK: griddepcontrol.wait;
// CHECK: griddepcontrol.launch_dependents;
// CHECK: st.global.b32
// CHECK: griddepcontrol.wait;
// CHECK-NEXT: // end inline asm
// CHECK-NEXT: ret;
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
  }  func.func @says_nothing(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.kernel, cta.warps = 1 : i32} {
    %a = tile.load %x : !tile.ptr<f32> -> f32
    tile.store %y, %a : !tile.ptr<f32>, f32
    return
  }
  func.func @waits_sometimes(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %c: i1) attributes {tile.kernel, cta.warps = 1 : i32} {
    scf.if %c {
      tile.wait_dependencies
      %a = tile.load %x : !tile.ptr<f32> -> f32
      tile.store %y, %a : !tile.ptr<f32>, f32
    }
    return
  }
}
