// Every operation of the dialect, printed, read back and printed again. Layouts of tiles and of
// buffers are aliases with names of their own.
// RUN: sectile-opt %s | sectile-opt | FileCheck %s
// RUN: sectile-opt -emit-bytecode %s | sectile-opt | FileCheck %s

// CHECK-DAG: #[[ROWS:layout[0-9]*]] = #cta.layout<"16x16, register [(0,1) (0,2) (8,0)], lane [(0,4) (0,8) (1,0) (2,0) (4,0)]">
// CHECK-DAG: #[[COLS:layout[0-9]*]] = #cta.layout<"16x16, register [(1,0) (2,0) (0,8)], lane [(4,0) (8,0) (0,1) (0,2) (0,4)]">
// CHECK-DAG: #[[PLAIN:shared[0-9]*]] = #cta.layout<"16x16, shared [(0,1) (0,2) (0,4) (0,8) (1,0) (2,0) (4,0) (8,0)]">
// CHECK-DAG: #[[TURNED:shared[0-9]*]] = #cta.layout<"16x16, shared [(1,0) (2,0) (4,0) (8,0) (0,1) (0,2) (0,4) (0,8)]">
#rows = #cta.layout<"16x16, register [(0,1) (0,2) (8,0)], lane [(0,4) (0,8) (1,0) (2,0) (4,0)]">
#cols = #cta.layout<"16x16, register [(1,0) (2,0) (0,8)], lane [(4,0) (8,0) (0,1) (0,2) (0,4)]">
#plain = #cta.layout<"16x16, shared [(0,1) (0,2) (0,4) (0,8) (1,0) (2,0) (4,0) (8,0)]">
#turned = #cta.layout<"16x16, shared [(1,0) (2,0) (4,0) (8,0) (0,1) (0,2) (0,4) (0,8)]">
#lines = #cta.layout<"16x16, shared [(0,1) (0,2) (0,4) (0,8) (1,0) (2,0) (4,8) (8,0)]">
!buffer = !cta.buffer<16x16xf16, #plain>
!lines = !cta.buffer<16x16xf16, #lines>

