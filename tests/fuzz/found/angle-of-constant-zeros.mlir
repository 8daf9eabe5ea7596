// The angle of two zeros that are constants is that of two zeros from memory.
module {
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg2: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg3: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg4: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg8: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg9: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg10: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg11: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg12: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg15: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg17: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg18: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg19: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg20: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg22: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg23: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg24: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg25: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg26: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg27: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %zero = arith.constant dense<0.0> : tensor<64xf32>
    %angle = math.atan2 %zero, %zero : tensor<64xf32>
    %i = tile.arange 0 : tensor<64xi32>
    %to = tile.splat %arg21 : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
    %out = tile.addptr %to, %i : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
    tile.store %out, %angle : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
    return
  }
}
