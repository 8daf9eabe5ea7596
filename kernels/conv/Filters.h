// Filters in the order in which the implicit product sums them: read as they lie where they lie so,
// else copied, in rows of whole sectors with zeros where no tap lies.
#pragma once
#include "kernels/conv/ImplicitGemm.h"
#include "kernels/conv/Launch.h"
#include "kernels/conv/Runs.h"

namespace sectile {

struct FilterRowsConfig {
  int groups = 1, lines = 1, inner = 64, taps = 16, warps = 4; // of a tile
  int stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  int channels = 1, phases = 1; // of a tile of the product whose columns are phases
  int flat = 0;                 // as of ConvConfig
  bool ofImage = false;
};

// from [groups, columns, channels, R, S], to what implicitGemm takes. A tile has its axes in the
// order of w [groups, K / groups, Cg, R S], where neighbours are neighbours of taps or of channels;
// what is written has neighbours among the channels that are summed. Taps are counted over rows of
// `slots`: where columns are phases there is a slot for each, with a tap or without; behind the
// last row are zeros, as many as a row of the product needs.
template <class T, class Vertical, class Horizontal>
inline Kernel filterRows{
    "conv2d_filter_rows",
    [](View<const T, 5> from, View<T, 4> to, Int slots, const FilterRowsConfig &config) {
      constexpr bool phased = std::is_same_v<Horizontal, PhaseAxis>;
      const int lineAxis = config.ofImage ? 2 : 1, phases = config.phases;
      TileNumber tiles{program_id(0)};
      const auto next = [&](const Int &count, int extent, int axis) {
        return numbersAlong(tiles.next(cdiv(count, extent)), extent, axis, 4);
      };
      const Int own = from.extent(2);
      const Int length =
          config.flat ? Int(config.flat) : to.extent(3); // of what is written of a tap
      const Int lines = phased ? Int(config.channels) : from.extent(1);
      const Int channel = next(length, config.inner, 3 - lineAxis);
      const Int column = next(lines, config.lines, lineAxis);
      const Int group = next(to.extent(0), config.groups, 0);
      const Int slot = numbersAlong(tiles.rest, config.taps, 3, 4);

      const int waysH = Vertical::ways(config.stride_h, config.dilation_h);
      const Int slotH = slot / slots, slotW = slot % slots;
      Int waysW;
      if constexpr (phased)
        waysW = to.extent(2) / config.channels;
      else
        waysW = Horizontal::ways(config.stride_w, config.dilation_w);
      const Int numberH = slotH / waysH, numberW = slotW / waysW, wayW = slotW % waysW;
      const Int down = Vertical::classOf(config.stride_h, config.pad_h, config.dilation_h,
                                         slotH % waysH),
                right = Horizontal::classOf(config.stride_w, config.pad_w, config.dilation_w, wayW);
      const Vertical vertical(config.stride_h, config.pad_h, config.dilation_h, down, 1,
                              from.extent(3));
      const Horizontal horizontal(config.stride_w, config.pad_w, config.dilation_w, right, 1,
                                  from.extent(4));
      // A slot is its tap, and the index of that, but where it is one of a phase.
      Int row = column, index = slotW, tap = slotW;
      Bool lies = slotH < from.extent(3);
      if constexpr (phased) {
        row = wayW / phases * (lines * phases) + column * phases + wayW % phases;
        index = numberW;
        tap = horizontal.tap(numberW, wayW);
        lies = lies && horizontal.lies(numberW, wayW);
      }
      const auto values =
          load(from.ptr() + (wide(group) * from.stride(0) + wide(column) * from.stride(1) +
                             wide(channel) * from.stride(2) + wide(slotH) * from.stride(3) +
                             wide(tap) * from.stride(4)),
               group < to.extent(0) && column < from.extent(1) && channel < own && lies);

      Int place = slotH * horizontal.width + index, at = channel;
      Bool written = channel < length && slotH < from.extent(3);
      if (config.flat) {
        place = down * Horizontal::classes(config.stride_w) + right;
        at = (numberH * horizontal.taps + numberW) * config.flat + channel;
        written =
            channel < length && at < cdiv(vertical.taps * horizontal.taps * config.flat, 16) * 16;
      }
      store(to.ptr() + (wide(group) * to.stride(0) + wide(place) * to.stride(1) +
                        wide(row) * to.stride(2) + wide(at) * to.stride(3)),
            values, written && column < lines && group < to.extent(0));
    }};

// w [groups, columns, channels, R, S] as implicitGemm takes it, where that only sees it otherwise.
template <class T> std::optional<Tensor<T, 4>> asRows(const Tensor<T, 5> &w, int flat) {
  const std::int64_t channels = w.extent(2), taps = w.extent(3) * w.extent(4);
  const std::int64_t apart = w.extent(4) > 1 ? w.stride(4) : w.stride(3);
  if (w.extent(3) > 1 && w.stride(3) != w.extent(4) * apart)
    return {};
  // Runs that do not begin where sectors do are read in pieces.
  for (const std::int64_t stride :
       {w.extent(0) > 1 ? w.stride(0) : 0, taps > 1 ? apart : 0, w.stride(1), w.stride(2)})
    if (!flat && stride != 1 && stride % 16)
      return {};
  if (!flat)
    return withAxes(w, {w.extent(0), taps, w.extent(1), channels},
                    {w.stride(0), apart, w.stride(1), w.stride(2)});
  if (w.stride(2) != 1 || apart != channels || flat != channels || taps * channels % 16 ||
      w.stride(1) % 16)
    return {};
  return withAxes(w, {w.extent(0), 1, w.extent(1), taps * channels},
                  {w.stride(0), 0, w.stride(1), 1});
}

// Of a product whose columns are phases: those tiles that the image has pixels for.
inline std::int64_t phaseTiles(const Invocation &call, const ConvConfig &chosen) {
  return ceilDiv(std::min<std::int64_t>(call.extent("W"), chosen.stride_w), chosen.phases);
}

// Filters w [K, Cg, R, S] for a product whose columns are filters, or channels of the image.
template <class T, class Vertical, class Horizontal>
Tensor<T, 4> filtersFor(Use &use, const Tensor<T, 4> &w, bool ofImage, const ConvConfig &chosen) {
  const ConvShape shape(use.call.options);
  auto filters = grouped(w, shape.groups);
  if (ofImage)
    filters = filters.permute({0, 2, 1, 3, 4});
  const int classes = Vertical::classes(chosen.stride_h) * Horizontal::classes(chosen.stride_w);
  const bool few = runsOf<T>(w.extent(1), true) == RunsOf::pixels;
  if (chosen.phases == 1 && (chosen.flat ? classes == 1 : !few && hasRuns(w, RunsOf::channels)))
    if (const auto rows = asRows(filters, chosen.flat))
      return *rows;

  auto config = use.config_as<FilterRowsConfig>();
  config.phases = chosen.phases;
  config.flat = chosen.flat;
  config.ofImage = ofImage;
  constexpr bool phased = std::is_same_v<Horizontal, PhaseAxis>;
  const std::int64_t own = filters.extent(2), height = filters.extent(3), width = filters.extent(4);
  const std::int64_t rowTaps = Horizontal::widthOf(shape.w, width);
  std::int64_t lines = filters.extent(1), columns = lines, slots = width;
  if (phased) {
    config.channels = chosen.n / chosen.phases;
    const std::int64_t phases = phaseTiles(use.call, chosen) * chosen.phases;
    lines = config.channels;
    columns = lines * phases;
    slots = rowTaps * phases;
  }
  std::int64_t places = height * rowTaps, inner = own, slotRows = height;
  if (chosen.flat) {
    places = classes;
    inner =
        chosen.flat * Vertical::mostTaps(shape.h, height) * Horizontal::mostTaps(shape.w, width);
    // A row of taps is at least so many of the numbers that are missing to a whole sector.
    slotRows += Vertical::ways(chosen.stride_h, chosen.dilation_h) * ceilDiv(15, chosen.flat);
  }
  const auto rows = use.workspace<T, 4>({shape.groups, places, columns, ceilDiv(inner, 16) * 16});
  const std::int64_t channels = chosen.flat ? chosen.flat : rows.extent(3);
  constexpr int elements = 4096; // of a tile
  config.inner = powerFrom(channels, 1, ofImage ? 16 : 64);
  config.taps = powerFrom(slotRows * slots, 1, 16);
  config.lines = powerFrom(lines, 1, elements / config.inner / config.taps);
  config.groups = powerFrom(shape.groups, 1, elements / config.inner / config.taps / config.lines);
  config.warps = std::clamp(config.groups * config.lines * config.inner * config.taps / 1024, 1, 4);
  use(filterRows<T, Vertical, Horizontal>,
      ceilDiv(channels, config.inner) * ceilDiv(lines, config.lines) *
          ceilDiv(shape.groups, config.groups) * ceilDiv(slotRows * slots, config.taps),
      filters, rows, slots, config);
  return rows;
}

} // namespace sectile
