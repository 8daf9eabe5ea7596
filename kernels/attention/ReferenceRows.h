// Attention on the host row by row, whatever is made of the scores: which rows of the arrays each
// sequence has, scores with every option, sums over values, and their gradients.
#pragma once
#include "kernels/attention/References.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include "kernels/references/ReferencePhilox.h"
#include <array>
#include <cmath>
#include <limits>

namespace sectile {

// An element's or a row's place in a container.
inline std::size_t at(std::int64_t place) { return static_cast<std::size_t>(place); }

// A query of a head of a sequence.
struct ReferenceQuery {
  std::int64_t sequence, head, number;
};

template <class Numbers> struct ReferenceProblem {
  using Number = typename Numbers::Number;
  static constexpr Number infinity = std::numeric_limits<Number>::infinity();

  const Numbers &numbers;
  const ReferenceLayout &layout;
  const AttentionSettings &settings;
  const HostArray &q, &k, &v;
  Number scale = static_cast<Number>(
      settings.scale.value_or(1 / std::sqrt(static_cast<double>(q.shape.back()))));
  std::vector<Number> bias = numbers.load(settings.bias ? *settings.bias : HostArray()),
                      sinks = numbers.load(settings.sinks ? *settings.sinks : HostArray());

  // An operand of a product, as its multipliers see it.
  Number operand(double given) const {
    const auto value = static_cast<Number>(given);
    if constexpr (std::is_same_v<Number, float>)
      return settings.tf32 ? truncateToTf32(value) : value;
    else
      return value;
  }
  std::vector<Number> operands(const std::vector<double> &row) const {
    std::vector<Number> values;
    for (const double value : row)
      values.push_back(operand(value));
    return values;
  }

  // How far key j lies before a query.
  std::int64_t distance(const ReferenceQuery &of, std::int64_t j) const {
    return of.number + layout.keys[at(of.sequence)] - layout.queries[at(of.sequence)] - j;
  }
  bool sees(const ReferenceQuery &of, std::int64_t j) const {
    const std::int64_t before = distance(of, j);
    const auto has = [&](const HostArray *mask, std::int64_t rows, std::int64_t columns) {
      return !mask || mask->as<bool>()[place(*mask, of, j, rows, columns)];
    };
    return !((settings.causal && before < 0) || (settings.left >= 0 && before > settings.left) ||
             (settings.right >= 0 && -before > settings.right)) &&
           has(settings.mask, 1, 1) &&
           has(settings.blockMask, settings.blockQueries, settings.blockKeys) &&
           (!layout.sees || layout.sees(of.sequence, of.number, j));
  }
  // Of [1|B, 1|Hq, Sq, Sk] or [1|Hq, Tq, Mk], or of rows and columns that are blocks of those.
  std::size_t place(const HostArray &array, const ReferenceQuery &of, std::int64_t j,
                    std::int64_t rows = 1, std::int64_t columns = 1) const {
    const Shape &shape = array.shape;
    const std::size_t last = shape.size() - 1;
    const std::int64_t b = last < 3 || shape[0] == 1 ? 0 : of.sequence,
                       h = shape[last - 2] == 1 ? 0 : of.head,
                       i = (last < 3 ? layout.firstQuery[at(of.sequence)] : 0) + of.number;
    return at(((b * shape[last - 2] + h) * shape[last - 1] + i / rows) * shape[last] + j / columns);
  }
  std::span<const Number> sinksOf(std::int64_t head) const {
    if (!settings.sinks)
      return {};
    const std::size_t each = at(settings.sinks->shape[1]);
    return {sinks.data() + (settings.sinks->shape[0] == 1 ? 0 : at(head) * each), each};
  }

  // What dropout multiplies a weight by.
  Number kept(const ReferenceQuery &of, std::int64_t j) const {
    if (settings.dropout == 0)
      return 1;
    const std::int64_t i = of.number;
    const auto words =
        philoxWords(settings.seed,
                    {static_cast<std::uint32_t>(j / 32 * 8 + j % 8),
                     static_cast<std::uint32_t>(i / 16 * 8 + i % 8),
                     static_cast<std::uint32_t>(of.head), static_cast<std::uint32_t>(of.sequence)},
                    7);
    const std::uint32_t word = words[at(j / 8 % 4)], threshold = weightThreshold(settings.dropout);
    return (i / 8 % 2 ? word : word << 16) >= threshold
               ? static_cast<Number>(1 / (1 - threshold * 0x1p-32))
               : 0;
  }
};

// One sequence's keys and values of one head, and the scores of the queries that share them.
template <class Numbers> class ReferenceHead {
public:
  using Problem = ReferenceProblem<Numbers>;
  using Number = typename Problem::Number;

  // Queries and keys, and those of far pairs.
  struct Operands {
    const HostArray &q;
    std::vector<Number> k, kt; // [Sk, D], [D, Sk]
  };
  std::vector<Operands> sets;
  std::vector<Number> v;
  const std::int64_t sequence, kvHead, group, queries, keys, width;

  ReferenceHead(const ReferenceProblem<Numbers> &problem, std::int64_t sequence,
                std::int64_t kvHead)
      : sequence(sequence), kvHead(kvHead), group(problem.layout.heads / problem.layout.kvHeads),
        queries(problem.layout.queries[at(sequence)]), keys(problem.layout.keys[at(sequence)]),
        width(problem.q.shape.back()), problem(problem) {
    v = rows(problem.v);
    add(problem.q, problem.k);
    if (problem.settings.farKeys)
      add(*problem.settings.farQueries, *problem.settings.farKeys);
  }

  ReferenceQuery query(std::int64_t number) const {
    return {sequence, kvHead * group + number / queries, number % queries};
  }
  std::size_t setOf(const ReferenceQuery &of, std::int64_t j) const {
    const AttentionSettings &settings = problem.settings;
    return settings.farKeys && std::abs(problem.distance(of, j)) >= settings.far ? 1 : 0;
  }

  // The scores of a query, -inf where a key is hidden, and what a change of the scaled product
  // changes each by.
  struct Row {
    std::vector<std::vector<Number>> q; // of each set
    std::vector<Number> scores, slopes;
  };
  Row row(const ReferenceQuery &of) const {
    Row row{{}, std::vector<Number>(at(keys)), std::vector<Number>(at(keys), 1)};
    // k is transposed, so that this goes along memory.
    for (std::size_t set = 0; set < sets.size(); ++set) {
      const auto &query = row.q.emplace_back(problem.operands(
          rowOf(sets[set].q, problem.layout.query.of(of.sequence, of.head, of.number))));
      for (std::int64_t d = 0; d < width; ++d) {
        const Number *line = sets[set].kt.data() + d * keys;
        for (std::int64_t j = 0; j < keys; ++j)
          if (sets.size() == 1 || setOf(of, j) == set)
            row.scores[at(j)] += query[at(d)] * line[j];
      }
    }
    for (std::int64_t j = 0; j < keys; ++j)
      finish(of, j, row.scores[at(j)], row.slopes[at(j)]);
    return row;
  }

private:
  // From a product to its score.
  void finish(const ReferenceQuery &of, std::int64_t j, Number &score, Number &slope) const {
    const AttentionSettings &settings = problem.settings;
    const auto number = [](double value) { return static_cast<Number>(value); };
    const auto store = [&](Number value) { return problem.numbers.store(value); };
    score = store(store(score) * problem.scale);
    if (settings.near) {
      const auto &[base, peak, decay] = *settings.near;
      const std::int64_t away = std::abs(problem.distance(of, j));
      slope =
          store(number(base) + number(peak) * std::exp(number(-decay) * static_cast<Number>(away)));
      score = store(score * slope);
    }
    if (settings.modified) {
      const auto [value, change] =
          settings.modified(static_cast<double>(score), of.sequence, of.head, of.number, j);
      score = store(number(value));
      slope = store(number(change));
    }
    if (settings.cap > 0) {
      const Number cap = number(settings.cap), t = store(std::tanh(score / cap));
      score = store(cap * t);
      slope *= store(1 - t * t);
    }
    if (settings.bias)
      score = store(score + problem.bias[problem.place(*settings.bias, of, j)]);
    if (!problem.sees(of, j))
      score = -Problem::infinity;
  }
  std::vector<Number> rows(const HostArray &array) const {
    std::vector<Number> all;
    for (std::int64_t j = 0; j < keys; ++j) {
      const auto row = problem.operands(problem.layout.keyRow(array, sequence, kvHead, j));
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }
  void add(const HostArray &q, const HostArray &k) {
    Operands &set = sets.emplace_back(Operands{q, rows(k), {}});
    set.kt.resize(set.k.size());
    for (std::int64_t j = 0; j < keys; ++j)
      for (std::int64_t d = 0; d < width; ++d)
        set.kt[at(d * keys + j)] = set.k[at(j * width + d)];
  }

  const Problem &problem;
};

template <class Number>
Number *rowIn(std::vector<Number> &all, std::int64_t row, std::size_t width) {
  return all.data() + at(row) * width;
}

// The sums of values, and a number for each row. weigh(query, scores) gives that number, and turns
// scores into weights; of a row with -inf there are none.
template <class Numbers, class Weigh>
AttentionResult weightedValues(const ReferenceProblem<Numbers> &problem, Weigh &&weigh) {
  using Number = typename Numbers::Number;
  const ReferenceLayout &layout = problem.layout;
  const std::size_t width = at(layout.valueWidth);
  Shape shape = problem.q.shape;
  shape.back() = layout.valueWidth;
  std::vector<Number> output(at(elementCount(shape))), statistics(at(elementCount(layout.logs)));
  for (std::int64_t s = 0; s < layout.count(); ++s)
    for (std::int64_t kvHead = 0; kvHead < layout.kvHeads; ++kvHead) {
      const ReferenceHead head(problem, s, kvHead);
      parallelFor(head.group * head.queries, [&](std::int64_t number) {
        const ReferenceQuery of = head.query(number);
        std::vector<Number> weights = head.row(of).scores;
        const Number statistic = weigh(of, weights);
        statistics[at(layout.logarithm.of(s, of.head, of.number))] = statistic;
        if (statistic == -problem.infinity) // nothing to attend
          return;
        Number *to = rowIn(output, layout.query.of(s, of.head, of.number), width);
        for (std::int64_t j = 0; j < head.keys; ++j) {
          if (!problem.sees(of, j))
            continue;
          const Number weight = problem.operand(problem.numbers.store(weights[at(j)]));
          const Number *value = head.v.data() + at(j) * width;
          for (std::size_t d = 0; d < width; ++d)
            to[d] += weight * value[d];
        }
      });
    }
  return {problem.numbers.pack(problem.numbers.result, shape, output),
          problem.numbers.pack(problem.numbers.statistics, layout.logs, statistics)};
}

template <class Number> struct ReferenceSlopes {
  std::array<std::vector<Number>, 2> dq, dk; // of the operands, and of those of far pairs
  std::vector<Number> dv;
  // Of the scores: for each head of the keys of each sequence, [group, Sq, Sk]. Only if kept.
  std::vector<std::vector<Number>> ofScores;
};

// slopesOf(query, scores, weights, slopes) is given a row's scores and, as slopes, the products of
// dO and v, and makes of both its weights and the gradients of its scores; false: it has none.
template <class Numbers, class SlopesOf>
ReferenceSlopes<typename Numbers::Number> scoreGradients(const ReferenceProblem<Numbers> &problem,
                                                         const HostArray &dO, bool keeps,
                                                         SlopesOf &&slopesOf) {
  using Number = typename Numbers::Number;
  using Values = std::vector<Number>;
  const ReferenceLayout &layout = problem.layout;
  const auto store = [&](Number value) { return problem.numbers.store(value); };
  ReferenceSlopes<Number> result;
  for (std::size_t set = 0; set < (problem.settings.farKeys ? 2u : 1u); ++set) {
    result.dq[set].resize(at(problem.q.count()));
    result.dk[set].resize(at(problem.k.count()));
  }
  result.dv.resize(at(problem.v.count()));
  const std::int64_t heads = layout.count() * layout.kvHeads;
  result.ofScores.resize(at(heads));
  parallelFor(heads, [&](std::int64_t number) {
    const ReferenceHead head(problem, number / layout.kvHeads, number % layout.kvHeads);
    const std::size_t width = at(head.width), valueWidth = at(layout.valueWidth);
    for (std::int64_t member = 0; member < head.group * head.queries; ++member) {
      const ReferenceQuery of = head.query(member);
      const std::int64_t row = layout.query.of(of.sequence, of.head, of.number);
      const auto own = head.row(of);
      const Values out = problem.operands(rowOf(dO, row));
      Values weights(own.scores.size()), ds(own.scores.size());
      for (std::size_t j = 0; j < ds.size(); ++j)
        // Against the order of sums over o * dO: where a row sees one key the two are one sum, and
        // in one order their rounding errors would cancel, which no kernel that has those sums from
        // a pass of its own meets.
        for (std::size_t d = valueWidth; own.scores[j] != -problem.infinity && d-- > 0;)
          ds[j] += out[d] * head.v[j * valueWidth + d];
      const bool has = slopesOf(of, own.scores, weights, ds);
      for (std::size_t j = 0; j < ds.size(); ++j) {
        const bool counts = has && own.scores[j] != -problem.infinity;
        if (keeps)
          result.ofScores[at(number)].push_back(counts ? ds[j] : 0);
        if (!counts)
          continue;
        const auto key = static_cast<std::int64_t>(j);
        const std::int64_t keyRow = layout.key.of(of.sequence, head.kvHead, key);
        const std::size_t set = head.setOf(of, key);
        const Number weight = problem.operand(store(weights[j])),
                     dx = problem.operand(store(ds[j] * own.slopes[j]));
        Number *dv = rowIn(result.dv, keyRow, valueWidth), *dq = rowIn(result.dq[set], row, width),
               *dk = rowIn(result.dk[set], keyRow, width);
        for (std::size_t d = 0; d < valueWidth; ++d)
          dv[d] += weight * out[d];
        for (std::size_t d = 0; d < width; ++d) {
          dq[d] += dx * head.sets[set].k[j * width + d];
          dk[d] += dx * own.q[set][d];
        }
      }
    }
  });
  for (Values *scaled : {&result.dq[0], &result.dq[1], &result.dk[0], &result.dk[1]})
    for (Number &value : *scaled)
      value *= problem.scale;
  return result;
}

} // namespace sectile
