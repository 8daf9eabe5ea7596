// How the convolutions' launches are configured and handed their arguments.
#pragma once
#include "kernels/conv/BoxGemm.h"
#include "kernels/conv/ImplicitGemm.h"
#include "kernels/conv/Shape.h"
#include "kernels/matmul/ProductModel.h"

namespace sectile {

// From the fields m, n, k, warps, stages with this prefix; `own` channels are summed in one tap, of
// pixels that are read together with those beside them or not.
ConvConfig convConfig(const Use &use, const std::string &prefix, std::int64_t own, bool together);
void setTile(Config &config, const std::string &prefix, const ProductConfig &tile);
// Fields of a launch, their defaults and what the tuner tries for it. The launch has `pixels` rows
// and `columns` columns, and sums over `depth` neighbours in memory for each tap.
void addConvConfig(KernelSpec &spec, const std::string &part, const std::string &prefix);
void addConvDefaults(Config &config, const Invocation &call, const std::string &target,
                     const std::string &prefix, std::int64_t pixels, std::int64_t columns,
                     std::int64_t depth);
// Where images are read and written in boxes of pixels: by how many programs, and the tile then,
// for so many pixels and channels of the destination and channels of the source.
inline const ConfigSpec boxPrograms{"programs",
                                    "that do tiles one after another where the copy engine reads "
                                    "the image in boxes; 0: threads read it",
                                    0};
void addBoxDefaults(Config &config, const Invocation &call, const std::string &target,
                    std::int64_t pixels, std::int64_t columns, std::int64_t depth);
// The same of the filters' gradient, where its images' pixels are whole boxes.
void addBoxGradientDefaults(Config &config, const Invocation &call, const std::string &target);

// w [K, Cg, R, S] as [groups, K / groups, Cg, R, S].
template <class T> Tensor<T, 5> grouped(const Tensor<T, 4> &w, std::int64_t groups) {
  const std::int64_t each = w.extent(0) / groups;
  return withAxes(w, {groups, each, w.extent(1), w.extent(2), w.extent(3)},
                  {each * w.stride(0), w.stride(0), w.stride(1), w.stride(2), w.stride(3)});
}

// A box of this many pixels, a power of two, that covers images of these extents with the least
// beyond their edges, as wide as may be.
struct PixelBox {
  std::int64_t images, rows, columns;
  std::int64_t tiles; // that cover all images
};
PixelBox pixelBox(std::int64_t pixels, std::int64_t images, std::int64_t rows,
                  std::int64_t columns);

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
  return withAxes(w, {w.extent(0), w.extent(2) * w.extent(3), w.extent(1)},
                  {w.stride(0), apart, 1});
}

// Whether the pixels of images [N, P, Q, C] lie in one row, and they as [1, 1, N P Q, C].
template <class T> bool isOneRow(const Tensor<T, 4> &images) {
  return images.stride(1) == images.extent(2) * images.stride(2) &&
         images.stride(0) == images.extent(1) * images.stride(1);
}
template <class T> Tensor<T, 4> asOneRow(const Tensor<T, 4> &images) {
  const std::int64_t pixels = images.extent(0) * images.extent(1) * images.extent(2);
  return withAxes(images, {1, 1, pixels, images.extent(3)},
                  {images.stride(0), images.stride(0), images.stride(2), images.stride(3)});
}
// From the fields with this prefix. Taps of the image's gradient go the other way.
BoxConfig boxConfig(const Use &use, const std::string &prefix, bool ofImage);

// A box of `pixels` pixels for images [N, P, Q, C].
template <class T>
PixelBox boxFor(BoxConfig &config, std::int64_t pixels, const Tensor<T, 4> &images) {
  const PixelBox box = pixelBox(pixels, images.extent(0), images.extent(1), images.extent(2));
  config.images = static_cast<int>(box.images);
  config.rows = static_cast<int>(box.rows);
  config.columns = static_cast<int>(box.columns);
  return box;
}

// What a product in boxes reads and writes: images [N, H, W, C], and filters by their taps.
template <class T> struct Boxes {
  Tensor<T, 4> source, destination;
  Tensor<T, 3> filters;
};
// None where not all of these arguments are boxes.
template <class T>
std::optional<Boxes<T>> boxesOf(const Use &use, const char *source, const char *destination,
                                const char *filters) {
  const ConvShape shape(use.call.options);
  if (shape.h.stride != 1 || shape.w.stride != 1 || shape.groups != 1)
    return {};
  const auto from = asBoxes(use.tensor<T, 4>(source)), to = asBoxes(use.tensor<T, 4>(destination));
  const auto taps = tapsInBoxes(use.tensor<T, 4>(filters));
  if (!from || !to || !taps)
    return {};
  // Where a filter's only tap is its pixel, images are matrices, whose boxes may be a run of
  // memory.
  const bool isPointwise = taps->extent(1) == 1 && shape.h.pad == 0 && shape.w.pad == 0;
  if (isPointwise && isOneRow(*from) && isOneRow(*to))
    return Boxes<T>{asOneRow(*from), asOneRow(*to), *taps};
  return Boxes<T>{*from, *to, *taps};
}

// Launches the product of y or, `ofImage`, of dx, where all that it reads and writes are boxes.
// Gives whether it did.
template <class T, class Function>
bool launchInBoxes(Use &use, const Kernel<Function> &kernel, const char *source,
                   const char *destination, bool ofImage) {
  const std::int64_t programs = use.field("programs");
  const auto boxes = boxesOf<T>(use, source, destination, "w");
  if (!programs || !boxes)
    return false;
  BoxConfig chosen = boxConfig(use, "", ofImage);
  chosen.bias = !ofImage && use.has("b");
  const PixelBox box = boxFor(chosen, chosen.m, boxes->destination);
  const std::int64_t tiles = box.tiles * ceilDiv(boxes->destination.extent(3), chosen.n);
  chosen.persistent = tiles > programs;
  use(kernel, std::min(tiles, programs), boxes->source, boxes->filters, use.tensor<T, 1>("b"),
      boxes->destination, use.extent("S"), chosen);
  return true;
}

// The same for dw.
template <class T, class Function>
bool launchFilterGradientInBoxes(Use &use, const Kernel<Function> &kernel) {
  const auto boxes = boxesOf<T>(use, "x", "dy", "dw");
  if (!use.field("wgrad_boxes") || !boxes)
    return false;
  const auto &[x, dy, filters] = *boxes;
  BoxConfig chosen = boxConfig(use, "wgrad_", /*ofImage=*/false);
  const PixelBox box = boxFor(chosen, chosen.k, dy);
  if (box.tiles * chosen.k != dy.extent(0) * dy.extent(1) * dy.extent(2))
    return false;
  const std::int64_t tiles = ceilDiv(filters.extent(0), chosen.m) * filters.extent(1) *
                             ceilDiv(filters.extent(2), chosen.n);
  const auto parts =
      partsOfSums<float>(use, partsOfSplits(tiles, chosen.splits), chosen.m, chosen.n);
  forSplits(chosen, tiles * chosen.splits, tiles,
            [&](std::int64_t programs, const BoxConfig &config) {
              use(kernel, programs, boxes->source, boxes->destination, boxes->filters, parts,
                  use.extent("S"), config);
            });
  return true;
}

} // namespace sectile
