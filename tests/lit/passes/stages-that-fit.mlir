// A remark says how many stages a loop has where shared memory has room for less than it was asked for: a ring of warps of their
// own, which lives on while tiles are stored, and one that ends with its loop, where a dot in flight reads one buffer more.
// RUN: sectile-opt --sectile-pipeline %s -o /dev/null 2>&1 | FileCheck %s --check-prefix=ENOUGH --allow-empty
// RUN: sed 's/cta.stages = 3/cta.stages = 12/' %s | sectile-opt --sectile-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=LESS
// ENOUGH-NOT: there is no room for more
// LESS: remark: this loop has 7 stages, not 12: there is no room for more beside what lives as long as its ring
// RUN: sed 's/cta.stages = 3/cta.stages = 9/; s/ {cta.warp_specialize = true}//' %s | sectile-opt --sectile-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=FLIGHT
// FLIGHT: remark: this loop has 8 stages, not 9: there is no room for more beside the buffer that a dot in flight reads

module attributes {cta.target = "sm_90a"} {
  func.func @tiles(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                   %extent: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64}, %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %tiles: i32,
                   %n: i32) attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %a = tile.make_view %x, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %first = tile.program_id 0
    %programs = tile.num_programs 0
    scf.for %tile = %first to %tiles step %programs : i32 {
      %row = arith.muli %tile, %c128 : i32
      %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
        %k = arith.muli %i, %c64 : i32
        %left = tile.load_block %a[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
        %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %next = tile.dot %left, %right, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
        scf.yield %next : tensor<128x64xf32>
      } {cta.warp_specialize = true}
      %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
      tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
    }
    return
  }
}
