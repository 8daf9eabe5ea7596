// From the products of queries and keys to the scores that softmax takes: modified, hidden where a
// query does not see a key, and, by dropout, left out.
#pragma once
#include "kernels/attention/Band.h"
#include "kernels/attention/Dropout.h"
#include "kernels/attention/OnlineSoftmax.h"
#include <sectile/flash/loops.h>

namespace sectile::blockwise {

using flash::LoopConfig;

inline Precision precisionOf(const LoopConfig &config) {
  return config.exact ? Precision::ieee : Precision::tf32;
}

// With the seed that dropout draws by.
inline flash::ScoreRules seeded(const LoopConfig &config, flash::ScoreRules rules) {
  flash::Numbers &numbers = rules.numbers;
  if (config.seedOffset)
    numbers.seed = numbers.seed + cast<std::uint64_t>(load(numbers.seedOffset));
  return rules;
}

// Scores of sinks, [R] padded to `count`.
inline Tile<float> sinkScores(const View<const float, 1> &sinks, int count) {
  return sinks.tile(count).padding(-infinity).load(0);
}

// The blocks of keys that a block of queries sees any of, or the other way round, with the elements
// among them that all of it sees: from wholeFirst, if there is one, to wholeLast.
struct Visits {
  Int first, end; // blocks, or steps of a list; none where end <= first
  std::optional<Int> wholeFirst;
  Int wholeLast;
  Int firstSeen, endSeen; // elements that any of it sees: none before the one, or from the other on
  std::optional<flash::BlockList> list = {};

  Int block(const Int &step) const { return list ? list->blockOf(step) : step; }
  Bool has(const Int &block) const {
    return list ? list->has(block) : first <= block && block < end;
  }

  // One of so many parts, none of which is longer than another by more than a step.
  Visits part(const Int &number, const Int &parts) const {
    const Int count = maximum(end - first, 0), each = count / parts, longer = count % parts;
    Visits result = *this;
    result.first = first + number * each + minimum(number, longer);
    result.end = result.first + each + where(number < longer, Int(1), Int(0));
    return result;
  }

  // Those of elements from `from` up to, without it, `to`; blocks of `size` elements begin at both.
  Visits within(const Int &from, const Int &to, int size) const {
    Visits result = *this;
    result.first = maximum(first, from / size);
    result.end = minimum(end, cdiv(to, size));
    return result;
  }

  void restrictTo(std::optional<flash::BlockList> blocks) {
    list = std::move(blocks);
    if (list) {
      first = 0;
      end = list->count;
    }
  }

  Bool areWhole(const Int &from, int count) const {
    const Bool result = from + (count - 1) <= wholeLast;
    return wholeFirst ? result && from >= *wholeFirst : result;
  }
};

// The scores of a block; hidden ones are -inf. Times the unit, if there is one, they are in units
// of log 2.
struct ScoredBlock {
  Tile<float> scores;
  std::optional<flash::Score> modified; // with its derivatives, before any is hidden
  bool hides = false;                   // some may be -inf beside those that intervals hide
};

// One head's scores.
struct Scores : flash::ScoreRules {
  const LoopConfig &config;
  flash::Sequence sequence; // its head: the first of those that rows are of
  bool coarse = true;       // operands have 16 bits
  bool keysFirst = false;   // blocks are [n, m] instead of [m, n]

  // Scaled products are in units of log 2, so that the largest one less itself is 0 to the bit.
  std::optional<Float> unit() const {
    if (config.raw)
      return numbers.scale * log2e;
    return modifier.function ? std::optional<Float>(log2e) : std::nullopt;
  }
  // Scores that rows have beside those of their keys, as those are.
  Tile<float> beside(const Tile<float> &scores) const { return unit() ? scores : scores * log2e; }

  flash::At at(const Int &i, const Int &j) const {
    return {sequence, i * config.m, j * config.n, config.m, config.n, keysFirst, config.group};
  }

