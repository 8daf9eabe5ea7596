// Every operation of the dialect, printed, read back and printed again.
// RUN: sectile-opt %s | sectile-opt | FileCheck %s
// RUN: sectile-opt -emit-bytecode %s | sectile-opt | FileCheck %s

// CHECK-LABEL: func.func @programs
func.func @programs() -> (i32, i32) attributes {tile.kernel} {
  // CHECK: tile.program_id 0
  %0 = tile.program_id 0
  // CHECK: tile.num_programs 2
  %1 = tile.num_programs 2
  return %0, %1 : i32, i32
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: f16) {
  // CHECK: tile.arange -4 : tensor<96xi32>
  %0 = tile.arange -4 : tensor<96xi32>
  // CHECK: tile.splat %{{.*}} : f16 -> tensor<32x3xf16>
  %1 = tile.splat %x : f16 -> tensor<32x3xf16>
  // CHECK: tile.expand_dims %{{.*}} 1 : tensor<96xi32> -> tensor<96x1xi32>
  %2 = tile.expand_dims %0 1 : tensor<96xi32> -> tensor<96x1xi32>
  // CHECK: tile.broadcast %{{.*}} : tensor<96x1xi32> -> tensor<96x16xi32>
  %3 = tile.broadcast %2 : tensor<96x1xi32> -> tensor<96x16xi32>
  // CHECK: tile.reshape %{{.*}} : tensor<96x16xi32> -> tensor<8x12x16xi32>
  %4 = tile.reshape %3 : tensor<96x16xi32> -> tensor<8x12x16xi32>
  // CHECK: tile.permute %{{.*}} [2, 0, 1] : tensor<8x12x16xi32> -> tensor<16x8x12xi32>
  %5 = tile.permute %4 [2, 0, 1] : tensor<8x12x16xi32> -> tensor<16x8x12xi32>
  return
}

// CHECK-LABEL: func.func @memory
func.func @memory(%p: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %ps: tensor<64x!tile.ptr<f32>>, %i: tensor<64xi64>,
                  %mask: tensor<64xi1>, %other: tensor<64xf32>, %n: i64) {
  // CHECK: tile.addptr %{{.*}} : !tile.ptr<bf16>, i64
  %0 = tile.addptr %p, %n : !tile.ptr<bf16>, i64
  // CHECK: tile.addptr %{{.*}} : tensor<64x!tile.ptr<f32>>, tensor<64xi64>
  %1 = tile.addptr %ps, %i : tensor<64x!tile.ptr<f32>>, tensor<64xi64>
  // CHECK: tile.load %{{.*}} : !tile.ptr<bf16> -> bf16
  %2 = tile.load %0 : !tile.ptr<bf16> -> bf16
  // CHECK: tile.load %{{.*}} {isVolatile} : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %3 = tile.load %1 {isVolatile} : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  // CHECK: tile.load %{{.*}} mask %{{.*}} other %{{.*}} {cache = 2 : i32, eviction = 1 : i32} : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> other tensor<64xf32> -> tensor<64xf32>
  %4 = tile.load %1 mask %mask other %other {cache = 2 : i32, eviction = 1 : i32} : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> other tensor<64xf32> -> tensor<64xf32>
  // CHECK: tile.store %{{.*}}, %{{.*}} : !tile.ptr<bf16>, bf16
  tile.store %0, %2 : !tile.ptr<bf16>, bf16
  // CHECK: tile.store %{{.*}}, %{{.*}} mask %{{.*}} {vector = 4 : i32} : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
  tile.store %1, %4 mask %mask {vector = 4 : i32} : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
  return
}

