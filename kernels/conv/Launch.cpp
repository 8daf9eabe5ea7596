// Configurations of the convolutions' launches.
#include "kernels/conv/Launch.h"
#include "kernels/conv/Depthwise.h"
#include <algorithm>
#include <span>
#include <vector>

using namespace sectile;

namespace {

// Whether the copy engine may read the images in boxes of pixels.
bool suitsBoxes(const Invocation &call, const std::string &target) {
  const ConvShape shape(call.options);
  const DType dtype = call.tensors[0].dtype;
  const std::int64_t channels = call.extent("C"), filters = call.extent("K");
  const bool isWhole = call.extent("H") % shape.h.stride == 0 &&
                       call.extent("W") % shape.w.stride == 0 &&
                       (shape.w.stride == 1 || channels % 64 == 0);
  return shape.groups == 1 && suitsBoxStrides(shape) && isWhole &&
         call.options.choice("layout") == "nhwc" && channels % 8 == 0 && filters % 8 == 0 &&
         std::min(channels, filters) >= 32 && size_of(dtype) == 2 &&
         hasWarpgroupUnits(target, dtype);
}

// Steps of the filters' gradient in boxes, 64 pixels each; 0 where they are not whole.
constexpr std::int64_t gradientDepth = 64;
std::int64_t wholeBoxes(const Invocation &call) {
  const std::int64_t images = call.extent("N"), rows = call.extent("P"), columns = call.extent("Q");
  const PixelBox box = pixelBox(gradientDepth, images, rows, columns);
  return box.tiles * gradientDepth == images * rows * columns ? box.tiles : 0;
}
bool suitsWholeBoxes(const Invocation &call, const std::string &target) {
  return suitsBoxes(call, target) && wholeBoxes(call) > 0;
}

} // namespace

ConvConfig sectile::convConfig(const Use &use, const std::string &prefix, std::int64_t own,
                               bool together) {
  auto config = use.config_as<ConvConfig>(prefix);
  config.flat = flatChannels(own, together, size_of(use.call.dtype("x")), config.k);
  return config;
}

void sectile::setTile(Config &config, const std::string &prefix, const ProductConfig &tile) {
  config[prefix + "m"] = tile.m;
  config[prefix + "n"] = tile.n;
  config[prefix + "k"] = tile.k;
  config[prefix + "warps"] = tile.warps;
  config[prefix + "stages"] = tile.stages;
}

void sectile::addConvConfig(KernelSpec &spec, const std::string &part, const std::string &prefix) {
  const std::string of = prefix.empty() ? "" : ", of " + part;
  for (const auto &[name, doc] :
       {std::pair{"m", "rows of one program's tile; depthwise: pixels"},
        {"n", "columns of one program's tile; depthwise: filters"},
        {"k", "depth of one step; depthwise: the tile's rows of pixels, at most"},
        {"warps", "warps of one program"},
        {"stages", "steps in flight; depthwise: not used"}})
    spec.config.push_back({prefix + name, doc + of});
  spec.spaces.push_back(
      {.part = part,
       .axes = {{prefix + "m", {32, 64, 128, 256, 512, 1024}},
                {prefix + "n", {1, 2, 4, 8, 16, 32, 64, 128, 256}},
                {prefix + "k", {1, 2, 4, 8, 16, 32, 64}},
                {prefix + "warps", {4, 8}},
                {prefix + "stages", {2, 3, 4}}},
       .where = [prefix](const Invocation &call, const std::string &target, const Config &config) {
         const bool ofImage = prefix.empty() && call.kernel->name != "conv2d";
         if (ofImage && suitsBoxes(call, target) && ConvShape(call.options).w.stride > 1 &&
             call.extent("C") % config.at(prefix + "n"))
           return false; // A box of channels would reach into the next pixel's.
         if (ofImage ? isDepthwiseImageGradient(call) : isDepthwise(call))
           return isDepthwiseCandidate(config, call, target, prefix);
         const bool inBoxes =
             ofImage || prefix.empty() ? suitsBoxes(call, target) : suitsWholeBoxes(call, target);
         if (config.at(prefix + "m") > (inBoxes ? 256 : 128) || config.at(prefix + "n") < 32 ||
             config.at(prefix + "n") > (inBoxes ? 256 : 128) || config.at(prefix + "k") < 16)
           return false;
         const std::int64_t sums = config.at(prefix + "m") * config.at(prefix + "n") /
                                   (config.at(prefix + "warps") * warpSize(target));
         return sums >= 8 && sums <= (inBoxes ? 128 : 64);
       }});
}

// Programs that share a tile's sums have so many steps each.
static constexpr std::int64_t leastStepsOfSplit = 16;

void sectile::addConvDefaults(Config &config, const Invocation &call, const std::string &target,
                              const std::string &prefix, std::int64_t pixels, std::int64_t columns,
                              std::int64_t depth) {
  // A line of shared memory, where warpgroups multiply.
  const bool line = size_of(call.tensors[0].dtype) == 2 && depth % 64 == 0 && columns >= 64 &&
                    hasWarpgroupUnits(target, call.tensors[0].dtype, /*alongK=*/true);
  const bool wide = call.tensors[0].dtype == DType::float32,
             matrices = hasMatrixUnits(target, call.tensors[0].dtype);
  // As wide as covers the columns without more beside them: each tile of columns reads all pixels.
  ProductConfig tile{.m = matrices && pixels >= 128 ? 128 : 64,
                     .n = columns <= 32                                            ? 32
                          : matrices && (columns % 128 == 0 || columns % 128 > 64) ? 128
                                                                                   : 64,
                     .k = line   ? 64
                          : wide ? 16
                                 : 32,
                     .warps = 4,
                     .stages = 3};
  const std::int64_t groups = ConvShape(call.options).groups, units = multiprocessors(target);
  const auto tiles = [&](std::int64_t m, std::int64_t n) {
    return groups * ceilDiv(pixels, m) * ceilDiv(columns, n);
  };
  // A program that has a multiprocessor to itself waits for less with more warps and loads. Where
  // even small tiles leave some idle, and sums are too short to split, small ones wait the least,
  // with most of a sum's loads in flight.
  if (target.starts_with("sm_") && matrices && tile.m == 128) {
    const bool alone = tiles(tile.m, tile.n) <= units;
    const std::int64_t steps = call.extent("R") * call.extent("S") * ceilDiv(depth, tile.k);
    if (line && steps < 2 * leastStepsOfSplit && tiles(64, 64) <= units)
      tile = {.m = 64, .n = 64, .k = tile.k, .warps = 8, .stages = 6};
    else if (tile.n == 128 || (tile.n == 64 && alone)) {
      tile.warps = 8;
      tile.stages = alone ? 4 : 3;
    }
  }
  setTile(config, prefix, tile);
}

