// What a dot in flight reads may not be overwritten, which no barrier makes right: the pass that starts dots knows better.
// RUN: sectile-opt --insert-barriers --split-input-file --verify-diagnostics %s

#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0)]">
#lines = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#rows = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
!acc = tensor<64x64xf32, #acc>
!flight = !cta.in_flight<tensor<64x64xf32, #acc>>
!buffer = !cta.buffer<64x64xf16, #lines>
!half = tensor<64x64xf16, #rows>

module attributes {cta.target = "sm_90a"} {
func.func @overwrites(%x: !half, %zero: !acc) -> !acc {
  %a = cta.alloc %x {offset = 0 : i32} : !buffer from !half
  %b = cta.alloc %x {offset = 8192 : i32} : !buffer from !half
  %sums = cta.dot_start %a, %b, %zero by [64, 64, 16] : !buffer, !buffer, !acc -> !flight
  // expected-error @+1 {{overwrites what a dot in flight reads}}
  cta.local_store %x, %b : !half, !buffer
  %done = cta.dot_wait %sums : !flight
  return %done : !acc
}

// After the wait it may.
func.func @waits(%x: !half, %zero: !acc) -> !acc {
  %a = cta.alloc %x {offset = 0 : i32} : !buffer from !half
  %b = cta.alloc %x {offset = 8192 : i32} : !buffer from !half
  %sums = cta.dot_start %a, %b, %zero by [64, 64, 16] : !buffer, !buffer, !acc -> !flight
  cta.dots_wait 0
  cta.local_store %x, %b : !half, !buffer
  %done = cta.dot_wait %sums : !flight
  return %done : !acc
}
}
