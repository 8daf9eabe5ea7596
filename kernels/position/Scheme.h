// Attention whose scores depend on positions, as device functions over one block of one head: the
// forward pass and the two halves of the backward pass. A scheme says what the operands are, what
// scores they give, and where a gradient of the scores goes:
//
//   queries(block, part), keys(block, part)       operands, positions already in them
//   scores(own, other, i, j, part)                [rows of own, rows of other], in units of log 2;
//                                                 i and j broadcast
//   noQueries(), noKeys()                         zeros to accumulate gradients of operands in
//   accumulate(total, slope, other, i, j, part)   adds to them, of the gradient of the scores, all
//                                                 but the scale
//   keyRuns(row, range), queryRuns(row, range)    blocks in which it does the same work
#pragma once
#include "kernels/attention/Band.h"
#include "kernels/attention/OnlineSoftmax.h"
#include <functional>
#include <sectile/sectile.h>
#include <vector>

namespace sectile::scheme {

using blockwise::Band;
using blockwise::BandBlock;

// Which of a scheme's products a run of blocks needs.
enum class Part { both, near, far };
struct Run {
  Int first, end; // blocks, or steps of a list of them
  Part part = Part::both;
  std::function<Int(const Int &)> blockOf = nullptr; // of a step, where they are not the same

  Int block(const Int &step) const { return blockOf ? blockOf(step) : step; }
};

// m queries and n keys of a block, D padded to `width`.
struct Extents {
  int m, n, width;
};

inline Tile<Index> rowNumbers(const Int &block, int extent) {
  return block * extent + arange(0, extent);
}

// One head's queries: v [Sk, D], o [Sq, D], lse [Sq].
template <class T, class Scheme>
void attend(const Scheme &scheme, const Band &band, const Extents &extents, const Int &block,
            const View<const T, 2> &v, const View<T, 2> &o, const View<float, 1> &lse) {
  const int m = extents.m, n = extents.n, width = extents.width;
  const auto queries = scheme.queries(block, Part::both);
  const auto values = v.tile(n, width);
  const auto i = expand(rowNumbers(block, m), 1);
  blockwise::OnlineSoftmax softmax(m, width);
  const std::vector<Run> runs = scheme.keyRuns(block * m, band.keyBlocks(block * m, m, n));
  // Of several loops the last alone would have a dot in flight, and sm_90a's assembler then
  // serializes all of them.
  const LoopOptions options{.disallow_acc_multi_buffer = runs.size() > 1};
  for (const Run &run : runs)
    for (auto number : range(run.first, run.end, options)) {
      const Int step = run.block(number);
      const auto j = expand(rowNumbers(step, n), 0);
      const auto keys = scheme.keys(step, run.part);
      const auto scores = scheme.scores(queries, keys, i, j, run.part);
      const BandBlock here{band, block * m, m, step * n, n};
      auto weights = softmax.weigh(here.hide(scores, -blockwise::infinity));
      softmax.add(cast<T>(weights), values.load(step, 0), Precision::ieee);
    }
  o.tile(m, width).store(block, 0, softmax.result());
  lse.tile(m).store(block, softmax.logarithm());
}

// What scores of rows with these logarithms are relative to; nothing has a weight in a row that saw
// nothing.
inline Tile<float> baseOf(const Tile<float> &lse) {
  return where(lse == -blockwise::infinity, blockwise::infinity, lse * blockwise::log2e);
}
inline Tile<float> weight(const Tile<float> &scores, const BandBlock &block,
                          const Tile<float> &base) {
  return exp2(block.hide(scores, -blockwise::infinity) - base);
}

// Gradients of one head's queries, and for the keys' half delta = sum of o times its gradient.
template <class T, class Scheme>
auto queryGradients(const Scheme &scheme, const Band &band, const Extents &extents,
                    const Int &block, const View<const T, 2> &v, const View<const T, 2> &o,
                    const View<const T, 2> &dO, const View<const float, 1> &lse,
                    const View<float, 1> &deltas) {
  const int m = extents.m, n = extents.n, width = extents.width;
  const auto queries = scheme.queries(block, Part::both);
  const auto values = v.tile(n, width);
  const auto i = expand(rowNumbers(block, m), 1);
  const auto slope = dO.tile(m, width).load(block, 0);
  const auto delta = sum(cast<float>(slope) * cast<float>(o.tile(m, width).load(block, 0)), 1);
  deltas.tile(m).store(block, delta);
  const auto base = expand(baseOf(lse.tile(m).load(block)), 1);
  auto total = scheme.noQueries();
  for (const Run &run : scheme.keyRuns(block * m, band.keyBlocks(block * m, m, n)))
    for (auto number : range(run.first, run.end)) {
      const Int step = run.block(number);
      const auto j = expand(rowNumbers(step, n), 0);
      const auto keys = scheme.keys(step, run.part);
      const auto scores = scheme.scores(queries, keys, i, j, run.part);
      const auto p = weight(scores, BandBlock{band, block * m, m, step * n, n}, base);
      const auto dp = dot(slope, trans(values.load(step, 0)), zeros<float>(m, n), Precision::ieee);
      scheme.accumulate(total, p * (dp - expand(delta, 1)), keys, i, j, run.part);
    }
  return total;
}

// Of the queries of one head, what the gradients of a block of keys and values get.
template <class T, class Scheme, class Operands, class Totals>
void keyGradients(const Scheme &scheme, const Band &band, const Extents &extents, const Int &block,
                  const Operands &keys, const Tile<T> &values, const View<const T, 2> &dO,
                  const View<const float, 1> &lse, const View<const float, 1> &deltas,
                  Totals &keyTotal, Tile<float> &valueTotal) {
  const int m = extents.m, n = extents.n, width = extents.width;
  const auto j = expand(rowNumbers(block, n), 1);
  for (const Run &run : scheme.queryRuns(block * n, band.queryBlocks(block * n, n, m)))
    for (auto number : range(run.first, run.end)) {
      const Int step = run.block(number);
      const auto i = expand(rowNumbers(step, m), 0);
      const auto queries = scheme.queries(step, run.part);
      const auto scores = scheme.scores(keys, queries, i, j, run.part);
      const BandBlock here{band, step * m, m, block * n, n, true, true};
      const auto p = weight(scores, here, expand(baseOf(lse.tile(m).load(step)), 0));
      const auto slope = dO.tile(m, width).load(step, 0);
      valueTotal = dot(cast<T>(p), slope, valueTotal, Precision::ieee);
      const auto dp = dot(values, trans(slope), zeros<float>(n, m), Precision::ieee);
      const auto delta = expand(deltas.tile(m).load(step), 0);
      scheme.accumulate(keyTotal, p * (dp - delta), queries, i, j, run.part);
    }
}

} // namespace sectile::scheme
