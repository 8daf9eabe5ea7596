// Matrix products: every type of operand, both ranks, extents of every kind, and precisions.
#include "Devices.h"
#include "tests/unit/Fp8Sums.h"
#include <cmath>
#include <gmock/gmock.h>
#include <random>

namespace sc = sectile;

namespace {

SECTILE_ON_DEVICES(Dot);

/// Extents of a product; batch 0 for one of rank 2.
struct Extents {
  int batch, m, n, k;
};

/// The offsets of a row-major tile of rank 2 or 3.
sc::Int places(int batch, int rows, int columns) {
  auto inMatrix =
      sc::expand(sc::arange(0, rows), 1) * columns + sc::expand(sc::arange(0, columns), 0);
  if (!batch)
    return inMatrix;
  auto matrix = sc::expand(sc::expand(sc::arange(0, batch), 1), 2);
  return matrix * (rows * columns) + sc::expand(inMatrix, 0);
}

/// Small whole numbers, whose products and sums every type holds exactly.
template <class T> std::vector<T> numbers(int count, int seed) {
  std::vector<T> result;
  for (int i = 0; i < count; ++i) {
    const int number = (i * 7 + i / 5 + seed) % 5 - 2;
    if constexpr (std::is_integral_v<T>)
      result.push_back(static_cast<T>(number)); // modulo, where there are no negative ones
    else
      result.push_back(static_cast<T>(static_cast<float>(number)));
  }
  return result;
}

template <class A, class B, class C>
std::vector<double> product(const Extents &e, const std::vector<A> &a, const std::vector<B> &b,
                            const std::vector<C> &acc) {
  const int matrices = std::max(e.batch, 1);
  std::vector<double> result(acc.size());
  for (int matrix = 0; matrix < matrices; ++matrix)
    for (int i = 0; i < e.m; ++i)
      for (int j = 0; j < e.n; ++j) {
        const auto at = static_cast<size_t>((matrix * e.m + i) * e.n + j);
        double sum = static_cast<double>(acc[at]);
        for (int k = 0; k < e.k; ++k)
          sum += static_cast<double>(a[static_cast<size_t>((matrix * e.m + i) * e.k + k)]) *
                 static_cast<double>(b[static_cast<size_t>((matrix * e.k + k) * e.n + j)]);
        result[at] = sum;
      }
  return result;
}

template <class A, class C, class B = A>
void check(const sc::Device &device, const Extents &e, unsigned warps = 4) {
  const int matrices = std::max(e.batch, 1);
  const auto a = numbers<A>(matrices * e.m * e.k, 1);
  const auto b = numbers<B>(matrices * e.k * e.n, 3);
  const auto acc = numbers<C>(matrices * e.m * e.n, 0);
  sc::Kernel kernel{
      "dot",
      [e](sc::Ptr<const A> pa, sc::Ptr<const B> pb, sc::Ptr<const C> pc, sc::Ptr<C> out) {
        auto at = places(e.batch, e.m, e.n);
        sc::store(out + at, sc::dot(sc::load(pa + places(e.batch, e.m, e.k)),
                                    sc::load(pb + places(e.batch, e.k, e.n)), sc::load(pc + at)));
      },
      {.warps = warps}};
  auto out = device.allocate<C>(acc.size());
  kernel.launch(device.stream(), 1, device.upload(a), device.upload(b), device.upload(acc), out);
  const std::vector<C> got = out.download();
  const std::vector<double> want = product(e, a, b, acc);
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(static_cast<double>(got[i]), want[i])
        << "[" << e.batch << ", " << e.m << ", " << e.k << "] · [" << e.k << ", " << e.n << "] at "
        << i;
}

template <class A, class C, class B = A>
void check(const sc::Device &device, std::initializer_list<Extents> all, unsigned warps = 4) {
  for (const Extents &e : all)
    check<A, C, B>(device, e, warps);
}

TEST_P(Dot, EveryType) {
  for (const Extents &e : {Extents{0, 32, 32, 32}, Extents{2, 16, 16, 32}}) {
    check<sc::half, float>(device, e);
    check<sc::half, sc::half>(device, e);
    check<sc::bfloat16, float>(device, e);
    check<float, float>(device, e);
    check<double, double>(device, e);
    check<std::int8_t, std::int32_t>(device, e);
    check<sc::float8_e4m3, float>(device, e);
    check<sc::float8_e5m2, float>(device, e);
    check<sc::float8_e4m3, float, sc::float8_e5m2>(device, e);
  }
}

TEST_P(Dot, ExtentsThatAreNoPowersOfTwo) {
  check<sc::half, float>(device, {{0, 48, 80, 48},
                                  {0, 80, 48, 16},
                                  {0, 96, 96, 80},
                                  {0, 160, 16, 96},
                                  {0, 16, 176, 16},
                                  {0, 176, 16, 48},
                                  {0, 48, 48, 160},
                                  {0, 16, 16, 176}});
  check<float, float>(device, {{0, 48, 80, 24}, {0, 80, 24, 40}});
  check<std::int8_t, std::int32_t>(device, {{0, 48, 16, 96}, {0, 16, 24, 160}});
  check<double, double>(device, {{0, 24, 40, 12}});
  check<sc::float8_e4m3, float>(device, {{0, 48, 48, 96}, {0, 48, 40, 48}});
}

TEST_P(Dot, SeveralMatrices) {
  check<sc::half, float>(device, {{1, 16, 16, 16},
                                  {3, 16, 24, 16},
                                  {4, 32, 16, 16},
                                  {8, 16, 16, 32},
                                  {5, 16, 24, 48},
                                  {6, 16, 48, 16}});
  check<sc::half, float>(device, {{4, 32, 32, 16}, {2, 64, 16, 48}}, 8);
  check<float, float>(device, {{4, 16, 16, 16}, {3, 48, 8, 24}});
  check<std::int8_t, std::int32_t>(device, {{2, 16, 16, 32}, {3, 16, 16, 96}});
}

TEST_P(Dot, ExtentsBelowTheInstructions) {
  check<sc::half, float>(device, {{0, 1, 64, 64},
                                  {0, 16, 8, 8},
                                  {0, 64, 1, 32},
                                  {0, 32, 32, 1},
                                  {0, 1, 1, 1},
                                  {0, 8, 16, 16},
                                  {0, 3, 5, 7},
                                  {0, 12, 20, 28}});
  check<sc::half, float>(device, {{4, 1, 16, 64}, {16, 4, 4, 4}, {3, 5, 6, 4}});
  check<float, float>(device, {{0, 1, 16, 32}, {4, 8, 8, 8}});
  check<std::int8_t, std::int32_t>(device, {{0, 8, 8, 16}});
}

TEST_P(Dot, OperandsThatWereComputed) {
  // Transposed, converted, chosen: what a dot takes need not come from memory as it is.
  sc::Kernel kernel{"computed_operands",
                    [](sc::Ptr<const sc::half> a, sc::Ptr<const sc::half> b, sc::Ptr<float> out) {
                      auto x = sc::load(a + places(2, 32, 16)); // [2, K, M]
                      auto y = sc::load(b + places(2, 32, 48)); // [2, K, N]
                      auto z = sc::dot(sc::trans(x) * 2, sc::where(y > 0, y, -y));
                      auto p = sc::cast<sc::half>(z); // [2, 16, 48]
                      sc::store(out + places(2, 16, 16), sc::dot(p, sc::trans(p)));
                    }};
  const auto a = numbers<sc::half>(2 * 32 * 16, 1), b = numbers<sc::half>(2 * 32 * 48, 2);
  auto out = device.allocate<float>(2 * 16 * 16);
  kernel.launch(device.stream(), 1, device.upload(a), device.upload(b), out);
  const std::vector<float> got = out.download();
  for (int matrix = 0; matrix < 2; ++matrix) {
    std::vector<double> z(16 * 48);
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 48; ++j)
        for (int k = 0; k < 32; ++k)
          z[static_cast<size_t>(i * 48 + j)] +=
              2.0 * static_cast<float>(a[static_cast<size_t>((matrix * 32 + k) * 16 + i)]) *
              std::abs(static_cast<float>(b[static_cast<size_t>((matrix * 32 + k) * 48 + j)]));
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j) {
        double want = 0;
        for (int k = 0; k < 48; ++k)
          want += z[static_cast<size_t>(i * 48 + k)] * z[static_cast<size_t>(j * 48 + k)];
        ASSERT_EQ(got[static_cast<size_t>((matrix * 16 + i) * 16 + j)], want) << i << " " << j;
      }
  }
}

