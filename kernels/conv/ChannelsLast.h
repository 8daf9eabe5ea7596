// Images and filters with their channels last, copied where they lie otherwise: the products read
// runs of channels, 16 bytes at a time.
#pragma once
#include "kernels/Use.h"

namespace sectile {

struct ChannelsLastConfig {
  int channels = 64, pixels = 64, warps = 4;
};
SECTILE_CONFIG(ChannelsLastConfig, channels, pixels, warps)

// from [N, C, H, W], to [N, H * W, C].
template <class T>
inline Kernel channelsLastCopy{
    "conv2d_channels_last",
    [](View<const T, 4> from, View<T, 3> to, const ChannelsLastConfig &config) {
      const Int channelTiles = cdiv(from.extent(1), config.channels);
      const Int i = program_id(0) / channelTiles, j = program_id(0) % channelTiles;
      const Int pixel = i * config.pixels + arange(0, config.pixels);
      const Int channel = j * config.channels + arange(0, config.channels);
      const Int row = pixel / from.extent(3), column = pixel % from.extent(3);
      auto wide = [](const Int &x) { return cast<std::int64_t>(x); };
      const auto image = from.at(program_id(1));
      auto values = load(
          image.ptr() + (expand(wide(channel) * image.stride(0), 1) +
                         expand(wide(row) * image.stride(1) + wide(column) * image.stride(2), 0)),
          expand(channel < from.extent(1), 1) && expand(pixel < to.extent(1), 0));
      to.at(program_id(1)).tile(config.pixels, config.channels).store(i, j, trans(values));
    }};

// x [N, C, H, W] as it is or copied; `own` channels are read together.
template <class T> Tensor<T, 4> channelsLast(Use &use, const Tensor<T, 4> &x, std::int64_t own) {
  constexpr std::int64_t few = 16 / sizeof(T); // a copy makes nothing wider
  if (own < few || x.stride(1) == 1)
    return x;
  const std::int64_t images = x.extent(0), channels = x.extent(1),
                     pixels = x.extent(2) * x.extent(3);
  const auto copy = use.workspace<T, 3>({images, pixels, channels});
  ChannelsLastConfig config;
  config.pixels = pixels <= 16 ? 16 : 64;
  use(channelsLastCopy<T>,
      Grid(ceilDiv(pixels, config.pixels) * ceilDiv(channels, config.channels), images), x, copy,
      config);
  return {copy.data(),
          x.extents(),
          {pixels * channels, 1, x.extent(3) * channels, channels},
          copy.memory()};
}

} // namespace sectile
