// Thousands of elements for each thread of one warp: code generation for the host has to take blocks of a hundred thousand
// instructions in its stride.
module {
  func.func @random_program(%arg0: !tile.ptr<i1>, %arg1: !tile.ptr<i8>, %arg2: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg3: !tile.ptr<i32>, %arg4: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg5: !tile.ptr<f16>, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32>, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg10: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg11: !tile.ptr<f8E4M3FNUZ>, %arg12: !tile.ptr<f8E5M2FNUZ>, %arg13: !tile.ptr<f8E4M3B11FNUZ>, %arg14: !tile.ptr<i1>, %arg15: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<i16>, %arg17: !tile.ptr<i32>, %arg18: !tile.ptr<i64>, %arg19: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg20: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f32>, %arg22: !tile.ptr<f64>, %arg23: !tile.ptr<f8E4M3FN>, %arg24: !tile.ptr<f8E5M2>, %arg25: !tile.ptr<f8E4M3FNUZ>, %arg26: !tile.ptr<f8E5M2FNUZ>, %arg27: !tile.ptr<f8E4M3B11FNUZ>, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %c0_i32 = arith.constant 0 : i32
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<80x48x16xf8E5M2>
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<80x48x16xf32>
    %0 = arith.fptosi %cst_1 : tensor<80x48x16xf32> to tensor<80x48x16xi32>
    %1 = tile.fp_cast %cst_0 {rounding = 1 : i32} : tensor<80x48x16xf8E5M2> -> tensor<80x48x16xf32>
    %cst_2 = arith.constant dense<0x49800000> : tensor<80x48x16xf32>
    %2 = tile.minimum_number %1, %cst_2 : tensor<80x48x16xf32>
    %cst_3 = arith.constant dense<0.000000e+00> : tensor<80x48x16xf32>
    %3 = tile.maximum_number %2, %cst_3 : tensor<80x48x16xf32>
    %4 = arith.fptoui %3 : tensor<80x48x16xf32> to tensor<80x48x16xi32>
    %c16_i64 = arith.constant 16 : i64
    %c2_i32 = arith.constant 2 : i32
    %c256_i32 = arith.constant 256 : i32
    %c1_i32 = arith.constant 1 : i32
    %5 = tile.make_view %arg3, [%arg28, %c2_i32, %arg28], [%c16_i64, %c256_i32, %c1_i32] : !tile.ptr<i32>, [i32, i32, i32], [i64, i32, i32] -> !tile.view<3xi32>
    %6 = tile.load_block %5[%arg28, %arg28, %c0_i32] : !tile.view<3xi32>, [i32, i32, i32] -> tensor<80x48x16xi32>
    %7 = arith.cmpi ule, %4, %6 : tensor<80x48x16xi32>
    %8 = tile.histogram %0 mask %7 : tensor<80x48x16xi32> mask tensor<80x48x16xi1> -> tensor<48xi32>
    %10 = tile.program_id 0
    %c48_i32 = arith.constant 48 : i32
    %11 = arith.muli %10, %c48_i32 : i32
    %c0_i32_4 = arith.constant 0 : i32
    %12 = arith.addi %11, %c0_i32_4 : i32
    %13 = tile.splat %arg17 : !tile.ptr<i32> -> tensor<48x!tile.ptr<i32>>
    %cst_5 = arith.constant dense<0> : tensor<48xi32>
    %14 = tile.arange 0 : tensor<48xi32>
    %cst_6 = arith.constant dense<1> : tensor<48xi32>
    %15 = arith.muli %14, %cst_6 : tensor<48xi32>
    %16 = arith.addi %cst_5, %15 : tensor<48xi32>
    %17 = tile.splat %12 : i32 -> tensor<48xi32>
    %18 = arith.addi %16, %17 : tensor<48xi32>
    %19 = tile.addptr %13, %18 : tensor<48x!tile.ptr<i32>>, tensor<48xi32>
    %20 = arith.cmpi sle, %8, %8 : tensor<48xi32>
    tile.store %19, %8 mask %20 : tensor<48x!tile.ptr<i32>>, tensor<48xi32> mask tensor<48xi1>
    return
  }
}