// CHECK-LABEL: func.func @views
// CHECK-SAME: !tile.view<3xi8>
func.func @views(%p: !tile.ptr<f16>, %m: i32, %n: i64, %v: !tile.view<3xi8>) {
  // CHECK: tile.make_view %{{.*}}, [%{{.*}}, %{{.*}}], [%{{.*}}, %{{.*}}] : !tile.ptr<f16>, [i32, i64], [i64, i32] -> !tile.view<2xf16>
  %0 = tile.make_view %p, [%m, %n], [%n, %m] : !tile.ptr<f16>, [i32, i64], [i64, i32] -> !tile.view<2xf16>
  // CHECK: tile.load_block %{{.*}}[%{{.*}}, %{{.*}}] : !tile.view<2xf16>, [i32, i64] -> tensor<96x16xf16>
  %1 = tile.load_block %0[%m, %n] : !tile.view<2xf16>, [i32, i64] -> tensor<96x16xf16>
  // CHECK: tile.load_block %{{.*}}[%{{.*}}, %{{.*}}] padding 0xFC00 : f16 : !tile.view<2xf16>
  %2 = tile.load_block %0[%m, %n] padding 0xFC00 : f16 : !tile.view<2xf16>, [i32, i64] -> tensor<96x16xf16>
  // CHECK: tile.store_block %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}} : !tile.view<2xf16>, [i32, i64], tensor<96x16xf16>
  tile.store_block %0[%m, %n], %2 : !tile.view<2xf16>, [i32, i64], tensor<96x16xf16>
  return
}

// CHECK-LABEL: func.func @compute
func.func @compute(%a: tensor<96x32xf8E4M3FN>, %b: tensor<32x176xf8E5M2>, %acc: tensor<96x176xf32>,
                   %i: tensor<96x176xi32>, %row: tensor<8xf32>) {
  // CHECK: tile.dot %{{.*}} {precision = 1 : i32} : tensor<96x32xf8E4M3FN>, tensor<32x176xf8E5M2>, tensor<96x176xf32>
  %0 = tile.dot %a, %b, %acc {precision = 1 : i32} : tensor<96x32xf8E4M3FN>, tensor<32x176xf8E5M2>, tensor<96x176xf32>
  // CHECK: tile.reduce %{{.*}}, %{{.*}} 1 : (tensor<96x176xf32>, tensor<96x176xi32>) -> (tensor<96xf32>, tensor<96xi32>)
  // CHECK: ^bb0(%{{.*}}: f32, %{{.*}}: i32, %{{.*}}: f32, %{{.*}}: i32):
  // CHECK: tile.yield %{{.*}}, %{{.*}} : f32, i32
  %1:2 = tile.reduce %0, %i 1 : (tensor<96x176xf32>, tensor<96x176xi32>) -> (tensor<96xf32>, tensor<96xi32>) {
  ^bb0(%x: f32, %xi: i32, %y: f32, %yi: i32):
    %more = arith.cmpf ogt, %x, %y : f32
    %max = arith.select %more, %x, %y : f32
    %at = arith.select %more, %xi, %yi : i32
    tile.yield %max, %at : f32, i32
  }
  // CHECK: tile.reduce %{{.*}} 0 : (tensor<8xf32>) -> f32
  %2 = tile.reduce %row 0 : (tensor<8xf32>) -> f32 {
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    tile.yield %s : f32
  }
  return
}

// CHECK-LABEL: func.func @moving
func.func @moving(%x: tensor<96xf16>, %i: tensor<32xi32>) {
  // CHECK: tile.join %{{.*}}, %{{.*}} : tensor<96xf16> -> tensor<96x2xf16>
  %0 = tile.join %x, %x : tensor<96xf16> -> tensor<96x2xf16>
  // CHECK: tile.split %{{.*}} : tensor<96x2xf16> -> tensor<96xf16>
  %1:2 = tile.split %0 : tensor<96x2xf16> -> tensor<96xf16>
  // CHECK: tile.gather %{{.*}}[%{{.*}}] 0 : tensor<96xf16>, tensor<32xi32> -> tensor<32xf16>
  %2 = tile.gather %x[%i] 0 : tensor<96xf16>, tensor<32xi32> -> tensor<32xf16>
  return
}

