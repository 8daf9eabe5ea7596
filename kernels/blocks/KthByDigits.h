// The k-th largest of numbers that are not sorted, digit by digit.
#pragma once
#include <sectile/sectile.h>

namespace sectile {

// How many of 32-bit numbers that begin with these bits have each of the 256 digits that follow
// them, which end at bit `shift`.
inline Tile<std::int32_t> digitCounts(const Tile<std::uint32_t> &bits,
                                      const Tile<std::uint32_t> &shift,
                                      const Tile<std::uint32_t> &begin) {
  return histogram(cast<std::int32_t>((bits >> shift) & 255u), 256, (bits >> shift) >> 8u == begin);
}

struct Kth {
  Tile<std::uint32_t> bits; // of the number
  Tile<std::int32_t> place; // among those equal to it: the k-th number is the first, second, …
};

// Of numbers of 32 or fewer bits, at least k of them: how many begin with each digit says with
// which the k-th one does. counts(shift, begin) is what digitCounts gives of all numbers.
template <class Counts> Kth kthByDigits(const Tile<std::int32_t> &k, int bits, Counts &&counts) {
  Tile<std::uint32_t> found = 0u;
  Tile<std::int32_t> place = k;
  for (auto pass : range(0, bits / 8)) {
    const auto shift = cast<std::uint32_t>(bits - 8 - 8 * pass);
    const auto upward = cast<std::int32_t>(cumsum(counts(shift, found), 0, /*reverse=*/true));
    // Numbers of a higher digit: both sums at once, not one after the other.
    const auto digit = cast<std::int32_t>(sum(upward >= place, 0)) - 1;
    const auto above = max(where(upward < place, upward, 0), 0);
    place = place - above;
    found = (found << 8u) | cast<std::uint32_t>(digit);
  }
  return {found, place};
}

} // namespace sectile
