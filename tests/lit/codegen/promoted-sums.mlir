// Sums of fp8 products: every 128 of K they start anew, are waited for, and are added to sums in f32. None is in flight
// when the next iteration begins.
// RUN: sectile-opt --sectile-pipeline %s | sectile-opt --emit-assembly - | FileCheck %s

module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: .entry steps
// CHECK: $L__BB0_[[LOOP:[0-9]+]]:
// CHECK-NOT: add.rn.f32
// CHECK: wgmma.fence
// CHECK: mov.pred [[STARTS:%p[0-9]+]], 0;
// CHECK: wgmma.mma_async{{.*}}[[STARTS]], 1, 1;
// CHECK: mov.pred [[GOES_ON:%p[0-9]+]], -1;
// CHECK-COUNT-3: wgmma.mma_async{{.*}}[[GOES_ON]], 1, 1;
// CHECK: wgmma.commit_group
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK-COUNT-32: add.rn.f32
// CHECK-NOT: add.rn.f32
// CHECK: wgmma.fence
// CHECK: wgmma.mma_async{{.*}}[[STARTS]], 1, 1;
// CHECK-COUNT-3: wgmma.mma_async{{.*}}[[GOES_ON]], 1, 1;
// CHECK: wgmma.commit_group
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK-COUNT-32: add.rn.f32
// CHECK: bra $L__BB0_[[LOOP]];
// CHECK-NOT: wgmma
func.func @steps(%x: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %y: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64},
                 %out: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64})
    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %step = arith.constant 256 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %a = tile.make_view %x, [%c64, %n], [%n, %c1] : !tile.ptr<f8E4M3FN>, [i32, i32], [i32, i32] -> !tile.view<2xf8E4M3FN>
  %b = tile.make_view %y, [%c64, %n], [%n, %c1] : !tile.ptr<f8E4M3FN>, [i32, i32], [i32, i32] -> !tile.view<2xf8E4M3FN>
  %c = tile.make_view %out, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %sums = scf.for %k = %c0 to %n step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %left = tile.load_block %a[%c0, %k] : !tile.view<2xf8E4M3FN>, [i32, i32] -> tensor<64x256xf8E4M3FN>
    %rows = tile.load_block %b[%c0, %k] : !tile.view<2xf8E4M3FN>, [i32, i32] -> tensor<64x256xf8E4M3FN>
    %right = tile.permute %rows [1, 0] : tensor<64x256xf8E4M3FN> -> tensor<256x64xf8E4M3FN>
    %next = tile.dot %left, %right, %acc : tensor<64x256xf8E4M3FN>, tensor<256x64xf8E4M3FN>, tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
  return
}
}
