// Every error of the dialect's verifiers and parsers.
// RUN: sectile-opt --split-input-file --verify-diagnostics %s

// expected-error @+1 {{a view has one number, its rank, before the element type}}
func.func private @view_type(!tile.view<2x3xf32>)

// -----

func.func @program_id() {
  // expected-error @+1 {{attribute 'axis' failed to satisfy constraint: 32-bit signless integer attribute whose value is non-negative whose maximum value is 2}}
  %0 = tile.program_id 3
  return
}

// -----

func.func @arange() {
  // expected-error @+1 {{'tile.arange' op result #0 must be 1D tensor of 32-bit signless integer values}}
  %0 = tile.arange 0 : tensor<4x4xi32>
  return
}

// -----

func.func @splat(%x: f32) {
  // expected-error @+1 {{'tile.splat' op makes a tile of 'f16' from a scalar of 'f32'}}
  %0 = tile.splat %x : f32 -> tensor<8xf16>
  return
}

// -----

func.func @dynamic(%x: f32) {
  // expected-error @+1 {{'tile.splat' op result #0 must be statically shaped tensor}}
  %0 = tile.splat %x : f32 -> tensor<?xf32>
  return
}

// -----

func.func @expand_axis(%t: tensor<8xf32>) {
  // expected-error @+1 {{'tile.expand_dims' op axis 2 is beyond the rank 1 of the source}}
  %0 = tile.expand_dims %t 2 : tensor<8xf32> -> tensor<8x1xf32>
  return
}

// -----

func.func @expand_shape(%t: tensor<8xf32>) {
  // expected-error @+1 {{'tile.expand_dims' op gives shape [1, 8], not [8, 1]}}
  %0 = tile.expand_dims %t 0 : tensor<8xf32> -> tensor<8x1xf32>
  return
}

// -----

func.func @expand_element(%t: tensor<8xf32>) {
  // expected-error @+1 {{'tile.expand_dims' op keeps the element type}}
  %0 = tile.expand_dims %t 0 : tensor<8xf32> -> tensor<1x8xf16>
  return
}

// -----

func.func @broadcast_element(%t: tensor<8x1xf32>) {
  // expected-error @+1 {{'tile.broadcast' op keeps the element type}}
  %0 = tile.broadcast %t : tensor<8x1xf32> -> tensor<8x4xf16>
  return
}

// -----

