// Slots of a cache in pages: where the rows of new tokens go. Slot s is row s % page of block
// s / page; a negative one, or one that the cache does not have, is none.
#pragma once
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <sectile/sectile.h>

namespace sectile::serving {

// Of a tile of tokens.
struct TokenSlots {
  Tile<std::int64_t> block; // [tokens]
  Tile<std::int64_t> place; // [tokens], in its block
  Bool present;             // [tokens]
};
// Integers of 32 bits, [T, 1], or of 64 as two words each, [T, 2], the low one first: one kernel
// takes both.
inline Tile<std::int64_t> integersOf(const View<const std::int32_t, 2> &words, bool wide,
                                     const Int &tile, int tokens, int padding) {
  const auto word = [&](int number) {
    return cast<std::int64_t>(words.fix(1, number).tile(tokens).padding(padding).load(tile));
  };
  const auto low = word(0);
  if (!wide)
    return low;
  return (word(1) << 32) | (low & std::int64_t(0xffffffff));
}

inline TokenSlots tokenSlots(const View<const std::int32_t, 2> &slots, bool wide, const Int &tile,
                             int tokens, int page, const Int &blocks) {
  const auto slot = integersOf(slots, wide, tile, tokens, -1);
  return {slot / page, slot % page, slot >= 0 && slot < cast<std::int64_t>(blocks) * page};
}

// Rows [tokens, heads] of a cache [blocks, H, page, D], as the place of pieces that are stored.
template <class C> class SlotRows {
public:
  SlotRows(const View<C, 4> &cache, const TokenSlots &slots, const Int &firstHead, int heads)
      : cache(cache) {
    const Int head = firstHead + arange(0, heads);
    rows = expand(slots.block * cache.stride(0) + slots.place * cache.stride(2), 1) +
           expand(cast<std::int64_t>(head) * cache.stride(1), 0);
    present = expand(slots.present, 1) && expand(head < cache.extent(1), 0);
  }

  // One row, for storePieces.
  View<C, 1> dims() const { return cache.at(0, 0, 0); }
  // Columns of those rows: a piece [tokens, heads, width], of which the view has those that there
  // are.
  template <class U> void store(const View<C, 1> &columns, int width, const Tile<U> &piece) const {
    const Int column = arange(0, width);
    const auto along = [](const auto &x) { return expand(expand(x, 0), 0); };
    sectile::store(columns.ptr() +
                       (expand(rows, 2) + along(cast<std::int64_t>(column) * columns.stride(0))),
                   cast<C>(piece), expand(present, 2) && along(column < columns.extent(0)));
  }

private:
  View<C, 4> cache;
  Tile<std::int64_t> rows; // [tokens, heads], in elements
  Bool present;            // [tokens, heads]
};

// Of the heads of a tile, from [1|H]: [1, heads, 1]; none where there are none.
inline std::optional<Tile<float>> headScales(const View<const float, 1> &scales, bool given,
                                             const Int &tile, int heads) {
  if (!given)
    return {};
  return expand(expand(scales.tile(heads).padding(1).load(tile), 1), 0);
}

// Numbers as a cache of C holds them: value / scale, rounded to nearest even; of 8-bit types the
// largest code beyond that. int8 has no NaN: it becomes 0.
template <class C>
Tile<C> encoded(const Tile<float> &values, const std::optional<Tile<float>> &scale) {
  const auto scaled = scale ? values / *scale : values;
  if constexpr (std::same_as<C, std::int8_t>)
    return cast<C>(where(scaled == scaled, rint(scaled), 0.0f));
  else
    return cast<C>(scaled);
}

// What numbers of rows are divided by before they become codes of C: the scales of heads that are
// given, and scales that fit what each row is then, which are kept in `made` [blocks, H, page].
template <class C> struct RowScales {
  View<const float, 1> given; // [1|H]
  View<float, 3> made;
  bool isGiven = false, isMade = false;

  // Of the rows [tokens, heads] of which largest() gives the largest magnitudes: [1 or tokens,
  // heads, 1], or none.
  template <class Largest>
  std::optional<Tile<float>> of(const TokenSlots &slots, const Int &tile, int heads,
                                const Largest &largest) const {
    const std::optional<Tile<float>> ofHeads = headScales(given, isGiven, tile, heads);
    if (!isMade)
      return ofHeads;
    const auto scale = fitting(ofHeads, heads, largest, static_cast<int>(slots.block.extent(0)));
    const Int head = tile * heads + arange(0, heads);
    const auto row = expand(slots.block * made.stride(0) + slots.place * made.stride(2), 1) +
                     expand(cast<std::int64_t>(head) * made.stride(1), 0);
    sectile::store(made.ptr() + row, scale,
                   expand(slots.present, 1) && expand(head < made.extent(1), 0));
    const auto each = expand(scale, 2);
    return ofHeads ? *ofHeads * each : each;
  }

private:
  // [tokens, heads]: the largest magnitude over the largest code, 1 of zeros and where C are no
  // codes.
  template <class Largest>
  static Tile<float> fitting(const std::optional<Tile<float>> &ofHeads, int heads,
                             const Largest &largest, int tokens) {
    if constexpr (sizeof(C) != 1)
      return full<float>(1, tokens, heads);
    constexpr auto most = static_cast<float>(std::numeric_limits<C>::max());
    constexpr float infinity = std::numeric_limits<float>::infinity();
    Tile<float> magnitude = largest();
    if (ofHeads)
      magnitude = magnitude / reshape(*ofHeads, 1, heads);
    const auto scale =
        where(magnitude == 0, 1.0f, maximum(magnitude / most, std::numeric_limits<float>::min()));
    return where(magnitude < infinity, scale, std::numeric_limits<float>::quiet_NaN());
  }
};

// Rows [tokens, heads, width] into their slots: as they are, or encoded.
template <class T, class C>
void appendRows(const SlotRows<C> &to, const TokenSlots &slots, const Tile<T> &rows, int width,
                const RowScales<C> &scales, const Int &head) {
  const auto values = cast<float>(rows);
  const auto scale = scales.of(slots, head, static_cast<int>(rows.extent(1)),
                               [&] { return max(abs(values), 2, Nan::propagate); });
  if (std::same_as<T, C> && !scales.isGiven)
    return to.store(to.dims(), width, rows);
  to.store(to.dims(), width, encoded<C>(values, scale));
}

} // namespace sectile::serving
