// Layouts of memory accesses, reductions and what is computed between them.
// RUN: sectile-opt %s --assign-layouts --split-input-file | FileCheck %s

// A reduction's result and what is computed from it need no conversion.
// CHECK: #[[L:.+]] = #cta.layout<"1024, register [(1) (2) (512)], lane [(4) (8) (16) (32) (64)], warp [(128) (256)]">
// CHECK-LABEL: func.func @normalize
// CHECK: tile.load %{{.*}} -> tensor<1024xf32, #[[L]]>
// CHECK-NOT: convert_layout
// CHECK: tile.store %{{.*}}, tensor<1024xf32, #[[L]]>
module attributes {cta.target = "sm_80"} {
  func.func @normalize(%x: !tile.ptr<f32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<1024xi32>
    %p = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
    %q = tile.addptr %p, %i : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    %v = tile.load %q : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
    %s = tile.reduce %v 0 : (tensor<1024xf32>) -> f32 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    }
    %sv = tile.splat %s : f32 -> tensor<1024xf32>
    %o = arith.divf %v, %sv : tensor<1024xf32>
    tile.store %q, %o : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
    return
  }
}

// -----

// Threads share the core of 1024, so that each has vectors of four of it, five times: vectors of
// eight would leave half of the threads with copies.
// CHECK: #[[L:.+]] = #cta.layout<"5120, register [(1) (2)], lane [(4) (8) (16) (32) (64)], warp [(128) (256) (512)]">
// CHECK-LABEL: func.func @repeats
// CHECK: tile.load %{{.*}} -> tensor<5120xf16, #[[L]]>
module attributes {cta.target = "sm_80"} {
  func.func @repeats(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 8 : i32} {
    %i = tile.arange 0 : tensor<5120xi32>
    %p = tile.splat %x : !tile.ptr<f16> -> tensor<5120x!tile.ptr<f16>>
    %q = tile.addptr %p, %i : tensor<5120x!tile.ptr<f16>>, tensor<5120xi32>
    %v = tile.load %q : tensor<5120x!tile.ptr<f16>> -> tensor<5120xf16>
    %w = arith.negf %v : tensor<5120xf16>
    tile.store %q, %w : tensor<5120x!tile.ptr<f16>>, tensor<5120xf16>
    return
  }
}

// -----