// CHECK-LABEL: func.func @atomics
func.func @atomics(%p: tensor<32x!tile.ptr<f32>>, %x: tensor<32xf32>, %m: tensor<32xi1>, %q: !tile.ptr<i64>, %y: i64,
                   %v: !tile.view<1xf32>, %o: i32) {
  // CHECK: tile.atomic_rmw fadd, %{{.*}}, %{{.*}} mask %{{.*}} {order = 0 : i32} : tensor<32x!tile.ptr<f32>>, tensor<32xf32> mask tensor<32xi1> -> tensor<32xf32>
  %0 = tile.atomic_rmw fadd, %p, %x mask %m {order = 0 : i32} : tensor<32x!tile.ptr<f32>>, tensor<32xf32> mask tensor<32xi1> -> tensor<32xf32>
  // CHECK: tile.atomic_cas %{{.*}}, %{{.*}}, %{{.*}} {scope = 2 : i32} : !tile.ptr<i64>, i64 -> i64
  %1 = tile.atomic_cas %q, %y, %y {scope = 2 : i32} : !tile.ptr<i64>, i64 -> i64
  // CHECK: tile.atomic_block fmax, %{{.*}}[%{{.*}}], %{{.*}} : !tile.view<1xf32>, [i32], tensor<32xf32> -> tensor<32xf32>
  %2 = tile.atomic_block fmax, %v[%o], %x : !tile.view<1xf32>, [i32], tensor<32xf32> -> tensor<32xf32>
  // CHECK: tile.barrier
  tile.barrier
  // CHECK: tile.wait_dependencies
  tile.wait_dependencies
  // CHECK: tile.launch_dependents
  tile.launch_dependents
  return
}

// CHECK-LABEL: func.func @combining
func.func @combining(%x: tensor<16x64xf32>, %n: tensor<64xi32>, %m: tensor<64xi1>) {
  // CHECK: tile.scan %{{.*}} 1 reverse : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %0 = tile.scan %x 1 reverse : (tensor<16x64xf32>) -> tensor<16x64xf32> {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tile.yield %s : f32
  }
  // CHECK: tile.histogram %{{.*}} mask %{{.*}} : tensor<64xi32> mask tensor<64xi1> -> tensor<8xi32>
  %1 = tile.histogram %n mask %m : tensor<64xi32> mask tensor<64xi1> -> tensor<8xi32>
  // CHECK: tile.histogram %{{.*}} weights %{{.*}} mask %{{.*}} : tensor<64xi32> weights tensor<64xf32> mask tensor<64xi1> -> tensor<8xf32>
  %weights = arith.sitofp %n : tensor<64xi32> to tensor<64xf32>
  %weighted = tile.histogram %n weights %weights mask %m : tensor<64xi32> weights tensor<64xf32> mask tensor<64xi1> -> tensor<8xf32>
  // CHECK: tile.map %{{.*}} : (tensor<64xi32>) -> tensor<64xf32>
  %2 = tile.map %n : (tensor<64xi32>) -> tensor<64xf32> {
  ^bb0(%a: i32):
    %f = arith.sitofp %a : i32 to f32
    tile.yield %f : f32
  }
  return
}

// CHECK-LABEL: func.func @products
func.func @products(%a: tensor<2x16x32xf16>, %b: tensor<2x32x8xf16>, %c: tensor<2x16x8xf32>, %p: tensor<16x32xi8>,
                    %q: tensor<64x8xf8E4M3FN>, %s: tensor<16x2xi8>, %t: tensor<16x8xf32>) {
  // CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x16x32xf16>, tensor<2x32x8xf16>, tensor<2x16x8xf32>
  %0 = tile.dot %a, %b, %c : tensor<2x16x32xf16>, tensor<2x32x8xf16>, tensor<2x16x8xf32>
  // CHECK: tile.dot_scaled %{{.*}} scale %{{.*}}, %{{.*}}, %{{.*}} : tensor<16x32xi8> scale tensor<16x2xi8>, tensor<64x8xf8E4M3FN>, tensor<16x8xf32> -> tensor<16x8xf32>
  %1 = tile.dot_scaled %p scale %s, %q, %t : tensor<16x32xi8> scale tensor<16x2xi8>, tensor<64x8xf8E4M3FN>, tensor<16x8xf32> -> tensor<16x8xf32>
  return
}

