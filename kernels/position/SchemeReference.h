// Attention by positions on the host, forward and backward: the sets of queries and keys are given
// with their positions in them, and a rule says which set and which factor a pair of positions has.
#pragma once
#include "kernels/Parallel.h"
#include "kernels/ReferenceArithmetic.h"
#include "kernels/position/References.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace sectile {

template <class Numbers> class SchemeReference {
public:
  using Number = typename Numbers::Number;
  using Values = std::vector<Number>;

  const std::int64_t batches, heads, queries, width, kvHeads, keys;
  std::vector<Values> q, k; // of each set
  Values v;
  // Of a query's position and a key's.
  std::function<std::size_t(std::int64_t, std::int64_t)> set = [](auto, auto) { return 0; };
  std::function<Number(std::int64_t, std::int64_t)> factor = nullptr;
  // Whether a row sees a key besides; the numbers of one that it does not see have no part at all.
  std::function<bool(std::int64_t, std::int64_t)> shown = nullptr;

  SchemeReference(const Numbers &numbers, const HostArray &q, const HostArray &v,
                  const SchemeOptions &options)
      : batches(q.shape[0]), heads(q.shape[1]), queries(q.shape[2]), width(q.shape[3]),
        kvHeads(v.shape[1]), keys(v.shape[2]), v(numbers.load(v)), numbers(numbers),
        options(options) {}

  std::int64_t offset() const { return keys - queries; }

  // The outputs [B, Hq, Sq, D] and the logarithms [B, Hq, Sq].
  void forward(Values &output, Values &logs) const {
    output.assign(q[0].size(), 0);
    logs.assign(static_cast<std::size_t>(rows()), 0);
    parallelFor(rows(), [&](std::int64_t row) {
      Values p(static_cast<std::size_t>(keys));
      Number largest = -infinity, sum = 0;
      for (std::int64_t j = 0; j < keys; ++j)
        largest = largerOrNan(largest, p[at(j)] = score(row, j));
      if (largest == -infinity) {
        logs[at(row)] = -infinity;
        return;
      }
      for (Number &number : p)
        sum += number = std::exp(numbers.store(number - largest));
      logs[at(row)] = largest + std::log(sum);
      for (std::int64_t j = 0; j < keys; ++j) {
        if (!visible(row, j))
          continue;
        const Number weight = numbers.store(p[at(j)] / sum);
        for (std::int64_t d = 0; d < width; ++d)
          output[at(row * width + d)] += weight * v[at((keyRow(row, j)) * width + d)];
      }
    });
  }

  struct Gradients {
    std::vector<Values> q, k;
    Values v;
  };
  Gradients backward(const Values &output, const Values &logs, const Values &slope) const {
    Gradients result{std::vector<Values>(q.size(), Values(q[0].size())),
                     std::vector<Values>(k.size(), Values(v.size())), Values(v.size())};
    for (std::int64_t row = 0; row < rows(); ++row) {
      Number delta = 0;
      for (std::int64_t d = 0; d < width; ++d)
        delta += slope[at(row * width + d)] * output[at(row * width + d)];
      for (std::int64_t j = 0; j < keys && logs[at(row)] != -infinity; ++j) {
        if (!visible(row, j))
          continue;
        const Number p = numbers.store(std::exp(score(row, j) - logs[at(row)]));
        const std::size_t own = at(row * width), other = at(keyRow(row, j) * width);
        Number dp = 0;
        // Against delta's order, as in attention's reference.
        for (std::size_t d = at(width); d-- > 0;) {
          dp += slope[own + d] * v[other + d];
          result.v[other + d] += p * slope[own + d];
        }
        const Number ds =
            numbers.store(p * (numbers.store(dp) - delta)) * static_cast<Number>(options.scale);
        const Number change = numbers.store(factor ? ds * factor(position(row), j) : ds);
        const std::size_t which = set(position(row), j);
        for (std::size_t d = 0; d < at(width); ++d) {
          result.q[which][own + d] += change * k[which][other + d];
          result.k[which][other + d] += change * q[which][own + d];
        }
      }
    }
    return result;
  }

private:
  static constexpr Number infinity = std::numeric_limits<Number>::infinity();
  static std::size_t at(std::int64_t place) { return static_cast<std::size_t>(place); }

  // Rows are numbered over batches, heads and queries; keys likewise.
  std::int64_t rows() const { return batches * heads * queries; }
  std::int64_t position(std::int64_t row) const { return row % queries + offset(); }
  std::int64_t keyRow(std::int64_t row, std::int64_t j) const {
    const std::int64_t head = row / queries % heads, batch = row / queries / heads;
    return (batch * kvHeads + head / (heads / kvHeads)) * keys + j;
  }
  bool visible(std::int64_t row, std::int64_t j) const {
    const std::int64_t p = position(row);
    return !((shown && !shown(row, j)) || (options.causal && j > p) ||
             (options.left >= 0 && p - j > options.left) ||
             (options.right >= 0 && j - p > options.right));
  }
  Number score(std::int64_t row, std::int64_t j) const {
    if (!visible(row, j))
      return -infinity;
    const std::size_t which = set(position(row), j);
    const Number *query = q[which].data() + row * width,
                 *key = k[which].data() + keyRow(row, j) * width;
    Number sum = 0;
    for (std::int64_t d = 0; d < width; ++d)
      sum += query[d] * key[d];
    const Number scaled = numbers.store(numbers.store(sum) * static_cast<Number>(options.scale));
    return factor ? numbers.store(scaled * factor(position(row), j)) : scaled;
  }

  const Numbers &numbers;
  const SchemeOptions &options;
};

} // namespace sectile
