// conv2d_backward: the gradients of conv2d's image, filters and bias, derived from its formula:
//   dx[n, c, h, w] = sum of w[k, c, r, s] dy[n, k, p, q] over all taps that lie on (h, w),
//   dw[k, c, r, s] = sum of dy[n, k, p, q] x under the tap over n, p, q, db = sum of dy.
// That of the image is the convolution read backwards; that of the filters sums over all pixels,
// which several programs share. A dy of other extents than y's is refused.
#include "kernels/conv/BoxGemm.h"
#include "kernels/conv/Depthwise.h"
#include "kernels/conv/Family.h"
#include "kernels/conv/Filters.h"
#include "kernels/conv/Launch.h"
#include "kernels/matmul/SharedSums.h"
#include <algorithm>
#include <sectile/error.h>

using namespace sectile;

namespace {

template <class T> Kernel conv2dDgrad{"conv2d_dgrad", implicitGemm<T, ElementAxis, ElementAxis>};
template <class T> Kernel conv2dDgradInBoxes{"conv2d_dgrad", boxGemm<T>};
template <class T> Kernel conv2dWgradInBoxes{"conv2d_wgrad", boxFilterGradient<T>};
template <class T> Kernel conv2dDgradFew{"conv2d_dgrad", implicitGemm<T, ElementAxis, PhaseAxis>};

struct SplitConfig {
  int m = 64, n = 64, k = 32, order = 8, warps = 4, stages = 3, splits = 1;
  bool adds = false; // up the parts of splits
  int stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  Precision precision = Precision::tf32;
  // Few channels: a tile has columns of several taps, so many of each. 0: of one.
  int flat = 0;
  int unit = 1, apart = 0;                     // of x, as of ConvConfig
  int unitOfGradient = 1, apartOfGradient = 0; // of dy
};

// The part of `steps` that is this program's: part `part` of `splits`.
std::array<Int, 2> shareOf(const Int &steps, const Int &part, int splits) {
  return {part * steps / splits, (part + 1) * steps / splits};
}

// Rows are filters, columns channels of taps, the inner extent the pixels of dy, which lie in one
// row: x as in Source, of images of imageWidth columns; dy [groups, N * rows * columns, filters],
// dw [groups, filters, channels, R, S]. Splits are added up by a second launch, which `adds`.
template <class T>
Kernel conv2dWgrad{
    "conv2d_wgrad", [](View<const T, 6> x, Int imageWidth, View<const T, 3> dy, View<T, 5> dw,
                       View<float, 3> parts, Int rows, Int columns, const SplitConfig &config) {
      const int m = config.m, n = config.n, depth = config.k;
      const Int each = dw.extent(1), taps = dw.extent(3) * dw.extent(4);
      const Int own = config.flat ? Int(config.flat) : multiple_of(x.extent(2), config.unit);
      const Int rowTiles = cdiv(each, m), tapTiles = cdiv(own, n);
      const Int columnTiles = config.flat ? cdiv(own * taps, n) : tapTiles * taps;
      const PartLayout layout(m, n);
      const SplitSlice whole = splitSlice(m, n, m, n);
      const Int tile = config.adds ? whole.tile : program_id(0) / config.splits;
      const Int part = program_id(0) % config.splits;
      const Int group = tile / (rowTiles * columnTiles);
      auto [i, j] =
          grouped_order(tile % (rowTiles * columnTiles), {rowTiles, columnTiles}, config.order);
      assume(i >= 0 && j >= 0); // The remainders below are runs.

      // A tile's columns belong to one tap, or each to its own.
      Int channel, tap;
      if (config.flat) {
        const Int at = j * n + arange(0, n);
        channel = at % own;
        tap = at / own;
      } else {
        channel = j % tapTiles * n + arange(0, n);
        tap = j / tapTiles;
      }
      const Int r = tap / dw.extent(4), s = tap % dw.extent(4);
      const Bool isColumn = channel < own && tap < taps;
      const auto stride = [&](int axis) {
        return axis == 4 && config.apart ? wide(config.apart)
                                         : multiple_of(x.stride(axis), config.unit);
      };
      // dy's filters, filled up as channels are; a block has no more.
      const Int filter = i * m + arange(0, m);
      const auto finish = [&](const Tile<float> &total) {
        store(dw.ptr() + (wide(group) * dw.stride(0) + expand(wide(filter) * dw.stride(1), 1) +
                          expand(wide(channel) * dw.stride(2) + wide(r) * dw.stride(3) +
                                     wide(s) * dw.stride(4),
                                 0)),
              cast<T>(total),
              expand(filter < each, 1) && expand(channel < dw.extent(2) && tap < taps, 0));
      };
      if (config.adds) {
        finish(sumOfSplits(parts, layout, config.splits, whole));
        return;
      }
      // Of a pixel's place, the element under this tap.
      const PlaceAxis horizontal(config.stride_w, config.pad_w, config.dilation_w, 0, columns,
                                 dw.extent(4));
      const int gap = horizontal.gap();
      const Int down = r * config.dilation_h - config.pad_h,
                right = shortRuns(s, dw.extent(4)) * horizontal.move() + horizontal.offset();
      const auto underTap =
          x.ptr() + (wide(group) * stride(1) +
                     expand(wide(channel) * x.stride(2) + wide(down) * stride(3) +
                                wide(right / gap) * stride(4) + wide(right % gap) * stride(5),
                            0));
      const Bool isFilter = filter < multiple_of(dy.extent(2), config.unitOfGradient);
      const int block = config.apartOfGradient;
      const auto pixelOfGradient =
          block ? wide(block) : multiple_of(dy.stride(1), config.unitOfGradient);
      const auto gradients =
          dy.ptr() + (wide(group) * multiple_of(dy.stride(0), config.unitOfGradient) +
                      expand(wide(block ? filter % block : filter) * dy.stride(2), 0));

      auto sums = zeros<float>(m, n);
      auto [from, to] = shareOf(cdiv(dy.extent(1), depth), part, config.splits);
      const Int images = x.extent(0), height = maximum(rows, 1), width = maximum(columns, 1);
      const Pixels apart = pixelsOf(Int(depth), images, height, width);
      Pixels pixels = pixelsOf(from * depth + arange(0, depth), images, height, width);
      for (auto step : range(from, to)) {
        // Pixels of narrow blocks are neighbours, which is seen in a division only.
        const bool runs = config.apart > 0 && config.apart * sizeof(T) < 16;
        if (runs)
          pixels = pixelsOf(step * depth + arange(0, depth), images, height, width);
        const Int row = pixels.row * config.stride_h, column = horizontal.source(pixels.column);
        auto values = load(underTap + expand(wide(pixels.image) * stride(0) +
                                                 wide(row) * stride(3) + wide(column) * stride(4),
                                             1),
                           expand(pixels.image < images, 1) && expand(isColumn, 0) &&
                               within(expand(row, 1) + along(down, 0), x.extent(3)) &&
                               within(expand(column * gap, 1) + along(right, 0), imageWidth));
        const Int place = step * depth + arange(0, depth);
        auto above = load(gradients + expand(wide(place) * pixelOfGradient, 1),
                          expand(place < dy.extent(1), 1) && expand(isFilter, 0));
        sums = dot(trans(above), values, sums, config.precision);
        if (!runs) {
          pixels.column += apart.column;
          pixels.row += apart.row;
          pixels.image += apart.image;
          carry(pixels.column, width, pixels.row);
          carry(pixels.row, height, pixels.image);
        }
      }
      if (config.splits > 1)
        layout.store(parts.at(program_id(0)), sums);
      else
        finish(sums);
    }};

struct BiasConfig {
  int pixels = 64, channels = 32, warps = 4, splits = 1;
  bool adds = false;
};

// dy [groups, pixels, channels of a group], db [groups, channels of a group]
template <class T>
Kernel conv2dBiasGradient{
    "conv2d_bias_gradient",
    [](View<const T, 3> dy, View<T, 2> db, View<float, 3> parts, const BiasConfig &config) {
      const PartLayout layout(1, config.channels);
      const SplitSlice whole = splitSlice(1, config.channels, 1, config.channels);
      const Int tile = config.adds ? whole.tile : program_id(0) / config.splits;
      const Int part = program_id(0) % config.splits;
      const Int tilesOfGroup = cdiv(db.extent(1), config.channels);
      const Int group = tile / tilesOfGroup, j = tile % tilesOfGroup;
      const auto finish = [&](const Tile<float> &total) {
        db.at(group).tile(config.channels).store(j, reshape(total, config.channels));
      };
      if (config.adds) {
        finish(sumOfSplits(parts, layout, config.splits, whole));
        return;
      }
      const auto tiles = dy.at(group).tile(config.pixels, config.channels);
      auto sums = zeros<float>(config.channels);
      auto [from, to] = shareOf(cdiv(dy.extent(1), config.pixels), part, config.splits);
      for (auto step : range(from, to))
        sums += sum(cast<float>(tiles.load(step, j)), 0);
      if (config.splits > 1)
        layout.store(parts.at(program_id(0)), expand(sums, 0));
      else
        finish(expand(sums, 0));
    }};

void check(const Invocation &call) {
  checkConv(call);
  const ConvShape shape(call.options);
  const std::int64_t p = shape.h.places(call.extent("H"), call.extent("R")),
                     q = shape.w.places(call.extent("W"), call.extent("S"));
  if (call.extent("P") != p || call.extent("Q") != q)
    throw InputError("conv2d_backward: dy is " + std::to_string(call.extent("P")) + " x " +
                     std::to_string(call.extent("Q")) + ", but y is " + std::to_string(p) + " x " +
                     std::to_string(q) + " with these options");
}

std::int64_t placesOf(const Invocation &call) {
  return call.extent("N") * call.extent("P") * call.extent("Q");
}

// Columns of a program of dx that has neighbouring pixels as columns.
constexpr unsigned mostColumns = 128;

// Powers of two, which change places without conflicts; at least 16 columns, so that all lanes
// read other filters.
void takePhases(ConvConfig &chosen, std::int64_t own) {
  const auto stride = static_cast<unsigned>(chosen.stride_w), few = static_cast<unsigned>(own);
  chosen.phases =
      static_cast<int>(std::min(std::bit_ceil(stride), mostColumns / std::bit_ceil(few)));
  chosen.n = std::max(static_cast<int>(std::bit_ceil(few)) * chosen.phases, 16);
}

// Of tiles of dw that are n columns wide.
int flatColumns(const Invocation &call, std::int64_t n) {
  const bool together =
      call.options.integer("groups") == 1 && call.options.integer("stride_w") == 1;
  return flatChannels(call.extent("Cg"), together, size_of(call.dtype("x")), n);
}

// Tiles of dw.
std::int64_t filterTiles(const Invocation &call, std::int64_t m, std::int64_t n) {
  const std::int64_t groups = call.options.integer("groups"), flat = flatColumns(call, n),
                     taps = call.extent("R") * call.extent("S");
  return groups * ceilDiv(call.extent("K") / groups, m) *
         (flat ? ceilDiv(flat * taps, n) : taps * ceilDiv(call.extent("Cg"), n));
}

Config defaults(const Invocation &call, const std::string &target) {
  const std::int64_t channels = call.extent("C"), filters = call.extent("K"),
                     own = call.extent("Cg"), each = filters / call.options.integer("groups"),
                     pixels = call.extent("N") * call.extent("H") * call.extent("W");
  Config config{{"programs", 0}, {"wgrad_boxes", 0}};
  if (isDepthwiseImageGradient(call))
    addDepthwiseDefaults(config, call, target);
  else
    addConvDefaults(config, call, target, "", pixels, own, each);
  addBoxDefaults(config, call, target, pixels, channels, filters, /*ofImage=*/true);
  if (!isDepthwiseImageGradient(call) && !config["programs"])
    addConvSplits(config, call, target, pixels, own, each, /*ofImage=*/true);
  if (isDepthwise(call)) {
    addDepthwiseGradientDefaults(config, call, target);
    return config;
  }
  addConvDefaults(config, call, target, "wgrad_", each, own, /*depth=*/1);
  const std::int64_t tiles =
      std::max<std::int64_t>(filterTiles(call, config["wgrad_m"], config["wgrad_n"]), 1);
  const std::int64_t steps = ceilDiv(placesOf(call), config["wgrad_k"]);
  config["wgrad_splits"] =
      std::clamp<std::int64_t>(std::min(2 * multiprocessors(target) / tiles, steps / 16), 1, 64);
  addBoxGradientDefaults(config, call, target);
  return config;
}

// dx, of dy as in Source.
template <class T> void applyImageGradient(Use &use, const Source<T> &dy) {
  const Invocation &call = use.call;
  const std::int64_t groups = call.options.integer("groups"), own = call.extent("Cg"),
                     each = call.extent("K") / groups;
  const RunsOf runs = runsOf<T>(own, groups == 1);
  // Channels of the image are columns, filters are summed.
  ConvConfig chosen = convConfig(use, "", each, groups == 1);
  chosen.unit = dy.unit;
  chosen.apart = dy.blockApart();
  // A program's pixels would have gaps where others' are. With few channels it can have what
  // lies between as columns.
  const bool phased = runs == RunsOf::pixels && chosen.stride_w > 1;
  if (phased)
    takePhases(chosen, own);
  const std::int64_t classes = chosen.stride_h * (phased ? 1 : chosen.stride_w);
  const std::int64_t pixels = call.extent("N") * ceilDiv(call.extent("H"), chosen.stride_h) *
                              ceilDiv(call.extent("W"), chosen.stride_w);
  const std::int64_t columnTiles = phased ? phaseTiles(call, chosen) : ceilDiv(own, chosen.n);
  const std::int64_t tiles = groups * classes * ceilDiv(pixels, chosen.m) * columnTiles;
  const auto parts =
      partsOfSums<float>(use, partsOfSplits(tiles, chosen.splits), chosen.m, chosen.n);
  const auto w = use.tensor<T, 4>("w"),
             rows = phased ? filtersFor<T, ElementAxis, PhaseAxis>(use, w, true, chosen)
                           : filtersFor<T, ElementAxis, ElementAxis>(use, w, true, chosen);
  const auto product = [&](const Tensor<T, 4> &dx) {
    const auto launch = [&](const auto &kernel) {
      forWholeSplits(chosen, tiles, [&](std::int64_t programs) {
        use(kernel, programs, dy.image, dy.width, rows, use.tensor<T, 1>("b"), dx, parts, own,
            call.extent("R"), call.extent("S"), chosen);
      });
    };
    if (phased)
      launch(conv2dDgradFew<T>);
    else
      launch(conv2dDgrad<T>);
  };
  const auto dx = use.tensor<T, 4>("dx");
  // Many channels are stored well in any order where pixels have no gaps.
  if (runs == RunsOf::pixels || classes > 1)
    writeInRuns(use, dx, runs, product);
  else
    product(dx);
}

template <class T> void applyFilterGradient(Use &use, const Source<T> &x, const Source<T> &dy) {
  const Invocation &call = use.call;
  const std::int64_t groups = call.options.integer("groups"), own = call.extent("Cg");
  auto chosen = use.config_as<SplitConfig>("wgrad_");
  chosen.flat = flatColumns(call, chosen.n);
  chosen.unit = x.unit;
  chosen.apart = x.blockApart();
  chosen.unitOfGradient = dy.unit;
  chosen.apartOfGradient = dy.blockApart();
  const std::int64_t tiles = filterTiles(call, chosen.m, chosen.n);
  const auto parts =
      partsOfSums<float>(use, partsOfSplits(tiles, chosen.splits), chosen.m, chosen.n);
  const auto launch = [&](const Tensor<T, 4> &dw) {
    forWholeSplits(chosen, tiles, [&](std::int64_t programs) {
      use(conv2dWgrad<T>, programs, x.image, x.width, dy.pixels(), grouped(dw, groups), parts,
          call.extent("P"), call.extent("Q"), chosen);
    });
  };
  const auto dw = use.tensor<T, 4>("dw");
  // The columns of a tile are channels of a tap.
  if (own > 1)
    writeInRuns(use, dw, RunsOf::channels, launch);
  else
    launch(dw);
}

template <class T> void applyBiasGradient(Use &use, const Source<T> &dy) {
  const Invocation &call = use.call;
  const std::int64_t groups = call.options.integer("groups"), each = call.extent("K") / groups;
  BiasConfig chosen;
  chosen.channels = powerFrom(each, 1, 32);
  chosen.splits =
      static_cast<int>(std::clamp<std::int64_t>(placesOf(call) / (16 * chosen.pixels), 1, 64));
  const std::int64_t tiles = groups * ceilDiv(each, chosen.channels);
  const auto parts =
      partsOfSums<float>(use, partsOfSplits(tiles, chosen.splits), 1, chosen.channels);
  const auto db = use.tensor<T, 1>("db");
  const auto ofGroups = withAxes(db, {groups, each}, {each * db.stride(0), db.stride(0)});
  forWholeSplits(chosen, tiles, [&](std::int64_t programs) {
    use(conv2dBiasGradient<T>, programs, dy.pixels(), ofGroups, parts, chosen);
  });
}

void apply(Use &use) {
  const Invocation &call = use.call;
  const bool depthwise = isDepthwise(call);
  if (depthwise)
    launchDepthwiseFilterGradient(use);
  if (isDepthwiseImageGradient(call))
    return launchDepthwiseImageGradient(use);
  const std::int64_t groups = call.options.integer("groups");
  for_dtype<half, bfloat16, float>(call.dtype("x"), [&]<class T>(T) {
    const Source<T> dy = sourceOf(use, use.tensor<T, 4>("dy"), groups, 1, true);
    bool hasImage = false, hasFilters = depthwise;
    if constexpr (sizeof(T) == 2) {
      hasImage = launchInBoxes<T>(use, conv2dDgradInBoxes<T>, "dx", "dy", /*ofImage=*/true);
      hasFilters = hasFilters || launchFilterGradientInBoxes<T>(use, conv2dWgradInBoxes<T>);
    }
    if (!hasImage)
      applyImageGradient(use, dy);
    if (!hasFilters)
      applyFilterGradient(
          use, sourceOf(use, use.tensor<T, 4>("x"), groups, call.options.integer("stride_w")), dy);
    if (depthwise)
      return;
    if (use.has("b"))
      applyBiasGradient(use, dy);
  });
}

} // namespace

