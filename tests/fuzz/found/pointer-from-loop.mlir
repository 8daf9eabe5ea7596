// A loop that exchanges two pointers gives one that is stored through, after a load through the argument.
module {
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg2: !tile.ptr<i16>, %arg3: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg4: !tile.ptr<i64>, %arg5: !tile.ptr<f16>, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32>, %arg8: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg9: !tile.ptr<f8E4M3FN>, %arg10: !tile.ptr<f8E5M2>, %arg11: !tile.ptr<f8E4M3FNUZ>, %arg12: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg13: !tile.ptr<f8E4M3B11FNUZ>, %arg14: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg15: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<i16>, %arg17: !tile.ptr<i32>, %arg18: !tile.ptr<i64>, %arg19: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg20: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg22: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg23: !tile.ptr<f8E4M3FN>, %arg24: !tile.ptr<f8E5M2>, %arg25: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg26: !tile.ptr<f8E5M2FNUZ>, %arg27: !tile.ptr<f8E4M3B11FNUZ>, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %0 = tile.program_id 0
    %c256_i32 = arith.constant 256 : i32
    %1 = arith.muli %0, %c256_i32 : i32
    %c0_i32 = arith.constant 0 : i32
    %2 = arith.addi %1, %c0_i32 : i32
    %3 = tile.addptr %arg15, %2 : !tile.ptr<i8>, i32
    %4 = tile.program_id 0
    %c256_i32_0 = arith.constant 256 : i32
    %5 = arith.muli %4, %c256_i32_0 : i32
    %c8192_i32 = arith.constant 8192 : i32
    %6 = arith.addi %5, %c8192_i32 : i32
    %7 = tile.addptr %arg1, %6 : !tile.ptr<i8>, i32
    %c0_i32_1 = arith.constant 0 : i32
    %c41_i32 = arith.constant 41 : i32
    %8 = tile.addptr %arg3, %c41_i32 : !tile.ptr<i32>, i32
    %9 = tile.load %8 : !tile.ptr<i32> -> i32
    %c1_i32 = arith.constant 1 : i32
    %c7_i32 = arith.constant 7 : i32
    %10 = arith.andi %9, %c7_i32 : i32
    %11:2 = scf.for %arg30 = %c0_i32_1 to %10 step %c1_i32 iter_args(%arg31 = %7, %arg32 = %3) -> (!tile.ptr<i8>, !tile.ptr<i8>)  : i32 {
      scf.yield %arg32, %arg31 : !tile.ptr<i8>, !tile.ptr<i8>
    }
    %cst = arith.constant dense<0> : tensor<80xi32>
    %12 = tile.arange 0 : tensor<80xi32>
    %cst_2 = arith.constant dense<1> : tensor<80xi32>
    %13 = arith.muli %12, %cst_2 : tensor<80xi32>
    %14 = arith.addi %cst, %13 : tensor<80xi32>
    %cst_3 = arith.constant dense<9> : tensor<80xi32>
    %15 = arith.muli %14, %cst_3 : tensor<80xi32>
    %cst_4 = arith.constant dense<228> : tensor<80xi32>
    %16 = arith.addi %15, %cst_4 : tensor<80xi32>
    %cst_5 = arith.constant dense<255> : tensor<80xi32>
    %17 = arith.andi %16, %cst_5 : tensor<80xi32>
    %18 = tile.splat %7 : !tile.ptr<i8> -> tensor<80x!tile.ptr<i8>>
    %19 = tile.addptr %18, %17 : tensor<80x!tile.ptr<i8>>, tensor<80xi32>
    %20 = tile.load %19 : tensor<80x!tile.ptr<i8>> -> tensor<80xi8>
    %cst_6 = arith.constant dense<0> : tensor<80xi8>
    %cst_7 = arith.constant dense<0> : tensor<80xi32>
    %cst_8 = arith.constant dense<0> : tensor<80xi32>
    %21 = arith.cmpi eq, %cst_7, %cst_8 : tensor<80xi32>
    %22 = arith.select %21, %20, %cst_6 : tensor<80xi1>, tensor<80xi8>
    %23 = tile.splat %arg28 : i32 -> tensor<80xi32>
    %cst_9 = arith.constant dense<0> : tensor<80xi32>
    %24 = tile.arange 0 : tensor<80xi32>
    %cst_10 = arith.constant dense<1> : tensor<80xi32>
    %25 = arith.muli %24, %cst_10 : tensor<80xi32>
    %26 = arith.addi %cst_9, %25 : tensor<80xi32>
    %27 = arith.addi %26, %23 : tensor<80xi32>
    %cst_11 = arith.constant dense<0> : tensor<80xi32>
    %28 = arith.cmpi sge, %27, %cst_11 : tensor<80xi32>
    %cst_12 = arith.constant dense<256> : tensor<80xi32>
    %29 = arith.cmpi slt, %27, %cst_12 : tensor<80xi32>
    %30 = arith.andi %28, %29 : tensor<80xi1>
    %31 = tile.splat %11#1 : !tile.ptr<i8> -> tensor<80x!tile.ptr<i8>>
    %32 = tile.addptr %31, %27 : tensor<80x!tile.ptr<i8>>, tensor<80xi32>
    tile.store %32, %22 mask %30 : tensor<80x!tile.ptr<i8>>, tensor<80xi8> mask tensor<80xi1>
    return
  }
}