// Images in the order in which the products read and write runs, copied where they lie otherwise:
// runs of channels, blocks of each group's channels behind each other where those are few, or runs
// of pixels.
#pragma once
#include "kernels/calls/Use.h"
#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

namespace sectile {

inline Tile<std::int64_t> wide(const Int &x) { return cast<std::int64_t>(x); }

// Numbers of one tile of `extent`, along this one of a tile's axes.
inline Int numbersAlong(const Int &tile, int extent, int axis, int rank) {
  Int numbers = tile * extent + arange(0, extent);
  for (int other = 0; other < rank; ++other)
    if (other != axis)
      numbers = expand(numbers, other);
  return numbers;
}

// What is left of a program's number, from which tiles are taken one after the other.
struct TileNumber {
  Int rest;

  Int next(const Int &tiles) {
    const Int tile = rest % tiles;
    rest = rest / tiles;
    return tile;
  }
};

struct ReorderConfig {
  int blocks = 1, channels = 64, pixels = 64, phases = 1, warps = 4; // of a tile
  int own = 0; // channels of a block, where there are several
  int gap = 1;
  int unit = 1; // strides of the copy are multiples of this, but for that of its runs
};

// One program's tile of an image [C, H, W] that lies in any order, and of its copy
// [H * ceil(W / gap), gap, blocks, channels of a block]. Pixels are counted over rows of every
// gap-th column; between two of them are the phases. The later axes of a tile are those whose
// neighbours rather lie beside each other: all channels of the image, pixels of the copy.
template <class Image, class Copy> struct ImageTile {
  Ptr<Image> elements; // [pixels, phases, blocks * channels]
  Ptr<Copy> copies;    // [blocks, phases, pixels, channels]
  Bool inside, exists; // alike

  ImageTile(const View<Image, 4> &images, const View<Copy, 5> &copy, const ReorderConfig &config) {
    const Int blocks = copy.extent(3), channels = multiple_of(copy.extent(4), config.unit);
    TileNumber tiles{program_id(0)};
    const Int channelTile = tiles.next(cdiv(channels, config.channels)),
              blockTile = tiles.next(cdiv(blocks, config.blocks)),
              phaseTile = tiles.next(cdiv(config.gap, config.phases)), pixelTile = tiles.rest;
    const Int columns = cdiv(images.extent(3), config.gap);
    {
      const Int pixel = numbersAlong(pixelTile, config.pixels, 0, 3),
                phase = numbersAlong(phaseTile, config.phases, 1, 3),
                number =
                    numbersAlong(blockTile + channelTile, config.blocks * config.channels, 2, 3);
      const Int row = pixel / columns, column = pixel % columns * config.gap + phase;
      Int channel = number;
      inside = row < images.extent(2) && column < images.extent(3) && phase < config.gap;
      // A tile of several blocks has all of their channels, some have more than the image.
      if (config.own && config.own != config.channels) {
        channel = number / config.channels * config.own + number % config.channels;
        inside = inside && number % config.channels < config.own;
      }
      inside = inside && channel < images.extent(1);
      const auto image = images.at(program_id(1));
      elements = image.ptr() + (wide(channel) * image.stride(0) +
                                (wide(row) * image.stride(1) + wide(column) * image.stride(2)));
    }
    {
      const Int block = numbersAlong(blockTile, config.blocks, 0, 4),
                phase = numbersAlong(phaseTile, config.phases, 1, 4),
                pixel = numbersAlong(pixelTile, config.pixels, 2, 4),
                channel = numbersAlong(channelTile, config.channels, 3, 4);
      auto stride = [&](int axis) { return multiple_of(copy.stride(axis), config.unit); };
      copies = copy.ptr() +
               (wide(program_id(1)) * stride(0) + wide(pixel) * stride(1) +
                wide(phase) * stride(2) + wide(block) * stride(3) + wide(channel) * copy.stride(4));
      exists = (channel < channels && block < blocks) &&
               (pixel < images.extent(2) * columns && phase < config.gap);
    }
  }
};

// from [N, C, H, W], to [N, H * ceil(W / gap), gap, blocks, channels of a block], zeros where a
// block has more than its part of C, and beyond W.
template <class T>
inline Kernel reorder{"conv2d_reorder",
                      [](View<const T, 4> from, View<T, 5> to, const ReorderConfig &config) {
                        const ImageTile<const T, T> tile(from, to, config);
                        const auto values = reshape(load(tile.elements, tile.inside), config.pixels,
                                                    config.phases, config.blocks, config.channels);
                        store(tile.copies, permute(values, {2, 1, 0, 3}), tile.exists);
                      }};
// The other way round.
template <class T>
inline Kernel restore{
    "conv2d_restore", [](View<const T, 5> from, View<T, 4> to, const ReorderConfig &config) {
      const ImageTile<T, const T> tile(to, from, config);
      const auto values = permute(load(tile.copies, tile.exists), {2, 1, 0, 3});
      store(tile.elements,
            reshape(values, config.pixels, config.phases, config.blocks * config.channels),
            tile.inside);
    }};

// Of a tile along an axis of `count`.
inline int powerFrom(std::int64_t count, int least, int most) {
  return static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(count, least, most))));
}

