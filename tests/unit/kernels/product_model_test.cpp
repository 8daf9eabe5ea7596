// The defaults of products on a chip with warpgroups: which tile, splits, cluster and kind of
// program each shape gets, where an H100 has shown what is good (docs/performance.md).
#include "kernels/registry/Registry.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace sectile;

namespace {

constexpr const char *chip = "sm_90a";

struct Pinned {
  std::map<std::string, std::int64_t> extents;
  Assignments options;
  Config config;   // the fields that matter
  double measured; // microseconds
};

Config chosen(const std::string &kernel, const Pinned &shape, const char *dtype = "f16") {
  const Invocation call = resolveTypical(findKernel(kernel), dtype, shape.extents, shape.options);
  Config config = call.kernel->defaults(call, chip), fields;
  for (const auto &[name, value] : shape.config)
    fields[name] = config.at(name);
  return fields;
}

Config tile(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t stages,
            std::int64_t cluster, bool persistent) {
  return {{"m", m},
          {"n", n},
          {"k", k},
          {"stages", stages},
          {"cluster", cluster},
          {"persistent", persistent},
          {"splits", 1}};
}

Config splits(Config config, std::int64_t count) {
  config["splits"] = count;
  return config;
}

std::map<std::string, std::int64_t> matrix(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {{"M", m}, {"N", n}, {"K", k}};
}

const Assignments plain, transA{{"trans_a", "true"}}, transB{{"trans_b", "true"}},
    both{{"trans_a", "true"}, {"trans_b", "true"}};

// The largest tile by programs that do several: it reads least for each product, and the copies and
// stores between tiles are hidden. In clusters where sums are long enough, or where rows of b begin
// within lines of the cache.
const Config large = tile(128, 256, 64, 3, 1, true), clustered = tile(128, 256, 64, 3, 2, true);

const Pinned products[] = {
    {matrix(2048, 2048, 2048), plain, large, 28.8}, // in clusters 29.3
    {matrix(4096, 4096, 4096), plain, clustered, 197},
    {matrix(4096, 4096, 4096), transB, clustered, 206},
    {matrix(4096, 4096, 4096), transA, clustered, 202},
    {matrix(4096, 4096, 4096), both, clustered, 199},
    {matrix(8192, 8192, 8192), plain, clustered, 1584},
    {matrix(8000, 8000, 8000), plain, clustered, 1564},
    {matrix(5120, 13824, 5120), plain, clustered, 978},
    {matrix(5120, 13824, 5120), transB, clustered, 1085},
    {matrix(4096, 5120, 13824), transB, clustered, 818},
    {matrix(8192, 14336, 4096), transB, clustered, 1373},
    {matrix(8192, 8192, 256), plain, large, 71.0},
    {matrix(8192, 8192, 512), plain, large, 123}, // by a program for each tile 141
    {matrix(8192, 8192, 1024), plain, large, 202},
    {matrix(8192, 8192, 2048), plain, large, 420},
    {matrix(16384, 4096, 1024), plain, large, 221},
    {matrix(16384, 4096, 128), transB, large, 58.6},
    {matrix(16384, 1024, 4096), plain, clustered, 201},
    {matrix(4096, 5120, 1024), plain, large, 65.8},     // in clusters 69.1
    {matrix(4096, 1000, 4096), plain, clustered, 52.7}, // alone 74.4
    {matrix(4096, 5000, 1000), plain, clustered, 79.6}, // alone 109.6
    {matrix(4000, 4000, 4000), plain, clustered, 203},
    {matrix(8192, 512, 4096), plain, clustered, 54.2}, // by a program for each tile 60.6
    {matrix(2048, 50257, 1024), transB, large, 401},
    {matrix(4096, 50257, 1024), transB, large, 740},
    // Tiles of 256 columns leave a quarter to a half of the chip idle: 82 us, 47, 18, 48 and 99. In
    // a program for each tile the first takes 68.4.
    // Persistent programs of 160 columns in clusters take 65.2.
    {matrix(768, 3072, 8192), plain, tile(128, 192, 64, 4, 1, false), 69.5},
    {matrix(1024, 3072, 4096), plain, tile(128, 192, 64, 4, 1, false), 40.0},
    {matrix(1024, 3072, 1024), plain, tile(128, 192, 64, 4, 1, false), 15.9},
    {matrix(512, 6144, 4096), plain, tile(128, 192, 64, 4, 1, false), 43.0},
    {matrix(3072, 3072, 3072), plain, tile(128, 192, 64, 3, 1, true), 89.1},
    // One wave of smaller tiles is sooner over, and has room for six stages: 10.7 and 68.9 us with
    // four.
    {matrix(1024, 1024, 1024), plain, tile(64, 128, 64, 6, 1, false), 10.5},
    {matrix(256, 8192, 8192), plain, tile(128, 128, 64, 6, 1, false), 62.7},
    {matrix(256, 8192, 8192), transB, tile(128, 128, 64, 6, 1, false), 69.7},
    // Reading the weights takes the time: 26.8 us by tiles of 64 by 64 that two programs share.
    {matrix(64, 4096, 4096), transB, tile(64, 32, 128, 6, 1, false), 21.6},
};

// Long sums of few tiles, which are split.
const Pinned fewTiles[] = {
    {matrix(512, 512, 8192), plain, splits(tile(64, 128, 64, 6, 1, false), 4), 19.3},
    {matrix(512, 512, 4096), plain, splits(tile(64, 128, 64, 6, 1, false), 4), 13.5},
    {matrix(256, 1024, 8192), plain, splits(tile(64, 128, 64, 6, 1, false), 4), 21.1},
    // On an H200, where 64 columns in eight splits take 15.8.
    {matrix(256, 256, 16384), plain, splits(tile(64, 32, 128, 6, 1, false), 4), 18.1},
    // Of few columns, on an H200; before there were tiles of 96 columns 79.1, 35.9 and 21.7.
    {matrix(8192, 96, 11008), plain, tile(128, 96, 64, 6, 1, false), 64.4},
    {matrix(4096, 192, 6656), plain, splits(tile(64, 192, 64, 5, 1, false), 2), 32.7},
    {matrix(1280, 80, 10240), transB, splits(tile(64, 96, 64, 6, 1, false), 6), 18.2},
    // With a ring of six 39.4.
    {matrix(1024, 1024, 8192), plain, splits(tile(128, 128, 64, 5, 1, false), 2), 37.4},
    {matrix(128, 4096, 14336), transB, splits(tile(64, 128, 64, 6, 1, false), 2), 59.0},
};

Config narrow(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t stages) {
  return tile(m, n, k, stages, 1, false);
}

// They wait for b, or for a: H200. What the tile and the splits of a rule by hand took is beside
// it.
const Pinned fewRows[] = {
    {matrix(1, 4096, 4096), transB, narrow(16, 32, 256, 6), 17.9},   // 18.9
    {matrix(1, 10240, 11008), plain, narrow(16, 128, 128, 4), 66.2}, // 85.8
    {matrix(8, 10240, 11008), transB, narrow(16, 32, 128, 6), 71.1}, // 89.9
    {matrix(1, 1024, 8192), transB, splits(narrow(16, 32, 128, 6), 4), 12.9},
    {matrix(24, 28672, 4096), plain, narrow(32, 256, 32, 6), 68.2},   // 103.8
    {matrix(24, 28672, 4096), transB, narrow(32, 128, 128, 4), 72.1}, // 101.5
    {matrix(24, 128256, 4096), plain, narrow(32, 256, 32, 6), 252},   // 387
    {matrix(28672, 24, 4096), plain, narrow(128, 32, 128, 4), 0},     // as turned
};

struct PinnedOf {
  const char *kernel, *dtype;
  Pinned shape;
};

std::map<std::string, std::int64_t> images(std::int64_t count, std::int64_t channels,
                                           std::int64_t side, std::int64_t filters,
                                           std::int64_t taps) {
  return {{"N", count}, {"C", channels}, {"Cg", channels}, {"H", side},
          {"W", side},  {"K", filters},  {"R", taps},      {"S", taps}};
}

const Assignments nhwc{{"layout", "nhwc"}},
    padded{{"layout", "nhwc"}, {"pad_h", "1"}, {"pad_w", "1"}};

// Of the other kernels.
const PinnedOf others[] = {
    // By a program for each tile 182.
    {"batched_matmul", "f16", {{{"B", 128}, {"M", 1024}, {"N", 1024}, {"K", 128}}, {}, large, 138}},
    {"grouped_matmul",
     "f16",
     {{{"M", 16384}, {"K", 4096}, {"N", 2048}, {"G", 8}}, {}, {{"m", 128}, {"n", 256}}, 409}},
    {"grouped_matmul",
     "f16",
     {{{"M", 16384}, {"K", 4096}, {"N", 2048}, {"G", 64}}, {}, {{"m", 128}, {"n", 256}}, 530}},
    {"grouped_matmul_drhs",
     "f16",
     {{{"M", 16384}, {"K", 4096}, {"N", 2048}, {"G", 16}}, {}, {{"m", 128}, {"n", 256}}, 486}},
    // Two sets of sums: 128 columns at most.
    {"scaled_matmul",
     "f8e4m3",
     {matrix(4096, 4096, 4096), transB, {{"m", 128}, {"n", 128}, {"stages", 4}}, 141}},
    {"quantized_matmul",
     "f16",
     {matrix(4096, 4096, 4096), {}, {{"m", 128}, {"n", 256}, {"decode_first", 1}}, 231}},
    // Three waves of 128 by 128 are less than two of 128 by 256. Three stages: docs/performance.md.
    {"conv2d",
     "f16",
     {images(32, 256, 28, 256, 3), padded, {{"m", 128}, {"n", 128}, {"stages", 4}}, 48.8}},
    {"conv2d",
     "f16",
     {images(32, 256, 28, 256, 1), nhwc, {{"m", 128}, {"n", 128}, {"stages", 4}}, 15.9}},
    // By 128 pixels 29.9: each tap's filters are read twice as often.
    {"conv2d",
     "f16",
     {images(32, 64, 56, 64, 3), padded, {{"m", 256}, {"n", 64}, {"stages", 4}}, 25.8}},
    {"conv2d", "f16", {images(32, 512, 14, 512, 3), padded, {{"m", 128}, {"n", 256}}, 51.7}},
};

std::string text(const Pinned &shape) {
  std::string text;
  for (const auto &[axis, extent] : shape.extents)
    text += axis + "=" + std::to_string(extent) + " ";
  for (const auto &[option, value] : shape.options)
    text += option + " ";
  return text;
}

} // namespace

