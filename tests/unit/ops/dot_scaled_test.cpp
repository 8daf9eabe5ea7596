// Products of the microscaling formats, against their numbers decoded one by one.
#include "Devices.h"
#include <bit>
#include <cmath>
#include <gmock/gmock.h>
#include <random>

namespace sc = sectile;

namespace {

SECTILE_ON_DEVICES(DotScaled);

double decodeE2M1(unsigned code) {
  static constexpr double sizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code & 8 ? -sizes[code & 7] : sizes[code & 7];
}
double decodeScale(std::uint8_t code) {
  return code == 255 ? std::nan("") : std::ldexp(1.0, int(code) - 127);
}

/// An operand with K along its rows: what the kernel gets, and the numbers that it stands for.
template <class T> struct Operand {
  std::vector<T> stored;            ///< in the order of the kernel's tile
  std::vector<std::uint8_t> scales; ///< [rows, K / 32]
  std::vector<double> numbers;      ///< [rows, K]
};

/// Random codes; `swapped` for [K, N].
template <class T>
Operand<T> operand(int rows, int k, bool swapped, bool scaled, int lowest, int highest,
                   unsigned seed) {
  std::mt19937 random(seed);
  Operand<T> result;
  for (int i = 0; i < rows * (k / 32); ++i)
    result.scales.push_back(static_cast<std::uint8_t>(
        lowest + static_cast<int>(random() % static_cast<unsigned>(highest - lowest + 1))));
  constexpr int packing = std::same_as<T, std::uint8_t> ? 2 : 1;
  const int stored = k / packing;
  result.stored.resize(static_cast<size_t>(rows * stored));
  for (int row = 0; row < rows; ++row)
    for (int at = 0; at < stored; ++at) {
      T &value = result.stored[static_cast<size_t>(swapped ? at * rows + row : row * stored + at)];
      double both[2] = {};
      if constexpr (packing == 2) {
        value = static_cast<std::uint8_t>(random());
        both[0] = decodeE2M1(value & 15u);
        both[1] = decodeE2M1(value >> 4u);
      } else {
        // Every finite number of 8 bits is met; those of 16 bits are in between.
        if constexpr (sizeof(T) == 1) {
          do
            value = std::bit_cast<T>(static_cast<std::uint8_t>(random()));
          while (!std::isfinite(static_cast<float>(value)));
        } else {
          value = static_cast<T>(static_cast<float>(static_cast<int>(random() % 4001) - 2000) / 64);
        }
        both[0] = static_cast<double>(static_cast<float>(value));
      }
      for (int half = 0; half < packing; ++half) {
        const int at_k = at * packing + half;
        const double factor =
            scaled ? decodeScale(result.scales[static_cast<size_t>(row * (k / 32) + at_k / 32)])
                   : 1;
        result.numbers.push_back(both[half] * factor);
      }
    }
  return result;
}

sc::Int places(int rows, int columns) {
  return sc::expand(sc::arange(0, rows), 1) * columns + sc::expand(sc::arange(0, columns), 0);
}

struct Shape {
  int m, n, k;
};

template <class A, class B>
std::vector<float> run(const sc::Device &device, const Shape &s, const Operand<A> &a, bool scaleA,
                       const Operand<B> &b, bool scaleB, const std::vector<float> &acc) {
  sc::Kernel kernel{"dot_scaled", [=](sc::Ptr<const A> pa, sc::Ptr<const std::uint8_t> sa,
                                      sc::Ptr<const B> pb, sc::Ptr<const std::uint8_t> sb,
                                      sc::Ptr<const float> c, sc::Ptr<float> out) {
                      const int packA = std::same_as<A, std::uint8_t> ? 2 : 1;
                      const int packB = std::same_as<B, std::uint8_t> ? 2 : 1;
                      auto x = sc::load(pa + places(s.m, s.k / packA));
                      auto y = sc::load(pb + places(s.k / packB, s.n));
                      auto scalesX = sc::load(sa + places(s.m, s.k / 32));
                      auto scalesY = sc::load(sb + places(s.n, s.k / 32));
                      using sc::no_scale;
                      auto sums = sc::load(c + places(s.m, s.n));
                      auto result = scaleA && scaleB ? sc::dot_scaled(x, scalesX, y, scalesY, sums)
                                    : scaleA         ? sc::dot_scaled(x, scalesX, y, no_scale, sums)
                                    : scaleB ? sc::dot_scaled(x, no_scale, y, scalesY, sums)
                                             : sc::dot_scaled(x, no_scale, y, no_scale, sums);
                      sc::store(out + places(s.m, s.n), result);
                    }};
  auto out = device.allocate<float>(acc.size());
  kernel.launch(device.stream(), 1, device.upload(a.stored), device.upload(a.scales),
                device.upload(b.stored), device.upload(b.scales), device.upload(acc), out);
  return out.download();
}

template <class A, class B>
void check(const sc::Device &device, const Shape &s, bool scaleA = true, bool scaleB = true,
           int lowest = 120, int highest = 134) {
  SCOPED_TRACE(std::to_string(s.m) + " " + std::to_string(s.n) + " " + std::to_string(s.k));
  const auto a = operand<A>(s.m, s.k, false, scaleA, lowest, highest, 1);
  const auto b = operand<B>(s.n, s.k, true, scaleB, lowest, highest, 2);
  std::vector<float> acc(static_cast<size_t>(s.m * s.n));
  for (size_t i = 0; i < acc.size(); ++i)
    acc[i] = static_cast<float>(i % 5);
  const std::vector<float> got = run(device, s, a, scaleA, b, scaleB, acc);
  for (int i = 0; i < s.m; ++i)
    for (int j = 0; j < s.n; ++j) {
      const auto at = static_cast<size_t>(i * s.n + j);
      double sum = static_cast<double>(acc[at]), size = sum;
      for (int k = 0; k < s.k; ++k) {
        const double term = a.numbers[static_cast<size_t>(i * s.k + k)] *
                            b.numbers[static_cast<size_t>(j * s.k + k)];
        sum += term;
        size += std::abs(term);
      }
      // Products are exact; only the K sums are rounded.
      ASSERT_NEAR(static_cast<double>(got[at]), sum, size * s.k * 0x1p-24) << i << " " << j;
    }
}

TEST_P(DotScaled, EveryFormat) {
  check<std::uint8_t, std::uint8_t>(device, {32, 32, 64});
  check<sc::float8_e4m3, sc::float8_e4m3>(device, {32, 32, 64});
  check<sc::float8_e5m2, sc::float8_e4m3>(device, {16, 32, 64});
  check<sc::float8_e5m2, std::uint8_t>(device, {16, 32, 64});
  check<std::uint8_t, sc::float8_e4m3>(device, {16, 32, 64});
}

TEST_P(DotScaled, OneOperandScaled) {
  check<sc::bfloat16, std::uint8_t>(device, {32, 16, 64}, false, true);
  check<std::uint8_t, sc::bfloat16>(device, {16, 16, 64}, true, false);
  check<sc::half, std::uint8_t>(device, {16, 16, 64}, false, true);
  check<sc::half, sc::float8_e5m2>(device, {16, 16, 64}, true, true);
  check<sc::float8_e4m3, std::uint8_t>(device, {16, 16, 64}, false, false);
}

TEST_P(DotScaled, ExtentsOfEveryKind) {
  check<std::uint8_t, sc::float8_e4m3>(device, {48, 80, 96});
  check<std::uint8_t, std::uint8_t>(device, {16, 48, 160});
  check<sc::float8_e4m3, sc::float8_e5m2>(device, {1, 8, 32});
}

TEST_P(DotScaled, ScalesFarFromOne) {
  // Within bf16's range all is exact, however small or large.
  check<std::uint8_t, std::uint8_t>(device, {16, 16, 64}, true, false, 10, 20);
  check<std::uint8_t, std::uint8_t>(device, {16, 16, 64}, false, true, 235, 245);
}

TEST_P(DotScaled, InLoops) {
  // Steps over K, with packed numbers and their scales fetched as the target can.
  constexpr int m = 32, n = 32, k = 64, steps = 3;
  sc::Kernel kernel{
      "scaled_loop", [](sc::View<const std::uint8_t, 2> a, sc::View<const std::uint8_t, 2> sa,
                        sc::View<const sc::float8_e4m3, 2> b, sc::View<const std::uint8_t, 2> sb,
                        sc::Ptr<float> out) {
        auto acc = sc::zeros<float>(m, n);
        for (auto i : sc::range(steps))
          acc = sc::dot_scaled(a.tile(m, k / 2).load(0, i), sa.tile(m, k / 32).load(0, i),
                               b.tile(k, n).load(i, 0), sb.tile(n, k / 32).load(0, i), acc);
        sc::store(out + places(m, n), acc);
      }};
  const auto a = operand<std::uint8_t>(m, k * steps, false, true, 126, 129, 1);
  const auto b = operand<sc::float8_e4m3>(n, k * steps, true, true, 126, 129, 2);
  auto out = device.allocate<float>(m * n);
  kernel.launch(device.stream(), 1, sc::tensor(device.upload(a.stored), {m, k * steps / 2}),
                sc::tensor(device.upload(a.scales), {m, k * steps / 32}),
                sc::tensor(device.upload(b.stored), {k * steps, n}),
                sc::tensor(device.upload(b.scales), {n, k * steps / 32}), out);
  const std::vector<float> got = out.download();
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (size_t l = 0; l < k * steps; ++l) {
        const double term = a.numbers[i * k * steps + l] * b.numbers[j * k * steps + l];
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(static_cast<double>(got[i * n + j]), sum, size * k * steps * 0x1p-24);
    }
}

TEST_P(DotScaled, NaN) {
  const Shape s{16, 16, 64};
  auto a = operand<std::uint8_t>(s.m, s.k, false, true, 127, 127, 1);
  auto b = operand<sc::float8_e4m3>(s.n, s.k, true, true, 127, 127, 2);
  std::fill(a.stored.begin(), a.stored.end(), std::uint8_t{0}); // zeros times NaN are NaN
  a.scales[3 * 2 + 1] = 255;
  b.scales[5 * 2] = 255;
  const std::vector<float> got = run(device, s, a, true, b, true, std::vector<float>(256, 1));
  for (size_t i = 0; i < 16; ++i)
    for (size_t j = 0; j < 16; ++j)
      if (i == 3 || j == 5) {
        EXPECT_TRUE(std::isnan(got[i * 16 + j])) << i << " " << j;
      } else {
        EXPECT_EQ(got[i * 16 + j], 1) << i << " " << j;
      }
}

} // namespace
