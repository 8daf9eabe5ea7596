// The sign of a bf16 number that is computed, copied to another: LLVM for x86 takes it for positive.
module {
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8>, %arg2: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg3: !tile.ptr<i32>, %arg4: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg5: !tile.ptr<f16>, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32>, %arg8: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg9: !tile.ptr<f8E4M3FN>, %arg10: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg11: !tile.ptr<f8E4M3FNUZ>, %arg12: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg13: !tile.ptr<f8E4M3B11FNUZ>, %arg14: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg15: !tile.ptr<i8>, %arg16: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg17: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg18: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg19: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg20: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f32>, %arg22: !tile.ptr<f64>, %arg23: !tile.ptr<f8E4M3FN>, %arg24: !tile.ptr<f8E5M2>, %arg25: !tile.ptr<f8E4M3FNUZ>, %arg26: !tile.ptr<f8E5M2FNUZ>, %arg27: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg28: i32, %arg29: i32) attributes {tile.cluster = 2 : i32, tile.kernel} {
    %0 = tile.program_id 0
    %c16_i32 = arith.constant 16 : i32
    %1 = arith.muli %0, %c16_i32 : i32
    %c8192_i32 = arith.constant 8192 : i32
    %2 = arith.addi %1, %c8192_i32 : i32
    %3 = tile.addptr %arg6, %2 : !tile.ptr<bf16>, i32
    %c0_i32 = arith.constant 0 : i32
    %4 = tile.addptr %3, %c0_i32 : !tile.ptr<bf16>, i32
    %5 = tile.load %4 : !tile.ptr<bf16> -> bf16
    %6 = tile.splat %5 : bf16 -> tensor<64xbf16>
    %c1_i32 = arith.constant 1 : i32
    %7 = tile.addptr %3, %c1_i32 : !tile.ptr<bf16>, i32
    %8 = tile.load %7 : !tile.ptr<bf16> -> bf16
    %9 = tile.splat %8 : bf16 -> tensor<64xbf16>
    %cst = arith.constant dense<2.995200e+04> : tensor<64xbf16>
    %10 = tile.minimum_number %6, %cst : tensor<64xbf16>
    %cst_0 = arith.constant dense<-2.995200e+04> : tensor<64xbf16>
    %11 = tile.maximum_number %10, %cst_0 : tensor<64xbf16>
    %12 = arith.fptosi %11 : tensor<64xbf16> to tensor<64xi16>
    %13 = arith.sitofp %12 : tensor<64xi16> to tensor<64xbf16>
    %14 = math.copysign %9, %13 : tensor<64xbf16>
    %15 = tile.program_id 0
    %c64_i32 = arith.constant 64 : i32
    %16 = arith.muli %15, %c64_i32 : i32
    %c128_i32 = arith.constant 128 : i32
    %17 = arith.addi %16, %c128_i32 : i32
    %18 = tile.addptr %arg20, %17 : !tile.ptr<bf16>, i32
    %c39_i32 = arith.constant 39 : i32
    %c1_i32_1 = arith.constant 1 : i32
    %19 = tile.make_view %18, [%c39_i32], [%c1_i32_1] : !tile.ptr<bf16>, [i32], [i32] -> !tile.view<1xbf16>
    %c0_i32_2 = arith.constant 0 : i32
    tile.store_block %19[%c0_i32_2], %14 : !tile.view<1xbf16>, [i32], tensor<64xbf16>
    return
  }
}
