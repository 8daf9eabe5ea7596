// RUN: sectile-opt --schedule-loops --stage-operands --split-input-file --verify-diagnostics %s | FileCheck %s

#load = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
#turned = #cta.layout<"64x64, register [(1,0) (2,0) (4,0) (0,16) (0,32)], lane [(8,0) (16,0) (32,0) (0,1) (0,2)], warp [(0,4) (0,8)]">
#flat = #cta.layout<"4096, register [(1) (2) (4) (1024) (2048)], lane [(8) (16) (32) (64) (128)], warp [(256) (512)]">
#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,8)]">
#a = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,0)]">
#b = #cta.layout<"64x64, register [(1,0) (8,0) (0,16) (0,32) (16,0) (32,0)], lane [(2,0) (4,0) (0,1) (0,2) (0,4)], warp [(0,0) (0,8)]">
!ptrs = tensor<64x64x!tile.ptr<f16>, #load>
!half = tensor<64x64xf16, #load>
!acc = tensor<64x64xf32, #acc>

module attributes {cta.target = "sm_80"} {
// Outside of loops: buffers, as late as possible, in rows of 16 bytes swizzled for matrix loads.
// CHECK: #[[ROWS:.*]] = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
// CHECK-LABEL: func.func @straight
// CHECK: %[[A:.*]] = tile.load
// CHECK-NEXT: %[[B:.*]] = tile.load
// CHECK-NEXT: %[[BA:.*]] = cta.alloc %[[A]] : !cta.buffer<64x64xf16, #[[ROWS]]>
// CHECK-NEXT: %[[BB:.*]] = cta.alloc %[[B]] : !cta.buffer<64x64xf16, #[[ROWS]]>
// CHECK-NEXT: cta.dot %[[BA]], %[[BB]], %{{.*}} by [16, 8, 16]
func.func @straight(%pa: !ptrs, %pb: !ptrs, %acc: !acc) -> !acc {
  %a = tile.load %pa : !ptrs -> !half
  %b = tile.load %pb : !ptrs -> !half
  %oa = cta.convert_layout %a : !half -> tensor<64x64xf16, #a>
  %ob = cta.convert_layout %b : !half -> tensor<64x64xf16, #b>
  %d = cta.dot %oa, %ob, %acc by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc
  return %d : !acc
}

// A permute on the way becomes a permuted view of the buffer.
// CHECK-LABEL: func.func @permuted
// CHECK: %[[B:.*]] = cta.alloc
// CHECK: %[[T:.*]] = cta.permute_buffer %[[B]] [1, 0]
// CHECK-NOT: convert_layout
// CHECK-NOT: tile.permute
// CHECK: cta.dot %{{.*}}, %[[T]]
func.func @permuted(%pb: !ptrs, %oa: tensor<64x64xf16, #a>, %acc: !acc) -> !acc {
  %b = tile.load %pb : !ptrs -> !half
  %c = cta.convert_layout %b : !half -> tensor<64x64xf16, #turned>
  %t = tile.permute %c [1, 0] : tensor<64x64xf16, #turned> -> !half
  %ob = cta.convert_layout %t : !half -> tensor<64x64xf16, #b>
  %d = cta.dot %oa, %ob, %acc by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc
  return %d : !acc
}

// Fused multiply-adds read both operands from buffers.
// CHECK-LABEL: func.func @fma
// CHECK-COUNT-2: cta.alloc
// CHECK: cta.dot %{{.*}}, %{{.*}}, %{{.*}} : !cta.buffer<{{.*}}>, !cta.buffer<{{.*}}>, tensor
func.func @fma(%a: !half, %b: !half, %acc: tensor<64x64xf32, #load>) -> tensor<64x64xf32, #load> {
  %d = cta.dot %a, %b, %acc : !half, !half, tensor<64x64xf32, #load>
  return %d : tensor<64x64xf32, #load>
}

// A small operand that the loop does not change is converted once, before the loop; a loaded one of
// the loop goes ahead by stages - 1 iterations.
// CHECK-LABEL: func.func @loop
// CHECK: %[[Q:.*]] = tile.load
// CHECK: %[[QA:.*]] = cta.convert_layout %[[Q]]
// CHECK: %[[CH:.*]] = cta.channel : !cta.channel<3, !cta.buffer<64x64xf16, #[[ROWS]]>>
// Use 0, in a loop that may be empty.
// CHECK: %[[IN0:.*]] = arith.cmpi sgt, %[[N:.*]], %c0
// CHECK: %[[P1:.*]] = tile.addptr %[[P0:[^ ,]*]],
// CHECK: %[[S0:.*]] = cta.acquire %[[CH]][%c0
// CHECK: %[[M0:.*]] = tile.splat %[[IN0]]
// CHECK: cta.async_copy %[[P0]], %[[S0]] mask %[[M0]]
// CHECK: cta.commit %[[CH]][%c0
// Use 1.
// CHECK: cta.async_copy %[[P1]],
// CHECK: cta.commit %[[CH]][%c1
// The pointers of use 2 are what the loop begins with.
// CHECK: scf.for %[[I:.*]] = {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[PA:.*]] = %{{.*}}, %[[USE:.*]] = %c0
// CHECK-NEXT: %[[BUF:.*]] = cta.wait %[[CH]][%[[USE]]]
// CHECK: %[[LEFT:.*]] = arith.subi %[[N]], %[[I]]
// CHECK: %[[IN:.*]] = arith.cmpi ugt, %[[LEFT]], %c128
// CHECK: %[[NEXT:.*]] = tile.addptr %[[PA]]
// CHECK: %[[LATER:.*]] = arith.addi %[[USE]], %c2
// CHECK: %[[SLOT:.*]] = cta.acquire %[[CH]][%[[LATER]]]
// CHECK: %[[M:.*]] = tile.splat %[[IN]]
// CHECK: cta.async_copy %[[PA]], %[[SLOT]] mask %[[M]]
// CHECK: cta.commit %[[CH]][%[[LATER]]]
// CHECK: cta.dot %[[QA]], %[[BUF]], %[[ACC]]
// CHECK: cta.release %[[CH]][%[[USE]]]
// CHECK: %[[USE1:.*]] = arith.addi %[[USE]], %c1
// CHECK: scf.yield %{{.*}}, %[[NEXT]], %[[USE1]]
func.func @loop(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32, %zero: !acc) -> !acc attributes {cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %flat = tile.arange 0 : tensor<4096xi32, #flat>
  %index = tile.reshape %flat : tensor<4096xi32, #flat> -> tensor<64x64xi32, #load>
  %qs = tile.splat %q : !tile.ptr<f16> -> !ptrs
  %pq = tile.addptr %qs, %index : !ptrs, tensor<64x64xi32, #load>
  %ks = tile.splat %k : !tile.ptr<f16> -> !ptrs
  %pk0 = tile.addptr %ks, %index : !ptrs, tensor<64x64xi32, #load>
  %vq = tile.load %pq : !ptrs -> !half
  %step = arith.constant dense<4096> : tensor<64x64xi32, #load>
  %r:2 = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %zero, %pk = %pk0) -> (!acc, !ptrs) : i32 {
    %vk = tile.load %pk : !ptrs -> !half
    %oa = cta.convert_layout %vq : !half -> tensor<64x64xf16, #a>
    %ob = cta.convert_layout %vk : !half -> tensor<64x64xf16, #b>
    %d = cta.dot %oa, %ob, %acc by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc
    %next = tile.addptr %pk, %step : !ptrs, tensor<64x64xi32, #load>
    scf.yield %d, %next : !acc, !ptrs
  }
  return %r#0 : !acc
}