TEST(ProductModel, ChoosesWhatWasMeasured) {
  for (const Pinned &shape : products)
    EXPECT_EQ(chosen("matmul", shape), shape.config) << text(shape);
  for (const Pinned &shape : fewTiles)
    EXPECT_EQ(chosen("matmul", shape), shape.config) << text(shape);
  for (const Pinned &shape : fewRows)
    EXPECT_EQ(chosen("matmul", shape), shape.config) << text(shape);
  for (const auto &[kernel, dtype, shape] : others)
    EXPECT_EQ(chosen(kernel, shape, dtype), shape.config) << kernel << " " << text(shape);
  auto gradients = images(32, 256, 28, 256, 3);
  gradients["P"] = gradients["Q"] = 28;
  // With 64 by 256 in three splits 103.1.
  const Pinned filters{
      gradients, padded, {{"wgrad_m", 128}, {"wgrad_n", 256}, {"wgrad_splits", 7}}, 101.6};
  // With 64 by 64 in eight splits 36.5.
  auto pointwise = images(32, 256, 28, 256, 1);
  pointwise["P"] = pointwise["Q"] = 28;
  const Pinned fewest{
      pointwise, nhwc, {{"wgrad_m", 64}, {"wgrad_n", 128}, {"wgrad_splits", 16}}, 33.8};
  for (const Pinned &gradient : {filters, fewest})
    EXPECT_EQ(chosen("conv2d_backward", gradient), gradient.config) << text(gradient);
}

