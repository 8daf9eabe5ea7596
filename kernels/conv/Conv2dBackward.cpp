// conv2d_backward: the gradients of conv2d's image, filters and bias. That of the image is the
// convolution read backwards; that of the filters sums over all pixels, which several programs
// share.
#include "ir/Target.h"
#include "kernels/InputError.h"
#include "kernels/conv/ChannelsLast.h"
#include "kernels/conv/Family.h"
#include "kernels/conv/Launch.h"
#include "kernels/matmul/SharedSums.h"
#include <algorithm>

using namespace sectile;

namespace {

template <class T> Kernel conv2dDgrad{"conv2d_dgrad", implicitGemm<T, true>};

struct SplitConfig {
  int m = 64, n = 64, k = 32, order = 8, warps = 4, stages = 3, splits = 1;
  int strideH = 1, strideW = 1, padH = 0, padW = 0, dilationH = 1, dilationW = 1;
  bool exact = false;
};
SECTILE_CONFIG(SplitConfig, m, n, k, order, warps, stages, splits, strideH, strideW, padH, padW,
               dilationH, dilationW, exact)

// The part of `steps` that is this program's: part `part` of `splits`.
std::array<Int, 2> shareOf(const Int &steps, const Int &part, int splits) {
  return {part * steps / splits, (part + 1) * steps / splits};
}

// Rows are filters, columns taps of all channels, the inner extent the pixels of dy.
template <class T>
Kernel conv2dWgrad{
    "conv2d_wgrad", [](View<const T, 4> x, View<const T, 4> dy, View<T, 5> dw, View<float, 3> parts,
                       Ptr<std::int32_t> arrived, const SplitConfig &config) {
      const int m = config.m, n = config.n, depth = config.k;
      const Int each = dw.extent(1), own = dw.extent(2), taps = dw.extent(4);
      const Int columns = own * dw.extent(3) * taps;
      const Int rowTiles = cdiv(each, m), area = rowTiles * cdiv(columns, n);
      const Int tile = program_id(0) / config.splits, part = program_id(0) % config.splits;
      const Int group = tile / area;
      auto [i, j] = grouped_order(tile % area, {rowTiles, cdiv(columns, n)}, config.order);

      const Int filter = i * m + arange(0, m), at = j * n + arange(0, n);
      const Int channel = at % own, r = at / own / taps, s = at / own % taps;
      auto sums = zeros<float>(m, n);
      const Int steps = cdiv(dy.extent(0) * dy.extent(2) * dy.extent(3), depth);
      auto [from, to] = shareOf(steps, part, config.splits);
      for (auto step : range(from, to)) {
        const Pixels pixels = pixelsOf(step * depth + arange(0, depth), dy);
        auto left = load(
            dy.ptr() + (expand(wide(group * each + filter) * dy.stride(1), 1) +
                        expand(wide(pixels.image) * dy.stride(0) + wide(pixels.row) * dy.stride(2) +
                                   wide(pixels.column) * dy.stride(3),
                               0)),
            expand(filter < each, 1) && expand(pixels.inside, 0));
        const Place h = elementUnder(expand(pixels.row, 1), expand(r, 0), config.strideH,
                                     config.padH, config.dilationH, x.extent(2));
        const Place w = elementUnder(expand(pixels.column, 1), expand(s, 0), config.strideW,
                                     config.padW, config.dilationW, x.extent(3));
        auto right =
            load(x.ptr() + (expand(wide(pixels.image) * x.stride(0), 1) +
                            expand(wide(group * own + channel) * x.stride(1), 0) +
                            wide(h.at) * x.stride(2) + wide(w.at) * x.stride(3)),
                 expand(pixels.inside, 1) && expand(at < columns, 0) && h.inside && w.inside);
        sums = dot(left, right, sums, config.exact ? Precision::ieee : Precision::tf32);
      }
      auto finish = [&](const Tile<float> &total) {
        store(dw.ptr() + (wide(group) * dw.stride(0) + expand(wide(filter) * dw.stride(1), 1) +
                          expand(wide(channel) * dw.stride(2) + wide(r) * dw.stride(3) +
                                     wide(s) * dw.stride(4),
                                 0)),
              cast<T>(total), expand(filter < each, 1) && expand(at < columns, 0));
      };
      if (config.splits == 1)
        finish(sums);
      else
        shareSums(
            parts, arrived, tile, sums, program_id(0), Int(config.splits),
            [&](const Int &other) { return tile * config.splits + other; }, finish);
    }};

struct BiasConfig {
  int pixels = 64, channels = 32, warps = 4, splits = 1;
};
SECTILE_CONFIG(BiasConfig, pixels, channels, warps, splits)

template <class T>
Kernel conv2dBiasGradient{
    "conv2d_bias_gradient", [](View<const T, 4> dy, View<T, 1> db, View<float, 3> parts,
                               Ptr<std::int32_t> arrived, const BiasConfig &config) {
      const Int tile = program_id(0) / config.splits, part = program_id(0) % config.splits;
      const Int channel = tile * config.channels + arange(0, config.channels);
      auto sums = zeros<float>(config.channels);
      const Int steps = cdiv(dy.extent(0) * dy.extent(2) * dy.extent(3), config.pixels);
      auto [from, to] = shareOf(steps, part, config.splits);
      for (auto step : range(from, to)) {
        const Pixels pixels = pixelsOf(step * config.pixels + arange(0, config.pixels), dy);
        auto values = load(
            dy.ptr() + (expand(wide(pixels.image) * dy.stride(0) + wide(pixels.row) * dy.stride(2) +
                                   wide(pixels.column) * dy.stride(3),
                               1) +
                        expand(wide(channel) * dy.stride(1), 0)),
            expand(pixels.inside, 1) && expand(channel < dy.extent(1), 0));
        sums += sum(cast<float>(values), 0);
      }
      auto finish = [&](const Tile<float> &total) {
        db.tile(config.channels).store(tile, reshape(total, config.channels));
      };
      shareSums(
          parts, arrived, tile, expand(sums, 0), program_id(0), Int(config.splits),
          [&](const Int &other) { return tile * config.splits + other; }, finish);
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

Config defaults(const Invocation &call, const std::string &target) {
  const std::int64_t groups = call.options.integer("groups"), own = call.extent("Cg"),
                     each = call.extent("K") / groups;
  Config config;
  addConvDefaults(config, call, target, "", call.extent("N") * call.extent("H") * call.extent("W"),
                  own);
  const std::int64_t columns = own * call.extent("R") * call.extent("S");
  addConvDefaults(config, call, target, "wgrad_", each, columns);
  const std::int64_t units =
      target == "interpreter" ? 1 : llvm::cantFail(Target::get(target)).multiprocessors;
  const std::int64_t tiles =
      groups * ceilDiv(each, config["wgrad_m"]) * ceilDiv(columns, config["wgrad_n"]);
  const std::int64_t steps = ceilDiv(placesOf(call), config["wgrad_k"]);
  config["wgrad_splits"] = std::clamp<std::int64_t>(
      std::min(2 * units / std::max<std::int64_t>(tiles, 1), steps / 16), 1, 64);
  return config;
}

void apply(Use &use) {
  const Invocation &call = use.call;
  const std::int64_t groups = call.options.integer("groups"), own = call.extent("Cg"),
                     filters = call.extent("K"), each = filters / groups;
  forDType<half, bfloat16, float>(call.dtype("x"), [&]<class T>(T) {
    const auto x = channelsLast(use, use.tensor<T, 4>("x"), own),
               dy = channelsLast(use, use.tensor<T, 4>("dy"), each),
               filtersLast = channelsLast(use, use.tensor<T, 4>("w"), own);
    {
      // Channels of the image are columns, filters are summed.
      const ConvConfig chosen = convConfig(use, "", each);
      const auto w = grouped(filtersLast, groups).permute({0, 2, 1, 3, 4});
      const int classes = chosen.strideH * chosen.strideW;
      const std::int64_t pixels = call.extent("N") * ceilDiv(call.extent("H"), chosen.strideH) *
                                  ceilDiv(call.extent("W"), chosen.strideW);
      use(conv2dDgrad<T>, groups * classes * ceilDiv(pixels, chosen.m) * ceilDiv(own, chosen.n), dy,
          w, use.tensor<T, 1>("b"), use.tensor<T, 4>("dx"), chosen);
    }
    {
      const ConvConfig conv = convConfig(use, "wgrad_", own);
      const SplitConfig chosen{.m = conv.m,
                               .n = conv.n,
                               .k = conv.k,
                               .warps = conv.warps,
                               .stages = conv.stages,
                               .splits = use.field("wgrad_splits"),
                               .strideH = conv.strideH,
                               .strideW = conv.strideW,
                               .padH = conv.padH,
                               .padW = conv.padW,
                               .dilationH = conv.dilationH,
                               .dilationW = conv.dilationW,
                               .exact = conv.exact};
      const std::int64_t tiles = groups * ceilDiv(each, chosen.m) *
                                 ceilDiv(own * call.extent("R") * call.extent("S"), chosen.n);
      const std::int64_t slots = chosen.splits > 1 ? tiles * chosen.splits : 0;
      const auto parts = use.workspace<float, 3>({slots, chosen.m, chosen.n});
      const auto arrived = use.zeroed<std::int32_t, 1>({slots ? tiles : 0});
      use(conv2dWgrad<T>, tiles * chosen.splits, x, dy, grouped(use.tensor<T, 4>("dw"), groups),
          parts, arrived, chosen);
    }
    if (!use.has("b"))
      return;
    BiasConfig chosen;
    chosen.splits =
        static_cast<int>(std::clamp<std::int64_t>(placesOf(call) / (16 * chosen.pixels), 1, 64));
    const std::int64_t tiles = ceilDiv(filters, chosen.channels);
    const auto parts = use.workspace<float, 3>({tiles * chosen.splits, 1, chosen.channels});
    const auto arrived = use.zeroed<std::int32_t, 1>({tiles});
    use(conv2dBiasGradient<T>, tiles * chosen.splits, dy, use.tensor<T, 1>("db"), parts, arrived,
        chosen);
  });
}

} // namespace

KernelSpec sectile::conv2dBackwardSpec() {
  KernelSpec spec;
  spec.name = "conv2d_backward";
  spec.summary = "gradients of conv2d's image, filters and bias";
  spec.arguments = {
      imageArgument("x", {"N", "C", "H", "W"}),
      filterArgument("w"),
      {.name = "b",
       .optional = true,
       .axes = {"K"},
       .like = "x",
       .doc = "conv2d's; only whether it is there matters"},
      imageArgument("dy", {"N", "K", "P", "Q"}),
      imageArgument("dx", {"N", "C", "H", "W"}),
      filterArgument("dw"),
      {.name = "db", .output = true, .with = "b", .axes = {"K"}, .like = "x", .doc = "sums of dy"}};
  spec.arguments[0].dtypes = {DType::float16, DType::bfloat16, DType::float32};
  spec.arguments[3].like = "x";
  spec.arguments[4].output = spec.arguments[5].output = true;
  spec.arguments[4].like = "x";
  spec.options = convOptions();
  spec.typical = {{"N", 8}, {"C", 64}, {"H", 56}, {"W", 56}, {"K", 64}, {"R", 3}, {"S", 3}};
  spec.small = {{"N", 2}, {"C", 6}, {"H", 9}, {"W", 13}, {"K", 6}, {"R", 3}, {"S", 2}};
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
  spec.spaces.front().part = "conv2d_dgrad";
  spec.config.push_back(
      {"wgrad_splits", "programs that share the sums of one tile of conv2d_wgrad"});
  spec.defaults = defaults;
  spec.apply = apply;
  return spec;
}