// CHECK-LABEL: func.func @escapes
func.func @escapes(%x: tensor<64xf32>, %n: tensor<64xi32>, %c: i1, %m: tensor<64xi1>, %w: tensor<64xi64>) {
  // CHECK: tile.fp_cast %{{.*}} {rounding = 1 : i32, saturate} : tensor<64xf32> -> tensor<64xf8E5M2>
  %0 = tile.fp_cast %x {rounding = 1 : i32, saturate} : tensor<64xf32> -> tensor<64xf8E5M2>
  // CHECK: %[[P:.*]] = tile.int_to_ptr %{{.*}} : tensor<64xi64> -> tensor<64x!tile.ptr<f32>>
  %p = tile.int_to_ptr %w : tensor<64xi64> -> tensor<64x!tile.ptr<f32>>
  // CHECK: tile.ptr_to_int %[[P]] : tensor<64x!tile.ptr<f32>> -> tensor<64xi64>
  %i = tile.ptr_to_int %p : tensor<64x!tile.ptr<f32>> -> tensor<64xi64>
  // CHECK: tile.inline_asm "lg2.approx.f32 $0, $1;", "=f,f", 1 pure(%{{.*}}) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = tile.inline_asm "lg2.approx.f32 $0, $1;", "=f,f", 1 pure (%x) : (tensor<64xf32>) -> tensor<64xf32>
  // CHECK: tile.inline_asm "lg2.approx.f32 $0, $1;", "=f,f", 1 pure(%{{.*}}) : (tensor<64xf32>) -> tensor<64xf32> meaning {
  // CHECK-NEXT: ^bb0(%[[E:.*]]: f32):
  // CHECK-NEXT: %[[L:.*]] = math.log2 %[[E]] : f32
  // CHECK-NEXT: tile.yield %[[L]] : f32
  %meant = tile.inline_asm "lg2.approx.f32 $0, $1;", "=f,f", 1 pure (%x) : (tensor<64xf32>) -> tensor<64xf32> meaning {
  ^bb0(%e: f32):
    %l = math.log2 %e : f32
    tile.yield %l : f32
  }
  // CHECK: tile.extern_call "cube" from "lib.bc" pure(%{{.*}}) : (tensor<64xf32>) -> tensor<64xf32>
  %2 = tile.extern_call "cube" from "lib.bc" pure (%x) : (tensor<64xf32>) -> tensor<64xf32>
  // CHECK: tile.assume %{{.*}}
  tile.assume %c
  // CHECK: tile.hint %{{.*}} {contiguous = array<i64: 64>, divisible = array<i64: 16>} : tensor<64xi32>
  %3 = tile.hint %n {divisible = array<i64: 16>, contiguous = array<i64: 64>} : tensor<64xi32>
  // CHECK: tile.assert %{{.*}}, "in range" : tensor<64xi1>
  tile.assert %m, "in range" : tensor<64xi1>
  // CHECK: tile.print "x = " hex, %{{.*}}, %{{.*}} : tensor<64xf32>, i1
  tile.print "x = " hex, %x, %c : tensor<64xf32>, i1
  // CHECK: tile.print "n = ", %{{.*}}, %{{.*}} : tensor<64xi32>, i1 {isUnsigned = array<i1: true, false>}
  tile.print "n = ", %n, %c : tensor<64xi32>, i1 {isUnsigned = array<i1: true, false>}
  // CHECK: tile.print "here"
  tile.print "here"
  return
}