TEST_P(Dot, FetchedAhead) {
  // A loop over K whose operands of rank 3 come through channels.
  constexpr int batch = 2, m = 16, n = 48, k = 16, steps = 5;
  sc::Kernel kernel{"batched_loop", [](sc::Ptr<const sc::half> a, sc::Ptr<const sc::half> b,
                                       sc::Ptr<float> out, sc::Int count) {
                      auto acc = sc::zeros<float>(batch, m, n);
                      for (auto i : sc::range(count))
                        acc =
                            sc::dot(sc::load(a + (i * (batch * m * k) + places(batch, m, k))),
                                    sc::load(b + (i * (batch * k * n) + places(batch, k, n))), acc);
                      sc::store(out + places(batch, m, n), acc);
                    }};
  const auto a = numbers<sc::half>(steps * batch * m * k, 1);
  const auto b = numbers<sc::half>(steps * batch * k * n, 2);
  std::vector<double> want(batch * m * n);
  for (int i = 0; i < steps; ++i)
    want = product({batch, m, n, k}, std::vector<sc::half>(a.begin() + i * batch * m * k, a.end()),
                   std::vector<sc::half>(b.begin() + i * batch * k * n, b.end()), want);
  auto out = device.allocate<float>(want.size());
  kernel.launch(device.stream(), 1, device.upload(a), device.upload(b), out, steps);
  const std::vector<float> got = out.download();
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(got[i], want[i]) << i;
}

