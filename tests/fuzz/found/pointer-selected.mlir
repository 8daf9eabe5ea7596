// A selected pointer may be either of two: loads and stores through it are in order with both.
module {
  func.func @random_program(%arg0: !tile.ptr<i1>, %arg1: !tile.ptr<i8>, %arg2: !tile.ptr<i16>, %arg3: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg4: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: !tile.ptr<bf16>, %arg7: !tile.ptr<f32>, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg10: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg11: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg12: !tile.ptr<f8E5M2FNUZ>, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1>, %arg15: !tile.ptr<i8>, %arg16: !tile.ptr<i16>, %arg17: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg18: !tile.ptr<i64>, %arg19: !tile.ptr<f16>, %arg20: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f32>, %arg22: !tile.ptr<f64>, %arg23: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg24: !tile.ptr<f8E5M2>, %arg25: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg26: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg27: !tile.ptr<f8E4M3B11FNUZ>, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %0 = tile.program_id 0
    %c256_i32 = arith.constant 256 : i32
    %1 = arith.muli %0, %c256_i32 : i32
    %c256_i32_0 = arith.constant 256 : i32
    %2 = arith.addi %1, %c256_i32_0 : i32
    %3 = tile.addptr %arg16, %2 : !tile.ptr<i16>, i32
    %4 = tile.hint %3 {divisible = array<i64: 16>} : !tile.ptr<i16>
    %5 = tile.program_id 0
    %c256_i32_1 = arith.constant 256 : i32
    %6 = arith.muli %5, %c256_i32_1 : i32
    %c0_i32 = arith.constant 0 : i32
    %7 = arith.addi %6, %c0_i32 : i32
    %8 = tile.addptr %arg16, %7 : !tile.ptr<i16>, i32
    %9 = tile.hint %8 {divisible = array<i64: 16>} : !tile.ptr<i16>
    %c20_i32 = arith.constant 20 : i32
    %c60_i32 = arith.constant 60 : i32
    %10 = tile.addptr %arg3, %c60_i32 : !tile.ptr<i32>, i32
    %11 = tile.load %10 : !tile.ptr<i32> -> i32
    %12 = arith.cmpi slt, %c20_i32, %11 : i32
    %13 = arith.select %12, %9, %4 : !tile.ptr<i16>
    %14 = tile.splat %9 : !tile.ptr<i16> -> tensor<48x!tile.ptr<i16>>
    %15 = tile.load %14 : tensor<48x!tile.ptr<i16>> -> tensor<48xi16>
    %cst = arith.constant dense<0> : tensor<96xi16>
    %c10_i32 = arith.constant 10 : i32
    %16 = tile.addptr %arg3, %c10_i32 : !tile.ptr<i32>, i32
    %17 = tile.load %16 : !tile.ptr<i32> -> i32
    %18 = tile.splat %17 : i32 -> tensor<96xi32>
    %cst_2 = arith.constant dense<0> : tensor<96xi32>
    %19 = tile.arange 0 : tensor<96xi32>
    %cst_3 = arith.constant dense<1> : tensor<96xi32>
    %20 = arith.muli %19, %cst_3 : tensor<96xi32>
    %21 = arith.addi %cst_2, %20 : tensor<96xi32>
    %22 = arith.addi %21, %18 : tensor<96xi32>
    %cst_4 = arith.constant dense<255> : tensor<96xi32>
    %23 = arith.andi %22, %cst_4 : tensor<96xi32>
    %24 = arith.extsi %23 : tensor<96xi32> to tensor<96xi64>
    %25 = tile.splat %4 : !tile.ptr<i16> -> tensor<96x!tile.ptr<i16>>
    %26 = tile.addptr %25, %24 : tensor<96x!tile.ptr<i16>>, tensor<96xi64>
    tile.store %26, %cst {cache = 4 : i32} : tensor<96x!tile.ptr<i16>>, tensor<96xi16>
    %c21_i32 = arith.constant 21 : i32
    %27 = tile.addptr %arg3, %c21_i32 : !tile.ptr<i32>, i32
    %28 = tile.load %27 : !tile.ptr<i32> -> i32
    %29 = arith.cmpi slt, %arg28, %28 : i32
    %30 = arith.select %29, %13, %13 : !tile.ptr<i16>
    %cst_5 = arith.constant dense<-1> : tensor<48xi32>
    %cst_6 = arith.constant dense<0> : tensor<48xi32>
    %31 = tile.arange 0 : tensor<48xi32>
    %cst_7 = arith.constant dense<47> : tensor<48xi32>
    %32 = arith.subi %cst_7, %31 : tensor<48xi32>
    %cst_8 = arith.constant dense<1> : tensor<48xi32>
    %33 = arith.muli %32, %cst_8 : tensor<48xi32>
    %34 = arith.addi %cst_6, %33 : tensor<48xi32>
    %35 = arith.addi %34, %cst_5 : tensor<48xi32>
    %cst_9 = arith.constant dense<0> : tensor<48xi32>
    %36 = arith.cmpi sge, %35, %cst_9 : tensor<48xi32>
    %cst_10 = arith.constant dense<256> : tensor<48xi32>
    %37 = arith.cmpi slt, %35, %cst_10 : tensor<48xi32>
    %38 = arith.andi %36, %37 : tensor<48xi1>
    %39 = tile.splat %30 : !tile.ptr<i16> -> tensor<48x!tile.ptr<i16>>
    %40 = tile.addptr %39, %35 : tensor<48x!tile.ptr<i16>>, tensor<48xi32>
    tile.store %40, %15 mask %38 {eviction = 2 : i32} : tensor<48x!tile.ptr<i16>>, tensor<48xi16> mask tensor<48xi1>
    return
  }
}