  // Of block i of the rows. withQueryGradient: rows behind the last query see nothing.
  Visits keys(const Int &i, bool withQueryGradient) const {
    const PackedRows packed{config.group};
    const Int first = packed.query(i * config.m), last = first + (packed.queries(config.m) - 1);
    const flash::Interval least = visibility.keysOf(sequence, first),
                          most = visibility.keysOf(sequence, last);
    Visits result = between(least, most, sequence.keys, config.n);
    result.restrictTo(visibility.keyBlocks(sequence, i));
    if (withQueryGradient)
      result.wholeLast = where(last < sequence.queries, result.wholeLast, -1);
    return result;
  }
  // Of block j of the keys.
  Visits queries(const Int &j) const {
    const Int first = j * config.n, last = first + (config.n - 1);
    const flash::Interval least = visibility.queriesOf(sequence, first),
                          most = visibility.queriesOf(sequence, last);
    Visits result = between(least, most, sequence.queries, config.m);
    result.restrictTo(visibility.queryBlocks(sequence, j));
    result.wholeLast = where(last < sequence.keys, result.wholeLast, -1);
    return result;
  }

  // Of products of queries and keys. differentiates: the result knows its derivative by slot 0.
  ScoredBlock scored(const Tile<float> &products, const Int &i, const Int &j, const Visits &visits,
                     bool withQueryGradient, bool differentiates = false) const {
    ScoredBlock result;
    result.scores = products;
    flash::At here = at(i, j);
    here.differentiates = differentiates;
    if (modifier.function) {
      const auto score = flash::Score::ofProducts(products, numbers.scale, coarse);
      result.modified = modifier.function(differentiates ? score.as(0) : score, here);
      // A lambda may leave out what it is given, and have less than a score for each pair.
      result.scores =
          broadcast_to(result.modified->value(), products.extent(0), products.extent(1));
      result.hides = modifier.hides;
    } else if (!config.raw) {
      result.scores = products * (numbers.scale * log2e);
    }
    auto hideUnseen = [&] {
      if (const std::optional<Bool> seen = visibility.sees(here)) {
        result.scores = where(*seen, result.scores, -infinity);
        result.hides = true;
      }
    };
    if (const std::optional<Bool> whole = visibility.isWhole(here))
      when(!*whole, hideUnseen);
    else
      hideUnseen();
    result.scores = mask(result.scores, -infinity, here, visits, withQueryGradient);
    return result;
  }

  // x with `hidden` in place of what intervals hide. Most blocks are wholly visible, and compare
  // nothing.
  Tile<float> mask(Tile<float> x, float hidden, const flash::At &here, const Visits &visits,
                   bool withQueryGradient) const {
    const auto whole =
        keysFirst ? visits.areWhole(here.row, config.m) : visits.areWhole(here.column, config.n);
    when(!whole, [&] {
      // One bound for each query, so that most pairs take one comparison.
      const Int query = here.query(), key = here.key();
      const flash::Interval seen = visibility.keysOf(sequence, query);
      Int last = sequence.keys - 1;
      if (seen.last)
        last = minimum(last, *seen.last);
      if (withQueryGradient)
        last = where(query < sequence.queries, last, -1);
      Bool visible = key <= last;
      if (seen.first)
        visible = visible && key >= *seen.first;
      x = where(visible, x, hidden);
    });
    return x;
  }

  // Whether dropout leaves a weight.
  Bool kept(const Int &i, const Int &j) const {
    const Dropout dropout{numbers.seed, numbers.threshold, sequence.batch, sequence.head};
    auto kept = dropout.kept(i * config.m, config.m, j * config.n, config.n);
    return keysFirst ? trans(kept) : kept;
  }
  // 0 where dropout takes a weight away, else 1 / (1 - p).
  Tile<float> dropped(const Int &i, const Int &j) const {
    return where(kept(i, j), numbers.dropoutScale, 0.0f);
  }

private:
  // least and most: of the first and the last of a block.
  static Visits between(const flash::Interval &least, const flash::Interval &most,
                        const Int &extent, int size) {
    Int firstSeen = 0, first = 0, end = extent;
    if (least.first) {
      firstSeen = maximum(0, *least.first);
      first = firstSeen / size;
    }
    if (most.last)
      end = minimum(extent, maximum(0, *most.last + 1));
    Int wholeLast = extent - 1;
    if (least.last)
      wholeLast = minimum(wholeLast, *least.last);
    return {first, cdiv(end, size), most.first, wholeLast, firstSeen, end};
  }
};

// Of operands T, with rules that are seeded where there is dropout.
template <class T>
Scores scoresOf(const LoopConfig &config, const flash::Sequence &sequence,
                const flash::ScoreRules &rules, bool keysFirst = false) {
  return {rules, config, sequence, sizeof(T) == 2, keysFirst};
}

} // namespace sectile::blockwise
