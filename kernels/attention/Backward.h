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
  // Which part of a learned operand's gradient a block of queries has: of packed sequences not that
  // of its number.
  std::optional<Int> part = {};
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
        p(exp2(scores.unit() ? fma(block.scores, *scores.unit(), -query.logs)
                             : block.scores - query.logs)) {
    if (scores.config.dropout)
      dropped = scores.dropped(i, j);
  }

  // What values were weighted by.
  Tile<float> weights() const { return scores.config.dropout ? p * dropped : p; }

  // Of the scores that softmax took.
  Tile<float> ofScores(const QueryBlock<T> &query, const Tile<float> &valueProducts) const {
    return maskedWhereHidden(ofAll(query, valueProducts));
  }

  // Of the scaled products.
  Tile<float> ofProducts(const QueryBlock<T> &query, const Tile<float> &valueProducts) const {
    const auto gradients = ofAll(query, valueProducts);
    return maskedWhereHidden(block.modified
                                 ? block.modified->gradient(0, gradients).value_or(zeros_like(p))
                                 : gradients);
  }

  // Of a learned operand, for each pair: of its slot.
  Tile<float> ofSlot(int slot, const QueryBlock<T> &query, const Tile<float> &valueProducts) const {
    return maskedWhereHidden(
        block.modified->gradient(slot, ofAll(query, valueProducts)).value_or(zeros_like(p)));
  }

private:
  Tile<float> ofAll(const QueryBlock<T> &query, const Tile<float> &valueProducts) const {
    return p * ((scores.config.dropout ? valueProducts * dropped : valueProducts) - query.delta);
  }
  // What is hidden may be anything, NaN too.
  Tile<float> maskedWhereHidden(const Tile<float> &x) const {
    return block.hides ? where(block.scores == -infinity, 0.0f, x)
                       : scores.mask(x, 0.0f, at, visits, true);
  }

  const Scores &scores;
  flash::At at;
  const Visits &visits;
  ScoredBlock block;
  Tile<float> p, dropped;
};

// Where a program's part of a learned operand's gradient goes.
inline View<float, 1> partsOf(const flash::LearnedUse &use, const Scores &scores,
                              const Int &program) {
  // Those of packed sequences are shared by all.
  const Int batch = minimum(scores.sequence.batch, use.parts.extent(0) - 1);
  return use.parts.at(batch, scores.sequence.head).at(program);
}

// The same of operands along queries or keys, of which packed sequences do not have all.
inline View<float, 1> partsOfRows(const flash::LearnedUse &use, const Scores &scores,
                                  const Int &rows) {
  const View<float, 1> all = partsOf(use, scores, 0);
  return all.slice(0, 0, minimum(all.extent(0), rows));
}

// Sums of a block's gradients [m, n] over its diagonals, for a table of distances. The steps over
// the keys are one after the other: a diagonal goes on in the next, and its sum is complete where
// it ends.
class DiagonalSums {
public:
  DiagonalSums(const Scores &scores, const flash::LearnedUse &use, const Int &i, const Int &part)
      : m(scores.config.m), n(scores.config.n), table(partsOf(use, scores, part)),
        start(i * m + scores.sequence.offset()), low(zeros<float>(n)), high(zeros<float>(n)) {
    for (int block = 0; block < (m + n - 1) / n; ++block)
      begun.push_back(zeros<float>(n));
    // Distances that the block does not have are in none of the steps.
    for (auto chunk : range(0, cdiv(table.extent(0), n)))
      table.tile(n).store(chunk, zeros<float>(n));
  }

  // Of block j of the keys, one behind that of the call before.
  void add(const Int &j, const Tile<float> &gradients) {
    // Row r turned by r places: column c then has diagonals c, c - n, c - 2 n, …
    const Int r = expand(arange(0, m), 1), c = expand(arange(0, n), 0), place = c + r;
    const Tile<float> turned = gather(gradients, place % n, 1);
    const int blocks = static_cast<int>(begun.size());
    std::vector<Tile<float>> sums;
    for (int block = 0; block <= blocks; ++block) {
      sums.push_back(sum(where(place / n == block, turned, 0.0f), 0));
      if (block > 0)
        sums.back() = sums.back() + begun[static_cast<std::size_t>(block - 1)];
    }
    complete(j - blocks, sums.back());
    for (std::size_t block = 0; block < begun.size(); ++block)
      begun[block] = sums[block];
  }