// Two loads that are needed at different places of the body: with two stages each has its own
// commit and wait. The loop's own number of stages counts. The page number that the address of the
// second depends on is loaded ahead as well, behind a mask.
// CHECK-LABEL: func.func @two
// CHECK: %[[K:.*]] = cta.channel : !cta.channel<2,
// CHECK: %[[V:.*]] = cta.channel : !cta.channel<2,
// CHECK: tile.load %{{.*}} mask %{{.*}} : !tile.ptr<i32> mask i1 -> i32
// CHECK: cta.commit %[[K]]
// CHECK: cta.commit %[[V]]
// CHECK: scf.for
// CHECK: cta.wait %[[K]][%{{.*}}]
// CHECK: tile.load %{{.*}} mask %{{.*}} : !tile.ptr<i32> mask i1 -> i32
// CHECK: cta.async_copy
// CHECK: cta.commit %[[K]]
// CHECK: cta.async_copy
// CHECK: cta.commit %[[V]]
// CHECK: cta.dot
// CHECK: cta.release %[[K]]
// CHECK: cta.wait %[[V]][%{{.*}}]
// CHECK: cta.dot
// CHECK: cta.release %[[V]]
func.func @two(%k: !tile.ptr<f16> {tile.divisible = 16 : i64}, %pages: !tile.ptr<i32>, %n: i32, %oa: tensor<64x64xf16, #a>, %zero: !acc) -> !acc attributes {cta.stages = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4096 = arith.constant 4096 : i32
  %flat = tile.arange 0 : tensor<4096xi32, #flat>
  %index = tile.reshape %flat : tensor<4096xi32, #flat> -> tensor<64x64xi32, #load>
  %ks = tile.splat %k : !tile.ptr<f16> -> !ptrs
  %p = tile.addptr %ks, %index : !ptrs, tensor<64x64xi32, #load>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!acc) : i32 {
    %ik = arith.muli %i, %c4096 : i32
    %iks = tile.splat %ik : i32 -> tensor<64x64xi32, #load>
    %pk = tile.addptr %p, %iks : !ptrs, tensor<64x64xi32, #load>
    %vk = tile.load %pk : !ptrs -> !half
    %ok = cta.convert_layout %vk : !half -> tensor<64x64xf16, #b>
    %s = cta.dot %oa, %ok, %acc by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc
    %pp = tile.addptr %pages, %i : !tile.ptr<i32>, i32
    %page = tile.load %pp : !tile.ptr<i32> -> i32
    %iv = arith.muli %page, %c4096 : i32
    %ivs = tile.splat %iv : i32 -> tensor<64x64xi32, #load>
    %pv = tile.addptr %p, %ivs : !ptrs, tensor<64x64xi32, #load>
    %vv = tile.load %pv : !ptrs -> !half
    %ov = cta.convert_layout %vv : !half -> tensor<64x64xf16, #b>
    %d = cta.dot %oa, %ov, %s by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc
    scf.yield %d : !acc
  } {cta.stages = 2 : i32}
  return %r : !acc
}

