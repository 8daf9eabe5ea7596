// map on every device: functions with branches and loops of their own for each element.
#include "Apply.h"
#include <cmath>
#include <numeric>

using namespace sectile;
using sectile::test::apply;

SECTILE_ON_DEVICES(Map);

namespace {

std::vector<std::int32_t> numbers(int count) {
  std::vector<std::int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

TEST_P(Map, EachElementLoopsOnItsOwn) {
  // How many steps of Collatz's rule lead to 1.
  const auto x = numbers(700);
  const auto got = apply<std::int32_t>(
      device,
      [](auto tile) {
        return map(
            [](Scalar<std::int32_t> n) {
              Scalar<std::int32_t> steps = 0;
              loop_while([&] { return n > 1; },
                         [&] {
                           when(n % 2 == 0, [&] { n = n / 2; }, [&] { n = 3 * n + 1; });
                           steps += 1;
                         });
              return steps;
            },
            tile);
      },
      x);
  for (size_t i = 0; i < x.size(); ++i) {
    int n = x[i], steps = 0;
    for (; n > 1; ++steps)
      n = n % 2 ? 3 * n + 1 : n / 2;
    ASSERT_EQ(got[i], steps) << x[i];
  }
}

TEST_P(Map, SeveralTilesAndResults) {
  const auto x = numbers(300);
  std::vector<std::int32_t> y;
  for (std::int32_t v : x)
    y.push_back(v * 7 % 60 + 12);
  // Euclid's, and how long it took.
  const auto got = apply<std::int32_t>(
      device,
      [](auto a, auto b) {
        auto [divisor, rounds] = map(
            [](Scalar<std::int32_t> m, Scalar<std::int32_t> n) {
              Scalar<std::int32_t> count = 0;
              loop_while([&] { return n != 0; },
                         [&] {
                           auto rest = m % n;
                           m = n;
                           n = rest;
                           count += 1;
                         });
              return std::tuple(m, count);
            },
            a, b);
        return std::array{divisor, rounds};
      },
      x, y);
  for (size_t i = 0; i < x.size(); ++i) {
    int m = x[i], n = y[i], count = 0;
    for (; n; ++count)
      m = std::exchange(n, m % n);
    ASSERT_EQ(got[i], m) << x[i];
    ASSERT_EQ(got[x.size() + i], count) << x[i];
  }
}

TEST_P(Map, ReadsTheKernelsNumbersAndLoops) {
  const std::vector<float> x = {-2, -0.5, 0, 0.25, 1, 3};
  Kernel kernel{"horner", [](Ptr<const float> in, Ptr<float> out, Float scale, Int terms) {
                  auto i = arange(0, 8);
                  auto y = map(
                      [&](Float v) {
                        Float sum = 0;
                        for ([[maybe_unused]] auto k : range(terms))
                          sum = sum * v + scale;
                        Float result = sum;
                        when(v < 0, [&] { result = -result; });
                        return result;
                      },
                      load(in + i, i < 6));
                  store(out + i, y, i < 6);
                  store(out + 6, map([](Float v) { return v + 1; }, scale));
                }};
  auto out = device.allocate<float>(7);
  kernel.launch(device.stream(), 1, device.upload(x), out, 1.5f, 4);
  const auto got = out.download();
  for (size_t i = 0; i < x.size(); ++i) {
    float sum = 0;
    for (int k = 0; k < 4; ++k)
      sum = std::fma(sum, x[i], 1.5f);
    EXPECT_EQ(got[i], x[i] < 0 ? -sum : sum);
  }
  EXPECT_EQ(got[6], 2.5f);
}

TEST_P(Map, BroadcastsAndChangesTypes) {
  Kernel kernel{"compare", [](Ptr<std::uint8_t> out) {
                  auto row = expand(arange(0, 48), 1), column = expand(arange(0, 80), 0);
                  Tile<bool> holds = map(
                      [](Int a, Int b) {
                        Bool found = false;
                        for (auto k : range(1, 4))
                          found = found || a * k == b;
                        return found;
                      },
                      row, column);
                  store(out + (row * 80 + column), cast<std::uint8_t>(holds));
                }};
  auto out = device.allocate<std::uint8_t>(48 * 80);
  kernel.launch(device.stream(), 1, out);
  const auto got = out.download();
  for (int a = 0; a < 48; ++a)
    for (int b = 0; b < 80; ++b)
      ASSERT_EQ(got[static_cast<size_t>(a * 80 + b)], a == b || 2 * a == b || 3 * a == b)
          << a << " " << b;
}

} // namespace