  // After the last block.
  void store(const Int &last) {
    for (std::size_t block = 0; block < begun.size(); ++block)
      complete(last - static_cast<int>(block), begun[block]);
    table.tile(1).store(0, expand(sum(low, 0), 0));
    table.tile(1).store(table.extent(0) - 1, expand(sum(high, 0), 0));
  }

private:
  // The diagonals that begin in block j of the keys. The ends of the table have all that are
  // farther.
  void complete(const Int &j, const Tile<float> &sums) {
    const Int last = table.extent(0) - 1;
    const Int entry = j * n + arange(0, n) - start + last / 2;
    low += where(entry <= 0, sums, 0.0f);
    high += where(entry >= last, sums, 0.0f);
    sectile::store(table.ptr() + cast<std::int64_t>(entry) * table.stride(0), sums,
                   entry > 0 && entry < last);
  }

  int m, n;
  View<float, 1> table; // [2 reach + 1]
  Int start;            // the key beside the block's first query
  std::vector<Tile<float>> begun;
  Tile<float> low, high;
};

// What a block of queries adds to the gradients of learned operands of heads, queries and
// distances.
class LearnedSums {
public:
  LearnedSums(const Scores &scores, const Int &i, const Int &part)
      : scores(scores), i(i), part(part) {
    for (const auto &[slot, use] : scores.modifier.learned)
      if (use.along == flash::Along::distances)
        diagonals.emplace(slot, DiagonalSums(scores, use, i, part));
      else if (use.along == flash::Along::heads || use.along == flash::Along::queries)
        rows.emplace(slot, Rows{use, zeros<float>(scores.config.m)});
  }

  // gradientOf(slot): [m, n], of block j of the keys.
  template <class GradientOf> void add(const Int &j, GradientOf &&gradientOf) {
    for (auto &[slot, of] : rows)
      of.sums += sum(gradientOf(slot), 1);
    for (auto &[slot, of] : diagonals)
      of.add(j, gradientOf(slot));
  }

  void store(const Int &last) {
    for (const auto &[slot, of] : rows)
      if (of.use.along == flash::Along::queries)
        partsOfRows(of.use, scores, scores.sequence.queries)
            .tile(scores.config.m)
            .store(i, of.sums);
      else
        partsOf(of.use, scores, part).tile(1).store(0, expand(sum(of.sums, 0), 0));
    for (auto &[slot, of] : diagonals)
      of.store(last);
  }

private:
  struct Rows {
    flash::LearnedUse use;
    Tile<float> sums; // [m]
  };

  const Scores &scores;
  Int i, part;
  std::map<int, Rows> rows;
  std::map<int, DiagonalSums> diagonals;
};

// Those of keys: of a block of keys and one query head, whose scores have keys first.
class LearnedKeySums {
public:
  LearnedKeySums(const Scores &scores, const Int &j) : scores(scores), j(j) {
    for (const auto &[slot, use] : scores.modifier.learned)
      if (use.along == flash::Along::keys)
        keys.emplace(slot, std::pair(use, zeros<float>(scores.config.n)));
  }
  template <class GradientOf> void add(GradientOf &&gradientOf) {
    for (auto &[slot, of] : keys)
      of.second += sum(gradientOf(slot), 1);
  }
  void store() const {
    for (const auto &[slot, of] : keys)
      partsOfRows(of.first, scores, scores.sequence.keys).tile(scores.config.n).store(j, of.second);
  }

private:
  const Scores &scores;
  Int j;
  std::map<int, std::pair<flash::LearnedUse, Tile<float>>> keys;
};

// Block i of dq [Sq, D]; k [Sk, D], v [Sk, Dv]. Of all that it reads, the launch ahead may write
// the statistics alone.
template <class T, class Sum>
void queryGradients(const Int &i, const QueryHead<T> &head, const View<const T, 2> &k,
                    const View<const T, 2> &v, const View<Sum, 2> &dq) {
  const LoopConfig &config = head.scores.config;
  const int m = config.m, n = config.n;
  const Precision precision = precisionOf(config);
  const QueryBlock<T> query(head, i, /*waits=*/true);
  auto keyTiles = k.tile(n, config.width), valueTiles = v.tile(n, config.valueWidth);
  auto sums = zeros<float>(m, config.width);
  const Visits visits = head.scores.keys(i, true);
  LearnedSums learned(head.scores, i, head.part.value_or(i));
  for (auto step : range(visits.first, visits.end, {.warp_specialize = config.overlap})) {
    const Int j = visits.block(step);
    auto key = keyTiles.load(j, 0);
    auto products = dot(query.q, trans(key), zeros<float>(m, n), precision);
    auto valueProducts = dot(query.dO, trans(valueTiles.load(j, 0)), zeros<float>(m, n), precision);
    const BlockGradients<T> gradients(head.scores, query, products, i, j, visits);
    sums = dot(cast<T>(gradients.ofProducts(query, valueProducts)), key, sums, precision);
    learned.add(j, [&](int slot) { return gradients.ofSlot(slot, query, valueProducts); });
  }
  learned.store(visits.end - 1);
  dq.tile(m, config.width).store(i, 0, sums * head.scores.numbers.scale);
}

