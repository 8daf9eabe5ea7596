// Score, At and visibilities of <sectile/flash.h>, as far as they are no templates.
#include <limits>
#include <sectile/approximate.h>
#include <sectile/flash/score.h>
#include <sectile/flash/visibility.h>

using namespace sectile;
using namespace sectile::flash;

Score::Score(float number) : base(number) {}
Score::Score(const Tile<float> &tile) : base(tile) {}

Tile<float> Score::value() const {
  if (!factor)
    return offset ? base + *offset : base;
  return offset ? fma(base, *factor, *offset) : base * *factor;
}

Score Score::ofProducts(const Tile<float> &products, const Float &scale, bool coarse) {
  Score result(products);
  result.factor = scale;
  result.coarse = coarse;
  return result;
}

Score Score::as(int slot) const {
  Score result = *this;
  result.slopes[slot] = {};
  return result;
}

std::optional<Tile<float>> Score::gradient(int slot, const Tile<float> &ofThis) const {
  const auto slope = slopes.find(slot);
  if (slope == slopes.end())
    return std::nullopt;
  return slope->second.of(ofThis);
}

Score::Slope Score::Slope::times(const Lazy &by) const {
  Slope result = *this;
  result.tile = tile ? Lazy([own = tile, by] { return own() * by(); }) : by;
  return result;
}

Tile<float> Score::Slope::of(const Tile<float> &gradient) const {
  Tile<float> result = gradient;
  if (tile)
    result = result * tile();
  if (factor)
    result = result * *factor;
  return result;
}

Score Score::withValue(const Tile<float> &result) const {
  Score score(result);
  score.coarse = coarse;
  return score;
}

bool Score::isNumber() const { return slopes.empty() && base.rank() == 0; }

// Times a number without slopes.
Score Score::scaled(const Float &number) const {
  Score result = *this;
  result.factor = factor ? *factor * number : number;
  if (offset)
    result.offset = *offset * number;
  for (auto &[slot, slope] : result.slopes)
    slope.factor = slope.factor ? *slope.factor * number : number;
  return result;
}

// Adds the slopes of another score, times `by` where there is one.
void Score::addSlopes(const Score &of, const Lazy &by) {
  coarse = coarse || of.coarse;
  for (const auto &[slot, own] : of.slopes) {
    const Slope slope = by ? own.times(by) : own;
    const auto [known, isNew] = slopes.try_emplace(slot, slope);
    if (!isNew)
      known->second = {[a = known->second, slope] { return a.of(1.0f) + slope.of(1.0f); }, {}};
  }
}

Score Score::plus(const Score &b) const {
  if (isNumber() && !b.isNumber())
    return b.plus(*this);
  if (b.isNumber()) {
    Score result = *this;
    result.offset = offset ? *offset + b.value() : b.value();
    return result;
  }
  // The factor of one of them is left for one operation with the other.
  Score result = withValue(factor && !offset ? fma(base, *factor, b.value()) : value() + b.value());
  result.addSlopes(*this);
  result.addSlopes(b);
  return result;
}

Score Score::times(const Score &b) const {
  if (b.isNumber())
    return scaled(b.value());
  if (isNumber())
    return b.scaled(value());
  Score result = withValue(value() * b.value());
  result.addSlopes(*this, [b] { return b.value(); });
  result.addSlopes(b, [a = *this] { return a.value(); });
  return result;
}

Score Score::over(const Score &b) const {
  const Score inverse = 1.0f / b.value();
  if (b.isNumber())
    return scaled(inverse.base);
  Score result = withValue(value() / b.value());
  result.addSlopes(*this, [=] { return inverse.base; });
  result.addSlopes(b, [=, quotient = result.base] { return -(quotient * inverse.base); });
  return result;
}

