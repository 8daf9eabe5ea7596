// Which dots instructions of a warpgroup do, which read shared memory themselves.
// RUN: sectile-opt --select-mma --verify-diagnostics %s | FileCheck %s

module attributes {cta.target = "sm_90a"} {
  // As wide as the sums are; columns of no power of two too.
  // CHECK-LABEL: func.func @widths
  // CHECK: by [64, 128, 16] : tensor<128x64xf16>
  // CHECK: by [64, 96, 16] : tensor<64x64xbf16>
  func.func @widths(%a: tensor<128x64xf16>, %b: tensor<64x128xf16>, %acc: tensor<128x128xf32>,
                    %c: tensor<64x64xbf16>, %d: tensor<64x96xbf16>, %sum: tensor<64x96xf32>) {
    %0 = tile.dot %a, %b, %acc : tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>
    %1 = tile.dot %c, %d, %sum : tensor<64x64xbf16>, tensor<64x96xbf16>, tensor<64x96xf32>
    return
  }

  // Each of two warpgroups has columns of its own.
  // CHECK-LABEL: func.func @two
  // CHECK: by [64, 64, 16] : tensor<64x64xf16>
  func.func @two(%a: tensor<64x64xf16>, %b: tensor<64x128xf16>, %acc: tensor<64x128xf32>) attributes {tile.kernel, cta.warps = 8 : i32} {
    %0 = tile.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x128xf32>
    return
  }

  // Few rows, few warps, lines of 16 bytes, several matrices, and operands that are split stay with mma.sync.
  // CHECK-LABEL: func.func @others
  // CHECK: by [16, 8, 16] : tensor<32x64xf16>
  // CHECK: by [16, 8, 16] : tensor<64x64xf16>, tensor<64x24xf16>
  // CHECK: by [16, 8, 16] : tensor<2x64x64xf16>
  // CHECK: by [16, 8, 8] : tensor<64x64xf32>
  // CHECK: by [16, 8, 16] {precision = 3 : i32} : tensor<64x64xf32>
  func.func @others(%a: tensor<32x64xf16>, %b: tensor<64x64xf16>, %acc: tensor<32x64xf32>, %c: tensor<64x24xf16>,
                    %narrow: tensor<64x24xf32>, %d: tensor<2x64x64xf16>, %many: tensor<2x64x64xf32>, %e: tensor<64x64xf32>) {
    %0 = tile.dot %a, %b, %acc : tensor<32x64xf16>, tensor<64x64xf16>, tensor<32x64xf32>
    %1 = tile.dot %b, %c, %narrow : tensor<64x64xf16>, tensor<64x24xf16>, tensor<64x24xf32>
    %2 = tile.dot %d, %d, %many : tensor<2x64x64xf16>, tensor<2x64x64xf16>, tensor<2x64x64xf32>
    // expected-remark @+1 {{computed by instructions of a warp instead of a warpgroup's: A is neither loaded in lines by a loop nor computed from lines along the inner dimension}}
    %3 = tile.dot %e, %e, %e : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
    %4 = tile.dot %e, %e, %e {precision = 3 : i32} : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
    return
  }
  // CHECK-LABEL: func.func @warps
  // CHECK: by [16, 8, 16]
  func.func @warps(%b: tensor<64x64xf16>, %acc: tensor<64x64xf32>) attributes {tile.kernel, cta.warps = 2 : i32} {
    %0 = tile.dot %b, %b, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    return
  }

