// Dots that their own iteration waits for: QK and the PV of the step before are in flight together, each wait names its
// dot, and warpgroups take turns in starting both. Nothing is in flight over the end of an iteration.
// RUN: sectile-opt --sectile-pipeline %s | FileCheck %s

// A wait that leaves the product of the values in flight hands their slot back too early.
// RUN: sectile-opt --sectile-pipeline %s | sed 's/ behind %[0-9]*/& {pending = 1 : i32}/' \
// RUN:   | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: 'cta.tensor_copy' op overwrites slot 0 in iteration 2 of 3

// Nobody hands slots back.
// RUN: sectile-opt --sectile-pipeline %s | sed '/mbarrier_arrive/d' \
// RUN:   | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=NEVER
// NEVER: error: 'cta.mbarrier_wait' op waits for ever

module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: func.func @weights_a_step_behind
// CHECK: cta.partition
// CHECK: cta.turn_wait
// CHECK-NEXT: %[[QK:.*]] = cta.dot_start
// CHECK: %[[PV:.*]] = cta.dot_start
// CHECK-NEXT: cta.turn_pass
// CHECK: cta.dot_wait %[[QK]] {pending = 1 : i32}
// CHECK-NOT: cta.mbarrier_arrive
// CHECK: math.exp2
// CHECK: cta.dot_wait %[[PV]] behind
// CHECK-NEXT: cta.mbarrier_arrive
// CHECK-NEXT: arith.truncf
func.func @weights_a_step_behind(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
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
  %none = arith.constant dense<0.0> : tensor<128x128xf32>
  %begin = arith.constant dense<0.0> : tensor<128x64xf32>
  %first = arith.constant dense<0.0> : tensor<128x128xf16>
  %sums:2 = scf.for %i = %c0 to %n step %c128 iter_args(%acc = %begin, %p = %first) -> (tensor<128x64xf32>, tensor<128x128xf16>) : i32 {
    %key = tile.load_block %keys[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
    %turned = tile.permute %key [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
    %scores = tile.dot %query, %turned, %none : tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>
    %value = tile.load_block %values[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
    %added = tile.dot %p, %value, %acc : tensor<128x128xf16>, tensor<128x64xf16>, tensor<128x64xf32>
    %weights = math.exp2 %scores : tensor<128x128xf32>
    %packed = arith.truncf %weights : tensor<128x128xf32> to tensor<128x128xf16>
    %rescaled = arith.mulf %added, %half : tensor<128x64xf32>
    scf.yield %rescaled, %packed : tensor<128x64xf32>, tensor<128x128xf16>
  } {cta.warp_specialize = true}
  tile.store_block %result[%c0, %c0], %sums#0 : !tile.view<2xf32>, [i32, i32], tensor<128x64xf32>
  return
}

// Scores in two parts: the second dot goes on adding to the sums of the first, and nobody waits between them. What is made of
// the weights by two operations waits for the dot that reads the same registers.
// CHECK-LABEL: func.func @scores_of_two_parts
// CHECK: cta.partition
// CHECK: cta.turn_wait
// CHECK-NEXT: %[[QK:.*]] = cta.dot_start
// CHECK: %[[BOTH:.*]] = cta.dot_start {{.*}}, %[[QK]] by
// CHECK: %[[PV:.*]] = cta.dot_start
// CHECK-NEXT: cta.turn_pass
// CHECK: cta.dot_wait %[[BOTH]] {pending = 1 : i32}
// CHECK-NOT: cta.mbarrier_arrive
// CHECK: math.exp2
// CHECK: %{{.*}}, %[[AFTER:.*]] = cta.dot_wait %[[PV]] behind
// CHECK-NEXT: cta.mbarrier_arrive
// CHECK-NEXT: %[[HALVES:.*]] = arith.truncf %[[AFTER]]
// CHECK-NEXT: arith.mulf %[[HALVES]], %[[HALVES]]
func.func @scores_of_two_parts(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %w: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %queries = tile.make_view %q, [%c128, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %keys = tile.make_view %k, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %others = tile.make_view %w, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %values = tile.make_view %v, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %result = tile.make_view %o, [%c128, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %query = tile.load_block %queries[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
  %none = arith.constant dense<0.0> : tensor<128x128xf32>
  %begin = arith.constant dense<0.0> : tensor<128x64xf32>
  %first = arith.constant dense<0.0> : tensor<128x128xf16>
  %sums:2 = scf.for %i = %c0 to %n step %c128 iter_args(%acc = %begin, %p = %first) -> (tensor<128x64xf32>, tensor<128x128xf16>) : i32 {
    %key = tile.load_block %keys[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
    %turned = tile.permute %key [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
    %scores = tile.dot %query, %turned, %none : tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>
    %more = tile.load_block %others[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
    %across = tile.permute %more [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
    %both = tile.dot %query, %across, %scores : tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>
    %value = tile.load_block %values[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
    %added = tile.dot %p, %value, %acc : tensor<128x128xf16>, tensor<128x64xf16>, tensor<128x64xf32>
    %weights = math.exp2 %both : tensor<128x128xf32>
    %halves = arith.truncf %weights : tensor<128x128xf32> to tensor<128x128xf16>
    %packed = arith.mulf %halves, %halves : tensor<128x128xf16>
    %rescaled = arith.mulf %added, %half : tensor<128x64xf32>
    scf.yield %rescaled, %packed : tensor<128x64xf32>, tensor<128x128xf16>
  } {cta.warp_specialize = true}
  tile.store_block %result[%c0, %c0], %sums#0 : !tile.view<2xf32>, [i32, i32], tensor<128x64xf32>
  return
}

// A result that is used at once is waited for at once.
// CHECK-LABEL: func.func @used_at_once
// CHECK-NOT: cta.dot_start
// CHECK: return
func.func @used_at_once(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %queries = tile.make_view %q, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %keys = tile.make_view %k, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %result = tile.make_view %o, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %query = tile.load_block %queries[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
  %none = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %none) -> (tensor<64x64xf32>) : i32 {
    %key = tile.load_block %keys[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %turned = tile.permute %key [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %scores = tile.dot %query, %turned, %none : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    %weights = math.exp2 %scores : tensor<64x64xf32>
    %added = arith.addf %acc, %weights : tensor<64x64xf32>
    scf.yield %added : tensor<64x64xf32>
  }
  tile.store_block %result[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
  return
}

// The dot that an inner loop leaves in flight was started after the outer loop's.
// CHECK-LABEL: func.func @before_an_inner_loop
// CHECK: %[[OUTER:.*]] = cta.dot_start
// CHECK: %[[INNER:.*]] = scf.for
// CHECK: cta.dot_start
// CHECK: cta.dots_wait 1
// CHECK: cta.dot_wait %[[INNER]] :
// CHECK: cta.dot_wait %[[OUTER]] :
func.func @before_an_inner_loop(%p: !tile.ptr<f16> {tile.divisible = 16 : i64}, %v: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %weights = tile.make_view %p, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %values = tile.make_view %v, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %result = tile.make_view %o, [%c128, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %weight = tile.load_block %weights[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
  %turned = tile.permute %weight [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
  %none = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums:2 = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %none, %other = %none) -> (tensor<64x64xf32>, tensor<64x64xf32>) : i32 {
    %negative = arith.negf %acc : tensor<64x64xf32>
    %value = tile.load_block %values[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %added = tile.dot %weight, %value, %negative : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    %positive = arith.maximumf %other, %none : tensor<64x64xf32>
    %inner = scf.for %j = %c0 to %c2 step %c1 iter_args(%more = %positive) -> (tensor<64x64xf32>) : i32 {
      %product = tile.dot %turned, %turned, %more : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %product : tensor<64x64xf32>
    }
    tile.store_block %result[%c0, %c0], %inner : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    scf.yield %added, %inner : tensor<64x64xf32>, tensor<64x64xf32>
  }
  tile.store_block %result[%c64, %c0], %sums#0 : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
  return
}
}
