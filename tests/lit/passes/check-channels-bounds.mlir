// A loop of at most two iterations, as `n & 63` is at most two steps of 32. The check runs it for none too, and for no more than
// there can be. Likewise a loop of more than 2^31 iterations, as `n >> 29` is at least 4: the check counts all of them.
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

  // CHECK-LABEL: func.func @many_iterations
  // CHECK: cta.tensor_copy
  // CHECK: cta.mbarrier_wait
  func.func @many_iterations(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %z: !tile.ptr<f32> {tile.divisible = 16 : i64},
                             %n: i32, %numbers: !tile.ptr<i32>) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c7 = arith.constant 7 : i32
    %c29 = arith.constant 29 : i32
    %c32 = arith.constant 32 : i32
    %c64 = arith.constant 64 : i32
    %a = tile.make_view %x, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %times = arith.shrui %n, %c29 : i32
    %begin = arith.xori %n, %c2 : i32
    %sums = scf.for %i = %c0 to %times step %c1 iter_args(%outer = %zero) -> (tensor<64x64xf32>) : i32 {
      %m = tile.load %numbers : !tile.ptr<i32> -> i32
      %end = arith.andi %m, %c7 : i32
      %inner = scf.for %k = %begin to %end step %c1 iter_args(%acc = %outer) -> (tensor<64x64xf32>) : i32 {
        %odd = arith.andi %k, %c1 : i32
        %place = arith.muli %odd, %c32 : i32
        %left = tile.load_block %a[%c0, %place] : !tile.view<2xf16>, [i32, i32] -> tensor<64x32xf16>
        %right = tile.load_block %a[%place, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<32x64xf16>
        %next = tile.dot %left, %right, %acc : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>
        scf.yield %next : tensor<64x64xf32>
      }
      scf.yield %inner : tensor<64x64xf32>
    }
    // Through shared memory, where the copies were.
    %rows = tile.permute %sums [1, 0] : tensor<64x64xf32> -> tensor<64x64xf32>
    %both = arith.addf %rows, %sums : tensor<64x64xf32>
    tile.store_block %c[%c0, %c0], %both : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}
