// A convolution as a matrix product whose image is read where it lies: rows are pixels of the
// destination, columns its channels, the inner extent all taps of the filter for all channels of
// the source. The gradient of the image is the same with the image's pixels as destination. A
// stride lets only some of the taps lie on a pixel, so a program there has pixels on which the same
// ones do, or, where channels are few, all pixels of a row, those between the strides as columns.
#pragma once
#include "kernels/conv/Axes.h"
#include "kernels/conv/Runs.h"
#include "kernels/matmul/SharedSums.h"

namespace sectile {

struct ConvConfig {
  int m = 64, n = 64, k = 32, order = 8, warps = 4, stages = 3;
  int stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  Precision precision = Precision::tf32;
  // Few channels: taps and channels are numbered in one row, so that a step may hold several taps;
  // so many for each tap. 0: a step has one tap.
  int flat = 0;
  // Of the source: its strides are multiples of the unit, neighbouring pixels of a phase lie so far
  // apart; 0: that is not known.
  int unit = 1, apart = 0;
  // Columns of a channel: of PhaseAxis, neighbours in a row of the image.
  int phases = 1;
  bool bias = false;
  int splits = 1;    // programs that share the sums of a tile
  bool adds = false; // up the parts of splits
};

// Pixels, counted over images of rows x columns, taken apart.
struct Pixels {
  Int image, row, column;
  Bool inside;
};
inline Pixels pixelsOf(const Int &number, const Int &images, const Int &rows, const Int &columns) {
  // Images without pixels, as some phases of a stride are, have none inside.
  const Int area = maximum(rows * columns, 1), width = maximum(columns, 1);
  const Int rest = number % area;
  return {number / area, rest / width, rest % width, number < images * rows * columns};
}
template <class Image> Pixels pixelsOf(const Int &number, const Image &images) {
  return pixelsOf(number, images.extent(0), images.extent(2), images.extent(3));
}

// Along the other axis of a tile of two, where it is no single number.
template <class T> Tile<T> along(const Tile<T> &x, int axis) {
  return x.rank() == 1 ? expand(x, axis) : x;
}

inline Bool within(const Int &at, const Int &extent) { return at >= 0 && at < extent; }

// Numbers below `count`. Those that rise by one are taken for long runs, which taps beside each
// other are not, and pixels are; of a minimum nothing is known.
inline Int shortRuns(const Int &number, const Int &count) { return minimum(number, count - 1); }

// One digit of a number that counts up, which is below twice its base; `next` is the digit above.
inline void carry(Int &digit, const Int &base, Int &next) {
  const Bool over = digit >= base;
  digit = where(over, digit - base, digit);
  next = where(over, next + 1, next);
}

// source as in Source, of images of sourceWidth columns; destination [N, groups * each, P, Q], bias
// [groups * each]; filters of height x width taps as [groups, taps, columns, channels of a group],
// or, where they are flat, as [groups, classes of pixels, columns, taps * flat]; columns are
// `each`, or their phases. Splits are added up by a second launch, which `adds`.
template <class T, class Vertical, class Horizontal>
constexpr auto implicitGemm = [](View<const T, 6> source, Int sourceWidth, View<const T, 4> filters,
                                 View<const T, 1> bias, View<T, 4> destination,
                                 View<float, 3> parts, Int each, Int height, Int width,
                                 const ConvConfig &config) {
  constexpr bool phased = std::is_same_v<Horizontal, PhaseAxis>;
  const int m = config.m, n = config.n, depth = config.k, phases = config.phases;
  const int classesH = Vertical::classes(config.stride_h),
            classesW = Horizontal::classes(config.stride_w);
  const Int most =
      destination.extent(0) * cdiv(destination.extent(2), Vertical::step(config.stride_h)) *
      cdiv(destination.extent(3), Horizontal::step(config.stride_w)); // rows of a class
  // Of few channels: all of them, and some of the phases.
  const Int columnTiles =
      phased ? cdiv(minimum(destination.extent(3), config.stride_w), phases) : cdiv(each, n);
  const Int rowTiles = cdiv(most, m), area = rowTiles * columnTiles;
  const Int tile = config.adds ? program_id(0) : program_id(0) / config.splits;
  const Int number = tile / area, pixelClass = number % (classesH * classesW);
  const Int group = number / (classesH * classesW);
  auto [i, j] = grouped_order(tile % area, {rowTiles, columnTiles}, config.order);

  const Vertical vertical(config.stride_h, config.pad_h, config.dilation_h, pixelClass / classesW,
                          destination.extent(2), height);
  const Horizontal horizontal(config.stride_w, config.pad_w, config.dilation_w,
                              pixelClass % classesW, destination.extent(3), width);
  const auto numbers = [&](const Int &number) {
    return pixelsOf(number, destination.extent(0), vertical.count, horizontal.count);
  };
  const Pixels pixels = numbers(i * m + arange(0, m));
  const Int lane = arange(0, depth);
  const auto stride = [&](int axis) {
    return axis == 4 && config.apart ? wide(config.apart)
                                     : multiple_of(source.stride(axis), config.unit);
  };
  const Int own = config.flat ? Int(config.flat) : multiple_of(source.extent(2), config.unit);
  const Int inner = vertical.taps * horizontal.taps * own;
  const Int blocks = cdiv(own, depth);
  // What a step adds to these is the same for all pixels.
  const Int top = vertical.source(pixels.row) * vertical.gap() + vertical.offset(),
            first = horizontal.source(pixels.column);
  const auto underFirst =
      source.ptr() +
      (wide(group) * stride(1) +
       expand(wide(pixels.image) * stride(0) + wide(top) * stride(3) + wide(first) * stride(4), 1));
  const Int column = j * n + arange(0, n);
  const auto columns = filters.ptr() + (wide(group) * filters.stride(0) +
                                        expand(wide(column) * filters.stride(2), 0));
  auto sums = zeros<float>(m, n);
  // Of a row of filters: they go on with zeros to a whole sector.
  const Int length = config.flat ? cdiv(inner, 16) * 16 : filters.extent(3);
  const Int steps = config.flat ? cdiv(inner, depth) : vertical.taps * horizontal.taps * blocks;
  const PartLayout layout(m, n);
  const Int part = program_id(0) % config.splits;
  const Int from = part * steps / config.splits, to = (part + 1) * steps / config.splits;
  const auto multiply = [&] {
    Int block = 0, r = 0, s = 0; // of a step that has one tap
    if (config.splits > 1 && !config.flat) {
      const Int across = maximum(horizontal.taps, 1), deep = maximum(blocks, 1);
      block = from % deep;
      s = from / deep % across;
      r = from / deep / across;
    }
    for (auto step : range(from, to)) {
      // In a step there is one tap, or each lane has its own.
      const Int at = (config.flat ? step : block) * depth + lane;
      Int channel = at, tapRow = r, tapColumn = s, row = pixelClass;
      Bool there = at < own;
      if (config.flat) {
        channel = at % own;
        tapRow = at / own / horizontal.taps;
        tapColumn = shortRuns(at / own % horizontal.taps, horizontal.taps);
        there = at < inner;
      } else {
        row = vertical.index(r) * horizontal.width + horizontal.index(s);
      }
      const Int down = tapRow * vertical.move(),
                right = tapColumn * horizontal.move() + horizontal.offset();
      const int gap = horizontal.gap();
      auto pixelValues = load(
          underFirst + expand(wide(channel) * source.stride(2) + wide(down) * stride(3) +
                                  wide(right / gap) * stride(4) + wide(right % gap) * stride(5),
                              0),
          expand(pixels.inside, 1) && expand(there, 0) &&
              within(expand(top, 1) + along(down, 0), source.extent(3)) &&
              within(expand(first * gap, 1) + along(right, 0), sourceWidth));
      auto weights =
          load(columns + expand(wide(row) * filters.stride(1) + wide(at) * filters.stride(3), 1),
               expand(at < length, 1) && expand(column < filters.extent(2), 0));
      sums = dot(pixelValues, weights, sums, config.precision);
      if (!config.flat) {
        block += 1;
        carry(block, blocks, s);
        carry(s, horizontal.taps, r);
      }
    }
  };
  if (config.adds)
    sums = sumOfSplits(parts, layout, config.splits, splitSlice(m, n, m, n));
  else
    multiply();
  if (config.splits > 1 && !config.adds) {
    layout.store(parts.at(program_id(0)), sums);
    return;
  }
  if (config.bias)
    sums = sums + expand(cast<float>(bias.slice(0, group * each, each).tile(n).load(j)), 0);
  const auto write = [&](const Pixels &to, const Int &pixel, const Bool &inside, const Int &channel,
                         const Tile<T> &values) {
    store(destination.ptr() +
              (expand(wide(to.image) * destination.stride(0) +
                          wide(vertical.destination(to.row)) * destination.stride(2) +
                          wide(pixel) * destination.stride(3),
                      1) +
               expand(wide(group * each + channel) * destination.stride(1), 0)),
          values, expand(inside, 1) && expand(channel < each, 0));
  };
  if constexpr (phased) {
    // A number's phases become pixels beside each other.
    const int channels = n / phases;
    const Int at = arange(0, m * phases), phase = j * phases + at % phases;
    const Pixels all = numbers(i * m + at / phases);
    const Int pixel = horizontal.destination(all.column) + phase;
    write(all, pixel, all.inside && phase < config.stride_w && pixel < destination.extent(3),
          arange(0, channels),
          reshape(permute(reshape(cast<T>(sums), m, channels, phases), {0, 2, 1}), m * phases,
                  channels));
  } else {
    write(pixels, horizontal.destination(pixels.column), pixels.inside, column, cast<T>(sums));
  }
};

} // namespace sectile
