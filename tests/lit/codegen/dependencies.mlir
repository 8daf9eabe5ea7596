// Waiting for the kernel ahead, and letting the one behind start, where launches can overlap; what is before stays before.
// RUN: sed 's/TARGET/sm_90a/' %s | sectile-opt --sectile-pipeline - | sectile-opt --emit-assembly - | FileCheck %s
// RUN: sed 's/TARGET/sm_80/' %s | sectile-opt --sectile-pipeline - | sectile-opt --emit-assembly - | FileCheck %s --check-prefix=NONE
// RUN: sed 's/TARGET/gfx942/' %s | sectile-opt --sectile-pipeline - | sectile-opt --emit-assembly - | FileCheck %s --check-prefix=NONE

// CHECK-LABEL: .entry k
// CHECK: ld.global.b32
// CHECK: griddepcontrol.wait;
// CHECK: ld.global.b32
// CHECK: {{^[[:space:]]+}}griddepcontrol.launch_dependents;
// CHECK: st.global.b32

// A kernel that does not say where it waits does so first, and lets the next launch start where it begins to write; in
// large grids only if it has loops or dots.
// CHECK-LABEL: .entry says_nothing
// CHECK-NOT: {{ld|st}}.global
// CHECK: griddepcontrol.wait;
// CHECK-NOT: griddepcontrol
// CHECK: ld.global.b32
// CHECK: setp.le.u32 isSmall, programs, 1024;
// CHECK-NEXT: @isSmall griddepcontrol.launch_dependents;
// CHECK-NOT: griddepcontrol
// CHECK: st.global.b32
// CHECK: ret;

// What a loop writes is not its end.
// CHECK-LABEL: .entry writes_in_loops
// CHECK: griddepcontrol.wait;
// CHECK-NOT: griddepcontrol
// CHECK: st.global.b32
// CHECK: {{^[[:space:]]+}}griddepcontrol.launch_dependents;
// CHECK-NOT: griddepcontrol
// CHECK: ret;

// What waits lets the next launch start, and one that waits in some cases only waits at its end as well.
// CHECK-LABEL: .entry waits_sometimes
// CHECK: griddepcontrol.wait;
// CHECK: griddepcontrol.launch_dependents;
// CHECK: st.global.b32
// CHECK: griddepcontrol.wait;
// CHECK-NOT: {{^[[:space:]]+[a-z@]}}
// CHECK: ret;
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
  func.func @writes_in_loops(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, cta.warps = 1 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
      %p = tile.addptr %x, %i : !tile.ptr<f32>, i32
      %a = tile.load %p : !tile.ptr<f32> -> f32
      tile.store %y, %a : !tile.ptr<f32>, f32
    }
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
