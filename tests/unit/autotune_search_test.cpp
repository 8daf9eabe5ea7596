// The autotuner on the virtual GPU: what it measures, what it chooses, what it leaves alone.
#include <csignal>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/autotune.h>
#include <sectile/sectile.h>
#include <thread>

using namespace sectile;
using testing::HasSubstr;

namespace {

const bool chosen = setenv("SECTILE_CACHE_DIR", "", 1) == 0 && unsetenv("SECTILE_AUTOTUNE") == 0;

struct MatmulTile {
  int m = 32, n = 32, k = 16;
};
SECTILE_CONFIG(MatmulTile, m, n, k)

auto matmul = [](View<const half, 2> a, View<const half, 2> b, View<half, 2> c,
                 const MatmulTile &tile) {
  auto i = program_id(0), j = program_id(1);
  auto left = a.tile(tile.m, tile.k);
  auto right = b.tile(tile.k, tile.n);
  auto sums = zeros<float>(tile.m, tile.n);
  for (auto k : range(0, cdiv(a.extent(1), tile.k)))
    sums = dot(left.load(i, k), right.load(k, j), sums);
  c.tile(tile.m, tile.n).store(i, j, sums);
};

AutotuneOptions quiet() {
  AutotuneOptions options;
  options.quiet = true;
  return options;
}

// c = a b on a device, with the grid that a configuration wants.
struct Product {
  int m, n, k;
  Device device = Device::open("virtual:sm_90");
  Tensor<half, 2> a = random(m, k, 1), b = random(k, n, 2), c = random(m, n, 3);

  Tensor<half, 2> random(int rows, int columns, unsigned seed) {
    std::vector<half> values(static_cast<size_t>(rows * columns));
    for (half &value : values) {
      seed = seed * 1664525 + 1013904223;
      value = static_cast<float>(seed >> 24) / 64 - 2;
    }
    return tensor(device.upload(values), {rows, columns});
  }
  auto grid() const {
    return [m = m, n = n](const MatmulTile &tile) {
      return Grid((m + tile.m - 1) / tile.m, (n + tile.n - 1) / tile.n);
    };
  }
  static std::vector<half> values(const Tensor<half, 2> &tensor) {
    return Buffer<half>(tensor.memory()).download();
  }
};

TEST(Autotune, FindsTheBestByTheCostModel) {
  Kernel kernel{"tuned_matmul", matmul};
  Product p{128, 128, 64};
  Autotuner tuned{kernel,
                  space(&MatmulTile::m, {16, 32, 64}) * space(&MatmulTile::n, {16, 32, 64}) *
                      warps({2, 4}),
                  quiet()};
  ASSERT_EQ(tuned.candidates().size(), 18u);
  const std::vector<half> before = Product::values(p.c);
  const TuneReport report = tuned.tune(p.device.stream(), p.grid(), p.a, p.b, p.c);
  EXPECT_EQ(Product::values(p.c), before) << "tuning runs on copies";
  ASSERT_EQ(report.rows.size(), 18u);
  EXPECT_EQ(report.rows[0].config, "m=32 n=32 k=16 warps=4 stages=3");
  for (const auto &row : report.rows) {
    EXPECT_EQ(row.verdict, TuneVerdict::good) << row.config << row.message;
    EXPECT_GT(row.microseconds, 0);
    EXPECT_GE(row.microseconds, report.rows[report.best].microseconds);
    EXPECT_EQ(row.runs, 0u) << "the model's estimate, not a measurement";
    EXPECT_FALSE(row.known);
  }
  const auto best = tuned.best(p.device.stream(), p.a, p.b, p.c);
  EXPECT_THAT(
      report.rows[report.best].config,
      testing::StartsWith(describe(best.config) + " warps=" + std::to_string(best.options.warps)));

  tuned.launch(p.device.stream(), p.grid(), p.a, p.b, p.c);
  const std::vector<half> result = Product::values(p.c);
  kernel.launch(p.device.stream(), p.grid()({}), p.a, p.b, p.c);
  EXPECT_EQ(result, Product::values(p.c));

  const TuneReport again = tuned.tune(p.device.stream(), p.grid(), p.a, p.b, p.c);
  ASSERT_EQ(again.rows.size(), 18u);
  EXPECT_EQ(again.best, report.best);
  for (const auto &row : again.rows)
    EXPECT_TRUE(row.known);
}

} // namespace
