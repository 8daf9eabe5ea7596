// A convolution of images with channels last, as a matrix product whose rows are boxes of pixels:
// what a tap reads of the image is a box as well, moved, so that the copy engine reads it, with
// zeros beyond the image's edges. The gradient of the image is the same with the taps the other way
// round. That of the filters sums over boxes. A stride divides the image into classes of pixels, of
// which a tap lies on one: an axis of their own, or, along rows, beside the channels.
#pragma once
#include "kernels/conv/ImplicitGemm.h"
#include "kernels/matmul/SharedSums.h"
#include "kernels/matmul/TileOrder.h"
#include <algorithm>
#include <optional>

namespace sectile {

struct BoxConfig {
  int m = 128, n = 128, k = 64, order = 8, warps = 8, stages = 4;
  // A box of pixels: m of them, in the gradient of filters k.
  int images = 1, rows = 8, columns = 16;
  int strideH = 1, strideW = 1, padH = 0, padW = 0, dilationH = 1, dilationW = 1;
  bool ofImage = false; // the gradient of the image: filters are summed
  bool persistent = false, bias = false;
  int splits = 1;             // programs that share the sums of a tile
  int sliceM = 0, sliceN = 0; // of the launch that adds them up: the slices of its programs
};

// The taps along one axis: which class of the image's pixels each lies on, and how far it is moved.
class BoxTaps {
  int stride, dilation;
  bool ofImage;
  int ahead; // classes that padding reaches back, rounded up
  int pad;
  Int first;  // of the image's gradient, the taps that lie on a class are this and every stride's
  Int extent; // of the filter

public:
  // `number` counts the classes of the image's gradient, those with the most taps first. There a
  // stride goes with no dilation.
  BoxTaps(int stride, int pad, int dilation, bool ofImage, const Int &extent, const Int &number)
      : stride(stride), dilation(dilation), ofImage(ofImage), ahead((pad + stride - 1) / stride),
        pad(pad), first(number), extent(extent) {}

