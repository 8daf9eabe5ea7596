// Loads of branches that follow from what an iteration computes, and of loops without a count, are
// made where they stand, which a remark says.
// RUN: sectile-opt %s --load-before-branches --assign-layouts --schedule-loops --verify-diagnostics -o /dev/null

module attributes {cta.target = "sm_80"} {
func.func @products(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %c: !tile.ptr<f32> {tile.divisible = 16 : i64}, %flags: i32, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %flat = tile.arange 0 : tensor<4096xi32>
  %index = tile.reshape %flat : tensor<4096xi32> -> tensor<64x64xi32>
  %as = tile.splat %a : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %pa = tile.addptr %as, %index : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
  %pc = tile.addptr %cs, %index : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %left = %flags) -> (tensor<64x64xf32>, i32) : i32 {
    %isThere = arith.trunci %left : i32 to i1
    %next = scf.if %isThere -> (tensor<64x64xf32>) {
      %ii = tile.splat %i : i32 -> tensor<64x64xi32>
      %pi = tile.addptr %pa, %ii : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
      // expected-remark @+1 {{not ahead of its loop: it is in a branch, and its address or its condition depends on scf.if}}
      %x = tile.load %pi : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
      %d = cta.dot %x, %x, %acc by [16, 8, 16] : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    } else {
      scf.yield %acc : tensor<64x64xf32>
    }
    %rows = tile.reduce %next 1 : (tensor<64x64xf32>) -> tensor<64xf32> {
    ^bb0(%l: f32, %m: f32):
      %sum = arith.addf %l, %m : f32
      tile.yield %sum : f32
    }
    %all = tile.reduce %rows 0 : (tensor<64xf32>) -> f32 {
    ^bb0(%l: f32, %m: f32):
      %sum = arith.addf %l, %m : f32
      tile.yield %sum : f32
    }
    %goesOn = arith.fptosi %all : f32 to i32
    scf.yield %next, %goesOn : tensor<64x64xf32>, i32
  }
  %w:2 = scf.while (%acc = %r#0, %left = %n) : (tensor<64x64xf32>, i32) -> (tensor<64x64xf32>, i32) {
    %goes = arith.cmpi ne, %left, %c0 : i32
    scf.condition(%goes) %acc, %left : tensor<64x64xf32>, i32
  } do {
  ^bb0(%acc: tensor<64x64xf32>, %left: i32):
    %li = tile.splat %left : i32 -> tensor<64x64xi32>
    %pl = tile.addptr %pa, %li : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
    // expected-remark @+1 {{not ahead of its loop: that goes on by a condition, not over a range}}
    %y = tile.load %pl : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
    %d = cta.dot %y, %y, %acc by [16, 8, 16] : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    %less = arith.shrui %left, %c1 : i32
    scf.yield %d, %less : tensor<64x64xf32>, i32
  }
  tile.store %pc, %w#0 : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}
}
