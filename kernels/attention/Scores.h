// From the products of queries and keys to the scores that softmax takes: scale, soft cap, bias,
// masks and dropout, in that order, as the configuration asks for them.
#pragma once
#include "kernels/attention/Band.h"
#include "kernels/attention/Dropout.h"
#include "kernels/attention/OnlineSoftmax.h"
#include <sectile/approximate.h>

namespace sectile::blockwise {

// cap tanh(score / cap), of products times scale, in units of log 2. Beside operands T of 16 bits
// tanh x is 1 - 2 / (1 + e^2x), whose error, 2^-21 of the cap, is less than what weights are
// rounded by.
template <class T>
Tile<float> softCap(const Tile<float> &products, const Float &scale, const Float &cap) {
  if constexpr (sizeof(T) > 2)
    return tanh(products * (scale / cap)) * (cap * log2e);
  const Tile<float> grown = fast_exp(products * (scale / cap * 2.0f));
  return fma(fast_divide(1.0f, grown + 1.0f), cap * (-2.0f * log2e), cap * log2e);
}
// Its derivative with respect to the score, from its result.
inline Tile<float> softCapSlope(const Tile<float> &capped, const Float &cap) {
  auto t = capped * (ln2 / cap);
  return 1.0f - t * t;
}

// Scores of sinks, [R] padded to `count`, in units of log 2.
inline Tile<float> sinkScores(const View<const float, 1> &sinks, int count) {
  return sinks.tile(count).padding(-infinity).load(0) * log2e;
}

// One head's scores. T is the bias's type; Config has the flags bias, mask, cap, dropout, left and
// right, which say what of this there is, and the extents m and n of a block.
template <class T, class Config> struct Scores {
  const Config &config;
  Band band;
  Float scale;
  Float cap = {};
  View<const T, 2> bias = {};    // [queries, keys]
  View<const bool, 2> mask = {}; // [queries, keys]: true where a key is seen
  Dropout dropout = {};
  Float grow = {};                   // 1 / (1 - p) of dropout
  bool keysFirst = false;            // blocks are [n, m] instead of [m, n]
  PackedRows packed = {};            // not where keys come first, nor with dropout
  View<const T, 3> headBias = {};    // of several heads: [heads, queries, keys]
  View<const bool, 3> headMask = {}; // likewise

  // The blocks of keys that block i of the rows sees any of.
  Band::Range keyBlocks(const Int &i) const {
    return band.keyBlocks(packed.query(i * config.m), packed.queries(config.m), config.n);
  }

  // Before bias and masks, of products of queries and keys.
  Tile<float> capped(const Tile<float> &products) const {
    return config.cap ? softCap<T>(products, scale, cap) : products * (scale * log2e);
  }
  // What a change of a scaled product changes `capped` by.
  Tile<float> slope(const Tile<float> &capped) const { return softCapSlope(capped, cap); }

  // Block i of the queries and block j of the keys; hidden ones are -inf. queriesToo: also those of
  // queries behind the last.
  Tile<float> masked(Tile<float> scores, const Int &i, const Int &j, bool queriesToo) const {
    if (config.bias)
      scores = scores + cast<float>(block(bias, headBias, i, j)) * log2e;
    if (config.mask)
      scores = where(block(mask, headMask, i, j), scores, -infinity);
    return placeOf(i, j, queriesToo).hide(scores, -infinity);
  }
  // x, 0 where the scores that `masked` gave, queries behind the last too, are hidden.
  Tile<float> ofSeen(const Tile<float> &x, const Tile<float> &masked, const Int &i,
                     const Int &j) const {
    return config.bias || config.mask ? where(masked == -infinity, 0.0f, x)
                                      : placeOf(i, j, true).hide(x, 0.0f);
  }
  // Whether dropout leaves a weight.
  Bool kept(const Int &i, const Int &j) const {
    auto kept = dropout.kept(i * config.m, config.m, j * config.n, config.n);
    return keysFirst ? trans(kept) : kept;
  }
  // 0 where dropout takes a weight away, else 1 / (1 - p).
  Tile<float> dropped(const Int &i, const Int &j) const { return where(kept(i, j), grow, 0.0f); }

private:
  BandBlock placeOf(const Int &i, const Int &j, bool queriesToo) const {
    return {band, i * config.m, config.m, j * config.n, config.n, keysFirst, queriesToo, packed};
  }
  template <class U>
  Tile<U> block(const View<const U, 2> &view, const View<const U, 3> &ofHeads, const Int &i,
                const Int &j) const {
    if (packed.heads > 1)
      return gathered(ofHeads, i, j);
    return keysFirst ? view.transposed().tile(config.n, config.m).load(j, i)
                     : view.tile(config.m, config.n).load(i, j);
  }
  template <class U>
  Tile<U> gathered(const View<const U, 3> &view, const Int &i, const Int &j) const {
    auto row = i * config.m + arange(0, config.m), column = j * config.n + arange(0, config.n);
    return load(view.ptr() + expand(packed.place(view, row), 1) +
                    expand(cast<std::int64_t>(column) * view.stride(2), 0),
                expand(packed.query(row) < view.extent(1), 1) &&
                    expand(column < view.extent(2), 0));
  }
};

// What the options take in numbers, as a kernel's parameters have it.
struct ScoreNumbers {
  Float scale, cap;
  Int left, right;
  Scalar<std::uint64_t> seed;
  Scalar<std::uint32_t> threshold;
  Float grow;
};

// Those of a head of `batch`, without bias and mask yet; the last query lies beside the last key.
template <class T, class Config>
Scores<T, Config> scoresOf(const Config &config, const Int &queries, const Int &keys,
                           const Int &batch, const Int &head, const ScoreNumbers &numbers) {
  Scores<T, Config> scores{.config = config,
                           .band = {queries, keys, keys - queries},
                           .scale = numbers.scale,
                           .cap = numbers.cap};
  if (config.left)
    scores.band.left = numbers.left;
  if (config.right)
    scores.band.right = numbers.right;
  if (config.dropout) {
    scores.dropout = {numbers.seed, numbers.threshold, batch, head};
    scores.grow = numbers.grow;
  }
  return scores;
}
template <class T, class Config>
Scores<T, Config> scoresOf(const Config &config, const Int &queries, const Int &keys,
                           const Int &batch, const Int &head, const ScoreNumbers &numbers,
                           const View<const T, 4> &bias, const View<const bool, 4> &mask) {
  auto scores = scoresOf<T>(config, queries, keys, batch, head, numbers);
  if (config.bias)
    scores.bias = bias.at(batch, head);
  if (config.mask)
    scores.mask = mask.at(batch, head);
  return scores;
}

} // namespace sectile::blockwise
