// A convolution as a matrix product whose operands are read where they lie: rows are pixels of the
// destination, columns its channels, the inner extent all taps of the filter for all channels of
// the source. The gradient of the image is the same with the image's pixels as destination. A
// stride lets only some of the taps lie on a pixel, so a program there has pixels on which the same
// ones do, or, where channels are few, all pixels of a row, those between the strides as columns.
#pragma once
#include <numeric>
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

// Pixels, counted over images of rows x columns, taken apart.
struct Pixels {
  Int image, row, column;
  Bool inside;
};
inline Pixels pixelsOf(const Int &number, const Int &images, const Int &rows, const Int &columns) {
  const Int area = rows * columns;
  const Int rest = number % area;
  return {number / area, rest / columns, rest % columns, number < images * area};
}
template <class Image> Pixels pixelsOf(const Int &number, const Image &images) {
  return pixelsOf(number, images.extent(0), images.extent(2), images.extent(3));
}

inline Tile<std::int64_t> wide(const Int &x) { return cast<std::int64_t>(x); }

// Along the other axis of a tile of two, where it is no single number.
template <class T> Tile<T> along(const Tile<T> &x, int axis) {
  return x.rank() == 1 ? expand(x, axis) : x;
}

inline Bool within(const Int &at, const Int &extent) { return at >= 0 && at < extent; }

// One digit of a number that counts up, which is below twice its base; `next` is the digit above.
inline void carry(Int &digit, const Int &base, Int &next) {
  const Bool over = digit >= base;
  digit = where(over, digit - base, digit);
  next = where(over, next + 1, next);
}

// One axis of the forward pass: all places of the filter, with all of its taps.
struct PlaceAxis {
  static constexpr int classes(int) { return 1; }
  static constexpr int phases(int) { return 1; }

  int stride, pad, dilation;
  Int count, taps;

  PlaceAxis(int stride, int pad, int dilation, const Int &, const Int &places, const Int &filter)
      : stride(stride), pad(pad), dilation(dilation), count(places), taps(filter) {}
  Int destination(const Int &number) const { return number; }
  Int tap(const Int &number) const { return number; }
  // The element of the source under the first tap, and how much further it is under each next one.
  Int source(const Int &place) const { return place * stride - pad; }
  int move() const { return dilation; }
};

// One axis of the gradient of the image: elements first, first + stride, ..., and the taps that lie
// on them when the filter is at some place, which are every period-th from one on, if any.
struct ElementAxis {
  static constexpr int classes(int stride) { return stride; }
  static constexpr int phases(int) { return 1; }

  int stride, pad, dilation, common, period;
  Int first, count, firstTap, taps;

  ElementAxis(int stride, int pad, int dilation, const Int &first, const Int &elements,
              const Int &filter)
      : stride(stride), pad(pad), dilation(dilation), common(std::gcd(stride, dilation)),
        period(stride / common), first(first), count(cdiv(maximum(elements - first, 0), stride)) {
    // tap * dilation is as far behind a place as the element is: the same modulo the stride.
    const Int rest = (first + pad) % stride;
    int inverse = 0; // of dilation / common, modulo the period
    while (inverse * (dilation / common) % period != 1 % period)
      ++inverse;
    firstTap = rest / common * inverse % period;
    taps = where(rest % common == 0, cdiv(maximum(filter - firstTap, 0), period), 0);
  }
  Int destination(const Int &number) const { return first + number * stride; }
  Int tap(const Int &number) const { return firstTap + number * period; }
  Int source(const Int &element) const { return (element + pad - firstTap * dilation) / stride; }
  int move() const { return -(dilation / common); }
};

// The same with all elements: a number stands for as many neighbours as the stride, its phases.
// They take the same places of the source, and of each its own tap, if one lies on it.
struct PhaseAxis {
  static constexpr int classes(int) { return 1; }
  static constexpr int phases(int stride) { return stride; }

  int stride, dilation;
  int last;   // number n takes the places up to n + last,
  int behind; // under which tap * dilation is phase - behind at the first of them
  Int count, filter, taps;

  PhaseAxis(int stride, int pad, int dilation, const Int &, const Int &elements, const Int &filter)
      : stride(stride), dilation(dilation), last((stride - 1 + pad) / stride),
        behind(last * stride - pad), count(cdiv(elements, stride)), filter(filter),
        taps(((maximum(filter, 1) - 1) * dilation + behind) / stride + 1) {}
  Int destination(const Int &number) const { return number; }
  // Of each phase at the `number`-th place, or beyond the filter.
  Int tap(const Int &number, const Int &phase) const {
    const Int distance = number * stride + phase - behind;
    return where(distance >= 0 && distance % dilation == 0, distance / dilation, filter);
  }
  Int source(const Int &number) const { return number + last; }
  int move() const { return -1; }
};

