// Channels whose uses do not come in order on every path.
// RUN: sectile-opt --lower-channels --split-input-file --verify-diagnostics %s

#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>

module attributes {cta.target = "sm_80"} {
func.func @overtakes_its_reader() {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  // expected-note @+1 {{of this channel}}
  %k = cta.channel : !ring
  %0 = cta.acquire %k[%c0] : !ring -> !buffer
  cta.commit %k[%c0] : !ring
  %r = cta.wait %k[%c0] : !ring -> !buffer
  %1 = cta.acquire %k[%c1] : !ring -> !buffer
  // expected-error @+1 {{acquires a slot while all 2 are in use}}
  %2 = cta.acquire %k[%c2] : !ring -> !buffer
  return
}
}

// -----

#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>
module attributes {cta.target = "sm_80"} {
func.func @never_acquired() {
  %c0 = arith.constant 0 : i32
  // expected-note @+1 {{of this channel}}
  %k = cta.channel : !ring
  // expected-error @+1 {{commits a use that was not acquired}}
  cta.commit %k[%c0] : !ring
  return
}
}

// -----

#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>
module attributes {cta.target = "sm_80"} {
func.func @never_read() {
  %c0 = arith.constant 0 : i32
  // expected-note @+1 {{of this channel}}
  %k = cta.channel : !ring
  // expected-error @+1 {{releases a use that was not waited for}}
  cta.release %k[%c0] : !ring
  return
}
}

// -----

// The first iteration finds a use, the second does not.
#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>
module attributes {cta.target = "sm_80"} {
func.func @runs_dry(%n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-note @+1 {{of this channel}}
  %k = cta.channel : !ring
  %0 = cta.acquire %k[%c0] : !ring -> !buffer
  cta.commit %k[%c0] : !ring
  // expected-error @+1 {{leaves other numbers of uses in flight by one path than by another}}
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%use = %c0) -> (i32) : i32 {
    %r = cta.wait %k[%use] : !ring -> !buffer
    cta.release %k[%use] : !ring
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  return
}
}

// -----

#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>
module attributes {cta.target = "sm_80"} {
func.func @one_branch(%which: i1) {
  %c0 = arith.constant 0 : i32
  // expected-note @+1 {{of this channel}}
  %k = cta.channel : !ring
  // expected-error @+1 {{leaves other numbers of uses in flight by one path than by another}}
  scf.if %which {
    %0 = cta.acquire %k[%c0] : !ring -> !buffer
    cta.commit %k[%c0] : !ring
  }
  return
}
}

// -----

#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>
module attributes {cta.target = "sm_80"} {
func.func @waits_in_vain() {
  %c0 = arith.constant 0 : i32
  // expected-note @+1 {{of this channel}}
  %k = cta.channel : !ring
  // expected-error @+1 {{waits for a use that was not committed}}
  %r = cta.wait %k[%c0] : !ring -> !buffer
  return
}
}

// -----

#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#load = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>
module attributes {cta.target = "sm_80"} {
func.func @reads_what_is_gone(%p: tensor<64x64x!tile.ptr<f16>, #load>) {
  %c0 = arith.constant 0 : i32
  // expected-note @+1 {{of this channel}}
  %k = cta.channel : !ring
  %0 = cta.acquire %k[%c0] : !ring -> !buffer
  cta.commit %k[%c0] : !ring
  %r = cta.wait %k[%c0] : !ring -> !buffer
  cta.release %k[%c0] : !ring
  // expected-error @+1 {{reads a use that was released}}
  %t = cta.local_load %r : !buffer -> tensor<64x64xf16, #load>
  tile.store %p, %t : tensor<64x64x!tile.ptr<f16>, #load>, tensor<64x64xf16, #load>
  return
}
}

// -----