enum class RunsOf { channels, pixels };

// What lies in runs where `own` channels of a pixel are read or written at once: channels where
// they are 16 bytes, and fill a sector unless what lies beside them is read together with them.
inline RunsOf runsOf(std::int64_t own, bool together, std::size_t bytes) {
  return own * static_cast<std::int64_t>(bytes) < (together ? 16 : 32) ? RunsOf::pixels
                                                                       : RunsOf::channels;
}
template <class T> RunsOf runsOf(std::int64_t own, bool together) {
  return runsOf(own, together, sizeof(T));
}

// Numbers that a pixel of a source has for each group: a few channels are filled up to a power of
// two, of at least 8 bytes, which is read at once.
inline std::int64_t channelsRead(std::int64_t own, bool together, std::size_t bytes) {
  if (runsOf(own, together, bytes) == RunsOf::channels || own == 1)
    return own;
  const auto block = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(own)));
  return std::max<std::int64_t>(block, 8 / static_cast<std::int64_t>(bytes));
}

// ConvConfig::flat of a product whose tiles are so many channels wide.
inline int flatChannels(std::int64_t own, bool together, std::size_t bytes, std::int64_t tile) {
  return own > 0 && own < tile ? static_cast<int>(channelsRead(own, together, bytes)) : 0;
}

template <class T> bool hasRuns(const Tensor<T, 4> &x, RunsOf runs) {
  const bool channelsLast = x.stride(1) == 1;
  return runs == RunsOf::channels ? channelsLast
                                  : !channelsLast || x.extent(1) == 1 || x.stride(3) == 1;
}

// Scratch memory for x in another order.
template <class T> struct Reordered {
  std::int64_t gap = 1;
  Tensor<T, 5> pixels; // [N, H * ceil(W / gap), gap, blocks, channels of a block]

  // Channels last, or all images' pixels last.
  Reordered(Use &use, const Tensor<T, 4> &x, RunsOf runs) : pixels(scratch(use, x, runs)) {}
  // Blocks of `padded` channels for each group, every gap-th pixel of a row behind each other.
  Reordered(Use &use, const Tensor<T, 4> &x, std::int64_t groups, std::int64_t padded,
            std::int64_t gap)
      : gap(gap), pixels(scratch(use, x, groups, padded, gap)) {}

  // With the axes of x.
  Tensor<T, 4> image(const Tensor<T, 4> &x) const {
    return {pixels.data(),
            x.extents(),
            {pixels.stride(0), pixels.stride(4), x.extent(3) * pixels.stride(1), pixels.stride(1)},
            pixels.memory()};
  }
  void copyFrom(Use &use, const Tensor<T, 4> &x) const {
    launch(use, reorder<T>, x, pixels, x.extent(1) / pixels.extent(3));
  }
  void copyTo(Use &use, const Tensor<T, 4> &x) const {
    launch(use, restore<T>, pixels, x, x.extent(1) / pixels.extent(3));
  }

private:
  static std::int64_t wholeSectors(std::int64_t count) { return ceilDiv(count, 16) * 16; }
  static Tensor<T, 5> scratch(Use &use, const Tensor<T, 4> &x, RunsOf runs) {
    const std::int64_t images = x.extent(0), channels = x.extent(1),
                       area = x.extent(2) * x.extent(3);
    if (runs == RunsOf::channels)
      return use.workspace<T, 5>({images, area, 1, 1, channels});
    // Each channel begins where a sector does.
    const auto rows = use.workspace<T, 2>({channels, wholeSectors(images * area)});
    return withAxes(rows, {images, area, 1, 1, channels}, {area, 1, 0, 0, rows.stride(0)});
  }
  static Tensor<T, 5> scratch(Use &use, const Tensor<T, 4> &x, std::int64_t groups,
                              std::int64_t padded, std::int64_t gap) {
    const std::int64_t images = x.extent(0), area = x.extent(2) * ceilDiv(x.extent(3), gap);
    const auto planes = use.workspace<T, 3>({groups, gap, wholeSectors(images * area * padded)});
    return withAxes(planes, {images, area, gap, groups, padded},
                    {area * padded, padded, planes.stride(1), planes.stride(0), 1});
  }
  template <class Copy, class From, class To>
  void launch(Use &use, const Copy &copy, const From &from, const To &to, std::int64_t own) const {
    int elements = 64 * 64; // of a tile
    const auto take = [&](std::int64_t count, int least, int most) {
      const int extent = powerFrom(count, least, std::min(most, elements));
      elements /= extent;
      return extent;
    };
    ReorderConfig config{.gap = static_cast<int>(gap)};
    if (pixels.extent(3) > 1)
      config.own = static_cast<int>(own);
    config.channels = take(pixels.extent(4), pixels.extent(3) > 1 ? 1 : 4, 64);
    config.phases = take(gap, 1, 16);
    config.blocks = take(pixels.extent(3), 1, 64 / std::min(config.channels, 64));
    config.pixels = take(pixels.extent(1), 16, 4096);
    config.warps =
        std::clamp(config.channels * config.phases * config.blocks * config.pixels / 512, 1, 4);
    if (pixels.stride(4) == 1)
      config.unit = static_cast<int>(std::gcd(pixels.extent(4), 16));
    use(copy,
        Grid(ceilDiv(pixels.extent(1), config.pixels) * ceilDiv(gap, config.phases) *
                 ceilDiv(pixels.extent(3), config.blocks) *
                 ceilDiv(pixels.extent(4), config.channels),
             pixels.extent(0)),
        from, to, config);
  }
};

