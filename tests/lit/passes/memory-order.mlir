// What orders memory ahead of a loop keeps its copies from a producer partition, and gets a fence where the engine makes them. What
// comes after it does not, unless a loop around both goes on to copy what other programs may write.
// RUN: sectile-opt --split-input-file --sectile-pipeline %s -o %t.mlir 2>%t.err
// RUN: FileCheck %s --input-file %t.mlir
// RUN: FileCheck %s --input-file %t.err --check-prefix=REMARK

// A loop that waits for a flag: one fence after it.
// REMARK: remark: all warps do the same work: the kernel orders memory before its copies, by tile.atomic_rmw
// CHECK-LABEL: func.func @waits
// CHECK-NOT: cta.partition
// CHECK: scf.while
// CHECK-NOT: {cta.global}
// CHECK: scf.yield
// CHECK-NEXT: }
// CHECK-NEXT: cta.proxy_fence {cta.global}
// CHECK: cta.tensor_copy
module attributes {cta.target = "sm_90a"} {
  func.func @waits(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %flags: !tile.ptr<i32>, %groups: i32, %steps: i32)
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
    scf.while : () -> () {
      %old = tile.atomic_rmw add, %flags, %c0 {order = 1 : i32} : !tile.ptr<i32>, i32 -> i32
      %again = arith.cmpi eq, %old, %c0 : i32
      scf.condition(%again)
    } do {
      scf.yield
    }
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

// A barrier under a condition.
// REMARK: remark: all warps do the same work: the kernel orders memory before its copies, by tile.barrier
// CHECK-LABEL: func.func @barrier_in_branch
// CHECK-NOT: cta.partition
// CHECK: scf.if
// CHECK: tile.barrier
// CHECK-NEXT: }
// CHECK-NEXT: cta.proxy_fence {cta.global}
// CHECK: cta.tensor_copy
module attributes {cta.target = "sm_90a"} {
  func.func @barrier_in_branch(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %flags: !tile.ptr<i32>, %groups: i32, %steps: i32)
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
    %some = arith.cmpi sgt, %groups, %c1 : i32
    scf.if %some {
      tile.barrier
    }
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

// In the loop around: before the copies of every iteration.
// REMARK: remark: all warps do the same work: the kernel orders memory before its copies, by tile.atomic_rmw
// CHECK-LABEL: func.func @in_outer_loop
// CHECK-NOT: cta.partition
// CHECK: scf.for
// CHECK: scf.while
// CHECK: cta.proxy_fence {cta.global}
// CHECK: cta.tensor_copy
module attributes {cta.target = "sm_90a"} {
  func.func @in_outer_loop(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %flags: !tile.ptr<i32>, %groups: i32, %steps: i32)
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
      scf.while : () -> () {
        %old = tile.atomic_rmw add, %flags, %c0 {order = 1 : i32} : !tile.ptr<i32>, i32 -> i32
        %again = arith.cmpi eq, %old, %c0 : i32
        scf.condition(%again)
      } do {
        scf.yield
      }
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

// After the copies, but before those of the next iteration.
// REMARK: remark: all warps do the same work: the kernel orders memory before its copies, by tile.barrier
// CHECK-LABEL: func.func @barrier_after
// CHECK-NOT: cta.partition
// CHECK: cta.tensor_copy
// CHECK: tile.barrier
// CHECK-NEXT: cta.proxy_fence {cta.global}
module attributes {cta.target = "sm_90a"} {
  func.func @barrier_after(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %flags: !tile.ptr<i32>, %groups: i32, %steps: i32)
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
      %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
      tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
      tile.barrier
    }
    return
  }
}

// -----

// Others than the programs of the launch may write what it then copies.
// REMARK: remark: all warps do the same work: the kernel orders memory before its copies, by tile.atomic_cas
// CHECK-LABEL: func.func @system
// CHECK-NOT: cta.partition
// CHECK: cta.tensor_copy
// CHECK: tile.atomic_cas
// CHECK-NEXT: cta.proxy_fence {cta.global}
module attributes {cta.target = "sm_90a"} {
  func.func @system(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %flags: !tile.ptr<i32>, %groups: i32, %steps: i32)
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
      %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
      tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
      %got = tile.atomic_cas %flags, %c0, %c1 {scope = 2 : i32} : !tile.ptr<i32>, i32 -> i32
    }
    return
  }
}

// -----

// Programs write only elsewhere what they tell each other of.
// CHECK-LABEL: func.func @counts
// CHECK: cta.partition
// CHECK-NOT: {cta.global}
// CHECK: return
module attributes {cta.target = "sm_90a"} {
  func.func @counts(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %flags: !tile.ptr<i32>, %groups: i32, %steps: i32)
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
      %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
      tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
      %got = tile.atomic_rmw add, %flags, %c1 : !tile.ptr<i32>, i32 -> i32
    }
    return
  }
}

// -----

// Orders nothing.
// CHECK-LABEL: func.func @relaxed
// CHECK: cta.partition
// CHECK-NOT: {cta.global}
// CHECK: return
module attributes {cta.target = "sm_90a"} {
  func.func @relaxed(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %flags: !tile.ptr<i32>, %groups: i32, %steps: i32)
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
    %got = tile.atomic_rmw add, %flags, %c1 {order = 0 : i32} : !tile.ptr<i32>, i32 -> i32
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

// Orders what comes before it.
// CHECK-LABEL: func.func @releases
// CHECK: cta.partition
// CHECK-NOT: {cta.global}
// CHECK: return
module attributes {cta.target = "sm_90a"} {
  func.func @releases(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
      %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %flags: !tile.ptr<i32>, %groups: i32, %steps: i32)
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
    %got = tile.atomic_rmw add, %flags, %c1 {order = 2 : i32} : !tile.ptr<i32>, i32 -> i32
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