/// A matmul in steps along K, of operands that are stored with K as their last axis or their first.
template <class T, class C>
void checkSteps(const sc::Device &device, const Extents &e, int depth, bool aAlong, bool bAlong,
                unsigned warps = 4) {
  SCOPED_TRACE(testing::Message() << "[" << e.m << ", " << e.k << "] · [" << e.k << ", " << e.n
                                  << "] depth " << depth << " along K: " << aAlong << bAlong);
  sc::Kernel kernel{
      "steps",
      [=](sc::View<const T, 2> a, sc::View<const T, 2> b, sc::Ptr<C> out) {
        auto acc = sc::zeros<C>(e.m, e.n);
        for (auto i : sc::range(sc::cdiv(a.extent(aAlong ? 1 : 0), e.k))) {
          auto x = aAlong ? a.tile(e.m, e.k).load(0, i) : sc::trans(a.tile(e.k, e.m).load(i, 0));
          auto y = bAlong ? sc::trans(b.tile(e.n, e.k).load(0, i)) : b.tile(e.k, e.n).load(i, 0);
          acc = sc::dot(x, y, acc);
        }
        sc::store(out + places(0, e.m, e.n), acc);
      },
      {.warps = warps}};
  const auto a = numbers<T>(e.m * depth, 1), b = numbers<T>(depth * e.n, 2);
  auto turned = [](const std::vector<T> &matrix, int rows, int columns) {
    std::vector<T> result;
    for (int j = 0; j < columns; ++j)
      for (int i = 0; i < rows; ++i)
        result.push_back(matrix[static_cast<size_t>(i * columns + j)]);
    return result;
  };
  const std::vector<double> want =
      product({0, e.m, e.n, depth}, a, b, std::vector<C>(static_cast<size_t>(e.m * e.n)));
  auto out = device.allocate<C>(want.size());
  kernel.launch(device.stream(), 1,
                aAlong ? sc::tensor(device.upload(a), {e.m, depth})
                       : sc::tensor(device.upload(turned(a, e.m, depth)), {depth, e.m}),
                bAlong ? sc::tensor(device.upload(turned(b, depth, e.n)), {e.n, depth})
                       : sc::tensor(device.upload(b), {depth, e.n}),
                out);
  const std::vector<C> got = out.download();
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(static_cast<double>(got[i]), want[i]) << i;
}

