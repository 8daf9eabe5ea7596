// gfx1100, 4 warps, 3 stages
module {
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg2: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg3: !tile.ptr<i32>, %arg4: !tile.ptr<i64>, %arg5: !tile.ptr<f16>, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN>, %arg10: !tile.ptr<f8E5M2>, %arg11: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg12: !tile.ptr<i8>, %arg13: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i32>, %arg15: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<f16>, %arg17: !tile.ptr<bf16>, %arg18: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg19: !tile.ptr<f64>, %arg20: !tile.ptr<f8E4M3FN>, %arg21: !tile.ptr<f8E5M2>, %arg22: i32, %arg23: i32) attributes {tile.kernel} {
    %c-5_i32 = arith.constant -5 : i32
    %0 = tile.splat %c-5_i32 : i32 -> tensor<160xi32>
    %1 = arith.uitofp %0 : tensor<160xi32> to tensor<160xbf16>
    %2 = tile.scan %1 0 reverse : (tensor<160xbf16>) -> tensor<160xbf16> {
    ^bb0(%arg24: bf16, %arg25: bf16):
      %9 = arith.addf %arg24, %arg25 : bf16
      tile.yield %9 : bf16
    }
    %false = arith.constant false
    %3 = scf.if %false -> (tensor<160xbf16>) {
      %cst = arith.constant dense<0.000000e+00> : tensor<160xbf16>
      scf.yield %cst : tensor<160xbf16>
    } else {
      %9 = math.fma %2, %2, %2 : tensor<160xbf16>
      scf.yield %9 : tensor<160xbf16>
    }
    %4 = tile.program_id 0
    %c160_i32 = arith.constant 160 : i32
    %5 = arith.muli %4, %c160_i32 : i32
    %c4416_i32 = arith.constant 4416 : i32
    %6 = arith.addi %5, %c4416_i32 : i32
    %7 = tile.addptr %arg17, %6 : !tile.ptr<bf16>, i32
    %c136_i32 = arith.constant 136 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0_i32 = arith.constant 0 : i32
    %8 = tile.make_view %7, [%c136_i32], [%c1_i32] : !tile.ptr<bf16>, [i32], [i32] -> !tile.view<1xbf16>
    tile.store_block %8[%c0_i32], %3 : !tile.view<1xbf16>, [i32], tensor<160xbf16>
    return
  }
}