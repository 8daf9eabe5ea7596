// A tile's sum that several programs compute parts of. Each puts its part into scratch memory; the
// one that is last to arrive adds them up, always in the same order, so that the bits do not depend
// on who was last. Nobody waits for another program.
#pragma once
#include "kernels/Use.h"

namespace sectile {

namespace detail {

// Parts lie in memory so that a thread has four neighbours of what NVIDIA's matrix units leave it:
// two in a row, and two eight rows below. So no part changes hands on its way.
template <class Sum> Tile<Sum> asPart(const Tile<Sum> &sums) {
  const int m = static_cast<int>(sums.extent(0)), n = static_cast<int>(sums.extent(1));
  if (m % 16 || n % 8)
    return sums;
  return reshape(permute(reshape(sums, m / 16, 2, 4 * n, 2), {0, 2, 1, 3}), m, n);
}
template <class Sum> Tile<Sum> asSums(const Tile<Sum> &part) {
  const int m = static_cast<int>(part.extent(0)), n = static_cast<int>(part.extent(1));
  if (m % 16 || n % 8)
    return part;
  return reshape(permute(reshape(part, m / 16, 4 * n, 2, 2), {0, 2, 1, 3}), m, n);
}

} // namespace detail

// What a launch whose programs share the sums of tiles [m, n] is given: memory for so many parts,
// and how many of each tile have arrived. Without parts both are empty.
template <class Sum> struct PartsOfSums {
  Tensor<Sum, 3> parts;
  Tensor<std::int32_t, 1> arrived;

  PartsOfSums(Use &use, std::int64_t tiles, std::int64_t count, std::int64_t m, std::int64_t n)
      : parts(use.workspace<Sum, 3>({count, m, n})),
        arrived(use.zeroed<std::int32_t, 1>({count ? tiles : 0})) {}
};

// Part `number` of `count` of a tile's sum is `sums`; slotOf(0), slotOf(1), … say where in `parts`
// those of this tile go. The last program loads `atOnce` parts side by side.
// Gives true in the last program, where `sums` is the whole sum then.
// arrived[tile] is 0 before the launch and after it.
template <class Sum, class SlotOf>
Tile<bool> shareSums(const View<Sum, 3> &parts, const Ptr<std::int32_t> &arrived, const Int &tile,
                     Tile<Sum> &sums, const Int &number, const Int &count, const SlotOf &slotOf,
                     int atOnce = 0) {
  const int m = static_cast<int>(sums.extent(0)), n = static_cast<int>(sums.extent(1));
  auto placeOf = [&](const Int &part) { return parts.at(slotOf(part)).tile(m, n); };
  auto partAt = [&](const Int &part) { return detail::asSums(placeOf(part).load(0, 0)); };
  const auto counter = arrived + tile;
  placeOf(number).store(0, 0, detail::asPart(sums));
  Tile<bool> isLast = atomic_add(counter, 1) == cast<std::int32_t>(count) - 1;
  when(isLast, [&] {
    // Two parts are the same sum in either order: the last has its own.
    when(
        count == 2, [&] { sums += partAt(1 - number); },
        [&] {
          sums = partAt(0);
          for (auto part : range(1, count, {.unroll = atOnce}))
            sums += partAt(part);
        });
  });
  when(isLast, [&] { store(counter, 0); }); // for the next launch
  return isLast;
}

// Parts of so many tiles that each have `splits`: one is no part.
constexpr std::int64_t partsOfSplits(std::int64_t tiles, std::int64_t splits) {
  return splits > 1 ? tiles * splits : 0;
}
// The same for programs of which `splits` in a row share a tile. finish(total) runs in one of them.
template <class Sum, class Finish>
void shareSplits(const View<Sum, 3> &parts, const Ptr<std::int32_t> &arrived, int splits,
                 Tile<Sum> sums, const Finish &finish) {
  if (splits == 1) {
    finish(sums);
    return;
  }
  const Int program = program_id(0), tile = program / splits;
  const auto isLast = shareSums(
      parts, arrived, tile, sums, program % splits, Int(splits),
      [&](const Int &part) { return tile * splits + part; }, std::min(splits - 1, 4));
  when(isLast, [&] { finish(sums); });
}

} // namespace sectile
