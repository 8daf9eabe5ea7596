// A convolution without a stride of images with channels last, as a matrix product whose rows are
// boxes of pixels: what a tap reads of the image is a box as well, moved, so that the copy engine
// reads it, with zeros beyond the image's edges. The gradient of the image is the same with the
// taps the other way round. That of the filters sums over boxes.
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
  // Of the image under a filter's first tap, from where the destination is; and of each tap.
  int startH = 0, startW = 0, stepH = 1, stepW = 1;
  bool ofImage = false; // the gradient of the image: filters are summed
  bool persistent = false, bias = false;
  int splits = 1;             // programs that share the sums of a tile of the filters' gradient
  int sliceM = 0, sliceN = 0; // of the launch that adds them up: the slices of its programs
};
SECTILE_CONFIG(BoxConfig, m, n, k, order, warps, stages, images, rows, columns, startH, startW,
               stepH, stepW, ofImage, persistent, bias, splits, sliceM, sliceN)

// source [N, H, W, channels], filters [K, R * S, C], destination [N, P, Q, columns].
template <class T>
constexpr auto boxGemm = [](View<const T, 4> source, View<const T, 3> filters,
                            View<const T, 1> bias, View<T, 4> destination, Int width,
                            const BoxConfig &config) {
  const int m = config.m, n = config.n, depth = config.k;
  const auto [images, rows, columns, columnTiles] =
      destination.tiles(config.images, config.rows, config.columns, n);
  const Int rowTiles = images * rows * columns;
  const Int blocks = cdiv(source.extent(3), depth);
  const auto boxes = source.tile(config.images, config.rows, config.columns, depth);
  const auto multiply = [&](const Int &image, const Int &row, const Int &column, const Int &j) {
    auto sums = zeros<float>(m, n);
    // Counted, as one thread divides longer than the others multiply.
    Int block = 0, s = 0, r = 0, tap = 0;
    for ([[maybe_unused]] auto step :
         range(0, filters.extent(1) * blocks, copiedApart(config.persistent))) {
      const auto pixels = reshape(
          boxes.load_at(image * config.images, row * config.rows + config.startH + r * config.stepH,
                        column * config.columns + config.startW + s * config.stepW, block * depth),
          m, depth);
      if (config.ofImage)
        sums = dot(pixels, reshape(filters.tile(depth, 1, n).load(block, tap, j), depth, n), sums);
      else
        sums = dot(pixels, trans(reshape(filters.tile(n, 1, depth).load(j, tap, block), n, depth)),
                   sums);
      block += 1;
      const Bool isNext = block >= blocks;
      tap = where(isNext, tap + 1, tap);
      carry(block, blocks, s);
      carry(s, width, r);
    }
    return sums;
  };
  const auto program = [&](const Int &tile) {
    auto [i, j] = grouped_order(tile, {rowTiles, columnTiles}, config.order);
    const Int image = i / (rows * columns), row = i / columns % rows, column = i % columns;
    auto sums = multiply(image, row, column, j);
    if (config.bias)
      sums = sums + expand(cast<float>(bias.tile(n).load(j)), 0);
    destination.tile(config.images, config.rows, config.columns, n)
        .store(image, row, column, j,
               reshape(cast<T>(sums), config.images, config.rows, config.columns, n));
  };
  if (!config.persistent) {
    program(program_id(0));
    return;
  }
  for (auto tile : range(program_id(0), rowTiles * columnTiles, num_programs(0)))
    program(tile);
};

// x [N, H, W, C], dy [N, P, Q, K], dw [K, R * S, C]: rows are filters, columns channels under a
// tap, and the inner extent boxes of dy's pixels, which have none beyond the images' edges: what is
// read of x there may be no number. Splits are added up by a second launch, with slices.
template <class T>
constexpr auto boxFilterGradient = [](View<const T, 4> x, View<const T, 4> dy, View<T, 3> dw,
                                      View<float, 3> parts, Int width, const BoxConfig &config) {
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
  const Int down = config.startH + tap / width * config.stepH,
            right = config.startW + tap % width * config.stepW;
  const auto [images, rows, columns, once] =
      dy.tiles(config.images, config.rows, config.columns, 1);
  const Int steps = images * rows * columns;
  auto sums = zeros<float>(m, n);
  const Int from = part * steps / config.splits, to = (part + 1) * steps / config.splits;
  Int image = from / (rows * columns), row = from / columns % rows, column = from % columns;
  for ([[maybe_unused]] auto step : range(from, to, copiedApart(true))) {
    const auto gradients =
        reshape(dy.tile(config.images, config.rows, config.columns, m).load(image, row, column, i),
                depth, m);
    const auto values = reshape(x.tile(config.images, config.rows, config.columns, n)
                                    .load_at(image * config.images, row * config.rows + down,
                                             column * config.columns + right, j * n),
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
