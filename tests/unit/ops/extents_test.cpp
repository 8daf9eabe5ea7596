// Tiles whose extents are no powers of two, on every device: ranges, masks, loads, arithmetic,
// broadcasts, transposes, reductions, scans and loops.
#include "TileRun.h"
#include <numeric>

using namespace sectile;
using namespace sectile::test;

namespace {

SECTILE_ON_DEVICES(Extents);

// 3, 5, 7, 9, 11, 13 and 15 times powers of two, and a few that have little or no power of two.
const std::vector<std::int64_t> extents{3,  6,   7,   17,  20,  24,  48,  52,  56,  72,  80,  88,
                                        96, 104, 112, 144, 160, 176, 208, 224, 240, 352, 768, 1664};

TEST_P(Extents, OfRankOne) {
  for (std::int64_t n : extents) {
    SCOPED_TRACE(n);
    const auto count = static_cast<std::size_t>(n);
    Kernel kernel{"line", [n](Ptr<const float> x, Ptr<float> y, Ptr<std::int32_t> z, Int valid) {
                    auto i = arange(0, n);
                    auto inside = i < valid;
                    auto v = load(x + i, inside, -1);
                    store(y + i, v * 2 + cast<float>(i), inside);
                    store(y + (i + n), cumsum(v, 0));
                    store(y + (i + 2 * n), flip(v, 0));
                    store(z, sum(cast<std::int32_t>(v)));
                    store(z + 1, argmax(v, 0));
                  }};
    std::vector<float> x(count);
    for (std::size_t i = 0; i < count; ++i)
      x[i] = static_cast<float>(i * 37 % 101);
    const std::size_t valid = count - 1;
    auto y = device.upload(std::vector<float>(3 * count, -7));
    auto z = device.allocate<std::int32_t>(2);
    kernel.launch(device.stream(), 1, device.upload(x), y, z, valid);
    const std::vector<float> got = y.download();
    x[valid] = -1;
    float sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(got[i], i < valid ? 2 * x[i] + static_cast<float>(i) : -7) << i;
      ASSERT_EQ(got[count + i], sum += x[i]) << i;
      ASSERT_EQ(got[2 * count + i], x[count - 1 - i]) << i;
    }
    const auto largest = std::max_element(x.begin(), x.end()) - x.begin();
    EXPECT_THAT(z.download(), testing::ElementsAre(static_cast<std::int32_t>(sum), largest));
  }
}

void checkMatrix(const Device &device, std::int64_t m, std::int64_t n, unsigned warps) {
  SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + ", " + std::to_string(warps) +
               " warps");
  const auto rows = static_cast<std::size_t>(m), columns = static_cast<std::size_t>(n);
  Kernel kernel{"matrix", [m, n](View<const std::int32_t, 2> a, Ptr<std::int32_t> y, Int steps) {
                  auto i = arange(0, m), j = arange(0, n);
                  auto x = a.tile(m, n).load(0, 0);
                  auto scaled = x * cast<std::int32_t>(expand(i, 1) + 1) - cast<std::int32_t>(j);
                  store(y + (expand(j, 1) * m + i), trans(scaled));
                  auto rest = y + m * n;
                  store(rest + i, sum(x, 1));
                  store(rest + m + j, max(x, 0));
                  auto carried = zeros<std::int32_t>(m, n);
                  for (auto k : range(steps))
                    carried = carried + cumsum(x, 1) * cast<std::int32_t>(k + 1);
                  store(rest + m + n + numbersOf(carried.shape()), carried);
                }};
  std::vector<std::int32_t> x(rows * columns);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(i * 2654435761u) >> 20) - 2000;
  auto y = device.allocate<std::int32_t>(2 * x.size() + rows + columns);
  kernel.launch(device.stream(), 1, tensor(device.upload(x), {m, n}), y, 3, {.warps = warps});
  const std::vector<std::int32_t> got = y.download();
  std::vector<std::int32_t> most(columns, INT32_MIN);
  for (std::size_t i = 0; i < rows; ++i) {
    std::int32_t sum = 0;
    for (std::size_t j = 0; j < columns; ++j) {
      const std::int32_t v = x[i * columns + j];
      ASSERT_EQ(got[j * rows + i],
                v * static_cast<std::int32_t>(i + 1) - static_cast<std::int32_t>(j));
      sum += v;
      most[j] = std::max(most[j], v);
      ASSERT_EQ(got[x.size() + rows + columns + i * columns + j], 6 * sum);
    }
    ASSERT_EQ(got[x.size() + i], sum);
  }
  for (std::size_t j = 0; j < columns; ++j)
    ASSERT_EQ(got[x.size() + rows + j], most[j]);
}

