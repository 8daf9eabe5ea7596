// A convolution without a stride of images with channels last, as a matrix product whose rows are
// boxes of pixels: what a tap reads of the image is a box as well, moved, so that the copy engine
// reads it, with zeros beyond the image's edges. The gradient of the image is the same with the
// taps the other way round. That of the filters sums over boxes.
#pragma once
#include "kernels/conv/Launch.h"
#include "kernels/matmul/SharedSums.h"
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
  int splits = 1; // programs that share the sums of a tile of the filters' gradient
};
SECTILE_CONFIG(BoxConfig, m, n, k, order, warps, stages, images, rows, columns, startH, startW,
               stepH, stepW, ofImage, persistent, bias, splits)

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
    LoopOptions options;
    if (config.persistent)
      options.warp_specialize = true;
    // Counted, as one thread divides longer than the others multiply.
    Int block = 0, s = 0, r = 0, tap = 0;
    for ([[maybe_unused]] auto step : range(0, filters.extent(1) * blocks, options)) {
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
// read of x there may be no number.
template <class T>
constexpr auto boxFilterGradient = [](View<const T, 4> x, View<const T, 4> dy, View<T, 3> dw,
                                      View<float, 3> parts, Ptr<std::int32_t> arrived, Int width,
                                      const BoxConfig &config) {
  const int m = config.m, n = config.n, depth = config.k;
  const auto [rowTiles, taps, columnTiles] = dw.tiles(m, 1, n);
  const Int tile = program_id(0) / config.splits, part = program_id(0) % config.splits;
  auto [i, at] = grouped_order(tile, {rowTiles, taps * columnTiles}, config.order);
  const Int tap = at / columnTiles, j = at % columnTiles;
  const Int down = config.startH + tap / width * config.stepH,
            right = config.startW + tap % width * config.stepW;
  const auto [images, rows, columns, once] =
      dy.tiles(config.images, config.rows, config.columns, 1);
  const Int steps = images * rows * columns;
  LoopOptions options;
  options.warp_specialize = true;
  auto sums = zeros<float>(m, n);
  const Int from = part * steps / config.splits, to = (part + 1) * steps / config.splits;
  Int image = from / (rows * columns), row = from / columns % rows, column = from % columns;
  for ([[maybe_unused]] auto step : range(from, to, options)) {
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
  shareSplits(parts, arrived, config.splits, sums, [&](const Tile<float> &total) {
    dw.tile(m, 1, n).store(i, tap, j, reshape(cast<T>(total), m, 1, n));
  });
};

// A box of this many pixels, a power of two, that covers images of these extents with the least
// beyond their edges, as wide as may be.
struct PixelBox {
  std::int64_t images, rows, columns;
  std::int64_t tiles; // that cover all images
};
inline PixelBox pixelBox(std::int64_t pixels, std::int64_t images, std::int64_t rows,
                         std::int64_t columns) {
  PixelBox best{};
  for (std::int64_t across = pixels; across > 0; across /= 2)
    for (std::int64_t down = pixels / across; down > 0; down /= 2) {
      const std::int64_t deep = pixels / across / down;
      const std::int64_t tiles =
          ceilDiv(images, deep) * ceilDiv(rows, down) * ceilDiv(columns, across);
      if (!best.images || tiles < best.tiles)
        best = {deep, down, across, tiles};
    }
  return best;
}

// Channels last, and where the copy engine can read and write it; nothing else.
template <class T> std::optional<Tensor<T, 4>> asBoxes(const Tensor<T, 4> &image) {
  constexpr std::int64_t granule = 16 / sizeof(T);
  if (image.stride(1) != 1 || image.extent(1) % granule || image.extent(1) == 0)
    return {};
  for (int axis : {0, 2, 3})
    if (image.stride(axis) % granule || image.stride(axis) < 0 || image.extent(axis) == 0)
      return {};
  return image.permute({0, 2, 3, 1});
}
// Filters [K, C, R, S] as [K, R * S, C], where the engine can read them.
template <class T> std::optional<Tensor<T, 3>> tapsInBoxes(const Tensor<T, 4> &w) {
  const auto filters = asBoxes(w);
  if (!filters || (w.extent(2) > 1 && w.stride(2) != w.extent(3) * w.stride(3)))
    return {};
  const std::int64_t apart = w.extent(3) > 1 ? w.stride(3) : w.stride(2);
  return Tensor<T, 3>{w.data(),
                      {w.extent(0), w.extent(2) * w.extent(3), w.extent(1)},
                      {w.stride(0), apart, 1},
                      w.memory()};
}

inline bool mayBeInBoxes(const ConvShape &shape) {
  return shape.h.stride == 1 && shape.w.stride == 1 && shape.groups == 1;
}

// From the fields with this prefix. Taps of the image's gradient go the other way.
inline BoxConfig boxConfig(const Use &use, const std::string &prefix, bool ofImage) {
  const ConvShape shape(use.call.options);
  auto field = [&](const char *name) { return use.field((prefix + name).c_str()); };
  const auto forward = [&](std::int64_t step) { return static_cast<int>(ofImage ? -step : step); };
  return {.m = field("m"),
          .n = field("n"),
          .k = field("k"),
          .warps = field("warps"),
          .stages = field("stages"),
          .startH = forward(-shape.h.pad),
          .startW = forward(-shape.w.pad),
          .stepH = forward(shape.h.dilation),
          .stepW = forward(shape.w.dilation),
          .ofImage = ofImage};
}

// A box of `pixels` pixels for images [N, P, Q, C].
template <class T>
PixelBox boxFor(BoxConfig &config, std::int64_t pixels, const Tensor<T, 4> &images) {
  const PixelBox box = pixelBox(pixels, images.extent(0), images.extent(1), images.extent(2));
  config.images = static_cast<int>(box.images);
  config.rows = static_cast<int>(box.rows);
  config.columns = static_cast<int>(box.columns);
  return box;
}

// Launches the product of y or, `ofImage`, of dx, where all that it reads and writes are boxes.
// Gives whether it did.
template <class T, class Function>
bool launchInBoxes(Use &use, const Kernel<Function> &kernel, const char *source,
                   const char *destination, bool ofImage) {
  if (!use.field("programs") || !mayBeInBoxes(ConvShape(use.call.options)))
    return false;
  const auto from = asBoxes(use.tensor<T, 4>(source)), to = asBoxes(use.tensor<T, 4>(destination));
  const auto filters = tapsInBoxes(use.tensor<T, 4>("w"));
  if (!from || !to || !filters)
    return false;
  BoxConfig chosen = boxConfig(use, "", ofImage);
  chosen.bias = !ofImage && use.has("b");
  const PixelBox box = boxFor(chosen, chosen.m, *to);
  const std::int64_t tiles = box.tiles * ceilDiv(to->extent(3), chosen.n),
                     programs = use.field("programs");
  chosen.persistent = tiles > programs;
  use(kernel, std::min(tiles, programs), *from, *filters, use.tensor<T, 1>("b"), *to,
      use.call.extent("S"), chosen);
  return true;
}

// The same for dw.
template <class T, class Function>
bool launchFilterGradientInBoxes(Use &use, const Kernel<Function> &kernel) {
  if (!use.field("wgrad_boxes") || !mayBeInBoxes(ConvShape(use.call.options)))
    return false;
  const auto x = asBoxes(use.tensor<T, 4>("x")), dy = asBoxes(use.tensor<T, 4>("dy"));
  const auto filters = tapsInBoxes(use.tensor<T, 4>("dw"));
  if (!x || !dy || !filters)
    return false;
  BoxConfig chosen = boxConfig(use, "wgrad_", /*ofImage=*/false);
  const PixelBox box = boxFor(chosen, chosen.k, *dy);
  if (box.tiles * chosen.k != dy->extent(0) * dy->extent(1) * dy->extent(2))
    return false;
  chosen.splits = use.field("wgrad_splits");
  const std::int64_t tiles = ceilDiv(filters->extent(0), chosen.m) * filters->extent(1) *
                             ceilDiv(filters->extent(2), chosen.n);
  const std::int64_t slots = chosen.splits > 1 ? tiles * chosen.splits : 0;
  const auto parts = use.workspace<float, 3>({slots, chosen.m, chosen.n});
  const auto arrived = use.zeroed<std::int32_t, 1>({slots ? tiles : 0});
  use(kernel, tiles * chosen.splits, *x, *dy, *filters, parts, arrived, use.call.extent("S"),
      chosen);
  return true;
}

} // namespace sectile
