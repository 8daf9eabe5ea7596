// The forward pass over one block of one head's queries, for whatever kernel finds that block.
#pragma once
#include "kernels/attention/Scores.h"

namespace sectile::blockwise {

// Views of one head: q [Sq, D], k [Sk, D], v [Sk, Dv], o [Sq, Dv], lse [Sq]. Config has the extents
// m, n, width and valueWidth of a block and the flags of Scores, dropout, exact and sinks.
template <class T, class Config>
void attend(const Config &config, const Int &block, const View<const T, 2> &q,
            const View<const T, 2> &k, const View<const T, 2> &v, const View<T, 2> &o,
            const View<float, 1> &lse, const Scores<T, Config> &scores,
            const View<const float, 1> &sinks) {
  const int m = config.m, n = config.n;
  const Precision precision = config.exact ? Precision::ieee : Precision::tf32;
  auto query = q.tile(m, config.width).load(block, 0);
  auto keyTiles = k.tile(n, config.width);
  auto valueTiles = v.tile(n, config.valueWidth);

  OnlineSoftmax softmax(m, config.valueWidth);
  if (config.sinks)
    softmax.enter(sinkScores(sinks, config.sinks));
  const Band::Range visible = scores.band.keyBlocks(block * m, m, n);
  for (auto step :
       range(visible.first, visible.end, {.disallow_acc_multi_buffer = config.overlap == 1})) {
    auto products = dot(query, trans(keyTiles.load(step, 0)), zeros<float>(m, n), precision);
    auto weights = softmax.weigh(scores.masked(scores.capped(products), block, step, false));
    if (config.dropout)
      weights = weights * scores.dropped(block, step);
    softmax.add(cast<T>(weights), valueTiles.load(step, 0), precision);
  }
  o.tile(m, config.valueWidth).store(block, 0, softmax.result());
  lse.tile(m).store(block, softmax.logarithm());
}

} // namespace sectile::blockwise
