// Operands that lie across K in memory.
// RUN: sectile-opt --split-input-file --sectile-pipeline %s 2>/dev/null | FileCheck %s
// RUN: sectile-opt --split-input-file --sectile-pipeline %s 2>/dev/null | FileCheck %s --check-prefix=WORDS
// RUN: sectile-opt --split-input-file --sectile-pipeline %s 2>/dev/null | FileCheck %s --check-prefix=BYTES
// RUN: sectile-opt --split-input-file --select-mma --assign-layouts --schedule-loops --stage-operands %s 2>/dev/null | FileCheck %s --check-prefix=STAGED

// Of two, one is turned: the engine copies it as it is, threads read squares of the slot and write them to the buffer that
// the dot reads, and the slot is free once they have. The other goes to registers.
module attributes {cta.target = "sm_90a"} {
// CHECK-DAG: #[[SQUARES:.*]] = #cta.layout<"128x128, register [(0,1) (0,2) (1,0) (2,0) 
// CHECK-LABEL: func.func @across
// CHECK: cta.partition
// CHECK-COUNT-2: cta.tensor_copy
// CHECK: scf.for
// CHECK: cta.mbarrier_wait
// CHECK-NOT: cta.convert_layout
// CHECK: cta.local_load {{.*}} -> tensor<128x128xi8, #[[SQUARES]]>
// CHECK-NOT: cta.convert_layout
// CHECK: cta.alloc
// CHECK: cta.proxy_fence
// CHECK-NEXT: cta.barrier
// CHECK: cta.dot {{.*}} by [64, 128, 32] : tensor<128x128xi8, {{.*}}>, !cta.buffer<128x128xi8,
// STAGED: %[[ALONG:.*]] = cta.along_k %{{.*}} along 0 :
// STAGED: %[[B:.*]] = cta.alloc %[[ALONG]]
// STAGED: cta.dot %{{.*}}, %[[B]],
func.func @across(%x: !tile.ptr<i8> {tile.divisible = 16 : i64}, %y: !tile.ptr<i8> {tile.divisible = 16 : i64},
    %o: !tile.ptr<i32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64})
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %a = tile.make_view %x, [%n, %c128], [%c128, %c1] : !tile.ptr<i8>, [i32, i32], [i32, i32] -> !tile.view<2xi8>
  %b = tile.make_view %y, [%n, %c128], [%c128, %c1] : !tile.ptr<i8>, [i32, i32], [i32, i32] -> !tile.view<2xi8>
  %c = tile.make_view %o, [%c128, %c128], [%c128, %c1] : !tile.ptr<i32>, [i32, i32], [i32, i32] -> !tile.view<2xi32>
  %zero = arith.constant dense<0> : tensor<128x128xi32>
  %sums = scf.for %i = %c0 to %n step %c128 iter_args(%acc = %zero) -> (tensor<128x128xi32>) : i32 {
    %columns = tile.load_block %a[%i, %c0] : !tile.view<2xi8>, [i32, i32] -> tensor<128x128xi8>
    %left = tile.permute %columns [1, 0] : tensor<128x128xi8> -> tensor<128x128xi8>
    %right = tile.load_block %b[%i, %c0] : !tile.view<2xi8>, [i32, i32] -> tensor<128x128xi8>
    %next = tile.dot %left, %right, %acc : tensor<128x128xi8>, tensor<128x128xi8>, tensor<128x128xi32>
    scf.yield %next : tensor<128x128xi32>
  } {cta.warp_specialize = true}
  tile.store_block %c[%c0, %c0], %sums : !tile.view<2xi32>, [i32, i32], tensor<128x128xi32>
  return
}
}

// -----

