// Which loops do their last dot an iteration later without a producer partition, and which do not, with a remark where
// something stands in the way.
// RUN: sectile-opt --sectile-pipeline --verify-diagnostics %s | FileCheck %s

module attributes {cta.target = "sm_90a"} {
// CHECK-LABEL: func.func @overlap
// CHECK-COUNT-2: cta.dot_start
// CHECK: math.exp2
// CHECK: return
func.func @overlap(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %step = arith.constant 128 : i32
  %one = arith.constant 1 : i64
  %width = arith.constant 128 : i64
  %wide = arith.constant 128 : i64
  %keys = arith.constant 4096 : i64
  %qs = tile.make_view %q, [%width, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %ks = tile.make_view %k, [%keys, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %vs = tile.make_view %v, [%keys, %wide], [%wide, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %os = tile.make_view %o, [%width, %wide], [%wide, %one] : !tile.ptr<f32>, [i64, i64], [i64, i64] -> !tile.view<2xf32>
  %query = tile.load_block %qs[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %none = arith.constant dense<0.0> : tensor<128x128xf32>
  %ones = arith.constant dense<1.0> : tensor<128x128xf32>
  %half = arith.constant dense<0.5> : tensor<128x128xf32>
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %zero) -> (tensor<128x128xf32>) : i32 {
    %at = arith.muli %i, %step : i32
    %key = tile.load_block %ks[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %turned = tile.permute %key [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
    %scores = tile.dot %query, %turned, %none : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
    %rescaled = arith.mulf %sums, %half : tensor<128x128xf32>
    %weights = math.exp2 %scores : tensor<128x128xf32>
    %packed = arith.truncf %weights : tensor<128x128xf32> to tensor<128x128xf16>
    %value = tile.load_block %vs[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %next = tile.dot %packed, %value, %rescaled : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  tile.store_block %os[%c0, %c0], %loop : !tile.view<2xf32>, [i32, i32], tensor<128x128xf32>
  return
}

// The registers that the dot in flight reads are written behind its wait.
// CHECK-LABEL: func.func @not_rescaled
// CHECK: %[[SCORES:.*]] = cta.dot_start
// CHECK: %[[VALUES:.*]] = cta.dot_start
// CHECK: cta.dot_wait %[[SCORES]] {pending = 1 : i32}
// CHECK: %{{.*}}, %[[READY:.*]] = cta.dot_wait %[[VALUES]] behind
// CHECK-NEXT: arith.truncf %[[READY]]
// CHECK: return
func.func @not_rescaled(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %step = arith.constant 128 : i32
  %one = arith.constant 1 : i64
  %width = arith.constant 128 : i64
  %wide = arith.constant 128 : i64
  %keys = arith.constant 4096 : i64
  %qs = tile.make_view %q, [%width, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %ks = tile.make_view %k, [%keys, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %vs = tile.make_view %v, [%keys, %wide], [%wide, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %os = tile.make_view %o, [%width, %wide], [%wide, %one] : !tile.ptr<f32>, [i64, i64], [i64, i64] -> !tile.view<2xf32>
  %query = tile.load_block %qs[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %none = arith.constant dense<0.0> : tensor<128x128xf32>
  %ones = arith.constant dense<1.0> : tensor<128x128xf32>
  %half = arith.constant dense<0.5> : tensor<128x128xf32>
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %zero) -> (tensor<128x128xf32>) : i32 {
    %at = arith.muli %i, %step : i32
    %key = tile.load_block %ks[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %turned = tile.permute %key [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
    %scores = tile.dot %query, %turned, %none : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
    %weights = math.exp2 %scores : tensor<128x128xf32>
    %packed = arith.truncf %weights : tensor<128x128xf32> to tensor<128x128xf16>
    %value = tile.load_block %vs[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %next = tile.dot %packed, %value, %sums : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  tile.store_block %os[%c0, %c0], %loop : !tile.view<2xf32>, [i32, i32], tensor<128x128xf32>
  return
}

// A loop around takes nothing away.
// CHECK-LABEL: func.func @nested
// CHECK: scf.for
// CHECK: scf.for
// CHECK-COUNT-2: cta.dot_start
// CHECK: return
func.func @nested(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %step = arith.constant 128 : i32
  %one = arith.constant 1 : i64
  %width = arith.constant 128 : i64
  %wide = arith.constant 128 : i64
  %keys = arith.constant 4096 : i64
  %qs = tile.make_view %q, [%width, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %ks = tile.make_view %k, [%keys, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %vs = tile.make_view %v, [%keys, %wide], [%wide, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %os = tile.make_view %o, [%width, %wide], [%wide, %one] : !tile.ptr<f32>, [i64, i64], [i64, i64] -> !tile.view<2xf32>
  %query = tile.load_block %qs[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %none = arith.constant dense<0.0> : tensor<128x128xf32>
  %ones = arith.constant dense<1.0> : tensor<128x128xf32>
  %half = arith.constant dense<0.5> : tensor<128x128xf32>
  %loop = scf.for %j = %c0 to %n step %c1 iter_args(%before = %zero) -> (tensor<128x128xf32>) : i32 {
    %inner = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %before) -> (tensor<128x128xf32>) : i32 {
      %at = arith.muli %i, %step : i32
      %key = tile.load_block %ks[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
      %turned = tile.permute %key [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
      %scores = tile.dot %query, %turned, %none : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
      %rescaled = arith.mulf %sums, %half : tensor<128x128xf32>
      %weights = math.exp2 %scores : tensor<128x128xf32>
      %packed = arith.truncf %weights : tensor<128x128xf32> to tensor<128x128xf16>
      %value = tile.load_block %vs[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
      %next = tile.dot %packed, %value, %rescaled : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
      scf.yield %next : tensor<128x128xf32>
    }
    scf.yield %inner : tensor<128x128xf32>
  }
  tile.store_block %os[%c0, %c0], %loop : !tile.view<2xf32>, [i32, i32], tensor<128x128xf32>
  return
}

// The scores do not begin at zero.
// CHECK-LABEL: func.func @sums_of_scores
// CHECK-COUNT-2: cta.dot_start
// CHECK: return
func.func @sums_of_scores(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %step = arith.constant 128 : i32
  %one = arith.constant 1 : i64
  %width = arith.constant 128 : i64
  %wide = arith.constant 128 : i64
  %keys = arith.constant 4096 : i64
  %qs = tile.make_view %q, [%width, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %ks = tile.make_view %k, [%keys, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %vs = tile.make_view %v, [%keys, %wide], [%wide, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %os = tile.make_view %o, [%width, %wide], [%wide, %one] : !tile.ptr<f32>, [i64, i64], [i64, i64] -> !tile.view<2xf32>
  %query = tile.load_block %qs[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %none = arith.constant dense<0.0> : tensor<128x128xf32>
  %ones = arith.constant dense<1.0> : tensor<128x128xf32>
  %half = arith.constant dense<0.5> : tensor<128x128xf32>
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %zero) -> (tensor<128x128xf32>) : i32 {
    %at = arith.muli %i, %step : i32
    %key = tile.load_block %ks[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %turned = tile.permute %key [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
    %scores = tile.dot %query, %turned, %ones : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
    %rescaled = arith.mulf %sums, %half : tensor<128x128xf32>
    %weights = math.exp2 %scores : tensor<128x128xf32>
    %packed = arith.truncf %weights : tensor<128x128xf32> to tensor<128x128xf16>
    %value = tile.load_block %vs[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %next = tile.dot %packed, %value, %rescaled : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  tile.store_block %os[%c0, %c0], %loop : !tile.view<2xf32>, [i32, i32], tensor<128x128xf32>
  return
}

// A thread has 128 scores and 64 sums; what these were made of would be 64 registers more.
// CHECK-LABEL: func.func @many_scores
// CHECK-NOT: scf.for {{.*}} iter_args({{.*}}tensor<64x256xf16
// CHECK: return
func.func @many_scores(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %step = arith.constant 256 : i32
  %one = arith.constant 1 : i64
  %width = arith.constant 64 : i64
  %wide = arith.constant 128 : i64
  %keys = arith.constant 4096 : i64
  %qs = tile.make_view %q, [%width, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %ks = tile.make_view %k, [%keys, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %vs = tile.make_view %v, [%keys, %wide], [%wide, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %os = tile.make_view %o, [%width, %wide], [%wide, %one] : !tile.ptr<f32>, [i64, i64], [i64, i64] -> !tile.view<2xf32>
  %query = tile.load_block %qs[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %none = arith.constant dense<0.0> : tensor<64x256xf32>
  %ones = arith.constant dense<1.0> : tensor<64x256xf32>
  %half = arith.constant dense<0.5> : tensor<64x128xf32>
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %zero) -> (tensor<64x128xf32>) : i32 {
    %at = arith.muli %i, %step : i32
    %key = tile.load_block %ks[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<256x64xf16>
    %turned = tile.permute %key [1, 0] : tensor<256x64xf16> -> tensor<64x256xf16>
    %scores = tile.dot %query, %turned, %none : tensor<64x64xf16>, tensor<64x256xf16>, tensor<64x256xf32>
    %rescaled = arith.mulf %sums, %half : tensor<64x128xf32>
    %weights = math.exp2 %scores : tensor<64x256xf32>
    %packed = arith.truncf %weights : tensor<64x256xf32> to tensor<64x256xf16>
    %value = tile.load_block %vs[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<256x128xf16>
    // expected-remark @+1 {{beside no other work: registers do not hold its operand for another one}}
    %next = tile.dot %packed, %value, %rescaled : tensor<64x256xf16>, tensor<256x128xf16>, tensor<64x128xf32>
    scf.yield %next : tensor<64x128xf32>
  }
  tile.store_block %os[%c0, %c0], %loop : !tile.view<2xf32>, [i32, i32], tensor<64x128xf32>
  return
}

// Threads copy rows that do not begin at multiples of 16 bytes, and registers hold their addresses.
// CHECK-LABEL: func.func @odd_rows
// CHECK-NOT: cta.tensor_copy
// CHECK-NOT: cta.dot_start
// CHECK: return
func.func @odd_rows(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %step = arith.constant 128 : i32
  %one = arith.constant 1 : i64
  %width = arith.constant 128 : i64
  %wide = arith.constant 128 : i64
  %odd = arith.constant 132 : i64
  %keys = arith.constant 4096 : i64
  %qs = tile.make_view %q, [%width, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %ks = tile.make_view %k, [%keys, %width], [%odd, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %vs = tile.make_view %v, [%keys, %wide], [%wide, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %os = tile.make_view %o, [%width, %wide], [%wide, %one] : !tile.ptr<f32>, [i64, i64], [i64, i64] -> !tile.view<2xf32>
  %query = tile.load_block %qs[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %none = arith.constant dense<0.0> : tensor<128x128xf32>
  %ones = arith.constant dense<1.0> : tensor<128x128xf32>
  %half = arith.constant dense<0.5> : tensor<128x128xf32>
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %zero) -> (tensor<128x128xf32>) : i32 {
    %at = arith.muli %i, %step : i32
    // expected-remark @+1 {{this load is copied by threads}}
    %key = tile.load_block %ks[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %turned = tile.permute %key [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
    %scores = tile.dot %query, %turned, %none : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
    %rescaled = arith.mulf %sums, %half : tensor<128x128xf32>
    %weights = math.exp2 %scores : tensor<128x128xf32>
    %packed = arith.truncf %weights : tensor<128x128xf32> to tensor<128x128xf16>
    %value = tile.load_block %vs[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    // expected-remark @+1 {{beside no other work: threads copy what the loop multiplies}}
    %next = tile.dot %packed, %value, %rescaled : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  tile.store_block %os[%c0, %c0], %loop : !tile.view<2xf32>, [i32, i32], tensor<128x128xf32>
  return
}

// Other blocks run beside the dots of one that takes so little.
// CHECK-LABEL: func.func @small_blocks
// CHECK: cta.dot_start
// CHECK-NOT: cta.dot_start
// CHECK: return
func.func @small_blocks(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %step = arith.constant 64 : i32
  %one = arith.constant 1 : i64
  %width = arith.constant 64 : i64
  %wide = arith.constant 64 : i64
  %keys = arith.constant 4096 : i64
  %qs = tile.make_view %q, [%width, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %ks = tile.make_view %k, [%keys, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %vs = tile.make_view %v, [%keys, %wide], [%wide, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %os = tile.make_view %o, [%width, %wide], [%wide, %one] : !tile.ptr<f32>, [i64, i64], [i64, i64] -> !tile.view<2xf32>
  %query = tile.load_block %qs[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %none = arith.constant dense<0.0> : tensor<64x64xf32>
  %ones = arith.constant dense<1.0> : tensor<64x64xf32>
  %half = arith.constant dense<0.5> : tensor<64x64xf32>
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = arith.muli %i, %step : i32
    %key = tile.load_block %ks[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %turned = tile.permute %key [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %scores = tile.dot %query, %turned, %none : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    %rescaled = arith.mulf %sums, %half : tensor<64x64xf32>
    %weights = math.exp2 %scores : tensor<64x64xf32>
    %packed = arith.truncf %weights : tensor<64x64xf32> to tensor<64x64xf16>
    %value = tile.load_block %vs[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %next = tile.dot %packed, %value, %rescaled : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.store_block %os[%c0, %c0], %loop : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
  return
}

// Somebody asks for that: the first dot is in flight while its own iteration rescales the sums, no other.
// CHECK-LABEL: func.func @unwanted
// CHECK: cta.dot_start
// CHECK-NOT: cta.dot_start
// CHECK: cta.dot %
// CHECK-NOT: cta.dot_start
// CHECK: return
func.func @unwanted(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64},
    %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
    attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 2 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %step = arith.constant 128 : i32
  %one = arith.constant 1 : i64
  %width = arith.constant 128 : i64
  %wide = arith.constant 128 : i64
  %keys = arith.constant 4096 : i64
  %qs = tile.make_view %q, [%width, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %ks = tile.make_view %k, [%keys, %width], [%width, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %vs = tile.make_view %v, [%keys, %wide], [%wide, %one] : !tile.ptr<f16>, [i64, i64], [i64, i64] -> !tile.view<2xf16>
  %os = tile.make_view %o, [%width, %wide], [%wide, %one] : !tile.ptr<f32>, [i64, i64], [i64, i64] -> !tile.view<2xf32>
  %query = tile.load_block %qs[%c0, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %none = arith.constant dense<0.0> : tensor<128x128xf32>
  %ones = arith.constant dense<1.0> : tensor<128x128xf32>
  %half = arith.constant dense<0.5> : tensor<128x128xf32>
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %zero) -> (tensor<128x128xf32>) : i32 {
    %at = arith.muli %i, %step : i32
    %key = tile.load_block %ks[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %turned = tile.permute %key [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
    %scores = tile.dot %query, %turned, %none : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
    %rescaled = arith.mulf %sums, %half : tensor<128x128xf32>
    %weights = math.exp2 %scores : tensor<128x128xf32>
    %packed = arith.truncf %weights : tensor<128x128xf32> to tensor<128x128xf16>
    %value = tile.load_block %vs[%at, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x128xf16>
    %next = tile.dot %packed, %value, %rescaled : tensor<128x128xf16>, tensor<128x128xf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  } {cta.one_accumulator}
  tile.store_block %os[%c0, %c0], %loop : !tile.view<2xf32>, [i32, i32], tensor<128x128xf32>
  return
}
}
