// A product wraps, so that quotients round toward zero from below: they are not the same in runs of eight.
module {
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg2: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg3: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg4: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg8: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg9: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg10: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg11: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg12: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg15: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg17: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg18: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg19: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg20: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg22: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg23: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg24: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg25: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg26: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg27: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %pid = tile.program_id 0
    %far = arith.constant 1103515240 : i32
    %one = arith.constant 1 : i32
    %factor = arith.addi %pid, %one : i32
    %start = arith.muli %factor, %far : i32
    %i = tile.arange 0 : tensor<512xi32>
    %starts = tile.splat %start : i32 -> tensor<512xi32>
    %h = arith.addi %starts, %i : tensor<512xi32>
    %c8 = arith.constant dense<8> : tensor<512xi32>
    %c2 = arith.constant dense<2> : tensor<512xi32>
    %c0 = arith.constant dense<0> : tensor<512xi32>
    %q = arith.divsi %h, %c8 : tensor<512xi32>
    %rest = arith.remsi %q, %c2 : tensor<512xi32>
    %even = arith.cmpi eq, %rest, %c0 : tensor<512xi32>
    %from = tile.splat %arg3 : !tile.ptr<i32> -> tensor<512x!tile.ptr<i32>>
    %ptr = tile.addptr %from, %i : tensor<512x!tile.ptr<i32>>, tensor<512xi32>
    %x = tile.load %ptr mask %even : tensor<512x!tile.ptr<i32>> mask tensor<512xi1> -> tensor<512xi32>
    %c512 = arith.constant 512 : i32
    %base = arith.muli %pid, %c512 : i32
    %bases = tile.splat %base : i32 -> tensor<512xi32>
    %place = arith.addi %bases, %i : tensor<512xi32>
    %to = tile.splat %arg17 : !tile.ptr<i32> -> tensor<512x!tile.ptr<i32>>
    %out = tile.addptr %to, %place : tensor<512x!tile.ptr<i32>>, tensor<512xi32>
    tile.store %out, %x : tensor<512x!tile.ptr<i32>>, tensor<512xi32>
    return
  }
}
