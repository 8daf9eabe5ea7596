// A tile is stored in one order and loaded in another.
module {
  func.func @random_program(%arg0: !tile.ptr<i1>, %arg1: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg2: !tile.ptr<i16>, %arg3: !tile.ptr<i32>, %arg4: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg5: !tile.ptr<f16>, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32>, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg10: !tile.ptr<f8E5M2>, %arg11: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg12: !tile.ptr<f8E5M2FNUZ>, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg15: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg17: !tile.ptr<i32>, %arg18: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg19: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg20: !tile.ptr<bf16>, %arg21: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg22: !tile.ptr<f64>, %arg23: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg24: !tile.ptr<f8E5M2>, %arg25: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg26: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg27: !tile.ptr<f8E4M3B11FNUZ>, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %0 = tile.program_id 0
    %c256_i32 = arith.constant 256 : i32
    %1 = arith.muli %0, %c256_i32 : i32
    %c0_i32 = arith.constant 0 : i32
    %2 = arith.addi %1, %c0_i32 : i32
    %3 = tile.addptr %arg23, %2 : !tile.ptr<f8E4M3FN>, i32
    %c8_i32 = arith.constant 8 : i32
    %4 = tile.arange 4 : tensor<160xi32>
    %5 = arith.sitofp %4 : tensor<160xi32> to tensor<160xf32>
    %6 = tile.fp_cast %5 : tensor<160xf32> -> tensor<160xf8E4M3FN>
    %cst = arith.constant dense<0> : tensor<160xi32>
    %7 = tile.arange 0 : tensor<160xi32>
    %cst_0 = arith.constant dense<1> : tensor<160xi32>
    %8 = arith.muli %7, %cst_0 : tensor<160xi32>
    %9 = arith.addi %cst, %8 : tensor<160xi32>
    %10 = tile.splat %c8_i32 : i32 -> tensor<160xi32>
    %11 = arith.addi %9, %10 : tensor<160xi32>
    %cst_1 = arith.constant dense<255> : tensor<160xi32>
    %12 = arith.andi %11, %cst_1 : tensor<160xi32>
    %13 = tile.splat %3 : !tile.ptr<f8E4M3FN> -> tensor<160x!tile.ptr<f8E4M3FN>>
    %14 = tile.addptr %13, %12 : tensor<160x!tile.ptr<f8E4M3FN>>, tensor<160xi32>
    tile.store %14, %6 {cache = 4 : i32} : tensor<160x!tile.ptr<f8E4M3FN>>, tensor<160xf8E4M3FN>
    %15 = tile.splat %3 : !tile.ptr<f8E4M3FN> -> tensor<160x!tile.ptr<f8E4M3FN>>
    %16 = tile.addptr %15, %12 : tensor<160x!tile.ptr<f8E4M3FN>>, tensor<160xi32>
    %17 = tile.load %16 : tensor<160x!tile.ptr<f8E4M3FN>> -> tensor<160xf8E4M3FN>
    %cst_2 = arith.constant dense<0> : tensor<160xi32>
    %18 = tile.arange 0 : tensor<160xi32>
    %cst_3 = arith.constant dense<159> : tensor<160xi32>
    %19 = arith.subi %cst_3, %18 : tensor<160xi32>
    %cst_4 = arith.constant dense<1> : tensor<160xi32>
    %20 = arith.muli %19, %cst_4 : tensor<160xi32>
    %21 = arith.addi %cst_2, %20 : tensor<160xi32>
    %cst_5 = arith.constant dense<1> : tensor<160xi32>
    %22 = arith.muli %21, %cst_5 : tensor<160xi32>
    %cst_6 = arith.constant dense<50> : tensor<160xi32>
    %23 = arith.addi %22, %cst_6 : tensor<160xi32>
    %24 = tile.splat %3 : !tile.ptr<f8E4M3FN> -> tensor<160x!tile.ptr<f8E4M3FN>>
    %25 = tile.addptr %24, %23 : tensor<160x!tile.ptr<f8E4M3FN>>, tensor<160xi32>
    tile.store %25, %17 {cache = 2 : i32} : tensor<160x!tile.ptr<f8E4M3FN>>, tensor<160xf8E4M3FN>
    return
  }
}