// Pointers selected element by element are stored through, then the argument is read.
module {
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8>, %arg2: !tile.ptr<i16>, %arg3: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg4: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg10: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg11: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg12: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg13: !tile.ptr<f8E4M3B11FNUZ>, %arg14: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg15: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg17: !tile.ptr<i32>, %arg18: !tile.ptr<i64>, %arg19: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg20: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f32>, %arg22: !tile.ptr<f64>, %arg23: !tile.ptr<f8E4M3FN>, %arg24: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg25: !tile.ptr<f8E4M3FNUZ>, %arg26: !tile.ptr<f8E5M2FNUZ>, %arg27: !tile.ptr<f8E4M3B11FNUZ>, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %0 = tile.program_id 0
    %c128_i32 = arith.constant 128 : i32
    %1 = arith.muli %0, %c128_i32 : i32
    %c8192_i32 = arith.constant 8192 : i32
    %2 = arith.addi %1, %c8192_i32 : i32
    %3 = tile.addptr %arg0, %2 : !tile.ptr<i1>, i32
    %cst = arith.constant dense<0> : tensor<96xi32>
    %4 = tile.arange 0 : tensor<96xi32>
    %cst_0 = arith.constant dense<1> : tensor<96xi32>
    %5 = arith.muli %4, %cst_0 : tensor<96xi32>
    %6 = arith.addi %cst, %5 : tensor<96xi32>
    %cst_1 = arith.constant dense<23> : tensor<96xi32>
    %7 = arith.muli %6, %cst_1 : tensor<96xi32>
    %cst_2 = arith.constant dense<117> : tensor<96xi32>
    %8 = arith.addi %7, %cst_2 : tensor<96xi32>
    %cst_3 = arith.constant dense<127> : tensor<96xi32>
    %9 = arith.andi %8, %cst_3 : tensor<96xi32>
    %10 = tile.splat %3 : !tile.ptr<i1> -> tensor<96x!tile.ptr<i1>>
    %11 = tile.addptr %10, %9 : tensor<96x!tile.ptr<i1>>, tensor<96xi32>
    %12 = arith.extsi %9 : tensor<96xi32> to tensor<96xi64>
    %13 = tile.splat %3 : !tile.ptr<i1> -> tensor<96x!tile.ptr<i1>>
    %14 = tile.addptr %13, %12 : tensor<96x!tile.ptr<i1>>, tensor<96xi64>
    %c3_i32 = arith.constant 3 : i32
    %c1_i32 = arith.constant 1 : i32
    %c1_i32_4 = arith.constant 1 : i32
    %15 = tile.make_view %arg3, [%c3_i32], [%c1_i32] : !tile.ptr<i32>, [i32], [i32] -> !tile.view<1xi32>
    %16 = tile.load_block %15[%c1_i32_4] : !tile.view<1xi32>, [i32] -> tensor<96xi32>
    %cst_5 = arith.constant dense<0> : tensor<96xi32>
    %17 = tile.arange 0 : tensor<96xi32>
    %cst_6 = arith.constant dense<1> : tensor<96xi32>
    %18 = arith.muli %17, %cst_6 : tensor<96xi32>
    %19 = arith.addi %cst_5, %18 : tensor<96xi32>
    %cst_7 = arith.constant dense<0> : tensor<96xi32>
    %20 = arith.addi %19, %cst_7 : tensor<96xi32>
    %21 = tile.splat %arg3 : !tile.ptr<i32> -> tensor<96x!tile.ptr<i32>>
    %22 = arith.extui %20 : tensor<96xi32> to tensor<96xi64>
    %23 = tile.addptr %21, %22 : tensor<96x!tile.ptr<i32>>, tensor<96xi64>
    %c8_i32 = arith.constant 8 : i32
    %24 = tile.splat %c8_i32 : i32 -> tensor<96xi32>
    %25 = arith.cmpi slt, %20, %24 : tensor<96xi32>
    %26 = tile.splat %arg28 : i32 -> tensor<96xi32>
    %27 = tile.load %23 mask %25 other %26 : tensor<96x!tile.ptr<i32>> mask tensor<96xi1> other tensor<96xi32> -> tensor<96xi32>
    %28 = arith.cmpi ult, %16, %27 : tensor<96xi32>
    %29 = arith.select %28, %11, %14 : tensor<96xi1>, tensor<96x!tile.ptr<i1>>
    %cst_8 = arith.constant dense<false> : tensor<96xi1>
    tile.store %29, %cst_8 : tensor<96x!tile.ptr<i1>>, tensor<96xi1>
    %30 = tile.arange -2 : tensor<96xi32>
    %cst_9 = arith.constant dense<127> : tensor<96xi32>
    %31 = arith.andi %30, %cst_9 : tensor<96xi32>
    %32 = tile.splat %3 : !tile.ptr<i1> -> tensor<96x!tile.ptr<i1>>
    %33 = tile.addptr %32, %31 : tensor<96x!tile.ptr<i1>>, tensor<96xi32>
    %34 = tile.load %33 : tensor<96x!tile.ptr<i1>> -> tensor<96xi1>
    %35 = tile.program_id 0
    %c96_i32 = arith.constant 96 : i32
    %36 = arith.muli %35, %c96_i32 : i32
    %c0_i32 = arith.constant 0 : i32
    %37 = arith.addi %36, %c0_i32 : i32
    %38 = tile.splat %arg14 : !tile.ptr<i1> -> tensor<96x!tile.ptr<i1>>
    %cst_10 = arith.constant dense<0> : tensor<96xi32>
    %39 = tile.arange 0 : tensor<96xi32>
    %cst_11 = arith.constant dense<1> : tensor<96xi32>
    %40 = arith.muli %39, %cst_11 : tensor<96xi32>
    %41 = arith.addi %cst_10, %40 : tensor<96xi32>
    %42 = tile.splat %37 : i32 -> tensor<96xi32>
    %43 = arith.addi %41, %42 : tensor<96xi32>
    %44 = tile.addptr %38, %43 : tensor<96x!tile.ptr<i1>>, tensor<96xi32>
    tile.store %44, %34 : tensor<96x!tile.ptr<i1>>, tensor<96xi1>
    return
  }
}