// Loops of attention as users write them, traced from plain sources: the last dot meets its weights a step later and is in
// flight beside the softmax, a partition copies, and two warpgroups take turns. Without warp_specialize all warps
// copy, and none waits for its turn.
// RUN: sectile-opt --sectile-pipeline --split-input-file %s | FileCheck %s
// RUN: sed 's/cta.warp_specialize = true/cta.warp_specialize = false/' %s | sectile-opt --sectile-pipeline --split-input-file | FileCheck %s --check-prefix=PLAIN
// PLAIN-NOT: cta.partition
// PLAIN-NOT: cta.turn_wait

// One product of scores, one with the values.
// PLAIN-LABEL: func.func @plain
// PLAIN-COUNT-2: cta.dot_start
// PLAIN: cta.dot_wait {{.*}} {pending = 1 : i32}
// PLAIN: math.exp2
// PLAIN: cta.dot_wait {{.*}} behind
// CHECK-LABEL: func.func @plain
// CHECK: cta.partition
// CHECK: cta.turn_wait
// CHECK: %[[SCORES:.*]] = cta.dot_start
// CHECK: %[[VALUES:.*]] = cta.dot_start %[[WEIGHTS:.*]], %{{.*}}, %[[SUMS:.*]] by
// CHECK: cta.turn_pass
// CHECK: cta.dot_wait %[[SCORES]] {pending = 1 : i32}
// CHECK: math.exp2
// CHECK: cta.dot_wait %[[VALUES]] behind
// CHECK: scf.yield
module attributes {cta.target = "sm_90a"} {
  func.func @plain(%arg0: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg1: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg2: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg3: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg4: i32 {tile.below = 1073741824 : i64}, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg7: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg8: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg9: i32 {tile.below = 1073741824 : i64}, %arg10: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg11: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg12: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg13: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg14: i32 {tile.below = 1073741824 : i64}, %arg15: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg16: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg17: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg18: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg19: i32 {tile.below = 1073741824 : i64}, %arg20: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg21: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg22: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg23: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg24: i32 {tile.below = 1073741824 : i64}, %arg25: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg26: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg27: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg28: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg29: i32 {tile.below = 1073741824 : i64}) attributes {cta.stages = 2 : i32, cta.warps = 8 : i32, tile.kernel} {
    %c127_i32 = arith.constant 127 : i32
    %c0_i32 = arith.constant 0 : i32
    %c128_i32 = arith.constant 128 : i32
    %cst = arith.constant dense<0.000000e+00> : tensor<128xf32>
    %cst_0 = arith.constant dense<0xFF800000> : tensor<128xf32>
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %c1_i32 = arith.constant 1 : i32
    %0 = tile.program_id 0
    %1 = arith.muli %0, %c128_i32 {tile.fits} : i32
    %2 = tile.make_view %arg0, [%arg1, %arg2], [%arg3, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %3 = tile.load_block %2[%1, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %4 = arith.addi %arg11, %c127_i32 {tile.fits} : i32
    %5 = arith.divsi %4, %c128_i32 {tile.fits} : i32
    %6 = tile.make_view %arg10, [%arg11, %arg12], [%arg13, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %7 = tile.make_view %arg20, [%arg21, %arg22], [%arg23, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %8:3 = scf.for %arg30 = %c0_i32 to %5 step %c1_i32 iter_args(%arg31 = %cst_1, %arg32 = %cst_0, %arg33 = %cst) -> (tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>)  : i32 {
      %14 = arith.muli %arg30, %c128_i32 {tile.fits} : i32
      %15 = tile.load_block %6[%14, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
      %16 = tile.permute %15 [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
      %17 = tile.dot %3, %16, %cst_1 : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
      %18 = tile.reduce %17 1 : (tensor<128x128xf32>) -> tensor<128xf32> {
      ^bb0(%arg34: f32, %arg35: f32):
        %35 = tile.maximum_number %arg34, %arg35 : f32
        tile.yield %35 : f32
      }
      %19 = tile.maximum_number %arg32, %18 : tensor<128xf32>
      %20 = tile.expand_dims %19 1 : tensor<128xf32> -> tensor<128x1xf32>
      %21 = tile.broadcast %20 : tensor<128x1xf32> -> tensor<128x128xf32>
      %22 = arith.subf %17, %21 : tensor<128x128xf32>
      %23 = math.exp2 %22 : tensor<128x128xf32>
      %24 = arith.subf %arg32, %19 : tensor<128xf32>
      %25 = math.exp2 %24 : tensor<128xf32>
      %26 = arith.mulf %arg33, %25 : tensor<128xf32>
      %27 = tile.reduce %23 1 : (tensor<128x128xf32>) -> tensor<128xf32> {
      ^bb0(%arg34: f32, %arg35: f32):
        %35 = arith.addf %arg34, %arg35 : f32
        tile.yield %35 : f32
      }
      %28 = arith.addf %26, %27 : tensor<128xf32>
      %29 = arith.truncf %23 : tensor<128x128xf32> to tensor<128x128xf16>
      %30 = tile.load_block %7[%14, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
      %31 = tile.expand_dims %25 1 : tensor<128xf32> -> tensor<128x1xf32>
      %32 = tile.broadcast %31 : tensor<128x1xf32> -> tensor<128x128xf32>
      %33 = arith.mulf %arg31, %32 : tensor<128x128xf32>
      %34 = tile.dot %29, %30, %33 : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
      scf.yield %34, %19, %28 : tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>
    } {cta.warp_specialize = true}
    %9 = tile.expand_dims %8#2 1 : tensor<128xf32> -> tensor<128x1xf32>
    %10 = tile.broadcast %9 : tensor<128x1xf32> -> tensor<128x128xf32>
    %11 = arith.divf %8#0, %10 : tensor<128x128xf32>
    %12 = arith.truncf %11 : tensor<128x128xf32> to tensor<128x128xf16>
    %13 = tile.make_view %arg25, [%arg26, %arg27], [%arg28, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    tile.store_block %13[%1, %c0_i32], %12 : !tile.view<2xf16>, [i32, i32], tensor<128x128xf16>
    return
  }
}

// -----

// Three dots: scores are a sum of two, as in latent attention.
// PLAIN-LABEL: func.func @scores_in_two_parts
// PLAIN-COUNT-3: cta.dot_start
// PLAIN: cta.dot_wait {{.*}} {pending = 1 : i32}
// PLAIN: math.exp2
// PLAIN: cta.dot_wait {{.*}} behind
// CHECK-LABEL: func.func @scores_in_two_parts
// CHECK: cta.partition
// CHECK: cta.turn_wait
// CHECK: %[[SCORES:.*]] = cta.dot_start
// CHECK: %[[BOTH:.*]] = cta.dot_start %{{.*}}, %{{.*}}, %[[SCORES]]
// CHECK: %[[VALUES:.*]] = cta.dot_start %[[WEIGHTS:.*]], %{{.*}}, %[[SUMS:.*]] by
// CHECK: cta.turn_pass
// CHECK: cta.dot_wait %[[BOTH]] {pending = 1 : i32}
// CHECK: math.exp2
// CHECK: cta.dot_wait %[[VALUES]] behind
// CHECK: scf.yield
module attributes {cta.target = "sm_90a"} {
  func.func @scores_in_two_parts(%arg0: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg1: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg2: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg3: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg4: i32 {tile.below = 1073741824 : i64}, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg7: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg8: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg9: i32 {tile.below = 1073741824 : i64}, %arg10: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg11: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg12: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg13: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg14: i32 {tile.below = 1073741824 : i64}, %arg15: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg16: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg17: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg18: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg19: i32 {tile.below = 1073741824 : i64}, %arg20: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg21: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg22: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg23: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg24: i32 {tile.below = 1073741824 : i64}, %arg25: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg26: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg27: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg28: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg29: i32 {tile.below = 1073741824 : i64}) attributes {cta.stages = 2 : i32, cta.warps = 8 : i32, tile.kernel} {
    %c127_i32 = arith.constant 127 : i32
    %c0_i32 = arith.constant 0 : i32
    %c128_i32 = arith.constant 128 : i32
    %cst = arith.constant dense<0.000000e+00> : tensor<128xf32>
    %cst_0 = arith.constant dense<0xFF800000> : tensor<128xf32>
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %c1_i32 = arith.constant 1 : i32
    %0 = tile.program_id 0
    %1 = arith.muli %0, %c128_i32 {tile.fits} : i32
    %2 = tile.make_view %arg0, [%arg1, %arg2], [%arg3, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %3 = tile.load_block %2[%1, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %4 = tile.make_view %arg5, [%arg6, %arg7], [%arg8, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %5 = tile.load_block %4[%1, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
    %6 = arith.addi %arg11, %c127_i32 {tile.fits} : i32
    %7 = arith.divsi %6, %c128_i32 {tile.fits} : i32
    %8 = tile.make_view %arg10, [%arg11, %arg12], [%arg13, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %9 = tile.make_view %arg15, [%arg16, %arg17], [%arg18, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %10 = tile.make_view %arg20, [%arg21, %arg22], [%arg23, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %11:3 = scf.for %arg30 = %c0_i32 to %7 step %c1_i32 iter_args(%arg31 = %cst_1, %arg32 = %cst_0, %arg33 = %cst) -> (tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>)  : i32 {
      %17 = arith.muli %arg30, %c128_i32 {tile.fits} : i32
      %18 = tile.load_block %8[%17, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
      %19 = tile.permute %18 [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
      %20 = tile.dot %3, %19, %cst_1 : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
      %21 = tile.load_block %9[%17, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
      %22 = tile.permute %21 [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %23 = tile.dot %5, %22, %20 : tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>
      %24 = tile.reduce %23 1 : (tensor<128x128xf32>) -> tensor<128xf32> {
      ^bb0(%arg34: f32, %arg35: f32):
        %41 = tile.maximum_number %arg34, %arg35 : f32
        tile.yield %41 : f32
      }
      %25 = tile.maximum_number %arg32, %24 : tensor<128xf32>
      %26 = tile.expand_dims %25 1 : tensor<128xf32> -> tensor<128x1xf32>
      %27 = tile.broadcast %26 : tensor<128x1xf32> -> tensor<128x128xf32>
      %28 = arith.subf %23, %27 : tensor<128x128xf32>
      %29 = math.exp2 %28 : tensor<128x128xf32>
      %30 = arith.subf %arg32, %25 : tensor<128xf32>
      %31 = math.exp2 %30 : tensor<128xf32>
      %32 = arith.mulf %arg33, %31 : tensor<128xf32>
      %33 = tile.reduce %29 1 : (tensor<128x128xf32>) -> tensor<128xf32> {
      ^bb0(%arg34: f32, %arg35: f32):
        %41 = arith.addf %arg34, %arg35 : f32
        tile.yield %41 : f32
      }
      %34 = arith.addf %32, %33 : tensor<128xf32>
      %35 = arith.truncf %29 : tensor<128x128xf32> to tensor<128x128xf16>
      %36 = tile.load_block %10[%17, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
      %37 = tile.expand_dims %31 1 : tensor<128xf32> -> tensor<128x1xf32>
      %38 = tile.broadcast %37 : tensor<128x1xf32> -> tensor<128x128xf32>
      %39 = arith.mulf %arg31, %38 : tensor<128x128xf32>
      %40 = tile.dot %35, %36, %39 : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
      scf.yield %40, %25, %34 : tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>
    } {cta.warp_specialize = true}
    %12 = tile.expand_dims %11#2 1 : tensor<128xf32> -> tensor<128x1xf32>
    %13 = tile.broadcast %12 : tensor<128x1xf32> -> tensor<128x128xf32>
    %14 = arith.divf %11#0, %13 : tensor<128x128xf32>
    %15 = arith.truncf %14 : tensor<128x128xf32> to tensor<128x128xf16>
    %16 = tile.make_view %arg25, [%arg26, %arg27], [%arg28, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    tile.store_block %16[%1, %c0_i32], %15 : !tile.view<2xf16>, [i32, i32], tensor<128x128xf16>
    return
  }
}

// -----

// The first step of the loop masks its scores.
// PLAIN-LABEL: func.func @mask_under_a_condition
// PLAIN-COUNT-2: cta.dot_start
// PLAIN: cta.dot_wait {{.*}} {pending = 1 : i32}
// PLAIN: math.exp2
// PLAIN: cta.dot_wait {{.*}} behind
// CHECK-LABEL: func.func @mask_under_a_condition
// CHECK: cta.partition
// CHECK: cta.turn_wait
// CHECK: %[[SCORES:.*]] = cta.dot_start
// CHECK: %[[VALUES:.*]] = cta.dot_start %[[WEIGHTS:.*]], %{{.*}}, %[[SUMS:.*]] by
// CHECK: cta.turn_pass
// CHECK: cta.dot_wait %[[SCORES]] {pending = 1 : i32}
// CHECK: math.exp2
// CHECK: cta.dot_wait %[[VALUES]] behind
// CHECK: scf.yield
module attributes {cta.target = "sm_90a"} {
  func.func @mask_under_a_condition(%arg0: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg1: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg2: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg3: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg4: i32 {tile.below = 1073741824 : i64}, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg7: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg8: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg9: i32 {tile.below = 1073741824 : i64}, %arg10: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg11: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg12: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg13: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg14: i32 {tile.below = 1073741824 : i64}, %arg15: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg16: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg17: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg18: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg19: i32 {tile.below = 1073741824 : i64}, %arg20: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg21: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg22: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg23: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg24: i32 {tile.below = 1073741824 : i64}, %arg25: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg26: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg27: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg28: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg29: i32 {tile.below = 1073741824 : i64}) attributes {cta.stages = 2 : i32, cta.warps = 8 : i32, tile.kernel} {
    %cst = arith.constant dense<0xFF800000> : tensor<128x128xf32>
    %c127_i32 = arith.constant 127 : i32
    %c0_i32 = arith.constant 0 : i32
    %c128_i32 = arith.constant 128 : i32
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<128xf32>
    %cst_1 = arith.constant dense<0xFF800000> : tensor<128xf32>
    %cst_2 = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %c1_i32 = arith.constant 1 : i32
    %0 = tile.program_id 0
    %1 = arith.muli %0, %c128_i32 {tile.fits} : i32
    %2 = tile.make_view %arg0, [%arg1, %arg2], [%arg3, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %3 = tile.load_block %2[%1, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %4 = arith.addi %arg11, %c127_i32 {tile.fits} : i32
    %5 = arith.divsi %4, %c128_i32 {tile.fits} : i32
    %6 = tile.make_view %arg10, [%arg11, %arg12], [%arg13, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %7 = tile.make_view %arg20, [%arg21, %arg22], [%arg23, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %8:3 = scf.for %arg30 = %c0_i32 to %5 step %c1_i32 iter_args(%arg31 = %cst_2, %arg32 = %cst_1, %arg33 = %cst_0) -> (tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>)  : i32 {
      %14 = arith.muli %arg30, %c128_i32 {tile.fits} : i32
      %15 = tile.load_block %6[%14, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
      %16 = tile.permute %15 [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
      %17 = tile.dot %3, %16, %cst_2 : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
      %18 = arith.cmpi eq, %arg30, %c0_i32 : i32
      %19 = scf.if %18 -> (tensor<128x128xf32>) {
        %37 = tile.arange 0 : tensor<128xi32>
        %38 = tile.expand_dims %37 1 : tensor<128xi32> -> tensor<128x1xi32>
        %39 = tile.expand_dims %37 0 : tensor<128xi32> -> tensor<1x128xi32>
        %40 = tile.broadcast %38 : tensor<128x1xi32> -> tensor<128x128xi32>
        %41 = tile.broadcast %39 : tensor<1x128xi32> -> tensor<128x128xi32>
        %42 = arith.cmpi sge, %40, %41 : tensor<128x128xi32>
        %43 = arith.select %42, %17, %cst : tensor<128x128xi1>, tensor<128x128xf32>
        scf.yield %43 : tensor<128x128xf32>
      } else {
        scf.yield %17 : tensor<128x128xf32>
      }
      %20 = tile.reduce %19 1 : (tensor<128x128xf32>) -> tensor<128xf32> {
      ^bb0(%arg34: f32, %arg35: f32):
        %37 = tile.maximum_number %arg34, %arg35 : f32
        tile.yield %37 : f32
      }
      %21 = tile.maximum_number %arg32, %20 : tensor<128xf32>
      %22 = tile.expand_dims %21 1 : tensor<128xf32> -> tensor<128x1xf32>
      %23 = tile.broadcast %22 : tensor<128x1xf32> -> tensor<128x128xf32>
      %24 = arith.subf %19, %23 : tensor<128x128xf32>
      %25 = math.exp2 %24 : tensor<128x128xf32>
      %26 = arith.subf %arg32, %21 : tensor<128xf32>
      %27 = math.exp2 %26 : tensor<128xf32>
      %28 = arith.mulf %arg33, %27 : tensor<128xf32>
      %29 = tile.reduce %25 1 : (tensor<128x128xf32>) -> tensor<128xf32> {
      ^bb0(%arg34: f32, %arg35: f32):
        %37 = arith.addf %arg34, %arg35 : f32
        tile.yield %37 : f32
      }
      %30 = arith.addf %28, %29 : tensor<128xf32>
      %31 = arith.truncf %25 : tensor<128x128xf32> to tensor<128x128xf16>
      %32 = tile.load_block %7[%14, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
      %33 = tile.expand_dims %27 1 : tensor<128xf32> -> tensor<128x1xf32>
      %34 = tile.broadcast %33 : tensor<128x1xf32> -> tensor<128x128xf32>
      %35 = arith.mulf %arg31, %34 : tensor<128x128xf32>
      %36 = tile.dot %31, %32, %35 : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
      scf.yield %36, %21, %30 : tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>
    } {cta.warp_specialize = true}
    %9 = tile.expand_dims %8#2 1 : tensor<128xf32> -> tensor<128x1xf32>
    %10 = tile.broadcast %9 : tensor<128x1xf32> -> tensor<128x128xf32>
    %11 = arith.divf %8#0, %10 : tensor<128x128xf32>
    %12 = arith.truncf %11 : tensor<128x128xf32> to tensor<128x128xf16>
    %13 = tile.make_view %arg25, [%arg26, %arg27], [%arg28, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    tile.store_block %13[%1, %c0_i32], %12 : !tile.view<2xf16>, [i32, i32], tensor<128x128xf16>
    return
  }
}

// -----

// Programs do one block after another: the producer's counters go on.
// PLAIN-LABEL: func.func @loop_over_tiles
// PLAIN-COUNT-2: cta.dot_start
// PLAIN: cta.dot_wait {{.*}} {pending = 1 : i32}
// PLAIN: math.exp2
// PLAIN: cta.dot_wait {{.*}} behind
// CHECK-LABEL: func.func @loop_over_tiles
// CHECK: cta.partition
// CHECK: scf.for
// CHECK: cta.turn_wait
// CHECK: %[[SCORES:.*]] = cta.dot_start
// CHECK: %[[VALUES:.*]] = cta.dot_start %[[WEIGHTS:.*]], %{{.*}}, %[[SUMS:.*]] by
// CHECK: cta.turn_pass
// CHECK: cta.dot_wait %[[SCORES]] {pending = 1 : i32}
// CHECK: math.exp2
// CHECK: cta.dot_wait %[[VALUES]] behind
// CHECK: scf.yield
module attributes {cta.target = "sm_90a"} {
  func.func @loop_over_tiles(%arg0: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg1: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg2: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg3: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg4: i32 {tile.below = 1073741824 : i64}, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg7: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg8: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg9: i32 {tile.below = 1073741824 : i64}, %arg10: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg11: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg12: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg13: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg14: i32 {tile.below = 1073741824 : i64}, %arg15: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg16: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg17: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg18: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg19: i32 {tile.below = 1073741824 : i64}, %arg20: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg21: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg22: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg23: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg24: i32 {tile.below = 1073741824 : i64}, %arg25: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg26: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg27: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg28: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg29: i32 {tile.below = 1073741824 : i64}) attributes {cta.stages = 2 : i32, cta.warps = 8 : i32, tile.kernel} {
    %c127_i32 = arith.constant 127 : i32
    %c0_i32 = arith.constant 0 : i32
    %c128_i32 = arith.constant 128 : i32
    %cst = arith.constant dense<0.000000e+00> : tensor<128xf32>
    %cst_0 = arith.constant dense<0xFF800000> : tensor<128xf32>
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %c4_i32 = arith.constant 4 : i32
    %c16_i32 = arith.constant 16 : i32
    %c1_i32 = arith.constant 1 : i32
    %0 = tile.program_id 0
    %1 = tile.make_view %arg0, [%arg1, %arg2], [%arg3, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %2 = arith.addi %arg11, %c127_i32 {tile.fits} : i32
    %3 = arith.divsi %2, %c128_i32 {tile.fits} : i32
    %4 = tile.make_view %arg10, [%arg11, %arg12], [%arg13, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %5 = tile.make_view %arg20, [%arg21, %arg22], [%arg23, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %6 = tile.make_view %arg25, [%arg26, %arg27], [%arg28, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    scf.for %arg30 = %0 to %c16_i32 step %c4_i32  : i32 {
      %7 = arith.muli %arg30, %c128_i32 {tile.fits} : i32
      %8 = tile.load_block %1[%7, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
      %9:3 = scf.for %arg31 = %c0_i32 to %3 step %c1_i32 iter_args(%arg32 = %cst_1, %arg33 = %cst_0, %arg34 = %cst) -> (tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>)  : i32 {
        %14 = arith.muli %arg31, %c128_i32 {tile.fits} : i32
        %15 = tile.load_block %4[%14, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
        %16 = tile.permute %15 [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
        %17 = tile.dot %8, %16, %cst_1 : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
        %18 = tile.reduce %17 1 : (tensor<128x128xf32>) -> tensor<128xf32> {
        ^bb0(%arg35: f32, %arg36: f32):
          %35 = tile.maximum_number %arg35, %arg36 : f32
          tile.yield %35 : f32
        }
        %19 = tile.maximum_number %arg33, %18 : tensor<128xf32>
        %20 = tile.expand_dims %19 1 : tensor<128xf32> -> tensor<128x1xf32>
        %21 = tile.broadcast %20 : tensor<128x1xf32> -> tensor<128x128xf32>
        %22 = arith.subf %17, %21 : tensor<128x128xf32>
        %23 = math.exp2 %22 : tensor<128x128xf32>
        %24 = arith.subf %arg33, %19 : tensor<128xf32>
        %25 = math.exp2 %24 : tensor<128xf32>
        %26 = arith.mulf %arg34, %25 : tensor<128xf32>
        %27 = tile.reduce %23 1 : (tensor<128x128xf32>) -> tensor<128xf32> {
        ^bb0(%arg35: f32, %arg36: f32):
          %35 = arith.addf %arg35, %arg36 : f32
          tile.yield %35 : f32
        }
        %28 = arith.addf %26, %27 : tensor<128xf32>
        %29 = arith.truncf %23 : tensor<128x128xf32> to tensor<128x128xf16>
        %30 = tile.load_block %5[%14, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
        %31 = tile.expand_dims %25 1 : tensor<128xf32> -> tensor<128x1xf32>
        %32 = tile.broadcast %31 : tensor<128x1xf32> -> tensor<128x128xf32>
        %33 = arith.mulf %arg32, %32 : tensor<128x128xf32>
        %34 = tile.dot %29, %30, %33 : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
        scf.yield %34, %19, %28 : tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>
      } {cta.warp_specialize = true}
      %10 = tile.expand_dims %9#2 1 : tensor<128xf32> -> tensor<128x1xf32>
      %11 = tile.broadcast %10 : tensor<128x1xf32> -> tensor<128x128xf32>
      %12 = arith.divf %9#0, %11 : tensor<128x128xf32>
      %13 = arith.truncf %12 : tensor<128x128xf32> to tensor<128x128xf16>
      tile.store_block %6[%7, %c0_i32], %13 : !tile.view<2xf16>, [i32, i32], tensor<128x128xf16>
    }
    return
  }
}

// -----

// What follows from the weights, beside their sum.
// PLAIN-LABEL: func.func @weights_changed_by_more
// PLAIN-COUNT-2: cta.dot_start
// PLAIN: cta.dot_wait {{.*}} {pending = 1 : i32}
// PLAIN: math.exp2
// PLAIN: cta.dot_wait {{.*}} behind
// CHECK-LABEL: func.func @weights_changed_by_more
// CHECK: cta.partition
// CHECK: cta.turn_wait
// CHECK: %[[SCORES:.*]] = cta.dot_start
// CHECK: %[[VALUES:.*]] = cta.dot_start %[[WEIGHTS:.*]], %{{.*}}, %[[SUMS:.*]] by
// CHECK: cta.turn_pass
// CHECK: cta.dot_wait %[[SCORES]] {pending = 1 : i32}
// CHECK: math.exp2
// CHECK: cta.dot_wait %[[VALUES]] behind
// CHECK: scf.yield
module attributes {cta.target = "sm_90a"} {
  func.func @weights_changed_by_more(%arg0: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg1: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg2: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg3: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg4: i32 {tile.below = 1073741824 : i64}, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg7: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg8: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg9: i32 {tile.below = 1073741824 : i64}, %arg10: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg11: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg12: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg13: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg14: i32 {tile.below = 1073741824 : i64}, %arg15: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg16: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg17: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg18: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg19: i32 {tile.below = 1073741824 : i64}, %arg20: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg21: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg22: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg23: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg24: i32 {tile.below = 1073741824 : i64}, %arg25: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg26: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg27: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg28: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg29: i32 {tile.below = 1073741824 : i64}) attributes {cta.stages = 2 : i32, cta.warps = 8 : i32, tile.kernel} {
    %cst = arith.constant dense<1.000000e-01> : tensor<128x128xf32>
    %cst_0 = arith.constant dense<0.899999976> : tensor<128x128xf32>
    %c127_i32 = arith.constant 127 : i32
    %c0_i32 = arith.constant 0 : i32
    %c128_i32 = arith.constant 128 : i32
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<128xf32>
    %cst_2 = arith.constant dense<0xFF800000> : tensor<128xf32>
    %cst_3 = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %c1_i32 = arith.constant 1 : i32
    %0 = tile.program_id 0
    %1 = arith.muli %0, %c128_i32 {tile.fits} : i32
    %2 = tile.make_view %arg0, [%arg1, %arg2], [%arg3, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %3 = tile.load_block %2[%1, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %4 = arith.addi %arg11, %c127_i32 {tile.fits} : i32
    %5 = arith.divsi %4, %c128_i32 {tile.fits} : i32
    %6 = tile.make_view %arg10, [%arg11, %arg12], [%arg13, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %7 = tile.make_view %arg20, [%arg21, %arg22], [%arg23, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %8:3 = scf.for %arg30 = %c0_i32 to %5 step %c1_i32 iter_args(%arg31 = %cst_3, %arg32 = %cst_2, %arg33 = %cst_1) -> (tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>)  : i32 {
      %14 = arith.muli %arg30, %c128_i32 {tile.fits} : i32
      %15 = tile.load_block %6[%14, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
      %16 = tile.permute %15 [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
      %17 = tile.dot %3, %16, %cst_3 : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
      %18 = tile.reduce %17 1 : (tensor<128x128xf32>) -> tensor<128xf32> {
      ^bb0(%arg34: f32, %arg35: f32):
        %37 = tile.maximum_number %arg34, %arg35 : f32
        tile.yield %37 : f32
      }
      %19 = tile.maximum_number %arg32, %18 : tensor<128xf32>
      %20 = tile.expand_dims %19 1 : tensor<128xf32> -> tensor<128x1xf32>
      %21 = tile.broadcast %20 : tensor<128x1xf32> -> tensor<128x128xf32>
      %22 = arith.subf %17, %21 : tensor<128x128xf32>
      %23 = math.exp2 %22 : tensor<128x128xf32>
      %24 = arith.subf %arg32, %19 : tensor<128xf32>
      %25 = math.exp2 %24 : tensor<128xf32>
      %26 = arith.mulf %arg33, %25 : tensor<128xf32>
      %27 = tile.reduce %23 1 : (tensor<128x128xf32>) -> tensor<128xf32> {
      ^bb0(%arg34: f32, %arg35: f32):
        %37 = arith.addf %arg34, %arg35 : f32
        tile.yield %37 : f32
      }
      %28 = arith.addf %26, %27 : tensor<128xf32>
      %29 = arith.mulf %23, %cst_0 : tensor<128x128xf32>
      %30 = arith.addf %29, %cst : tensor<128x128xf32>
      %31 = arith.truncf %30 : tensor<128x128xf32> to tensor<128x128xf16>
      %32 = tile.load_block %7[%14, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
      %33 = tile.expand_dims %25 1 : tensor<128xf32> -> tensor<128x1xf32>
      %34 = tile.broadcast %33 : tensor<128x1xf32> -> tensor<128x128xf32>
      %35 = arith.mulf %arg31, %34 : tensor<128x128xf32>
      %36 = tile.dot %31, %32, %35 : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
      scf.yield %36, %19, %28 : tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>
    } {cta.warp_specialize = true}
    %9 = tile.expand_dims %8#2 1 : tensor<128xf32> -> tensor<128x1xf32>
    %10 = tile.broadcast %9 : tensor<128x1xf32> -> tensor<128x128xf32>
    %11 = arith.divf %8#0, %10 : tensor<128x128xf32>
    %12 = arith.truncf %11 : tensor<128x128xf32> to tensor<128x128xf16>
    %13 = tile.make_view %arg25, [%arg26, %arg27], [%arg28, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    tile.store_block %13[%1, %c0_i32], %12 : !tile.view<2xf16>, [i32, i32], tensor<128x128xf16>
    return
  }
}

// -----

// The left operand of the last dot is the product of two tiles of halves.
// PLAIN-LABEL: func.func @weights_by_two_operations
// PLAIN-COUNT-2: cta.dot_start
// PLAIN: cta.dot_wait {{.*}} {pending = 1 : i32}
// PLAIN: math.exp2
// PLAIN: cta.dot_wait {{.*}} behind
// CHECK-LABEL: func.func @weights_by_two_operations
// CHECK: cta.partition
// CHECK: cta.turn_wait
// CHECK: %[[SCORES:.*]] = cta.dot_start
// CHECK: %[[VALUES:.*]] = cta.dot_start %[[WEIGHTS:.*]], %{{.*}}, %[[SUMS:.*]] by
// CHECK: cta.turn_pass
// CHECK: cta.dot_wait %[[SCORES]] {pending = 1 : i32}
// CHECK: math.exp2
// CHECK: cta.dot_wait %[[VALUES]] behind
// CHECK: scf.yield
module attributes {cta.target = "sm_90a"} {
  func.func @weights_by_two_operations(%arg0: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg1: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg2: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg3: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg4: i32 {tile.below = 1073741824 : i64}, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg7: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg8: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg9: i32 {tile.below = 1073741824 : i64}, %arg10: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg11: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg12: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg13: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg14: i32 {tile.below = 1073741824 : i64}, %arg15: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg16: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg17: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg18: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg19: i32 {tile.below = 1073741824 : i64}, %arg20: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg21: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg22: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg23: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg24: i32 {tile.below = 1073741824 : i64}, %arg25: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg26: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg27: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg28: i32 {tile.below = 1073741824 : i64, tile.divisible = 16 : i64}, %arg29: i32 {tile.below = 1073741824 : i64}) attributes {cta.stages = 2 : i32, cta.warps = 8 : i32, tile.kernel} {
    %c127_i32 = arith.constant 127 : i32
    %c0_i32 = arith.constant 0 : i32
    %c128_i32 = arith.constant 128 : i32
    %cst = arith.constant dense<0.000000e+00> : tensor<128xf32>
    %cst_0 = arith.constant dense<0xFF800000> : tensor<128xf32>
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %c1_i32 = arith.constant 1 : i32
    %0 = tile.program_id 0
    %1 = arith.muli %0, %c128_i32 {tile.fits} : i32
    %2 = tile.make_view %arg0, [%arg1, %arg2], [%arg3, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %3 = tile.load_block %2[%1, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %4 = arith.addi %arg11, %c127_i32 {tile.fits} : i32
    %5 = arith.divsi %4, %c128_i32 {tile.fits} : i32
    %6 = tile.make_view %arg10, [%arg11, %arg12], [%arg13, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %7 = tile.make_view %arg20, [%arg21, %arg22], [%arg23, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %8:3 = scf.for %arg30 = %c0_i32 to %5 step %c1_i32 iter_args(%arg31 = %cst_1, %arg32 = %cst_0, %arg33 = %cst) -> (tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>)  : i32 {
      %14 = arith.muli %arg30, %c128_i32 {tile.fits} : i32
      %15 = tile.load_block %6[%14, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
      %16 = tile.permute %15 [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
      %17 = tile.dot %3, %16, %cst_1 : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
      %18 = tile.reduce %17 1 : (tensor<128x128xf32>) -> tensor<128xf32> {
      ^bb0(%arg34: f32, %arg35: f32):
        %36 = tile.maximum_number %arg34, %arg35 : f32
        tile.yield %36 : f32
      }
      %19 = tile.maximum_number %arg32, %18 : tensor<128xf32>
      %20 = tile.expand_dims %19 1 : tensor<128xf32> -> tensor<128x1xf32>
      %21 = tile.broadcast %20 : tensor<128x1xf32> -> tensor<128x128xf32>
      %22 = arith.subf %17, %21 : tensor<128x128xf32>
      %23 = math.exp2 %22 : tensor<128x128xf32>
      %24 = arith.subf %arg32, %19 : tensor<128xf32>
      %25 = math.exp2 %24 : tensor<128xf32>
      %26 = arith.mulf %arg33, %25 : tensor<128xf32>
      %27 = tile.reduce %23 1 : (tensor<128x128xf32>) -> tensor<128xf32> {
      ^bb0(%arg34: f32, %arg35: f32):
        %36 = arith.addf %arg34, %arg35 : f32
        tile.yield %36 : f32
      }
      %28 = arith.addf %26, %27 : tensor<128xf32>
      %29 = arith.truncf %23 : tensor<128x128xf32> to tensor<128x128xf16>
      %30 = arith.mulf %29, %29 : tensor<128x128xf16>
      %31 = tile.load_block %7[%14, %c0_i32] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
      %32 = tile.expand_dims %25 1 : tensor<128xf32> -> tensor<128x1xf32>
      %33 = tile.broadcast %32 : tensor<128x1xf32> -> tensor<128x128xf32>
      %34 = arith.mulf %arg31, %33 : tensor<128x128xf32>
      %35 = tile.dot %30, %31, %34 : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
      scf.yield %35, %19, %28 : tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>
    } {cta.warp_specialize = true}
    %9 = tile.expand_dims %8#2 1 : tensor<128xf32> -> tensor<128x1xf32>
    %10 = tile.broadcast %9 : tensor<128x1xf32> -> tensor<128x128xf32>
    %11 = arith.divf %8#0, %10 : tensor<128x128xf32>
    %12 = arith.truncf %11 : tensor<128x128xf32> to tensor<128x128xf16>
    %13 = tile.make_view %arg25, [%arg26, %arg27], [%arg28, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    tile.store_block %13[%1, %c0_i32], %12 : !tile.view<2xf16>, [i32, i32], tensor<128x128xf16>
    return
  }
}
