// gfx942, 4 warps, 4 stages
module {
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg2: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg3: !tile.ptr<i32>, %arg4: !tile.ptr<i64>, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: !tile.ptr<bf16>, %arg7: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN>, %arg10: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg11: !tile.ptr<i1>, %arg12: !tile.ptr<i8>, %arg13: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i32>, %arg15: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<f16>, %arg17: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg18: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg19: !tile.ptr<f64>, %arg20: !tile.ptr<f8E4M3FN>, %arg21: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg22: i32, %arg23: i32) attributes {tile.kernel} {
    %0 = tile.arange 4 : tensor<48xi32>
    %1 = arith.sitofp %0 : tensor<48xi32> to tensor<48xf32>
    %2 = math.expm1 %1 : tensor<48xf32>
    %3 = math.sin %2 : tensor<48xf32>
    %4 = tile.program_id 0
    %c48_i32 = arith.constant 48 : i32
    %5 = arith.muli %4, %c48_i32 : i32
    %c1088_i32 = arith.constant 1088 : i32
    %6 = arith.addi %5, %c1088_i32 : i32
    %7 = tile.splat %arg18 : !tile.ptr<f32> -> tensor<48x!tile.ptr<f32>>
    %cst = arith.constant dense<0> : tensor<48xi32>
    %8 = tile.arange 0 : tensor<48xi32>
    %cst_0 = arith.constant dense<1> : tensor<48xi32>
    %9 = arith.muli %8, %cst_0 : tensor<48xi32>
    %10 = arith.addi %cst, %9 : tensor<48xi32>
    %11 = tile.splat %6 : i32 -> tensor<48xi32>
    %12 = arith.addi %10, %11 : tensor<48xi32>
    %13 = tile.addptr %7, %12 : tensor<48x!tile.ptr<f32>>, tensor<48xi32>
    tile.store %13, %3 : tensor<48x!tile.ptr<f32>>, tensor<48xf32>
    return
  }
}