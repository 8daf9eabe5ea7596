// Drawing from weights as a race, which needs no sum of them: of elements with weights w and
// independent exponential numbers E, the one of the largest log w - log E is each with probability
// w / sum of w (Gumbel's trick). Whoever wins among all also wins among any part that it is in.
#pragma once
#include "kernels/calls/Use.h"
#include <limits>
#include <sectile/sectile.h>

namespace sectile {

// The one of the largest value; of equals the lowest index.
struct Winner {
  Float value;
  Tile<std::int32_t> index;
  Float weight; // or what it is computed from
};
inline Winner winnerOf(const Tile<float> &values, const Tile<std::int32_t> &indices,
                       const Tile<float> &weights) {
  const auto [value, index, weight] = detail::combineSeveral(
      detail::Combining::reduce, std::tuple(values, indices, weights), detail::Extent(0),
      [](Float v, Tile<std::int32_t> i, Float w, Float u, Tile<std::int32_t> j, Float x) {
        const Bool first = v > u || (v == u && i < j);
        return std::tuple(where(first, v, u), where(first, i, j), where(first, w, x));
      },
      true);
  return {value, index, weight};
}

// Beyond all indices.
constexpr std::int32_t noIndex = std::numeric_limits<std::int32_t>::max();

// Races of one row, which have numbers of their own.
enum class Race : std::uint32_t {
  Tokens, // all of them
  Groups, // of tokens
  Stayed  // tokens that stay
};

// Word 2 of the counter for a race's first element: there are at most 2^24.
constexpr std::uint32_t firstOf(Race race) { return static_cast<std::uint32_t>(race) << 28; }

// What the numbers of a row are drawn from: Philox 4x32-10 with the seed as key, the offset as
// words 0 and 1 of the counter, index / 4 and the race as word 2 and `own` as word 3; index % 4
// chooses among its words.
struct RowSeed {
  Tile<std::int64_t> seed, offset;
  Tile<std::uint32_t> own;

  // The call's seed and the row, or a row's own.
  RowSeed(const Int &row, const Tile<std::int64_t> &seedOfAll,
          const View<const std::int64_t, 1> &seeds, bool hasSeeds,
          const View<const std::int64_t, 1> &offsets, bool hasOffsets)
      : seed(hasSeeds ? load(seeds.ptr() + row * seeds.stride(0)) : seedOfAll),
        offset(hasOffsets ? load(offsets.ptr() + row * offsets.stride(0))
                          : Tile<std::int64_t>(std::int64_t(0))),
        own(hasSeeds ? Tile<std::uint32_t>(0u) : cast<std::uint32_t>(row)) {}

  // -log E of the n elements from block * n on; n is a multiple of 4. With u = (word + 1/2) 2^-32,
  // E = -log(1 - u), which keeps its precision where E is small and the element may win.
  Tile<float> numbers(const Int &block, int n, Race race = Race::Tokens) const {
    const auto group = (cast<std::uint32_t>(block) * static_cast<std::uint32_t>(n / 4) +
                        cast<std::uint32_t>(arange(0, n / 4))) |
                       firstOf(race);
    const auto words = philox(seed, offset, group, own);
    const auto word = reshape(join(join(words[0], words[2]), join(words[1], words[3])), n);
    return fromWords(word);
  }
  // Of these elements.
  Tile<float> numbersAt(const Tile<std::int32_t> &indices, Race race) const {
    const auto words =
        philox(seed, offset, (cast<std::uint32_t>(indices) / 4u) | firstOf(race), own);
    const auto at = indices % 4;
    return fromWords(
        where(at < 2, where(at == 0, words[0], words[1]), where(at == 2, words[2], words[3])));
  }

private:
  static Tile<float> fromWords(const Tile<std::uint32_t> &word) {
    const auto uniform = minimum((cast<float>(word) + 0.5f) * 0x1p-32f, 1 - 0x1p-24f);
    return -log(-log1p(-uniform));
  }
};

// The same on the host; `number` is what u is as the kernel has it.
double raceUniform(std::uint64_t seed, std::uint64_t offset, std::uint32_t own, std::int64_t index,
                   Race race = Race::Tokens);
// The generator's key and counter of a row, from the optional inputs `seeds` and `offsets`.
struct HostRowSeed {
  std::uint64_t seed, offset;
  std::uint32_t own;
  HostRowSeed(const Invocation &call, const HostArray &seeds, const HostArray &offsets,
              std::int64_t row);
  double number(std::int64_t index, Race race = Race::Tokens) const; // -log E
};

// The inputs and the option of kernels that draw.
std::vector<ArgumentRow> seedArguments();
OptionRow seedOption();
// Launches number places in 32 bits, and merge parts of a row in one block.
void checkTokens(const Invocation &call, std::int64_t vocabulary);
constexpr std::int64_t mostParts = 8192;
// How many tokens of a row are drawn among together: of its length alone, as draws depend on it.
int groupOf(std::int64_t tokens);

} // namespace sectile