// One stage: through registers, without a word.
// CHECK-LABEL: func.func @one_stage
// CHECK-NOT: cta.channel
// CHECK: scf.for
// CHECK: %[[L:.*]] = tile.load
// CHECK-NEXT: cta.alloc %[[L]]
func.func @one_stage(%k: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32, %oa: tensor<64x64xf16, #a>, %zero: !acc) -> !acc attributes {cta.stages = 1 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ks = tile.splat %k : !tile.ptr<f16> -> !ptrs
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!acc) : i32 {
    %vk = tile.load %ks : !ptrs -> !half
    %ok = cta.convert_layout %vk : !half -> tensor<64x64xf16, #b>
    %s = cta.dot %oa, %ok, %acc by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc
    scf.yield %s : !acc
  }
  return %r : !acc
}

// What a loop writes is other memory: the load goes ahead of it.
// CHECK-LABEL: func.func @writes_elsewhere
// CHECK: cta.channel
// CHECK: scf.for
// CHECK: cta.async_copy
// CHECK: tile.store
func.func @writes_elsewhere(%k: !tile.ptr<f16> {tile.divisible = 16 : i64}, %out: !tile.ptr<f16>, %n: i32, %oa: tensor<64x64xf16, #a>, %zero: !acc) -> !acc {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ks = tile.splat %k : !tile.ptr<f16> -> !ptrs
  %flat = tile.arange 0 : tensor<4096xi32, #flat>
  %index = tile.reshape %flat : tensor<4096xi32, #flat> -> tensor<64x64xi32, #load>
  %p = tile.addptr %ks, %index : !ptrs, tensor<64x64xi32, #load>
  %one = arith.constant 1.0 : f16
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!acc) : i32 {
    %v = tile.load %p : !ptrs -> !half
    %o = cta.convert_layout %v : !half -> tensor<64x64xf16, #b>
    %d = cta.dot %oa, %o, %acc by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc
    tile.store %out, %one : !tile.ptr<f16>, f16
    scf.yield %d : !acc
  }
  return %r : !acc
}

