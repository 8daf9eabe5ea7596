// Each round of a loop combines a tile in memory with itself, shifted.
module {
  func.func @random_program(%arg0: !tile.ptr<i1>, %arg1: !tile.ptr<i8>, %arg2: !tile.ptr<i16>, %arg3: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg4: !tile.ptr<i64>, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32>, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg10: !tile.ptr<f8E5M2>, %arg11: !tile.ptr<f8E4M3FNUZ>, %arg12: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg15: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg17: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg18: !tile.ptr<i64>, %arg19: !tile.ptr<f16>, %arg20: !tile.ptr<bf16>, %arg21: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg22: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg23: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg24: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg25: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg26: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg27: !tile.ptr<f8E4M3B11FNUZ>, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %0 = tile.program_id 0
    %c128_i32 = arith.constant 128 : i32
    %1 = arith.muli %0, %c128_i32 : i32
    %c8192_i32 = arith.constant 8192 : i32
    %2 = arith.addi %1, %c8192_i32 : i32
    %3 = tile.addptr %arg5, %2 : !tile.ptr<f16>, i32
    %4 = tile.hint %3 {divisible = array<i64: 16>} : !tile.ptr<f16>
    %c0_i32 = arith.constant 0 : i32
    %c7_i32 = arith.constant 7 : i32
    %c1_i32 = arith.constant 1 : i32
    scf.for %arg30 = %c0_i32 to %c7_i32 step %c1_i32  : i32 {
      %cst = arith.constant dense<0> : tensor<128xi32>
      %5 = tile.arange 0 : tensor<128xi32>
      %cst_0 = arith.constant dense<1> : tensor<128xi32>
      %6 = arith.muli %5, %cst_0 : tensor<128xi32>
      %7 = arith.addi %cst, %6 : tensor<128xi32>
      %8 = tile.arange 0 : tensor<128xi32>
      %9 = tile.splat %arg30 : i32 -> tensor<128xi32>
      %10 = arith.cmpi sge, %8, %9 : tensor<128xi32>
      %cst_1 = arith.constant dense<1> : tensor<128xi32>
      %11 = arith.muli %9, %cst_1 : tensor<128xi32>
      %12 = arith.subi %7, %11 : tensor<128xi32>
      %cst_2 = arith.constant dense<0.000000e+00> : tensor<128xf16>
      %13 = tile.splat %4 : !tile.ptr<f16> -> tensor<128x!tile.ptr<f16>>
      %14 = tile.addptr %13, %12 : tensor<128x!tile.ptr<f16>>, tensor<128xi32>
      %15 = tile.load %14 mask %10 {cache = 1 : i32} : tensor<128x!tile.ptr<f16>> mask tensor<128xi1> -> tensor<128xf16>
      %16 = tile.minimum_number %cst_2, %15 : tensor<128xf16>
      %17 = arith.extsi %7 : tensor<128xi32> to tensor<128xi64>
      %18 = tile.splat %4 : !tile.ptr<f16> -> tensor<128x!tile.ptr<f16>>
      %19 = tile.addptr %18, %17 : tensor<128x!tile.ptr<f16>>, tensor<128xi64>
      tile.store %19, %16 {cache = 5 : i32, eviction = 2 : i32} : tensor<128x!tile.ptr<f16>>, tensor<128xf16>
    } {cta.stages = 3 : i32}
    return
  }
}