void sectile::addConvSplits(Config &config, const Invocation &call, const std::string &target,
                            std::int64_t pixels, std::int64_t columns, std::int64_t depth,
                            bool ofImage) {
  const ConvShape shape(call.options);
  // Of an image's gradient a tile has the pixels of one class, and those of the taps that lie on
  // it.
  const std::int64_t classes = ofImage ? shape.h.stride * shape.w.stride : 1;
  const std::int64_t tiles = std::max<std::int64_t>(
                         shape.groups * classes * ceilDiv(ceilDiv(pixels, classes), config["m"]) *
                             ceilDiv(columns, config["n"]),
                         1),
                     steps = ceilDiv(ceilDiv(call.extent("R") * call.extent("S"), classes) * depth,
                                     config["k"]);
  constexpr std::int64_t mostSplits = 16;
  config["splits"] = std::clamp<std::int64_t>(
      std::min(multiprocessors(target) / tiles, steps / leastStepsOfSplit), 1, mostSplits);
}

PixelBox sectile::pixelBox(std::int64_t pixels, std::int64_t images, std::int64_t rows,
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

BoxConfig sectile::boxConfig(const Use &use, const std::string &prefix, bool ofImage) {
  const auto steps = use.config_as<ConvConfig>();
  auto config = use.config_as<BoxConfig>(prefix);
  config.strideH = steps.stride_h;
  config.strideW = steps.stride_w;
  config.padH = steps.pad_h;
  config.padW = steps.pad_w;
  config.dilationH = steps.dilation_h;
  config.dilationW = steps.dilation_w;
  config.ofImage = ofImage;
  return config;
}

void sectile::addBoxDefaults(Config &config, const Invocation &call, const std::string &target,
                             std::int64_t pixels, std::int64_t columns, std::int64_t depth,
                             bool ofImage) {
  config["programs"] = 0;
  config["splits"] = 1;
  if (!suitsBoxes(call, target))
    return;
  // 256 by 64 or 32 are for what has no more columns: taps are read as often as there are tiles of
  // pixels.
  constexpr ProductTile all[] = {{128, 256, 8, 3}, {128, 192, 8, 3}, {128, 160, 8, 3},
                                 {256, 64, 4, 4},  {256, 32, 4, 4},  {128, 128, 8, 4},
                                 {128, 96, 8, 4},  {64, 128, 4, 4},  {128, 64, 4, 4},
                                 {64, 64, 4, 6},   {64, 32, 4, 6}};
  const ConvShape shape(call.options);
  const std::int64_t strides = shape.h.stride * shape.w.stride;
  // Of an image's gradient with a stride, so many of the taps lie on a pixel in the mean.
  const std::int64_t taps = ceilDiv(call.extent("R") * call.extent("S"), ofImage ? strides : 1);
  std::vector<ProductTile> tiles;
  for (const ProductTile &tile : all)
    if ((!ofImage || shape.w.stride == 1 || columns % tile.n == 0) &&
        (tile.m < 256 || columns <= tile.n || taps == 1))
      tiles.push_back(tile);
  ProductConfig best = fastestProduct(
      tiles,
      {.batches = 1, .rows = pixels, .columns = columns, .inner = depth * taps, .repeats = taps},
      {.persistent = ProductForms::always, .mostSplits = 16}, target);
  best.k = depth <= 32 ? 32 : 64;
  setTile(config, "", best);
  config["programs"] = multiprocessors(target);
  config["splits"] = best.splits;
}

void sectile::addBoxGradientDefaults(Config &config, const Invocation &call,
                                     const std::string &target) {
  const std::int64_t filters = call.extent("K"), channels = call.extent("C"),
                     taps = call.extent("R") * call.extent("S");
  config["wgrad_boxes"] = 0;
  if (!suitsWholeBoxes(call, target))
    return;
  constexpr ProductTile all[] = {{128, 256, 8, 3}, {64, 256, 4, 4}, {128, 128, 8, 4},
                                 {64, 128, 4, 4},  {128, 64, 8, 4}, {64, 64, 4, 6}};
  // Of many channels, 64 by 64 reads both images so often that it was never the fastest.
  const std::span<const ProductTile> tiles =
      std::span(all).first(std::size(all) - (std::min(filters, channels) >= 128));
  ProductConfig best =
      fastestProduct(tiles,
                     {.batches = taps,
                      .rows = filters,
                      .columns = channels,
                      .inner = wholeBoxes(call) * gradientDepth,
                      .repeats = taps},
                     {.deeperRings = true, .mostSplits = multiprocessors(target)}, target);
  best.k = gradientDepth;
  setTile(config, "wgrad_", best);
  config["wgrad_splits"] = best.splits;
  config["wgrad_boxes"] = 1;
}
