// What keeps a loop's copies from a producer partition: scalars that it cannot compute as well.
// RUN: sectile-opt --split-input-file --sectile-pipeline %s -o %t.mlir 2>%t.err
// RUN: FileCheck %s --input-file %t.mlir --implicit-check-not=cta.partition
// RUN: FileCheck %s --input-file %t.err --check-prefix=REMARK

// The kernel writes what the number is loaded from.
// REMARK: remark: all warps do the same work: its copies depend on tile.load
// CHECK-LABEL: func.func @written
// CHECK: cta.tensor_copy
module attributes {cta.target = "sm_90a"} {
  func.func @written(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %lengths: !tile.ptr<i32>, %groups: i32, %steps: i32)
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
    scf.for %group = %c0 to %groups step %c1 : i32 {
      %place = arith.extsi %group : i32 to i64
      %ptr = tile.addptr %lengths, %place : !tile.ptr<i32>, i64
      %number = tile.load %ptr : !tile.ptr<i32> -> i32
      %row = arith.muli %number, %c128 : i32
      %sums = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
        %k = arith.muli %i, %c64 : i32
        %l = tile.load_block %a[%row, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
        %r = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %dot = tile.dot %l, %r, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
        scf.yield %dot : tensor<128x64xf32>
      } {cta.warp_specialize = true}
      %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
      tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
      tile.store %ptr, %group : !tile.ptr<i32>, i32
    }
    return
  }
}

// -----

// The load may not be repeated.
// REMARK: remark: all warps do the same work: its copies depend on tile.load
// CHECK-LABEL: func.func @volatile
// CHECK: cta.tensor_copy
module attributes {cta.target = "sm_90a"} {
  func.func @volatile(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %lengths: !tile.ptr<i32>, %groups: i32, %steps: i32)
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
    scf.for %group = %c0 to %groups step %c1 : i32 {
      %place = arith.extsi %group : i32 to i64
      %ptr = tile.addptr %lengths, %place : !tile.ptr<i32>, i64
      %number = tile.load %ptr {isVolatile} : !tile.ptr<i32> -> i32
      %row = arith.muli %number, %c128 : i32
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

// The number is at an address that was loaded: it may be one that the kernel writes.
// REMARK: remark: all warps do the same work: its copies depend on tile.load
// CHECK-LABEL: func.func @loaded
// CHECK: cta.tensor_copy
module attributes {cta.target = "sm_90a"} {
  func.func @loaded(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %tables: !tile.ptr<i64>, %groups: i32, %steps: i32)
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
    scf.for %group = %c0 to %groups step %c1 : i32 {
      %place = arith.extsi %group : i32 to i64
      %entry = tile.addptr %tables, %place : !tile.ptr<i64>, i64
      %bits = tile.load %entry : !tile.ptr<i64> -> i64
      %table = tile.int_to_ptr %bits : i64 -> !tile.ptr<i32>
      %number = tile.load %table : !tile.ptr<i32> -> i32
      %row = arith.muli %number, %c128 : i32
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

// The number is computed from a tile.
// REMARK: remark: all warps do the same work: its copies depend on a tile, by tile.reduce
// CHECK-LABEL: func.func @tile
// CHECK: cta.tensor_copy
module attributes {cta.target = "sm_90a"} {
  func.func @tile(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %lengths: !tile.ptr<i32>, %groups: i32, %steps: i32)
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
    scf.for %group = %c0 to %groups step %c1 : i32 {
      %place = arith.extsi %group : i32 to i64
      %numbers = tile.arange 0 : tensor<128xi32>
      %sum = tile.reduce %numbers 0 : (tensor<128xi32>) -> i32 {
      ^bb0(%p: i32, %q: i32):
        %pq = arith.addi %p, %q : i32
        tile.yield %pq : i32
      }
      %number = arith.addi %sum, %group : i32
      %row = arith.muli %number, %c128 : i32
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

// The next group is copied after the wait.
// REMARK: remark: all warps do the same work: the kernel waits for the launch ahead in a branch or a loop
// CHECK-LABEL: func.func @waits_between
// CHECK: cta.tensor_copy
module attributes {cta.target = "sm_90a"} {
  func.func @waits_between(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
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
    scf.for %group = %c0 to %groups step %c1 : i32 {
      %row = arith.muli %group, %c128 : i32
      %sums = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
        %k = arith.muli %i, %c64 : i32
        %l = tile.load_block %a[%row, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
        %r = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %dot = tile.dot %l, %r, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
        scf.yield %dot : tensor<128x64xf32>
      } {cta.warp_specialize = true}
      tile.wait_dependencies
      %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
      tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
    }
    return
  }
}
