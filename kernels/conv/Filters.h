// Filters in the order in which the implicit product sums them: read as they lie where they lie so,
// else copied, in rows of whole sectors with zeros where no tap lies.
#pragma once
#include "kernels/conv/ImplicitGemm.h"
#include "kernels/conv/Launch.h"
#include "kernels/conv/Runs.h"

namespace sectile {

struct FilterRowsConfig {
  int rows = 32, inner = 64, warps = 4;
  int strideH = 1, strideW = 1, padH = 0, padW = 0, dilationH = 1, dilationW = 1;
  int channels = 1, phases = 1; // of a tile of the product whose columns are phases
  bool flat = false;
};
SECTILE_CONFIG(FilterRowsConfig, rows, inner, warps, strideH, strideW, padH, padW, dilationH,
               dilationW, channels, phases, flat)

// from [groups, columns, channels, R, S], to what implicitGemm takes. A program's rows are those of
// neighbouring taps, which lie side by side in filters [K, C, R, S].
template <class T, class Vertical, class Horizontal>
inline Kernel filterRows{
    "conv2d_filter_rows", [](View<const T, 5> from, View<T, 4> to, const FilterRowsConfig &config) {
      const int phases = config.phases, classesW = Horizontal::classes(config.strideW);
      const Int tilesInner = cdiv(to.extent(3), config.inner),
                tiles = cdiv(to.extent(1) * to.extent(2), config.rows) * tilesInner;
      const Int group = program_id(0) / tiles, i = program_id(0) % tiles / tilesInner,
                j = program_id(0) % tilesInner;
      const Int number = expand(i * config.rows + arange(0, config.rows), 1),
                at = expand(j * config.inner + arange(0, config.inner), 0);
      const Int place = number / phases % to.extent(1), line = number / phases / to.extent(1);
      Int column = line, phase = number % phases;
      if (std::is_same_v<Horizontal, PhaseAxis>) {
        column = line % config.channels;
        phase += line / config.channels * phases;
      }
      const Int own = from.extent(2), pixelClass = config.flat ? place : Int(0);
      const Vertical vertical(config.strideH, config.padH, config.dilationH, pixelClass / classesW,
                              1, from.extent(3));
      const Horizontal horizontal(config.strideW, config.padW, config.dilationW,
                                  pixelClass % classesW, 1, from.extent(4));
      Int channel = at, r = place / horizontal.width, s = place % horizontal.width;
      Bool there = at < own;
      if (config.flat) {
        const Int tap = at / own;
        channel = at % own;
        r = vertical.index(tap / horizontal.taps);
        s = horizontal.index(tap % horizontal.taps);
        there = tap < vertical.taps * horizontal.taps;
      }
      const auto values =
          load(from.ptr() + (wide(group) * from.stride(0) + wide(column) * from.stride(1) +
                             wide(channel) * from.stride(2) + wide(r) * from.stride(3) +
                             wide(horizontal.tap(s, phase)) * from.stride(4)),
               column < from.extent(1) && there && horizontal.lies(s, phase));
      const Int row = line * phases + number % phases;
      store(to.ptr() + (wide(group) * to.stride(0) + wide(place) * to.stride(1) +
                        wide(row) * to.stride(2) + wide(at) * to.stride(3)),
            values, row < to.extent(2) && at < to.extent(3));
    }};

// w [groups, columns, channels, R, S] as implicitGemm takes it, where that only sees it otherwise.
template <class T> std::optional<Tensor<T, 4>> asRows(const Tensor<T, 5> &w, bool flat) {
  const std::int64_t channels = w.extent(2), taps = w.extent(3) * w.extent(4);
  const std::int64_t apart = w.extent(4) > 1 ? w.stride(4) : w.stride(3);
  if (w.extent(3) > 1 && w.stride(3) != w.extent(4) * apart)
    return {};
  if (!flat)
    return Tensor<T, 4>{w.data(),
                        {w.extent(0), taps, w.extent(1), channels},
                        {w.stride(0), apart, w.stride(1), w.stride(2)},
                        w.memory()};
  if (w.stride(2) != 1 || apart != channels || taps * channels % 16 || w.stride(1) % 16)
    return {};
  return Tensor<T, 4>{w.data(),
                      {w.extent(0), 1, w.extent(1), taps * channels},
                      {w.stride(0), 0, w.stride(1), 1},
                      w.memory()};
}

// Of a product whose columns are phases: those tiles that the image has pixels for.
inline std::int64_t phaseTiles(const Invocation &call, const ConvConfig &chosen) {
  return ceilDiv(std::min<std::int64_t>(call.extent("W"), chosen.strideW), chosen.phases);
}

// Filters w [K, Cg, R, S] for a product whose columns are filters, or channels of the image.
template <class T, class Vertical, class Horizontal>
Tensor<T, 4> filtersFor(Use &use, const Tensor<T, 4> &w, bool ofImage, const ConvConfig &chosen) {
  const ConvShape shape(use.call.options);
  const bool few = runsOf<T>(w.extent(1), w.extent(1)) == RunsOf::pixels,
             inRows = chosen.flat || few;
  auto filters = grouped(inRows ? w : inRuns(use, w, RunsOf::channels), shape.groups);
  if (ofImage)
    filters = filters.permute({0, 2, 1, 3, 4});
  const int classes = Vertical::classes(chosen.strideH) * Horizontal::classes(chosen.strideW);
  if (chosen.phases == 1 && (chosen.flat ? classes == 1 : !few))
    if (const auto rows = asRows(filters, chosen.flat))
      return *rows;

  FilterRowsConfig config{.strideH = chosen.strideH,
                          .strideW = chosen.strideW,
                          .padH = chosen.padH,
                          .padW = chosen.padW,
                          .dilationH = chosen.dilationH,
                          .dilationW = chosen.dilationW,
                          .phases = chosen.phases,
                          .flat = chosen.flat};
  // Rows are read along taps then, and written in whole sectors.
  if (ofImage)
    config.rows = 128, config.inner = 16;
  std::int64_t columns = filters.extent(1);
  if (std::is_same_v<Horizontal, PhaseAxis>) {
    config.channels = chosen.n / chosen.phases;
    columns = phaseTiles(use.call, chosen) * chosen.n;
  }
  const std::int64_t height = filters.extent(3), width = filters.extent(4);
  const std::int64_t places = chosen.flat ? classes : height * Horizontal::widthOf(shape.w, width),
                     inner =
                         filters.extent(2) * (chosen.flat ? Vertical::mostTaps(shape.h, height) *
                                                                Horizontal::mostTaps(shape.w, width)
                                                          : 1);
  const auto rows = use.workspace<T, 4>({shape.groups, places, columns, ceilDiv(inner, 16) * 16});
  use(filterRows<T, Vertical, Horizontal>,
      shape.groups * ceilDiv(places * columns, config.rows) * ceilDiv(rows.extent(3), config.inner),
      filters, rows, config);
  return rows;
}

} // namespace sectile
