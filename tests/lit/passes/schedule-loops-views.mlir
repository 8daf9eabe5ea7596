// Loads of views in a loop are fetched ahead as they are: their blocks have no addresses yet, and what the loop computes for
// them is scalars alone.
// RUN: sed s/CHIP/sm_80/ %s | sectile-opt --simplify --select-mma --assign-layouts --simplify --schedule-loops | FileCheck %s --check-prefixes=CHECK,COPIES --implicit-check-not=x!tile.ptr
// RUN: sed s/CHIP/gfx942/ %s | sectile-opt --simplify --select-mma --assign-layouts --simplify --schedule-loops | FileCheck %s --check-prefixes=CHECK,REGISTERS --implicit-check-not=x!tile.ptr

// CHECK-LABEL: func.func @matmul
// CHECK: %[[A:.*]] = tile.make_view
// CHECK: %[[B:.*]] = tile.make_view

// COPIES: %[[NONE:.*]] = arith.cmpi sgt
// COPIES: cta.async_copy_block %[[A]][%{{.*}}, %{{.*}}], %{{.*}} when %[[NONE]] {layout = #{{.*}}, vector = 8 : i32}
// COPIES: cta.async_copy_block %[[B]][%{{.*}}, %{{.*}}], %{{.*}} when %[[NONE]] {layout = #{{.*}}, vector = 8 : i32}
// COPIES: scf.for
// COPIES: cta.wait
// COPIES: %[[NEXT:.*]] = arith.cmpi ugt
// COPIES: cta.async_copy_block %[[A]][%{{.*}}, %[[K:.*]]], %{{.*}} when %[[NEXT]]
// COPIES: cta.async_copy_block %[[B]][%[[K]], %{{.*}}], %{{.*}} when %[[NEXT]]

// REGISTERS: tile.load_block %[[A]][%{{.*}}, %{{.*}}] when %[[ANY:[^ ]*]] :
// REGISTERS: tile.load_block %[[B]][%{{.*}}, %{{.*}}] when %[[ANY]] :
// REGISTERS: scf.for
// REGISTERS: cta.wait
// REGISTERS: tile.load_block %[[A]][%{{.*}}, %[[K:.*]]] when %[[NEXT:[^ ]*]] :
// REGISTERS: tile.load_block %[[B]][%[[K]], %{{.*}}] when %[[NEXT]] :
// REGISTERS: cta.dot
// REGISTERS: cta.local_store

// CHECK: tile.store_block
module attributes {cta.target = "CHIP"} {
  func.func @matmul(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %b: !tile.ptr<f16> {tile.divisible = 16 : i64}, %c: !tile.ptr<f32>,
                    %m: i32, %n: i32 {tile.divisible = 16 : i64}, %k: i32 {tile.divisible = 16 : i64})
      attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c32 = arith.constant 32 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %c64 = arith.constant 64 : i32
    %id = tile.program_id 0
    %i = arith.muli %id, %c64 : i32
    %va = tile.make_view %a, [%m, %k], [%k, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %vb = tile.make_view %b, [%k, %n], [%n, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %vc = tile.make_view %c, [%m, %n], [%n, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %r = scf.for %kk = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.load_block %va[%i, %kk] : !tile.view<2xf16>, [i32, i32] -> tensor<64x32xf16>
      %y = tile.load_block %vb[%kk, %i] : !tile.view<2xf16>, [i32, i32] -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.store_block %vc[%i, %c0], %r : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}
