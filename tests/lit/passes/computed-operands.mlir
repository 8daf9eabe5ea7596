// The engine copies tiles that threads compute operands from, beside those that dots read, and what the results of dots are
// combined with, though a branch is between: a bias that P follows from.
// RUN: sectile-opt --split-input-file --sectile-pipeline %s 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.err
// REMARK: remark: this dot is complete in its own iteration: what it multiplies is computed, beside which a producer (warp_specialize) leaves no time to gain
// REMARK: remark: this dot is complete in its own iteration: not all that it multiplies is copied to shared memory ahead of it
// REMARK: remark: this load stays in its loop, beside those of the copy engine: there is no room for it
// RUN: sectile-opt --split-input-file --select-mma --assign-layouts --schedule-loops %s 2>/dev/null | FileCheck %s --check-prefix=PLAN

module attributes {cta.target = "sm_90a"} {
// Beside a producer, a dot whose a is computed is complete in its own iteration.
// CHECK-LABEL: func.func @squares
// CHECK: cta.partition
// CHECK-COUNT-2: cta.tensor_copy
// CHECK-NOT: cta.tensor_copy
// CHECK: cta.local_load
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: cta.dot
func.func @squares(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64})
    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c4096 = arith.constant 4096 : i32
  %a = tile.make_view %x, [%c64, %n], [%c4096, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %b = tile.make_view %y, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %c = tile.make_view %o, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %left = tile.load_block %a[%c0, %i] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %right = tile.load_block %b[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %square = arith.mulf %left, %left : tensor<64x64xf16>
    %next = tile.dot %square, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  } {cta.warp_specialize = true}
  tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
  return
}
}

// -----

// Without one, the next iteration computes its a beside the dot in flight, and waits for that before it starts its own, from
// registers of its own. What a dot in flight reads has one slot more, what threads read has not.
module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: func.func @squares_in_flight
// CHECK: %[[BEGIN:.*]] = cta.dot_begin
// CHECK: scf.for {{.*}}iter_args(%[[FLIGHT:[^ ]*]] = %[[BEGIN]],
// CHECK: cta.local_load
// CHECK-NEXT: %[[SQUARE:.*]] = arith.mulf
// CHECK: %[[SUMS:.*]], %[[LEFT:.*]] = cta.dot_wait %[[FLIGHT]] behind %[[SQUARE]] :
// CHECK: cta.dot_start %[[LEFT]], %{{.*}}, %[[SUMS]] by {{.*}} {cta.own_registers}
// CHECK: scf.yield
// CHECK-NEXT: }
// CHECK: cta.dot_wait
// PLAN-LABEL: func.func @squares_in_flight
// PLAN: cta.channel : !cta.channel<3,
// PLAN: cta.channel : !cta.channel<4,
// PLAN: cta.dot {{.*}}{cta.in_flight}
func.func @squares_in_flight(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64})
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %c4096 = arith.constant 4096 : i32
  %a = tile.make_view %x, [%c128, %n], [%c4096, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %b = tile.make_view %y, [%n, %c128], [%c128, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %c = tile.make_view %o, [%c128, %c128], [%c128, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %sums = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
    %left = tile.load_block %a[%c0, %i] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
    %right = tile.load_block %b[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
    %square = arith.mulf %left, %left : tensor<128x64xf16>
    %next = tile.dot %square, %right, %acc : tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  } {cta.warp_specialize = false}
  tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<128x128xf32>
  return
}
}

// -----

// So it does where the loop rescales its sums.
module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: func.func @rescaled_squares
// CHECK: scf.for {{.*}}iter_args(%[[FLIGHT:[^ ]*]] = %{{[^ ]*}},
// CHECK: %[[SQUARE:.*]] = arith.mulf
// CHECK: %[[SUMS:.*]], %[[LEFT:.*]] = cta.dot_wait %[[FLIGHT]] behind %[[SQUARE]] :
// CHECK-NEXT: %[[HALVED:.*]] = arith.mulf %[[SUMS]]
// CHECK: cta.dot_start %[[LEFT]], %{{.*}}, %[[HALVED]] by
func.func @rescaled_squares(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64})
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %c4096 = arith.constant 4096 : i32
  %a = tile.make_view %x, [%c128, %n], [%c4096, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %b = tile.make_view %y, [%n, %c128], [%c128, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %c = tile.make_view %o, [%c128, %c128], [%c128, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %half = arith.constant dense<0.5> : tensor<128x128xf32>
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %sums = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
    %left = tile.load_block %a[%c0, %i] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
    %right = tile.load_block %b[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
    %square = arith.mulf %left, %left : tensor<128x64xf16>
    %halved = arith.mulf %acc, %half : tensor<128x128xf32>
    %next = tile.dot %square, %right, %halved : tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  } {cta.warp_specialize = false}
  tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<128x128xf32>
  return
}
}

// -----

// What an iteration computes and stores is written again in the next one, so no dot that reads it is in flight then, and
// no slot is kept for one.
// PLAN-LABEL: func.func @right_squares
// PLAN-COUNT-2: cta.channel {between_warps} : !cta.channel<2,
// PLAN-NOT: cta.in_flight
module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: func.func @right_squares
// CHECK: cta.partition
// CHECK-COUNT-2: cta.tensor_copy
// CHECK-NOT: cta.tensor_copy
// CHECK: cta.alloc %
func.func @right_squares(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64})
    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c4096 = arith.constant 4096 : i32
  %a = tile.make_view %x, [%c64, %n], [%c4096, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %b = tile.make_view %y, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %c = tile.make_view %o, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %left = tile.load_block %a[%c0, %i] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %right = tile.load_block %b[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %square = arith.mulf %right, %right : tensor<64x64xf16>
    %next = tile.dot %left, %square, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  } {cta.warp_specialize = true}
  tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
  return
}
}

