// RUN: sectile-opt --lower-views --split-input-file %s | FileCheck %s

// The scalar part of the address goes into the pointer, and steps within the block follow, dimension by dimension: in 64
// bits, but for strides that are small constants. A stride that is the constant 1 is not multiplied by. Layouts are the
// tile's, and what follows from it for the parts that are made along one dimension.
// CHECK-LABEL: func.func @load
// CHECK-SAME: %[[P:.*]]: !tile.ptr<f16>, %[[M:.*]]: i32, %[[N:.*]]: i64, %[[S:.*]]: i64
// CHECK-DAG: %[[I:.*]] = tile.program_id 0
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : i32
// CHECK: %[[IW:.*]] = arith.extsi %[[I]] : i32 to i64
// CHECK: %[[ROW:.*]] = arith.muli %[[IW]], %[[S]] : i64
// CHECK: %[[P1:.*]] = tile.addptr %[[P]], %[[ROW]] : !tile.ptr<f16>, i64
// CHECK: %[[P2:.*]] = tile.addptr %[[P1]], %{{.*}} : !tile.ptr<f16>, i64
// CHECK: tile.splat %[[P2]] : !tile.ptr<f16> -> tensor<1x1x!tile.ptr<f16>, #{{.*}}>
// CHECK: %[[R:.*]] = tile.arange 0 : tensor<96xi32, #[[ROWS:.*]]>
// CHECK: %[[R64:.*]] = arith.extsi %[[R]] : tensor<96xi32, #[[ROWS]]> to tensor<96xi64, #[[ROWS]]>
// CHECK: arith.muli %[[R64]], %{{.*}} : tensor<96xi64, #[[ROWS]]>
// CHECK: tile.addptr %{{.*}} : tensor<96x1x!tile.ptr<f16>, #[[COLUMN:.*]]>, tensor<96x1xi64, #[[COLUMN]]>
// CHECK: %[[C:.*]] = tile.arange 0 : tensor<32xi32, #{{.*}}>
// CHECK-NEXT: tile.expand_dims %[[C]] 0
// CHECK: %[[Q:.*]] = tile.addptr %{{.*}} : tensor<96x32x!tile.ptr<f16>, #[[TILE:.*]]>, tensor<96x32xi32, #[[TILE]]>

// What is left of the extents is clamped to the block's, so that 32 bits compare.
// CHECK: %[[MW:.*]] = arith.extsi %[[M]] : i32 to i64
// CHECK: %[[LEFT:.*]] = arith.subi %[[MW]], %{{.*}} : i64
// CHECK: arith.maxsi %[[LEFT]]
// CHECK: arith.minsi
// CHECK: arith.trunci %{{.*}} : i64 to i32
// CHECK: arith.cmpi slt, %{{.*}} : tensor<96xi32, #{{.*}}>
// A program's number is not negative, the argument may be: there both bounds are compared.
// CHECK-NOT: arith.cmpi sge, %{{.*}} : tensor<96xi32
// CHECK: arith.subi %[[N]], %{{.*}} : i64
// CHECK: arith.cmpi slt, %{{.*}} : tensor<32xi32, #{{.*}}>
// CHECK: arith.cmpi sge, %{{.*}} : tensor<32xi32, #{{.*}}>
// CHECK: %[[MASK:.*]] = arith.andi %{{.*}} : tensor<96x32xi1, #[[TILE]]>
// CHECK: %[[OTHER:.*]] = arith.constant dense<-1.000000e+00> : tensor<96x32xf16, #[[TILE]]>
// CHECK: tile.load %[[Q]] mask %[[MASK]] other %[[OTHER]] {cache = 2 : i32}
// CHECK-NOT: tile.make_view
#rows = #cta.layout<"96x32, register [(0,1) (0,2) (0,4) (4,0) (8,0) (16,0)], lane [(0,8) (0,16) (1,0) (2,0) (0,0)]">
module attributes {cta.target = "sm_80"} {
func.func @load(%p: !tile.ptr<f16>, %m: i32, %n: i64, %s: i64, %j: i32) -> tensor<96x32xf16, #rows>
    attributes {cta.warps = 1 : i32} {
  %one = arith.constant 1 : i32
  %i = tile.program_id 0
  %v = tile.make_view %p, [%m, %n], [%s, %one] : !tile.ptr<f16>, [i32, i64], [i64, i32] -> !tile.view<2xf16>
  %t = tile.load_block %v[%i, %j] padding -1.0 : f16 {cache = 2 : i32} : !tile.view<2xf16>, [i32, i32]
      -> tensor<96x32xf16, #rows>
  return %t : tensor<96x32xf16, #rows>
}
}