/// Operands that are computed from loads along K, or from one along K and one across it.
void checkComputedSteps(const sc::Device &device, bool mixed) {
  SCOPED_TRACE(mixed);
  constexpr int m = 64, n = 96, k = 64, depth = 160;
  sc::Kernel kernel{"computed_steps",
                    [=](sc::View<const std::int8_t, 2> a, sc::View<const std::int8_t, 2> turned,
                        sc::View<const std::int8_t, 2> b, sc::Ptr<std::int32_t> out) {
                      auto acc = sc::zeros<std::int32_t>(m, n);
                      for (auto i : sc::range(sc::cdiv(a.extent(1), k))) {
                        auto x = a.tile(m, k).load(0, i);
                        auto other = mixed ? sc::trans(turned.tile(k, m).load(i, 0)) : x;
                        acc = sc::dot(x + other, sc::trans(b.tile(n, k).load(0, i) * 3), acc);
                      }
                      sc::store(out + places(0, m, n), acc);
                    }};
  const auto a = numbers<std::int8_t>(m * depth, 1), b = numbers<std::int8_t>(n * depth, 2);
  std::vector<std::int8_t> turned(a.size());
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < depth; ++j)
      turned[static_cast<size_t>(j * m + i)] = a[static_cast<size_t>(i * depth + j)];
  auto out = device.allocate<std::int32_t>(m * n);
  kernel.launch(device.stream(), 1, sc::tensor(device.upload(a), {m, depth}),
                sc::tensor(device.upload(turned), {depth, m}),
                sc::tensor(device.upload(b), {n, depth}), out);
  const std::vector<std::int32_t> got = out.download();
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      int want = 0;
      for (int l = 0; l < depth; ++l)
        want += 6 * a[static_cast<size_t>(i * depth + l)] * b[static_cast<size_t>(j * depth + l)];
      ASSERT_EQ(got[static_cast<size_t>(i * n + j)], want) << i << " " << j;
    }
}

/// Every way that operands may lie, counts of steps, tails and widths.
template <class T, class C> void checkAllSteps(const sc::Device &device) {
  for (bool aAlong : {true, false})
    for (bool bAlong : {true, false})
      checkSteps<T, C>(device, {0, 64, 64, 64}, 192, aAlong, bAlong);
  for (int depth : {0, 16, 64, 80, 100, 128})
    checkSteps<T, C>(device, {0, 64, 32, 64}, depth, true, true);
  for (int n : {8, 24, 40, 80, 96, 160, 176, 192, 208})
    checkSteps<T, C>(device, {0, 64, n, 32}, 64, true, true);
  checkSteps<T, C>(device, {0, 64, 96, 96}, 160, true, true);
  checkSteps<T, C>(device, {0, 128, 80, 64}, 128, true, true, 8);
  checkSteps<T, C>(device, {0, 64, 96, 128}, 272, true, true, 8);
  checkSteps<T, C>(device, {0, 64, 64, 256}, 512, true, true);
}

TEST_P(Dot, InStepsOfEveryTypeAndMajor) {
  checkAllSteps<std::int8_t, std::int32_t>(device);
  checkAllSteps<sc::float8_e4m3, float>(device);
  for (bool mixed : {false, true})
    checkComputedSteps(device, mixed);
}

/// A matmul whose second operand is kept in another type, as quantised weights are.
template <class W>
void checkConverted(const sc::Device &device, const Extents &e, int steps, int stages) {
  sc::Kernel kernel{"converted", [=](sc::View<const sc::half, 2> a, sc::View<const W, 2> w,
                                     sc::Ptr<const float> scales, sc::Ptr<float> out) {
                      auto acc = sc::zeros<float>(e.m, e.n);
                      for (auto i : sc::range(0, sc::cdiv(a.extent(1), e.k), {.stages = stages})) {
                        auto weights = sc::cast<sc::half>(w.tile(e.k, e.n).load(i, 0));
                        acc = sc::dot(a.tile(e.m, e.k).load(0, i), weights, acc);
                      }
                      auto scale = sc::load(scales + sc::arange(0, e.n));
                      sc::store(out + places(0, e.m, e.n), acc * sc::expand(scale, 0));
                    }};
  const int depth = e.k * steps - 3; // the last step is not a whole one
  const auto a = numbers<sc::half>(e.m * depth, 1);
  const auto w = numbers<W>(depth * e.n, 2);
  std::vector<float> scales;
  for (int i = 0; i < e.n; ++i)
    scales.push_back(static_cast<float>(1 << i % 3));
  auto out = device.allocate<float>(static_cast<size_t>(e.m * e.n));
  kernel.launch(device.stream(), 1, sc::tensor(device.upload(a), {e.m, depth}),
                sc::tensor(device.upload(w), {depth, e.n}), device.upload(scales), out);
  const std::vector<double> want =
      product({0, e.m, e.n, depth}, a, w, std::vector<float>(static_cast<size_t>(e.m * e.n)));
  const std::vector<float> got = out.download();
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(got[i], want[i] * static_cast<double>(scales[i % scales.size()]))
        << i << " " << e.m << " " << e.n << " " << e.k << " " << stages;
}

