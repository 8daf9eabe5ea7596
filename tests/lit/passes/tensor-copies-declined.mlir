// What the engine cannot copy is copied by threads, and a remark says why: a view of a pointer that is no argument, as of one
// matrix of many, and blocks that begin within 16 bytes of a row, for which the chip has no copies.
// RUN: sectile-opt --split-input-file --sectile-pipeline %s 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.err

// REMARK: remark: this load is copied by threads, not by the copy engine: its view is not of arguments alone
// REMARK: remark: this load is copied by threads, not by the copy engine: it is not known to begin at a multiple of 16 bytes of its rows
// REMARK: remark: this load is copied by threads, not by the copy engine: the kernel may write it before

// CHECK-LABEL: func.func @moved
// CHECK-NOT: cta.tensor_copy
// CHECK: cta.async_copy
// CHECK-NOT: cta.tensor_copy
module attributes {cta.target = "sm_90a"} {
  func.func @moved(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %extent: i32 {tile.divisible = 16 : i64},
                   %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %step = arith.constant 4096 : i32
    %program = tile.program_id 0
    %offset = arith.muli %program, %step : i32
    %from = tile.addptr %x, %offset : !tile.ptr<f16>, i32
    %a = tile.make_view %from, [%c64, %extent], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %k = arith.muli %i, %depth : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %a[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}

// -----

// CHECK-LABEL: func.func @begins_anywhere
// CHECK-NOT: cta.tensor_copy
// CHECK: cta.async_copy
// CHECK-NOT: cta.tensor_copy
module attributes {cta.target = "sm_90a"} {
  func.func @begins_anywhere(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %extent: i32 {tile.divisible = 16 : i64},
                   %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %four = arith.constant 4 : i32
    %program = tile.program_id 0
    %begin = arith.muli %program, %four : i32
    %a = tile.make_view %x, [%c64, %extent], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %k = arith.muli %i, %depth : i32
      %at = arith.addi %begin, %k : i32
      %left = tile.load_block %a[%c0, %at] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %a[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}

// -----

// Written in the iteration around that reads it; all others write elsewhere.
// CHECK-LABEL: func.func @written_before
// CHECK-NOT: cta.tensor_copy
// CHECK: cta.async_copy
// CHECK-NOT: cta.tensor_copy
module attributes {cta.target = "sm_90a"} {
  func.func @written_before(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %groups: i32, %steps: i32)
      attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %c1024 = arith.constant 1024 : i32
    %a = tile.make_view %x, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c1024, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %ones = arith.constant dense<1.0> : tensor<128x64xf16>
    scf.for %group = %c0 to %groups step %c1 : i32 {
      %row = arith.muli %group, %c128 : i32
      tile.store_block %a[%row, %c0], %ones : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
      %sums = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
        %k = arith.muli %i, %c64 : i32
        %l = tile.load_block %a[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
        %r = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %dot = tile.dot %l, %r, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
        scf.yield %dot : tensor<128x64xf32>
      }
      %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
      tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
    }
    return
  }
}
