// Blocks of a cluster copy one half each of what both of them load, to both of them. Before a slot is used again, each says to
// the other that it has read it. The pass that checks channels runs both blocks; each line below breaks the kernel in one place.
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir 2>%t.err
// RUN: FileCheck %s --input-file %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.err
// RUN: sectile-opt --check-channels %t.mlir -o /dev/null

// REMARK-COUNT-2: remark: this kernel has no clusters: no load of a loop is one that both programs have the copy engine make
// REMARK: remark: this kernel has no clusters: its programs may wait for each other

// CHECK-LABEL: func.func @shares
// The map is of half a tile: 32 of its 64 rows.
// CHECK-SAME: box = array<i64: 64, 64>
// CHECK-SAME: box = array<i64: 64, 32>
// CHECK-SAME: tile.cluster = 2
// CHECK: %[[FILLED:.*]] = cta.mbarriers
// CHECK: %[[FREED:.*]] = cta.mbarriers
// CHECK-NEXT: cta.cluster_barrier
// Both blocks say so of the first use of a slot, too, and each phase of an mbarrier is one use.
// CHECK: cta.cluster_acquire {{.*}} by %[[FREED]]
// CHECK: scf.for
// CHECK: cta.cluster_acquire {{.*}} by %[[FREED]]
// CHECK-NEXT: cta.tensor_copy %{{.*}}, %{{[^ ]*}} signals %[[FILLED]]{{.*}} {expects = 16384 : i32}
// CHECK-NEXT: cta.tensor_copy %{{.*}}, %{{[^ ]*}} shared signals %[[FILLED]]

// A copy that only one of the two programs makes is its own.
// CHECK-LABEL: func.func @shares_where_odd
// CHECK-NOT: tile.cluster
// CHECK-NOT: shared signals

// CHECK-LABEL: func.func @shares_nothing
// CHECK-NOT: tile.cluster
// CHECK-NOT: shared signals
// CHECK-NOT: cta.cluster

// A program that waits for its neighbour's flag would not free what the neighbour waits for.
// CHECK-LABEL: func.func @waits
// CHECK-NOT: tile.cluster
// CHECK-NOT: shared signals
// CHECK-NOT: cta.cluster

// Copies of one loop are made by a producer partition. They may still run where the cluster would meet for the other loop, which
// shares nothing.
// REMARK: remark: the programs of a cluster do not share this copy: a producer partition makes those of another loop
// CHECK-LABEL: func.func @two_loops
// CHECK: cta.cluster_barrier
// CHECK: cta.partition
// CHECK: shared signals
// CHECK-NOT: cta.cluster_barrier
// CHECK-NOT: shared signals

// RUN: sed '/cta.cluster_acquire/d' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=ACQUIRE
// ACQUIRE: error: 'cta.tensor_copy' op overwrites slot 0
// RUN: sed 's/cta.cluster_barrier .*/cta.barrier/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=MADE
// MADE: error: 'cta.cluster_acquire' op reads slot 0 before
// RUN: sed 's/\(cta.cluster_acquire.*parity\) %[^ ]*/\1 %%c1_i32/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=PARITY
// PARITY: error: 'cta.cluster_acquire' op may complete the phase of slot 0
// RUN: sed 's/expects = 16384/expects = 12288/' %t.mlir | not sectile-opt --check-channels 2>&1 | FileCheck %s --check-prefix=BYTES
// BYTES: error: 'cta.dot_start' op reads slot 0 in iteration 0 of 1 before its bytes are there (use 0)

module attributes {cta.target = "sm_90a"} {
  func.func @shares(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                    %rows: i32 {tile.divisible = 16 : i64}, %extent: i32 {tile.divisible = 16 : i64}, %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
      attributes {tile.kernel, tile.cluster = 2 : i32, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %program = tile.program_id 0
    %row = arith.muli %program, %c64 : i32
    %a = tile.make_view %x, [%rows, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%rows, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %k = arith.muli %i, %c64 : i32
      %left = tile.load_block %a[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    tile.store_block %c[%row, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }

  func.func @shares_where_odd(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                    %rows: i32 {tile.divisible = 16 : i64}, %extent: i32 {tile.divisible = 16 : i64}, %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
      attributes {tile.kernel, tile.cluster = 2 : i32, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %program = tile.program_id 0
    %row = arith.muli %program, %c64 : i32
    %a = tile.make_view %x, [%rows, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%rows, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %two = arith.constant 2 : i32
    %odd = arith.remui %program, %two : i32
    %when = arith.cmpi ne, %odd, %c0 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %k = arith.muli %i, %c64 : i32
      %left = tile.load_block %a[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] when %when : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    tile.store_block %c[%row, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }

  func.func @shares_nothing(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %rows: i32 {tile.divisible = 16 : i64},
                            %extent: i32 {tile.divisible = 16 : i64}, %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
      attributes {tile.kernel, tile.cluster = 2 : i32, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %program = tile.program_id 0
    %row = arith.muli %program, %c64 : i32
    %a = tile.make_view %x, [%rows, %extent], [%extent, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%rows, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %k = arith.muli %i, %c64 : i32
      %left = tile.load_block %a[%row, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %next = tile.dot %left, %left, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    tile.store_block %c[%row, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }

  func.func @waits(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                    %rows: i32 {tile.divisible = 16 : i64}, %extent: i32 {tile.divisible = 16 : i64}, %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32, %flag: !tile.ptr<i32>)
      attributes {tile.kernel, tile.cluster = 2 : i32, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %program = tile.program_id 0
    scf.while : () -> () {
      %seen = tile.atomic_rmw add, %flag, %c0 {order = 1 : i32, scope = 1 : i32} : !tile.ptr<i32>, i32 -> i32
      %on = arith.cmpi ne, %seen, %program : i32
      scf.condition(%on)
    } do {
      scf.yield
    }
    %row = arith.muli %program, %c64 : i32
    %a = tile.make_view %x, [%rows, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%rows, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %k = arith.muli %i, %c64 : i32
      %left = tile.load_block %a[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    tile.store_block %c[%row, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }

  func.func @two_loops(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                    %rows: i32 {tile.divisible = 16 : i64}, %extent: i32 {tile.divisible = 16 : i64}, %z: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
      attributes {tile.kernel, tile.cluster = 2 : i32, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %program = tile.program_id 0
    %row = arith.muli %program, %c64 : i32
    %a = tile.make_view %x, [%rows, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%rows, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %k = arith.muli %i, %c64 : i32
      %left = tile.load_block %a[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    } {cta.warp_specialize = true}
    %more = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %sums) -> (tensor<64x64xf32>) : i32 {
      %k = arith.muli %i, %c64 : i32
      %left = tile.load_block %a[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %negated = arith.negf %acc : tensor<64x64xf32>
      %next = tile.dot %left, %right, %negated : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    tile.store_block %c[%row, %c0], %more : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    return
  }
}
