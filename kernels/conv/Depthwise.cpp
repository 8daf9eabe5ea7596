// The depthwise convolution and its gradients. A thread has outputs in a few rows of one column, so
// that it reads an element of the image once for all taps of a column that lie on it; the taps'
// other columns find it in the first cache.
#include "kernels/conv/Depthwise.h"
#include "kernels/conv/ImplicitGemm.h"
#include "kernels/conv/Launch.h"
#include "kernels/conv/Runs.h"
#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

using namespace sectile;

namespace {

struct DepthwiseConfig {
  int columns = 16, channels = 64, rows = 4, warps = 4; // of a tile of outputs
  int tapRows = 1, each = 1;                            // of a filter; filters of a channel
  int stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  // Channels, and strides other than theirs, are multiples of this.
  int unit = 1;
  bool ofImage = false, bias = false;
};

// An output's row and a tap's, counted from the first of a tile.
struct Meeting {
  int row, tap;
};
// Those that meet on each row of the source, counted from that under the first tap of the first
// output. Of dx: outputs are counted from one that lies under a first tap.
std::map<int, std::vector<Meeting>> meetings(int rows, int taps, int stride, int dilation,
                                             bool ofImage) {
  std::map<int, std::vector<Meeting>> result;
  for (int row = 0; row < rows; ++row)
    for (int tap = 0; tap < taps; ++tap) {
      const int down = ofImage ? row - tap * dilation : row * stride + tap * dilation;
      if (!ofImage)
        result[down].push_back({row, tap});
      else if (down % stride == 0)
        result[down / stride].push_back({row, tap});
    }
  return result;
}

// The address of an element for each pixel of a tile and each of its channels. Both are from the
// same view.
template <class T>
Ptr<T> elementsOf(const View<T, 4> &view, const Int &image, const Int &row, const Int &column,
                  const Int &channel, int unit) {
  const auto stride = [&](int axis) { return multiple_of(view.stride(axis), unit); };
  return view.ptr() +
         (expand(wide(image) * stride(0) + wide(row) * stride(2) + wide(column) * stride(3), 1) +
          expand(wide(channel) * view.stride(1), 0));
}

template <class T> Tile<std::int64_t> rowsDown(const View<T, 4> &view, int rows, int unit) {
  return wide(Int(rows)) * multiple_of(view.stride(2), unit);
}

template <class T>
Tile<float> loadWhere(const Ptr<T> &elements, const Bool &pixels, const Bool &channels) {
  return cast<float>(load(elements, expand(pixels, 1) && expand(channels, 0)));
}

// What a tile of channels is for each filter of them.
Tile<float> ofFilters(const Tile<float> &channels, int each) {
  if (each == 1)
    return channels;
  const auto m = channels.extent(0), n = channels.extent(1);
  return reshape(broadcast_to(expand(channels, 2), m, n, each), m, n * each);
}

// Sums of taps for each element of the destination: y from x, or dx from dy. Images [N, channels,
// rows, columns], filters [filters, R, S], bias [filters].
template <class T>
constexpr auto depthwise = [](View<const T, 4> source, View<const T, 3> filters,
                              View<const T, 1> bias, View<T, 4> destination,
                              const DepthwiseConfig &config) {
  const int rows = config.rows, n = config.channels * config.each;
  // Tiles of dx begin at a row under the first tap, which may be one of the padding.
  const int before = config.ofImage ? config.pad_h % config.stride_h : 0;
  const Int blocks = cdiv(destination.extent(2) + before, rows);
  const Int channels =
      multiple_of(config.ofImage ? destination.extent(1) : source.extent(1), config.unit);
  const Int channelTiles = cdiv(channels, config.channels);
  const Int tile = program_id(0) % channelTiles;
  const Int channel = tile * config.channels + arange(0, config.channels);
  const Int filter = tile * n + arange(0, n);
  const Bool isChannel = channel < channels, isFilter = filter < channels * config.each;
  const Pixels at =
      pixelsOf(program_id(0) / channelTiles * config.columns + arange(0, config.columns),
               destination.extent(0), blocks, destination.extent(3));
  const Int top = config.ofImage
                      ? at.row * (rows / config.stride_h) + config.pad_h / config.stride_h
                      : at.row * (rows * config.stride_h) - config.pad_h;
  const auto rowsOfSource =
      meetings(rows, config.tapRows, config.stride_h, config.dilation_h, config.ofImage);

  std::vector<Tile<float>> sums(static_cast<std::size_t>(rows), zeros<float>(config.columns, n));
  for (auto s : range(0, filters.extent(2))) {
    Int column = at.column * config.stride_w - config.pad_w + s * config.dilation_w;
    Bool inside = at.inside;
    if (config.ofImage) {
      const Int right = at.column + config.pad_w - s * config.dilation_w;
      column = right / config.stride_w;
      inside = inside && right % config.stride_w == 0;
    }
    inside = inside && within(column, source.extent(3));
    const Ptr<const T> elements =
        elementsOf(source, at.image, top, column, config.ofImage ? filter : channel, config.unit);
    std::map<int, Tile<float>> weights; // of each row of taps, read when the first needs them
    for (const auto &[down, met] : rowsOfSource) {
      auto values = loadWhere(elements + rowsDown(source, down, config.unit),
                              inside && within(top + down, source.extent(2)),
                              config.ofImage ? isFilter : isChannel);
      if (!config.ofImage)
        values = ofFilters(values, config.each);
      for (const auto &[row, tap] : met) {
        if (!weights.contains(tap))
          weights[tap] = expand(
              cast<float>(load(filters.ptr() +
                                   (wide(filter) * filters.stride(0) +
                                    wide(Int(tap)) * multiple_of(filters.stride(1), config.unit) +
                                    wide(s) * multiple_of(filters.stride(2), config.unit)),
                               isFilter)),
              0);
        auto &sum = sums[static_cast<std::size_t>(row)];
        sum = fma(values, weights[tap], sum);
      }
    }
  }
  if (config.bias) {
    const auto added =
        expand(cast<float>(load(bias.ptr() + wide(filter) * bias.stride(0), isFilter)), 0);
    for (auto &sum : sums)
      sum = sum + added;
  }
  if (config.ofImage && config.each > 1)
    for (auto &sum : sums)
      sum = sectile::sum(reshape(sum, config.columns, config.channels, config.each), 2);
  const Int first = at.row * rows - before;
  const Ptr<T> elements = elementsOf(destination, at.image, first, at.column,
                                     config.ofImage ? channel : filter, config.unit);
  for (int row = 0; row < rows; ++row)
    store(elements + rowsDown(destination, row, config.unit),
          cast<T>(sums[static_cast<std::size_t>(row)]),
          expand(at.inside && within(first + row, destination.extent(2)), 1) &&
              expand(config.ofImage ? isChannel : isFilter, 0));
};

template <class T> Kernel depthwiseForward{"conv2d", depthwise<T>};
template <class T> Kernel depthwiseDgrad{"conv2d_dgrad", depthwise<T>};

struct DepthwiseSplitConfig {
  int columns = 16, channels = 64, rows = 4, warps = 4; // of a tile; its rows divide those of dy
  int splits = 1;
  int tapRows = 1, tapColumns = 1, each = 1; // taps of a program; filters of a channel
  int stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  int unit = 1; // as of DepthwiseConfig
};

// Sums of x under each tap times dy, and of dy, over a part of the pixels: parts
// [splits, R * S + 1, filters]. The taps are R rows of S; those of a program that do not exist are
// summed in vain.
template <class T>
Kernel depthwiseWgrad{
    "conv2d_wgrad", [](View<const T, 4> x, View<const T, 4> dy, View<float, 3> parts, Int tapRows,
                       Int tapColumns, const DepthwiseSplitConfig &config) {
      const int rows = config.rows, n = config.channels * config.each;
      const auto taps = static_cast<std::size_t>(config.tapRows * config.tapColumns);
      const Int channels = multiple_of(x.extent(1), config.unit);
      TileNumber tiles{program_id(0)};
      const Int tile = tiles.next(cdiv(channels, config.channels));
      const Int channel = tile * config.channels + arange(0, config.channels);
      const Int filter = tile * n + arange(0, n);
      const Bool isChannel = channel < channels, isFilter = filter < channels * config.each;
      const Int part = tiles.next(config.splits);
      const Int firstColumn = tiles.next(cdiv(tapColumns, config.tapColumns)) * config.tapColumns,
                firstRow = tiles.rest * config.tapRows;
      const auto rowsOfImage =
          meetings(rows, config.tapRows, config.stride_h, config.dilation_h, false);

      std::vector<Tile<float>> sums(taps, zeros<float>(config.columns, n));
      auto ofBias = zeros<float>(config.columns, n);
      const Int blocks = dy.extent(2) / rows;
      const Int steps = cdiv(dy.extent(0) * blocks * dy.extent(3), config.columns);
      const Int share = cdiv(steps, config.splits);
      for (auto step : range(part * share, minimum((part + 1) * share, steps))) {
        const Pixels at = pixelsOf(step * config.columns + arange(0, config.columns), dy.extent(0),
                                   blocks, dy.extent(3));
        const Ptr<const T> first =
            elementsOf(dy, at.image, at.row * rows, at.column, filter, config.unit);
        std::vector<Tile<float>> gradients;
        for (int row = 0; row < rows; ++row) {
          gradients.push_back(
              loadWhere(first + rowsDown(dy, row, config.unit), at.inside, isFilter));
          ofBias = ofBias + gradients.back();
        }
        const Int top =
            at.row * (rows * config.stride_h) - config.pad_h + firstRow * config.dilation_h;
        for (int s = 0; s < config.tapColumns; ++s) {
          const Int column =
              at.column * config.stride_w - config.pad_w + (firstColumn + s) * config.dilation_w;
          const Bool inside = at.inside && within(column, x.extent(3));
          const Ptr<const T> elements = elementsOf(x, at.image, top, column, channel, config.unit);
          for (const auto &[down, met] : rowsOfImage) {
            const auto values =
                ofFilters(loadWhere(elements + rowsDown(x, down, config.unit),
                                    inside && within(top + down, x.extent(2)), isChannel),
                          config.each);
            for (const auto &[row, tap] : met) {
              auto &sum = sums[static_cast<std::size_t>(tap * config.tapColumns + s)];
              sum = fma(values, gradients[static_cast<std::size_t>(row)], sum);
            }
          }
        }
      }
      const auto write = [&](const Tile<float> &total, const Int &tap, const Bool &exists) {
        store(parts.ptr() + (wide(part) * parts.stride(0) + wide(tap) * parts.stride(1) +
                             wide(filter) * parts.stride(2)),
              sum(total, 0), isFilter && exists);
      };
      for (std::size_t tap = 0; tap < taps; ++tap) {
        const Int r = firstRow + static_cast<int>(tap) / config.tapColumns,
                  s = firstColumn + static_cast<int>(tap) % config.tapColumns;
        write(sums[tap], r * tapColumns + s, r < tapRows && s < tapColumns);
      }
      write(ofBias, tapRows * tapColumns, firstRow == 0 && firstColumn == 0);
    }};

struct PartsConfig {
  int parts = 64, elements = 8, warps = 4; // of a tile
};

// The sums of all parts: dw [filters, R, S], db [filters] or nothing.
template <class T>
Kernel depthwiseSums{
    "conv2d_wgrad_sums",
    [](View<const float, 3> parts, View<T, 3> dw, View<T, 1> db, const PartsConfig &config) {
      const Int filters = dw.extent(0), taps = dw.extent(1) * dw.extent(2);
      const Int at = program_id(0) * config.elements + arange(0, config.elements);
      const Int tap = at / filters, filter = at % filters;
      auto sums = zeros<float>(config.elements);
      for (auto block : range(0, cdiv(parts.extent(0), config.parts))) {
        const Int part = block * config.parts + arange(0, config.parts);
        sums +=
            sum(load(parts.ptr() + (expand(wide(part) * parts.stride(0), 1) + expand(wide(at), 0)),
                     expand(part < parts.extent(0), 1) && expand(tap <= taps, 0)),
                0);
      }
      store(dw.ptr() + (wide(filter) * dw.stride(0) + wide(tap / dw.extent(2)) * dw.stride(1) +
                        wide(tap % dw.extent(2)) * dw.stride(2)),
            cast<T>(sums), tap < taps);
      store(db.ptr() + wide(filter) * db.stride(0), cast<T>(sums),
            tap == taps && filter < db.extent(0));
    }};

// Filters of one row of taps each: [K, R, S].
template <class T> Tensor<T, 3> planes(const Tensor<T, 4> &w) {
  return withAxes(w, {w.extent(0), w.extent(2), w.extent(3)},
                  {w.stride(0), w.stride(2), w.stride(3)});
}

// As a program reads them: where channels lie in runs, a tap's filters do so too.
template <class T> Tensor<T, 3> filtersLike(Use &use, const Tensor<T, 4> &w, bool channelsLast) {
  const Tensor<T, 4> image = w.permute({1, 0, 2, 3});
  if (!channelsLast || w.extent(0) == 1 || hasRuns(image, RunsOf::channels))
    return planes(w);
  const Reordered<T> copy(use, image, RunsOf::channels);
  copy.copyFrom(use, image);
  return planes(copy.image(image).permute({1, 0, 2, 3}));
}

template <class T> bool hasChannelsLast(const Tensor<T, 4> &x) { return x.stride(1) == 1; }

// Of all strides of these images but those of channels, and of their channels.
template <class... T> int unitOf(const Tensor<T, 4> &...images) {
  std::int64_t unit = 16;
  const auto take = [&](const auto &image) {
    for (const std::int64_t length :
         {image.extent(1), image.stride(0), image.stride(2), image.stride(3)})
      unit = std::gcd(unit, length);
  };
  (take(images), ...);
  return static_cast<int>(unit);
}

constexpr std::int64_t mostFilters = 7, mostTapRows = 64, mostStride = 8;

int filtersOfChannel(const Invocation &call) {
  return static_cast<int>(call.extent("K") / call.options.integer("groups"));
}

// From `rows` on, as many as are a multiple of `unit`.
int wholeRows(int rows, int unit) { return static_cast<int>(ceilDiv(rows, unit)) * unit; }
// The most up to `most` that divide `count`.
int dividing(std::int64_t count, std::int64_t most) {
  std::int64_t rows = std::clamp<std::int64_t>(count, 1, most);
  while (count % rows)
    --rows;
  return static_cast<int>(rows);
}

int powerBelow(int count) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(count, 1))));
}
int columnsOf(int pixels, int rows) { return powerBelow(pixels / rows); }
int channelsOf(int filters, int each) { return powerBelow(filters / each); }