// Block j of dk [Sk, D] and dv [Sk, Dv]: sums over the `heads` query heads that share k and v.
// headAt(h) is the h-th of them, its scores with the keys first. Of all that it reads, the launch
// ahead may write the statistics alone.
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
    LearnedKeySums learned(head.scores, j);
    for (auto step : range(visits.first, visits.end, {.warp_specialize = config.overlap})) {
      const Int i = visits.block(step);
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
      learned.add([&](int slot) { return gradients.ofSlot(slot, query, valueProducts); });
    }
    learned.store();
  }
  dk.tile(n, config.width).store(j, 0, keySums * scale);
  dv.tile(n, config.valueWidth).store(j, 0, valueSums);
}

// Adds one head's part of block (i, j) of the gradient of what pairs have to sums: of the learned
// operand of a slot, or else of a bias, which is added to the scores.
template <class T>
void addPairGradient(Tile<float> &sums, const Int &i, const Int &j, const QueryHead<T> &head,
                     const View<const T, 2> &k, const View<const T, 2> &v,
                     std::optional<int> slot = {}) {
  const LoopConfig &config = head.scores.config;
  const int m = config.m, n = config.n;
  const Precision precision = precisionOf(config);
  const Visits visits = head.scores.keys(i, true);
  when(visits.has(j), [&] {
    const QueryBlock<T> query(head, i);
    auto products =
        dot(query.q, trans(k.tile(n, config.width).load(j, 0)), zeros<float>(m, n), precision);
    auto valueProducts = dot(query.dO, trans(v.tile(n, config.valueWidth).load(j, 0)),
                             zeros<float>(m, n), precision);
    const BlockGradients<T> gradients(head.scores, query, products, i, j, visits);
    sums += slot ? gradients.ofSlot(*slot, query, valueProducts)
                 : gradients.ofScores(query, valueProducts);
  });
}

// A query head of a batch. rules are seeded.
template <class T>
QueryHead<T> queryHead(const LoopConfig &config, const flash::BackwardTensors<T> &of,
                       const Int &batch, const Int &head, const flash::ScoreRules &rules,
                       bool keysFirst = false) {
  return {of.q.at(batch, head), of.dO.at(batch, head), of.logs.at(batch, head),
          of.delta.at(batch, head),
          scoresOf<T>(config, {batch, head, of.q.extent(2), of.k.extent(2)}, rules, keysFirst)};
}

// A program per block of such a gradient sums over the batches and heads that share it.
template <class T, class Sum>
void pairGradients(const LoopConfig &config, const flash::BackwardTensors<T> &in,
                   const View<Sum, 4> &gradient, const flash::ScoreRules &given,
                   std::optional<int> slot = {}, bool adds = false) {
  const flash::ScoreRules rules = seeded(config, given);
  auto columns = cdiv(in.k.extent(2), config.n);
  auto i = program_id(0) / columns, j = program_id(0) % columns;
  auto batches = in.q.extent(0) / gradient.extent(0), heads = in.q.extent(1) / gradient.extent(1);
  const auto to = gradient.at(program_id(2), program_id(1)).tile(config.m, config.n);
  auto sums = adds ? cast<float>(to.load(i, j)) : zeros<float>(config.m, config.n);
  for (auto b : range(0, batches))
    for (auto h : range(0, heads)) {
      auto batch = program_id(2) * batches + b, head = program_id(1) * heads + h;
      const Int kvHead = head / rules.numbers.group;
      addPairGradient<T>(sums, i, j, queryHead(config, in, batch, head, rules),
                         in.k.at(batch, kvHead), in.v.at(batch, kvHead), slot);
    }
  to.store(i, j, sums);
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

// What rows of one head add to the gradient of its sinks, whose scores are [count]. The difference
// of score and lse comes before the base 2: to scale each would round what all rows share, and sums
// would not even it out.
inline Tile<float> sinkGradients(const Tile<float> &scores, int rows,
                                 const View<const float, 1> &lse,
                                 const View<const float, 1> &delta) {
  auto sums = zeros_like(scores);
  for (auto block : range(0, cdiv(lse.extent(0), rows))) {
    auto logs = lse.tile(rows).padding(-infinity).load(block);
    auto p = exp(expand(scores, 0) - expand(where(logs == -infinity, infinity, logs), 1));
    sums -= sum(p * expand(delta.tile(rows).load(block), 1), 0);
  }
  return sums;
}

} // namespace sectile::blockwise
