// A convolution as a matrix product whose operands are read where they lie: rows are pixels of the
// destination, columns its channels, the inner extent all taps of the filter for all channels of
// the source. The gradient of the image is the same with the image's pixels as destination.
#pragma once
#include <sectile/sectile.h>

namespace sectile {

struct ConvConfig {
  int m = 64, n = 64, k = 32, order = 8, warps = 4, stages = 3;
  int strideH = 1, strideW = 1, padH = 0, padW = 0, dilationH = 1, dilationW = 1;
  bool exact = false;
  // Few channels: taps and channels are numbered in one row, so that a step may hold several taps.
  bool flat = false;
  bool bias = false;
};
SECTILE_CONFIG(ConvConfig, m, n, k, order, warps, stages, strideH, strideW, padH, padW, dilationH,
               dilationW, exact, flat, bias)

// Pixels, counted over images [N, _, H, W], taken apart.
struct Pixels {
  Int image, row, column;
  Bool inside;
};
template <class Image> Pixels pixelsOf(const Int &number, const Image &images) {
  const Int rows = images.extent(2), columns = images.extent(3), area = rows * columns;
  const Int rest = number % area;
  return {number / area, rest / columns, rest % columns, number < images.extent(0) * area};
}

inline Tile<std::int64_t> wide(const Int &x) { return cast<std::int64_t>(x); }

// Along the other axis of a tile of two, where it is no single number.
template <class T> Tile<T> along(const Tile<T> &x, int axis) {
  return x.rank() == 1 ? expand(x, axis) : x;
}

struct Place {
  Int at;
  Bool inside;
};
// The element of the image under a tap of the filter at a place; and, for the gradient of the
// image, the place at which a tap lies on an element.
inline Place elementUnder(const Int &place, const Int &tap, int stride, int pad, int dilation,
                          const Int &extent) {
  const Int at = place * stride - pad + tap * dilation;
  return {at, at >= 0 && at < extent};
}
inline Place placeOver(const Int &element, const Int &tap, int stride, int pad, int dilation,
                       const Int &extent) {
  const Int from = element + pad - tap * dilation;
  if (stride == 1)
    return {from, from >= 0 && from < extent};
  const Int at = from / stride;
  return {at, from >= 0 && from % stride == 0 && at < extent};
}

// source [N, groups * depth, H, W], filters [groups, columns, depth, R, S], destination [N, groups
// * columns, P, Q], bias [groups * columns].
template <class T, bool gradient>
constexpr auto implicitGemm = [](View<const T, 4> source, View<const T, 5> filters,
                                 View<const T, 1> bias, View<T, 4> destination,
                                 const ConvConfig &config) {
  const int m = config.m, n = config.n, depth = config.k;
  const Int each = filters.extent(1), own = filters.extent(2), taps = filters.extent(4);
  const Int inner = filters.extent(3) * taps * own;
  const Int rowTiles =
      cdiv(destination.extent(0) * destination.extent(2) * destination.extent(3), m);
  const Int area = rowTiles * cdiv(each, n);
  const Int group = program_id(0) / area;
  auto [i, j] = grouped_order(program_id(0) % area, {rowTiles, cdiv(each, n)}, config.order);

  const Pixels pixels = pixelsOf(i * m + arange(0, m), destination);
  const Int column = j * n + arange(0, n);
  const Int blocks = cdiv(own, depth);
  auto sums = zeros<float>(m, n);
  const Int steps = config.flat ? cdiv(inner, depth) : filters.extent(3) * taps * blocks;
  for (auto step : range(0, steps)) {
    // In a step there is one tap, or each lane has its own.
    const Int lane = arange(0, depth);
    Int channel, tap;
    Bool there;
    if (config.flat) {
      const Int at = step * depth + lane;
      channel = at % own;
      tap = at / own;
      there = at < inner;
    } else {
      channel = step % blocks * depth + lane;
      tap = step / blocks;
      there = channel < own;
    }
    const Int r = tap / taps, s = tap % taps;
    auto read = [&](const Int &pixel, const Int &filter, int axis) {
      const int stride = axis == 2 ? config.strideH : config.strideW;
      const int pad = axis == 2 ? config.padH : config.padW;
      const int dilation = axis == 2 ? config.dilationH : config.dilationW;
      if constexpr (gradient)
        return placeOver(expand(pixel, 1), along(filter, 0), stride, pad, dilation,
                         source.extent(axis));
      else
        return elementUnder(expand(pixel, 1), along(filter, 0), stride, pad, dilation,
                            source.extent(axis));
    };
    const Place h = read(pixels.row, r, 2), w = read(pixels.column, s, 3);
    auto left = load(source.ptr() + (expand(wide(pixels.image) * source.stride(0), 1) +
                                     expand(wide(group * own + channel) * source.stride(1), 0) +
                                     wide(h.at) * source.stride(2) + wide(w.at) * source.stride(3)),
                     expand(pixels.inside, 1) && expand(there, 0) && h.inside && w.inside);
    auto right =
        load(filters.ptr() +
                 (wide(group) * filters.stride(0) + expand(wide(column) * filters.stride(1), 0) +
                  expand(wide(channel) * filters.stride(2), 1) +
                  along(wide(r) * filters.stride(3), 1) + along(wide(s) * filters.stride(4), 1)),
             expand(there, 1) && expand(column < each, 0));
    sums = dot(left, right, sums, config.exact ? Precision::ieee : Precision::tf32);
  }
  if (config.bias)
    sums = sums + expand(cast<float>(bias.slice(0, group * each, each).tile(n).load(j)), 0);
  store(destination.ptr() + (expand(wide(pixels.image) * destination.stride(0) +
                                        wide(pixels.row) * destination.stride(2) +
                                        wide(pixels.column) * destination.stride(3),
                                    1) +
                             expand(wide(group * each + column) * destination.stride(1), 0)),
        cast<T>(sums), expand(pixels.inside, 1) && expand(column < each, 0));
};

} // namespace sectile
