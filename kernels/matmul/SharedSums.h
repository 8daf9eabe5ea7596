// A tile's sum that several programs compute parts of. Each puts its part into scratch memory; the
// one that is last to arrive adds them up, always in the same order, so that the bits do not depend
// on who was last.
#pragma once
#include <sectile/sectile.h>

namespace sectile {

// Called with the part `sums` that goes to `slot` of `parts`; slotOf(0), slotOf(1), … say where the
// `count` parts of this tile are. finish(total) runs in the last program. arrived[tile] is 0 before
// the launch and after it.
template <class Sum, class SlotOf, class Finish>
void shareSums(const View<Sum, 3> &parts, const Ptr<std::int32_t> &arrived, const Int &tile,
               const Tile<Sum> &sums, const Int &slot, const Int &count, const SlotOf &slotOf,
               const Finish &finish) {
  const int m = static_cast<int>(sums.extent(0)), n = static_cast<int>(sums.extent(1));
  auto partAt = [&](const Int &place) { return parts.at(place).tile(m, n); };
  partAt(slot).store(0, 0, sums);
  auto before = atomic_add(arrived + tile, 1);
  when(before == cast<std::int32_t>(count) - 1, [&] {
    Tile<Sum> total = partAt(slotOf(Int(0))).load(0, 0);
    for (auto part : range(1, count))
      total += partAt(slotOf(part)).load(0, 0);
    finish(total);
    store(arrived + tile, 0); // for the next launch
  });
}

} // namespace sectile