// The dot of the last iteration is in flight when this one gives its operand back: a use too early.
#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,8)]">
#a = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,0)]">
!acc = tensor<64x64xf32, #acc>
!flight = !cta.in_flight<tensor<64x64xf32, #acc>>
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<3, !buffer>
module attributes {cta.target = "sm_80"} {
func.func @released_in_flight(%a: tensor<64x64xf16, #a>, %zero: !acc, %n: i32) -> !acc {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-note @+1 {{of this channel}}
  %k = cta.channel : !ring
  %0 = cta.acquire %k[%c0] : !ring -> !buffer
  cta.commit %k[%c0] : !ring
  %r = cta.wait %k[%c0] : !ring -> !buffer
  %first = cta.dot_start %a, %r, %zero by [16, 8, 16] : tensor<64x64xf16, #a>, !buffer, !acc -> !flight
  %end:2 = scf.for %i = %c0 to %n step %c1 iter_args(%use = %c0, %dot = %first) -> (i32, !flight) : i32 {
    %later = arith.addi %use, %c1 : i32
    %b = cta.acquire %k[%later] : !ring -> !buffer
    cta.commit %k[%later] : !ring
    %w = cta.wait %k[%later] : !ring -> !buffer
    // expected-error @+1 {{releases a use that a dot in flight reads}}
    cta.release %k[%use] : !ring
    %sums = cta.dot_wait %dot : !flight
    %next = cta.dot_start %a, %w, %sums by [16, 8, 16] : tensor<64x64xf16, #a>, !buffer, !acc -> !flight
    scf.yield %later, %next : i32, !flight
  }
  %sums = cta.dot_wait %end#1 : !flight
  return %sums : !acc
}
}

// -----

#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,8)]">
#a = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,0)]">
#b = #cta.layout<"64x64, register [(1,0) (8,0) (0,16) (0,32) (16,0) (32,0)], lane [(2,0) (4,0) (0,1) (0,2) (0,4)], warp [(0,0) (0,8)]">
!a = tensor<64x64xf16, #a>
!b = tensor<64x64xf16, #b>
!acc = tensor<64x64xf32, #acc>
!flight = !cta.in_flight<tensor<64x64xf32, #acc>>
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>
module attributes {cta.target = "sm_80"} {
// What is waited for is not what was committed.
func.func @another_use() {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-note @+1 {{of this channel}}
  %k = cta.channel : !ring
  %0 = cta.acquire %k[%c0] : !ring -> !buffer
  cta.commit %k[%c0] : !ring
  // expected-error @+1 {{has the number of a use that is 1 after its next}}
  %r = cta.wait %k[%c1] : !ring -> !buffer
  return
}
}

// -----

#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,8)]">
#a = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,0)]">
#b = #cta.layout<"64x64, register [(1,0) (8,0) (0,16) (0,32) (16,0) (32,0)], lane [(2,0) (4,0) (0,1) (0,2) (0,4)], warp [(0,0) (0,8)]">
!a = tensor<64x64xf16, #a>
!b = tensor<64x64xf16, #b>
!acc = tensor<64x64xf32, #acc>
!flight = !cta.in_flight<tensor<64x64xf32, #acc>>
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>
module attributes {cta.target = "sm_80"} {
func.func @the_same_use_twice() {
  %c0 = arith.constant 0 : i32
  // expected-note @+1 {{of this channel}}
  %k = cta.channel : !ring
  %0 = cta.acquire %k[%c0] : !ring -> !buffer
  cta.commit %k[%c0] : !ring
  // expected-error @+1 {{has the number of a use that is -1 after its next}}
  %1 = cta.acquire %k[%c0] : !ring -> !buffer
  return
}
}

// -----

#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,8)]">
#a = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,0)]">
#b = #cta.layout<"64x64, register [(1,0) (8,0) (0,16) (0,32) (16,0) (32,0)], lane [(2,0) (4,0) (0,1) (0,2) (0,4)], warp [(0,0) (0,8)]">
!a = tensor<64x64xf16, #a>
!b = tensor<64x64xf16, #b>
!acc = tensor<64x64xf32, #acc>
!flight = !cta.in_flight<tensor<64x64xf32, #acc>>
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>
module attributes {cta.target = "sm_80"} {
// Every inner loop begins with the first use again.
func.func @counted_anew(%n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-note @+1 {{of this channel}}
  %k = cta.channel : !ring
  scf.for %i = %c0 to %n step %c1 : i32 {
    %end = scf.for %j = %c0 to %n step %c1 iter_args(%use = %c0) -> (i32) : i32 {
      // expected-error @+1 {{has a use's number that no loop counts from 0 on}}
      %0 = cta.acquire %k[%use] : !ring -> !buffer
      cta.commit %k[%use] : !ring
      %r = cta.wait %k[%use] : !ring -> !buffer
      cta.release %k[%use] : !ring
      %next = arith.addi %use, %c1 : i32
      scf.yield %next : i32
    }
  }
  return
}
}

