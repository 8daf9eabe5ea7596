// Every operation of the dialect, printed, read back and printed again.
// RUN: sectile-opt %s | sectile-opt | FileCheck %s
// RUN: sectile-opt -emit-bytecode %s | sectile-opt | FileCheck %s

// CHECK-LABEL: func.func @programs
func.func @programs() -> (i32, i32) attributes {tile.kernel} {
  // CHECK: tile.program_id 0
  %0 = tile.program_id 0
  // CHECK: tile.num_programs 2
  %1 = tile.num_programs 2
  return %0, %1 : i32, i32
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: f16) {
  // CHECK: tile.arange -4 : tensor<96xi32>
  %0 = tile.arange -4 : tensor<96xi32>
  // CHECK: tile.splat %{{.*}} : f16 -> tensor<32x3xf16>
  %1 = tile.splat %x : f16 -> tensor<32x3xf16>
  // CHECK: tile.expand_dims %{{.*}} 1 : tensor<96xi32> -> tensor<96x1xi32>
  %2 = tile.expand_dims %0 1 : tensor<96xi32> -> tensor<96x1xi32>
  // CHECK: tile.broadcast %{{.*}} : tensor<96x1xi32> -> tensor<96x16xi32>
  %3 = tile.broadcast %2 : tensor<96x1xi32> -> tensor<96x16xi32>
  // CHECK: tile.reshape %{{.*}} : tensor<96x16xi32> -> tensor<8x12x16xi32>
  %4 = tile.reshape %3 : tensor<96x16xi32> -> tensor<8x12x16xi32>
  // CHECK: tile.permute %{{.*}} [2, 0, 1] : tensor<8x12x16xi32> -> tensor<16x8x12xi32>
  %5 = tile.permute %4 [2, 0, 1] : tensor<8x12x16xi32> -> tensor<16x8x12xi32>
  return
}

// CHECK-LABEL: func.func @memory
func.func @memory(%p: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %ps: tensor<64x!tile.ptr<f32>>, %i: tensor<64xi64>,
                  %mask: tensor<64xi1>, %other: tensor<64xf32>, %n: i64) {
  // CHECK: tile.addptr %{{.*}} : !tile.ptr<bf16>, i64
  %0 = tile.addptr %p, %n : !tile.ptr<bf16>, i64
  // CHECK: tile.addptr %{{.*}} : tensor<64x!tile.ptr<f32>>, tensor<64xi64>
  %1 = tile.addptr %ps, %i : tensor<64x!tile.ptr<f32>>, tensor<64xi64>
  // CHECK: tile.load %{{.*}} : !tile.ptr<bf16> -> bf16
  %2 = tile.load %0 : !tile.ptr<bf16> -> bf16
  // CHECK: tile.load %{{.*}} {isVolatile} : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %3 = tile.load %1 {isVolatile} : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  // CHECK: tile.load %{{.*}} mask %{{.*}} other %{{.*}} {cache = 2 : i32, eviction = 1 : i32} : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> other tensor<64xf32> -> tensor<64xf32>
  %4 = tile.load %1 mask %mask other %other {cache = 2 : i32, eviction = 1 : i32} : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> other tensor<64xf32> -> tensor<64xf32>
  // CHECK: tile.store %{{.*}}, %{{.*}} : !tile.ptr<bf16>, bf16
  tile.store %0, %2 : !tile.ptr<bf16>, bf16
  // CHECK: tile.store %{{.*}}, %{{.*}} mask %{{.*}} {vector = 4 : i32} : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
  tile.store %1, %4 mask %mask {vector = 4 : i32} : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
  return
}

// CHECK-LABEL: func.func @views
// CHECK-SAME: !tile.view<3xi8>
func.func @views(%p: !tile.ptr<f16>, %m: i32, %n: i64, %v: !tile.view<3xi8>) {
  // CHECK: tile.make_view %{{.*}}, [%{{.*}}, %{{.*}}], [%{{.*}}, %{{.*}}] : !tile.ptr<f16>, [i32, i64], [i64, i32] -> !tile.view<2xf16>
  %0 = tile.make_view %p, [%m, %n], [%n, %m] : !tile.ptr<f16>, [i32, i64], [i64, i32] -> !tile.view<2xf16>
  // CHECK: tile.load_block %{{.*}}[%{{.*}}, %{{.*}}] : !tile.view<2xf16>, [i32, i64] -> tensor<96x16xf16>
  %1 = tile.load_block %0[%m, %n] : !tile.view<2xf16>, [i32, i64] -> tensor<96x16xf16>
  // CHECK: tile.load_block %{{.*}}[%{{.*}}, %{{.*}}] padding 0xFC00 : f16 : !tile.view<2xf16>
  %2 = tile.load_block %0[%m, %n] padding 0xFC00 : f16 : !tile.view<2xf16>, [i32, i64] -> tensor<96x16xf16>
  // CHECK: tile.store_block %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}} : !tile.view<2xf16>, [i32, i64], tensor<96x16xf16>
  tile.store_block %0[%m, %n], %2 : !tile.view<2xf16>, [i32, i64], tensor<96x16xf16>
  return
}

// CHECK-LABEL: func.func @compute
func.func @compute(%a: tensor<96x32xf8E4M3FN>, %b: tensor<32x176xf8E5M2>, %acc: tensor<96x176xf32>,
                   %i: tensor<96x176xi32>, %row: tensor<8xf32>) {
  // CHECK: tile.dot %{{.*}} {precision = 1 : i32} : tensor<96x32xf8E4M3FN>, tensor<32x176xf8E5M2>, tensor<96x176xf32>
  %0 = tile.dot %a, %b, %acc {precision = 1 : i32} : tensor<96x32xf8E4M3FN>, tensor<32x176xf8E5M2>, tensor<96x176xf32>
  // CHECK: tile.reduce %{{.*}}, %{{.*}} 1 : (tensor<96x176xf32>, tensor<96x176xi32>) -> (tensor<96xf32>, tensor<96xi32>)
  // CHECK: ^bb0(%{{.*}}: f32, %{{.*}}: i32, %{{.*}}: f32, %{{.*}}: i32):
  // CHECK: tile.yield %{{.*}}, %{{.*}} : f32, i32
  %1:2 = tile.reduce %0, %i 1 : (tensor<96x176xf32>, tensor<96x176xi32>) -> (tensor<96xf32>, tensor<96xi32>) {
  ^bb0(%x: f32, %xi: i32, %y: f32, %yi: i32):
    %more = arith.cmpf ogt, %x, %y : f32
    %max = arith.select %more, %x, %y : f32
    %at = arith.select %more, %xi, %yi : i32
    tile.yield %max, %at : f32, i32
  }
  // CHECK: tile.reduce %{{.*}} 0 : (tensor<8xf32>) -> f32
  %2 = tile.reduce %row 0 : (tensor<8xf32>) -> f32 {
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    tile.yield %s : f32
  }
  return
}