// Parts of a row of taps that are about as long as each other, with up to `most`.
int evenly(std::int64_t taps, std::int64_t most) {
  return static_cast<int>(ceilDiv(taps, ceilDiv(taps, most)));
}
// Taps whose sums a thread has beside each other, for each element of a vector.
struct TapTile {
  int rows, columns;
};
TapTile tapTile(const Invocation &call) {
  const int rows = evenly(call.extent("R"), 8);
  return {rows, evenly(call.extent("S"), std::max(12 / rows, 1))};
}

bool hasChannelsLast(const Invocation &call) { return call.options.choice("layout") == "nhwc"; }

// Lanes have 16 bytes of channels each, or a pixel, whose neighbours are not aligned under a tap.
std::int64_t elementsOfLane(const Invocation &call) {
  return hasChannelsLast(call) ? 16 / static_cast<std::int64_t>(size_of(call.dtype("x"))) : 1;
}

void addTile(Config &config, const Invocation &call, const std::string &target,
             const std::string &prefix, std::int64_t rows) {
  const std::int64_t filters = call.extent("K"), warps = 4;
  std::int64_t n = hasChannelsLast(call) ? powerFrom(filters, 1, 64) : 1;
  // Half a tile of the last channels would idle in every program of theirs.
  if (n == 64 && filters % 64 == 32)
    n = 32;
  const std::int64_t columns =
      std::max<std::int64_t>(warps * warpSize(target) * elementsOfLane(call) / n, 1);
  setTile(config, prefix, {.m = columns * rows, .n = n, .k = rows, .warps = warps, .stages = 3});
}

