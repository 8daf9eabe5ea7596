// The last dot of a loop is done an iteration later: with the weights that the loop carries, and a load under a condition.
// Loads stay as they are where a loop has one stage.
// RUN: sed 's/stages = 2/stages = 1/' %s | sectile-opt --select-mma --assign-layouts --schedule-loops --split-input-file | FileCheck %s
// A target without the engine, and a loop that does not ask for it, keep the plain order.
// RUN: sed 's/sm_90a/sm_80/' %s | sectile-opt --select-mma --assign-layouts --schedule-loops --split-input-file | FileCheck %s --check-prefix=PLAIN
// RUN: sed 's/warp_specialize = true/warp_specialize = false/' %s \
// RUN:   | sectile-opt --select-mma --assign-layouts --schedule-loops --split-input-file | FileCheck %s --check-prefix=PLAIN
// PLAIN-NOT: scf.for {{.*}}128x64xf16
// Two warpgroups do both dots of an iteration in turn; one does not.
// RUN: sectile-opt --select-mma --assign-layouts --schedule-loops --split-input-file %s | FileCheck %s --check-prefix=TURNS
// RUN: sed 's/warps = 8/warps = 4/' %s | sectile-opt --select-mma --assign-layouts --schedule-loops --split-input-file | FileCheck %s --check-prefix=ALONE
// TURNS-LABEL: func.func @attention
// TURNS: cta.takes_turns
// ALONE-NOT: cta.takes_turns
// All of it: the loop of the last iteration goes on with the ring of the values.
// RUN: sectile-opt --sectile-pipeline --split-input-file %s | FileCheck %s --check-prefix=RING
// RING-LABEL: func.func @attention
// RING-COUNT-2: cta.channel {between_warps
// RING-NOT: cta.channel {
// RING: cta.partition

module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: func.func @attention
// CHECK: %[[NOTHING:.*]] = arith.constant dense<0.000000e+00> : tensor<128x64xf16
// CHECK: %[[LOOP:.*]]:2 = scf.for %[[I:.*]] = %[[FIRST:.*]] to %[[END:.*]] step %[[STEP:.*]] iter_args(%[[ACC:.*]] = {{.*}}, %[[P:.*]] = %[[NOTHING]])
// CHECK: %[[SCORES:.*]] = cta.dot
// CHECK: %[[LATER:.*]] = arith.cmpi sgt, %[[I]], %[[FIRST]]
// CHECK: %[[BEFORE:.*]] = arith.subi %[[I]], %[[STEP]]
// CHECK: %[[AT:.*]] = arith.maxsi %[[BEFORE]], %[[FIRST]]
// CHECK: %[[V:.*]] = tile.load_block {{.*}}[%[[AT]], {{.*}}] when %[[LATER]]
// CHECK: %[[ADDED:.*]] = cta.dot %[[P]], %{{.*}}, %[[ACC]]
// CHECK: %[[WEIGHTS:.*]] = math.exp2 %[[SCORES]]
// CHECK: %[[PACKED:.*]] = arith.truncf %[[WEIGHTS]]
// CHECK: %[[RESCALED:.*]] = arith.mulf %[[ADDED]]
// CHECK-NOT: cta.dot
// CHECK: scf.yield %[[RESCALED]], %[[PACKED]]
// CHECK: arith.maxsi
// CHECK: scf.for {{.*}} to %[[END]] step %[[STEP]] iter_args({{.*}} = %[[LOOP]]#0)
// CHECK-NOT: when
// CHECK: cta.dot %[[LOOP]]#1
func.func @attention(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %queries = tile.make_view %q, [%c128, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %keys = tile.make_view %k, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %values = tile.make_view %v, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %result = tile.make_view %o, [%c128, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %query = tile.load_block %queries[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
  %none = arith.constant dense<0.0> : tensor<128x64xf32>
  %sums = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %none) -> (tensor<128x64xf32>) : i32 {
    %key = tile.load_block %keys[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %turned = tile.permute %key [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %scores = tile.dot %query, %turned, %none : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
    %weights = math.exp2 %scores : tensor<128x64xf32>
    %packed = arith.truncf %weights : tensor<128x64xf32> to tensor<128x64xf16>
    %value = tile.load_block %values[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %rescaled = arith.mulf %acc, %half : tensor<128x64xf32>
    %added = tile.dot %packed, %value, %rescaled : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
    scf.yield %added : tensor<128x64xf32>
  } {cta.warp_specialize = true}
  tile.store_block %result[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<128x64xf32>
  return
}
}

// -----

// Values that the loop carries are no load: the dot stays where it is.
module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: func.func @carried_values
// CHECK-NOT: arith.maxsi
// CHECK: return
func.func @carried_values(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %queries = tile.make_view %q, [%c128, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %keys = tile.make_view %k, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %values = tile.make_view %v, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %result = tile.make_view %o, [%c128, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %query = tile.load_block %queries[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
  %nothing = arith.constant dense<0.0> : tensor<64x64xf16>
  %none = arith.constant dense<0.0> : tensor<128x64xf32>
  %sums:2 = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %none, %value = %nothing) -> (tensor<128x64xf32>, tensor<64x64xf16>) : i32 {
    %key = tile.load_block %keys[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %turned = tile.permute %key [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %scores = tile.dot %query, %turned, %none : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
    %weights = math.exp2 %scores : tensor<128x64xf32>
    %packed = arith.truncf %weights : tensor<128x64xf32> to tensor<128x64xf16>
    %later = tile.load_block %values[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %rescaled = arith.mulf %acc, %half : tensor<128x64xf32>
    %added = tile.dot %packed, %value, %rescaled : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
    scf.yield %added, %later : tensor<128x64xf32>, tensor<64x64xf16>
  } {cta.warp_specialize = true}
  tile.store_block %result[%c0, %c0], %sums#0 : !tile.view<2xf32>, [i32, i32], tensor<128x64xf32>
  return
}
}
