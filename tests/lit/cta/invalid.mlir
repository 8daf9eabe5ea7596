// Every error of the dialect's verifiers and parsers.
// RUN: sectile-opt --split-input-file --verify-diagnostics %s

// expected-error @+1 {{expected register, lane, warp, block or shared}}
func.func private @layout_text(tensor<4xf32, #cta.layout<"4, thread [(1) (2)]">>)

// -----

// expected-error @+1 {{the layout is one of [8], the tensor is [4]}}
func.func private @layout_shape(tensor<4xf32, #cta.layout<"8, register [(1) (2) (4)]">>)

// -----

// expected-error @+1 {{a tensor's layout says which threads hold it, not where in shared memory it is}}
func.func private @layout_kind(tensor<4xf32, #cta.layout<"4, shared [(1) (2)]">>)

// -----

// expected-error @+1 {{a buffer's layout is a #cta.layout}}
func.func private @buffer_layout(!cta.buffer<4xf32, 3 : i32>)

// -----

// expected-error @+1 {{the layout is one of [8], the buffer is [4]}}
func.func private @buffer_shape(!cta.buffer<4xf32, #cta.layout<"8, shared [(1) (2) (4)]">>)

// -----

// expected-error @+1 {{a buffer's layout says where in shared memory it is, not which threads hold it}}
func.func private @buffer_kind(!cta.buffer<4xf32, #cta.layout<"4, register [(1) (2)]">>)

// -----

// expected-error @+1 {{expected 'tensor'}}
func.func private @buffer_space(!cta.buffer<4xf32, #cta.layout<"4, shared [(1) (2)]">, shared>)

// -----

#plain = #cta.layout<"4x4, shared [(0,1) (0,2) (1,0) (2,0)]">
#turned = #cta.layout<"4x4, shared [(1,0) (2,0) (0,1) (0,2)]">
func.func @permute_space() {
  %0 = cta.alloc : !cta.buffer<4x4xf32, #plain, tensor>
  // expected-error @+1 {{is not the permuted}}
  %1 = cta.permute_buffer %0 [1, 0] : !cta.buffer<4x4xf32, #plain, tensor> -> !cta.buffer<4x4xf32, #turned>
  return
}

// -----

#layout = #cta.layout<"4, register [(1) (2)]">
func.func @convert_type(%t: tensor<4xf32, #layout>) {
  // expected-error @+1 {{'cta.convert_layout' op changes the layout only, not 'tensor<4xf32, #cta.layout<"4, register [(1) (2)]">>' to 'tensor<4xf16, #cta.layout<"4, register [(1) (2)]">>'}}
  %0 = cta.convert_layout %t : tensor<4xf32, #layout> -> tensor<4xf16, #layout>
  return
}

// -----

#layout = #cta.layout<"4, register [(1) (2)]">
func.func @convert_plain(%t: tensor<4xf32>) {
  // expected-error @+1 {{'cta.convert_layout' op needs layouts on both sides}}
  %0 = cta.convert_layout %t : tensor<4xf32> -> tensor<4xf32, #layout>
  return
}

// -----

func.func @dot_shapes(%a: tensor<16x16xf16>, %b: tensor<8x16xf16>, %acc: tensor<16x16xf32>) {
  // expected-error @+1 {{'cta.dot' op shapes do not match: 'tensor<16x16xf16>' · 'tensor<8x16xf16>' + 'tensor<16x16xf32>'}}
  %0 = cta.dot %a, %b, %acc : tensor<16x16xf16>, tensor<8x16xf16>, tensor<16x16xf32>
  return
}

// -----

func.func @dot_instruction(%a: tensor<16x16xf16>, %acc: tensor<16x16xf32>) {
  // expected-error @+1 {{'cta.dot' op instruction is [m, n, k]}}
  %0 = cta.dot %a, %a, %acc by [16, 8] : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32>
  return
}

// -----

func.func @dot_in_flight_type(%a: tensor<16x16xf16>, %acc: tensor<16x16xf16>) -> tensor<16x16xf32> {
  // expected-error @+1 {{'cta.dot_start' op adds to 'tensor<16x16xf16>' and gives '!cta.in_flight<tensor<16x16xf32>>'}}
  %0 = cta.dot_start %a, %a, %acc by [16, 8, 16] : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf16> -> !cta.in_flight<tensor<16x16xf32>>
  %1 = cta.dot_wait %0 : !cta.in_flight<tensor<16x16xf32>>
  return %1 : tensor<16x16xf32>
}

// -----

func.func @dot_lost(%a: tensor<16x16xf16>, %acc: tensor<16x16xf32>) {
  // expected-error @+1 {{'cta.dot_start' op is in flight for one user, and has 0}}
  %0 = cta.dot_start %a, %a, %acc by [16, 8, 16] : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32> -> !cta.in_flight<tensor<16x16xf32>>
  return
}

// -----

func.func @other_tile_behind_wait(%acc: tensor<16x16xf32>, %before: tensor<16x8xf32>) {
  %0 = cta.dot_begin %acc : !cta.in_flight<tensor<16x16xf32>>
  // expected-error @+1 {{'cta.dot_wait' op gives other tiles behind the wait than it takes before it}}
  %1, %2 = cta.dot_wait %0 behind %before : !cta.in_flight<tensor<16x16xf32>>, tensor<16x8xf32> -> tensor<16x16xf32>
  return
}

// -----

func.func @other_elements_behind_wait(%acc: tensor<16x16xf32>, %before: tensor<16x16xf64>) {
  %0 = cta.dot_begin %acc : !cta.in_flight<tensor<16x16xf32>>
  // expected-error @+1 {{'cta.dot_wait' op takes tiles of 'f64' with sums of 'f32'}}
  %1, %2 = cta.dot_wait %0 behind %before : !cta.in_flight<tensor<16x16xf32>>, tensor<16x16xf64> -> tensor<16x16xf64>
  return
}

// -----

func.func @dot_waited_for_twice(%a: tensor<16x16xf16>, %acc: tensor<16x16xf32>) {
  // expected-error @+1 {{'cta.dot_start' op is in flight for one user, and has 2}}
  %0 = cta.dot_start %a, %a, %acc by [16, 8, 16] : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32> -> !cta.in_flight<tensor<16x16xf32>>
  %1 = cta.dot_wait %0 : !cta.in_flight<tensor<16x16xf32>>
  %2 = cta.dot_wait %0 : !cta.in_flight<tensor<16x16xf32>>
  return
}

// -----

func.func @dot_multiple(%a: tensor<16x8xf16>, %b: tensor<8x16xf16>, %acc: tensor<16x16xf32>) {
  // expected-error @+1 {{'cta.dot' op of [16, 8] and [8, 16] cannot be made of instructions of [16, 8, 16]}}
  %0 = cta.dot %a, %b, %acc by [16, 8, 16] : tensor<16x8xf16>, tensor<8x16xf16>, tensor<16x16xf32>
  return
}

// -----

#plain = #cta.layout<"4, shared [(1) (2)]">
func.func @init(%t: tensor<4xf16>) {
  // expected-error @+1 {{'cta.alloc' op tile 'tensor<4xf16>' does not fit the buffer '!cta.buffer<4xf32, #cta.layout<"4, shared [(1) (2)]">>'}}
  %0 = cta.alloc %t : !cta.buffer<4xf32, #plain> from tensor<4xf16>
  return
}

// -----

#plain = #cta.layout<"4, shared [(1) (2)]">
func.func @load(%b: !cta.buffer<4xf32, #plain>) {
  // expected-error @+1 {{'cta.local_load' op tile 'tensor<2xf32>' does not fit the buffer}}
  %0 = cta.local_load %b : !cta.buffer<4xf32, #plain> -> tensor<2xf32>
  return
}

// -----

#plain = #cta.layout<"4, shared [(1) (2)]">
func.func @store(%b: !cta.buffer<4xf32, #plain>, %t: tensor<4xi32>) {
  // expected-error @+1 {{'cta.local_store' op tile 'tensor<4xi32>' does not fit the buffer}}
  cta.local_store %t, %b : tensor<4xi32>, !cta.buffer<4xf32, #plain>
  return
}

// -----

#plain = #cta.layout<"2x2, shared [(0,1) (1,0)]">
func.func @permute_count(%b: !cta.buffer<2x2xf32, #plain>) {
  // expected-error @+1 {{'cta.permute_buffer' op order has 1 axes, the buffer has 2}}
  %0 = cta.permute_buffer %b [0] : !cta.buffer<2x2xf32, #plain> -> !cta.buffer<2x2xf32, #plain>
  return
}

// -----

#plain = #cta.layout<"2x2, shared [(0,1) (1,0)]">
func.func @permute_twice(%b: !cta.buffer<2x2xf32, #plain>) {
  // expected-error @+1 {{'cta.permute_buffer' op order is not a permutation of the axes}}
  %0 = cta.permute_buffer %b [0, 0] : !cta.buffer<2x2xf32, #plain> -> !cta.buffer<2x2xf32, #plain>
  return
}

// -----

#plain = #cta.layout<"6x6, shared [(0,1) (1,0)]">
func.func @permute_repeats(%b: !cta.buffer<6x6xf32, #plain>) {
  // expected-error @+1 {{'cta.permute_buffer' op cannot reorder the axes of [6, 6], of which two are no powers of two}}
  %0 = cta.permute_buffer %b [1, 0] : !cta.buffer<6x6xf32, #plain> -> !cta.buffer<6x6xf32, #cta.layout<"6x6, shared [(1,0) (0,1)]">>
  return
}

// -----

#plain = #cta.layout<"2x2, shared [(0,1) (1,0)]">
func.func @permute_layout(%b: !cta.buffer<2x2xf32, #plain>) {
  // expected-error @+1 {{is not the permuted}}
  %0 = cta.permute_buffer %b [1, 0] : !cta.buffer<2x2xf32, #plain> -> !cta.buffer<2x2xf32, #plain>
  return
}

// -----

#plain = #cta.layout<"4, shared [(1) (2)]">
func.func @copy(%p: tensor<4x!tile.ptr<f16>>, %b: !cta.buffer<4xf32, #plain>) {
  // expected-error @+1 {{'cta.async_copy' op pointers 'tensor<4x!tile.ptr<f16>>' do not fit the buffer}}
  cta.async_copy %p, %b : tensor<4x!tile.ptr<f16>>, !cta.buffer<4xf32, #plain>
  return
}

// -----

func.func @pending() {
  // expected-error @+1 {{attribute 'pending' failed to satisfy constraint: 32-bit signless integer attribute whose value is non-negative}}
  cta.async_wait -1
  return
}

// -----

#plain = #cta.layout<"4, shared [(1) (2)]">
func.func @acquire(%c: !cta.channel<2, !cta.buffer<4xf32, #plain>>, %i: i32) {
  // expected-error @+1 {{'cta.acquire' op gives '!cta.buffer<4xf16, #cta.layout<"4, shared [(1) (2)]">>', but the channel has slots of '!cta.buffer<4xf32, #cta.layout<"4, shared [(1) (2)]">>'}}
  %0 = cta.acquire %c[%i] : !cta.channel<2, !cta.buffer<4xf32, #plain>> -> !cta.buffer<4xf16, #plain>
  return
}

// -----

#plain = #cta.layout<"4, shared [(1) (2)]">
func.func @slot(%c: !cta.channel<2, !cta.buffer<4xf32, #plain>>, %i: i32) {
  // expected-error @+1 {{'cta.slot' op gives '!cta.buffer<4xf16}}
  %0 = cta.slot %c[%i] : !cta.channel<2, !cta.buffer<4xf32, #plain>> -> !cta.buffer<4xf16, #plain>
  return
}

// -----

#plain = #cta.layout<"4, shared [(1) (2)]">
func.func @wait_count(%c: !cta.channel<2, !cta.buffer<4xf32, #plain>>, %i: i32) {
  // expected-error @+1 {{'cta.wait' op waits for 2 channels and gives 1 buffers}}
  %0 = cta.wait %c, %c[%i] : !cta.channel<2, !cta.buffer<4xf32, #plain>>, !cta.channel<2, !cta.buffer<4xf32, #plain>> -> !cta.buffer<4xf32, #plain>
  return
}

// -----

#plain = #cta.layout<"4, shared [(1) (2)]">
func.func @wait_type(%c: !cta.channel<2, !cta.buffer<4xf32, #plain>>, %i: i32) {
  // expected-error @+1 {{'cta.wait' op gives '!cta.buffer<4xf16}}
  %0 = cta.wait %c[%i] : !cta.channel<2, !cta.buffer<4xf32, #plain>> -> !cta.buffer<4xf16, #plain>
  return
}

// -----

// expected-error @+1 {{shared memory does not hold 'index'}}
func.func private @buffer_of_index(!cta.buffer<2xindex, #cta.layout<"2, shared [(1)]">>)

// -----

#rows = #cta.layout<"8x4, register [(0,2) (4,0)], lane [(1,0) (2,0) (0,1) (0,0) (0,0)]">
#half = #cta.layout<"4x4, register [(0,2)], lane [(1,0) (2,0) (0,1) (0,0) (0,0)]">
func.func @slice_in_lanes(%t: tensor<8x4xf32, #rows>) {
  %0 = cta.extract_slice %t[1 of 2] along 0 : tensor<8x4xf32, #rows> -> tensor<4x4xf32, #half>
  // expected-error @+1 {{'cta.extract_slice' op has no such dimension or part}}
  %1 = cta.extract_slice %t[2 of 2] along 0 : tensor<8x4xf32, #rows> -> tensor<4x4xf32, #half>
  return
}

// -----

#rows = #cta.layout<"8x4, register [(0,2) (4,0)], lane [(1,0) (2,0) (0,1) (0,0) (0,0)]">
#half = #cta.layout<"4x4, register [(0,2)], lane [(1,0) (2,0) (0,1) (0,0) (0,0)]">
func.func @slice_of_quarters(%t: tensor<8x4xf32, #rows>) {
  // expected-error @+1 {{'cta.extract_slice' op cannot split 'tensor<8x4xf32}}
  %0 = cta.extract_slice %t[1 of 4] along 0 : tensor<8x4xf32, #rows> -> tensor<4x4xf32, #half>
  return
}

// -----

#rows = #cta.layout<"8x4, register [(0,2) (4,0)], lane [(1,0) (2,0) (0,1) (0,0) (0,0)]">
#half = #cta.layout<"4x4, register [(0,2)], lane [(1,0) (2,0) (0,1) (0,0) (0,0)]">
func.func @slice_layout(%t: tensor<8x4xf32, #rows>) {
  // expected-error @+1 {{'cta.extract_slice' op gives a tile of layout 8x2}}
  %0 = cta.extract_slice %t[1 of 2] along 1 : tensor<8x4xf32, #rows> -> tensor<4x4xf32, #half>
  return
}

// -----

func.func @partition_without_a_block() {
  // expected-error @+1 {{'cta.partition' op region #0 ('body') failed to verify constraint: region with 1 blocks}}
  "cta.partition"() <{registers = array<i32: 24, 240>, warps = 4 : i32}> ({
  }) : () -> ()
  return
}

// -----

func.func @along_no_axis(%a: tensor<64x64xi8>) {
  // expected-error @+1 {{attribute 'axis' failed to satisfy constraint}}
  %0 = cta.along_k %a along 2 : tensor<64x64xi8>
  return
}

// -----

#rows = #cta.layout<"8x4, register [(0,2) (4,0)], lane [(1,0) (2,0) (0,1) (0,0) (0,0)]">
!ptrs = tensor<8x4x!tile.ptr<f32>, #rows>
func.func @of_block_of_another_rank(%p: !ptrs, %base: !tile.ptr<f32>, %n: i32) {
  // expected-error @+1 {{'cta.of_block' op takes one extent, stride and offset for each dimension of the tile}}
  %0 = cta.of_block %p in %base, [%n, %n], [%n, %n] at [%n] : !ptrs, !tile.ptr<f32>, [i32, i32], [i32, i32], [i32]
  return
}