TEST_P(Extents, OfRankTwo) {
  for (auto [m, n] : {std::pair{48, 80},
                      {16, 96},
                      {96, 16},
                      {3, 160},
                      {176, 5},
                      {7, 7},
                      {1, 48},
                      {112, 24},
                      {32, 208}})
    checkMatrix(device, m, n, 4);
  checkMatrix(device, 16, 48, 1);
  checkMatrix(device, 48, 176, 8);
}

TEST_P(Extents, ThatDoNotWorkSayWhatDoes) {
  for (auto [extent, nearest] : {std::pair{8191, "8160 and 8192"}, {1001, "1000 and 1004"}}) {
    unsigned line = 0;
    Kernel kernel{"wide", [&, n = extent](Ptr<float> y) {
                    line = __LINE__ + 1;
                    store(y + arange(0, n), full<float>(3, n));
                  }};
    const auto count = static_cast<std::size_t>(extent);
    auto y = device.allocate<float>(count);
    const std::string number = std::to_string(extent);
    try {
      kernel.launch(device.stream(), 1, y);
      ADD_FAILURE() << "a tile of " << extent << " compiles";
    } catch (const CompileError &error) {
      EXPECT_EQ(error.line(), line);
      EXPECT_THAT(error.what(), testing::HasSubstr("a tile of [" + number + "] is " + number +
                                                   " elements for each thread"));
      EXPECT_THAT(error.what(),
                  testing::HasSubstr("the nearest that work are " + std::string(nearest)));
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("bug")));
    }
  }
}

TEST_P(Extents, ThatNothingNeedsAreNotRefused) {
  Kernel kernel{"unused", [](Ptr<float> y) {
                  [[maybe_unused]] auto unused = cast<float>(arange(0, 1001)) * 2;
                  store(y + arange(0, 64), full<float>(3, 64));
                }};
  auto y = device.allocate<float>(64);
  kernel.launch(device.stream(), 1, y);
  EXPECT_EQ(y.download(), std::vector<float>(64, 3));
}

// What the message names does work.
TEST_P(Extents, ThatAreNamedWork) {
  for (int extent : {8160, 8192, 1000, 1004}) {
    const auto count = static_cast<std::size_t>(extent);
    EXPECT_EQ(runOn<float>(device, std::vector<float>(count, 2), {extent}, count,
                           [](auto x) { return x * 2; }),
              std::vector<float>(count, 4));
  }
}

// One extent alone may do, or neither does.
TEST_P(Extents, OfSeveralAxesThatDoNotWork) {
  auto faultOf = [&](Shape shape) -> std::string {
    try {
      const std::size_t count = elementsOf(shape);
      runOn<float>(device, std::vector<float>(count), shape, count, [](auto x) { return x + 1; });
    } catch (const CompileError &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(faultOf({61, 127}),
              testing::HasSubstr("instead of 61 the nearest that work are 32 and 64, or instead of "
                                 "127 the nearest that work are 96 and 128"));
  EXPECT_EQ(faultOf({61, 96}), "");
  EXPECT_EQ(faultOf({64, 127}), "");
  EXPECT_THAT(faultOf({127, 127}), testing::EndsWith("instead of 127 the nearest that work are "
                                                     "120 and 128"));
  EXPECT_THAT(faultOf({17, 17}),
              testing::HasSubstr("a tile of [17, 17] is 289 elements for each thread"));
  // The interpreter names the first tile that it meets.
  EXPECT_THAT(faultOf({17, 19, 23}),
              testing::HasSubstr(GetParam() == "interpreter"
                                     ? "a tile of [19, 23] is 437 elements"
                                     : "use extents with larger powers of two"));
}

} // namespace
