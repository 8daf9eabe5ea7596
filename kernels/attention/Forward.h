// The forward pass over one block of queries, for whatever kernel finds that block.
#pragma once
#include "kernels/attention/Scores.h"
#include <functional>
#include <optional>

namespace sectile::blockwise {

// Keys [n, width] and values [n, valueWidth] of a block, from wherever they are loaded; where those
// are numbers with scales, the scales, [n] or one for all.
template <class T> struct BlockOperands {
  std::function<Tile<T>()> keys, values;
  std::function<Tile<float>()> keyScales = {}, valueScales = {};
  // Products [m, n] of columns that keys and queries have besides; those that the keys' scales do
  // not hold for.
  std::function<Tile<float>()> otherProducts = {}, unscaledProducts = {};
  // [n]: which keys there are. Others are hidden.
  std::function<Bool()> present = {};
};

// Numbers of keys, [n] or one for all, beside scores.
inline Tile<float> alongKeys(const Tile<float> &x) { return x.rank() ? expand(x, 0) : x; }

// Has the softmax take in blocks of keys and values as block `block` of the rows sees them, whose
// queries are [m, width]; operandsOf(j) has those of block j.
//
// With `overlap` the weights of a step meet their values one step later, as in FlashAttention-3
// (Shah et al., arXiv 2407.08608, 3.2): that product runs beside the softmax of its own step.
//
//   matrix units   Q K(i)   P(i-1) V(i-1)   Q K(i+1)   P(i) V(i)
//   threads                 softmax(i)                 softmax(i+1)
//
// A producer partition copies keys and values, so that the warpgroups do not wait for each other.
// The first step multiplies zeros then: rows of few steps are not delayed.
template <class T, class OperandsOf>
void takeIn(OnlineSoftmax &softmax, const Tile<T> &query, const Int &block, const Visits &steps,
            OperandsOf &&operandsOf, const Scores &scores, const LoopOptions &how) {
  const LoopConfig &config = scores.config;
  const Precision precision = precisionOf(config);
  for (auto step : range(steps.first, steps.end, how)) {
    const Int j = steps.block(step);
    const BlockOperands<T> of = operandsOf(j);
    auto products =
        dot(query, trans(of.keys()),
            of.otherProducts ? of.otherProducts() : zeros<float>(config.m, config.n), precision);
    if (of.keyScales)
      products = products * alongKeys(of.keyScales());
    if (of.unscaledProducts)
      products = products + of.unscaledProducts();
    auto scored = scores.scored(products, block, j, steps, false).scores;
    if (of.present)
      scored = where(expand(of.present(), 0), scored, -infinity);
    Tile<float> weights;
    if (of.valueScales) {
      const auto by = softmax.rescale(of.valueScales());
      weights = softmax.weigh(scored, by.ofOutput) * alongKeys(by.ofWeights);
    } else {
      weights = softmax.weigh(scored);
    }
    if (config.dropout)
      weights = where(scores.kept(block, j), weights, 0.0f);
    softmax.add(cast<T>(weights), of.values(), precision);
  }
}

// The same of one head's keys, k [Sk, D], and values, v [Sk, Dv].
template <class T>
void takeIn(OnlineSoftmax &softmax, const Tile<T> &query, const Int &block, const Visits &steps,
            const View<const T, 2> &k, const View<const T, 2> &v, const Scores &scores) {
  const LoopConfig &config = scores.config;
  takeIn(softmax, query, block, steps,
         [&](const Int &j) -> BlockOperands<T> {
           return {[&, j] { return k.tile(config.n, config.width).load(j, 0); },
                   [&, j] { return v.tile(config.n, config.valueWidth).load(j, 0); }};
         },
         scores,
         {.warp_specialize = config.overlap,
          .disallow_acc_multi_buffer = config.overlap && !config.delayed});
}

// The softmax that a block's rows begin with.
inline OnlineSoftmax softmaxFor(const Scores &scores) {
  return {scores.config.m, scores.config.valueWidth, scores.unit()};
}

inline Tile<float> outputOf(const OnlineSoftmax &softmax, const Scores &scores) {
  auto output = softmax.result();
  return scores.config.dropout ? output * scores.numbers.dropoutScale : output;
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
    softmax.absorb(scores.beside(sinkScores(sinks, config.sinks)));
  takeIn(softmax, query, block, scores.keys(block, false), k, v, scores);
  o.tile(m, config.valueWidth).store(block, 0, outputOf(softmax, scores));
  lse.tile(m).store(block, softmax.logarithm());
}

// Where rows of the queries of all heads that share keys lie: of views [heads, Sq, W].
struct PackedBlockRows {
  const LoopConfig &config;
  Int row;     // [m]
  Bool exists; // of views alike

