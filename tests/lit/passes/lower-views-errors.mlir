// A copy by the engine has to signal an mbarrier.
// RUN: not sectile-opt --lower-views %s 2>&1 | FileCheck %s
// RUN: not sectile-opt --lower-channels %s 2>&1 | FileCheck %s --check-prefix=CHANNEL

#lines = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
!ring = !cta.channel<2, !cta.buffer<64x64xf16, #lines>>

module attributes {cta.target = "sm_90a"} {
func.func @early(%p: !tile.ptr<f16> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i64
  %c64 = arith.constant 64 : i64
  %view = tile.make_view %p, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %ring = cta.channel : !ring
  %slot = cta.acquire %ring[%c0] : !ring -> !cta.buffer<64x64xf16, #lines>
  // CHECK: error: 'cta.tensor_copy_block' op signals nobody yet: channels have to be lowered before
  // CHANNEL: error: 'cta.tensor_copy_block' op fills a channel that is never committed, so that nobody can wait for it
  cta.tensor_copy_block %view[%c0, %c0], %slot : !tile.view<2xf16>, [i32, i32], !cta.buffer<64x64xf16, #lines>
  return
}
}