  // Bytes are read along K alone: those that lie across it are turned on their way in loops, where they are neighbours at all.
  // CHECK-LABEL: func.func @bytes
  // CHECK-NOT: along_k
  // CHECK: cta.dot {{.*}} by [64, 96, 32]
  // CHECK: %[[B:.*]] = cta.along_k %{{.*}} along 0 : tensor<64x96xi8>
  // CHECK: cta.dot %{{.*}}, %[[B]], %{{.*}} by [64, 96, 32]
  // CHECK: %[[A:.*]] = cta.along_k %{{.*}} along 1 : tensor<64x64xi8>
  // CHECK: cta.dot %[[A]], %{{.*}}, %{{.*}} by [64, 96, 32]
  // CHECK-NOT: along_k
  // CHECK: cta.dot {{.*}} by [16, 8, 32]
  // CHECK: cta.dot {{.*}} by [64, 96, 32]
  // CHECK: cta.dot {{.*}} by [16, 8, 32]
  // CHECK: cta.dot {{.*}} by [16, 8, 32]
  func.func @bytes(%x: !tile.ptr<i8>, %y: !tile.ptr<i8>, %acc: tensor<64x96xi32>, %sums: tensor<64x64xi32>,
                   %scattered: tensor<64x64x!tile.ptr<i8>>) {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i64
    %c96 = arith.constant 96 : i64
    %one = arith.constant 1 : i64
    %a = tile.make_view %x, [%c64, %c64], [%c64, %one] : !tile.ptr<i8>, [i64, i64], [i64, i64] -> !tile.view<2xi8>
    %b = tile.make_view %y, [%c96, %c64], [%c64, %one] : !tile.ptr<i8>, [i64, i64], [i64, i64] -> !tile.view<2xi8>
    %t = tile.make_view %y, [%c64, %c96], [%c96, %one] : !tile.ptr<i8>, [i64, i64], [i64, i64] -> !tile.view<2xi8>
    %left = tile.load_block %a[%c0, %c0] : !tile.view<2xi8>, [i32, i32] -> tensor<64x64xi8>
    %rows = tile.load_block %b[%c0, %c0] : !tile.view<2xi8>, [i32, i32] -> tensor<96x64xi8>
    %right = tile.permute %rows [1, 0] : tensor<96x64xi8> -> tensor<64x96xi8>
    %other = tile.load_block %t[%c0, %c0] : !tile.view<2xi8>, [i32, i32] -> tensor<64x96xi8>
    %0 = tile.dot %left, %right, %acc : tensor<64x64xi8>, tensor<64x96xi8>, tensor<64x96xi32>
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %c1 step %c1 : i32 {
      %across = tile.load_block %t[%i, %c0] : !tile.view<2xi8>, [i32, i32] -> tensor<64x96xi8>
      %1 = tile.dot %left, %across, %acc : tensor<64x64xi8>, tensor<64x96xi8>, tensor<64x96xi32>
      %columns = tile.load_block %a[%c0, %i] : !tile.view<2xi8>, [i32, i32] -> tensor<64x64xi8>
      %transposed = tile.permute %columns [1, 0] : tensor<64x64xi8> -> tensor<64x64xi8>
      %2 = tile.dot %transposed, %right, %acc : tensor<64x64xi8>, tensor<64x96xi8>, tensor<64x96xi32>
    }
    // Outside of a loop nothing brings them ahead.
    // expected-remark @+1 {{computed by instructions of a warp instead of a warpgroup's: B is neither loaded in lines by a loop nor computed from lines along the inner dimension}}
    %6 = tile.dot %left, %other, %acc : tensor<64x64xi8>, tensor<64x96xi8>, tensor<64x96xi32>
    // What threads have computed is the left operand in registers, and no right one.
    %weights = arith.trunci %sums : tensor<64x64xi32> to tensor<64x64xi8>
    %3 = tile.dot %weights, %right, %acc : tensor<64x64xi8>, tensor<64x96xi8>, tensor<64x96xi32>
    // expected-remark @+1 {{computed by instructions of a warp instead of a warpgroup's: B is neither loaded in lines by a loop nor computed from lines along the inner dimension}}
    %4 = tile.dot %left, %weights, %sums : tensor<64x64xi8>, tensor<64x64xi8>, tensor<64x64xi32>
    %gathered = tile.load %scattered : tensor<64x64x!tile.ptr<i8>> -> tensor<64x64xi8>
    // expected-remark @+1 {{computed by instructions of a warp instead of a warpgroup's: A is neither loaded in lines by a loop nor computed from lines along the inner dimension}}
    %5 = tile.dot %gathered, %right, %acc : tensor<64x64xi8>, tensor<64x96xi8>, tensor<64x96xi32>
    return
  }