func.func @broadcast_rank(%t: tensor<8xf32>) {
  // expected-error @+1 {{'tile.broadcast' op keeps the rank: [8] to [4, 8]}}
  %0 = tile.broadcast %t : tensor<8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @broadcast_extent(%t: tensor<8x2xf32>) {
  // expected-error @+1 {{'tile.broadcast' op cannot repeat [8, 2] to [8, 4]: only extents of 1 repeat}}
  %0 = tile.broadcast %t : tensor<8x2xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @reshape_element(%t: tensor<8xf32>) {
  // expected-error @+1 {{'tile.reshape' op keeps the element type}}
  %0 = tile.reshape %t : tensor<8xf32> -> tensor<2x4xi32>
  return
}

// -----

func.func @reshape_count(%t: tensor<8x2xf32>) {
  // expected-error @+1 {{'tile.reshape' op keeps the number of elements: [8, 2] has 16, [3, 5] has 15}}
  %0 = tile.reshape %t : tensor<8x2xf32> -> tensor<3x5xf32>
  return
}

// -----

func.func @permute_count(%t: tensor<8x2xf32>) {
  // expected-error @+1 {{'tile.permute' op order has 1 axes, the source has 2}}
  %0 = tile.permute %t [0] : tensor<8x2xf32> -> tensor<8x2xf32>
  return
}

// -----

func.func @permute_twice(%t: tensor<8x8xf32>) {
  // expected-error @+1 {{'tile.permute' op order is not a permutation of the axes}}
  %0 = tile.permute %t [1, 1] : tensor<8x8xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @permute_shape(%t: tensor<8x2xf32>) {
  // expected-error @+1 {{'tile.permute' op result shape [8, 2] is not the permuted [8, 2]}}
  %0 = tile.permute %t [1, 0] : tensor<8x2xf32> -> tensor<8x2xf32>
  return
}

// -----

func.func @permute_element(%t: tensor<8x2xf32>) {
  // expected-error @+1 {{'tile.permute' op keeps the element type}}
  %0 = tile.permute %t [1, 0] : tensor<8x2xf32> -> tensor<2x8xi32>
  return
}

// -----

func.func @addptr_scalar(%p: tensor<8x!tile.ptr<f32>>, %i: i32) {
  // expected-error @+1 {{'tile.addptr' op pointers and offsets: one is a scalar, the other a tile}}
  %0 = tile.addptr %p, %i : tensor<8x!tile.ptr<f32>>, i32
  return
}

// -----

func.func @addptr_shape(%p: tensor<8x!tile.ptr<f32>>, %i: tensor<4xi32>) {
  // expected-error @+1 {{'tile.addptr' op pointers and offsets: shapes [8] and [4] differ}}
  %0 = tile.addptr %p, %i : tensor<8x!tile.ptr<f32>>, tensor<4xi32>
  return
}

// -----

#layout = #cta.layout<"8, register [(1)], lane [(2) (4)]">
func.func @addptr_layout(%p: tensor<8x!tile.ptr<f32>, #layout>, %i: tensor<8xi32>) {
  // expected-error @+1 {{'tile.addptr' op pointers and offsets: layouts differ}}
  %0 = tile.addptr %p, %i : tensor<8x!tile.ptr<f32>, #layout>, tensor<8xi32>
  return
}

// -----

func.func @load_result(%p: tensor<8x!tile.ptr<f32>>) {
  // expected-error @+1 {{'tile.load' op of 'tensor<8x!tile.ptr<f32>>' gives 'tensor<8xf32>', not 'tensor<8xf16>'}}
  %0 = tile.load %p : tensor<8x!tile.ptr<f32>> -> tensor<8xf16>
  return
}

// -----

func.func @load_mask(%p: tensor<8x!tile.ptr<f32>>, %m: i1) {
  // expected-error @+1 {{'tile.load' op pointers and mask: one is a scalar, the other a tile}}
  %0 = tile.load %p mask %m : tensor<8x!tile.ptr<f32>> mask i1 -> tensor<8xf32>
  return
}

// -----

func.func @load_other(%p: tensor<8x!tile.ptr<f32>>, %m: tensor<8xi1>, %o: f32) {
  // expected-error @+1 {{'tile.load' op gives 'tensor<8xf32>' where the mask is true, but `other` is 'f32'}}
  %0 = tile.load %p mask %m other %o : tensor<8x!tile.ptr<f32>> mask tensor<8xi1> other f32 -> tensor<8xf32>
  return
}

// -----

func.func @load_no_mask(%p: tensor<8x!tile.ptr<f32>>, %o: tensor<8xf32>) {
  // expected-error @+1 {{'tile.load' op has `other` without a mask}}
  %0 = tile.load %p other %o : tensor<8x!tile.ptr<f32>> other tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @store_value(%p: tensor<8x!tile.ptr<f32>>, %v: tensor<8xf16>) {
  // expected-error @+1 {{'tile.store' op to 'tensor<8x!tile.ptr<f32>>' takes 'tensor<8xf32>', not 'tensor<8xf16>'}}
  tile.store %p, %v : tensor<8x!tile.ptr<f32>>, tensor<8xf16>
  return
}

// -----

func.func @store_mask(%p: tensor<8x!tile.ptr<f32>>, %v: tensor<8xf32>, %m: tensor<4xi1>) {
  // expected-error @+1 {{'tile.store' op pointers and mask: shapes [8] and [4] differ}}
  tile.store %p, %v mask %m : tensor<8x!tile.ptr<f32>>, tensor<8xf32> mask tensor<4xi1>
  return
}

// -----

func.func @view_rank(%p: !tile.ptr<f32>, %n: i32) {
  // expected-error @+1 {{'tile.make_view' op of rank 2 has 2 extents and 1 strides}}
  %0 = tile.make_view %p, [%n, %n], [%n] : !tile.ptr<f32>, [i32, i32], [i32] -> !tile.view<2xf32>
  return
}

// -----

func.func @view_element(%p: !tile.ptr<f32>, %n: i32) {
  // expected-error @+1 {{'tile.make_view' op keeps the element type}}
  %0 = tile.make_view %p, [%n], [%n] : !tile.ptr<f32>, [i32], [i32] -> !tile.view<1xf16>
  return
}

// -----

func.func @padding(%v: !tile.view<1xf32>, %i: i32) {
  // expected-error @+1 {{'tile.load_block' op padding is 'f16', elements are 'f32'}}
  %0 = tile.load_block %v[%i] padding 0.0 : f16 : !tile.view<1xf32>, [i32] -> tensor<8xf32>
  return
}

// -----

func.func @block_rank(%v: !tile.view<2xf32>, %i: i32) {
  // expected-error @+1 {{'tile.load_block' op on a view of rank 2 has a block of rank 2 and 1 offsets}}
  %0 = tile.load_block %v[%i] : !tile.view<2xf32>, [i32] -> tensor<8x8xf32>
  return
}

// -----

func.func @block_element(%v: !tile.view<1xf32>, %i: i32, %t: tensor<8xf16>) {
  // expected-error @+1 {{'tile.store_block' op on a view of 'f32' has a block of 'f16'}}
  tile.store_block %v[%i], %t : !tile.view<1xf32>, [i32], tensor<8xf16>
  return
}

// -----

func.func @dot_inner(%a: tensor<16x32xf16>, %b: tensor<16x8xf16>, %c: tensor<16x8xf32>) {
  // expected-error @+1 {{'tile.dot' op of [16, 32] and [16, 8]: the inner extents differ}}
  %0 = tile.dot %a, %b, %c : tensor<16x32xf16>, tensor<16x8xf16>, tensor<16x8xf32>
  return
}

// -----

func.func @dot_acc(%a: tensor<16x32xf16>, %b: tensor<32x8xf16>, %c: tensor<8x16xf32>) {
  // expected-error @+1 {{'tile.dot' op of [16, 32] and [32, 8] has an accumulator of [8, 16]}}
  %0 = tile.dot %a, %b, %c : tensor<16x32xf16>, tensor<32x8xf16>, tensor<8x16xf32>
  return
}

// -----

func.func @dot_elements(%a: tensor<16x32xf16>, %b: tensor<32x8xbf16>, %c: tensor<16x8xf32>) {
  // expected-error @+1 {{'tile.dot' op operands are 'f16' and 'bf16'}}
  %0 = tile.dot %a, %b, %c : tensor<16x32xf16>, tensor<32x8xbf16>, tensor<16x8xf32>
  return
}

// -----

func.func @dot_sum(%a: tensor<16x32xi8>, %b: tensor<32x8xi8>, %c: tensor<16x8xf32>) {
  // expected-error @+1 {{'tile.dot' op of 'i8' operands cannot accumulate in 'f32'}}
  %0 = tile.dot %a, %b, %c : tensor<16x32xi8>, tensor<32x8xi8>, tensor<16x8xf32>
  return
}

// -----

func.func @reduce_nothing() {
  // expected-error @+1 {{'tile.reduce' op needs a tile to reduce}}
  "tile.reduce"() <{axis = 0 : i32}> ({
    "tile.yield"() : () -> ()
  }) : () -> ()
  return
}

// -----

func.func @reduce_results(%t: tensor<8xf32>) {
  // expected-error @+1 {{'tile.reduce' op has 1 tiles and 0 results}}
  tile.reduce %t 0 : (tensor<8xf32>) -> () {
  ^bb0(%x: f32, %y: f32):
    tile.yield %x : f32
  }
  return
}

// -----

func.func @reduce_axis(%t: tensor<8xf32>) {
  // expected-error @+1 {{'tile.reduce' op axis 1 is beyond the rank 1}}
  %0 = tile.reduce %t 1 : (tensor<8xf32>) -> f32 {
  ^bb0(%x: f32, %y: f32):
    tile.yield %x : f32
  }
  return
}

// -----

func.func @reduce_shapes(%t: tensor<8xf32>, %u: tensor<4xf32>) {
  // expected-error @+1 {{'tile.reduce' op tiles differ in shape or layout}}
  %0:2 = tile.reduce %t, %u 0 : (tensor<8xf32>, tensor<4xf32>) -> (f32, f32) {
  ^bb0(%x: f32, %xu: f32, %y: f32, %yu: f32):
    tile.yield %x, %xu : f32, f32
  }
  return
}

// -----

func.func @reduce_type(%t: tensor<8x4xf32>) {
  // expected-error @+1 {{'tile.reduce' op of 'tensor<8x4xf32>' along axis 0 cannot give 'tensor<8xf32>'}}
  %0 = tile.reduce %t 0 : (tensor<8x4xf32>) -> tensor<8xf32> {
  ^bb0(%x: f32, %y: f32):
    tile.yield %x : f32
  }
  return
}

// -----

func.func @combiner_arguments(%t: tensor<8xf32>) {
  // expected-error @+1 {{'tile.reduce' op combiner takes 1 values instead of 2}}
  %0 = tile.reduce %t 0 : (tensor<8xf32>) -> f32 {
  ^bb0(%x: f32):
    tile.yield %x : f32
  }
  return
}

// -----

func.func @combiner_yields(%t: tensor<8xf32>) {
  // expected-error @+1 {{'tile.reduce' op combiner must yield one value per tile}}
  %0 = tile.reduce %t 0 : (tensor<8xf32>) -> f32 {
  ^bb0(%x: f32, %y: f32):
    tile.yield %x, %y : f32, f32
  }
  return
}

// -----

func.func @combiner_types(%t: tensor<8xf32>) {
  // expected-error @+1 {{'tile.reduce' op combiner's value 0 must be 'f32' throughout}}
  %0 = tile.reduce %t 0 : (tensor<8xf32>) -> f32 {
  ^bb0(%x: f32, %y: f16):
    tile.yield %x : f32
  }
  return
}

// -----

func.func @print(%x: i32) {
  // expected-error @below {{'tile.print' op says of 2 values whether they are unsigned, and prints 1}}
  tile.print "x", %x : i32 {isUnsigned = array<i1: true, false>}
  return
}

// -----

func.func @hint_runs(%x: tensor<100xi32>) {
  // expected-error @below {{'tile.hint' op promises runs of 8 along an axis of 100}}
  %0 = tile.hint %x {contiguous = array<i64: 8>} : tensor<100xi32>
  return
}

// -----

func.func @hint_none(%x: tensor<96xi32>) {
  // expected-error @below {{'tile.hint' op promises numbers of at least 1, in 32 bits}}
  %0 = tile.hint %x {divisible = array<i64: 0>} : tensor<96xi32>
  return
}

// -----

func.func @load_vector(%p: tensor<96x!tile.ptr<f32>>) {
  // expected-error @below {{'tile.load' op moves vectors of 1, 2, 4, 8 or 16 elements, not of 0}}
  %0 = tile.load %p {vector = 0 : i32} : tensor<96x!tile.ptr<f32>> -> tensor<96xf32>
  return
}

// -----

func.func @store_vector(%p: tensor<96x!tile.ptr<f32>>, %x: tensor<96xf32>) {
  // expected-error @below {{'tile.store' op moves vectors of 1, 2, 4, 8 or 16 elements, not of 3}}
  tile.store %p, %x {vector = 3 : i32} : tensor<96x!tile.ptr<f32>>, tensor<96xf32>
  return
}

// -----

func.func @assembly_registers(%x: tensor<64xf32>) {
  // expected-error @+1 {{'tile.inline_asm' op the constraints name 2 registers for operands, and these fill 1}}
  %0 = tile.inline_asm "t", "=f,f,f", 1 pure (%x) : (tensor<64xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @assembly_meaning(%x: tensor<64xf32>) {
  // expected-error @+1 {{'tile.inline_asm' op meaning takes one element per tile and yields one per result}}
  %0 = tile.inline_asm "t", "=f,f", 1 pure (%x) : (tensor<64xf32>) -> tensor<64xf32> meaning {
  ^bb0(%e: f32):
    tile.yield %e, %e : f32, f32
  }
  return
}

// -----

func.func @assembly_meaning_of_nothing(%x: tensor<64xf32>) {
  // expected-error @+1 {{'tile.inline_asm' op has a meaning, but no result}}
  tile.inline_asm "t", "f", 1 (%x) : (tensor<64xf32>) -> () meaning {
  ^bb0(%e: f32):
    "tile.yield"() : () -> ()
  }
  return
}

// -----

func.func @address_shape(%x: tensor<64xi64>) {
  // expected-error @+1 {{'tile.int_to_ptr' op all non-scalar operands/results must have the same shape}}
  %0 = tile.int_to_ptr %x : tensor<64xi64> -> tensor<32x!tile.ptr<f32>>
  return
}

// -----

func.func @atomic_vector(%p: tensor<96x!tile.ptr<f32>>, %x: tensor<96xf32>) {
  // expected-error @below {{'tile.atomic_rmw' op moves vectors of 1, 2, 4, 8 or 16 elements, not of -2}}
  %0 = tile.atomic_rmw fadd, %p, %x {vector = -2 : i32} : tensor<96x!tile.ptr<f32>>, tensor<96xf32> -> tensor<96xf32>
  return
}

// -----

func.func @dot_ranks(%a: tensor<2x8x4xf32>, %b: tensor<4x8xf32>, %c: tensor<8x8xf32>) {
  // expected-error @below {{'tile.dot' op of [2, 8, 4] and [4, 8] into [8, 8]: the ranks differ}}
  %0 = tile.dot %a, %b, %c : tensor<2x8x4xf32>, tensor<4x8xf32>, tensor<8x8xf32>
  return
}

// -----

func.func @scan_of_nothing() {
  // expected-error @below {{'tile.scan' op needs a tile to scan}}
  "tile.scan"() <{axis = 0 : i32}> ({
    "tile.yield"() : () -> ()
  }) : () -> ()
  return
}

// -----

func.func @map_of_nothing() {
  // expected-error @below {{'tile.map' op needs a tile to work on, and a result}}
  "tile.map"() ({
    "tile.yield"() : () -> ()
  }) : () -> ()
  return
}

// -----

func.func @dot_scaled_operands(%a: tensor<16x64xf32>, %b: tensor<64x8xf8E4M3FN>, %c: tensor<16x8xf32>) {
  // expected-error @below {{'tile.dot_scaled' op does not take operands of 'f32'}}
  %0 = tile.dot_scaled %a, %b, %c : tensor<16x64xf32>, tensor<64x8xf8E4M3FN>, tensor<16x8xf32> -> tensor<16x8xf32>
  return
}

// -----

func.func @dot_scaled_accumulator(%a: tensor<16x64xf8E4M3FN>, %b: tensor<64x8xf8E4M3FN>, %c: tensor<8x8xf32>) {
  // expected-error @below {{'tile.dot_scaled' op accumulator has the wrong shape}}
  %0 = tile.dot_scaled %a, %b, %c : tensor<16x64xf8E4M3FN>, tensor<64x8xf8E4M3FN>, tensor<8x8xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @hint_axes(%x: tensor<8x8xi32>) {
  // expected-error @below {{'tile.hint' op has 1 numbers for 2 axes}}
  %0 = tile.hint %x {divisible = array<i64: 8>} : tensor<8x8xi32>
  return
}

// -----

func.func @atomic_kind(%p: tensor<32x!tile.ptr<f32>>, %x: tensor<32xf32>) {
  // expected-error @below {{'tile.atomic_rmw' op xor does not work on 'f32'}}
  %0 = tile.atomic_rmw xor, %p, %x : tensor<32x!tile.ptr<f32>>, tensor<32xf32> -> tensor<32xf32>
  return
}

// -----

func.func @atomic_pointers(%v: !tile.view<1x!tile.ptr<f32>>, %o: i32, %x: tensor<32x!tile.ptr<f32>>) {
  // expected-error @below {{'tile.atomic_block' op does not work on pointers}}
  %0 = tile.atomic_block exchange, %v[%o], %x : !tile.view<1x!tile.ptr<f32>>, [i32], tensor<32x!tile.ptr<f32>> -> tensor<32x!tile.ptr<f32>>
  return
}

// -----

// expected-error @below {{memory holds numbers and pointers, not 'index'}}
func.func @memory_of_indices(%p: !tile.ptr<index>) {
  return
}

// -----

// expected-error @below {{memory holds numbers and pointers, not 'index'}}
func.func @view_of_indices(%v: !tile.view<2xindex>) {
  return
}

// -----

func.func @atomic_block_result(%v: !tile.view<1xf32>, %o: i32, %x: tensor<32xf32>) {
  // expected-error @below {{'tile.atomic_block' op of 'tensor<32xf32>' gives the same type}}
  %0 = tile.atomic_block fadd, %v[%o], %x : !tile.view<1xf32>, [i32], tensor<32xf32> -> tensor<16xf32>
  return
}

// -----

func.func @channel_without_slots() {
  // expected-error @+1 {{'tile.channel' op has no slot, or slots without a tile}}
  %0 = tile.channel : !tile.channel<0, tensor<64x64xf16>>
  return
}

// -----

func.func @slots_of_another_channel(%use: i32) {
  %0 = tile.channel : !tile.channel<2, tensor<64x64xf16>>
  // expected-error @+1 {{'tile.wait' op gives other slots than its channel has}}
  %1 = tile.wait %0[%use] : !tile.channel<2, tensor<64x64xf16>> -> !tile.slot<tensor<64x32xf16>>
  return
}

// -----

func.func @tile_of_another_slot(%slot: !tile.slot<tensor<64x64xf16>>) {
  // expected-error @+1 {{'tile.read_slot' op has another tile than its slot}}
  %0 = tile.read_slot %slot : !tile.slot<tensor<64x64xf16>> -> tensor<64x64xf32>
  return
}

// -----

func.func @no_mbarriers() {
  // expected-error @+1 {{'tile.mbarriers' op makes 1 to 64 mbarriers}}
  %0 = tile.mbarriers 4 : !tile.mbarriers<0>
  return
}
