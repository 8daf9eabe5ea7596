// Accesses of views on AMD's chips are buffer instructions: the resource in scalar registers, no branch around what is
// masked off. A base that lanes may see differently goes through readfirstlane.
// RUN: sed s/CHIP/gfx90a/ %s | sectile-opt --sectile-pipeline -o %t.gfx90a && sectile-opt --emit-assembly %t.gfx90a | FileCheck %s --check-prefixes=CHECK,CDNA
// RUN: sed s/CHIP/gfx942/ %s | sectile-opt --sectile-pipeline -o %t.gfx942 && sectile-opt --emit-assembly %t.gfx942 | FileCheck %s --check-prefixes=CHECK,CDNA
// RUN: sed s/CHIP/gfx950/ %s | sectile-opt --sectile-pipeline -o %t.gfx950 && sectile-opt --emit-assembly %t.gfx950 | FileCheck %s --check-prefixes=CHECK,CDNA
// RUN: sed s/CHIP/gfx1100/ %s | sectile-opt --sectile-pipeline -o %t.gfx1100 && sectile-opt --emit-assembly %t.gfx1100 | FileCheck %s --check-prefixes=CHECK,RDNA
// RUN: sed s/CHIP/gfx1201/ %s | sectile-opt --sectile-pipeline -o %t.gfx1201 && sectile-opt --emit-assembly %t.gfx1201 | FileCheck %s --check-prefixes=CHECK,RDNA

// CHECK-LABEL: {{^}}copy:
// CHECK-NOT: s_cbranch
// CDNA-DAG: 0x27000
// RDNA-DAG: 0x31027000
// CHECK-NOT: global_
// CDNA: buffer_load_dwordx4 v[{{.*}}], v{{[0-9]+}}, s[{{.*}}], 0 offen
// RDNA: buffer_load_b128 v[{{.*}}], v{{[0-9]+}}, s[{{.*}}], {{0|null}} offen
// CHECK-NOT: s_cbranch
// CDNA: buffer_store_dwordx4 v[{{.*}}], v{{[0-9]+}}, s[{{.*}}], 0 offen
// RDNA: buffer_store_b128 v[{{.*}}], v{{[0-9]+}}, s[{{.*}}], {{0|null}} offen
// CHECK-NOT: s_cbranch
// CHECK: s_endpgm

// Lanes computed the row by exchanging numbers; to LLVM these may differ.
// CHECK-LABEL: {{^}}picked:
// CHECK: v_readfirstlane_b32
// CHECK: v_readfirstlane_b32
// CHECK-NOT: saveexec
// CHECK: buffer_load_{{dwordx4|b128}}
// CHECK-NOT: saveexec
// CHECK: s_endpgm
module attributes {cta.target = "CHIP"} {
func.func @copy(%p: !tile.ptr<f16> {tile.divisible = 16 : i64}, %q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %m: i32,
                %s: i32 {tile.divisible = 16 : i64, tile.below = 0x100000 : i64}) attributes {tile.kernel, cta.warps = 1 : i32} {
  %one = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %i = tile.program_id 0
  %v = tile.make_view %p, [%m, %c64], [%s, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %w = tile.make_view %q, [%m, %c64], [%s, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %zero = arith.constant 0 : i32
  %t = tile.load_block %v[%i, %zero] : !tile.view<2xf16>, [i32, i32] -> tensor<8x64xf16>
  tile.store_block %w[%i, %zero], %t : !tile.view<2xf16>, [i32, i32], tensor<8x64xf16>
  return
}
func.func @picked(%p: !tile.ptr<f16> {tile.divisible = 16 : i64}, %q: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %rows: !tile.ptr<i32>, %s: i32 {tile.divisible = 16 : i64, tile.below = 0x100000 : i64})
    attributes {tile.kernel, cta.warps = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %c8 = arith.constant 8 : i32
  %c64 = arith.constant 64 : i32
  %all = tile.make_view %rows, [%c64], [%one] : !tile.ptr<i32>, [i32], [i32] -> !tile.view<1xi32>
  %numbers = tile.load_block %all[%zero] : !tile.view<1xi32>, [i32] -> tensor<64xi32>
  %row = tile.reduce %numbers 0 : (tensor<64xi32>) -> i32 {
  ^bb0(%a: i32, %b: i32):
    %most = arith.maxsi %a, %b : i32
    tile.yield %most : i32
  }
  %v = tile.make_view %p, [%s, %c64], [%s, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %w = tile.make_view %q, [%c8, %c64], [%c64, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %t = tile.load_block %v[%row, %zero] : !tile.view<2xf16>, [i32, i32] -> tensor<8x64xf16>
  tile.store_block %w[%zero, %zero], %t : !tile.view<2xf16>, [i32, i32], tensor<8x64xf16>
  return
}
}
