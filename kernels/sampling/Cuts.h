// Which tokens of a row stay: the options that say so, and what the kernels of this family share
// about rows.
#pragma once
#include "kernels/blocks/KthByDigits.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include <algorithm>
#include <sectile/error.h>
#include <sectile/sectile.h>

namespace sectile {

std::vector<OptionRow> cutOptions(); // top_k, top_p, order

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

// The sum of the weights of the k largest numbers of a row, k of 1 up to their count. take(block)
// gives n numbers, weigh(numbers) their weights.
template <class Take, class Weigh>
Float weightOfFirst(const Tile<std::int32_t> &k, const Int &blocks, int n, Take &&take,
                    Weigh &&weigh) {
  const auto counts = [&](const auto &shift, const auto &begin) {
    auto all = zeros<std::int32_t>(256);
    for (auto block : range(0, blocks))
      all += digitCounts(bitsInOrder(take(block)), shift, begin);
    return all;
  };
  const Kth kth = kthByDigits(k, 32, counts);
  auto above = zeros<float>(n);
  for (auto block : range(0, blocks)) {
    const auto x = take(block);
    above += where(bitsInOrder(x) > kth.bits, weigh(x), 0.0f);
  }
  return sum(above, 0) + cast<float>(kth.place) * weigh(numberOf(kth.bits));
}

} // namespace sectile
