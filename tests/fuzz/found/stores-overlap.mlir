// Two stores of different tile orders that overlap: the second one must win.
module {
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8>, %arg2: !tile.ptr<i16>, %arg3: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg4: !tile.ptr<i64>, %arg5: !tile.ptr<f16>, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg10: !tile.ptr<f8E5M2>, %arg11: !tile.ptr<f8E4M3FNUZ>, %arg12: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg15: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<i16>, %arg17: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg18: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg19: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg20: !tile.ptr<bf16>, %arg21: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg22: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg23: !tile.ptr<f8E4M3FN>, %arg24: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg25: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg26: !tile.ptr<f8E5M2FNUZ>, %arg27: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %0 = tile.program_id 0
    %c512_i32 = arith.constant 512 : i32
    %1 = arith.muli %0, %c512_i32 : i32
    %c0_i32 = arith.constant 0 : i32
    %2 = arith.addi %1, %c0_i32 : i32
    %3 = tile.addptr %arg20, %2 : !tile.ptr<bf16>, i32
    %4 = tile.hint %3 {divisible = array<i64: 16>} : !tile.ptr<bf16>
    %c16_i32 = arith.constant 16 : i32
    %c32_i32 = arith.constant 32 : i32
    %c32_i32_0 = arith.constant 32 : i32
    %c1_i32 = arith.constant 1 : i32
    %5 = tile.make_view %4, [%c16_i32, %c32_i32], [%c32_i32_0, %c1_i32] : !tile.ptr<bf16>, [i32, i32], [i32, i32] -> !tile.view<2xbf16>
    %c0_i32_1 = arith.constant 0 : i32
    %c0_i32_2 = arith.constant 0 : i32
    %cst = arith.constant dense<4> : tensor<16x16xi32>
    %6 = arith.sitofp %cst : tensor<16x16xi32> to tensor<16x16xbf16>
    tile.store_block %5[%c0_i32_1, %c0_i32_2], %6 : !tile.view<2xbf16>, [i32, i32], tensor<16x16xbf16>
    %cst_3 = arith.constant dense<0.000000e+00> : tensor<16x16xbf16>
    %c16_i32_4 = arith.constant 16 : i32
    %c16_i32_5 = arith.constant 16 : i32
    %c-8_i32 = arith.constant -8 : i32
    %c16_i32_6 = arith.constant 16 : i32
    %c1_i32_7 = arith.constant 1 : i32
    %c0_i32_8 = arith.constant 0 : i32
    %c160_i32 = arith.constant 160 : i32
    %7 = tile.addptr %4, %c160_i32 : !tile.ptr<bf16>, i32
    %8 = tile.make_view %7, [%c16_i32_4, %c16_i32_6], [%c16_i32_5, %c1_i32_7] : !tile.ptr<bf16>, [i32, i32], [i32, i32] -> !tile.view<2xbf16>
    tile.store_block %8[%c-8_i32, %c0_i32_8], %cst_3 : !tile.view<2xbf16>, [i32, i32], tensor<16x16xbf16>
    return
  }
}