module attributes {cta.target = "sm_80"} {

// CHECK-LABEL: func.func @registers
func.func @registers(%t: tensor<16x16xf16, #rows>, %acc: tensor<16x16xf32, #cols>) attributes {cta.warps = 1 : i32} {
  // CHECK: cta.convert_layout %{{.*}} : tensor<16x16xf16, #[[ROWS]]> -> tensor<16x16xf16, #[[COLS]]>
  %0 = cta.convert_layout %t : tensor<16x16xf16, #rows> -> tensor<16x16xf16, #cols>
  // CHECK: cta.convert_layout %{{.*}} {offset = 512 : i32} :
  %1 = cta.convert_layout %0 {offset = 512 : i32} : tensor<16x16xf16, #cols> -> tensor<16x16xf16, #rows>
  // CHECK: cta.dot %{{.*}}, %{{.*}}, %{{.*}} by [16, 8, 16] : tensor<16x16xf16, #[[ROWS]]>, tensor<16x16xf16, #[[COLS]]>, tensor<16x16xf32, #[[COLS]]>
  %2 = cta.dot %t, %0, %acc by [16, 8, 16] : tensor<16x16xf16, #rows>, tensor<16x16xf16, #cols>, tensor<16x16xf32, #cols>
  // CHECK: %[[F:.*]] = cta.dot_start %{{.*}}, %{{.*}}, %{{.*}} by [16, 8, 16] : tensor<16x16xf16, #[[ROWS]]>, tensor<16x16xf16, #[[COLS]]>, tensor<16x16xf32, #[[COLS]]> -> !cta.in_flight<tensor<16x16xf32, #[[COLS]]>>
  %3 = cta.dot_start %t, %0, %acc by [16, 8, 16] : tensor<16x16xf16, #rows>, tensor<16x16xf16, #cols>, tensor<16x16xf32, #cols> -> !cta.in_flight<tensor<16x16xf32, #cols>>
  // CHECK: %[[G:.*]] = cta.dot_start %{{.*}}, %{{.*}}, %[[F]] by [16, 8, 16] {precision = 1 : i32} : {{.*}}, !cta.in_flight<tensor<16x16xf32, #[[COLS]]>> ->
  %4 = cta.dot_start %t, %0, %3 by [16, 8, 16] {precision = 1 : i32} : tensor<16x16xf16, #rows>, tensor<16x16xf16, #cols>, !cta.in_flight<tensor<16x16xf32, #cols>> -> !cta.in_flight<tensor<16x16xf32, #cols>>
  // CHECK: cta.dots_wait 1
  cta.dots_wait 1
  // CHECK: cta.dot_wait %[[G]] : !cta.in_flight<tensor<16x16xf32, #[[COLS]]>>
  %5 = cta.dot_wait %4 : !cta.in_flight<tensor<16x16xf32, #cols>>
  // CHECK: %[[B:.*]] = cta.dot_begin %{{.*}} : !cta.in_flight<tensor<16x16xf32, #[[COLS]]>>
  %6 = cta.dot_begin %5 : !cta.in_flight<tensor<16x16xf32, #cols>>
  // CHECK: cta.dot_wait %[[B]]
  %7 = cta.dot_wait %6 : !cta.in_flight<tensor<16x16xf32, #cols>>
  // CHECK: %[[H:.*]] = cta.dot_begin
  %8 = cta.dot_begin %7 : !cta.in_flight<tensor<16x16xf32, #cols>>
  // CHECK: cta.dot_wait %[[H]] behind %{{.*}} : !cta.in_flight<tensor<16x16xf32, #[[COLS]]>>, tensor<16x16xf32, #[[COLS]]> -> tensor<16x16xf32, #[[COLS]]>
  %9, %10 = cta.dot_wait %8 behind %acc : !cta.in_flight<tensor<16x16xf32, #cols>>, tensor<16x16xf32, #cols> -> tensor<16x16xf32, #cols>
  return
}

// CHECK-LABEL: func.func @buffers
func.func @buffers(%t: tensor<16x16xf16, #rows>, %acc: tensor<16x16xf32, #cols>) attributes {cta.warps = 1 : i32} {
  // CHECK: cta.alloc : !cta.buffer<16x16xf16, #[[PLAIN]]>
  %0 = cta.alloc : !buffer
  // CHECK: cta.alloc %{{.*}} {offset = 512 : i32}
  %1 = cta.alloc %t {offset = 512 : i32} : !buffer from tensor<16x16xf16, #rows>
  // CHECK: cta.alloc : !cta.buffer<16x16xf16, #[[PLAIN]], tensor>
  %tensor = cta.alloc : !cta.buffer<16x16xf16, #plain, tensor>
  // CHECK: cta.local_store %{{.*}}, %{{.*}} : tensor<16x16xf16, #[[ROWS]]>, !cta.buffer<16x16xf16, #[[PLAIN]]>
  cta.local_store %t, %0 : tensor<16x16xf16, #rows>, !buffer
  // CHECK: cta.proxy_fence
  cta.proxy_fence
  // CHECK: cta.barrier
  cta.barrier
  // CHECK: cta.local_load %{{.*}} : !cta.buffer<16x16xf16, #[[PLAIN]]> -> tensor<16x16xf16, #[[COLS]]>
  %2 = cta.local_load %0 : !buffer -> tensor<16x16xf16, #cols>
  // CHECK: cta.permute_buffer %{{.*}} [1, 0] : !cta.buffer<16x16xf16, #[[PLAIN]]> -> !cta.buffer<16x16xf16, #[[TURNED]]>
  %3 = cta.permute_buffer %1 [1, 0] : !buffer -> !cta.buffer<16x16xf16, #turned>
  // CHECK: cta.dot %{{.*}}, %{{.*}}, %{{.*}} {precision = 1 : i32} : !cta.buffer<16x16xf16, #[[PLAIN]]>, !cta.buffer<16x16xf16, #[[TURNED]]>, tensor<16x16xf32, #[[COLS]]>
  %4 = cta.dot %0, %3, %acc {precision = 1 : i32} : !buffer, !cta.buffer<16x16xf16, #turned>, tensor<16x16xf32, #cols>
  return
}

// CHECK-LABEL: func.func @copies
func.func @copies(%p: tensor<16x16x!tile.ptr<f16>, #rows>, %m: tensor<16x16xi1, #rows>) attributes {cta.warps = 1 : i32} {
  %0 = cta.alloc : !buffer
  // CHECK: cta.async_copy %{{.*}}, %{{.*}} : tensor<16x16x!tile.ptr<f16>, #[[ROWS]]>, !cta.buffer<16x16xf16, #[[PLAIN]]>
  cta.async_copy %p, %0 : tensor<16x16x!tile.ptr<f16>, #rows>, !buffer
  // CHECK: cta.async_copy %{{.*}}, %{{.*}} mask %{{.*}} {cache = 2 : i32, vector = 4 : i32} : tensor<16x16x!tile.ptr<f16>, #[[ROWS]]>, !cta.buffer<16x16xf16, #[[PLAIN]]> mask tensor<16x16xi1, #[[ROWS]]>
  cta.async_copy %p, %0 mask %m {cache = 2 : i32, vector = 4 : i32} : tensor<16x16x!tile.ptr<f16>, #rows>, !buffer mask tensor<16x16xi1, #rows>
  // CHECK: cta.async_commit
  cta.async_commit
  // CHECK: cta.async_wait 1
  cta.async_wait 1
  return
}

// CHECK-LABEL: func.func @engine
func.func @engine(%view: !tile.view<3xf16>, %map: !cta.tensor_map, %i: i32, %when: i1) attributes {cta.warps = 1 : i32} {
  %0 = cta.alloc : !lines
  // CHECK: cta.tensor_copy_block %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}], %{{.*}} when %{{.*}} {expects = 512 : i32} : !tile.view<3xf16>, [i32, i32, i32], !cta.buffer<16x16xf16, #[[LINES:shared[0-9]*]]>
  cta.tensor_copy_block %view[%i, %i, %i], %0 when %when {expects = 512 : i32} : !tile.view<3xf16>, [i32, i32, i32], !lines
  %barriers = cta.mbarriers : !cta.mbarriers<2>
  // CHECK: %[[SIGNALS:.*]] = cta.mbarriers {arrivals = 8 : i32, by_hand} : !cta.mbarriers<2>
  %signals = cta.mbarriers {arrivals = 8 : i32, by_hand} : !cta.mbarriers<2>
  // CHECK: cta.mbarrier_signal %[[SIGNALS]][%{{.*}}] : !cta.mbarriers<2>
  cta.mbarrier_signal %signals[%i] : !cta.mbarriers<2>
  // CHECK: cta.tensor_copy %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}} signals %{{.*}}[%{{.*}}] : !cta.tensor_map, !cta.buffer<16x16xf16, #[[LINES]]>, !cta.mbarriers<2>
  cta.tensor_copy %map[%i, %i], %0 signals %barriers[%i] : !cta.tensor_map, !lines, !cta.mbarriers<2>
  // CHECK: cta.tensor_store_block %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}], %{{.*}} : !tile.view<3xf16>, [i32, i32, i32], !cta.buffer<16x16xf16, #[[LINES]]>
  cta.tensor_store_block %view[%i, %i, %i], %0 : !tile.view<3xf16>, [i32, i32, i32], !lines
  // CHECK: cta.tensor_store %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}} : !cta.tensor_map, !cta.buffer<16x16xf16, #[[LINES]]>
  cta.tensor_store %map[%i, %i], %0 : !cta.tensor_map, !lines
  // CHECK: cta.tensor_store_wait %{{.*}} : !cta.buffer<16x16xf16, #[[LINES]]>
  cta.tensor_store_wait %0 : !lines
  // CHECK: cta.tensor_store_wait %{{.*}} when %{{.*}} written {later = 1 : i32} : !cta.buffer<16x16xf16, #[[LINES]]>
  cta.tensor_store_wait %0 when %when written {later = 1 : i32} : !lines
  return
}

// CHECK-LABEL: func.func @channels
func.func @channels(%i: i32) {
  // CHECK: cta.channel : !cta.channel<3, !cta.buffer<16x16xf16, #[[PLAIN]]>>
  %a = cta.channel : !cta.channel<3, !buffer>
  // CHECK: cta.channel {offset = 1536 : i32} :
  %b = cta.channel {offset = 1536 : i32} : !cta.channel<3, !buffer>
  // CHECK: cta.acquire %{{.*}}[%{{.*}}] : !cta.channel<3, !cta.buffer<16x16xf16, #[[PLAIN]]>> -> !cta.buffer<16x16xf16, #[[PLAIN]]>
  %0 = cta.acquire %a[%i] : !cta.channel<3, !buffer> -> !buffer
  // CHECK: cta.commit %{{.*}}, %{{.*}}[%{{.*}}] : !cta.channel
  cta.commit %a, %b[%i] : !cta.channel<3, !buffer>, !cta.channel<3, !buffer>
  // CHECK: cta.wait %{{.*}}, %{{.*}}[%{{.*}}] : !cta.channel<3, !cta.buffer<16x16xf16, #[[PLAIN]]>>, !cta.channel
  %1:2 = cta.wait %a, %b[%i] : !cta.channel<3, !buffer>, !cta.channel<3, !buffer> -> !buffer, !buffer
  // CHECK: cta.release %{{.*}}[%{{.*}}] : !cta.channel
  cta.release %a[%i] : !cta.channel<3, !buffer>
  // CHECK: cta.release previous %{{.*}}[%{{.*}}] : !cta.channel
  cta.release previous %a[%i] : !cta.channel<3, !buffer>
  // CHECK: %[[LATER:.*]] = cta.ring_advance %{{.*}} by 2 of 3
  %later = cta.ring_advance %i by 2 of 3
  // CHECK: cta.ring_slot %[[LATER]] of 3
  %slot = cta.ring_slot %later of 3
  // CHECK: cta.ring_parity %[[LATER]] of 3
  %parity = cta.ring_parity %later of 3
  // CHECK: cta.ring_parity %[[LATER]] of 3 before
  %before = cta.ring_parity %later of 3 before
  // CHECK: cta.slot %{{.*}}[%{{.*}}] : !cta.channel
  %2 = cta.slot %b[%i] : !cta.channel<3, !buffer> -> !buffer
  return
}

// CHECK-LABEL: func.func @debug
func.func @debug(%c: i1, %i: i32, %log: !tile.ptr<i8>, %launch: i64) {
  // CHECK: cta.assert %{{.*}}, %{{.*}}, %{{.*}} site 0 : !tile.ptr<i8>
  cta.assert %c, %log, %launch site 0 : !tile.ptr<i8>
  // CHECK: cta.assert %{{.*}}, %{{.*}}, %{{.*}} site 1 index %{{.*}} : !tile.ptr<i8>
  cta.assert %c, %log, %launch site 1 index %i : !tile.ptr<i8>
  // CHECK: cta.record %{{.*}}, %{{.*}} site 2 bytes 32 at [] : !tile.ptr<i8>
  %fits = cta.record %log, %launch site 2 bytes 32 at [] : !tile.ptr<i8>
  // CHECK: cta.record %{{.*}}, %{{.*}} site 3 bytes 64 at [0, 16] {offset = 16 : i32} : !tile.ptr<i8> -> !tile.ptr<f32>, !tile.ptr<i8>
  %all, %values:2 = cta.record %log, %launch site 3 bytes 64 at [0, 16] {offset = 16 : i32} : !tile.ptr<i8> -> !tile.ptr<f32>, !tile.ptr<i8>
  return
}

}
