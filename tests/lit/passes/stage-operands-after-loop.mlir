// What a loop leaves is the operand of a dot behind it, while loads of the loop are fetched ahead, which makes the loop
// another operation.
// RUN: sectile-opt --select-mma --assign-layouts --schedule-loops --stage-operands %s | FileCheck %s

module attributes {cta.target = "sm_80"} {
// CHECK-LABEL: func.func @after
// CHECK: %[[LOOP:.*]]:{{.*}} = scf.for
// CHECK: cta.wait
// CHECK: scf.yield
// CHECK: %[[B:.*]] = cta.alloc %[[LOOP]]#0
// CHECK: cta.dot %[[B]]
func.func @after(%in: !tile.ptr<f32>, %out: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
  %p = tile.splat %in : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %q = tile.splat %out : !tile.ptr<f32> -> tensor<64x16x!tile.ptr<f32>>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %half = arith.constant dense<0.5> : tensor<64x64xf32>
  %narrow = arith.constant dense<0.5> : tensor<64x16xf32>
  %sum = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %a = tile.load %p : tensor<64x64x!tile.ptr<f32>> -> tensor<64x64xf32>
    %d = tile.dot %a, %half, %acc : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  %twice = tile.dot %sum, %narrow, %narrow {precision = 1 : i32} : tensor<64x64xf32>, tensor<64x16xf32>, tensor<64x16xf32>
  tile.store %q, %twice : tensor<64x16x!tile.ptr<f32>>, tensor<64x16xf32>
  return
}
}