namespace sectile::flash {

Score tanh(const Score &x) {
  Score result = x.withValue(x.base);
  if (x.coarse) {
    // 1 - 2 / (1 + e^2x).
    result = x.withValue(fast_divide(1.0f, fast_exp(x.scaled(2.0f).value()) + 1.0f));
    result.factor = -2.0f;
    result.offset = 1.0f;
  } else {
    result = x.withValue(sectile::tanh(x.value()));
  }
  result.addSlopes(x, [t = result] {
    const Tile<float> value = t.value();
    return 1.0f - value * value;
  });
  return result;
}

Score soft_cap(const Score &x, const Float &cap) {
  Score inner = x.scaled(1.0f / cap);
  inner.slopes.clear();
  // The derivative is that of the result, so that nothing else of x needs registers.
  Score result = x.withValue(tanh(inner).scaled(cap).value());
  result.addSlopes(x, [value = result.base, cap] {
    const Tile<float> t = value * (1.0f / cap);
    return 1.0f - t * t;
  });
  return result;
}

Score sigmoid(const Score &x) {
  const Tile<float> grown =
      x.coarse ? fast_exp(x.scaled(-1.0f).value()) : sectile::exp(x.scaled(-1.0f).value());
  Score result = x.withValue(x.coarse ? fast_divide(1.0f, grown + 1.0f) : 1.0f / (grown + 1.0f));
  result.addSlopes(x, [value = result.base] { return value * (1.0f - value); });
  return result;
}

Score exp(const Score &x) {
  Score result = x.withValue(sectile::exp(x.value()));
  result.addSlopes(x, [value = result.base] { return value; });
  return result;
}

Score log(const Score &x) {
  const Tile<float> value = x.value();
  Score result = x.withValue(sectile::log(value));
  result.addSlopes(x, [value] { return 1.0f / value; });
  return result;
}

Score abs(const Score &x) {
  const Tile<float> value = x.value();
  Score result = x.withValue(sectile::abs(value));
  result.addSlopes(x, [value] {
    return sectile::where(value > 0.0f, 1.0f, sectile::where(value < 0.0f, -1.0f, 0.0f));
  });
  return result;
}

Score Score::chosen(const Bool &first, const Tile<float> &result, const Score &a, const Score &b) {
  Score score = a.withValue(result);
  score.addSlopes(a, [first] { return sectile::where(first, 1.0f, 0.0f); });
  score.addSlopes(b, [first] { return sectile::where(first, 0.0f, 1.0f); });
  return score;
}

Score maximum(const Score &a, const Score &b) {
  const Tile<float> x = a.value(), y = b.value();
  return Score::chosen(x >= y, sectile::maximum(x, y), a, b);
}
Score minimum(const Score &a, const Score &b) {
  const Tile<float> x = a.value(), y = b.value();
  return Score::chosen(x <= y, sectile::minimum(x, y), a, b);
}
Score where(const Bool &condition, const Score &a, const Score &b) {
  return Score::chosen(condition, sectile::where(condition, a.value(), b.value()), a, b);
}

} // namespace sectile::flash

Int At::head() const {
  if (heads == 1)
    return sequence.head;
  return sequence.head + expand((row + arange(0, rows)) % heads, keysFirst ? 0 : 1);
}
Int At::query() const {
  const Int numbers = row + arange(0, rows);
  return expand(heads == 1 ? numbers : numbers / heads, keysFirst ? 0 : 1);
}
Int At::key() const { return expand(column + arange(0, keys), keysFirst ? 1 : 0); }
Tile<float> At::distance() const { return cast<float>(query() + sequence.offset() - key()); }

// Entry reach + d is of keys d behind a query, up to those that are farther.
Tile<float> At::atDistance(const View<const float, 3> &table) const {
  const Int last = table.extent(2) - 1, reach = last / 2;
  const Int entry = clamp(key() - (query() + sequence.offset()) + reach, 0, last);
  return load(table.ptr() + place(table, 0, batch()) + place(table, 1, head()) +
              cast<std::int64_t>(entry) * table.stride(2));
}