template <class Kernel, class T>
void launchTaps(Use &use, const Kernel &kernel, const Tensor<T, 4> &source,
                const Tensor<T, 4> &destination, bool ofImage) {
  const int each = filtersOfChannel(use.call);
  const auto filters = filtersLike(use, use.tensor<T, 4>("w"), hasChannelsLast(source));
  auto config = use.config_as<DepthwiseConfig>();
  config.channels = channelsOf(use.field("n"), each);
  config.rows = use.field("k");
  config.tapRows = static_cast<int>(use.extent("R"));
  config.each = each;
  config.unit =
      std::gcd(unitOf(source, destination),
               static_cast<int>(std::gcd(16, std::gcd(filters.stride(1), filters.stride(2)))));
  config.ofImage = ofImage;
  config.bias = !ofImage && use.has("b");
  if (ofImage)
    config.rows = wholeRows(config.rows, config.stride_h);
  config.columns = columnsOf(use.field("m"), config.rows);
  const std::int64_t before = ofImage ? config.pad_h % config.stride_h : 0;
  const std::int64_t columns = destination.extent(0) *
                               ceilDiv(destination.extent(2) + before, config.rows) *
                               destination.extent(3);
  use(kernel, ceilDiv(columns, config.columns) * ceilDiv(use.call.extent("C"), config.channels),
      source, filters, use.tensor<T, 1>("b"), destination, config);
}

} // namespace