// 140 tiles of 128 by 256 take two waves of 132, as long as 264 would, unless steps are dealt out.
TEST(ProductModel, StreamsHaveNoTilesOf192Columns) {
  const Config fields =
      chosen("matmul",
             {matrix(768, 3072, 8192), {{"schedule", "stream_k"}}, tile(0, 0, 0, 0, 0, false), 0});
  EXPECT_EQ(fields.at("n"), 256);
}

TEST(ProductModel, StreamsHaveNoWaves) {
  const auto shape = matrix(1280, 3584, 16384);
  const Config largest{{"m", 128}, {"n", 256}, {"splits", 1}};
  EXPECT_EQ(chosen("matmul", {shape, {{"schedule", "stream_k"}}, largest, 0}), largest);
  EXPECT_NE(chosen("matmul", {shape, plain, largest, 0}), largest);
}

// Its times are for comparing configurations, but would be of no use far from the chip's.
TEST(ProductModel, PredictsWhatWasMeasured) {
  double sum = 0;
  for (const Pinned &shape : products) {
    const Invocation call =
        resolveTypical(findKernel("matmul"), "f16", shape.extents, shape.options);
    const double predicted = call.kernel->predict(call, chip, call.kernel->defaults(call, chip));
    const double ratio = std::log(predicted / shape.measured);
    EXPECT_LT(std::abs(ratio), std::log(1.35)) << text(shape) << predicted;
    sum += ratio * ratio;
  }
  EXPECT_LT(std::sqrt(sum / double(std::size(products))), std::log(1.12));
}