  // Sums of fp8 are promoted, but where a precision is asked for, they are those of f32.
  // CHECK-LABEL: func.func @fp8
  // CHECK: by [64, 96, 32] : tensor<64x64xf8E4M3FN>
  // CHECK: by [16, 8, 32] {precision = 1 : i32} : tensor<64x64xf8E4M3FN>
  // CHECK: by [16, 8, 32] {precision = 2 : i32} : tensor<64x64xf8E4M3FN>
  func.func @fp8(%x: !tile.ptr<f8E4M3FN>, %y: !tile.ptr<f8E5M2>, %acc: tensor<64x96xf32>) {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i64
    %c96 = arith.constant 96 : i64
    %one = arith.constant 1 : i64
    %a = tile.make_view %x, [%c64, %c64], [%c64, %one] : !tile.ptr<f8E4M3FN>, [i64, i64], [i64, i64] -> !tile.view<2xf8E4M3FN>
    %b = tile.make_view %y, [%c96, %c64], [%c64, %one] : !tile.ptr<f8E5M2>, [i64, i64], [i64, i64] -> !tile.view<2xf8E5M2>
    %left = tile.load_block %a[%c0, %c0] : !tile.view<2xf8E4M3FN>, [i32, i32] -> tensor<64x64xf8E4M3FN>
    %rows = tile.load_block %b[%c0, %c0] : !tile.view<2xf8E5M2>, [i32, i32] -> tensor<96x64xf8E5M2>
    %right = tile.permute %rows [1, 0] : tensor<96x64xf8E5M2> -> tensor<64x96xf8E5M2>
    %0 = tile.dot %left, %right, %acc : tensor<64x64xf8E4M3FN>, tensor<64x96xf8E5M2>, tensor<64x96xf32>
    %1 = tile.dot %left, %right, %acc {precision = 1 : i32} : tensor<64x64xf8E4M3FN>, tensor<64x96xf8E5M2>, tensor<64x96xf32>
    %2 = tile.dot %left, %right, %acc {precision = 2 : i32} : tensor<64x64xf8E4M3FN>, tensor<64x96xf8E5M2>, tensor<64x96xf32>
    return
  }

  // tf32 is read along K, as bytes are. Numbers that are split need registers.
  // CHECK-LABEL: func.func @tf32
  // CHECK: by [64, 96, 8] : tensor<64x64xf32>
  // CHECK: by [16, 8, 8] {precision = 2 : i32} : tensor<64x64xf32>
  func.func @tf32(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %acc: tensor<64x96xf32>) {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i64
    %c96 = arith.constant 96 : i64
    %one = arith.constant 1 : i64
    %a = tile.make_view %x, [%c64, %c64], [%c64, %one] : !tile.ptr<f32>, [i64, i64], [i64, i64] -> !tile.view<2xf32>
    %b = tile.make_view %y, [%c96, %c64], [%c64, %one] : !tile.ptr<f32>, [i64, i64], [i64, i64] -> !tile.view<2xf32>
    %left = tile.load_block %a[%c0, %c0] : !tile.view<2xf32>, [i32, i32] -> tensor<64x64xf32>
    %rows = tile.load_block %b[%c0, %c0] : !tile.view<2xf32>, [i32, i32] -> tensor<96x64xf32>
    %right = tile.permute %rows [1, 0] : tensor<96x64xf32> -> tensor<64x96xf32>
    %0 = tile.dot %left, %right, %acc : tensor<64x64xf32>, tensor<64x96xf32>, tensor<64x96xf32>
    %1 = tile.dot %left, %right, %acc {precision = 2 : i32} : tensor<64x64xf32>, tensor<64x96xf32>, tensor<64x96xf32>
    return
  }
}