KernelSpec sectile::conv2dBackwardSpec() {
  KernelSpec spec = convSpec();
  spec.name = "conv2d_backward";
  spec.summary = "gradients of conv2d's image, filters and bias";
  spec.add_arguments(
      {{"b?: [K] like x", "conv2d's; only whether it is there matters"},
       {"dy: [N, K, P, Q] like x", "[N, P, Q, K] with nhwc", {.stored = channelsLast}},
       {"-> dx: [N, C, H, W] like x", "[N, H, W, C] with nhwc", {.stored = channelsLast}},
       {"-> dw: [K, Cg, R, S] like x",
        "Cg = C / groups; [K, R, S, Cg] with nhwc",
        {.stored = channelsLast}},
       {"-> db: [K] like x with b", "sums of dy"}});
  spec.follow = [](Invocation &call) {
    followChannels(call);
    derivePlaces(call);
  };
  spec.flops = [](const Invocation &call) { return 2 * convFlops(call); };
  spec.check = check;
  spec.factor = 3;
  spec.reference = conv2dBackwardReference;
  addConvConfig(spec, "conv2d_dgrad", "");
  addConvConfig(spec, "conv2d_wgrad", "wgrad_");
  spec.config.insert(spec.config.end(), {boxPrograms, convSplits});
  spec.config.push_back({"wgrad_boxes", "1: the copy engine reads both images in boxes", 0, 1});
  spec.config.push_back(
      {"wgrad_splits", "programs that share the sums of one tile of conv2d_wgrad"});
  spec.defaults = defaults;
  spec.apply = apply;
  return spec;
}