TEST_P(Dot, OfConvertedLoads) {
  for (int stages : {1, 2, 3}) {
    checkConverted<std::int8_t>(device, {0, 32, 32, 32}, 5, stages);
    checkConverted<sc::float8_e4m3>(device, {0, 16, 64, 32}, 4, stages);
    checkConverted<float>(device, {0, 32, 16, 16}, 3, stages);
  }
  checkConverted<std::uint8_t>(device, {0, 48, 80, 16}, 3, 3);
  checkConverted<sc::float8_e5m2>(device, {0, 1, 16, 16}, 2, 3);
}

TEST_P(Dot, OfLoadsThatAreUsedTwice) {
  // The same loads go into the product and into a sum, and the next addresses come from a load.
  constexpr int m = 16, n = 32, k = 16, steps = 4;
  sc::Kernel kernel{"used_twice", [](sc::Ptr<const std::int8_t> a, sc::Ptr<const std::int8_t> b,
                                     sc::Ptr<const int> order, sc::Ptr<float> out, sc::Int count) {
                      auto acc = sc::zeros<float>(m, n);
                      auto rest = sc::zeros<float>(m, k);
                      for (auto i : sc::range(count)) {
                        auto step = sc::load(order + i);
                        auto x = sc::load(a + (step * (m * k) + places(0, m, k)));
                        auto y = sc::load(b + (step * (k * n) + places(0, k, n)));
                        acc = sc::dot(sc::cast<sc::half>(x), sc::cast<sc::half>(y) * 2, acc);
                        rest += sc::cast<float>(x);
                      }
                      sc::store(out + places(0, m, n), acc + sc::expand(sc::sum(rest, 1), 1));
                    }};
  const auto a = numbers<std::int8_t>(steps * m * k, 1), b = numbers<std::int8_t>(steps * k * n, 2);
  const std::vector<int> order = {2, 0, 3, 1};
  std::vector<double> want(m * n);
  for (int step : order) {
    const std::vector<std::int8_t> x(a.begin() + step * m * k, a.begin() + (step + 1) * m * k);
    const std::vector<std::int8_t> y(b.begin() + step * k * n, b.begin() + (step + 1) * k * n);
    const std::vector<double> sums = product({0, m, n, k}, x, y, std::vector<float>(m * n));
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        want[static_cast<size_t>(i * n + j)] += 2 * sums[static_cast<size_t>(i * n + j)];
        for (int l = 0; l < k; ++l)
          want[static_cast<size_t>(i * n + j)] += x[static_cast<size_t>(i * k + l)];
      }
  }
  auto out = device.allocate<float>(m * n);
  kernel.launch(device.stream(), 1, device.upload(a), device.upload(b), device.upload(order), out,
                steps);
  const std::vector<float> got = out.download();
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(got[i], want[i]) << i;
}

TEST_P(Dot, ExtentsThatThreadsCannotShareOut) {
  if (GetParam() == "interpreter")
    GTEST_SKIP() << "has no threads";
  sc::Kernel kernel{"odd_extents", [](sc::Ptr<float> p) {
                      auto x = sc::load(p + places(0, 61, 61));
                      sc::store(p + places(0, 61, 61), sc::dot(x, x));
                    }};
  auto buffer = device.allocate<float>(61 * 61);
  try {
    kernel.launch(device.stream(), 1, buffer);
    FAIL() << "nothing was thrown";
  } catch (const sc::CompileError &error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("ops/dot_test.cpp"));
    EXPECT_THAT(error.what(),
                testing::HasSubstr(": instead of 61 the nearest that work are 60 and 64"));
  }
}

