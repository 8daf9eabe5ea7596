// Images in the order of which the products read and write runs, copied where they lie otherwise:
// runs of channels, 16 bytes at a time, or of pixels, where a group has too few channels for that.
#pragma once
#include "kernels/Use.h"
#include <algorithm>
#include <bit>
#include <optional>

namespace sectile {

struct ReorderConfig {
  int channels = 64, pixels = 64, warps = 4;
};
SECTILE_CONFIG(ReorderConfig, channels, pixels, warps)

// One program's tile of an image [C, H, W] that lies in any order: its elements, and which there
// are.
template <class T> struct ImageTile {
  Int i, j; // along pixels and channels
  Ptr<T> elements;
  Bool inside; // both [channels, pixels]

  ImageTile(const View<T, 4> &images, const ReorderConfig &config) {
    const Int channelTiles = cdiv(images.extent(1), config.channels);
    i = program_id(0) / channelTiles;
    j = program_id(0) % channelTiles;
    const Int pixel = i * config.pixels + arange(0, config.pixels);
    const Int channel = j * config.channels + arange(0, config.channels);
    const Int row = pixel / images.extent(3), column = pixel % images.extent(3);
    auto wide = [](const Int &x) { return cast<std::int64_t>(x); };
    const auto image = images.at(program_id(1));
    elements =
        image.ptr() + (expand(wide(channel) * image.stride(0), 1) +
                       expand(wide(row) * image.stride(1) + wide(column) * image.stride(2), 0));
    inside = expand(channel < images.extent(1), 1) &&
             expand(pixel < images.extent(2) * images.extent(3), 0);
  }
};

// from [N, C, H, W], to [N, H * W, C].
template <class T>
inline Kernel reorder{"conv2d_reorder",
                      [](View<const T, 4> from, View<T, 3> to, const ReorderConfig &config) {
                        const ImageTile<const T> tile(from, config);
                        to.at(program_id(1))
                            .tile(config.pixels, config.channels)
                            .store(tile.i, tile.j, trans(load(tile.elements, tile.inside)));
                      }};
// from [N, H * W, C], to [N, C, H, W].
template <class T>
inline Kernel restore{
    "conv2d_restore", [](View<const T, 3> from, View<T, 4> to, const ReorderConfig &config) {
      const ImageTile<T> tile(to, config);
      auto values =
          from.at(program_id(1)).tile(config.pixels, config.channels).load(tile.i, tile.j);
      store(tile.elements, trans(values), tile.inside);
    }};

// Of a tile along an axis of `count`.
inline int powerFrom(std::int64_t count, int least, int most) {
  return static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(count, least, most))));
}

enum class RunsOf { channels, pixels };

// What is read in runs where `own` channels of `all` are read together: channels where they are
// 16 bytes, and fill a sector unless those beside them are read too.
template <class T> RunsOf runsOf(std::int64_t own, std::int64_t all) {
  const std::int64_t bytes = own * static_cast<std::int64_t>(sizeof(T));
  return bytes < (own < all ? 32 : 16) ? RunsOf::pixels : RunsOf::channels;
}

template <class T> bool hasRuns(const Tensor<T, 4> &x, RunsOf runs) {
  const bool channelsLast = x.stride(1) == 1;
  return runs == RunsOf::channels ? channelsLast
                                  : !channelsLast || x.extent(1) == 1 || x.stride(3) == 1;
}

// Scratch memory for x with its channels last, or with all images' pixels last: as [N, H * W, C],
// and with the axes of x.
template <class T> struct Reordered {
  Tensor<T, 3> pixels;
  Tensor<T, 4> image;

  Reordered(Use &use, const Tensor<T, 4> &x, RunsOf runs)
      : pixels(scratch(use, x, runs)), image(pixels.data(), x.extents(),
                                             {pixels.stride(0), pixels.stride(2),
                                              x.extent(3) * pixels.stride(1), pixels.stride(1)},
                                             pixels.memory()) {}

  void copyFrom(Use &use, const Tensor<T, 4> &x) const { launch(use, reorder<T>, x, pixels); }
  void copyTo(Use &use, const Tensor<T, 4> &x) const { launch(use, restore<T>, pixels, x); }

private:
  static Tensor<T, 3> scratch(Use &use, const Tensor<T, 4> &x, RunsOf runs) {
    const std::int64_t images = x.extent(0), channels = x.extent(1),
                       area = x.extent(2) * x.extent(3);
    if (runs == RunsOf::channels)
      return use.workspace<T, 3>({images, area, channels});
    // Each channel begins where a sector does.
    const auto rows = use.workspace<T, 2>({channels, ceilDiv(images * area, 16) * 16});
    return {rows.data(), {images, area, channels}, {area, 1, rows.stride(0)}, rows.memory()};
  }
  template <class Copy, class From, class To>
  void launch(Use &use, const Copy &copy, const From &from, const To &to) const {
    constexpr int elements = 64 * 64; // of a tile
    ReorderConfig config;
    config.channels = powerFrom(pixels.extent(2), 4, 64);
    config.pixels = powerFrom(pixels.extent(1), 16, elements / config.channels);
    config.warps = std::clamp(config.channels * config.pixels / 512, 1, 4);
    use(copy,
        Grid(ceilDiv(pixels.extent(1), config.pixels) * ceilDiv(pixels.extent(2), config.channels),
             pixels.extent(0)),
        from, to, config);
  }
};

// x as it is or copied.
template <class T> Tensor<T, 4> inRuns(Use &use, const Tensor<T, 4> &x, RunsOf runs) {
  if (hasRuns(x, runs))
    return x;
  const Reordered<T> copy(use, x, runs);
  copy.copyFrom(use, x);
  return copy.image;
}

// x for a product that reads `own` of its channels together, of every gap-th pixel. Half a sector
// of channels is better than pixels with gaps, and few channels that are all of a pixel's, beside
// those of the next taps, are no worse.
template <class T>
Tensor<T, 4> readInRuns(Use &use, const Tensor<T, 4> &x, std::int64_t own, std::int64_t gap) {
  const RunsOf runs = runsOf<T>(own, gap > 1 ? own : x.extent(1));
  if (runs == RunsOf::pixels && own == x.extent(1) && gap > 1)
    return x;
  return inRuns(use, x, runs);
}

// Has x written as it is, or in scratch memory that is copied.
template <class T, class Write>
void writeInRuns(Use &use, const Tensor<T, 4> &x, RunsOf runs, const Write &write) {
  if (hasRuns(x, runs))
    return write(x);
  const Reordered<T> copy(use, x, runs);
  write(copy.image);
  copy.copyTo(use, x);
}

// The distance of neighbouring pixels of x [N, C, H, W], counted over all images; none where there
// is no one distance.
template <class T> std::optional<std::int64_t> pixelStride(const Tensor<T, 4> &x) {
  std::optional<std::int64_t> stride;
  std::int64_t pixels = 1;
  for (const int axis : {3, 2, 0}) {
    if (x.extent(axis) > 1 && stride && x.stride(axis) != *stride * pixels)
      return {};
    if (x.extent(axis) > 1 && !stride)
      stride = x.stride(axis);
    pixels *= x.extent(axis);
  }
  return stride.value_or(0);
}

} // namespace sectile
