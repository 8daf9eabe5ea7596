// Blocks of a visibility that is asked about pairs: which of them are empty, whole or neither.
#pragma once
#include <sectile/flash/checks.h>
#include <sectile/flash/loops.h>
#include <sectile/kernel_of.h>

namespace sectile::flash {

// Of which blocks of a visibility nothing, some or all is seen: kinds [1 or B, 1 or H,
// ceil(Sq / block_q), ceil(Sk / block_k), 2], some and all. Keeps the memory.
struct Blocks {
  Tensor<bool, 5> kinds;
  std::int64_t block_q, block_k;
};
// The calls that they are for: of so many batches and heads, or of any number where it is 1, as
// what is seen does not depend on them. Batches that are sequences of different lengths are counted
// by their lengths; queries and keys are then those of the longest.
struct BlocksFor {
  std::int64_t batches = 1, heads = 1, queries = 0, keys = 0;
};

namespace detail {
using sectile::detail::kernelOf;

template <class V> struct MakeBlockKinds {
  void operator()(V visibility, View<bool, 5> kinds, SequenceLengths lengths, Int queries, Int keys,
                  Int blockQ, Int blockK, const BlockKindConfig &config) const {
    traceBlockKinds(config, kinds, lengths, queries, keys, blockQ, blockK, Erased<V>(visibility));
  }
};

// Throws LaunchError.
BlockKindConfig blockKindConfig(const BlocksFor &call, std::int64_t blockQ, std::int64_t blockK);
// Where sequences differ; null where they do not.
struct LengthsOfCall {
  const Tensor<const std::int32_t, 1> *queryStarts = nullptr, *keyStarts = nullptr,
                                      *keyLengths = nullptr;
};
template <class V>
Blocks blocksOf(const Stream &stream, const Arguments<V> &visibility, BlocksFor call,
                const LengthsOfCall &lengths, std::int64_t blockQ, std::int64_t blockK) {
  if (lengths.keyStarts)
    call.batches = lengths.keyStarts->extent(0) - 1;
  if (lengths.keyLengths)
    call.batches = lengths.keyLengths->extent(0);
  BlockKindConfig config = blockKindConfig(call, blockQ, blockK);
  config.packedQueries = lengths.queryStarts;
  config.packedKeys = lengths.keyStarts;
  config.pages = lengths.keyLengths;
  const bool alike = !lengths.keyStarts && !lengths.keyLengths;
  checkVisibility(visibility, alike ? CallExtents{call.batches, call.heads, call.queries, call.keys}
                                    : CallExtents{call.batches, call.heads});
  const std::int64_t rows = (call.queries + blockQ - 1) / blockQ,
                     columns = (call.keys + blockK - 1) / blockK,
                     count = call.batches * call.heads * rows * columns * 2;
  const Tensor<bool, 5> kinds =
      tensor(stream.device().allocate<bool>(static_cast<std::size_t>(count)),
             {call.batches, call.heads, rows, columns, 2});
  const Tensor<const std::int32_t, 1> none(nullptr, {0}, {1});
  if (count > 0)
    kernelOf<MakeBlockKinds<V>>("flash_block_kinds")
        .launch(stream, Grid(rows * columns, call.heads, call.batches), visibility, kinds,
                {lengths.queryStarts ? *lengths.queryStarts : none,
                 lengths.keyStarts ? *lengths.keyStarts : none,
                 lengths.keyLengths ? *lengths.keyLengths : none},
                call.queries, call.keys, blockQ, blockK, config);
  return {kinds, blockQ, blockK};
}
} // namespace detail

// Asks a visibility, such as one of where(), about every pair, on the device. Blocks are of 16, 32,
// 48, … up to 1024 queries and keys. Launches and does not wait. Throws LaunchError for what does
// not fit.
template <Visible V>
Blocks blocks_of(const Stream &stream, const Arguments<V> &visibility, const BlocksFor &call,
                 std::int64_t block_q = 128, std::int64_t block_k = 128) {
  return detail::blocksOf(stream, visibility, call, {}, block_q, block_k);
}
// The same of packed sequences.
template <Visible V>
Blocks blocks_of(const Stream &stream, const Arguments<V> &visibility, const BlocksFor &call,
                 const Tensor<const std::int32_t, 1> &cu_seqlens_q,
                 const Tensor<const std::int32_t, 1> &cu_seqlens_k, std::int64_t block_q = 128,
                 std::int64_t block_k = 128) {
  return detail::blocksOf(stream, visibility, call, {&cu_seqlens_q, &cu_seqlens_k}, block_q,
                          block_k);
}
// The visibility by what blocks_of found of it: blocks without a pair that is seen are not visited,
// and in those of which all are nothing is compared.
template <Visible V>
Arguments<Listed<V>> block_list(const Arguments<V> &visibility, const Blocks &blocks) {
  const Tensor<bool, 5> &of = blocks.kinds;
  return {visibility,
          {Tensor<bool, 4>(of.data(), {of.extent(0), of.extent(1), of.extent(2), of.extent(3)},
                           {of.stride(0), of.stride(1), of.stride(2), of.stride(3)}, of.memory()),
           blocks.block_q, blocks.block_k}};
}

} // namespace sectile::flash
