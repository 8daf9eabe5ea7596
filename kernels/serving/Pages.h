// Keys and values that lie in pages: where they are, and loading them, whatever they are stored in.
#pragma once
#include <optional>
#include <sectile/sectile.h>

namespace sectile::serving {

// Of n keys in a row of one sequence.
struct Slots {
  Tile<std::int64_t> block; // [n], or one number where all are in one page
  Int slot;                 // [n]: their places in their pages
  Bool present;             // [n]
};

// Those of keys start, start + 1, …; of keys before `first` and from `end` on neither the table nor
// a page is read. start is a multiple of n.
inline Slots slotsOf(const View<const std::int32_t, 1> &table, int page, int n, const Int &start,
                     const Int &first, const Int &end) {
  auto j = start + arange(0, n);
  auto present = j >= first && j < end;
  // Loops go from the tile of `first` to that of the last key, so a tile within a page is needed.
  if (page % n == 0) {
    auto entry = load(table.ptr() + cast<std::int64_t>(start / page) * table.stride(0));
    return {cast<std::int64_t>(entry), start % page + arange(0, n), present};
  }
  auto entries = load(table.ptr() + cast<std::int64_t>(j / page) * table.stride(0), present);
  return {cast<std::int64_t>(entries), j % page, present};
}

// One head of a cache of C, which is T, an 8-bit type, or std::uint8_t for two numbers of -8 to 7
// each, the first in the low half. All of them fit a T.
template <class T, class C> struct PagedHead {
  View<const C, 3> pages;                   // [blocks, page, D]; of pairs [blocks, page, D / 2]
  View<const float, 1> scales = {};         // [blocks]
  View<const float, 2> keyScales = {};      // [blocks, page]
  bool scaled = false, scaledByKey = false; // whether there are any

  // [n, width], without scales; zero where there is no key or no element.
  Tile<T> load(const Slots &slots, int width) const {
    constexpr bool pairs = std::is_same_v<C, std::uint8_t>;
    const int stored = pairs ? width / 2 : width;
    auto column = arange(0, stored);
    auto row = slots.block * pages.stride(0) + cast<std::int64_t>(slots.slot) * pages.stride(1);
    auto numbers = sectile::load(pages.ptr() + expand(row, 1) +
                                     expand(cast<std::int64_t>(column) * pages.stride(2), 0),
                                 expand(slots.present, 1) && expand(column < pages.extent(2), 0));
    if constexpr (pairs) {
      auto number = [](const Tile<std::uint8_t> &half) {
        return cast<std::int8_t>((half ^ 8) - 8);
      };
      auto low = number(numbers & 15), high = number(numbers >> 4);
      return cast<T>(interleave(low, high));
    } else {
      return cast<T>(numbers);
    }
  }
  // [n], or one number where all are in one page, which has one; none where there are none.
  std::optional<Tile<float>> scale(const Slots &slots) const {
    std::optional<Tile<float>> result;
    if (scaled) {
      auto from = scales.ptr() + slots.block * scales.stride(0);
      result = slots.block.rank() ? sectile::load(from, slots.present) : sectile::load(from);
    }
    if (scaledByKey) {
      auto from = keyScales.ptr() + (slots.block * keyScales.stride(0) +
                                     cast<std::int64_t>(slots.slot) * keyScales.stride(1));
      auto each = sectile::load(from, slots.present);
      result = result ? *result * each : each;
    }
    return result;
  }
};

} // namespace sectile::serving