  PackedBlockRows(const LoopConfig &config, const Int &block, const Int &queries)
      : config(config), row(block * config.m + arange(0, config.m)),
        exists(PackedRows{config.group}.query(row) < queries) {}

  template <class T> Tile<std::remove_const_t<T>> load(const View<T, 3> &view, int width) const {
    return sectile::load(view.ptr() + places(view, width), inside(view, width));
  }
  template <class T> void store(const View<T, 3> &view, const Tile<float> &x, int width) const {
    sectile::store(view.ptr() + places(view, width), x, inside(view, width));
  }

private:
  template <class Of> auto places(const Of &view, int width) const {
    return expand(PackedRows{config.group}.place(view, row), 1) +
           expand(cast<std::int64_t>(arange(0, width)) * view.stride(2), 0);
  }
  template <class Of> Bool inside(const Of &view, int width) const {
    return expand(exists, 1) && expand(arange(0, width) < view.extent(2), 0);
  }
};

// The same of a block whose rows are the queries of config.group heads that share keys, from that
// of the scores on, and of a part of the keys that it sees: q [Hq, Sq, D], o [Hq, Sq, Dv], lse [Hq,
// Sq] and sinks [Hq, R], which count in the first part. take(softmax, query) is to take in the
// part.
template <class T, class Out, class Take>
void attendPacked(const Int &block, const Bool &isFirst, const View<const T, 3> &q,
                  const View<Out, 3> &o, const View<float, 2> &lse, const Scores &scores,
                  const View<const float, 2> &sinks, Take &&take) {
  const LoopConfig &config = scores.config;
  const auto own = [&](const auto &view) {
    return view.slice(0, scores.sequence.head, config.group);
  };
  const PackedBlockRows rows(config, block, q.extent(1));
  auto query = rows.load(own(q), config.width);
  OnlineSoftmax softmax = softmaxFor(scores);
  if (config.sinks) {
    auto r = arange(0, config.sinks);
    softmax.absorb(scores.beside(
        load(own(sinks).ptr() +
                 expand(cast<std::int64_t>(rows.row % config.group) * sinks.stride(0), 1) +
                 expand(cast<std::int64_t>(r) * sinks.stride(1), 0),
             expand(rows.exists && isFirst, 1) && expand(r < sinks.extent(1), 0), -infinity)));
  }
  take(softmax, query);
  rows.store(own(o), outputOf(softmax, scores), config.valueWidth);
  store(own(lse).ptr() + PackedRows{config.group}.place(lse, rows.row), softmax.logarithm(),
        rows.exists);
}

// Of one head's keys, k [Sk, D], and values, v [Sk, Dv], one of so many parts.
template <class T, class Out>
void attendPart(const Int &block, const Int &part, const Int &parts, const View<const T, 3> &q,
                const View<const T, 2> &k, const View<const T, 2> &v, const View<Out, 3> &o,
                const View<float, 2> &lse, const Scores &scores,
                const View<const float, 2> &sinks) {
  attendPacked<T>(block, part == 0, q, o, lse, scores, sinks,
                  [&](OnlineSoftmax &softmax, const Tile<T> &query) {
                    takeIn(softmax, query, block, scores.keys(block, false).part(part, parts), k, v,
                           scores);
                  });
}

} // namespace sectile::blockwise