Interval flash::meet(const Interval &a, const Interval &b) {
  Interval result = a;
  if (b.first)
    result.first = a.first ? maximum(*a.first, *b.first) : *b.first;
  if (b.last)
    result.last = a.last ? minimum(*a.last, *b.last) : *b.last;
  return result;
}

Interval flash::hull(const Interval &a, const Interval &b) {
  Interval result;
  if (a.first && b.first)
    result.first = minimum(*a.first, *b.first);
  if (a.last && b.last)
    result.last = maximum(*a.last, *b.last);
  return result;
}

Bool flash::within(const Interval &interval, const Int &number, const std::optional<Bool> &seen) {
  Bool result = seen ? *seen : Bool(true);
  if (interval.first)
    result = result && number >= *interval.first;
  if (interval.last)
    result = result && number <= *interval.last;
  return result;
}

namespace {

// Of a table of so many entries, or more; for others, of the nearest one.
Int entry(const View<const std::int32_t, 1> &table, const Int &at, const Int &count) {
  const Int within = clamp(at, 0, maximum(minimum(count, table.extent(0)) - 1, 0));
  return cast<Index>(load(table.ptr() + cast<std::int64_t>(within) * table.stride(0)));
}
// Of a table with one for each batch.
Int entry(const View<const std::int32_t, 1> &table, const Int &batch) {
  return entry(table, batch, table.extent(0));
}

} // namespace

// Behind the keys of a packed sequence tables have entries of longer ones, which say nothing of it.
Interval Documents::keysOf(const Sequence &sequence, const Int &query) const {
  const Int beside = query + sequence.offset();
  // A query before the first key is in no document.
  return {entry(starts.at(sequence.batch), beside, sequence.keys),
          where(beside < 0, -1, entry(ends.at(sequence.batch), beside, sequence.keys) - 1)};
}
Interval Documents::queriesOf(const Sequence &sequence, const Int &key) const {
  const Int offset = sequence.offset();
  return {entry(starts.at(sequence.batch), key, sequence.keys) - offset,
          entry(ends.at(sequence.batch), key, sequence.keys) - 1 - offset};
}

Interval Prefix::keysOf(const Sequence &sequence, const Int &query) const {
  return {{}, maximum(query + sequence.offset(), entry(lengths, sequence.batch) - 1)};
}
Interval Prefix::queriesOf(const Sequence &sequence, const Int &key) const {
  return {where(key < entry(lengths, sequence.batch), 0, key - sequence.offset()), {}};
}

Interval Chunked::keysOf(const Sequence &sequence, const Int &query) const {
  // Before the first key there are no chunks.
  const Int beside = query + sequence.offset(),
            first = where(beside < 0, -size, beside / size * size);
  return {first, first + (size - 1)};
}
Interval Chunked::queriesOf(const Sequence &sequence, const Int &key) const {
  const Int first = key / size * size - sequence.offset();
  return {first, first + (size - 1)};
}

Interval KeyLengths::keysOf(const Sequence &sequence, const Int &) const {
  return {{}, entry(lengths, sequence.batch) - 1};
}
// Every query sees the first keys, and none the others: no query lies behind all of them.
Interval KeyLengths::queriesOf(const Sequence &sequence, const Int &key) const {
  return {where(key < entry(lengths, sequence.batch), 0, sequence.queries), {}};
}

