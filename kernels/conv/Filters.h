// Filters in the order in which the implicit product sums them: read as they lie where they lie so,
// else copied, in rows of whole sectors with zeros where no tap lies.
#pragma once
#include "kernels/conv/ImplicitGemm.h"
#include "kernels/conv/Launch.h"
#include "kernels/conv/Runs.h"

namespace sectile {

struct FilterRowsConfig {
  int groups = 1, lines = 1, inner = 64, taps = 16, warps = 4; // of a tile
  int strideH = 1, strideW = 1, padH = 0, padW = 0, dilationH = 1, dilationW = 1;
  int channels = 1, phases = 1; // of a tile of the product whose columns are phases
  bool flat = false, ofImage = false;
};
SECTILE_CONFIG(FilterRowsConfig, groups, lines, inner, taps, warps, strideH, strideW, padH, padW,
               dilationH, dilationW, channels, phases, flat, ofImage)

// from [groups, columns, channels, R, S], to what implicitGemm takes. A tile has its axes in the
// order of w [groups, K / groups, Cg, R S], where neighbours are neighbours of taps or of channels;
// what is written has neighbours among the channels that are summed.
template <class T, class Vertical, class Horizontal>
inline Kernel filterRows{
    "conv2d_filter_rows", [](View<const T, 5> from, View<T, 4> to, const FilterRowsConfig &config) {
      const int phases = config.phases, classesW = Horizontal::classes(config.strideW);
      const int lineAxis = config.ofImage ? 2 : 1;
      const auto along = [&](const Int &tile, int extent, int axis) {
        Int numbers = tile * extent + arange(0, extent);
        for (int other = 0; other < 4; ++other)
          if (other != axis)
            numbers = expand(numbers, other);
        return numbers;
      };
      const Int own = from.extent(2), length = to.extent(3);
      Int rest = program_id(0);
      const auto next = [&](const Int &count) {
        const Int digit = rest % count;
        rest = rest / count;
        return digit;
      };
      const Int channel =
          along(next(cdiv(config.flat ? own : length, config.inner)), config.inner, 3 - lineAxis);
      const Int place = along(
          next(cdiv(config.flat ? cdiv(length, own) : to.extent(1), config.taps)), config.taps, 3);
      const Int pixelClass = config.flat ? next(to.extent(1)) : Int(0);
      const Int row = along(next(cdiv(to.extent(2), config.lines)), config.lines, lineAxis),
                group = along(rest, config.groups, 0);

      Int column = row / phases, phase = row % phases;
      if (std::is_same_v<Horizontal, PhaseAxis>) {
        phase += column / config.channels * phases;
        column = column % config.channels;
      }
      const Vertical vertical(config.strideH, config.padH, config.dilationH, pixelClass / classesW,
                              1, from.extent(3));
      const Horizontal horizontal(config.strideW, config.padW, config.dilationW,
                                  pixelClass % classesW, 1, from.extent(4));
      Int r = place / horizontal.width, s = place % horizontal.width;
      Bool there = channel < own && place < to.extent(1),
           written = channel < length && place < to.extent(1);
      Int at = channel;
      if (config.flat) {
        r = vertical.index(place / horizontal.taps);
        s = horizontal.index(place % horizontal.taps);
        there = channel < own && place < vertical.taps * horizontal.taps;
        at = place * own + channel;
        written = channel < own && at < length;
      }
      const auto values = load(
          from.ptr() + (wide(group) * from.stride(0) + wide(column) * from.stride(1) +
                        wide(channel) * from.stride(2) + wide(r) * from.stride(3) +
                        wide(horizontal.tap(s, phase)) * from.stride(4)),
          group < to.extent(0) && column < from.extent(1) && there && horizontal.lies(s, phase));
      store(to.ptr() + (wide(group) * to.stride(0) +
                        wide(config.flat ? pixelClass : place) * to.stride(1) +
                        wide(row) * to.stride(2) + wide(at) * to.stride(3)),
            values, written && row < to.extent(2) && group < to.extent(0));
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
  auto filters = grouped(w, shape.groups);
  if (ofImage)
    filters = filters.permute({0, 2, 1, 3, 4});
  const int classes = Vertical::classes(chosen.strideH) * Horizontal::classes(chosen.strideW);
  const bool few = runsOf<T>(w.extent(1), w.extent(1)) == RunsOf::pixels;
  if (chosen.phases == 1 && (chosen.flat ? classes == 1 : !few && hasRuns(w, RunsOf::channels)))
    if (const auto rows = asRows(filters, chosen.flat))
      return *rows;

  FilterRowsConfig config{.strideH = chosen.strideH,
                          .strideW = chosen.strideW,
                          .padH = chosen.padH,
                          .padW = chosen.padW,
                          .dilationH = chosen.dilationH,
                          .dilationW = chosen.dilationW,
                          .phases = chosen.phases,
                          .flat = chosen.flat,
                          .ofImage = ofImage};
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
  const std::int64_t channels = chosen.flat ? filters.extent(2) : rows.extent(3),
                     taps = chosen.flat
                                ? ceilDiv(rows.extent(3), std::max<std::int64_t>(channels, 1))
                                : places;
  constexpr int elements = 4096; // of a tile
  // Lines are neighbours in memory where they are phases, filters never are.
  config.inner = powerFrom(channels, 1, ofImage ? 16 : 64);
  config.taps = powerFrom(taps, 1, 16);
  config.lines = powerFrom(columns, 1, elements / config.inner / config.taps);
  config.groups = powerFrom(shape.groups, 1, elements / config.inner / config.taps / config.lines);
  config.warps = std::clamp(config.groups * config.lines * config.inner * config.taps / 1024, 1, 4);
  use(filterRows<T, Vertical, Horizontal>,
      ceilDiv(shape.groups, config.groups) * ceilDiv(columns, config.lines) *
          (chosen.flat ? classes : 1) * ceilDiv(taps, config.taps) *
          ceilDiv(channels, config.inner),
      filters, rows, config);
  return rows;
}

} // namespace sectile
