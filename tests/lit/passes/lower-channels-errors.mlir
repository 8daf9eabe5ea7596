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
  // expected-error @+1 {{leaves other numbers of uses under way by one path than by another}}
  scf.for %i = %c0 to %n step %c1 : i32 {
    %r = cta.wait %k[%i] : !ring -> !buffer
    cta.release %k[%i] : !ring
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
  // expected-error @+1 {{leaves other numbers of uses under way by one path than by another}}
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