// -----

// What is left of a 32-bit extent after a constant needs no clamp.
// CHECK-LABEL: func.func @first
// CHECK-SAME: !tile.ptr<f16>, %[[N:[a-z0-9]*]]: i32
// CHECK: %[[NW:.*]] = arith.extsi %[[N]] : i32 to i64
// CHECK: %[[LEFT:.*]] = arith.subi %[[NW]], %{{.*}} : i64
// CHECK-NOT: arith.maxsi
// CHECK: %[[BOUND:.*]] = arith.trunci %[[LEFT]] : i64 to i32
// CHECK: tile.splat %[[BOUND]]
// CHECK: arith.cmpi slt, %{{.*}} : tensor<64xi32, #{{.*}}>
#line = #cta.layout<"64, register [(1)], lane [(2) (4) (8) (16) (32)]">
module attributes {cta.target = "sm_80"} {
func.func @first(%p: !tile.ptr<f16>, %n: i32) -> tensor<64xf16, #line> attributes {cta.warps = 1 : i32} {
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  %v = tile.make_view %p, [%n], [%one] : !tile.ptr<f16>, [i32], [i32] -> !tile.view<1xf16>
  %t = tile.load_block %v[%zero] : !tile.view<1xf16>, [i32] -> tensor<64xf16, #line>
  return %t : tensor<64xf16, #line>
}
}

// -----

// CHECK-LABEL: func.func @store
// CHECK: arith.extsi %{{.*}} : tensor<64xi32, #[[T:.*]]> to tensor<64xi64, #[[T]]>
// CHECK: tile.addptr %{{.*}} : tensor<64x!tile.ptr<i32>, #[[T]]>, tensor<64xi64, #[[T]]>
// CHECK: tile.store %{{.*}}, %{{.*}} mask %{{.*}} : tensor<64x!tile.ptr<i32>, #[[T]]>, tensor<64xi32, #[[T]]> mask tensor<64xi1, #[[T]]>
// CHECK: tile.atomic_rmw add, %{{[^ ]*}}, %{{[^ ]*}} mask %{{[^ ]*}} {order = 0 : i32}
#line = #cta.layout<"64, register [(1)], lane [(2) (4) (8) (16) (32)]">
module attributes {cta.target = "sm_80"} {
func.func @store(%p: !tile.ptr<i32>, %n: i32, %s: i32, %t: tensor<64xi32, #line>) attributes {cta.warps = 1 : i32} {
  %i = tile.program_id 0
  %v = tile.make_view %p, [%n], [%s] : !tile.ptr<i32>, [i32], [i32] -> !tile.view<1xi32>
  tile.store_block %v[%i], %t : !tile.view<1xi32>, [i32], tensor<64xi32, #line>
  %old = tile.atomic_block add, %v[%i], %t {order = 0 : i32} : !tile.view<1xi32>, [i32], tensor<64xi32, #line> -> tensor<64xi32, #line>
  return
}
}

// -----

