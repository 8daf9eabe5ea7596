// The gradients of attention block by block: of queries, of keys and values, of the bias and of
// sinks. Each is summed in a fixed order, so that two runs give the same bits; but dq where the
// programs for dk and dv add to it.
#pragma once
#include "kernels/attention/Scores.h"

namespace sectile::blockwise {

// One query head: q [Sq, D], dO [Sq, Dv], and of each row [Sq] what rowStatistics makes. Where
// keyGradients sums dq as well, dqSums [Sq, D], to be scaled.
template <class T> struct QueryHead {
  View<const T, 2> q, dO;
  View<const float, 1> logs, delta;
  Scores scores;
  std::optional<View<float, 2>> dqSums = {};
};

// A block of queries as the gradients need it; statistics broadcast against a block of scores.
template <class T> struct QueryBlock {
  Tile<T> q, dO;
  Tile<float> logs, delta;

  // `waits`: for the launch that computes the statistics, after all other loads.
  QueryBlock(const QueryHead<T> &head, const Int &i, bool waits = false) {
    const LoopConfig &config = head.scores.config;
    const int axis = head.scores.keysFirst ? 0 : 1;
    q = head.q.tile(config.m, config.width).load(i, 0);
    dO = head.dO.tile(config.m, config.valueWidth).load(i, 0);
    if (waits)
      wait_dependencies();
    logs = expand(head.logs.tile(config.m).load(i), axis);
    delta = expand(head.delta.tile(config.m).load(i), axis);
  }
};

// Block i of the queries and block j of the keys: from products q k and dO v to the gradients of
// the scores. In two steps, so that a product with the weights can run beside the second.
template <class T> class BlockGradients {
public:
  BlockGradients(const Scores &scores, const QueryBlock<T> &query, const Tile<float> &products,
                 const Int &i, const Int &j, const Visits &visits)
      : scores(scores), at(scores.at(i, j)), visits(visits),
        block(scores.scored(products, i, j, visits, true, true)),
        p(exp2(fma(block.scores, scores.unit(), -query.logs))) {
    if (scores.config.dropout)
      dropped = scores.dropped(i, j);
  }

  // What values were weighted by.
  Tile<float> weights() const { return scores.config.dropout ? p * dropped : p; }

  // Of the scores that softmax took.
  Tile<float> ofScores(const QueryBlock<T> &query, const Tile<float> &valueProducts) const {
    return ofSeen(ofAll(query, valueProducts));
  }

  // Of the scaled products.
  Tile<float> ofProducts(const QueryBlock<T> &query, const Tile<float> &valueProducts) const {
    const auto gradients = ofAll(query, valueProducts);
    return ofSeen(block.modified ? block.modified->gradient(0, gradients).value_or(zeros_like(p))
                                 : gradients);
  }

private:
  Tile<float> ofAll(const QueryBlock<T> &query, const Tile<float> &valueProducts) const {
    return p * ((scores.config.dropout ? valueProducts * dropped : valueProducts) - query.delta);
  }
  // What is hidden may be anything, NaN too.
  Tile<float> ofSeen(const Tile<float> &x) const {
    return block.hides ? where(block.scores == -infinity, 0.0f, x)
                       : scores.hide(x, 0.0f, at, visits, true);
  }

  const Scores &scores;
  flash::At at;
  const Visits &visits;
  ScoredBlock block;
  Tile<float> p, dropped;
};

// Block i of dq [Sq, D]; k [Sk, D], v [Sk, Dv]. Of all that it reads, an earlier launch of the call
// may write the statistics alone.
template <class T>
void queryGradients(const Int &i, const QueryHead<T> &head, const View<const T, 2> &k,
                    const View<const T, 2> &v, const View<T, 2> &dq) {
  const LoopConfig &config = head.scores.config;
  const int m = config.m, n = config.n;
  const Precision precision = precisionOf(config);
  const QueryBlock<T> query(head, i, /*waits=*/true);
  auto keyTiles = k.tile(n, config.width), valueTiles = v.tile(n, config.valueWidth);
  auto sums = zeros<float>(m, config.width);
  const Visits visits = head.scores.keys(i, true);
  for (auto j : range(visits.first, visits.end, {.warp_specialize = config.overlap})) {
    auto key = keyTiles.load(j, 0);
    auto products = dot(query.q, trans(key), zeros<float>(m, n), precision);
    auto valueProducts = dot(query.dO, trans(valueTiles.load(j, 0)), zeros<float>(m, n), precision);
    const BlockGradients<T> gradients(head.scores, query, products, i, j, visits);
    sums = dot(cast<T>(gradients.ofProducts(query, valueProducts)), key, sums, precision);
  }
  dq.tile(m, config.width).store(i, 0, sums * head.scores.numbers.scale);
}

// Block j of dk [Sk, D] and dv [Sk, Dv]: sums over the `heads` query heads that share k and v.
// headAt(h) is the h-th of them, its scores with the keys first. Of all that it reads, earlier
// launches of the call may write the statistics alone.
template <class T, class Sum, class HeadAt>
void keyGradients(const LoopConfig &config, const Int &j, const View<const T, 2> &k,
                  const View<const T, 2> &v, const View<Sum, 2> &dk, const View<Sum, 2> &dv,
                  const Int &heads, const Float &scale, HeadAt &&headAt) {
  const int m = config.m, n = config.n;
  const Precision precision = precisionOf(config);
  auto key = k.tile(n, config.width).load(j, 0);
  auto value = v.tile(n, config.valueWidth).load(j, 0);
  wait_dependencies();
  auto keySums = zeros<float>(n, config.width), valueSums = zeros<float>(n, config.valueWidth);
  for (auto h : range(0, heads)) {
    const QueryHead<T> head = headAt(h);
    const Visits visits = head.scores.queries(j);
    for (auto i : range(visits.first, visits.end, {.warp_specialize = config.overlap})) {
      const QueryBlock<T> query(head, i);
      auto products = dot(key, trans(query.q), zeros<float>(n, m), precision);
      auto valueProducts = dot(value, trans(query.dO), zeros<float>(n, m), precision);
      const BlockGradients<T> gradients(head.scores, query, products, i, j, visits);
      const auto addValues = [&] {
        valueSums = dot(cast<T>(gradients.weights()), query.dO, valueSums, precision);
      };
      // In flight it runs beside what comes next. Where each product is waited for, the registers
      // are free sooner the other way round.
      if (config.overlap)
        addValues();
      auto ofProducts = cast<T>(gradients.ofProducts(query, valueProducts));
      if (!config.overlap)
        addValues();
      // The sums of dq are complete, and on their way, while the product for dk is in flight.
      Tile<float> querySums;
      if (head.dqSums)
        querySums = dot(trans(ofProducts), key, zeros<float>(m, config.width), precision);
      keySums = dot(ofProducts, query.q, keySums, precision);
      if (head.dqSums)
        head.dqSums->tile(m, config.width)
            .atomic_add(i, 0, querySums, {.order = MemoryOrder::relaxed});
    }
  }
  dk.tile(n, config.width).store(j, 0, keySums * scale);
  dv.tile(n, config.valueWidth).store(j, 0, valueSums);
}

// Adds one head's part of block (i, j) of the bias's gradient to sums.
template <class T>
void addBiasGradient(Tile<float> &sums, const Int &i, const Int &j, const QueryHead<T> &head,
                     const View<const T, 2> &k, const View<const T, 2> &v) {
  const LoopConfig &config = head.scores.config;
  const int m = config.m, n = config.n;
  const Precision precision = precisionOf(config);
  const Visits visits = head.scores.keys(i, true);
  when(visits.first <= j && j < visits.end, [&] {
    const QueryBlock<T> query(head, i);
    auto products =
        dot(query.q, trans(k.tile(n, config.width).load(j, 0)), zeros<float>(m, n), precision);
    auto valueProducts = dot(query.dO, trans(v.tile(n, config.valueWidth).load(j, 0)),
                             zeros<float>(m, n), precision);
    sums += BlockGradients<T>(head.scores, query, products, i, j, visits)
                .ofScores(query, valueProducts);
  });
}

// What the gradients need of each of `rows` rows: o and dO [S, Dv], lse [S]; delta [S], the sum of
// o * dO, and logs [S], lse in units of log 2. Rows that saw nothing give no weights.
template <class T>
void rowStatistics(const Int &block, int rows, int width, const View<const T, 2> &o,
                   const View<const T, 2> &dO, const View<const float, 1> &lse,
                   const View<float, 1> &delta, const View<float, 1> &logs) {
  auto product = cast<float>(o.tile(rows, width).load(block, 0)) *
                 cast<float>(dO.tile(rows, width).load(block, 0));
  delta.tile(rows).store(block, sum(product, 1));
  auto known = lse.tile(rows).load(block);
  logs.tile(rows).store(block, where(known == -infinity, infinity, known * log2e));
}

// Adds one head's part of its sinks' gradient to sums [count]. The difference of score and lse
// comes before the base 2: to scale each would round what all rows share, and sums would not even
// it out.
inline void addSinkGradients(Tile<float> &sums, const Tile<float> &scores, int rows,
                             const View<const float, 1> &lse, const View<const float, 1> &delta) {
  for (auto block : range(0, cdiv(lse.extent(0), rows))) {
    auto logs = lse.tile(rows).padding(-infinity).load(block);
    auto p = exp(expand(scores, 0) - expand(where(logs == -infinity, infinity, logs), 1));
    sums -= sum(p * expand(delta.tile(rows).load(block), 1), 0);
  }
}

} // namespace sectile::blockwise