// -----

#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,8)]">
#a = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,0)]">
#b = #cta.layout<"64x64, register [(1,0) (8,0) (0,16) (0,32) (16,0) (32,0)], lane [(2,0) (4,0) (0,1) (0,2) (0,4)], warp [(0,0) (0,8)]">
!a = tensor<64x64xf16, #a>
!b = tensor<64x64xf16, #b>
!acc = tensor<64x64xf32, #acc>
!flight = !cta.in_flight<tensor<64x64xf32, #acc>>
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>
module attributes {cta.target = "sm_80"} {
func.func @waited_for_in_one_branch(%a: !a, %b: !b, %zero: !acc, %which: i1) -> !acc {
  %dot = cta.dot_start %a, %b, %zero by [16, 8, 16] : !a, !b, !acc -> !flight
  // expected-error @+1 {{leaves a dot in flight by one path and not by another}}
  %sums = scf.if %which -> !acc {
    %0 = cta.dot_wait %dot : !flight
    scf.yield %0 : !acc
  } else {
    scf.yield %zero : !acc
  }
  return %sums : !acc
}
}

// -----

#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,8)]">
#a = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,0)]">
#b = #cta.layout<"64x64, register [(1,0) (8,0) (0,16) (0,32) (16,0) (32,0)], lane [(2,0) (4,0) (0,1) (0,2) (0,4)], warp [(0,0) (0,8)]">
!a = tensor<64x64xf16, #a>
!b = tensor<64x64xf16, #b>
!acc = tensor<64x64xf32, #acc>
!flight = !cta.in_flight<tensor<64x64xf32, #acc>>
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>
module attributes {cta.target = "sm_80"} {
// Never, or over and over.
func.func @waited_for_in_a_loop(%a: !a, %b: !b, %zero: !acc, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %dot = cta.dot_start %a, %b, %zero by [16, 8, 16] : !a, !b, !acc -> !flight
  // expected-error @+1 {{leaves a dot in flight by one path and not by another}}
  scf.for %i = %c0 to %n step %c1 : i32 {
    %0 = cta.dot_wait %dot : !flight
  }
  return
}
}

// -----

#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,8)]">
#a = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,0)]">
#b = #cta.layout<"64x64, register [(1,0) (8,0) (0,16) (0,32) (16,0) (32,0)], lane [(2,0) (4,0) (0,1) (0,2) (0,4)], warp [(0,0) (0,8)]">
!a = tensor<64x64xf16, #a>
!b = tensor<64x64xf16, #b>
!acc = tensor<64x64xf32, #acc>
!flight = !cta.in_flight<tensor<64x64xf32, #acc>>
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<2, !buffer>
module attributes {cta.target = "sm_80"} {
func.func @carried_and_lost(%a: !a, %b: !b, %zero: !acc, %n: i32) -> !acc {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %first = cta.dot_start %a, %b, %zero by [16, 8, 16] : !a, !b, !acc -> !flight
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%dot = %first) -> (!flight) : i32 {
    %next = cta.dot_start %a, %b, %zero by [16, 8, 16] : !a, !b, !acc -> !flight
    // expected-error @+1 {{leaves a dot in flight that nobody waits for}}
    scf.yield %next : !flight
  }
  %sums = cta.dot_wait %last : !flight
  return %sums : !acc
}
}

// -----

#rows = #cta.layout<"16x16, shared [(0,1) (0,2) (0,4) (0,8) (1,0) (2,0) (4,8) (8,0)]">
!buffer = !cta.buffer<16x16xf16, #rows>
module attributes {cta.target = "sm_90a"} {
func.func @copies_to_no_channel(%view: !tile.view<2xf16>, %at: i32) {
  %buffer = cta.alloc : !buffer
  // expected-error @+1 {{fills a buffer of no channel, so that nobody can wait for it}}
  cta.tensor_copy_block %view[%at, %at], %buffer : !tile.view<2xf16>, [i32, i32], !buffer
  return
}
}

