// A scratch matrix is stored whole, then read by a pipelined loop of dots.
module {
  func.func @random_program(%arg0: !tile.ptr<i1>, %arg1: !tile.ptr<i8>, %arg2: !tile.ptr<i16>, %arg3: !tile.ptr<i32>, %arg4: !tile.ptr<i64>, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN>, %arg10: !tile.ptr<f8E5M2>, %arg11: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg12: !tile.ptr<f8E5M2FNUZ>, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg15: !tile.ptr<i8>, %arg16: !tile.ptr<i16>, %arg17: !tile.ptr<i32>, %arg18: !tile.ptr<i64>, %arg19: !tile.ptr<f16>, %arg20: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg22: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg23: !tile.ptr<f8E4M3FN>, %arg24: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg25: !tile.ptr<f8E4M3FNUZ>, %arg26: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg27: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %0 = tile.program_id 0
    %c4096_i32 = arith.constant 4096 : i32
    %1 = arith.muli %0, %c4096_i32 : i32
    %c0_i32 = arith.constant 0 : i32
    %2 = arith.addi %1, %c0_i32 : i32
    %3 = tile.addptr %arg19, %2 : !tile.ptr<f16>, i32
    %4 = tile.hint %3 {divisible = array<i64: 16>} : !tile.ptr<f16>
    %c80_i32 = arith.constant 80 : i32
    %c32_i32 = arith.constant 32 : i32
    %c32_i32_0 = arith.constant 32 : i32
    %c1_i32 = arith.constant 1 : i32
    %5 = tile.make_view %4, [%c80_i32, %c32_i32], [%c32_i32_0, %c1_i32] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c0_i32_1 = arith.constant 0 : i32
    %c1_i32_2 = arith.constant 1 : i32
    %c5_i32 = arith.constant 5 : i32
    %cst = arith.constant dense<0.000000e+00> : tensor<80x32xf16>
    tile.store_block %5[%c0_i32_1, %c0_i32_1], %cst : !tile.view<2xf16>, [i32, i32], tensor<80x32xf16>
    %c64_i32 = arith.constant 64 : i32
    %c1_i32_3 = arith.constant 1 : i32
    %6 = tile.make_view %arg5, [%c64_i32, %c64_i32], [%c64_i32, %c1_i32_3] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %cst_4 = arith.constant dense<0.000000e+00> : tensor<16x32xf32>
    %7 = scf.for %arg30 = %c0_i32_1 to %c5_i32 step %c1_i32_2 iter_args(%arg31 = %cst_4) -> (tensor<16x32xf32>)  : i32 {
      %c0_i32_9 = arith.constant 0 : i32
      %25 = tile.load_block %5[%c0_i32_9, %c0_i32_1] : !tile.view<2xf16>, [i32, i32] -> tensor<16x32xf16>
      %26 = tile.load_block %6[%c0_i32_1, %c0_i32_9] : !tile.view<2xf16>, [i32, i32] -> tensor<16x16xf16>
      %27 = tile.dot %26, %25, %arg31 : tensor<16x16xf16>, tensor<16x32xf16>, tensor<16x32xf32>
      scf.yield %27 : tensor<16x32xf32>
    } {cta.stages = 2 : i32}
    %8 = tile.program_id 0
    %c512_i32 = arith.constant 512 : i32
    %9 = arith.muli %8, %c512_i32 : i32
    %c0_i32_5 = arith.constant 0 : i32
    %10 = arith.addi %9, %c0_i32_5 : i32
    %11 = tile.splat %arg21 : !tile.ptr<f32> -> tensor<16x32x!tile.ptr<f32>>
    %cst_6 = arith.constant dense<0> : tensor<16x32xi32>
    %12 = tile.arange 0 : tensor<16xi32>
    %13 = tile.expand_dims %12 1 : tensor<16xi32> -> tensor<16x1xi32>
    %14 = tile.broadcast %13 : tensor<16x1xi32> -> tensor<16x32xi32>
    %cst_7 = arith.constant dense<32> : tensor<16x32xi32>
    %15 = arith.muli %14, %cst_7 : tensor<16x32xi32>
    %16 = arith.addi %cst_6, %15 : tensor<16x32xi32>
    %17 = tile.arange 0 : tensor<32xi32>
    %18 = tile.expand_dims %17 0 : tensor<32xi32> -> tensor<1x32xi32>
    %19 = tile.broadcast %18 : tensor<1x32xi32> -> tensor<16x32xi32>
    %cst_8 = arith.constant dense<1> : tensor<16x32xi32>
    %20 = arith.muli %19, %cst_8 : tensor<16x32xi32>
    %21 = arith.addi %16, %20 : tensor<16x32xi32>
    %22 = tile.splat %10 : i32 -> tensor<16x32xi32>
    %23 = arith.addi %21, %22 : tensor<16x32xi32>
    %24 = tile.addptr %11, %23 : tensor<16x32x!tile.ptr<f32>>, tensor<16x32xi32>
    tile.store %24, %7 : tensor<16x32x!tile.ptr<f32>>, tensor<16x32xf32>
    return
  }
}