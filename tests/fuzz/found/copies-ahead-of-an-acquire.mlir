// Each program multiplies from what the one before it has stored: copies that warps of their own make must not run ahead of
// the flag.
module {
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg2: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg3: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg4: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg8: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg9: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg10: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg11: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg12: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg15: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg16: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg17: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg18: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg19: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg20: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg22: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg23: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg24: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg25: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg26: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg27: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg28: i32, %arg29: i32, %arg30: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg31: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg32: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg33: !tile.ptr<f32> {tile.divisible = 16 : i64}) attributes {tile.kernel} {
    %pid = tile.program_id 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c16 = arith.constant 16 : i32
    %c64 = arith.constant 64 : i32
    %c256 = arith.constant 256 : i32
    %numbers = arith.constant dense<3.0> : tensor<64x64xf16>
    %h = tile.make_view %arg19, [%c256, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %a = tile.make_view %arg31, [%c256, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %row = arith.muli %pid, %c64 : i32
    %to = arith.addi %row, %c64 : i32
    %flag = tile.addptr %arg17, %pid : !tile.ptr<i32>, i32
    %raised = tile.addptr %flag, %c1 : !tile.ptr<i32>, i32
    %first = arith.cmpi eq, %pid, %c0 : i32
    scf.if %first {
      tile.store_block %h[%row, %c0], %numbers : !tile.view<2xf16>, [i32, i32], tensor<64x64xf16>
      tile.barrier
    } else {
      scf.while : () -> () {
        %seen = tile.atomic_rmw add, %flag, %c0 {order = 1 : i32} : !tile.ptr<i32>, i32 -> i32
        %waits = arith.cmpi ne, %seen, %c1 : i32
        scf.condition(%waits)
      } do {
        scf.yield
      }
    }
    %none = arith.constant dense<0.0> : tensor<64x64xf32>
    %b = tile.make_view %arg5, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %sums = scf.for %k = %c0 to %c4 step %c1 iter_args(%acc = %none) -> (tensor<64x64xf32>)  : i32 {
      %at = arith.muli %k, %c16 : i32
      %l = tile.load_block %a[%row, %at] : !tile.view<2xf16>, [i32, i32] -> tensor<64x16xf16>
      %r = tile.load_block %b[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<16x64xf16>
      %next = tile.dot %l, %r, %acc : tensor<64x16xf16>, tensor<16x64xf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    } {cta.warp_specialize = true}
    %y = tile.make_view %arg21, [%c256, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %place = arith.muli %pid, %c64 : i32
    tile.store_block %y[%place, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    %kept = arith.minimumf %sums, %sums : tensor<64x64xf32>
    %halves = arith.truncf %kept : tensor<64x64xf32> to tensor<64x64xf16>
    tile.store_block %h[%to, %c0], %halves : !tile.view<2xf16>, [i32, i32], tensor<64x64xf16>
    %before = tile.atomic_rmw exchange, %raised, %c1 {order = 2 : i32} : !tile.ptr<i32>, i32 -> i32
    return
  }
}
