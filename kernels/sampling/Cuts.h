// Which tokens of a row stay: the options that say so, and what the kernels of this family share
// about rows.
#pragma once
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include <algorithm>
#include <sectile/error.h>
#include <sectile/sectile.h>

namespace sectile {

std::vector<OptionRow> cutOptions(); // top_k, top_p, order
void checkCuts(const Invocation &call);

// Fields: block and warps of a part of a row, row_block and row_warps of a program with all of it.
Config rowsInParts(std::int64_t tokens, const std::string &target);
// `inGroups`: parts hold whole groups (Race.h).
std::vector<SearchSpace> partSpaces(const char *parts, const char *rows, bool inGroups = false);
const std::vector<ConfigSpec> &partFields();
// The power of two that holds a number for each part.
int slotsFor(std::int64_t tokens, std::int64_t block);

// In the order of the numbers; both zeros are one.
inline Tile<std::uint32_t> bitsInOrder(const Tile<float> &x) {
  constexpr std::uint32_t sign = 1u << 31;
  const auto raw = bitcast<std::uint32_t>(where(x == 0.0f, 0.0f, x));
  return where((raw & sign) != 0u, raw ^ 0xffffffffu, raw | sign);
}
inline Tile<float> numberOf(const Tile<std::uint32_t> &bits) {
  constexpr std::uint32_t sign = 1u << 31;
  return bitcast<float>(where((bits & sign) != 0u, bits ^ sign, bits ^ 0xffffffffu));
}

// The sum of the weights of the k largest numbers of a row, k of 1 up to their count: digit by
// digit, how many have each says which the k-th one has. take(block) gives n numbers,
// weigh(numbers) their weights.
template <class Take, class Weigh>
Float weightOfFirst(const Tile<std::int32_t> &k, const Int &blocks, int n, Take &&take,
                    Weigh &&weigh) {
  constexpr int digits = 256;
  Tile<std::uint32_t> found = 0u; // the digits of the k-th number so far
  Tile<std::int32_t> rest = k;    // its place among those that begin with them
  for (auto pass : range(0, 4)) {
    const auto shift = cast<std::uint32_t>(24 - 8 * pass);
    auto counts = zeros<std::int32_t>(digits);
    for (auto block : range(0, blocks)) {
      const auto bits = bitsInOrder(take(block));
      counts += histogram(cast<std::int32_t>((bits >> shift) & 255u), digits,
                          (bits >> shift) >> 8u == found);
    }
    const auto upward = cast<std::int32_t>(cumsum(counts, 0, true));
    const auto digit = cast<std::int32_t>(sum(upward >= rest, 0)) - 1;
    rest = rest - cast<std::int32_t>(
                      sum(where(cast<std::int32_t>(arange(0, digits)) == digit + 1, upward, 0), 0));
    found = (found << 8u) | cast<std::uint32_t>(digit);
  }
  auto above = zeros<float>(n);
  for (auto block : range(0, blocks)) {
    const auto x = take(block);
    above += where(bitsInOrder(x) > found, weigh(x), 0.0f);
  }
  return sum(above, 0) + cast<float>(rest) * weigh(numberOf(found));
}

} // namespace sectile