// CHECK-LABEL: func.func @constant_stride
// CHECK: arith.muli %{{.*}} : tensor<64xi32, #{{.*}}>
// CHECK: arith.muli %{{.*}} : tensor<64xi64, #{{.*}}>
#line = #cta.layout<"64, register [(1)], lane [(2) (4) (8) (16) (32)]">
module attributes {cta.target = "sm_80"} {
func.func @constant_stride(%p: !tile.ptr<i32>, %n: i32) -> (tensor<64xi32, #line>, tensor<64xi32, #line>)
    attributes {cta.warps = 1 : i32} {
  %i = tile.program_id 0
  %small = arith.constant 80 : i64
  %large = arith.constant 0x4000000 : i64
  %v = tile.make_view %p, [%n], [%small] : !tile.ptr<i32>, [i32], [i64] -> !tile.view<1xi32>
  %w = tile.make_view %p, [%n], [%large] : !tile.ptr<i32>, [i32], [i64] -> !tile.view<1xi32>
  %0 = tile.load_block %v[%i] : !tile.view<1xi32>, [i32] -> tensor<64xi32, #line>
  %1 = tile.load_block %w[%i] : !tile.view<1xi32>, [i32] -> tensor<64xi32, #line>
  return %0, %1 : tensor<64xi32, #line>, tensor<64xi32, #line>
}
}

// -----

// A view that a loop only hands on is the one that enters it.
// CHECK-LABEL: func.func @carried
// CHECK: scf.for
// CHECK: tile.load
// CHECK: tile.load
#line = #cta.layout<"64, register [(1)], lane [(2) (4) (8) (16) (32)]">
module attributes {cta.target = "sm_80"} {
func.func @carried(%p: !tile.ptr<f32>, %n: i32) -> (tensor<64xf32, #line>, tensor<64xf32, #line>)
    attributes {cta.warps = 1 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64xf32, #line>
  %v = tile.make_view %p, [%n], [%c1] : !tile.ptr<f32>, [i32], [i32] -> !tile.view<1xf32>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %w = %v) -> (tensor<64xf32, #line>, !tile.view<1xf32>) : i32 {
    %t = tile.load_block %w[%i] : !tile.view<1xf32>, [i32] -> tensor<64xf32, #line>
    %s = arith.addf %acc, %t : tensor<64xf32, #line>
    scf.yield %s, %w : tensor<64xf32, #line>, !tile.view<1xf32>
  }
  %t = tile.load_block %r#1[%c0] : !tile.view<1xf32>, [i32] -> tensor<64xf32, #line>
  return %r#0, %t : tensor<64xf32, #line>, tensor<64xf32, #line>
}
}

// -----

// What is known to lie within the view is not compared; a block that counts only under a condition is, in one piece.
// CHECK-LABEL: func.func @inside
// CHECK-SAME: %{{.*}}: !tile.ptr<f32>, %[[WHEN:.*]]: i1
// CHECK-NOT: arith.cmpi
// CHECK: tile.load %{{[^ ]*}} : tensor<64x!tile.ptr<f32>
// CHECK-NOT: arith.cmpi
// CHECK: %[[MASK:.*]] = tile.splat %[[WHEN]] : i1 -> tensor<64xi1, #{{.*}}>
// CHECK: tile.load %{{.*}} mask %[[MASK]] : tensor<64x!tile.ptr<f32>
// A copy keeps the width it was made with.
// CHECK: %[[SAME:.*]] = tile.splat %[[WHEN]] : i1 -> tensor<64xi1, #{{.*}}>
// CHECK: cta.async_copy %{{.*}}, %{{.*}} mask %[[SAME]] {cache = 2 : i32, vector = 2 : i32} : tensor<64x!tile.ptr<f32>
#line = #cta.layout<"64, register [(1)], lane [(2) (4) (8) (16) (32)]">
#shared = #cta.layout<"64, shared [(1) (2) (4) (8) (16) (32)]">
module attributes {cta.target = "sm_80"} {
func.func @inside(%p: !tile.ptr<f32>, %when: i1) -> (tensor<64xf32, #line>, tensor<64xf32, #line>)
    attributes {cta.warps = 1 : i32} {
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %c1 = arith.constant 1 : i32
  %v = tile.make_view %p, [%c128], [%c1] : !tile.ptr<f32>, [i32], [i32] -> !tile.view<1xf32>
  %0 = tile.load_block %v[%c64] padding 1.0 : f32 : !tile.view<1xf32>, [i32] -> tensor<64xf32, #line>
  %1 = tile.load_block %v[%c64] when %when : !tile.view<1xf32>, [i32] -> tensor<64xf32, #line>
  %b = cta.alloc : !cta.buffer<64xf32, #shared>
  cta.async_copy_block %v[%c64], %b when %when {cache = 2 : i32, layout = #line, vector = 2 : i32}
      : !tile.view<1xf32>, [i32], !cta.buffer<64xf32, #shared>
  return %0, %1 : tensor<64xf32, #line>, tensor<64xf32, #line>
}
}
