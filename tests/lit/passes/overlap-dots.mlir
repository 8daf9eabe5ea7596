// Sums that a loop only adds to stay in flight where its plan says so, which leaves a slot for that.
// RUN: sectile-opt --overlap-dots %s | FileCheck %s
// RUN: sectile-opt --overlap-dots --lower-channels --place-shared --insert-barriers %s | FileCheck %s --check-prefix=BARRIERS
// RUN: sed 's/sm_90a/sm_90/; s/64, 64, 16/16, 8, 16/' %s | sectile-opt --overlap-dots | FileCheck %s --check-prefix=NONE

// NONE-NOT: cta.dot_start

#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0)]">
#lines = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#rows = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
!acc = tensor<64x64xf32, #acc>
!buffer = !cta.buffer<64x64xf16, #lines>
!half = tensor<64x64xf16, #rows>
!ptrs = tensor<64x64x!tile.ptr<f16>, #rows>
!ring = !cta.channel<3, !buffer>

module attributes {cta.target = "sm_90a"} {
// The copies fill what was read two iterations ago.
// CHECK-LABEL: func.func @lags
// CHECK: %[[BEGIN:.*]] = cta.dot_begin
// CHECK: %[[LOOP:.*]]:2 = scf.for {{.*}} iter_args(%[[SUMS:.*]] = %[[BEGIN]],
// CHECK: %[[START:.*]] = cta.dot_start %{{.*}}, %{{.*}}, %[[SUMS]] by [64, 64, 16]
// CHECK-NEXT: cta.dots_wait 1
// CHECK-NEXT: cta.release previous %[[RING:.*]][%{{.*}}]
// CHECK: scf.yield %[[START]]
// CHECK: cta.dot_wait %[[LOOP]]#0
// CHECK-NEXT: cta.release previous %[[RING]][%[[LOOP]]#1]

// One barrier for the copies of all threads, which is behind the wait for the dot that read the buffer filled next.
// BARRIERS-LABEL: func.func @lags
// BARRIERS: scf.for
// BARRIERS-NEXT: cta.async_wait 0
// BARRIERS: cta.proxy_fence
// BARRIERS-NEXT: cta.barrier
// BARRIERS-NOT: cta.barrier
// BARRIERS: cta.dots_wait 1
// BARRIERS-NOT: cta.barrier
// BARRIERS: cta.dot_wait
func.func @lags(%p: !tile.ptr<f16>, %out: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ahead = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %from = tile.splat %p : !tile.ptr<f16> -> !ptrs
  %x = tile.load %from : !ptrs -> !half
  %b = cta.alloc %x : !buffer from !half
  %ring = cta.channel : !ring
  %a0 = cta.acquire %ring[%c0] : !ring -> !buffer
  cta.async_copy %from, %a0 : !ptrs, !buffer
  cta.commit %ring[%c0] : !ring
  %loop:2 = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %zero, %use = %c0) -> (!acc, i32) : i32 {
    %a = cta.wait %ring[%use] : !ring -> !buffer
    %later = arith.addi %use, %ahead : i32
    %next_a = cta.acquire %ring[%later] : !ring -> !buffer
    cta.async_copy %from, %next_a : !ptrs, !buffer
    cta.commit %ring[%later] : !ring
    %next = cta.dot %a, %b, %sums by [64, 64, 16] {cta.in_flight} : !buffer, !buffer, !acc
    cta.release %ring[%use] : !ring
    %count = arith.addi %use, %c1 : i32
    scf.yield %next, %count : !acc, i32
  }
  %to = tile.splat %out : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>, #acc>
  tile.store %to, %loop#0 : tensor<64x64x!tile.ptr<f32>, #acc>, !acc
  return
}

// They fill what the dot of the iteration before reads, so no plan has it in flight. One that did would be found wrong.
// RUN: sed '/func @full/,/return/s/by .64, 64, 16./& {cta.in_flight}/' %s > %t
// RUN: not sectile-opt --overlap-dots --lower-channels --place-shared --insert-barriers --check-channels %t 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG: error: 'cta.acquire' op acquires a slot while all 3 are in use
// CHECK-LABEL: func.func @full
// CHECK-NOT: cta.dot_start
// CHECK: cta.dot 
func.func @full(%p: !tile.ptr<f16>, %out: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ahead = arith.constant 2 : i32
  %zero = arith.constant dense<0.0> : !acc
  %from = tile.splat %p : !tile.ptr<f16> -> !ptrs
  %x = tile.load %from : !ptrs -> !half
  %b = cta.alloc %x : !buffer from !half
  %ring = cta.channel : !ring
  %a0 = cta.acquire %ring[%c0] : !ring -> !buffer
  cta.async_copy %from, %a0 : !ptrs, !buffer
  cta.commit %ring[%c0] : !ring
  %a1 = cta.acquire %ring[%c1] : !ring -> !buffer
  cta.async_copy %from, %a1 : !ptrs, !buffer
  cta.commit %ring[%c1] : !ring
  %loop:2 = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %zero, %use = %c0) -> (!acc, i32) : i32 {
    %a = cta.wait %ring[%use] : !ring -> !buffer
    %later = arith.addi %use, %ahead : i32
    %next_a = cta.acquire %ring[%later] : !ring -> !buffer
    cta.async_copy %from, %next_a : !ptrs, !buffer
    cta.commit %ring[%later] : !ring
    %next = cta.dot %a, %b, %sums by [64, 64, 16] : !buffer, !buffer, !acc
    cta.release %ring[%use] : !ring
    %count = arith.addi %use, %c1 : i32
    scf.yield %next, %count : !acc, i32
  }
  %to = tile.splat %out : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>, #acc>
  tile.store %to, %loop#0 : tensor<64x64x!tile.ptr<f32>, #acc>, !acc
  return
}

// The loop needs the sums itself.
// CHECK-LABEL: func.func @used
// CHECK-NOT: cta.dot_start
// CHECK: cta.dot 
func.func @used(%p: !tile.ptr<f16>, %out: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ahead = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !acc
  %from = tile.splat %p : !tile.ptr<f16> -> !ptrs
  %x = tile.load %from : !ptrs -> !half
  %b = cta.alloc %x : !buffer from !half
  %ring = cta.channel : !ring
  %a0 = cta.acquire %ring[%c0] : !ring -> !buffer
  cta.async_copy %from, %a0 : !ptrs, !buffer
  cta.commit %ring[%c0] : !ring
  %loop:2 = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %zero, %use = %c0) -> (!acc, i32) : i32 {
    %a = cta.wait %ring[%use] : !ring -> !buffer
    %later = arith.addi %use, %ahead : i32
    %next_a = cta.acquire %ring[%later] : !ring -> !buffer
    cta.async_copy %from, %next_a : !ptrs, !buffer
    cta.commit %ring[%later] : !ring
    %next = cta.dot %a, %b, %sums by [64, 64, 16] : !buffer, !buffer, !acc
    cta.release %ring[%use] : !ring
    %twice = arith.addf %next, %next : !acc
    %count = arith.addi %use, %c1 : i32
    scf.yield %twice, %count : !acc, i32
  }
  %to = tile.splat %out : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>, #acc>
  tile.store %to, %loop#0 : tensor<64x64x!tile.ptr<f32>, #acc>, !acc
  return
}
}