// Bytes go to registers as pairs of neighbours, where the sums are of interleaved rows: of transposed operands for b.
module attributes {cta.target = "sm_90a"} {
// BYTES-LABEL: func.func @bytes
// BYTES: cta.partition
// BYTES-COUNT-2: cta.tensor_copy
// BYTES: scf.for {{.*}} -> (tensor<64x128xf32, #[[SUMS:.*]]>
// BYTES: %[[READ:.*]] = cta.local_load {{.*}} -> tensor<128x64xf8E4M3FN,
// BYTES: %[[SAME:.*]] = cta.along_k %[[READ]] along 0 stays
// BYTES-NEXT: %[[TURNED:.*]] = tile.permute %[[SAME]] [1, 0]
// BYTES-NEXT: %[[SPLIT:.*]] = tile.reshape %[[TURNED]] : {{.*}} -> tensor<4x8x2x128xf8E4M3FN,
// BYTES-NEXT: %[[SWAPPED:.*]] = tile.permute %[[SPLIT]] [0, 2, 1, 3]
// BYTES-NEXT: %[[LEFT:.*]] = tile.reshape %[[SWAPPED]]
// BYTES-NOT: cta.alloc
// BYTES-NOT: cta.convert_layout
// BYTES: %[[SUM:.*]] = cta.dot %[[LEFT]], %{{.*}}, %{{.*}} by [64, 128, 32]
// BYTES: %[[SCALED:.*]] = arith.mulf %[[SUM]], %{{.*}} : tensor<64x128xf32, #[[SUMS]]>
// BYTES: arith.addf %{{.*}}, %[[SCALED]] : tensor<64x128xf32, #[[SUMS]]>
// BYTES: tile.permute {{.*}} [0, 2, 1, 3] : tensor<4x2x8x128xf32, {{.*}}> -> tensor<4x8x2x128xf32,
func.func @bytes(%x: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %y: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64},
    %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64}, %scale: f32)
    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %c4096 = arith.constant 4096 : i32
  %a = tile.make_view %x, [%c128, %n], [%c4096, %c1] : !tile.ptr<f8E4M3FN>, [i32, i32], [i32, i32] -> !tile.view<2xf8E4M3FN>
  %b = tile.make_view %y, [%n, %c64], [%c64, %c1] : !tile.ptr<f8E4M3FN>, [i32, i32], [i32, i32] -> !tile.view<2xf8E4M3FN>
  %c = tile.make_view %o, [%c128, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  %factor = tile.splat %scale : f32 -> tensor<128x64xf32>
  %sums = scf.for %i = %c0 to %n step %c128 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
    %left = tile.load_block %a[%c0, %i] : !tile.view<2xf8E4M3FN>, [i32, i32] -> tensor<128x128xf8E4M3FN>
    %right = tile.load_block %b[%i, %c0] : !tile.view<2xf8E4M3FN>, [i32, i32] -> tensor<128x64xf8E4M3FN>
    %dot = tile.dot %left, %right, %zero : tensor<128x128xf8E4M3FN>, tensor<128x64xf8E4M3FN>, tensor<128x64xf32>
    %scaled = arith.mulf %dot, %factor : tensor<128x64xf32>
    %next = arith.addf %acc, %scaled : tensor<128x64xf32>
    scf.yield %next : tensor<128x64xf32>
  } {cta.warp_specialize = true}
  tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<128x64xf32>
  return
}
}

// -----

// Words need no turning among themselves: threads read them into registers, as the left operand of transposed sums.
module attributes {cta.target = "sm_90a"} {
// WORDS-LABEL: func.func @words
// WORDS: cta.partition
// WORDS-COUNT-2: cta.tensor_copy
// WORDS: scf.for {{.*}} -> (tensor<128x128xf32, #[[SUMS:.*]]>
// WORDS: %[[READ:.*]] = cta.local_load {{.*}} -> tensor<32x128xf32,
// WORDS-NEXT: %[[SAME:.*]] = cta.along_k %[[READ]] along 0 stays
// WORDS-NEXT: %[[LEFT:.*]] = tile.permute %[[SAME]]
// WORDS-NOT: cta.alloc
// WORDS-NOT: cta.convert_layout
// WORDS: cta.dot %[[LEFT]], %{{.*}}, %{{.*}} by [64, 128, 8] : tensor<128x32xf32, {{.*}}>, !cta.buffer<32x128xf32,
// WORDS: cta.tensor_store
func.func @words(%x: !tile.ptr<f32> {tile.divisible = 16 : i64}, %y: !tile.ptr<f32> {tile.divisible = 16 : i64},
    %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64})
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c32 = arith.constant 32 : i32
  %c128 = arith.constant 128 : i32
  %c4096 = arith.constant 4096 : i32
  %a = tile.make_view %x, [%c128, %n], [%c4096, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %b = tile.make_view %y, [%n, %c128], [%c128, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %c = tile.make_view %o, [%c128, %c128], [%c128, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %sums = scf.for %i = %c0 to %n step %c32 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
    %left = tile.load_block %a[%c0, %i] : !tile.view<2xf32>, [i32, i32] -> tensor<128x32xf32>
    %right = tile.load_block %b[%i, %c0] : !tile.view<2xf32>, [i32, i32] -> tensor<32x128xf32>
    %next = tile.dot %left, %right, %acc : tensor<128x32xf32>, tensor<32x128xf32>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  } {cta.warp_specialize = true}
  tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<128x128xf32>
  return
}
}
