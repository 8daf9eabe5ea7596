// Views' accesses on a target with buffer accesses: offsets of 32 bits from the block's first element, where strides are
// known to be small and not negative.
// RUN: sectile-opt --lower-views --split-input-file --verify-diagnostics %s | FileCheck %s

// CHECK-LABEL: func.func @small
// CHECK-SAME: %[[P:.*]]: !tile.ptr<f16>, %{{.*}}: i32, %{{.*}}: i32, %[[S:[^:]*]]: i32
// CHECK: %[[BASE:.*]] = tile.addptr %{{.*}}, %{{.*}} : !tile.ptr<f16>, i64
// CHECK-NOT: tile.splat %[[BASE]]
// CHECK: %[[ROWS:.*]] = tile.arange 0 : tensor<16xi32, #{{.*}}>
// CHECK: tile.splat %[[S]] : i32 -> tensor<16xi32
// CHECK: arith.muli %[[ROWS]], %{{.*}} : tensor<16xi32
// CHECK: %[[OFFSETS:.*]] = arith.addi %{{.*}} : tensor<16x64xi32, #[[TILE:.*]]>
// CHECK: %[[MASK:.*]] = arith.andi %{{.*}} : tensor<16x64xi1, #[[TILE]]>
// CHECK: %[[OTHER:.*]] = arith.constant dense<1.000000e+00> : tensor<16x64xf16, #[[TILE]]>
// CHECK: cta.buffer_load %{{.*}}[%[[OFFSETS]]] mask %[[MASK]] other %[[OTHER]] {eviction = 1 : i32} : !tile.ptr<f16>
// CHECK: cta.buffer_store %{{.*}}[%{{.*}}], %{{.*}} mask %{{.*}} : !tile.ptr<f16>
#rows = #cta.layout<"16x64, register [(0,1) (0,2) (0,4) (8,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0) (4,0)]">
module attributes {cta.target = "gfx942"} {
func.func @small(%p: !tile.ptr<f16>, %m: i32, %n: i32, %s: i32 {tile.below = 0x100000 : i64})
    attributes {cta.warps = 1 : i32} {
  %one = arith.constant 1 : i32
  %i = tile.program_id 0
  %v = tile.make_view %p, [%m, %n], [%s, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %t = tile.load_block %v[%i, %i] padding 1.0 : f16 {eviction = 1 : i32} : !tile.view<2xf16>, [i32, i32] -> tensor<16x64xf16, #rows>
  tile.store_block %v[%i, %i], %t : !tile.view<2xf16>, [i32, i32], tensor<16x64xf16, #rows>
  return
}
}

// -----

// CHECK-LABEL: func.func @by_pointers
// CHECK-NOT: cta.buffer
// CHECK: cta.buffer_store
// CHECK-NOT: cta.buffer
#rows = #cta.layout<"16x64, register [(0,1) (0,2) (0,4) (8,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0) (4,0)]">
module attributes {cta.target = "gfx942"} {
func.func @by_pointers(%p: !tile.ptr<i64>, %n: i32, %any: i32, %large: i32 {tile.below = 0x1000000 : i64},
                       %t: tensor<16x64xi64, #rows>) attributes {cta.warps = 1 : i32} {
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  %v = tile.make_view %p, [%n, %n], [%any, %one] : !tile.ptr<i64>, [i32, i32], [i32, i32] -> !tile.view<2xi64>
  %w = tile.make_view %p, [%n, %n], [%large, %one] : !tile.ptr<i64>, [i32, i32], [i32, i32] -> !tile.view<2xi64>
  %x = tile.make_view %p, [%n, %n], [%one, %one] : !tile.ptr<i64>, [i32, i32], [i32, i32] -> !tile.view<2xi64>
  // expected-remark @+1 {{goes by pointers, not by offsets in a buffer: a stride may be negative}}
  tile.store_block %v[%zero, %zero], %t : !tile.view<2xi64>, [i32, i32], tensor<16x64xi64, #rows>
  // 15 rows of 2^24 - 1 numbers of 8 bytes just fit.
  tile.store_block %w[%zero, %zero], %t : !tile.view<2xi64>, [i32, i32], tensor<16x64xi64, #rows>
  // expected-remark @+1 {{goes by pointers, not by offsets in a buffer: it is atomic or volatile}}
  %old = tile.atomic_block add, %x[%zero, %zero], %t : !tile.view<2xi64>, [i32, i32], tensor<16x64xi64, #rows> -> tensor<16x64xi64, #rows>
  // expected-remark @+1 {{goes by pointers, not by offsets in a buffer: it is atomic or volatile}}
  tile.store_block %x[%zero, %zero], %t {cache = 4 : i32} : !tile.view<2xi64>, [i32, i32], tensor<16x64xi64, #rows>
  // expected-remark @+1 {{goes by pointers, not by offsets in a buffer: it is atomic or volatile}}
  %y = tile.load_block %x[%zero, %zero] {cache = 4 : i32} : !tile.view<2xi64>, [i32, i32] -> tensor<16x64xi64, #rows>
  return
}
}

// -----

// Where blocks hold more rows the same strides are too large.
// CHECK-LABEL: func.func @tall
// CHECK-NOT: cta.buffer
#tall = #cta.layout<"32x2, lane [(0,1) (1,0) (2,0) (4,0) (8,0) (16,0)]">
module attributes {cta.target = "gfx942"} {
func.func @tall(%p: !tile.ptr<i64>, %n: i32, %large: i32 {tile.below = 0x1000000 : i64}) -> tensor<32x2xi64, #tall>
    attributes {cta.warps = 1 : i32} {
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  %w = tile.make_view %p, [%n, %n], [%large, %one] : !tile.ptr<i64>, [i32, i32], [i32, i32] -> !tile.view<2xi64>
  // expected-remark @+1 {{goes by pointers, not by offsets in a buffer: strides are not known to be so small that offsets fit 31 bits}}
  %x = tile.load_block %w[%zero, %zero] : !tile.view<2xi64>, [i32, i32] -> tensor<32x2xi64, #tall>
  return %x : tensor<32x2xi64, #tall>
}
}
