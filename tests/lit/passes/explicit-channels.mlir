// What a kernel states itself: its partition comes first, the engine makes its copies, dots read slots in place and stay in flight until
// their wait. Each line below breaks the result in one place.
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: sed 's/sm_90a/sm_100/; s/registers \[\]/registers [24, 0]/' %s | sectile-opt --sectile-pipeline 2>&1 | FileCheck %s --check-prefix=LAUNCHED

// LAUNCHED: remark: threads keep the registers that they are launched with: sm_100 moves none between warps
// LAUNCHED: cta.partition warps 4 registers [] {
// RUN: sed 's/registers \[\]/registers [24, 0]/' %s | sectile-opt --sectile-pipeline 2>&1 | FileCheck %s --check-prefix=SMALL
// SMALL: remark: threads keep the registers that they are launched with: each has 248, more than any budget
// SMALL: cta.partition warps 4 registers [] {

// CHECK-LABEL: func.func @product
// CHECK-DAG: %[[A:.*]] = cta.channel {between_warps, by_hand, {{.*}}} : !cta.channel<2,
// CHECK-DAG: %[[FULL:.*]] = cta.mbarriers {offset = {{[0-9]*}} : i32} : !cta.mbarriers<2>
// CHECK-DAG: %[[EMPTY:.*]] = cta.mbarriers {arrivals = 4 : i32, {{.*}}} : !cta.mbarriers<2>
// CHECK: cta.partition warps 4 registers [] {
// CHECK: scf.for
// CHECK: cta.mbarrier_wait %[[EMPTY]]
// CHECK: cta.tensor_copy {{.*}} signals %[[FULL]]{{.*}} {expects = 16384 : i32}
// CHECK: cta.tensor_copy {{.*}} signals %[[FULL]]
// CHECK: cta.dot_begin
// CHECK: scf.for
// CHECK: cta.mbarrier_wait %[[FULL]]
// CHECK: cta.dot_start
// CHECK-NEXT: cta.dots_wait 0
// CHECK: cta.mbarrier_arrive {{.*}} at %[[EMPTY]]
// CHECK: cta.dot_wait

// Nobody hands the slots back: the partition waits for ever.
// RUN: sed -e '/cta.mbarrier_arrive/d' %t.mlir > %t.kept.mlir
// RUN: not sectile-opt --check-channels %t.kept.mlir 2>&1 | FileCheck %s --check-prefix=KEPT
// KEPT: error: this waits for ever

// The slot is handed back while the dot reads it.
// RUN: sed -e 's/cta.dots_wait 0/cta.dots_wait 1/' %t.mlir > %t.early.mlir
// RUN: not sectile-opt --check-channels %t.early.mlir 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: this overwrites slot

// Fewer bytes are expected than come.
// RUN: sed -e 's/expects = 16384/expects = 8192/' %t.mlir > %t.bytes.mlir
// RUN: not sectile-opt --check-channels %t.bytes.mlir 2>&1 | FileCheck %s --check-prefix=BYTES
// BYTES: error: this {{.*}}8192 bytes more than are expected

module attributes {cta.target = "sm_90a"} {
  func.func @product(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.below = 1048576 : i64, tile.divisible = 16 : i64}, %n: i32 {tile.below = 1048576 : i64}, %c: !tile.ptr<f16> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %steps = arith.divui %n, %c64 : i32
    %ring = tile.channel : !tile.channel<2, tensor<64x64xf16>, tensor<64x64xf16>>
    tile.partition warps 4 registers [] {
      %view = tile.make_view %a, [%n, %n], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %filled = scf.for %k = %c0 to %steps step %c1 iter_args(%use = %c0) -> (i32) : i32 {
        %free:2 = tile.acquire %ring[%use] : !tile.channel<2, tensor<64x64xf16>, tensor<64x64xf16>> -> !tile.slot<tensor<64x64xf16>>, !tile.slot<tensor<64x64xf16>>
        %at = arith.muli %k, %c64 : i32
        %left = tile.load_block %view[%c0, %at] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %right = tile.load_block %view[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        tile.fill %left, %free#0 : tensor<64x64xf16>, !tile.slot<tensor<64x64xf16>>
        tile.fill %right, %free#1 : tensor<64x64xf16>, !tile.slot<tensor<64x64xf16>>
        tile.commit %ring[%use] : !tile.channel<2, tensor<64x64xf16>, tensor<64x64xf16>>
        %next = arith.addi %use, %c1 : i32
        scf.yield %next : i32
      }
    }
    %read:2 = scf.for %k = %c0 to %steps step %c1 iter_args(%use = %c0, %sums = %zero) -> (i32, tensor<64x64xf32>) : i32 {
      %slots:2 = tile.wait %ring[%use] : !tile.channel<2, tensor<64x64xf16>, tensor<64x64xf16>> -> !tile.slot<tensor<64x64xf16>>, !tile.slot<tensor<64x64xf16>>
      %left = tile.read_slot %slots#0 : !tile.slot<tensor<64x64xf16>> -> tensor<64x64xf16>
      %right = tile.read_slot %slots#1 : !tile.slot<tensor<64x64xf16>> -> tensor<64x64xf16>
      %dot = tile.dot %left, %right, %sums {tile.in_flight} : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
      tile.dots_wait 0
      tile.release %ring[%use] : !tile.channel<2, tensor<64x64xf16>, tensor<64x64xf16>>
      %next = arith.addi %use, %c1 : i32
      scf.yield %next, %dot : i32, tensor<64x64xf32>
    }
    %done = tile.dot_wait %read#1 : tensor<64x64xf32>
    %half = arith.truncf %done : tensor<64x64xf32> to tensor<64x64xf16>
    %out = tile.make_view %c, [%n, %n], [%stride, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    tile.store_block %out[%c0, %c0], %half : !tile.view<2xf16>, [i32, i32], tensor<64x64xf16>
    return
  }
}