  Int count() const { return ofImage ? cdiv(maximum(extent - first, 0), stride) : extent; }
  // Of the filter, for tap `number` of these.
  Int tap(const Int &number) const { return ofImage ? first + number * stride : number; }
  Int pixelClass(const Int &number) const { return ofImage ? ownClass() : place(number) % stride; }
  // Of what is read from where the destination is.
  Int moved(const Int &number) const {
    return ofImage ? (ownClass() + pad - first) / stride - number * dilation
                   : place(number) / stride - ahead;
  }

private:
  Int ownClass() const { return (first + (ahead * stride - pad)) % stride; }
  Int place(const Int &number) const { return number * dilation + (ahead * stride - pad); }
};

// Images are [N, rows, classes of rows, columns, classes of columns * channels]; filters
// [K, R * S, C]. The source of y and the destination of dx have the stride's classes, the other
// images one.
template <class T>
constexpr auto boxGemm = [](View<const T, 5> source, View<const T, 3> filters,
                            View<const T, 1> bias, View<T, 5> destination, View<float, 3> parts,
                            Int height, Int width, const BoxConfig &config) {
  const int m = config.m, n = config.n, depth = config.k;
  const int classesH = config.ofImage ? config.strideH : 1,
            classesW = config.ofImage ? config.strideW : 1;
  const auto [images, rows, unused, columns, allColumns] =
      destination.tiles(config.images, config.rows, 1, config.columns, n);
  const Int columnTiles = allColumns / classesW;
  const Int rowTiles = images * rows * columns, area = rowTiles * columnTiles;
  const Int channels = source.extent(4) / (config.ofImage ? 1 : config.strideW);
  const Int blocks = cdiv(channels, depth);
  const auto boxes = source.tile(config.images, config.rows, 1, config.columns, depth);

  struct Place {
    Int image, row, column, j;
    BoxTaps h, w;
  };
  const auto placeOf = [&](const Int &tile) {
    auto [i, j] = grouped_order(tile % area, {rowTiles, columnTiles}, config.order);
    const Int number = tile / area;
    return Place{
        i / (rows * columns),
        i / columns % rows,
        i % columns,
        j,
        {config.strideH, config.padH, config.dilationH, config.ofImage, height, number / classesW},
        {config.strideW, config.padW, config.dilationW, config.ofImage, width, number % classesW}};
  };
  const auto stepsOf = [&](const Place &at) { return at.h.count() * at.w.count() * blocks; };
  const auto multiply = [&](const Place &at, const Int &from, const Int &to) {
    auto sums = zeros<float>(m, n);
    // Counted, as one thread divides longer than the others multiply.
    const Int across = maximum(at.w.count(), 1);
    Int block = 0, s = 0, r = 0;
    if (config.splits > 1) {
      block = from % blocks;
      s = from / blocks % across;
      r = from / blocks / across;
    }
    for ([[maybe_unused]] auto step :
         range(from, to, copiedApart(config.persistent || config.splits > 1))) {
      const Int classH = config.ofImage ? Int(0) : at.h.pixelClass(r),
                beside = config.ofImage ? Int(0) : at.w.pixelClass(s) * channels;
      const auto pixels = reshape(
          boxes.load_at(at.image * config.images, at.row * config.rows + at.h.moved(r), classH,
                        at.column * config.columns + at.w.moved(s), beside + block * depth),
          m, depth);
      const Int tap = at.h.tap(r) * width + at.w.tap(s);
      if (config.ofImage)
        sums =
            dot(pixels, reshape(filters.tile(depth, 1, n).load(block, tap, at.j), depth, n), sums);
      else
        sums =
            dot(pixels, trans(reshape(filters.tile(n, 1, depth).load(at.j, tap, block), n, depth)),
                sums);
      block += 1;
      carry(block, blocks, s);
      carry(s, across, r);
    }
    return sums;
  };
  // Columns from j * n + slice * (the tile's).
  const auto finish = [&](const Place &at, Tile<float> sums, const Int &slice) {
    const auto each = static_cast<int>(sums.extent(1));
    const Int j = at.j * (n / each) + slice;
    if (config.bias)
      sums = sums + expand(cast<float>(bias.tile(each).load(j)), 0);
    const auto boxes = destination.tile(config.images, config.rows, 1, config.columns, each);
    const auto result = reshape(cast<T>(sums), config.images, config.rows, 1, config.columns, each);
    if (config.ofImage)
      boxes.store(at.image, at.row, at.h.pixelClass(0), at.column,
                  at.w.pixelClass(0) * (columnTiles * (n / each)) + j, result);
    else
      boxes.store(at.image, at.row, 0, at.column, j, result);
  };
  const PartLayout layout(m, n);
  if (config.sliceM) {
    const SplitSlice slice = splitSlice(m, n, config.sliceM, config.sliceN);
    finish(placeOf(slice.tile), sumOfSplits(parts, layout, config.splits, slice), slice.j);
    return;
  }
  if (config.splits > 1) {
    const Int part = program_id(0) % config.splits;
    const Place at = placeOf(program_id(0) / config.splits);
    const Int steps = stepsOf(at);
    layout.store(parts.at(program_id(0)),
                 multiply(at, part * steps / config.splits, (part + 1) * steps / config.splits));
    return;
  }
  const auto program = [&](const Int &tile) {
    const Place at = placeOf(tile);
    finish(at, multiply(at, 0, stepsOf(at)), 0);
  };
  if (!config.persistent) {
    program(program_id(0));
    return;
  }
  for (auto tile : range(program_id(0), area * (classesH * classesW), num_programs(0)))
    program(tile);
};

// x and dy as above, dw [K, R * S, C]: rows are filters, columns channels under a
// tap, and the inner extent boxes of dy's pixels, which have none beyond the images' edges: what is
// read of x there may be no number. Splits are added up by a second launch, with slices.
template <class T>
constexpr auto boxFilterGradient = [](View<const T, 5> x, View<const T, 5> dy, View<T, 3> dw,
                                      View<float, 3> parts, Int height, Int width,
                                      const BoxConfig &config) {
  const int m = config.m, n = config.n, depth = config.k;
  const auto [rowTiles, taps, columnTiles] = dw.tiles(m, 1, n);
  const auto placeOf = [&](const Int &tile) {
    auto [i, at] = grouped_order(tile, {rowTiles, taps * columnTiles}, config.order);
    return std::array<Int, 3>{i, at / columnTiles, at % columnTiles};
  };
  const PartLayout layout(m, n);
  if (config.sliceM) {
    const SplitSlice slice = splitSlice(m, n, config.sliceM, config.sliceN);
    const auto [i, tap, j] = placeOf(slice.tile);
    const auto sums = sumOfSplits(parts, layout, config.splits, slice);
    dw.tile(slice.rows, 1, slice.columns)
        .store(i * (m / slice.rows) + slice.i, tap, j * (n / slice.columns) + slice.j,
               reshape(cast<T>(sums), slice.rows, 1, slice.columns));
    return;
  }
  const Int part = program_id(0) % config.splits;
  const auto [i, tap, j] = placeOf(program_id(0) / config.splits);
  const BoxTaps vertical(config.strideH, config.padH, config.dilationH, false, height, 0),
      horizontal(config.strideW, config.padW, config.dilationW, false, width, 0);
  const Int r = tap / width, s = tap % width, channels = x.extent(4) / config.strideW;
  const auto [images, rows, unused, columns, once] =
      dy.tiles(config.images, config.rows, 1, config.columns, 1);
  const Int steps = images * rows * columns;
  auto sums = zeros<float>(m, n);
  const Int from = part * steps / config.splits, to = (part + 1) * steps / config.splits;
  Int image = from / (rows * columns), row = from / columns % rows, column = from % columns;
  for ([[maybe_unused]] auto step : range(from, to, copiedApart(true))) {
    const auto gradients = reshape(
        dy.tile(config.images, config.rows, 1, config.columns, m).load(image, row, 0, column, i),
        depth, m);
    const auto values =
        reshape(x.tile(config.images, config.rows, 1, config.columns, n)
                    .load_at(image * config.images, row * config.rows + vertical.moved(r),
                             vertical.pixelClass(r), column * config.columns + horizontal.moved(s),
                             horizontal.pixelClass(s) * channels + j * n),
                depth, n);
    sums = dot(trans(gradients), values, sums);
    column += 1;
    carry(column, columns, row);
    carry(row, rows, image);
  }
  // It reads nothing but the call's inputs, beside the launch ahead.
  wait_dependencies();
  if (config.splits > 1)
    layout.store(parts.at(program_id(0)), sums);
  else
    dw.tile(m, 1, n).store(i, tap, j, reshape(cast<T>(sums), m, 1, n));
};

} // namespace sectile
