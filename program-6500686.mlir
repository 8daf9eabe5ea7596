// gfx942, 8 warps, 1 stages
module {
  func.func private @function0(%arg0: tensor<2x2x176xf64>, %arg1: tensor<2x2x176xf64>, %arg2: i32) -> tensor<2x2x176xf64> {
    %cst = arith.constant dense<0.000000e+00> : tensor<2x2x176xf64>
    return %cst : tensor<2x2x176xf64>
  }
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8>, %arg2: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg3: !tile.ptr<i32>, %arg4: !tile.ptr<i64>, %arg5: !tile.ptr<f16>, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg8: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg9: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg10: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg11: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg12: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg13: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i32>, %arg15: !tile.ptr<i64>, %arg16: !tile.ptr<f16>, %arg17: !tile.ptr<bf16>, %arg18: !tile.ptr<f32>, %arg19: !tile.ptr<f64>, %arg20: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg22: i32, %arg23: i32) attributes {tile.kernel} {
    %0 = tile.arange 0 : tensor<176xi32>
    %1 = tile.expand_dims %0 0 : tensor<176xi32> -> tensor<1x176xi32>
    %2 = tile.expand_dims %1 1 : tensor<1x176xi32> -> tensor<1x1x176xi32>
    %3 = tile.broadcast %2 : tensor<1x1x176xi32> -> tensor<2x2x176xi32>
    %cst = arith.constant dense<1> : tensor<2x2x176xi32>
    %4 = arith.muli %3, %cst : tensor<2x2x176xi32>
    %cst_0 = arith.constant dense<0> : tensor<2x2x176xi32>
    %5 = arith.addi %4, %cst_0 : tensor<2x2x176xi32>
    %6 = tile.splat %arg8 : !tile.ptr<f64> -> tensor<2x2x176x!tile.ptr<f64>>
    %7 = tile.addptr %6, %5 : tensor<2x2x176x!tile.ptr<f64>>, tensor<2x2x176xi32>
    %8 = tile.load %7 : tensor<2x2x176x!tile.ptr<f64>> -> tensor<2x2x176xf64>
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<2x2x176xf64>
    %9 = math.sin %8 : tensor<2x2x176xf64>
    %10 = call @function0(%cst_1, %8, %arg23) : (tensor<2x2x176xf64>, tensor<2x2x176xf64>, i32) -> tensor<2x2x176xf64>
    %11 = math.fma %9, %9, %cst_1 : tensor<2x2x176xf64>
    %12 = tile.program_id 0
    %c704_i32 = arith.constant 704 : i32
    %13 = arith.muli %12, %c704_i32 : i32
    %c704_i32_2 = arith.constant 704 : i32
    %14 = arith.addi %13, %c704_i32_2 : i32
    %15 = tile.splat %arg19 : !tile.ptr<f64> -> tensor<2x2x176x!tile.ptr<f64>>
    %cst_3 = arith.constant dense<0> : tensor<2x2x176xi32>
    %16 = tile.arange 0 : tensor<2xi32>
    %17 = tile.expand_dims %16 1 : tensor<2xi32> -> tensor<2x1xi32>
    %18 = tile.expand_dims %17 2 : tensor<2x1xi32> -> tensor<2x1x1xi32>
    %19 = tile.broadcast %18 : tensor<2x1x1xi32> -> tensor<2x2x176xi32>
    %cst_4 = arith.constant dense<352> : tensor<2x2x176xi32>
    %20 = arith.muli %19, %cst_4 : tensor<2x2x176xi32>
    %21 = arith.addi %cst_3, %20 : tensor<2x2x176xi32>
    %22 = tile.arange 0 : tensor<2xi32>
    %23 = tile.expand_dims %22 0 : tensor<2xi32> -> tensor<1x2xi32>
    %24 = tile.expand_dims %23 2 : tensor<1x2xi32> -> tensor<1x2x1xi32>
    %25 = tile.broadcast %24 : tensor<1x2x1xi32> -> tensor<2x2x176xi32>
    %cst_5 = arith.constant dense<176> : tensor<2x2x176xi32>
    %26 = arith.muli %25, %cst_5 : tensor<2x2x176xi32>
    %27 = arith.addi %21, %26 : tensor<2x2x176xi32>
    %28 = tile.arange 0 : tensor<176xi32>
    %29 = tile.expand_dims %28 0 : tensor<176xi32> -> tensor<1x176xi32>
    %30 = tile.expand_dims %29 1 : tensor<1x176xi32> -> tensor<1x1x176xi32>
    %31 = tile.broadcast %30 : tensor<1x1x176xi32> -> tensor<2x2x176xi32>
    %cst_6 = arith.constant dense<1> : tensor<2x2x176xi32>
    %32 = arith.muli %31, %cst_6 : tensor<2x2x176xi32>
    %33 = arith.addi %27, %32 : tensor<2x2x176xi32>
    %34 = tile.splat %14 : i32 -> tensor<2x2x176xi32>
    %35 = arith.addi %33, %34 : tensor<2x2x176xi32>
    %36 = tile.addptr %15, %35 : tensor<2x2x176x!tile.ptr<f64>>, tensor<2x2x176xi32>
    tile.store %36, %11 : tensor<2x2x176x!tile.ptr<f64>>, tensor<2x2x176xf64>
    return
  }
}