// A row to a warp: the sums stay within warps. Three repeats of a core of 32 columns.
// CHECK: #[[L:.+]] = #cta.layout<"4x96, lane [(0,1) (0,2) (0,4) (0,8) (0,16)], warp [(1,0) (2,0)]">
// CHECK-LABEL: func.func @softmax
// CHECK: tile.load %{{.*}} -> tensor<4x96xf32, #[[L]]>
// CHECK-NOT: convert_layout
// CHECK: tile.store %{{.*}}, tensor<4x96xf32, #[[L]]>
module attributes {cta.target = "sm_80"} {
  func.func @softmax(%x: !tile.ptr<f32> {tile.divisible = 16 : i64}, %y: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32, %stride: i32 {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %ninf = arith.constant dense<0xFF800000> : tensor<4x96xf32>
    %r = tile.arange 0 : tensor<4xi32>
    %ss = tile.splat %stride : i32 -> tensor<4xi32>
    %r1 = arith.muli %r, %ss : tensor<4xi32>
    %r2 = tile.expand_dims %r1 1 : tensor<4xi32> -> tensor<4x1xi32>
    %r3 = tile.broadcast %r2 : tensor<4x1xi32> -> tensor<4x96xi32>
    %c = tile.arange 0 : tensor<96xi32>
    %c1 = tile.expand_dims %c 0 : tensor<96xi32> -> tensor<1x96xi32>
    %c2 = tile.broadcast %c1 : tensor<1x96xi32> -> tensor<4x96xi32>
    %ns = tile.splat %n : i32 -> tensor<4x96xi32>
    %m = arith.cmpi slt, %c2, %ns : tensor<4x96xi32>
    %o = arith.addi %r3, %c2 : tensor<4x96xi32>
    %p0 = tile.splat %x : !tile.ptr<f32> -> tensor<4x96x!tile.ptr<f32>>
    %p = tile.addptr %p0, %o : tensor<4x96x!tile.ptr<f32>>, tensor<4x96xi32>
    %v = tile.load %p mask %m other %ninf : tensor<4x96x!tile.ptr<f32>> mask tensor<4x96xi1> other tensor<4x96xf32> -> tensor<4x96xf32>
    %mx = tile.reduce %v 1 : (tensor<4x96xf32>) -> tensor<4xf32> {
      ^bb0(%a: f32, %b: f32):
        %z = arith.maximumf %a, %b : f32
        tile.yield %z : f32
    }
    %mx1 = tile.expand_dims %mx 1 : tensor<4xf32> -> tensor<4x1xf32>
    %mx2 = tile.broadcast %mx1 : tensor<4x1xf32> -> tensor<4x96xf32>
    %d = arith.subf %v, %mx2 : tensor<4x96xf32>
    %e = math.exp %d : tensor<4x96xf32>
    %s = tile.reduce %e 1 : (tensor<4x96xf32>) -> tensor<4xf32> {
      ^bb0(%a: f32, %b: f32):
        %z = arith.addf %a, %b : f32
        tile.yield %z : f32
    }
    %s1 = tile.expand_dims %s 1 : tensor<4xf32> -> tensor<4x1xf32>
    %s2 = tile.broadcast %s1 : tensor<4x1xf32> -> tensor<4x96xf32>
    %w = arith.divf %e, %s2 : tensor<4x96xf32>
    %q0 = tile.splat %y : !tile.ptr<f32> -> tensor<4x96x!tile.ptr<f32>>
    %q = tile.addptr %q0, %o : tensor<4x96x!tile.ptr<f32>>, tensor<4x96xi32>
    tile.store %q, %w mask %m : tensor<4x96x!tile.ptr<f32>>, tensor<4x96xf32> mask tensor<4x96xi1>
    return
  }
}

// -----

// Both sides of the transpose move vectors of a row; one conversion lies between.
// CHECK: #[[ROWS:.+]] = #cta.layout<"64x64, register [(0,1) (0,2) {{.*}}], lane [(0,4) (0,8) (0,16)
// CHECK-LABEL: func.func @transpose
// CHECK: tile.load {{.*}} -> tensor<64x64xf32, #[[ROWS]]>
// CHECK: cta.convert_layout {{.*}} -> tensor<64x64xf32, #[[ROWS]]>
// CHECK-NOT: cta.convert_layout
// CHECK: tile.store {{.*}} tensor<64x64xf32, #[[ROWS]]>
module attributes {cta.target = "gfx942"} {
  func.func @transpose(%x: !tile.ptr<f32> {tile.divisible = 16 : i64}, %y: !tile.ptr<f32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<4096xi32>
    %i2 = tile.reshape %i : tensor<4096xi32> -> tensor<64x64xi32>
    %px = tile.splat %x : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
    %p = tile.addptr %px, %i2 : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
    %v = tile.load %p : tensor<64x64x!tile.ptr<f32>> -> tensor<64x64xf32>
    %t = tile.permute %v [1, 0] : tensor<64x64xf32> -> tensor<64x64xf32>
    %py = tile.splat %y : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
    %q = tile.addptr %py, %i2 : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
    tile.store %q, %t : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
    return
  }
}

// -----

// What a branch and a loop carry has one layout; the store's is the loads'.
// CHECK: #[[L:.+]] = #cta.layout<
// CHECK-LABEL: func.func @carried
// CHECK: scf.if %{{.*}} -> (tensor<512xf32, #[[L]]>)
// CHECK: scf.while {{.*}} : (tensor<512xf32, #[[L]]>, i32) -> (tensor<512xf32, #[[L]]>, i32)
// CHECK-NOT: convert_layout
// CHECK: return
module attributes {cta.target = "sm_90a"} {
  func.func @carried(%x: !tile.ptr<f32> {tile.divisible = 16 : i64}, %c: i1, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
    %one = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : tensor<512xf32>
    %i = tile.arange 0 : tensor<512xi32>
    %px = tile.splat %x : !tile.ptr<f32> -> tensor<512x!tile.ptr<f32>>
    %p = tile.addptr %px, %i : tensor<512x!tile.ptr<f32>>, tensor<512xi32>
    %v = scf.if %c -> (tensor<512xf32>) {
      %w = tile.load %p : tensor<512x!tile.ptr<f32>> -> tensor<512xf32>
      scf.yield %w : tensor<512xf32>
    } else {
      scf.yield %zero : tensor<512xf32>
    }
    %r:2 = scf.while (%a = %v, %k = %n) : (tensor<512xf32>, i32) -> (tensor<512xf32>, i32) {
      %more = arith.cmpi sgt, %k, %one : i32
      scf.condition(%more) %a, %k : tensor<512xf32>, i32
    } do {
    ^bb0(%a: tensor<512xf32>, %k: i32):
      %b = arith.addf %a, %a : tensor<512xf32>
      %l = arith.subi %k, %one : i32
      scf.yield %b, %l : tensor<512xf32>, i32
    }
    tile.store %p, %r#0 : tensor<512x!tile.ptr<f32>>, tensor<512xf32>
    return
  }
}

// -----

// A tile of pairs is larger than the two rows of numbers that it is made of. All threads share it, 30 pairs each, where
// the layouts of a row or a column would have 128 threads compute a part of 16 of them, eight times.
// CHECK: #[[L:.+]] = #cta.layout<"48x80, register [(0,1)], lane [(0,2) (0,4) (0,8) (1,0) (2,0)], warp [(4,0) (8,0)]">
// CHECK-LABEL: func.func @pairs
// CHECK: arith.subf %{{.*}} : tensor<48x80xf32, #[[L]]>
// CHECK: math.rsqrt %{{.*}} : tensor<48x80xf32, #[[L]]>
module attributes {cta.target = "sm_90"} {
  func.func @pairs(%x: !tile.ptr<f32> {tile.divisible = 16 : i64}, %y: !tile.ptr<f32> {tile.divisible = 16 : i64}, %z: !tile.ptr<f32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %i = tile.arange 0 : tensor<48xi32>
    %px = tile.splat %x : !tile.ptr<f32> -> tensor<48x!tile.ptr<f32>>
    %qx = tile.addptr %px, %i : tensor<48x!tile.ptr<f32>>, tensor<48xi32>
    %a = tile.load %qx : tensor<48x!tile.ptr<f32>> -> tensor<48xf32>
    %j = tile.arange 0 : tensor<80xi32>
    %py = tile.splat %y : !tile.ptr<f32> -> tensor<80x!tile.ptr<f32>>
    %qy = tile.addptr %py, %j : tensor<80x!tile.ptr<f32>>, tensor<80xi32>
    %b = tile.load %qy : tensor<80x!tile.ptr<f32>> -> tensor<80xf32>
    %a1 = tile.expand_dims %a 1 : tensor<48xf32> -> tensor<48x1xf32>
    %b1 = tile.expand_dims %b 0 : tensor<80xf32> -> tensor<1x80xf32>
    %aa = tile.broadcast %a1 : tensor<48x1xf32> -> tensor<48x80xf32>
    %bb = tile.broadcast %b1 : tensor<1x80xf32> -> tensor<48x80xf32>
    %d = arith.subf %aa, %bb : tensor<48x80xf32>
    %r = math.rsqrt %d : tensor<48x80xf32>
    %s = tile.reduce %r 1 : (tensor<48x80xf32>) -> tensor<48xf32> {
    ^bb0(%l: f32, %h: f32):
      %c = arith.addf %l, %h : f32
      tile.yield %c : f32
    }
    %pz = tile.splat %z : !tile.ptr<f32> -> tensor<48x!tile.ptr<f32>>
    %qz = tile.addptr %pz, %i : tensor<48x!tile.ptr<f32>>, tensor<48xi32>
    tile.store %qz, %s : tensor<48x!tile.ptr<f32>>, tensor<48xf32>
    return
  }
}