//===-- Precision ---------------------------------------------------------------------------===//

constexpr int size = 64;

std::vector<float> runPrecision(const sc::Device &device, sc::Precision precision,
                                const std::vector<float> &a, const std::vector<float> &b) {
  sc::Kernel kernel{"precision",
                    [=](sc::Ptr<const float> pa, sc::Ptr<const float> pb, sc::Ptr<float> out) {
                      auto at = places(0, size, size);
                      sc::store(out + at, sc::dot(sc::load(pa + at), sc::load(pb + at), precision));
                    }};
  auto out = device.allocate<float>(size * size);
  kernel.launch(device.stream(), 1, device.upload(a), device.upload(b), out);
  return out.download();
}

/// The largest error of a product of random numbers, in units of Σ |a| |b|.
double largestError(const sc::Device &device, sc::Precision precision) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> mantissas(-2, 2);
  auto draw = [&] {
    std::vector<float> values;
    for (int i = 0; i < size * size; ++i) {
      const float mantissa = mantissas(random);
      values.push_back(std::ldexp(mantissa, static_cast<int>(random() % 9) - 4));
    }
    return values;
  };
  const std::vector<float> a = draw(), b = draw();
  const std::vector<float> got = runPrecision(device, precision, a, b);
  double worst = 0;
  for (size_t i = 0; i < size; ++i)
    for (size_t j = 0; j < size; ++j) {
      double sum = 0, scale = 0;
      for (size_t k = 0; k < size; ++k) {
        const double term =
            static_cast<double>(a[i * size + k]) * static_cast<double>(b[k * size + j]);
        sum += term;
        scale += std::abs(term);
      }
      worst = std::max(worst, std::abs(static_cast<double>(got[i * size + j]) - sum) / scale);
    }
  return worst;
}

TEST_P(Dot, PrecisionsAreAsGoodAsTheySay) {
  // Sums alone are off by some 2^-24 each; where the chip has no such units all are as good as
  // ieee.
  const bool hasUnits = GetParam().find("sm_") != std::string::npos;
  // A chip's matrix units cut sums off where the virtual GPU's round them.
  const double sums = GetParam().starts_with("cuda") ? 0x1p-20 : 6e-7;
  const double full = largestError(device, sc::Precision::ieee);
  EXPECT_LT(full, 4e-7);
  const double tf32 = largestError(device, sc::Precision::tf32);
  EXPECT_LT(tf32, 1e-3);
  const double tf32x3 = largestError(device, sc::Precision::tf32x3);
  EXPECT_LT(tf32x3, sums);
  const double bf16x3 = largestError(device, sc::Precision::bf16x3);
  EXPECT_LT(bf16x3, 2e-5);
  const double bf16x6 = largestError(device, sc::Precision::bf16x6);
  EXPECT_LT(bf16x6, sums);
  if (hasUnits) {
    EXPECT_GT(tf32, 1e-5);
    EXPECT_GT(tf32, 100 * tf32x3);
    EXPECT_GT(bf16x3, 1e-6);
    EXPECT_GT(bf16x3, 10 * bf16x6);
    EXPECT_GT(tf32, 10 * bf16x3);
  }
}

/// [64, 512] · [512, 64] of e4m3, both along K, in steps of 256.
constexpr int longDepth = 512;

std::vector<float> runFp8(const sc::Device &device, sc::Precision precision,
                          const std::vector<sc::float8_e4m3> &a,
                          const std::vector<sc::float8_e4m3> &b) {
  constexpr int step = 256;
  sc::Kernel kernel{"fp8", [=](sc::View<const sc::float8_e4m3, 2> x,
                               sc::View<const sc::float8_e4m3, 2> y, sc::Ptr<float> out) {
                      auto acc = sc::zeros<float>(size, size);
                      for (auto i : sc::range(sc::cdiv(x.extent(1), step)))
                        acc = sc::dot(x.tile(size, step).load(0, i),
                                      sc::trans(y.tile(size, step).load(0, i)), acc, precision);
                      sc::store(out + places(0, size, size), acc);
                    }};
  auto out = device.allocate<float>(size * size);
  kernel.launch(device.stream(), 1, sc::tensor(device.upload(a), {size, longDepth}),
                sc::tensor(device.upload(b), {size, longDepth}), out);
  return out.download();
}

