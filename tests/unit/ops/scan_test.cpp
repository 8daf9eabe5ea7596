// Scans along axes, on every device, against loops on the host.
#include "TileRun.h"
#include <algorithm>
#include <cmath>

using namespace sectile;
using namespace sectile::test;

namespace {

SECTILE_ON_DEVICES(Scan);

// What a scan of `in` gives: combine(earlier, later).
template <class T, class F>
std::vector<T> scanned(std::vector<T> values, const Shape &shape, std::size_t axis, bool reverse,
                       F combine) {
  forLines(values, shape, axis, [&](std::vector<T> &line) {
    if (reverse)
      std::reverse(line.begin(), line.end());
    for (std::size_t j = 1; j < line.size(); ++j)
      line[j] = combine(line[j - 1], line[j]);
    if (reverse)
      std::reverse(line.begin(), line.end());
  });
  return values;
}

std::vector<std::int32_t> someInts(std::size_t count) {
  std::vector<std::int32_t> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<std::int32_t>(i * 2654435761u >> 7) % 1000;
  return values;
}

const std::vector<Shape> shapes{{1},     {2},      {32},    {64},      {1024},    {4096},  {48},
                                {80},    {96},     {160},   {176},     {208},     {8, 32}, {64, 16},
                                {3, 48}, {16, 80}, {5, 96}, {2, 3, 8}, {1, 7, 64}};

// Not commutative: composition of x -> a x + b, whose order cannot be mistaken.
std::pair<std::uint32_t, std::uint32_t> composed(std::pair<std::uint32_t, std::uint32_t> first,
                                                 std::pair<std::uint32_t, std::uint32_t> second) {
  return {first.first * second.first, first.second * second.first + second.second};
}

TEST_P(Scan, OfTwoTilesWhoseCombinerDoesNotCommute) {
  for (const Shape &shape : shapes)
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      for (bool reverse : {false, true})
        for (unsigned warps : {1u, 4u}) {
          if (warps == 1 && (reverse || elementsOf(shape) > 512))
            continue;
          SCOPED_TRACE(testing::PrintToString(shape) + " along " + std::to_string(axis) +
                       (reverse ? " in reverse, " : ", ") + std::to_string(warps) + " warps");
          const std::size_t count = elementsOf(shape);
          std::vector<std::uint32_t> in(count);
          std::vector<std::pair<std::uint32_t, std::uint32_t>> maps(count);
          for (std::size_t i = 0; i < count; ++i) {
            in[i] = static_cast<std::uint32_t>(i) * 2654435761u;
            maps[i] = {in[i] | 1, in[i] >> 3};
          }
          auto got = runOn<std::uint32_t>(
              device, in, shape, count,
              [=](auto x) {
                auto [a, b] = associative_scan(
                    std::tuple(x | 1, x >> 3), axis,
                    [](auto a1, auto b1, auto a2, auto b2) {
                      return std::tuple(a1 * a2, b1 * a2 + b2);
                    },
                    reverse);
                return a ^ b;
              },
              warps);
          auto expected = scanned(maps, shape, axis, reverse, composed);
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(got[i], expected[i].first ^ expected[i].second) << i;
        }
}

template <class T> void checkTypes(const Device &device) {
  using Sum = typename decltype(sum(Tile<T>(), 0))::value_type;
  for (const Shape &shape : {Shape{96}, {16, 48}}) {
    const std::size_t axis = shape.size() - 1, count = elementsOf(shape);
    std::vector<T> in(count);
    std::vector<double> exact(count);
    for (std::size_t i = 0; i < count; ++i) {
      in[i] = static_cast<T>(static_cast<float>(i % 3));
      exact[i] = static_cast<double>(in[i]);
    }
    const auto got = runOn<Sum>(device, in, shape, count, [=](auto x) { return cumsum(x, axis); });
    const auto expected =
        scanned(exact, shape, axis, false, [](double a, double b) { return a + b; });
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(static_cast<double>(got[i]), static_cast<double>(static_cast<Sum>(expected[i])));
  }
}

TEST_P(Scan, SumsOfEveryType) {
  checkTypes<bool>(device);
  checkTypes<std::int8_t>(device);
  checkTypes<std::uint16_t>(device);
  checkTypes<std::int32_t>(device);
  checkTypes<std::int64_t>(device);
  checkTypes<half>(device);
  checkTypes<bfloat16>(device);
  checkTypes<float>(device);
  checkTypes<double>(device);
}

TEST_P(Scan, TheOthers) {
  const Shape shape{8, 48};
  const auto in = someInts(384);
  auto check = [&](auto function, bool reverse, auto combine) {
    EXPECT_EQ(runOn<std::int32_t>(device, in, shape, 384, function),
              scanned(in, shape, 1, reverse, combine));
  };
  auto multiply = [](std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
  };
  auto larger = [](auto a, auto b) { return std::max(a, b); };
  auto smaller = [](auto a, auto b) { return std::min(a, b); };
  check([](auto x) { return cumprod(x, 1); }, false, multiply);
  check([](auto x) { return cumprod(x, -1, true); }, true, multiply);
  check([](auto x) { return cummax(x, 1); }, false, larger);
  check([](auto x) { return cummax(x, 1, true); }, true, larger);
  check([](auto x) { return cummin(x, 1); }, false, smaller);
  check([](auto x) { return associative_scan(x, 1, [](auto a, auto b) { return a ^ b; }); }, false,
        [](auto a, auto b) { return a ^ b; });
}

TEST_P(Scan, NanAndZero) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> in(64, 1);
  in[0] = -0.0f;
  in[5] = nan;
  in[7] = 3;
  auto ignored = runOn<float>(device, in, {64}, 64, [](auto x) { return cummax(x, 0); });
  auto kept = runOn<float>(device, in, {64}, 64,
                           [](auto x) { return cummax(x, 0, false, Nan::propagate); });
  auto sums = runOn<float>(device, in, {64}, 64, [](auto x) { return cumsum(x, 0); });
  EXPECT_TRUE(std::signbit(sums[0]) && sums[0] == 0)
      << "the first element is itself, nothing added";
  for (std::size_t i = 0; i < 64; ++i) {
    if (i > 0) {
      EXPECT_EQ(ignored[i], i < 7 ? 1 : 3) << i;
    }
    EXPECT_EQ(std::isnan(kept[i]), i >= 5) << i;
    EXPECT_EQ(std::isnan(sums[i]), i >= 5) << i;
  }
}

TEST_P(Scan, InALoop) {
  Kernel kernel{"loop", [](Ptr<const int> x, Ptr<int> y, Int steps) {
                  auto i = arange(0, 512);
                  auto t = load(x + i);
                  for ([[maybe_unused]] auto step : range(steps))
                    t = cumsum(t, 0);
                  store(y + i, t);
                }};
  const std::vector<int> in(512, 1);
  auto out = device.allocate<int>(512);
  kernel.launch(device.stream(), 1, device.upload(in), out, 3);
  std::vector<int> expected = in;
  for (int step = 0; step < 3; ++step)
    expected = scanned(expected, {512}, 0, false, [](int a, int b) { return a + b; });
  EXPECT_EQ(out.download(), expected);
}

} // namespace