bool sectile::isDepthwise(const Invocation &call) {
  const int filters = filtersOfChannel(call);
  return call.extent("Cg") == 1 && filters >= 1 && filters <= mostFilters &&
         call.extent("R") <= mostTapRows;
}

bool sectile::isDepthwiseImageGradient(const Invocation &call) {
  return isDepthwise(call) && call.options.integer("stride_h") <= mostStride;
}

void sectile::addDepthwiseDefaults(Config &config, const Invocation &call,
                                   const std::string &target) {
  const bool ofImage = call.kernel->name != "conv2d";
  // A vector of channels shares its addresses; a pixel has only rows to share them with.
  const std::int64_t rows =
      powerFrom(call.extent(ofImage ? "H" : "P"), 1, hasChannelsLast(call) ? 4 : 8);
  addTile(config, call, target, "", rows);
}

void sectile::addDepthwiseGradientDefaults(Config &config, const Invocation &call,
                                           const std::string &target) {
  const std::int64_t places = call.extent("P"),
                     few = dividing(places, hasChannelsLast(call) ? 4 : 8);
  const std::int64_t rows = few > 1 ? few : dividing(places, 8);
  addTile(config, call, target, "wgrad_", rows);
  const TapTile taps = tapTile(call);
  const std::int64_t tiles = std::max<std::int64_t>(ceilDiv(call.extent("K"), config["wgrad_n"]) *
                                                        ceilDiv(call.extent("R"), taps.rows) *
                                                        ceilDiv(call.extent("S"), taps.columns),
                                                    1);
  const std::int64_t steps =
      ceilDiv(call.extent("N") * places * call.extent("Q"), config["wgrad_m"]);
  // Vectors keep as much of memory busy with fewer warps.
  const std::int64_t programs = (hasChannelsLast(call) ? 2 : 8) * multiprocessors(target);
  config["wgrad_splits"] =
      std::clamp<std::int64_t>(std::min(ceilDiv(programs, tiles), steps), 1, 512);
}

