// A scalar that memory holds bounds a loop whose rounds store to places that overlap.
module {
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8>, %arg2: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg3: !tile.ptr<i32>, %arg4: !tile.ptr<i64>, %arg5: !tile.ptr<f16>, %arg6: !tile.ptr<bf16>, %arg7: !tile.ptr<f32>, %arg8: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg9: !tile.ptr<f8E4M3FN>, %arg10: !tile.ptr<f8E5M2>, %arg11: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg12: !tile.ptr<f8E5M2FNUZ>, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1>, %arg15: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg17: !tile.ptr<i32>, %arg18: !tile.ptr<i64>, %arg19: !tile.ptr<f16>, %arg20: !tile.ptr<bf16>, %arg21: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg22: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg23: !tile.ptr<f8E4M3FN>, %arg24: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg25: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg26: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg27: !tile.ptr<f8E4M3B11FNUZ>, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %0 = tile.program_id 0
    %c16_i32 = arith.constant 16 : i32
    %1 = arith.muli %0, %c16_i32 : i32
    %c8208_i32 = arith.constant 8208 : i32
    %2 = arith.addi %1, %c8208_i32 : i32
    %3 = tile.addptr %arg3, %2 : !tile.ptr<i32>, i32
    %4 = tile.program_id 0
    %c16_i32_0 = arith.constant 16 : i32
    %5 = arith.muli %4, %c16_i32_0 : i32
    %c0_i32 = arith.constant 0 : i32
    %6 = arith.addi %5, %c0_i32 : i32
    %7 = tile.addptr %arg17, %6 : !tile.ptr<i32>, i32
    %8 = tile.program_id 0
    %c2048_i32 = arith.constant 2048 : i32
    %9 = arith.muli %8, %c2048_i32 : i32
    %c8192_i32 = arith.constant 8192 : i32
    %10 = arith.addi %9, %c8192_i32 : i32
    %11 = tile.addptr %arg5, %10 : !tile.ptr<f16>, i32
    %12 = tile.load %7 : !tile.ptr<i32> -> i32
    %c0_i32_1 = arith.constant 0 : i32
    %c4_i32 = arith.constant 4 : i32
    tile.store %3, %c4_i32 : !tile.ptr<i32>, i32
    %13 = tile.load %3 : !tile.ptr<i32> -> i32
    %c1_i32 = arith.constant 1 : i32
    %14 = tile.splat %arg29 : i32 -> tensor<4x8xi32>
    %15 = arith.uitofp %14 : tensor<4x8xi32> to tensor<4x8xf16>
    %16:2 = scf.for %arg30 = %c0_i32_1 to %13 step %c1_i32 iter_args(%arg31 = %12, %arg32 = %15) -> (i32, tensor<4x8xf16>)  : i32 {
      %cst = arith.constant dense<0> : tensor<4x8xi32>
      %17 = tile.arange 0 : tensor<4xi32>
      %18 = tile.expand_dims %17 1 : tensor<4xi32> -> tensor<4x1xi32>
      %19 = tile.broadcast %18 : tensor<4x1xi32> -> tensor<4x8xi32>
      %cst_2 = arith.constant dense<8> : tensor<4x8xi32>
      %20 = arith.muli %19, %cst_2 : tensor<4x8xi32>
      %21 = arith.addi %cst, %20 : tensor<4x8xi32>
      %22 = tile.arange 0 : tensor<8xi32>
      %23 = tile.expand_dims %22 0 : tensor<8xi32> -> tensor<1x8xi32>
      %24 = tile.broadcast %23 : tensor<1x8xi32> -> tensor<4x8xi32>
      %cst_3 = arith.constant dense<1> : tensor<4x8xi32>
      %25 = arith.muli %24, %cst_3 : tensor<4x8xi32>
      %26 = arith.addi %21, %25 : tensor<4x8xi32>
      %27 = tile.splat %arg31 : i32 -> tensor<4x8xi32>
      %28 = arith.addi %26, %27 : tensor<4x8xi32>
      %cst_4 = arith.constant dense<2047> : tensor<4x8xi32>
      %29 = arith.andi %28, %cst_4 : tensor<4x8xi32>
      %30 = tile.splat %11 : !tile.ptr<f16> -> tensor<4x8x!tile.ptr<f16>>
      %31 = tile.addptr %30, %29 : tensor<4x8x!tile.ptr<f16>>, tensor<4x8xi32>
      tile.store %31, %arg32 : tensor<4x8x!tile.ptr<f16>>, tensor<4x8xf16>
      %cst_5 = arith.constant dense<0.000000e+00> : tensor<4x8xf16>
      %c8_i32 = arith.constant 8 : i32
      %32 = arith.addi %arg31, %c8_i32 : i32
      scf.yield %32, %cst_5 : i32, tensor<4x8xf16>
    }
    return
  }
}