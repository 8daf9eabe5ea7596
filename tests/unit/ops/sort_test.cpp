// Sorting and counting, on every device, against the standard library.
#include "TileRun.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace sectile;
using namespace sectile::test;

namespace {

SECTILE_ON_DEVICES(Sort);

std::uint32_t mixed(std::size_t i) {
  std::uint32_t x = static_cast<std::uint32_t>(i) * 2654435761u;
  x ^= x >> 15;
  return x * 2246822519u;
}

template <class T> std::vector<T> someValues(std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = mixed(i);
    if constexpr (std::same_as<T, bool>)
      values[i] = bits >> 20 & 1;
    else if constexpr (std::integral<T> && sizeof(T) == 8)
      values[i] = static_cast<T>(static_cast<std::uint64_t>(bits) << 32 | mixed(i + 1));
    else if constexpr (std::integral<T>)
      values[i] = static_cast<T>(bits);
    else // many equal ones among them
      values[i] = static_cast<T>((static_cast<float>(bits >> 24) - 128) / 4);
  }
  return values;
}

// The order that the language defines: NaN above everything, -0 below +0.
template <class T> bool before(T a, T b) {
  if constexpr (!std::integral<T>) {
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    if (std::isnan(x) || std::isnan(y))
      return !std::isnan(x);
    if (x == y)
      return std::signbit(x) && !std::signbit(y);
    return x < y;
  } else {
    return a < b;
  }
}

template <class T> bool same(T a, T b) { return !before(a, b) && !before(b, a); }

template <class T> void checkSort(const Device &device, const Shape &shape, std::size_t axis) {
  std::vector<T> in = someValues<T>(elementsOf(shape));
  if constexpr (!std::integral<T>) {
    in[0] = std::numeric_limits<T>::quiet_NaN();
    in[in.size() / 2] = static_cast<T>(-0.0f);
    in[in.size() / 3] = static_cast<T>(0.0f);
    in[in.size() - 1] = static_cast<T>(-INFINITY);
  }
  for (bool descending : {false, true}) {
    SCOPED_TRACE(std::string(name_of(dtype_of<T>)) + " " + testing::PrintToString(shape) +
                 " along " + std::to_string(axis) + (descending ? ", descending" : ""));
    auto got =
        runOn<T>(device, in, shape, in.size(), [=](auto x) { return sort(x, axis, descending); });
    std::vector<T> expected = in;
    forLines(expected, shape, axis, [&](std::vector<T> &line) {
      std::sort(line.begin(), line.end(),
                [&](T a, T b) { return descending ? before(b, a) : before(a, b); });
    });
    for (std::size_t i = 0; i < in.size(); ++i)
      ASSERT_TRUE(same(T(got[i]), T(expected[i]))) << i;
  }
}

TEST_P(Sort, Shapes) {
  for (const Shape &shape : {Shape{1}, {2}, {64}, {256}, {48}, {80}, {4, 32}, {8, 24}, {3, 5, 16}})
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      checkSort<std::int32_t>(device, shape, axis);
}

TEST_P(Sort, EveryType) {
  const Shape shape{2, 32};
  checkSort<bool>(device, shape, 1);
  checkSort<std::int8_t>(device, shape, 1);
  checkSort<std::uint8_t>(device, shape, 1);
  checkSort<std::int16_t>(device, shape, 1);
  checkSort<std::uint32_t>(device, shape, 1);
  checkSort<std::int64_t>(device, shape, 1);
  checkSort<std::uint64_t>(device, shape, 1);
  checkSort<float8_e4m3>(device, shape, 1);
  checkSort<float8_e5m2>(device, shape, 1);
  checkSort<float8_e4m3fnuz>(device, shape, 1);
  checkSort<float8_e5m2fnuz>(device, shape, 1);
  checkSort<float8_e4m3b11fnuz>(device, shape, 1);
  checkSort<half>(device, shape, 1);
  checkSort<bfloat16>(device, shape, 1);
  checkSort<float>(device, shape, 1);
  checkSort<double>(device, shape, 1);
}

template <class T>
void checkArgsort(const Device &device, const Shape &shape, std::size_t axis, bool descending) {
  std::vector<T> in = someValues<T>(elementsOf(shape));
  for (std::size_t i = 0; i < in.size(); i += 3)
    in[i] = in[0]; // equals keep their order
  auto got = runOn<std::int32_t>(device, in, shape, in.size(),
                                 [=](auto x) { return argsort(x, axis, descending); });
  auto carried = runOn<std::int32_t>(device, in, shape, in.size(), [=](auto x) {
    auto [keys, values, twice] = sectile::sort(
        std::tuple(x, numbersOf(x.shape()), numbersOf(x.shape()) * 2), axis, descending);
    return cast<std::int32_t>(values * 3 - twice);
  });
  std::vector<std::int32_t> numbers(in.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<std::int32_t> positions = numbers;
  forLines(numbers, shape, axis, [&](std::vector<std::int32_t> &line) {
    std::sort(line.begin(), line.end(), [&](std::int32_t a, std::int32_t b) {
      const T x = in[static_cast<std::size_t>(a)], y = in[static_cast<std::size_t>(b)];
      return same(x, y) ? a < b : before(x, y) != descending;
    });
  });
  EXPECT_EQ(carried, numbers);
  std::size_t inner = 1;
  for (std::size_t d = axis + 1; d < shape.size(); ++d)
    inner *= static_cast<std::size_t>(shape[d]);
  for (std::size_t i = 0; i < in.size(); ++i)
    ASSERT_EQ(static_cast<std::size_t>(got[i]),
              static_cast<std::size_t>(numbers[i]) / inner % static_cast<std::size_t>(shape[axis]))
        << i;
}

TEST_P(Sort, StableWithValues) {
  checkArgsort<float>(device, {64}, 0, false);
  checkArgsort<float>(device, {4, 48}, 1, true);
  checkArgsort<half>(device, {32, 3}, 0, true);
  checkArgsort<std::uint8_t>(device, {96}, 0, false);
  checkArgsort<std::int64_t>(device, {48}, 0, true);
  checkArgsort<double>(device, {2, 32}, 1, false);
}

TEST_P(Sort, TopK) {
  const auto in = someValues<float>(4 * 96);
  for (bool largest : {true, false})
    for (int k : {1, 5, 16, 96}) {
      const std::size_t results = 4 * static_cast<std::size_t>(k);
      auto values = runOn<float>(device, in, {4, 96}, results,
                                 [=](auto x) { return std::get<0>(topk(x, k, 1, largest)); });
      auto at = runOn<std::int32_t>(device, in, {4, 96}, results,
                                    [=](auto x) { return std::get<1>(topk(x, k, 1, largest)); });
      for (std::size_t row = 0; row < 4; ++row) {
        std::vector<std::size_t> order(96);
        std::iota(order.begin(), order.end(), row * 96);
        std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
          return same(in[a], in[b]) ? a < b : before(in[a], in[b]) != largest;
        });
        for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
          const std::size_t result = row * static_cast<std::size_t>(k) + i;
          ASSERT_EQ(values[result], in[order[i]]);
          ASSERT_EQ(at[result], order[i] - row * 96);
        }
      }
    }
}

