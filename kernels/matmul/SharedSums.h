// A tile's sum that several programs compute parts of. Each puts its part into scratch memory.
// Where every tile has as many parts, a launch of its own adds them up; where only some tiles are
// shared, the program that is last to arrive does. The order is always the same, so that the bits
// do not depend on who was last. Nobody waits for another program.
#pragma once
#include "kernels/calls/Use.h"

namespace sectile {

// How the sums of a tile [m, n] lie in scratch memory. Where the tile has whole fragments, a thread
// has four neighbours of what NVIDIA's matrix units leave it: two in a row, and two eight rows
// below. So no part changes hands on its way. A row in memory is then two rows of the tile.
class PartLayout {
  int m, n;
  bool isPaired;

public:
  PartLayout(int m, int n) : m(m), n(n), isPaired(m % 16 == 0 && n % 8 == 0) {}

  std::array<std::int64_t, 2> extents() const { return {rowsOf(m), columnsOf(n)}; }
  // The smallest rows and columns of a tile that can be loaded apart from the rest, and that are
  // worth it: a thread of four warps has 16 bytes of each part.
  int sliceRows() const { return isPaired ? 16 : m; }
  int sliceColumns() const { return isPaired && n % 32 == 0 ? 32 : n; }

  template <class Sum> void store(const View<Sum, 2> &part, const Tile<Sum> &sums) const {
    part.tile(rowsOf(m), columnsOf(n))
        .store(0, 0,
               isPaired ? reshape(permute(reshape(sums, m / 16, 2, 4 * n, 2), {0, 2, 1, 3}),
                                  rowsOf(m), columnsOf(n))
                        : sums);
  }
  // Slice (i, j) of those of [rows, columns] that the tile is cut into.
  template <class Sum>
  Tile<Sum> load(const View<const Sum, 2> &part, const Int &i, const Int &j, int rows,
                 int columns) const {
    const auto slice = part.tile(rowsOf(rows), columnsOf(columns)).load(i, j);
    return isPaired ? reshape(permute(reshape(slice, rows / 16, 4 * columns, 2, 2), {0, 2, 1, 3}),
                              rows, columns)
                    : slice;
  }

private:
  int rowsOf(int rows) const { return isPaired ? rows / 2 : rows; }
  int columnsOf(int columns) const { return isPaired ? columns * 2 : columns; }
};

// Scratch memory for so many parts of tiles [m, n]; none is empty.
template <class Sum>
Tensor<Sum, 3> partsOfSums(Use &use, std::int64_t count, std::int64_t m, std::int64_t n) {
  const auto [rows, columns] = PartLayout(static_cast<int>(m), static_cast<int>(n)).extents();
  return use.workspace<Sum, 3>({count, rows, columns});
}
// How many parts so many tiles with `splits` each have: one is no part.
constexpr std::int64_t partsOfSplits(std::int64_t tiles, std::int64_t splits) {
  return splits > 1 ? tiles * splits : 0;
}

// A program of the launch that adds up what each `splits` programs in a row stored as parts of one
// tile: which tile, and which slice [rows, columns] of it.
struct SplitSlice {
  Int tile, i, j;
  int rows, columns;
};
inline SplitSlice splitSlice(int m, int n, int rows, int columns) {
  const int down = m / rows, across = n / columns;
  const Int program = program_id(0), slice = program % (down * across);
  return {program / (down * across), slice / across, slice % across, rows, columns};
}
// Of a tile [m, n]; such a launch has so many programs for each tile.
constexpr std::int64_t slicesOf(std::int64_t m, std::int64_t n, std::int64_t rows,
                                std::int64_t columns) {
  return (m / rows) * (n / columns);
}
// Calls launch(programs, config) for a launch, and for that which adds up its parts if there are
// any: of `tiles` tiles, in slices of at least so many rows and columns.
template <class C, class Launch>
void forSplits(C config, std::int64_t programs, std::int64_t tiles, const Launch &launch,
               int leastRows = 1, int leastColumns = 1) {
  launch(programs, config);
  if (config.splits == 1)
    return;
  const PartLayout layout(config.m, config.n);
  config.sliceM = std::max(layout.sliceRows(), leastRows);
  config.sliceN = std::max(layout.sliceColumns(), leastColumns);
  config.warps = 4;
  launch(tiles * slicesOf(config.m, config.n, config.sliceM, config.sliceN), config);
}

template <class Sum>
Tile<Sum> sumOfSplits(const View<Sum, 3> &parts, const PartLayout &layout, int splits,
                      const SplitSlice &slice) {
  auto partAt = [&](const Int &part) {
    return layout.load(View<const Sum, 2>(parts.at(slice.tile * splits + part)), slice.i, slice.j,
                       slice.rows, slice.columns);
  };
  auto sums = partAt(0);
  // Loads of several parts are in flight at once.
  for (auto part : range(1, splits, {.unroll = std::min(splits - 1, 16)}))
    sums += partAt(part);
  return sums;
}

// What a program of that launch does: calls store(i, j, sums, config) with the place of its slice,
// in slices, and the configuration of a tile as large as one.
template <class Sum, class C, class Store>
void addUpSlice(const View<Sum, 3> &parts, const std::array<Int, 2> &tiles, C config,
                const Store &store) {
  const PartLayout layout(config.m, config.n);
  const SplitSlice slice = splitSlice(config.m, config.n, config.sliceM, config.sliceN);
  const int down = config.m / slice.rows, across = config.n / slice.columns;
  auto [i, j] = grouped_order(slice.tile, tiles, config.order);
  config.m = slice.rows, config.n = slice.columns;
  store(i * down + slice.i, j * across + slice.j, sumOfSplits(parts, layout, config.splits, slice),
        config);
}

// Part `number` of `count` of a tile's sum is `sums`; slotOf(0), slotOf(1), … say where in `parts`
// those of this tile go. Gives true in the last program, where `sums` is the whole sum then.
// arrived[tile] is 0 before the launch and after it.
template <class Sum, class SlotOf>
Tile<bool> shareSums(const View<Sum, 3> &parts, const Ptr<std::int32_t> &arrived, const Int &tile,
                     Tile<Sum> &sums, const Int &number, const Int &count, const SlotOf &slotOf) {
  const int m = static_cast<int>(sums.extent(0)), n = static_cast<int>(sums.extent(1));
  const PartLayout layout(m, n);
  auto partAt = [&](const Int &part) {
    return layout.load(View<const Sum, 2>(parts.at(slotOf(part))), 0, 0, m, n);
  };
  const auto counter = arrived + tile;
  layout.store(parts.at(slotOf(number)), sums);
  Tile<bool> isLast = atomic_add(counter, 1) == cast<std::int32_t>(count) - 1;
  when(isLast, [&] {
    // Two parts are the same sum in either order: the last has its own.
    when(
        count == 2, [&] { sums += partAt(1 - number); },
        [&] {
          sums = partAt(0);
          for (auto part : range(1, count))
            sums += partAt(part);
        });
  });
  when(isLast, [&] { store(counter, 0); }); // for the next launch
  return isLast;
}

} // namespace sectile