// Has x written as it is, or in scratch memory that is copied.
template <class T, class Write>
void writeInRuns(Use &use, const Tensor<T, 4> &x, RunsOf runs, const Write &write) {
  if (hasRuns(x, runs))
    return write(x);
  const Reordered<T> copy(use, x, runs);
  write(copy.image(x));
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

// What a product reads of x: every gap-th pixel, all channels of a group together.
template <class T> struct Source {
  Tensor<T, 6> image; // [N, groups, channels of a group, H, ceil(W / gap), gap]
  std::int64_t width; // W
  int unit;           // the strides of all axes but the channels are multiples of this
  std::int64_t apart; // neighbouring pixels, where they lie evenly
  bool isBlocks;      // of few channels

  // How far apart the pixels of a block lie; 0 where these are none.
  int blockApart() const { return isBlocks ? static_cast<int>(image.extent(2)) : 0; }
  // Its pixels [groups, N * H * W, channels of a group], where they lie evenly.
  Tensor<T, 3> pixels() const {
    return withAxes(
        image,
        {image.extent(1), image.extent(0) * image.extent(3) * image.extent(4), image.extent(2)},
        {image.stride(1), apart, image.stride(2)});
  }
};

// x as it is or copied; `even` pixels have the same distance everywhere.
template <class T>
Source<T> sourceOf(Use &use, const Tensor<T, 4> &x, std::int64_t groups, std::int64_t gap,
                   bool even = false) {
  const std::int64_t own = x.extent(1) / groups, columns = ceilDiv(x.extent(3), gap);
  const bool together = groups == 1 && gap == 1;
  const std::int64_t read = channelsRead(own, together, sizeof(T));
  const RunsOf runs = runsOf<T>(own, together);
  const bool asItLies = !even || pixelStride(x);
  const auto sourceFrom = [&](T *data, std::int64_t channels, std::array<std::int64_t, 6> strides,
                              std::int64_t apart, const detail::Memory &memory) {
    const std::array<std::int64_t, 6> extents{x.extent(0), groups,  channels,
                                              x.extent(2), columns, gap};
    std::int64_t unit = std::gcd(channels, 16);
    for (std::size_t axis = 0; axis < 6; ++axis) {
      if (extents[axis] == 1)
        strides[axis] = axis == 2; // it is never taken
      if (axis != 2)
        unit = std::gcd(unit, strides[axis]);
    }
    return Source<T>{{data, extents, strides, memory},
                     x.extent(3),
                     static_cast<int>(unit),
                     apart,
                     own > 0 && runs == RunsOf::pixels};
  };
  const auto from = [&](const Tensor<T, 4> &x) {
    return sourceFrom(
        x.data(), own,
        {x.stride(0), own * x.stride(1), x.stride(1), x.stride(2), gap * x.stride(3), x.stride(3)},
        pixelStride(x).value_or(0), x.memory());
  };
  if (own == 0 || runs == RunsOf::channels) {
    if (own == 0 || (asItLies && hasRuns(x, RunsOf::channels)))
      return from(x);
    const Reordered<T> copy(use, x, RunsOf::channels);
    copy.copyFrom(use, x);
    return from(copy.image(x));
  }
  const bool isBlock = groups == 1 && x.stride(1) == 1;
  if (asItLies && gap == 1 && read == own && x.stride(3) == own && (own == 1 || isBlock))
    return from(x);
  const Reordered<T> copy(use, x, groups, read, gap);
  copy.copyFrom(use, x);
  return sourceFrom(copy.pixels.data(), read,
                    {copy.pixels.stride(0), copy.pixels.stride(3), 1, columns * read, read,
                     copy.pixels.stride(2)},
                    read, copy.pixels.memory());
}

} // namespace sectile
