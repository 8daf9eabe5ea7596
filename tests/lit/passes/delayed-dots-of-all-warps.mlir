// Attention's two dots without a producer partition: the weights of an iteration meet their values in the next one, beside
// its scores, as where a partition copies. Nothing is in flight over the end of an iteration, so rings have no slot more.
// RUN: sectile-opt --sectile-pipeline %s | FileCheck %s
// RUN: sed 's/sm_90a/sm_90/' %s | sectile-opt --sectile-pipeline | FileCheck %s --check-prefix=NONE
// RUN: sectile-opt --sectile-pipeline %s -o %t.mlir && sectile-opt --emit-assembly %t.mlir | FileCheck %s --check-prefix=PTX

// NONE-NOT: cta.dot_start

// PTX-LABEL: .entry two_dots
// PTX-COUNT-8: wgmma.mma_async.sync.aligned.m64n128k16
// PTX-NOT: wgmma.wait_group
// PTX-COUNT-8: wgmma.mma_async.sync.aligned.m64n128k16
// PTX: wgmma.wait_group.sync.aligned 1
// PTX: wgmma.wait_group.sync.aligned 0

// CHECK-LABEL: func.func @two_dots
// CHECK: %[[KEYS:[^ ,]*]] = cta.channel {{.*}} : !cta.channel<2,
// CHECK: %[[VALUES:[^ ,]*]] = cta.channel {{.*}} : !cta.channel<2,
// The first iteration multiplies zeros by zeros, which the engine copies from before the tensor.
// CHECK: %[[ENTERED:[^ ,]*]] = arith.cmpi sgt, %{{.*}}, %c0_i32
// CHECK: cta.tensor_copy {{.*}} signals %[[KEYSBARRIER:[^\[]*]][%c0_i32] when %[[ENTERED]]
// CHECK: cta.tensor_copy %{{.*}}[%c-1073741824_i32, %c0_i32], %{{.*}} signals %[[VALUESBARRIER:[^\[]*]][%c0_i32] when %[[ENTERED]]
// CHECK: scf.for {{.*}} iter_args({{.*}}, %[[SUMS:[^ ,]*]] = %cst{{[_0-9]*}}, %[[BEFORE:[^ ,]*]] = %cst{{[_0-9]*}}, %[[USE:[^ ,]*]] = %c0_i32)
// CHECK: cta.mbarrier_wait %[[KEYSBARRIER]]
// One barrier, before all copies.
// CHECK: cta.barrier
// CHECK: cta.tensor_copy {{.*}} signals %[[KEYSBARRIER]]
// CHECK: cta.tensor_copy {{.*}} signals %[[VALUESBARRIER]]
// CHECK: %[[SCORES:[^ ,]*]] = cta.dot_start %{{[^ ,]*}}, %
// CHECK-NOT: cta.barrier
// CHECK: cta.mbarrier_wait %[[VALUESBARRIER]]
// CHECK: %[[ADDED:[^ ,]*]] = cta.dot_start %[[BEFORE]], %{{.*}}, %[[SUMS]]
// CHECK: %[[KNOWN:[^ ,]*]] = cta.dot_wait %[[SCORES]] {pending = 1 : i32}
// CHECK: %[[WEIGHTS:[^ ,]*]] = math.exp2 %{{.*}} : tensor<128x128xf32
// What is packed waits for the dot that reads the same registers.
// CHECK-NEXT: %[[DONE:[^ ,]*]], %[[READY:[^ ,]*]] = cta.dot_wait %[[ADDED]] behind %[[WEIGHTS]]
// CHECK-NEXT: %[[PACKED:[^ ,]*]] = arith.truncf %[[READY]]
// CHECK-NEXT: %[[RESCALED:[^ ,]*]] = arith.mulf %[[DONE]],
// CHECK-NEXT: scf.yield %{{.*}}, %[[RESCALED]], %[[PACKED]],
// The last values have one slot, where the rings were.
// CHECK: cta.channel {offset = 0 : i32} : !cta.channel<1,
// CHECK: scf.for
// CHECK: cta.tensor_copy
// CHECK: cta.dot %
// CHECK-NOT: cta.channel

module attributes {cta.target = "sm_90a"} {
func.func @two_dots(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
                    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %one = arith.constant 1 : i64
  %width = arith.constant 128 : i64
  %keys = arith.constant 4096 : i64
  %qs = tile.make_view %q, [%width, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %ks = tile.make_view %k, [%keys, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %vs = tile.make_view %v, [%keys, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %os = tile.make_view %o, [%width, %width], [%width, %one] : !tile.ptr<f32>, [i64, i64], [i64, i64] -> !tile.view<2xf32>
  %query = tile.load_block %qs[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %scale = arith.constant dense<0.5> : tensor<128x128xf32>
  %least = arith.constant dense<-1.0e30> : tensor<128xf32>
  %loop:2 = scf.for %i = %c0 to %n step %c1 iter_args(%largest = %least, %sums = %zero) -> (tensor<128xf32>, tensor<128x128xf32>) : i32 {
    %at = arith.muli %i, %c128 : i32
    %key = tile.load_block %ks[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %turned = tile.permute %key [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
    %products = tile.dot %query, %turned, %zero : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
    %scores = arith.mulf %products, %scale : tensor<128x128xf32>
    %here = tile.reduce %scores 1 : (tensor<128x128xf32>) -> tensor<128xf32> {
    ^bb0(%x: f32, %y: f32):
      %max = tile.maximum_number %x, %y : f32
      tile.yield %max : f32
    }
    %now = tile.maximum_number %largest, %here : tensor<128xf32>
    %difference = arith.subf %largest, %now : tensor<128xf32>
    %shrink = math.exp2 %difference : tensor<128xf32>
    %column = tile.expand_dims %shrink 1 : tensor<128xf32> -> tensor<128x1xf32>
    %factors = tile.broadcast %column : tensor<128x1xf32> -> tensor<128x128xf32>
    %rescaled = arith.mulf %sums, %factors : tensor<128x128xf32>
    %base = tile.expand_dims %now 1 : tensor<128xf32> -> tensor<128x1xf32>
    %bases = tile.broadcast %base : tensor<128x1xf32> -> tensor<128x128xf32>
    %relative = arith.subf %scores, %bases : tensor<128x128xf32>
    %weights = math.exp2 %relative : tensor<128x128xf32>
    %half = arith.truncf %weights : tensor<128x128xf32> to tensor<128x128xf16>
    %value = tile.load_block %vs[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %next = tile.dot %half, %value, %rescaled : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
    scf.yield %now, %next : tensor<128xf32>, tensor<128x128xf32>
  }
  tile.store_block %os[%c0, %c0], %loop#1 : !tile.view<2xf32>, [i32, i32], tensor<128x128xf32>
  return
}
}
