// How the convolutions' launches are configured and handed their arguments.
#pragma once
#include "kernels/conv/BoxGemm.h"
#include "kernels/conv/ImplicitGemm.h"
#include "kernels/conv/Shape.h"

namespace sectile {

// From the fields m, n, k, warps, stages with this prefix; `own` channels are summed in one tap, of
// pixels that are read together with those beside them or not.
ConvConfig convConfig(const Use &use, const std::string &prefix, std::int64_t own, bool together);
// Fields of a launch, their defaults and what the tuner tries for it. The launch has `pixels` rows
// and `columns` columns, and sums over `depth` neighbours in memory for each tap.
void addConvConfig(KernelSpec &spec, const std::string &part, const std::string &prefix);
void addConvDefaults(Config &config, const Invocation &call, const std::string &target,
                     const std::string &prefix, std::int64_t pixels, std::int64_t columns,
                     std::int64_t depth);
// Whether images are read and written in boxes of pixels, and by how many programs; the tile then,
// for so many pixels and channels of the destination and channels of the source.
void addBoxConfig(KernelSpec &spec);
void addBoxDefaults(Config &config, const Invocation &call, const std::string &target,
                    std::int64_t pixels, std::int64_t columns, std::int64_t depth);
// The same of the filters' gradient, where its images' pixels are whole boxes.
void addBoxGradientDefaults(Config &config, const Invocation &call, const std::string &target);

// w [K, Cg, R, S] as [groups, K / groups, Cg, R, S].
template <class T> Tensor<T, 5> grouped(const Tensor<T, 4> &w, std::int64_t groups) {
  const std::int64_t each = w.extent(0) / groups;
  return {w.data(),
          {groups, each, w.extent(1), w.extent(2), w.extent(3)},
          {each * w.stride(0), w.stride(0), w.stride(1), w.stride(2), w.stride(3)},
          w.memory()};
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
  return Tensor<T, 3>{w.data(),
                      {w.extent(0), w.extent(2) * w.extent(3), w.extent(1)},
                      {w.stride(0), apart, 1},
                      w.memory()};
}

bool mayBeInBoxes(const ConvShape &shape);
// Whether a filter's only tap is its pixel: then images are matrices, whose boxes may be a run of
// memory.
bool isPointwise(const Invocation &call);
// Whether the pixels of images [N, P, Q, C] lie in one row, and they as [1, 1, N P Q, C].
template <class T> bool isOneRow(const Tensor<T, 4> &images) {
  return images.stride(1) == images.extent(2) * images.stride(2) &&
         images.stride(0) == images.extent(1) * images.stride(1);
}
template <class T> Tensor<T, 4> asOneRow(const Tensor<T, 4> &images) {
  const std::int64_t pixels = images.extent(0) * images.extent(1) * images.extent(2);
  return {images.data(),
          {1, 1, pixels, images.extent(3)},
          {images.stride(0), images.stride(0), images.stride(2), images.stride(3)},
          images.memory()};
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

// Launches the product of y or, `ofImage`, of dx, where all that it reads and writes are boxes.
// Gives whether it did.
template <class T, class Function>
bool launchInBoxes(Use &use, const Kernel<Function> &kernel, const char *source,
                   const char *destination, bool ofImage) {
  if (!use.field("programs") || !mayBeInBoxes(ConvShape(use.call.options)))
    return false;
  auto from = asBoxes(use.tensor<T, 4>(source)), to = asBoxes(use.tensor<T, 4>(destination));
  const auto filters = tapsInBoxes(use.tensor<T, 4>("w"));
  if (!from || !to || !filters)
    return false;
  if (isPointwise(use.call) && isOneRow(*from) && isOneRow(*to))
    from = asOneRow(*from), to = asOneRow(*to);
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
  auto x = asBoxes(use.tensor<T, 4>("x")), dy = asBoxes(use.tensor<T, 4>("dy"));
  const auto filters = tapsInBoxes(use.tensor<T, 4>("dw"));
  if (!x || !dy || !filters)
    return false;
  if (isPointwise(use.call) && isOneRow(*x) && isOneRow(*dy))
    x = asOneRow(*x), dy = asOneRow(*dy);
  BoxConfig chosen = boxConfig(use, "wgrad_", /*ofImage=*/false);
  const PixelBox box = boxFor(chosen, chosen.k, *dy);
  if (box.tiles * chosen.k != dy->extent(0) * dy->extent(1) * dy->extent(2))
    return false;
  chosen.splits = use.field("wgrad_splits");
  const std::int64_t tiles = ceilDiv(filters->extent(0), chosen.m) * filters->extent(1) *
                             ceilDiv(filters->extent(2), chosen.n);
  const auto parts =
      partsOfSums<float>(use, partsOfSplits(tiles, chosen.splits), chosen.m, chosen.n);
  const auto launch = [&](std::int64_t programs) {
    use(kernel, programs, *x, *dy, *filters, parts, use.call.extent("S"), chosen);
  };
  launch(tiles * chosen.splits);
  if (chosen.splits > 1) {
    const PartLayout layout(chosen.m, chosen.n);
    chosen.sliceM = layout.sliceRows(), chosen.sliceN = layout.sliceColumns();
    chosen.warps = 4;
    launch(tiles * slicesOf(chosen.m, chosen.n, chosen.sliceM, chosen.sliceN));
  }
  return true;
}

} // namespace sectile