Bool MaskBlocks::at(const Int &batch, const Int &head, const Int &row, const Int &column,
                    int behind) const {
  const auto place = [&](int axis, const Int &wanted) {
    return cast<std::int64_t>(clamp(wanted, 0, maximum(mask.extent(axis) - 1, 0))) *
           mask.stride(axis);
  };
  return load(mask.ptr() + place(0, batch) + place(1, head) + place(2, row) + place(3, column) +
              behind);
}
Bool MaskBlocks::sees(const At &at) const {
  const auto ofPairs = [&] {
    return this->at(at.batch(), at.head(), at.query() / blockQ, at.key() / blockK);
  };
  if (at.heads > 1)
    return ofPairs();
  // Most tiles lie in one block.
  Bool seen = broadcast_to(this->at(at.batch(), at.head(), at.row / blockQ, at.column / blockK),
                           at.keysFirst ? at.keys : at.rows, at.keysFirst ? at.rows : at.keys);
  when(!isWhole(at), [&] { seen = ofPairs(); });
  return seen;
}
// It lies in one block, which is then there, if all of its heads have the same blocks.
Bool MaskBlocks::isWhole(const At &at) const {
  const auto query = [&](const Int &row) { return at.heads > 1 ? row / at.heads : row; };
  const Bool isOne = query(at.row) / blockQ == query(at.row + (at.rows - 1)) / blockQ &&
                     at.column / blockK == (at.column + (at.keys - 1)) / blockK;
  return at.heads > 1 ? isOne && mask.extent(1) == 1 : isOne;
}
Bool MaskBlocks::isFull(const At &at) const {
  const Int query = at.heads > 1 ? at.row / at.heads : at.row;
  return this->at(at.batch(), at.sequence.head, query / blockQ, at.column / blockK, 1);
}
Bool MaskBlocks::touches(const Region &region) const {
  const Int rows = region.firstQuery / blockQ, lastRow = region.lastQuery / blockQ,
            columns = region.firstKey / blockK, lastColumn = region.lastKey / blockK;
  const auto present = [&](const Int &row, const Int &column) {
    return cast<std::int32_t>(at(region.sequence.batch, region.sequence.head, row, column));
  };
  auto any = present(rows, columns);
  for (auto r : range(0, cdiv(Int(region.queries - 1), blockQ) + 1))
    for (auto c : range(0, cdiv(Int(region.keys - 1), blockK) + 1))
      any = any | present(minimum(rows + r, lastRow), minimum(columns + c, lastColumn));
  return any != 0;
}

Bool flash::overlap(const Interval &least, const Interval &most, const Region &region) {
  Bool result = region.firstKey <= region.lastKey && region.firstQuery <= region.lastQuery;
  if (least.first)
    result = result && region.lastKey >= *least.first;
  if (most.last)
    result = result && region.firstKey <= *most.last;
  return result;
}

BlockList BlockLists::of(const Int &batch, const Int &head, const Int &block) const {
  const auto list = lists + ((cast<std::int64_t>(batch) * heads + head) * blocks + block) * length;
  const auto number = [=](const Int &at) { return cast<Index>(load(list + at)); };
  return {number(0), [=](const Int &step) { return number(step + 1); }};
}

Bool Tree::sees(const At &at) const {
  const Int node = at.key() - at.sequence.offset();
  const auto own = ancestors.at(at.batch());
  const Int query = clamp(at.query(), 0, own.extent(0) - 1);
  const auto bits = load(own.ptr() + cast<std::int64_t>(query) * own.stride(0));
  return node < 0 || ((bits >> cast<std::uint64_t>(clamp(node, 0, 63))) & std::uint64_t(1)) != 0;
}

Bool TokenTree::sees(const At &at) const {
  const Int node = at.key() - at.sequence.offset(), query = at.query();
  const Int row = at.sequence.firstQuery + query,
            firstWord = maximum(at.column - at.sequence.offset(), 0) / 32;
  const Bool exists = query < at.sequence.queries && row < bits.extent(0);
  const auto rows = bits.ptr() + cast<std::int64_t>(row) * bits.stride(0);
  Bool seen = node < 0;
  // A block's keys begin anywhere in their first word.
  for (int next = 0; next <= (at.keys + 31) / 32; ++next) {
    const Int word = firstWord + next;
    const auto own = cast<std::uint32_t>(
        load(rows + cast<std::int64_t>(word) * bits.stride(1), exists && word < bits.extent(1), 0));
    const auto bit = own >> cast<std::uint32_t>(clamp(node - word * 32, 0, 31));
    seen = seen || (node / 32 == word && (bit & std::uint32_t(1)) != 0);
  }
  return seen;
}
