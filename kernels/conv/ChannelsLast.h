// Images and filters with their channels last, copied where they lie otherwise: the products read
// runs of channels, 16 bytes at a time, and write them.
#pragma once
#include "kernels/Use.h"
#include <optional>

namespace sectile {

struct ChannelsLastConfig {
  int channels = 64, pixels = 64, warps = 4;
};
SECTILE_CONFIG(ChannelsLastConfig, channels, pixels, warps)

// One program's tile of an image [C, H, W] that lies in any order: its elements, and which there
// are.
template <class T> struct ImageTile {
  Int i, j; // along pixels and channels
  Ptr<T> elements;
  Bool inside; // both [channels, pixels]

  ImageTile(const View<T, 4> &images, const ChannelsLastConfig &config) {
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
inline Kernel channelsLastCopy{
    "conv2d_channels_last",
    [](View<const T, 4> from, View<T, 3> to, const ChannelsLastConfig &config) {
      const ImageTile<const T> tile(from, config);
      to.at(program_id(1))
          .tile(config.pixels, config.channels)
          .store(tile.i, tile.j, trans(load(tile.elements, tile.inside)));
    }};
// from [N, H * W, C], to [N, C, H, W].
template <class T>
inline Kernel channelsFirstCopy{
    "conv2d_channels_first",
    [](View<const T, 3> from, View<T, 4> to, const ChannelsLastConfig &config) {
      const ImageTile<T> tile(to, config);
      auto values =
          from.at(program_id(1)).tile(config.pixels, config.channels).load(tile.i, tile.j);
      store(tile.elements, trans(values), tile.inside);
    }};

// Scratch memory for x with its channels last: as [N, H * W, C], and with the axes of x.
template <class T> struct LastChannels {
  Tensor<T, 3> pixels;
  Tensor<T, 4> image;

  LastChannels(Use &use, const Tensor<T, 4> &x)
      : pixels(use.workspace<T, 3>({x.extent(0), x.extent(2) * x.extent(3), x.extent(1)})),
        image(pixels.data(), x.extents(),
              {pixels.stride(0), 1, x.extent(3) * x.extent(1), x.extent(1)}, pixels.memory()) {}

  void copyFrom(Use &use, const Tensor<T, 4> &x) const {
    launch(use, channelsLastCopy<T>, x, pixels);
  }
  void copyTo(Use &use, const Tensor<T, 4> &x) const {
    launch(use, channelsFirstCopy<T>, pixels, x);
  }

private:
  template <class Copy, class From, class To>
  void launch(Use &use, const Copy &copy, const From &from, const To &to) const {
    const std::int64_t area = pixels.extent(1);
    ChannelsLastConfig config;
    config.pixels = area <= 16 ? 16 : 64;
    use(copy,
        Grid(ceilDiv(area, config.pixels) * ceilDiv(pixels.extent(2), config.channels),
             pixels.extent(0)),
        from, to, config);
  }
};

// Whether runs of so many channels are too short for a copy to make accesses wider.
template <class T> bool areFew(std::int64_t channels) {
  return channels < static_cast<std::int64_t>(16 / sizeof(T));
}

// x [N, C, H, W] as it is or copied; `own` channels are read together.
template <class T> Tensor<T, 4> channelsLast(Use &use, const Tensor<T, 4> &x, std::int64_t own) {
  if (areFew<T>(own) || x.stride(1) == 1)
    return x;
  const LastChannels<T> copy(use, x);
  copy.copyFrom(use, x);
  return copy.image;
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