TEST_P(Dot, SumsOfFp8AreAsGoodAsTheySay) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> mantissas(-2, 2);
  std::vector<float> values[2];
  std::vector<sc::float8_e4m3> rounded[2];
  for (int operand = 0; operand < 2; ++operand)
    for (int i = 0; i < size * longDepth; ++i) {
      const float mantissa = mantissas(random);
      rounded[operand].emplace_back(std::ldexp(mantissa, static_cast<int>(random() % 13) - 9));
      values[operand].push_back(static_cast<float>(rounded[operand].back()));
    }
  const std::vector<float> few = runFp8(device, sc::Precision::tf32, rounded[0], rounded[1]),
                           full = runFp8(device, sc::Precision::ieee, rounded[0], rounded[1]);
  double worstOfFew = 0, worstOfFull = 0;
  for (size_t i = 0; i < size; ++i)
    for (size_t j = 0; j < size; ++j) {
      const std::span x = std::span<const float>(values[0]).subspan(i * longDepth, longDepth),
                      y = std::span<const float>(values[1]).subspan(j * longDepth, longDepth);
      double sum = 0, scale = 0;
      for (size_t k = 0; k < longDepth; ++k) {
        sum += static_cast<double>(x[k]) * static_cast<double>(y[k]);
        scale += std::abs(static_cast<double>(x[k]) * static_cast<double>(y[k]));
      }
      const size_t at = i * size + j;
      ASSERT_NEAR(few[at], sum, sc::test::boundOfE4m3Sum(x, y)) << i << " " << j;
      worstOfFew = std::max(worstOfFew, std::abs(static_cast<double>(few[at]) - sum) / scale);
      worstOfFull = std::max(worstOfFull, std::abs(static_cast<double>(full[at]) - sum) / scale);
    }
  EXPECT_LT(worstOfFull, GetParam().starts_with("cuda") ? 0x1p-20 : 6e-7);
  if (GetParam() == "virtual:sm_90a") {
    EXPECT_GT(worstOfFew, 1e-5) << "were they promoted?";
  }
}

TEST_P(Dot, PrecisionsKeepInfinitiesAndNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> a(size * size, 0), b(size * size, 1);
  auto set = [&](int row, int column, float value) {
    a[static_cast<size_t>(row * size + column)] = value;
  };
  // b has columns of 1, of 1 + 2^-20 (which leaves something over when rounded) and of -3.
  for (size_t k = 0; k < size; ++k) {
    b[k * size + 1] = 1 + 0x1p-20f;
    b[k * size + 2] = -3;
    b[k * size + 3] = k == 5 ? 0.0f : 1.0f;
  }
  set(0, 5, infinity);
  set(1, 5, -infinity);
  set(2, 5, std::nanf(""));
  set(3, 5, infinity);
  set(3, 6, -infinity);
  set(4, 5, 3e38f); // finite in all of them
  set(5, 5, 1e-30f);
  for (sc::Precision precision : {sc::Precision::ieee, sc::Precision::tf32, sc::Precision::tf32x3,
                                  sc::Precision::bf16x3, sc::Precision::bf16x6}) {
    SCOPED_TRACE(static_cast<int>(precision));
    const std::vector<float> got = runPrecision(device, precision, a, b);
    auto at = [&](int row, int column) { return got[static_cast<size_t>(row * size + column)]; };
    EXPECT_EQ(at(0, 0), infinity);
    EXPECT_EQ(at(0, 1), infinity);
    EXPECT_EQ(at(0, 2), -infinity);
    EXPECT_TRUE(std::isnan(at(0, 3)));
    EXPECT_EQ(at(1, 0), -infinity);
    EXPECT_EQ(at(1, 2), infinity);
    for (int column : {0, 1, 2, 3}) {
      EXPECT_TRUE(std::isnan(at(2, column))) << column;
    }
    EXPECT_TRUE(std::isnan(at(3, 0)));
    EXPECT_NEAR(at(4, 0), 3e38f, 3e35f);
    EXPECT_NEAR(at(5, 2), -3e-30f, 1e-32f);
    EXPECT_EQ(at(6, 0), 0);
  }
}

} // namespace
