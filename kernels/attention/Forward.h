// The forward pass over one block of queries, for whatever kernel finds that block.
#pragma once
#include "kernels/attention/Scores.h"

namespace sectile::blockwise {

// Has the softmax take in those blocks of one head's keys, k [Sk, D] and v [Sk, Dv], as block
// `block` of the rows sees them, whose queries are [m, width].
//
// With `overlap` the weights of a step meet their values one step later, as in FlashAttention-3
// (Shah et al., arXiv 2407.08608, 3.2): that product runs beside the softmax of its own step.
//
//   matrix units   Q K(i)   P(i-1) V(i-1)   Q K(i+1)   P(i) V(i)
//   threads                 softmax(i)                 softmax(i+1)
//
// Warps of their own copy keys and values, so that the warpgroups do not wait for each other.
template <class T>
void takeIn(OnlineSoftmax &softmax, const Tile<T> &query, const Int &block, const Visits &steps,
            const View<const T, 2> &k, const View<const T, 2> &v, const Scores &scores) {
  const LoopConfig &config = scores.config;
  const int m = config.m, n = config.n;
  const Precision precision = precisionOf(config);
  auto keyTiles = k.tile(n, config.width);
  auto valueTiles = v.tile(n, config.valueWidth);
  auto productsOf = [&](const Int &step) {
    return dot(query, trans(keyTiles.load(step, 0)), zeros<float>(m, n), precision);
  };
  auto weightsOf = [&](const Tile<float> &products, const Int &step) {
    auto weights = softmax.weigh(scores.scored(products, block, step, steps, false).scores);
    return cast<T>(config.dropout ? where(scores.kept(block, step), weights, 0.0f) : weights);
  };
  auto addValues = [&](const Tile<T> &weights, const Int &step) {
    softmax.add(weights, valueTiles.load(step, 0), precision);
  };
  for (auto step : range(steps.first, steps.end, {.warp_specialize = config.overlap}))
    addValues(weightsOf(productsOf(step), step), step);
}

// The softmax that a block's rows begin with.
inline OnlineSoftmax softmaxFor(const Scores &scores) {
  return {scores.config.m, scores.config.valueWidth, scores.unit()};
}

// All of it for a block of one head, q [Sq, D], o [Sq, Dv], lse [Sq], sinks [R].
template <class T, class Out>
void attend(const Int &block, const View<const T, 2> &q, const View<const T, 2> &k,
            const View<const T, 2> &v, const View<Out, 2> &o, const View<float, 1> &lse,
            const Scores &scores, const View<const float, 1> &sinks) {
  const LoopConfig &config = scores.config;
  const int m = config.m;
  auto query = q.tile(m, config.width).load(block, 0);
  OnlineSoftmax softmax = softmaxFor(scores);
  if (config.sinks)
    softmax.enter(scores.beside(sinkScores(sinks, config.sinks)));
  takeIn(softmax, query, block, scores.keys(block, false), k, v, scores);
  auto output = softmax.result();
  o.tile(m, config.valueWidth)
      .store(block, 0, config.dropout ? output * scores.numbers.grow : output);
  lse.tile(m).store(block, softmax.logarithm());
}

} // namespace sectile::blockwise