// source [N, groups * depth, H, W], filters [groups, columns, depth, R, S], destination [N, groups
// * columns, P, Q], bias [groups * columns].
template <class T, class Vertical, class Horizontal>
constexpr auto implicitGemm = [](View<const T, 4> source, View<const T, 5> filters,
                                 View<const T, 1> bias, View<T, 4> destination,
                                 const ConvConfig &config) {
  // A column is a channel, and the phases of a pixel beside it.
  const int phases = Horizontal::phases(config.strideW);
  const int m = config.m, n = config.n, depth = config.k, channels = n / phases;
  const int classesH = Vertical::classes(config.strideH),
            classesW = Horizontal::classes(config.strideW);
  const Int each = filters.extent(1), own = filters.extent(2);
  const Int most = destination.extent(0) * cdiv(destination.extent(2), classesH) *
                   cdiv(destination.extent(3), classesW * phases); // rows of a class
  const Int columnTiles = cdiv(each, channels);
  const Int rowTiles = cdiv(most, m), area = rowTiles * columnTiles;
  const Int number = program_id(0) / area, pixelClass = number % (classesH * classesW);
  const Int group = number / (classesH * classesW);
  auto [i, j] = grouped_order(program_id(0) % area, {rowTiles, columnTiles}, config.order);

  const Vertical vertical(config.strideH, config.padH, config.dilationH, pixelClass / classesW,
                          destination.extent(2), filters.extent(3));
  const Horizontal horizontal(config.strideW, config.padW, config.dilationW, pixelClass % classesW,
                              destination.extent(3), filters.extent(4));
  const Pixels pixels =
      pixelsOf(i * m + arange(0, m), destination.extent(0), vertical.count, horizontal.count);
  const Int row = vertical.destination(pixels.row), pixel = horizontal.destination(pixels.column);
  const Int column = j * channels + arange(0, n) / phases, phase = arange(0, n) % phases;
  const Int lane = arange(0, depth);
  const Int taps = vertical.taps * horizontal.taps;
  const Int inner = taps * own;
  const Int blocks = cdiv(own, depth);
  // What a step adds to these is the same for all pixels, and for all columns.
  const Int top = vertical.source(row), first = horizontal.source(pixel);
  const auto underFirst =
      source.ptr() + expand(wide(pixels.image) * source.stride(0) + wide(top) * source.stride(2) +
                                wide(first) * source.stride(3),
                            1);
  const auto columns = filters.ptr() + (wide(group) * filters.stride(0) +
                                        expand(wide(column) * filters.stride(1), 0));
  auto sums = zeros<float>(m, n);
  const Int steps = config.flat ? cdiv(inner, depth) : taps * blocks;
  Int block = 0, r = 0, s = 0; // of a step that has one tap
  for (auto step : range(0, steps)) {
    // In a step there is one tap, or each lane has its own.
    Int channel, tapRow = r, tapColumn = s;
    Bool there;
    if (config.flat) {
      const Int at = step * depth + lane;
      channel = at % own;
      tapRow = at / own / horizontal.taps;
      tapColumn = at / own % horizontal.taps;
      there = at < inner;
    } else {
      channel = block * depth + lane;
      there = channel < own;
    }
    const Int down = tapRow * vertical.move(), right = tapColumn * horizontal.move();
    auto pixelValues =
        load(underFirst + expand(wide(group * own + channel) * source.stride(1) +
                                     wide(down) * source.stride(2) + wide(right) * source.stride(3),
                                 0),
             expand(pixels.inside, 1) && expand(there, 0) &&
                 within(expand(top, 1) + along(down, 0), source.extent(2)) &&
                 within(expand(first, 1) + along(right, 0), source.extent(3)));
    Tile<T> weights;
    if constexpr (std::is_same_v<Horizontal, PhaseAxis>) {
      const Int tap = horizontal.tap(along(tapColumn, 1), expand(phase, 0));
      weights = load(columns +
                         expand(wide(channel) * filters.stride(2) +
                                    wide(vertical.tap(tapRow)) * filters.stride(3),
                                1) +
                         wide(tap) * filters.stride(4),
                     expand(there, 1) && expand(column < each, 0) && tap < horizontal.filter);
    } else {
      weights = load(columns + expand(wide(channel) * filters.stride(2) +
                                          wide(vertical.tap(tapRow)) * filters.stride(3) +
                                          wide(horizontal.tap(tapColumn)) * filters.stride(4),
                                      1),
                     expand(there, 1) && expand(column < each, 0));
    }
    sums = dot(pixelValues, weights, sums, config.exact ? Precision::ieee : Precision::tf32);
    if (!config.flat) {
      block += 1;
      carry(block, blocks, s);
      carry(s, horizontal.taps, r);
    }
  }
  if (config.bias)
    sums = sums + expand(cast<float>(bias.slice(0, group * each, each).tile(n).load(j)), 0);
  const auto write = [&](const Int &image, const Int &row, const Int &pixel, const Bool &inside,
                         const Int &channel, const Tile<T> &values) {
    store(destination.ptr() +
              (expand(wide(image) * destination.stride(0) + wide(row) * destination.stride(2) +
                          wide(pixel) * destination.stride(3),
                      1) +
               expand(wide(group * each + channel) * destination.stride(1), 0)),
          values, expand(inside, 1) && expand(channel < each, 0));
  };
  if constexpr (std::is_same_v<Horizontal, PhaseAxis>) {
    // A row's phases become pixels beside each other.
    const Pixels all = pixelsOf(i * (m * phases) + arange(0, m * phases), destination.extent(0),
                                vertical.count, horizontal.count * phases);
    write(all.image, vertical.destination(all.row), all.column,
          all.inside && all.column < destination.extent(3), j * channels + arange(0, channels),
          reshape(permute(reshape(cast<T>(sums), m, channels, phases), {0, 2, 1}), m * phases,
                  channels));
  } else {
    write(pixels.image, row, pixel, pixels.inside, column, cast<T>(sums));
  }
};

} // namespace sectile
