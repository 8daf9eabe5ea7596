// What a loop's wgmma read from registers and the loop does not make is copied in each iteration, ahead of the fence: some of
// NVIDIA's assemblers lose it otherwise. What the loop makes is not.
// RUN: sectile-opt --emit-assembly %s | FileCheck %s

#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0)]">
#lines = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
!acc = tensor<64x64xf32, #acc>
!half = tensor<64x64xf16, #acc>
!buffer = !cta.buffer<64x64xf16, #lines>
!halves = tensor<64x64x!tile.ptr<f16>, #acc>
!floats = tensor<64x64x!tile.ptr<f32>, #acc>

module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: .entry loop
// Outside of a loop there is nothing to keep.
// CHECK-NOT: shfl
// CHECK-COUNT-4: wgmma.mma_async
// CHECK-NOT: shfl
// CHECK: $L__BB0_[[LOOP:[0-9]+]]:
// CHECK-COUNT-16: shfl.sync.idx.b32
// CHECK-NOT: shfl
// CHECK: wgmma.fence
// CHECK-COUNT-4: wgmma.mma_async
// CHECK-NOT: shfl
// CHECK: wgmma.fence
// CHECK-COUNT-4: wgmma.mma_async
// CHECK: bra {{.*}}$L__BB0_
// CHECK-NOT: shfl
func.func @loop(%p: !tile.ptr<f16>, %out: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.shared = 8192 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %from = tile.splat %p : !tile.ptr<f16> -> !halves
  %a = tile.load %from : !halves -> !half
  %b = cta.alloc %a {offset = 0 : i32} : !buffer from !half
  cta.proxy_fence
  cta.barrier
  %first = cta.dot %a, %b, %zero by [64, 64, 16] : !half, !buffer, !acc
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%old = %first) -> (!acc) : i32 {
    %scores = cta.dot %a, %b, %zero by [64, 64, 16] : !half, !buffer, !acc
    %narrow = arith.truncf %scores : !acc to !half
    %next = cta.dot %narrow, %b, %old by [64, 64, 16] : !half, !buffer, !acc
    scf.yield %next : !acc
  }
  %to = tile.splat %out : !tile.ptr<f32> -> !floats
  tile.store %to, %sums : !floats, !acc
  return
}

// A dot in flight copies its fragment to registers of its own: the shuffles come before that.
// CHECK-LABEL: .entry flying
// CHECK: $L__BB1_{{[0-9]+}}:
// CHECK-COUNT-16: shfl.sync.idx.b32
// CHECK: activemask.b32 lanes;
// CHECK-COUNT-16: and.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, lanes;
// CHECK-NOT: shfl
// CHECK: wgmma.fence
// CHECK-COUNT-4: wgmma.mma_async
// CHECK: wgmma.wait_group
func.func @flying(%p: !tile.ptr<f16>, %out: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.shared = 8192 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %from = tile.splat %p : !tile.ptr<f16> -> !halves
  %a = tile.load %from : !halves -> !half
  %b = cta.alloc %a {offset = 0 : i32} : !buffer from !half
  cta.proxy_fence
  cta.barrier
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zero) -> (!acc) : i32 {
    %dot = cta.dot_start %a, %b, %old by [64, 64, 16] {cta.own_registers} : !half, !buffer, !acc -> !cta.in_flight<!acc>
    %next = cta.dot_wait %dot : !cta.in_flight<!acc>
    scf.yield %next : !acc
  }
  %to = tile.splat %out : !tile.ptr<f32> -> !floats
  tile.store %to, %sums : !floats, !acc
  return
}
}
