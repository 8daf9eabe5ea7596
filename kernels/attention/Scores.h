// From the products of queries and keys to the scores that softmax takes: scale, soft cap, bias,
// masks and dropout, in that order, as the configuration asks for them.
#pragma once
#include "kernels/attention/Band.h"
#include "kernels/attention/Dropout.h"
#include "kernels/attention/OnlineSoftmax.h"

namespace sectile::blockwise {

// cap tanh(score / cap), of products times scale, in units of log 2.
inline Tile<float> softCap(const Tile<float> &products, const Float &scale, const Float &cap) {
  return tanh(products * (scale / cap)) * (cap * log2e);
}
// Its derivative with respect to the score, from its result.
inline Tile<float> softCapSlope(const Tile<float> &capped, const Float &cap) {
  auto t = capped * (ln2 / cap);
  return 1.0f - t * t;
}

// One head's scores. T is the bias's type; Config has the flags bias, mask, cap and dropout, which
// say what of this there is, and the extents m and n of a block.
template <class T, class Config> struct Scores {
  const Config &config;
  Band band;
  Float scale;
  Float cap = {};
  View<const T, 2> bias = {};    // [queries, keys]
  View<const bool, 2> mask = {}; // [queries, keys]: true where a key is seen
  Dropout dropout = {};

  // Before bias and masks: what the slope is taken of.
  Tile<float> capped(const Tile<float> &products) const {
    return config.cap ? softCap(products, scale, cap) : products * (scale * log2e);
  }
  // [m, n] of block i of the queries and block j of the keys; hidden ones are -inf.
  Tile<float> masked(Tile<float> scores, const Int &i, const Int &j, bool rowsToo) const {
    if (config.bias)
      scores = scores + cast<float>(bias.tile(config.m, config.n).load(i, j)) * log2e;
    return where(visible(i, j, rowsToo), scores, -infinity);
  }
  // rowsToo: also that the queries are there.
  Bool visible(const Int &i, const Int &j, bool rowsToo) const {
    auto row = expand(i * config.m + arange(0, config.m), 1);
    auto column = expand(j * config.n + arange(0, config.n), 0);
    auto result = rowsToo ? band.visible(row, column) : band.visibleKeys(row, column);
    if (config.mask)
      result = result && mask.tile(config.m, config.n).load(i, j);
    return result;
  }
  // [m, n]: 0 where dropout takes the weight away, else 1 / (1 - p), which is `grow`.
  Tile<float> dropped(const Int &i, const Int &j, const Float &grow) const {
    return where(dropout.kept(i * config.m, config.m, j * config.n, config.n), grow, 0.0f);
  }
};

} // namespace sectile::blockwise