bool sectile::isDepthwiseCandidate(const Config &config, const Invocation &call,
                                   const std::string &target, const std::string &prefix) {
  const std::int64_t n = config.at(prefix + "n"), rows = config.at(prefix + "k");
  const std::int64_t elements =
      config.at(prefix + "m") / rows * n / (config.at(prefix + "warps") * warpSize(target));
  const std::int64_t lane = elementsOfLane(call);
  return rows <= 8 && config.at(prefix + "stages") == 3 &&
         n <= powerFrom(call.extent("K"), 1, 128) &&
         n >= std::min<std::int64_t>(lane, powerFrom(call.extent("K"), 1, 128)) &&
         elements >= lane && elements <= 2 * lane && (hasChannelsLast(call) || n <= 4);
}

void sectile::launchDepthwise(Use &use) {
  for_dtype<half, bfloat16, float>(use.call.dtype("x"), [&]<class T>(T) {
    launchTaps(use, depthwiseForward<T>, use.tensor<T, 4>("x"), use.tensor<T, 4>("y"), false);
  });
}

void sectile::launchDepthwiseImageGradient(Use &use) {
  for_dtype<half, bfloat16, float>(use.call.dtype("x"), [&]<class T>(T) {
    launchTaps(use, depthwiseDgrad<T>, use.tensor<T, 4>("dy"), use.tensor<T, 4>("dx"), true);
  });
}

void sectile::launchDepthwiseFilterGradient(Use &use) {
  const Invocation &call = use.call;
  for_dtype<half, bfloat16, float>(call.dtype("x"), [&]<class T>(T) {
    const auto x = use.tensor<T, 4>("x"), dy = use.tensor<T, 4>("dy");
    const std::int64_t filters = call.extent("K"), taps = call.extent("R") * call.extent("S");
    const TapTile tile = tapTile(call);
    auto config = use.config_as<DepthwiseSplitConfig>("wgrad_");
    config.rows = dividing(call.extent("P"), use.field("wgrad_k"));
    config.each = filtersOfChannel(call);
    config.columns = columnsOf(use.field("wgrad_m"), config.rows);
    config.channels = channelsOf(use.field("wgrad_n"), config.each);
    config.tapRows = tile.rows;
    config.tapColumns = tile.columns;
    config.unit = unitOf(x, dy);
    const auto parts = use.workspace<float, 3>({config.splits, taps + 1, filters});
    use(depthwiseWgrad<T>,
        config.splits * ceilDiv(call.extent("C"), config.channels) *
            ceilDiv(call.extent("R"), tile.rows) * ceilDiv(call.extent("S"), tile.columns),
        x, dy, parts, call.extent("R"), call.extent("S"), config);
    PartsConfig sums{.parts = powerFrom(config.splits, 1, 256)};
    sums.warps = std::clamp(sums.parts * sums.elements / 256, 1, 4);
    use(depthwiseSums<T>, ceilDiv((taps + 1) * filters, sums.elements), parts,
        planes(use.tensor<T, 4>("dw")), use.tensor<T, 1>("db"), sums);
  });
}