// So is memory of the same argument that no iteration loads: here the loop loads the even tiles and
// stores the odd ones.
// CHECK-LABEL: func.func @writes_odd_tiles
// CHECK: cta.channel
// CHECK: scf.for
// CHECK: cta.async_copy
// CHECK: tile.store
func.func @writes_odd_tiles(%k: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32, %oa: tensor<64x64xf16, #a>, %zero: !acc) -> !acc {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c8192 = arith.constant 8192 : i32
  %half = arith.constant dense<4096> : tensor<64x64xi32, #load>
  %one = arith.constant dense<1.0> : !half
  %ks = tile.splat %k : !tile.ptr<f16> -> !ptrs
  %flat = tile.arange 0 : tensor<4096xi32, #flat>
  %index = tile.reshape %flat : tensor<4096xi32, #flat> -> tensor<64x64xi32, #load>
  %p = tile.addptr %ks, %index : !ptrs, tensor<64x64xi32, #load>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!acc) : i32 {
    %ik = arith.muli %i, %c8192 : i32
    %iks = tile.splat %ik : i32 -> tensor<64x64xi32, #load>
    %even = tile.addptr %p, %iks : !ptrs, tensor<64x64xi32, #load>
    %v = tile.load %even : !ptrs -> !half
    %o = cta.convert_layout %v : !half -> tensor<64x64xf16, #b>
    %d = cta.dot %oa, %o, %acc by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc
    %odd = tile.addptr %even, %half : !ptrs, tensor<64x64xi32, #load>
    tile.store %odd, %one : !ptrs, !half
    scf.yield %d : !acc
  }
  return %r : !acc
}

// A tile that one iteration stores and a later one loads cannot be fetched ahead.
// CHECK-LABEL: func.func @writes_the_next_tile
// CHECK-NOT: cta.channel
// CHECK: scf.for
// CHECK: tile.load
// CHECK: tile.store
func.func @writes_the_next_tile(%k: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32, %oa: tensor<64x64xf16, #a>, %zero: !acc) -> !acc {
  %c0 = arith.constant 0 : i32
  %c4096 = arith.constant 4096 : i32
  %tile = arith.constant dense<4096> : tensor<64x64xi32, #load>
  %one = arith.constant dense<1.0> : !half
  %ks = tile.splat %k : !tile.ptr<f16> -> !ptrs
  %flat = tile.arange 0 : tensor<4096xi32, #flat>
  %index = tile.reshape %flat : tensor<4096xi32, #flat> -> tensor<64x64xi32, #load>
  %p = tile.addptr %ks, %index : !ptrs, tensor<64x64xi32, #load>
  %r:2 = scf.for %i = %c0 to %n step %c4096 iter_args(%acc = %zero, %at = %p) -> (!acc, !ptrs) : i32 {
    // expected-remark @+1 {{the loop may write to what it reads}}
    %v = tile.load %at : !ptrs -> !half
    %o = cta.convert_layout %v : !half -> tensor<64x64xf16, #b>
    %d = cta.dot %oa, %o, %acc by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc
    %next = tile.addptr %at, %tile : !ptrs, tensor<64x64xi32, #load>
    tile.store %next, %one : !ptrs, !half
    scf.yield %d, %next : !acc, !ptrs
  }
  return %r#0 : !acc
}

