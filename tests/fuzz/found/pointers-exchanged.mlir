// A loop exchanges two pointers into one argument, and copies from one to the other.
module {
  func.func @random_program(%arg0: !tile.ptr<i1>, %arg1: !tile.ptr<i8>, %arg2: !tile.ptr<i16>, %arg3: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg4: !tile.ptr<i64>, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN>, %arg10: !tile.ptr<f8E5M2>, %arg11: !tile.ptr<f8E4M3FNUZ>, %arg12: !tile.ptr<f8E5M2FNUZ>, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1>, %arg15: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<i16>, %arg17: !tile.ptr<i32>, %arg18: !tile.ptr<i64>, %arg19: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg20: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f32>, %arg22: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg23: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg24: !tile.ptr<f8E5M2>, %arg25: !tile.ptr<f8E4M3FNUZ>, %arg26: !tile.ptr<f8E5M2FNUZ>, %arg27: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %0 = tile.program_id 0
    %c1024_i32 = arith.constant 1024 : i32
    %1 = arith.muli %0, %c1024_i32 : i32
    %c9216_i32 = arith.constant 9216 : i32
    %2 = arith.addi %1, %c9216_i32 : i32
    %3 = tile.addptr %arg0, %2 : !tile.ptr<i1>, i32
    %4 = tile.hint %3 {divisible = array<i64: 16>} : !tile.ptr<i1>
    %5 = tile.program_id 0
    %c1024_i32_0 = arith.constant 1024 : i32
    %6 = arith.muli %5, %c1024_i32_0 : i32
    %c8192_i32 = arith.constant 8192 : i32
    %7 = arith.addi %6, %c8192_i32 : i32
    %8 = tile.addptr %arg0, %7 : !tile.ptr<i1>, i32
    %9 = tile.hint %8 {divisible = array<i64: 16>} : !tile.ptr<i1>
    %c0_i32 = arith.constant 0 : i32
    %c48_i32 = arith.constant 48 : i32
    %10 = tile.addptr %arg3, %c48_i32 : !tile.ptr<i32>, i32
    %11 = tile.load %10 : !tile.ptr<i32> -> i32
    %c1_i32 = arith.constant 1 : i32
    %c7_i32 = arith.constant 7 : i32
    %12 = arith.andi %11, %c7_i32 : i32
    %13:2 = scf.for %arg30 = %c0_i32 to %12 step %c1_i32 iter_args(%arg31 = %9, %arg32 = %4) -> (!tile.ptr<i1>, !tile.ptr<i1>)  : i32 {
      %c32_i32 = arith.constant 32 : i32
      %c1_i64 = arith.constant 1 : i64
      %c11_i32 = arith.constant 11 : i32
      %c32_i32_1 = arith.constant 32 : i32
      %c1_i32_2 = arith.constant 1 : i32
      %c0_i32_3 = arith.constant 0 : i32
      %c172_i32 = arith.constant 172 : i32
      %14 = tile.addptr %arg31, %c172_i32 : !tile.ptr<i1>, i32
      %15 = tile.make_view %14, [%c32_i32, %c32_i32_1], [%c1_i64, %c1_i32_2] : !tile.ptr<i1>, [i32, i32], [i64, i32] -> !tile.view<2xi1>
      %16 = tile.load_block %15[%c11_i32, %c0_i32_3] : !tile.view<2xi1>, [i32, i32] -> tensor<32x32xi1>
      %cst = arith.constant dense<18> : tensor<32x32xi32>
      %cst_4 = arith.constant dense<0> : tensor<32x32xi32>
      %17 = tile.arange 0 : tensor<32xi32>
      %18 = tile.expand_dims %17 1 : tensor<32xi32> -> tensor<32x1xi32>
      %19 = tile.broadcast %18 : tensor<32x1xi32> -> tensor<32x32xi32>
      %cst_5 = arith.constant dense<31> : tensor<32x32xi32>
      %20 = arith.subi %cst_5, %19 : tensor<32x32xi32>
      %cst_6 = arith.constant dense<1> : tensor<32x32xi32>
      %21 = arith.muli %20, %cst_6 : tensor<32x32xi32>
      %22 = arith.addi %cst_4, %21 : tensor<32x32xi32>
      %23 = tile.arange 0 : tensor<32xi32>
      %24 = tile.expand_dims %23 0 : tensor<32xi32> -> tensor<1x32xi32>
      %25 = tile.broadcast %24 : tensor<1x32xi32> -> tensor<32x32xi32>
      %cst_7 = arith.constant dense<32> : tensor<32x32xi32>
      %26 = arith.muli %25, %cst_7 : tensor<32x32xi32>
      %27 = arith.addi %22, %26 : tensor<32x32xi32>
      %28 = arith.addi %27, %cst : tensor<32x32xi32>
      %cst_8 = arith.constant dense<0> : tensor<32x32xi32>
      %29 = arith.cmpi sge, %28, %cst_8 : tensor<32x32xi32>
      %cst_9 = arith.constant dense<1024> : tensor<32x32xi32>
      %30 = arith.cmpi slt, %28, %cst_9 : tensor<32x32xi32>
      %31 = arith.andi %29, %30 : tensor<32x32xi1>
      %32 = tile.splat %arg32 : !tile.ptr<i1> -> tensor<32x32x!tile.ptr<i1>>
      %33 = tile.addptr %32, %28 : tensor<32x32x!tile.ptr<i1>>, tensor<32x32xi32>
      tile.store %33, %16 mask %31 {cache = 4 : i32} : tensor<32x32x!tile.ptr<i1>>, tensor<32x32xi1> mask tensor<32x32xi1>
      scf.yield %arg32, %arg31 : !tile.ptr<i1>, !tile.ptr<i1>
    } {cta.stages = 3 : i32}
    return
  }
}