// Sums of matrix instructions on their way to whole lines of the output: by matrix stores where vectors of one side would be
// shorter than 16 bytes, straight for rows and transposed for columns; by vectors where those are as wide. Without matrix
// stores, matrix loads read the lines.
// RUN: sed 's/TARGET/sm_90/' %s | sectile-opt --emit-assembly - | FileCheck %s
// RUN: sed 's/TARGET/sm_90a/' %s | sectile-opt --emit-assembly - | FileCheck %s
// RUN: sed 's/TARGET/sm_80/' %s | sectile-opt --emit-assembly - | FileCheck %s --check-prefix=LOADS

#tall = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0)]">
#rows = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
#columns = #cta.layout<"64x64, register [(1,0) (2,0) (4,0) (0,16) (0,32)], lane [(8,0) (16,0) (32,0) (0,1) (0,2)], warp [(0,4) (0,8)]">
#wide = #cta.layout<"64x64, register [(0,1) (8,0) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,8)]">
#shared = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (8,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (16,0)]">

// CHECK-LABEL: .entry to_rows
// CHECK-NOT: st.shared
// CHECK-COUNT-4: stmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: bar.sync
// CHECK: ld.shared.v4.b32
// CHECK: ret
// LOADS-LABEL: .entry to_rows
// LOADS-COUNT-4: st.shared.v4.b32
// LOADS: bar.sync
// LOADS: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// LOADS: ret

// CHECK-LABEL: .entry to_columns
// CHECK-NOT: st.shared
// CHECK-COUNT-4: stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK: bar.sync
// CHECK: ld.shared.v4.b32
// CHECK: ret

// CHECK-LABEL: .entry to_rows_that_share_registers
// CHECK-NOT: stmatrix
// CHECK-COUNT-4: st.shared.v4.b32
// CHECK: bar.sync
// CHECK: ld.shared.v4.b32
// CHECK: ret
module attributes {cta.target = "TARGET"} {
  func.func @to_rows(%x: !tile.ptr<f32>, %y: !tile.ptr<f16>) attributes {tile.kernel, cta.warps = 4 : i32, cta.shared_bytes = 8192 : i32} {
    %s = tile.splat %x : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>, #tall>
    %v = tile.load %s : tensor<64x64x!tile.ptr<f32>, #tall> -> tensor<64x64xf32, #tall>
    %h = arith.truncf %v : tensor<64x64xf32, #tall> to tensor<64x64xf16, #tall>
    %w = cta.convert_layout %h {offset = 0 : i32} : tensor<64x64xf16, #tall> -> tensor<64x64xf16, #rows>
    %d = tile.splat %y : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>, #rows>
    tile.store %d, %w : tensor<64x64x!tile.ptr<f16>, #rows>, tensor<64x64xf16, #rows>
    return
  }
  func.func @to_columns(%x: !tile.ptr<f32>, %y: !tile.ptr<f16>) attributes {tile.kernel, cta.warps = 4 : i32, cta.shared_bytes = 8192 : i32} {
    %s = tile.splat %x : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>, #tall>
    %v = tile.load %s : tensor<64x64x!tile.ptr<f32>, #tall> -> tensor<64x64xf32, #tall>
    %h = arith.truncf %v : tensor<64x64xf32, #tall> to tensor<64x64xf16, #tall>
    %w = cta.convert_layout %h {offset = 0 : i32} : tensor<64x64xf16, #tall> -> tensor<64x64xf16, #columns>
    %d = tile.splat %y : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>, #columns>
    tile.store %d, %w : tensor<64x64x!tile.ptr<f16>, #columns>, tensor<64x64xf16, #columns>
    return
  }
  func.func @to_rows_that_share_registers(%x: !tile.ptr<f32>, %y: !tile.ptr<f16>) attributes {tile.kernel, cta.warps = 4 : i32, cta.shared_bytes = 8192 : i32} {
    %s = tile.splat %x : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>, #wide>
    %v = tile.load %s : tensor<64x64x!tile.ptr<f32>, #wide> -> tensor<64x64xf32, #wide>
    %h = arith.truncf %v : tensor<64x64xf32, #wide> to tensor<64x64xf16, #wide>
    %w = cta.convert_layout %h {offset = 0 : i32} : tensor<64x64xf16, #wide> -> tensor<64x64xf16, #shared>
    %d = tile.splat %y : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>, #shared>
    tile.store %d, %w : tensor<64x64x!tile.ptr<f16>, #shared>, tensor<64x64xf16, #shared>
    return
  }
}