// -----

module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: func.func @plain
// CHECK: cta.dots_wait 1
// PLAN-LABEL: func.func @plain
// PLAN-COUNT-2: cta.channel {between_warps} : !cta.channel<3,
// PLAN: cta.dot {{.*}}{cta.in_flight}
func.func @plain(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64})
    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c4096 = arith.constant 4096 : i32
  %a = tile.make_view %x, [%c64, %n], [%c4096, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %b = tile.make_view %y, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %c = tile.make_view %o, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %left = tile.load_block %a[%c0, %i] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %right = tile.load_block %b[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  } {cta.warp_specialize = true}
  tile.store_block %c[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
  return
}
}

// -----

module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: func.func @bias
// CHECK: cta.partition
// CHECK-COUNT-4: cta.tensor_copy
// CHECK-NOT: cta.tensor_copy
// CHECK: cta.local_load {{.*}} -> tensor<128x64xf16
// CHECK: cta.dot_wait {{.*}} {pending = 1 : i32}
func.func @bias(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %w: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64})
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c4096 = arith.constant 4096 : i32
  %c128 = arith.constant 128 : i32
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %queries = tile.make_view %q, [%c128, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %keys = tile.make_view %k, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %values = tile.make_view %v, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %biases = tile.make_view %w, [%c128, %n], [%c4096, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %result = tile.make_view %o, [%c128, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %query = tile.load_block %queries[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
  %none = arith.constant dense<0.0> : tensor<128x64xf32>
  %sums = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %none) -> (tensor<128x64xf32>) : i32 {
    %key = tile.load_block %keys[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %turned = tile.permute %key [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %scores = tile.dot %query, %turned, %none : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
    %bias = tile.load_block %biases[%c0, %i] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
    %wide = arith.extf %bias : tensor<128x64xf16> to tensor<128x64xf32>
    %all = arith.addf %scores, %wide : tensor<128x64xf32>
    %first = arith.cmpi eq, %i, %c0 : i32
    %masked = scf.if %first -> tensor<128x64xf32> {
      %halved = arith.mulf %all, %half : tensor<128x64xf32>
      scf.yield %halved : tensor<128x64xf32>
    } else {
      scf.yield %all : tensor<128x64xf32>
    }
    %weights = math.exp2 %masked : tensor<128x64xf32>
    %packed = arith.truncf %weights : tensor<128x64xf32> to tensor<128x64xf16>
    %value = tile.load_block %values[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %rescaled = arith.mulf %acc, %half : tensor<128x64xf32>
    %added = tile.dot %packed, %value, %rescaled : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
    scf.yield %added : tensor<128x64xf32>
  } {cta.warp_specialize = true}
  tile.store_block %result[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<128x64xf32>
  return
}
}

// -----

module attributes {cta.target = "sm_90a"} {
// One slot of the bias beside seven of the keys and values.
// CHECK-LABEL: func.func @one_slot
// CHECK-DAG: cta.channel {between_warps{{.*}}} : !cta.channel<7, !cta.buffer<64x64xf16
// CHECK-DAG: cta.channel {between_warps{{.*}}} : !cta.channel<1, !cta.buffer<128x64xf16
// CHECK: cta.partition
func.func @one_slot(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %w: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64})
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 7 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c4096 = arith.constant 4096 : i32
  %c128 = arith.constant 128 : i32
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %queries = tile.make_view %q, [%c128, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %keys = tile.make_view %k, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %values = tile.make_view %v, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %biases = tile.make_view %w, [%c128, %n], [%c4096, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %result = tile.make_view %o, [%c128, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %query = tile.load_block %queries[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
  %none = arith.constant dense<0.0> : tensor<128x64xf32>
  %sums = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %none) -> (tensor<128x64xf32>) : i32 {
    %key = tile.load_block %keys[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %turned = tile.permute %key [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %scores = tile.dot %query, %turned, %none : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
    %bias = tile.load_block %biases[%c0, %i] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
    %wide = arith.extf %bias : tensor<128x64xf16> to tensor<128x64xf32>
    %all = arith.addf %scores, %wide : tensor<128x64xf32>
    %first = arith.cmpi eq, %i, %c0 : i32
    %masked = scf.if %first -> tensor<128x64xf32> {
      %halved = arith.mulf %all, %half : tensor<128x64xf32>
      scf.yield %halved : tensor<128x64xf32>
    } else {
      scf.yield %all : tensor<128x64xf32>
    }
    %weights = math.exp2 %masked : tensor<128x64xf32>
    %packed = arith.truncf %weights : tensor<128x64xf32> to tensor<128x64xf16>
    %value = tile.load_block %values[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %rescaled = arith.mulf %acc, %half : tensor<128x64xf32>
    %added = tile.dot %packed, %value, %rescaled : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
    scf.yield %added : tensor<128x64xf32>
  } {cta.warp_specialize = true}
  tile.store_block %result[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<128x64xf32>
  return
}
}

// -----

module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: func.func @no_room
// CHECK: cta.partition
// CHECK-COUNT-3: cta.tensor_copy
// CHECK-NOT: cta.tensor_copy
func.func @no_room(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %w: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32 {tile.divisible = 16 : i64})
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 13 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c4096 = arith.constant 4096 : i32
  %c128 = arith.constant 128 : i32
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %queries = tile.make_view %q, [%c128, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %keys = tile.make_view %k, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %values = tile.make_view %v, [%n, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %biases = tile.make_view %w, [%c128, %n], [%c4096, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %result = tile.make_view %o, [%c128, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %query = tile.load_block %queries[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
  %none = arith.constant dense<0.0> : tensor<128x64xf32>
  %sums = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %none) -> (tensor<128x64xf32>) : i32 {
    %key = tile.load_block %keys[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %turned = tile.permute %key [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %scores = tile.dot %query, %turned, %none : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
    %bias = tile.load_block %biases[%c0, %i] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
    %wide = arith.extf %bias : tensor<128x64xf16> to tensor<128x64xf32>
    %all = arith.addf %scores, %wide : tensor<128x64xf32>
    %first = arith.cmpi eq, %i, %c0 : i32
    %masked = scf.if %first -> tensor<128x64xf32> {
      %halved = arith.mulf %all, %half : tensor<128x64xf32>
      scf.yield %halved : tensor<128x64xf32>
    } else {
      scf.yield %all : tensor<128x64xf32>
    }
    %weights = math.exp2 %masked : tensor<128x64xf32>
    %packed = arith.truncf %weights : tensor<128x64xf32> to tensor<128x64xf16>
    %value = tile.load_block %values[%i, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %rescaled = arith.mulf %acc, %half : tensor<128x64xf32>
    %added = tile.dot %packed, %value, %rescaled : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
    scf.yield %added : tensor<128x64xf32>
  } {cta.warp_specialize = true}
  tile.store_block %result[%c0, %c0], %sums : !tile.view<2xf32>, [i32, i32], tensor<128x64xf32>
  return
}
}

// -----

module attributes {cta.target = "sm_90a"} {
// Operands that change places in each iteration follow from each other without end.
// CHECK-LABEL: func.func @swaps
// CHECK: scf.for
func.func @swaps(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %a = tile.make_view %x, [%c64, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
  %c = tile.make_view %o, [%c64, %c64], [%c64, %c1] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %one = tile.load_block %a[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
  %other = arith.addf %one, %one : tensor<64x64xf16>
  %result:3 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %left = %one, %right = %other)
      -> (tensor<64x64xf32>, tensor<64x64xf16>, tensor<64x64xf16>) : i32 {
    %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    scf.yield %next, %right, %left : tensor<64x64xf32>, tensor<64x64xf16>, tensor<64x64xf16>
  }
  tile.store_block %c[%c0, %c0], %result#0 : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
  return
}
}
