// A tile is loaded by a view and stored in place in another order: every load goes before the stores.
module {
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg2: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg3: !tile.ptr<i32>, %arg4: !tile.ptr<i64>, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: !tile.ptr<bf16>, %arg7: !tile.ptr<f32>, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg10: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg11: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg12: !tile.ptr<f8E5M2FNUZ>, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg15: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<i16>, %arg17: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg18: !tile.ptr<i64>, %arg19: !tile.ptr<f16>, %arg20: !tile.ptr<bf16>, %arg21: !tile.ptr<f32>, %arg22: !tile.ptr<f64>, %arg23: !tile.ptr<f8E4M3FN>, %arg24: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg25: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg26: !tile.ptr<f8E5M2FNUZ>, %arg27: !tile.ptr<f8E4M3B11FNUZ>, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %0 = tile.program_id 0
    %c1024_i32 = arith.constant 1024 : i32
    %1 = arith.muli %0, %c1024_i32 : i32
    %c8192_i32 = arith.constant 8192 : i32
    %2 = arith.addi %1, %c8192_i32 : i32
    %3 = tile.addptr %arg11, %2 : !tile.ptr<f8E4M3FNUZ>, i32
    %c8_i32 = arith.constant 8 : i32
    %c64_i32 = arith.constant 64 : i32
    %c0_i32 = arith.constant 0 : i32
    %c8_i32_0 = arith.constant 8 : i32
    %c8_i32_1 = arith.constant 8 : i32
    %c0_i32_2 = arith.constant 0 : i32
    %c8_i32_3 = arith.constant 8 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0_i32_4 = arith.constant 0 : i32
    %c74_i32 = arith.constant 74 : i32
    %4 = tile.addptr %3, %c74_i32 : !tile.ptr<f8E4M3FNUZ>, i32
    %5 = tile.make_view %4, [%c8_i32, %c8_i32_0, %c8_i32_3], [%c64_i32, %c8_i32_1, %c1_i32] : !tile.ptr<f8E4M3FNUZ>, [i32, i32, i32], [i32, i32, i32] -> !tile.view<3xf8E4M3FNUZ>
    %6 = tile.load_block %5[%c0_i32, %c0_i32_2, %c0_i32_4] {cache = 4 : i32} : !tile.view<3xf8E4M3FNUZ>, [i32, i32, i32] -> tensor<8x8x16xf8E4M3FNUZ>
    %cst = arith.constant dense<0> : tensor<8x8x16xi32>
    %7 = tile.arange 0 : tensor<8xi32>
    %8 = tile.expand_dims %7 1 : tensor<8xi32> -> tensor<8x1xi32>
    %9 = tile.expand_dims %8 2 : tensor<8x1xi32> -> tensor<8x1x1xi32>
    %10 = tile.broadcast %9 : tensor<8x1x1xi32> -> tensor<8x8x16xi32>
    %cst_5 = arith.constant dense<128> : tensor<8x8x16xi32>
    %11 = arith.muli %10, %cst_5 : tensor<8x8x16xi32>
    %12 = arith.addi %cst, %11 : tensor<8x8x16xi32>
    %13 = tile.arange 0 : tensor<8xi32>
    %14 = tile.expand_dims %13 0 : tensor<8xi32> -> tensor<1x8xi32>
    %15 = tile.expand_dims %14 2 : tensor<1x8xi32> -> tensor<1x8x1xi32>
    %16 = tile.broadcast %15 : tensor<1x8x1xi32> -> tensor<8x8x16xi32>
    %cst_6 = arith.constant dense<16> : tensor<8x8x16xi32>
    %17 = arith.muli %16, %cst_6 : tensor<8x8x16xi32>
    %18 = arith.addi %12, %17 : tensor<8x8x16xi32>
    %19 = tile.arange 0 : tensor<16xi32>
    %20 = tile.expand_dims %19 0 : tensor<16xi32> -> tensor<1x16xi32>
    %21 = tile.expand_dims %20 1 : tensor<1x16xi32> -> tensor<1x1x16xi32>
    %22 = tile.broadcast %21 : tensor<1x1x16xi32> -> tensor<8x8x16xi32>
    %cst_7 = arith.constant dense<1> : tensor<8x8x16xi32>
    %23 = arith.muli %22, %cst_7 : tensor<8x8x16xi32>
    %24 = arith.addi %18, %23 : tensor<8x8x16xi32>
    %25 = tile.splat %3 : !tile.ptr<f8E4M3FNUZ> -> tensor<8x8x16x!tile.ptr<f8E4M3FNUZ>>
    %26 = tile.addptr %25, %24 : tensor<8x8x16x!tile.ptr<f8E4M3FNUZ>>, tensor<8x8x16xi32>
    tile.store %26, %6 {cache = 4 : i32} : tensor<8x8x16x!tile.ptr<f8E4M3FNUZ>>, tensor<8x8x16xf8E4M3FNUZ>
    return
  }
}