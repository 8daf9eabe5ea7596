// The engine overwrites what threads wrote and have read since: each thread fences its writes before the threads meet.
// RUN: sectile-opt --insert-barriers %s | FileCheck %s
// RUN: sectile-opt --insert-barriers --check-channels %s -o /dev/null

#lines = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#rows = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
#sums = #cta.layout<"64, register [(1) (2) (4)], lane [(8) (16) (32) (0) (0)], warp [(0) (0)]">
!buffer = !cta.buffer<64x64xf16, #lines>
!half = tensor<64x64xf16, #rows>
!ring = !cta.channel<1, !buffer>

module attributes {cta.target = "sm_90a"} {
// Scratch, which is read behind a barrier of the operation's own.
// CHECK-LABEL: func.func @scratch
// CHECK: tile.reduce
// CHECK: cta.mbarriers
// CHECK: cta.proxy_fence
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.tensor_copy
func.func @scratch(%map: !cta.tensor_map, %x: tensor<64x64xf32, #rows>) -> (tensor<64xf32, #sums>, !half) {
  %c0 = arith.constant 0 : i32
  %sums = tile.reduce %x 0 {offset = 0 : i32} : (tensor<64x64xf32, #rows>) -> tensor<64xf32, #sums> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }
  %ring = cta.channel {offset = 0 : i32} : !ring
  %barriers = cta.mbarriers {offset = 8192 : i32} : !cta.mbarriers<1>
  cta.barrier
  %slot = cta.slot %ring[%c0] : !ring -> !buffer
  cta.tensor_copy %map[%c0, %c0], %slot signals %barriers[%c0] {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<1>
  cta.mbarrier_wait %barriers[%c0] parity %c0 : !cta.mbarriers<1>
  %t = cta.local_load %slot : !buffer -> !half
  return %sums, %t : tensor<64xf32, #sums>, !half
}

// A buffer.
// CHECK-LABEL: func.func @buffer
// CHECK: cta.alloc
// CHECK-NEXT: cta.proxy_fence
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.local_load
func.func @buffer(%map: !cta.tensor_map, %x: !half) -> (!half, !half) {
  %c0 = arith.constant 0 : i32
  %buffer = cta.alloc %x {offset = 0 : i32} : !buffer from !half
  %y = cta.local_load %buffer : !buffer -> !half
  %ring = cta.channel {offset = 0 : i32} : !ring
  %barriers = cta.mbarriers {offset = 8192 : i32} : !cta.mbarriers<1>
  cta.barrier
  %slot = cta.slot %ring[%c0] : !ring -> !buffer
  cta.tensor_copy %map[%c0, %c0], %slot signals %barriers[%c0] {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<1>
  cta.mbarrier_wait %barriers[%c0] parity %c0 : !cta.mbarriers<1>
  %t = cta.local_load %slot : !buffer -> !half
  return %y, %t : !half, !half
}

// A slot that nobody reads: all threads have seen its phase before it is filled again, once.
// CHECK-LABEL: func.func @unread
// CHECK: cta.tensor_copy
// CHECK-NEXT: cta.mbarrier_wait
// CHECK-NEXT: cta.barrier
// CHECK-NEXT: cta.tensor_copy
// CHECK-NEXT: cta.mbarrier_wait
// CHECK-NEXT: cta.local_load
func.func @unread(%map: !cta.tensor_map) -> !half {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = cta.channel {offset = 0 : i32} : !ring
  %barriers = cta.mbarriers {offset = 8192 : i32} : !cta.mbarriers<1>
  cta.barrier
  %slot = cta.slot %ring[%c0] : !ring -> !buffer
  cta.tensor_copy %map[%c0, %c0], %slot signals %barriers[%c0] {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<1>
  cta.mbarrier_wait %barriers[%c0] parity %c0 : !cta.mbarriers<1>
  cta.tensor_copy %map[%c1, %c0], %slot signals %barriers[%c0] {expects = 8192 : i32} : !cta.tensor_map, !buffer, !cta.mbarriers<1>
  cta.mbarrier_wait %barriers[%c0] parity %c1 : !cta.mbarriers<1>
  %t = cta.local_load %slot : !buffer -> !half
  return %t : !half
}
}