// An inner loop that stores row after row may reach a later tile too.
// CHECK-LABEL: func.func @writes_later_rows
// CHECK-NOT: cta.channel
// CHECK: tile.store
func.func @writes_later_rows(%k: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32, %m: i32, %oa: tensor<64x64xf16, #a>, %zero: !acc) -> !acc {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c4096 = arith.constant 4096 : i32
  %one = arith.constant 1.0 : f16
  %ks = tile.splat %k : !tile.ptr<f16> -> !ptrs
  %flat = tile.arange 0 : tensor<4096xi32, #flat>
  %index = tile.reshape %flat : tensor<4096xi32, #flat> -> tensor<64x64xi32, #load>
  %p = tile.addptr %ks, %index : !ptrs, tensor<64x64xi32, #load>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!acc) : i32 {
    %ik = arith.muli %i, %c4096 : i32
    %iks = tile.splat %ik : i32 -> tensor<64x64xi32, #load>
    %at = tile.addptr %p, %iks : !ptrs, tensor<64x64xi32, #load>
    // expected-remark @+1 {{the loop may write to what it reads}}
    %v = tile.load %at : !ptrs -> !half
    %o = cta.convert_layout %v : !half -> tensor<64x64xf16, #b>
    %d = cta.dot %oa, %o, %acc by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc
    scf.for %j = %c0 to %m step %c1 : i32 {
      %jk = arith.muli %j, %c64 : i32
      %place = arith.addi %ik, %jk : i32
      %row = tile.addptr %k, %place : !tile.ptr<f16>, i32
      tile.store %row, %one : !tile.ptr<f16>, f16
    }
    scf.yield %d : !acc
  }
  return %r : !acc
}

// What cannot go ahead stays a load, and the compiler says why.
// CHECK-LABEL: func.func @stay
// CHECK-NOT: cta.channel
// CHECK: return
func.func @stay(%k: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32, %oa: tensor<64x64xf16, #a>, %zero: !acc) -> !acc {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ks = tile.splat %k : !tile.ptr<f16> -> !ptrs
  %flat = tile.arange 0 : tensor<4096xi32, #flat>
  %index = tile.reshape %flat : tensor<4096xi32, #flat> -> tensor<64x64xi32, #load>
  %p = tile.addptr %ks, %index : !ptrs, tensor<64x64xi32, #load>
  %mask = arith.constant dense<true> : tensor<64x64xi1, #load>
  %one = arith.constant dense<1.0> : tensor<64x64xf16, #load>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!acc) : i32 {
    // expected-remark @+1 {{goes through registers to shared memory, not ahead of its loop: neighbours in memory that one thread copies have less than 4 bytes}}
    %v0 = tile.load %ks : !ptrs -> !half
    %o0 = cta.convert_layout %v0 : !half -> tensor<64x64xf16, #b>
    %d0 = cta.dot %oa, %o0, %acc by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc
    // expected-remark @+1 {{an asynchronous copy gives zeros where the mask is false}}
    %v1 = tile.load %p mask %mask other %one : !ptrs mask tensor<64x64xi1, #load> other !half -> !half
    %o1 = cta.convert_layout %v1 : !half -> tensor<64x64xf16, #b>
    %d1 = cta.dot %oa, %o1, %d0 by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc
    scf.yield %d1 : !acc
  }
  %w = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %r) -> (!acc) : i32 {
    // expected-remark @+1 {{the loop may write to what it reads}}
    %v0 = tile.load %p : !ptrs -> !half
    %o0 = cta.convert_layout %v0 : !half -> tensor<64x64xf16, #b>
    %d0 = cta.dot %oa, %o0, %acc by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc
    tile.store %p, %one : !ptrs, !half
    scf.yield %d0 : !acc
  }
  return %w : !acc
}
}

// -----

// The compiler reports a hint that has no effect.
module attributes {cta.target = "sm_80"} {
  func.func @nothing_to_fetch(%p: !tile.ptr<i32>, %n: i32) attributes {tile.kernel, cta.warps = 1 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    // expected-remark @below {{a hint has no effect: stages: no load of this loop is fetched ahead}}
    scf.for %i = %zero to %n step %one : i32 {
      tile.store %p, %i : !tile.ptr<i32>, i32
    } {cta.stages = 3 : i32}
    return
  }
}