// -----

#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,8)]">
#a = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,0)]">
#b = #cta.layout<"64x64, register [(1,0) (8,0) (0,16) (0,32) (16,0) (32,0)], lane [(2,0) (4,0) (0,1) (0,2) (0,4)], warp [(0,0) (0,8)]">
!a = tensor<64x64xf16, #a>
!b = tensor<64x64xf16, #b>
!acc = tensor<64x64xf32, #acc>
!flight = !cta.in_flight<tensor<64x64xf32, #acc>>
module attributes {cta.target = "sm_80"} {
// The second dot is the only one that the first wait may leave.
func.func @waits_leave_too_many(%a: !a, %b: !b, %zero: !acc) -> (!acc, !acc) {
  %one = cta.dot_start %a, %b, %zero by [16, 8, 16] : !a, !b, !acc -> !flight
  %two = cta.dot_start %a, %b, %zero by [16, 8, 16] : !a, !b, !acc -> !flight
  %first = cta.dot_wait %one {pending = 1 : i32} : !flight
  // expected-error @+1 {{leaves the dot that it waits for in flight}}
  %second = cta.dot_wait %two {pending = 1 : i32} : !flight
  return %first, %second : !acc, !acc
}
}

// -----

#load = #cta.layout<"16x16, register [(0,1) (0,2) (8,0)], lane [(0,4) (0,8) (1,0) (2,0) (4,0)], warp []">
#rows = #cta.layout<"16x16, shared [(0,1) (0,2) (0,4) (0,8) (1,0) (2,0) (4,8) (8,0)]">
!half = tensor<16x16xf16, #load>
!buffer = !cta.buffer<16x16xf16, #rows>
!ring = !cta.channel<2, !buffer>
module attributes {cta.target = "sm_80"} {
// A loop that is one use behind has its last use released behind it.
func.func @keeps_the_last_use(%x: !half, %m: i32, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %k = cta.channel : !ring
  // expected-note @-1 {{of this channel}}
  // expected-error @+1 {{leaves other numbers of uses in flight by one path than by another}}
  scf.for %j = %c0 to %m step %c1 iter_args(%uses = %c0) -> i32 : i32 {
    %inner = scf.for %i = %c0 to %n step %c1 iter_args(%use = %uses) -> i32 : i32 {
      %b = cta.acquire %k[%use] : !ring -> !buffer
      cta.local_store %x, %b : !half, !buffer
      cta.commit %k[%use] : !ring
      %r = cta.wait %k[%use] : !ring -> !buffer
      cta.release previous %k[%use] : !ring
      %next = arith.addi %use, %c1 : i32
      scf.yield %next : i32
    }
    scf.yield %inner : i32
  }
  return
}
}

// -----

#load = #cta.layout<"16x16, register [(0,1) (0,2) (8,0)], lane [(0,4) (0,8) (1,0) (2,0) (4,0)], warp []">
#rows = #cta.layout<"16x16, shared [(0,1) (0,2) (0,4) (0,8) (1,0) (2,0) (4,8) (8,0)]">
!half = tensor<16x16xf16, #load>
!buffer = !cta.buffer<16x16xf16, #rows>
!ring = !cta.channel<1, !buffer>
module attributes {cta.target = "sm_80"} {
// The slot is still being read when the next iteration fills it.
func.func @has_no_slot_to_spare(%x: !half, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %k = cta.channel : !ring
  // expected-note @-1 {{of this channel}}
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%use = %c0) -> i32 : i32 {
    // expected-error @+1 {{acquires a slot while all 1 are in use}}
    %b = cta.acquire %k[%use] : !ring -> !buffer
    cta.local_store %x, %b : !half, !buffer
    cta.commit %k[%use] : !ring
    %r = cta.wait %k[%use] : !ring -> !buffer
    cta.release previous %k[%use] : !ring
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  cta.release previous %k[%end] : !ring
  return
}
}
