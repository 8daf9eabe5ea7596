// A loop of at most two iterations, as `n & 63` is at most two steps of 32. The check runs it for none too, and for no more than
// there can be.
// RUN: sectile-opt --sectile-pipeline %s | FileCheck %s

// CHECK-LABEL: func.func @two_iterations
// CHECK: cta.tensor_copy
// CHECK: cta.mbarrier_wait
module attributes {cta.target = "sm_90a"} {
  func.func @two_iterations(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %z: !tile.ptr<f32> {tile.divisible = 16 : i64},
                            %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c32 = arith.constant 32 : i32
    %c63 = arith.constant 63 : i32
    %c64 = arith.constant 64 : i32
    %a = tile.make_view %x, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %end = arith.andi %n, %c63 : i32
    %sums = scf.for %k = %c0 to %end step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x32xf16>
      %right = tile.load_block %a[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<32x64xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}
