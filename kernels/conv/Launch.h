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
// Programs that share the sums of a tile of y or dx, where tiles are few and sums long.
inline const ConfigSpec convSplits{"splits", "programs that share the sums of a tile", 1, 64};
// For images that threads read, after addConvDefaults().
void addConvSplits(Config &config, const Invocation &call, const std::string &target,
                   std::int64_t pixels, std::int64_t columns, std::int64_t depth, bool ofImage);
// Launches so many tiles in splits, and what adds those up.
template <class C, class Launch>
void forWholeSplits(C &chosen, std::int64_t tiles, const Launch &launch) {
  chosen.adds = false;
  launch(tiles * chosen.splits);
  chosen.adds = chosen.splits > 1;
  if (chosen.adds)
    launch(tiles);
}
// Where images are read and written in boxes of pixels: by how many programs, and the tile then,
// for so many pixels and channels of the destination and channels of the source.
inline const ConfigSpec boxPrograms{"programs",
                                    "that do tiles one after another where the copy engine reads "
                                    "the image in boxes; 0: threads read it",
                                    0};
void addBoxDefaults(Config &config, const Invocation &call, const std::string &target,
                    std::int64_t pixels, std::int64_t columns, std::int64_t depth, bool ofImage);
// The same of the filters' gradient, where its images' pixels are whole boxes.
void addBoxGradientDefaults(Config &config, const Invocation &call, const std::string &target);

// w [K, Cg, R, S] as [groups, K / groups, Cg, R, S].
template <class T> Tensor<T, 5> grouped(const Tensor<T, 4> &w, std::int64_t groups) {
  const std::int64_t each = w.extent(0) / groups;
  return withAxes(w, {groups, each, w.extent(1), w.extent(2), w.extent(3)},
                  {each * w.stride(0), w.stride(0), w.stride(1), w.stride(2), w.stride(3)});
}

// Whether boxes are moved by these strides: with one, the image's gradient has no taps apart.
inline bool suitsBoxStrides(const ConvShape &shape) {
  return (shape.h.stride == 1 || shape.h.dilation == 1) &&
         (shape.w.stride == 1 || shape.w.dilation == 1);
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

// Images [N, H, W, C] by the classes of pixels that a stride makes, as [N, H / strideH, strideH,
// W / strideW, strideW * C]; none where they are not whole, or a row has gaps between pixels.
template <class T>
std::optional<Tensor<T, 5>> byClasses(const Tensor<T, 4> &images, std::int64_t strideH,
                                      std::int64_t strideW) {
  const std::int64_t rows = images.extent(1), columns = images.extent(2),
                     channels = images.extent(3);
  if (rows % strideH || columns % strideW || (strideW > 1 && images.stride(2) != channels))
    return {};
  return withAxes(
      images, {images.extent(0), rows / strideH, strideH, columns / strideW, strideW * channels},
      {images.stride(0), strideH * images.stride(1), images.stride(1), strideW * images.stride(2),
       1});
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
// From the fields with this prefix.
BoxConfig boxConfig(const Use &use, const std::string &prefix, bool ofImage);

// A box of `pixels` pixels for images by their classes.
template <class T>
PixelBox boxFor(BoxConfig &config, std::int64_t pixels, const Tensor<T, 5> &images) {
  const PixelBox box = pixelBox(pixels, images.extent(0), images.extent(1), images.extent(3));
  config.images = static_cast<int>(box.images);
  config.rows = static_cast<int>(box.rows);
  config.columns = static_cast<int>(box.columns);
  return box;
}

// What a product in boxes reads and writes: the convolution's image by the stride's classes, that
// of its result by one, and filters by their taps.
template <class T> struct Boxes {
  Tensor<T, 5> image, result;
  Tensor<T, 3> filters;
};
// None where not all of these arguments are boxes.
template <class T>
std::optional<Boxes<T>> boxesOf(const Use &use, const char *image, const char *result,
                                const char *filters) {
  const ConvShape shape(use.call.options);
  if (!suitsBoxStrides(shape) || shape.groups != 1)
    return {};
  auto of = asBoxes(use.tensor<T, 4>(image)), to = asBoxes(use.tensor<T, 4>(result));
  const auto taps = tapsInBoxes(use.tensor<T, 4>(filters));
  if (!of || !to || !taps)
    return {};
  // Where a filter's only tap is its pixel, images are matrices, whose boxes may be a run of
  // memory.
  const bool isPointwise = taps->extent(1) == 1 && shape.h.pad == 0 && shape.w.pad == 0 &&
                           shape.h.stride == 1 && shape.w.stride == 1;
  if (isPointwise && isOneRow(*of) && isOneRow(*to))
    of = asOneRow(*of), to = asOneRow(*to);
  const auto classes = byClasses(*of, shape.h.stride, shape.w.stride);
  if (!classes)
    return {};
  return Boxes<T>{*classes, *byClasses(*to, 1, 1), *taps};
}

// Launches the product of y or, `ofImage`, of dx, where all that it reads and writes are boxes.
// Gives whether it did.
template <class T, class Function>
bool launchInBoxes(Use &use, const Kernel<Function> &kernel, const char *image, const char *result,
                   bool ofImage) {
  const std::int64_t programs = use.field("programs");
  const auto boxes = boxesOf<T>(use, image, result, "w");
  if (!programs || !boxes)
    return false;
  BoxConfig chosen = boxConfig(use, "", ofImage);
  const std::int64_t channels = use.call.extent("C");
  // A block of channels must not reach into the next class.
  if (chosen.strideW > 1 && channels % (ofImage ? chosen.n : chosen.k))
    return false;
  chosen.bias = !ofImage && use.has("b");
  const auto &source = ofImage ? boxes->result : boxes->image,
             &destination = ofImage ? boxes->image : boxes->result;
  const PixelBox box = boxFor(chosen, chosen.m, destination);
  const std::int64_t tiles =
      box.tiles * destination.extent(2) * ceilDiv(destination.extent(4), chosen.n);
  chosen.persistent = chosen.splits == 1 && tiles > programs;
  const auto parts =
      partsOfSums<float>(use, partsOfSplits(tiles, chosen.splits), chosen.m, chosen.n);
  forSplits(
      chosen, chosen.splits > 1 ? tiles * chosen.splits : std::min(tiles, programs), tiles,
      [&](std::int64_t count, const BoxConfig &config) {
        use(kernel, count, source, boxes->filters, use.tensor<T, 1>("b"), destination, parts,
            use.extent("R"), use.extent("S"), config);
      },
      chosen.m);
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
  if (box.tiles * chosen.k != dy.extent(0) * dy.extent(1) * dy.extent(3))
    return false;
  const std::int64_t tiles = ceilDiv(filters.extent(0), chosen.m) * filters.extent(1) *
                             ceilDiv(filters.extent(2), chosen.n);
  const auto parts =
      partsOfSums<float>(use, partsOfSplits(tiles, chosen.splits), chosen.m, chosen.n);
  forSplits(chosen, tiles * chosen.splits, tiles,
            [&](std::int64_t programs, const BoxConfig &config) {
              use(kernel, programs, boxes->image, boxes->result, boxes->filters, parts,
                  use.extent("R"), use.extent("S"), config);
            });
  return true;
}

} // namespace sectile