// CHECK-LABEL: func.func @channels
func.func @channels(%view: !tile.view<2xf16>, %i: i32, %sums: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {tile.kernel} {
  // CHECK: %[[RING:.*]] = tile.channel : !tile.channel<2, tensor<64x64xf16>, tensor<64x64xf16>>
  %ring = tile.channel : !tile.channel<2, tensor<64x64xf16>, tensor<64x64xf16>>
  // CHECK: %[[SIGNALS:.*]] = tile.mbarriers 8 : !tile.mbarriers<3>
  %signals = tile.mbarriers 8 : !tile.mbarriers<3>
  // CHECK: tile.partition warps 4 registers [24, 240] {
  tile.partition warps 4 registers [24, 240] {
    // CHECK: %[[FREE:.*]]:2 = tile.acquire %[[RING]][%{{.*}}] : !tile.channel<{{.*}}> -> !tile.slot<tensor<64x64xf16>>, !tile.slot<tensor<64x64xf16>>
    %free:2 = tile.acquire %ring[%i] : !tile.channel<2, tensor<64x64xf16>, tensor<64x64xf16>> -> !tile.slot<tensor<64x64xf16>>, !tile.slot<tensor<64x64xf16>>
    %block = tile.load_block %view[%i, %i] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    // CHECK: tile.fill %{{.*}}, %[[FREE]]#0 : tensor<64x64xf16>, !tile.slot<tensor<64x64xf16>>
    tile.fill %block, %free#0 : tensor<64x64xf16>, !tile.slot<tensor<64x64xf16>>
    // CHECK: tile.fill stored %{{.*}}, %[[FREE]]#0 : tensor<64x64xf16>, !tile.slot<tensor<64x64xf16>>
    tile.fill stored %block, %free#0 : tensor<64x64xf16>, !tile.slot<tensor<64x64xf16>>
    // CHECK: tile.named_barrier 0 of 8 warps{{$}}
    tile.named_barrier 0 of 8 warps
    // CHECK: tile.named_barrier 1 of 8 warps arrives
    tile.named_barrier 1 of 8 warps arrives
    // CHECK: tile.mbarrier_arrive %[[SIGNALS]][%{{.*}}] : !tile.mbarriers<3>
    tile.mbarrier_arrive %signals[%i] : !tile.mbarriers<3>
    // CHECK: tile.mbarrier_wait %[[SIGNALS]][%{{.*}}] parity %{{.*}} : !tile.mbarriers<3>
    tile.mbarrier_wait %signals[%i] parity %i : !tile.mbarriers<3>
    // CHECK: tile.commit %[[RING]][%{{.*}}] : !tile.channel<
    tile.commit %ring[%i] : !tile.channel<2, tensor<64x64xf16>, tensor<64x64xf16>>
  }
  // CHECK: %[[SLOTS:.*]]:2 = tile.wait %[[RING]][%{{.*}}]
  %slots:2 = tile.wait %ring[%i] : !tile.channel<2, tensor<64x64xf16>, tensor<64x64xf16>> -> !tile.slot<tensor<64x64xf16>>, !tile.slot<tensor<64x64xf16>>
  // CHECK: tile.read_slot %[[SLOTS]]#0 : !tile.slot<tensor<64x64xf16>> -> tensor<64x64xf16>
  %a = tile.read_slot %slots#0 : !tile.slot<tensor<64x64xf16>> -> tensor<64x64xf16>
  // CHECK: tile.dot {{.*}} {tile.in_flight}
  %dot = tile.dot %a, %a, %sums {tile.in_flight} : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
  // CHECK: tile.dots_wait 1
  tile.dots_wait 1
  // CHECK: tile.dot_wait %{{.*}} : tensor<64x64xf32>
  %done = tile.dot_wait %dot : tensor<64x64xf32>
  // CHECK: tile.release %[[RING]][%{{.*}}] : !tile.channel<
  tile.release %ring[%i] : !tile.channel<2, tensor<64x64xf16>, tensor<64x64xf16>>
  return %done : tensor<64x64xf32>
}
