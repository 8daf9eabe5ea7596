// The loops of attention over all heads of a batch, which the kernels of <sectile/flash.h> are
// traced by. They are in the library, compiled for T half, bfloat16 and float.
#pragma once
#include <functional>
#include <sectile/flash/score.h>
#include <sectile/flash/visibility.h>

namespace sectile::flash {

// What the code of a loop depends on.
struct LoopConfig {
  int m = 64, n = 64, warps = 4, stages = 2; // queries and keys of a block
  int width = 64, valueWidth = 64;           // D and Dv, up to the next multiple of 16
  bool dropout = false, exact = true;        // exact: f32 products are not rounded to tf32
  bool seedOffset = false;                   // of dropout, in device memory
  int sinks = 0;                             // of a head, up to the next power of two
  bool overlap = false;     // a producer partition copies, and products run beside arithmetic
  bool delayed = true;      // those of weights in the next step, beside its softmax
  bool raw = false;         // scores are products, which are scaled where exponents are taken
  int heads = 1;            // that share the order of programs
  bool persistent = false;  // programs do one block after another
  bool pairs = false;       // of which two are as long as any other two
  int parts = 1;            // programs for dk and dv that share a group of query heads
  bool sumsQueries = false; // which add up dq as well
  int group = 1;            // heads whose queries are rows of one block
  bool split = false;       // programs of packed sequences have parts, as those of traceParts
};

// A lambda of flash::scores with its operands.
struct Modifier {
  std::function<Score(const Score &, const At &)> function = {}; // none: scores stay as they are
  bool hides = false;       // by scores of -inf, or by others that are not finite
  LearnedUses learned = {}; // whether or not the lambda makes use of them
};

// Numbers of a launch.
struct Numbers {
  Int group;   // query heads that share a head of the keys
  Float scale; // of products
  Scalar<std::uint64_t> seed;
  Scalar<std::uint32_t> threshold;    // p of dropout times 2^16, in the upper half
  Float dropoutScale;                 // 1 / (1 - p)
  Ptr<const std::int64_t> seedOffset; // added to the seed, where there is one
};

// What makes scores of products, and which keys a query sees.
struct ScoreRules {
  Numbers numbers;
  Modifier modifier;
  const AnyVisibility &visibility;
};

template <class T, class Out = T> struct ForwardTensors {
  View<const T, 4> q, k, v;   // [B, Hq, Sq, D], [B, Hkv, Sk, D], [B, Hkv, Sk, Dv]
  View<Out, 4> o;             // [B, Hq, Sq, Dv]
  View<float, 3> lse;         // [B, Hq, Sq]
  View<const float, 2> sinks; // [Hq, R]
};

// Of a block of m queries, or of n keys, those blocks of the others that it reaches: a row of lists
// [B, H, blocks, 1 + others], a program for each. group: heads whose queries are rows of one block.
struct ListConfig {
  int m = 64, n = 64, warps = 2;
  bool ofQueries = true;
  int group = 1;
};
void traceLists(const ListConfig &config, const View<std::int32_t, 4> &lists, const Int &queries,
                const Int &keys, const AnyVisibility &visibility);
// The same of packed sequences: [1, H, programs, 1 + others] of programs as their launches have.
// queries, keys: tokens of all sequences.
void tracePackedLists(const ListConfig &config, const View<std::int32_t, 4> &lists,
                      const View<const std::int32_t, 1> &queryStarts,
                      const View<const std::int32_t, 1> &keyStarts, const Int &queries,
                      const Int &keys, const AnyVisibility &visibility);

// The table of Listed [B, H, rows, columns, 2]: a program for each block, in tiles of m and n,
// which divide a block. queries and keys: of each batch, or at most, where sequences have as many
// as queryStarts and keyStarts say, or keyLengths.
struct BlockKindConfig {
  int m = 16, n = 16, warps = 4;
  bool packedQueries = false, packedKeys = false, pages = false;
};
struct SequenceLengths {
  View<const std::int32_t, 1> queryStarts, keyStarts, keyLengths; // [B + 1], [B + 1], [B]
};
void traceBlockKinds(const BlockKindConfig &config, const View<bool, 5> &kinds,
                     const SequenceLengths &lengths, const Int &queries, const Int &keys,
                     const Int &blockQ, const Int &blockK, const AnyVisibility &visibility);

// The forward pass of one program, or of one after another.
template <class T, class Out>
void traceForward(const LoopConfig &config, const ForwardTensors<T, Out> &tensors,
                  const ScoreRules &rules);

// The same of the rows of config.group query heads that share keys, each program for one of
// o.extent(0) parts of the keys: o [parts, B, Hq, Sq, Dv] and lse [parts, B, Hq, Sq]. With dropout
// of one head, as its weights are drawn for a block of one.
template <class T, class Out> struct PartTensors {
  View<const T, 4> q, k, v;
  View<Out, 5> o;
  View<float, 4> lse;
  View<const float, 2> sinks;
};
template <class T, class Out>
void traceParts(const LoopConfig &config, const PartTensors<T, Out> &tensors,
                const ScoreRules &rules);

// What the gradients read: logs and delta [B, Hq, Sq] are lse in units of log 2, infinite for rows
// that saw nothing, and the sum of o * dO.
template <class T> struct BackwardTensors {
  View<const T, 4> q, k, v, dO; // as above, dO as o
  View<const float, 3> logs, delta;
};

// Of one program, those of a block of queries: dq as q, of T or float.
template <class T, class Sum>
void traceQueryGradients(const LoopConfig &config, const BackwardTensors<T> &tensors,
                         const View<Sum, 4> &dq, const ScoreRules &rules);
// Of a block of keys and values: dk and dv have a head for each of the config.parts that a group of
// query heads is cut into, each of numbers.group heads. dqSums [B, Hq, Sq, D], where
// config.sumsQueries, are still to be scaled.
template <class T, class Sum>
void traceKeyGradients(const LoopConfig &config, const BackwardTensors<T> &tensors,
                       const View<Sum, 4> &dk, const View<Sum, 4> &dv, const View<float, 4> &dqSums,
                       const ScoreRules &rules);

// Block (i, j) of the gradient [B or 1, H or 1, Sq, Sk] of the learned operand of a slot, along
// pairs; the programs along axis 0 are the blocks.
struct SlotConfig {
  int slot = 1;
};
using PairConfig = JoinedConfig<LoopConfig, SlotConfig>;
template <class T>
void tracePairGradients(const PairConfig &config, const BackwardTensors<T> &tensors,
                        const View<float, 4> &gradient, const ScoreRules &rules);

// Packed sequences, forward and backward. Sequence s, of B, has the tokens from starts[s] up to,
// without it, starts[s + 1]. A program has a block of one of them, counted as packedBlocks counts,
// or forward where config.persistent one after another of those that a plan orders. A row of it has
// a block's sequence, the row of that sequence's first block, how many blocks of config.m it has,
// its first query, queries, first key and keys; the last row how many rows there are before it.
// Where config.split, a program forward has rows of config.group heads, and one of o.extent(0)
// parts of the keys.
template <class T, class Out> struct PackedForwardTensors {
  View<const T, 3> q, k, v;                           // [Tq, Hq, D], [Tk, Hkv, D], [Tk, Hkv, Dv]
  View<const std::int32_t, 1> queryStarts, keyStarts; // [B + 1]
  View<Out, 4> o;                                     // [parts, Tq, Hq, Dv]
  View<float, 3> lse;                                 // [parts, Hq, Tq]
  View<const float, 2> sinks;                         // [Hq, R]
  View<const std::int32_t, 2> plan;                   // [blocks + 1, 7]
};
template <class T> struct PackedBackwardTensors {
  View<const T, 3> q, k, v;
  View<const std::int32_t, 1> queryStarts, keyStarts;
  View<const T, 3> dO;
  View<const float, 2> logs, delta; // [Hq, Tq]
};

template <class T, class Out>
void traceForward(const LoopConfig &config, const PackedForwardTensors<T, Out> &tensors,
                  const ScoreRules &rules);
template <class T>
void traceQueryGradients(const LoopConfig &config, const PackedBackwardTensors<T> &tensors,
                         const View<T, 3> &dq, const ScoreRules &rules);
template <class T>
void traceKeyGradients(const LoopConfig &config, const PackedBackwardTensors<T> &tensors,
                       const View<T, 3> &dk, const View<T, 3> &dv, const ScoreRules &rules);
// As above: queries and keys are counted from the beginning of each sequence, and
// where a sequence has no such pair its gradient is 0.
template <class T>
void tracePairGradients(const PairConfig &config, const PackedBackwardTensors<T> &tensors,
                        const View<float, 4> &gradient, const ScoreRules &rules);

// Keys and values in pages, forward.
struct PageConfig {
  int splits = 1, page = 16; // parts of the keys, each with programs of its own; keys of a page
  bool packed = false;       // sequences have as many queries as queryStarts says; else one each
  bool kScaled = false, vScaled = false;           // the caches' numbers have scales of blocks,
  bool kScaledByKey = false, vScaledByKey = false; // and of keys
  bool planned = false;   // a plan says what parts there are, of any lengths
  bool several = false;   // queries: PagedTensors::queries counts them
  bool valueKeys = false; // values are keys, too, of queries of their own
};
using PagedConfig = JoinedConfig<LoopConfig, PageConfig>;

// Sequence s, of S, has lengths[s] keys, no more than its row of tables has room for. Key j is in
// block tables[s, j / page] of the caches. These are of C, which is T, float8_e4m3, std::int8_t,
// float8_e5m2, or std::uint8_t for two numbers of 4 bits each. A row of a plan is a part of as many
// programs for each head of the caches as the queries of a sequence need: its sequence (-1: none),
// its first key and the one behind its last, and another number, which a merge takes. o and lse are
// then [1, parts * queries, Hq, D] and [1, parts * queries, Hq].
template <class T, class C, class Out> struct PagedTensors {
  View<const T, 3> q;                           // [Tq, Hq, D]
  View<const C, 4> k, v;                        // [blocks, Hkv, page, D], of pairs D / 2
  View<const std::int32_t, 1> lengths;          // [S]
  View<const std::int32_t, 2> tables;           // [S, max]
  View<const std::int32_t, 1> queryStarts;      // [S + 1]
  View<const std::int32_t, 2> plan;             // [parts, 4]
  View<const float, 2> sinks, kScales, vScales; // [Hq, R], [blocks, Hkv], [blocks, Hkv]
  View<const float, 3> kKeyScales, vKeyScales;  // [blocks, Hkv, page]
  View<Out, 4> o;                               // [splits, Tq, Hq, D]
  View<float, 3> lse;                           // [splits, Tq, Hq]
  Int queries; // of each sequence, or with a plan and queryStarts the most of one
};

// A program has rows of all query heads that share keys (config.group), as those of traceParts.
// With config.overlap a page has whole steps, of T, which a warp of its own copies. Whatever the
// visibility says, only keys that a sequence has are looked for in its table. Its lists are those
// of programs. valueQueries, of pages.valueKeys: [Tq, Hq, D], whose products with the values are
// added to those of the queries with the keys.
template <class T, class C, class Out>
void tracePages(const LoopConfig &config, const PageConfig &pages,
                const PagedTensors<T, C, Out> &tensors, const ScoreRules &rules,
                const View<const T, 3> &valueQueries = {});

// Lists [1, Hkv, programs, 1 + others] of the programs of such a launch, whatever part of the keys
// they have by their number along the grid's last axis; those of a plan have blocks of their own
// parts. queries: tokens of all sequences. keys: that a table has room for.
using PagedListConfig = JoinedConfig<ListConfig, PageConfig>;
void tracePagedLists(const PagedListConfig &config, const View<std::int32_t, 4> &lists,
                     const View<const std::int32_t, 1> &lengths,
                     const View<const std::int32_t, 1> &queryStarts,
                     const View<const std::int32_t, 2> &plan, const Int &queries, const Int &keys,
                     const AnyVisibility &visibility);

} // namespace sectile::flash
