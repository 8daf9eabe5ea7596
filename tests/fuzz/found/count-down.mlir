// A loop promises that the number it counts down is not negative: the compiler has to come to an end.
module {
  func.func @random_program(%arg0: !tile.ptr<i1>, %arg1: !tile.ptr<i8>, %arg2: !tile.ptr<i16>, %arg3: !tile.ptr<i32>, %arg4: !tile.ptr<i64>, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN>, %arg10: !tile.ptr<f8E5M2>, %arg11: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg12: !tile.ptr<f8E5M2FNUZ>, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg15: !tile.ptr<i8>, %arg16: !tile.ptr<i16>, %arg17: !tile.ptr<i32>, %arg18: !tile.ptr<i64>, %arg19: !tile.ptr<f16>, %arg20: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg22: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg23: !tile.ptr<f8E4M3FN>, %arg24: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg25: !tile.ptr<f8E4M3FNUZ>, %arg26: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg27: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %c4_i32 = arith.constant 4 : i32
    %c8_i32 = arith.constant 8 : i32
    %c32_i32 = arith.constant 32 : i32
    %0 = scf.for %arg30 = %c0_i32 to %c8_i32 step %c1_i32 iter_args(%arg31 = %c32_i32) -> (i32)  : i32 {
      %1 = arith.cmpi sge, %arg31, %c0_i32 : i32
      tile.assume %1
      %2 = arith.subi %arg31, %c4_i32 : i32
      %3 = tile.addptr %arg17, %2 : !tile.ptr<i32>, i32
      tile.store %3, %arg31 : !tile.ptr<i32>, i32
      scf.yield %2 : i32
    }
    return
  }
}
