// gfx1100, 1 warps, 3 stages
module {
  func.func private @function0(%arg0: tensor<80x48x16xf8E5M2>, %arg1: tensor<80x48x16xf8E5M2>, %arg2: i32) -> tensor<80x48x16xf8E5M2> {
    %cst = arith.constant dense<0.000000e+00> : tensor<80x48x16xf8E5M2>
    return %cst : tensor<80x48x16xf8E5M2>
  }
  func.func @random_program(%arg0: !tile.ptr<i1>, %arg1: !tile.ptr<i8>, %arg2: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg3: !tile.ptr<i32>, %arg4: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg5: !tile.ptr<f16>, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32>, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg10: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg11: !tile.ptr<i1>, %arg12: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg13: !tile.ptr<i16>, %arg14: !tile.ptr<i32>, %arg15: !tile.ptr<i64>, %arg16: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg17: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg18: !tile.ptr<f32>, %arg19: !tile.ptr<f64>, %arg20: !tile.ptr<f8E4M3FN>, %arg21: !tile.ptr<f8E5M2>, %arg22: i32, %arg23: i32) attributes {tile.kernel} {
    %cst = arith.constant dense<0.000000e+00> : tensor<80x48x16xf8E5M2>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<80x48x16xf32>
    %0 = arith.fptosi %cst_0 : tensor<80x48x16xf32> to tensor<80x48x16xi32>
    %1 = tile.fp_cast %cst {rounding = 1 : i32} : tensor<80x48x16xf8E5M2> -> tensor<80x48x16xf32>
    %cst_1 = arith.constant dense<0x49800000> : tensor<80x48x16xf32>
    %2 = arith.minnumf %1, %cst_1 : tensor<80x48x16xf32>
    %cst_2 = arith.constant dense<0.000000e+00> : tensor<80x48x16xf32>
    %3 = arith.maxnumf %2, %cst_2 : tensor<80x48x16xf32>
    %4 = arith.fptoui %3 : tensor<80x48x16xf32> to tensor<80x48x16xi32>
    %cst_3 = arith.constant dense<0> : tensor<80x48x16xi32>
    %5 = arith.cmpi ule, %4, %cst_3 : tensor<80x48x16xi32>
    %6 = tile.histogram %0 mask %5 : tensor<80x48x16xi32> mask tensor<80x48x16xi1> -> tensor<48xi32>
    %7 = call @function0(%cst, %cst, %arg23) : (tensor<80x48x16xf8E5M2>, tensor<80x48x16xf8E5M2>, i32) -> tensor<80x48x16xf8E5M2>
    %8 = tile.program_id 0
    %c48_i32 = arith.constant 48 : i32
    %9 = arith.muli %8, %c48_i32 : i32
    %c0_i32 = arith.constant 0 : i32
    %10 = arith.addi %9, %c0_i32 : i32
    %11 = tile.splat %arg14 : !tile.ptr<i32> -> tensor<48x!tile.ptr<i32>>
    %cst_4 = arith.constant dense<0> : tensor<48xi32>
    %12 = tile.arange 0 : tensor<48xi32>
    %cst_5 = arith.constant dense<1> : tensor<48xi32>
    %13 = arith.muli %12, %cst_5 : tensor<48xi32>
    %14 = arith.addi %cst_4, %13 : tensor<48xi32>
    %15 = tile.splat %10 : i32 -> tensor<48xi32>
    %16 = arith.addi %14, %15 : tensor<48xi32>
    %17 = tile.addptr %11, %16 : tensor<48x!tile.ptr<i32>>, tensor<48xi32>
    %18 = arith.cmpi sle, %6, %6 : tensor<48xi32>
    tile.store %17, %6 mask %18 : tensor<48x!tile.ptr<i32>>, tensor<48xi32> mask tensor<48xi1>
    return
  }
}