// Kernels that wait for the launch ahead: a producer partition waits, too, where its copies come after.
// RUN: sectile-opt --split-input-file --sectile-pipeline %s | FileCheck %s

// Copies ahead of the wait are made without waiting.
// CHECK-LABEL: func.func @waits_behind
// CHECK: cta.partition
// CHECK: cta.tensor_copy
// CHECK-NOT: tile.wait_dependencies
// CHECK: scf.for
// CHECK: cta.dot_start
// CHECK: tile.wait_dependencies
module attributes {cta.target = "sm_90a"} {
  func.func @waits_behind(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %groups: i32, %steps: i32)
      attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %c1024 = arith.constant 1024 : i32
    %a = tile.make_view %x, [%c1024, %c1024], [%c1024, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %row = arith.muli %groups, %c128 : i32
    %sums = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = arith.muli %i, %c64 : i32
      %l = tile.load_block %a[%row, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
      %r = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %dot = tile.dot %l, %r, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      scf.yield %dot : tensor<128x64xf32>
    } {cta.warp_specialize = true}
    %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
    tile.wait_dependencies
    tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
    return
  }
}

// -----

// What is copied may be what the launch ahead writes: both sides wait for it.
// CHECK-LABEL: func.func @waits_first
// CHECK: cta.partition
// CHECK-NEXT: tile.wait_dependencies
// CHECK: cta.tensor_copy
// CHECK: tile.wait_dependencies
// CHECK: cta.dot_start
module attributes {cta.target = "sm_90a"} {
  func.func @waits_first(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %groups: i32, %steps: i32)
      attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %c1024 = arith.constant 1024 : i32
    %a = tile.make_view %x, [%c1024, %c1024], [%c1024, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    tile.wait_dependencies
    scf.for %group = %c0 to %groups step %c1 : i32 {
      %row = arith.muli %group, %c128 : i32
      %sums = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
        %k = arith.muli %i, %c64 : i32
        %l = tile.load_block %a[%row, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
        %r = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %dot = tile.dot %l, %r, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
        scf.yield %dot : tensor<128x64xf32>
      } {cta.warp_specialize = true}
      %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
      tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
    }
    return
  }
}

// -----

// How far loops go may be what the launch ahead writes as well: neither side loads it before its wait.
// CHECK-LABEL: func.func @loads_after
// CHECK-NOT: tile.load
// CHECK: cta.partition
// CHECK-NEXT: tile.wait_dependencies
// CHECK: %[[STEPS:.*]] = tile.load
// CHECK: scf.for {{.*}} to %[[STEPS]]
// CHECK: cta.tensor_copy
// CHECK: tile.wait_dependencies
// CHECK: tile.load
// CHECK: cta.dot_start
module attributes {cta.target = "sm_90a"} {
  func.func @loads_after(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %counts: !tile.ptr<i32>, %row: i32)
      attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c1024 = arith.constant 1024 : i32
    %a = tile.make_view %x, [%c1024, %c1024], [%c1024, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    tile.wait_dependencies
    %steps = tile.load %counts : !tile.ptr<i32> -> i32
    %sums = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = arith.muli %i, %c64 : i32
      %l = tile.load_block %a[%row, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
      %r = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %dot = tile.dot %l, %r, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      scf.yield %dot : tensor<128x64xf32>
    } {cta.warp_specialize = true}
    %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
    tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
    return
  }
}