template <class T> void checkHistogram(const Device &device, const Shape &shape, int bins) {
  std::vector<T> in(elementsOf(shape));
  for (std::size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<T>(mixed(i) % 37);
  in[0] = static_cast<T>(-1);
  in[in.size() - 1] = static_cast<T>(T{1} << (8 * sizeof(T) - 2));
  for (bool masked : {false, true}) {
    auto got = runOn<std::int32_t>(device, in, shape, static_cast<std::size_t>(bins), [=](auto x) {
      return masked ? histogram(x, bins, x % 2 == 0) : histogram(x, bins);
    });
    std::vector<std::int32_t> expected(static_cast<std::size_t>(bins));
    for (T x : in)
      if (x >= 0 && x < static_cast<T>(bins) && !(masked && x % 2))
        ++expected[static_cast<std::size_t>(x)];
    EXPECT_EQ(got, expected) << testing::PrintToString(shape) << (masked ? " masked" : "");
  }
}

TEST_P(Sort, Histogram) {
  checkHistogram<std::int32_t>(device, {512}, 32);
  checkHistogram<std::int32_t>(device, {48}, 40);
  checkHistogram<std::int32_t>(device, {16, 80}, 1);
  checkHistogram<std::int32_t>(device, {4, 4}, 1024);
  checkHistogram<std::uint32_t>(device, {96}, 16);
  checkHistogram<std::int64_t>(device, {64}, 37);
  checkHistogram<std::uint64_t>(device, {64}, 37);
  checkHistogram<std::int8_t>(device, {64}, 20);
}

template <class W> void checkWeights(const Device &device, const Shape &shape, int bins) {
  std::vector<int> in(elementsOf(shape));
  for (std::size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<int>(mixed(i) % 41) - 2;
  for (bool masked : {false, true}) {
    auto got = runOn<W>(device, in, shape, static_cast<std::size_t>(bins), [=](auto x) {
      auto weights = cast<W>(x * 3 - 5);
      return masked ? histogram(x, bins, weights, x % 2 == 0) : histogram(x, bins, weights);
    });
    std::vector<W> expected(static_cast<std::size_t>(bins));
    for (int x : in)
      if (x >= 0 && x < bins && !(masked && x % 2))
        expected[static_cast<std::size_t>(x)] += static_cast<W>(x * 3 - 5);
    EXPECT_EQ(got, expected) << testing::PrintToString(shape) << (masked ? " masked" : "");
  }
}

// The sums are whole numbers, so that every order gives the same.
TEST_P(Sort, HistogramOfWeights) {
  checkWeights<float>(device, {512}, 32);
  checkWeights<float>(device, {48}, 40);
  checkWeights<std::int32_t>(device, {16, 80}, 1);
  checkWeights<std::uint32_t>(device, {4, 4}, 1024);
  checkWeights<float>(device, {3, 16, 16}, 7);
}

TEST_P(Sort, HistogramOfWeightsThatRepeat) {
  std::vector<int> in(16 * 32);
  for (std::size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<int>(mixed(i) % 10);
  auto got = runOn<float>(device, in, {16, 32}, 10, [](auto x) {
    return histogram(x, 10, cast<float>(expand(arange(0, 16), 1)) + 0.5f);
  });
  std::vector<float> expected(10);
  for (std::size_t i = 0; i < in.size(); ++i)
    expected[static_cast<std::size_t>(in[i])] += static_cast<float>(i / 32) + 0.5f;
  EXPECT_EQ(got, expected);
}

TEST_P(Sort, HistogramInALoop) {
  Kernel kernel{"loop", [](Ptr<const int> x, Ptr<int> y, Int steps) {
                  auto counts = zeros<std::int32_t>(16);
                  for (auto step : range(steps))
                    counts = counts + histogram(load(x + step * 64 + arange(0, 64)), 16);
                  store(y + arange(0, 16), counts);
                }};
  std::vector<int> in(256), expected(16);
  for (std::size_t i = 0; i < in.size(); ++i)
    ++expected[static_cast<std::size_t>(in[i] = static_cast<int>(mixed(i) % 16))];
  auto out = device.allocate<int>(16);
  kernel.launch(device.stream(), 1, device.upload(in), out, 4);
  EXPECT_EQ(out.download(), expected);
}

} // namespace
