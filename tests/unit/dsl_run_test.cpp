// The language's meaning: each operation compiled and run on the virtual GPU, against C++ on the
// host.
#include "ops/Apply.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <cmath>
#include <cstdlib>
#include <gmock/gmock.h>
#include <limits>
#include <sectile/sectile.h>

using namespace sectile;

namespace {

class LanguageRun : public test::OnDevice {};
SECTILE_INSTANTIATE_ON(LanguageRun, "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942");

constexpr int count = 64;

// Runs operations on x and y, all in one kernel, and gives their results as doubles, one row each.
template <class T, class... Op>
std::vector<std::vector<double>> run(const Device &device, const std::vector<T> &x,
                                     const std::vector<T> &y, Op... op) {
  Kernel kernel{"operations", [=](Ptr<const T> px, Ptr<const T> py, Ptr<double> out) {
                  auto i = arange(0, count);
                  auto a = load(px + i);
                  auto b = load(py + i);
                  int row = 0;
                  (store(out + (count * row++ + i), cast<double>(op(a, b))), ...);
                }};
  auto result = device.allocate<double>(count * sizeof...(Op));
  kernel.launch(device.stream(), 1, device.upload(x), device.upload(y), result);
  const std::vector<double> all = result.download();
  std::vector<std::vector<double>> rows;
  for (size_t row = 0; row < sizeof...(Op); ++row)
    rows.emplace_back(all.begin() + static_cast<long>(row * count),
                      all.begin() + static_cast<long>((row + 1) * count));
  return rows;
}

// Host types that a T computes in.
template <class T> using Host = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

template <class T>
void expectRow(const char *what, const std::vector<double> &got, const std::vector<T> &x,
               const std::vector<T> &y, llvm::function_ref<double(Host<T>, Host<T>)> expected,
               double tolerance = 0) {
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const double want = expected(static_cast<Host<T>>(x[at]), static_cast<Host<T>>(y[at]));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got[at])) << what << " of " << +static_cast<Host<T>>(x[at]) << " and "
                                       << +static_cast<Host<T>>(y[at]) << " is " << got[at];
      continue;
    }
    if (want == got[at])
      continue;
    EXPECT_LE(std::abs(got[at] - want), tolerance * std::max(std::abs(want), 1e-3))
        << what << " of " << +static_cast<Host<T>>(x[at]) << " and " << +static_cast<Host<T>>(y[at])
        << " is " << got[at] << ", not " << want;
  }
}

template <class T> T rounded(double value) { return static_cast<T>(value); }

//===-- Floats
//------------------------------------------------------------------------------------===//

template <class T> void checkFloats(const Device &device) {
  std::vector<T> x, y;
  for (int i = 0; i < count; ++i) {
    x.push_back(static_cast<T>(static_cast<float>(0.125 * (i - 20))));
    y.push_back(static_cast<T>(static_cast<float>(i % 7 == 0 ? -1.5 : 0.25 * (i % 13 + 1))));
  }
  auto rows = run<T>(
      device, x, y, [](auto a, auto b) { return a + b; }, [](auto a, auto b) { return a - b; },
      [](auto a, auto b) { return a * b; }, [](auto a, auto b) { return a / b; },
      [](auto a, auto) { return -a; }, [](auto a, auto) { return abs(a); },
      [](auto a, auto b) { return minimum(a, b); }, [](auto a, auto b) { return maximum(a, b); },
      [](auto a, auto b) { return where(a < b, a, 3); }, [](auto a, auto b) { return a == b; },
      [](auto a, auto b) { return a != b || a > 2; }, [](auto a, auto) { return floor(a); },
      [](auto a, auto) { return ceil(a); }, [](auto a, auto) { return clamp(a, -1, 2); },
      [](auto a, auto) { return rint(a); }, [](auto a, auto) { return round(a); },
      [](auto a, auto) { return a % 0.5; });
  auto to = [](double v) { return static_cast<double>(rounded<T>(v)); };
  int row = 0;
  auto check = [&](const char *what, auto expected, double tolerance = 0) {
    expectRow<T>(what, rows[static_cast<size_t>(row++)], x, y, expected, tolerance);
  };
  const double ulp = static_cast<double>(std::numeric_limits<T>::epsilon());
  check("+", [&](double a, double b) { return to(a + b); });
  check("-", [&](double a, double b) { return to(a - b); });
  check("*", [&](double a, double b) { return to(a * b); });
  check("/", [&](double a, double b) { return to(a / b); }, ulp);
  check("neg", [&](double a, double) { return -a; });
  check("abs", [&](double a, double) { return std::abs(a); });
  check("minimum", [&](double a, double b) { return std::min(a, b); });
  check("maximum", [&](double a, double b) { return std::max(a, b); });
  check("where", [&](double a, double b) { return a < b ? a : 3; });
  check("==", [&](double a, double b) { return a == b; });
  check("||", [&](double a, double b) { return a != b || a > 2; });
  check("floor", [&](double a, double) { return std::floor(a); });
  check("ceil", [&](double a, double) { return std::ceil(a); });
  check("clamp", [&](double a, double) { return std::clamp(a, -1.0, 2.0); });
  check("rint", [&](double a, double) { return std::rint(a); });
  check("round", [&](double a, double) { return std::round(a); });
  check("%", [&](double a, double) { return std::fmod(a, 0.5); });
}

TEST_P(LanguageRun, Floats) {
  checkFloats<float>(device);
  checkFloats<double>(device);
  checkFloats<half>(device);
  checkFloats<bfloat16>(device);
  checkFloats<float8_e4m3>(device);
}

template <class T> void checkFunctions(const Device &device) {
  std::vector<T> x, y;
  for (int i = 0; i < count; ++i) {
    x.push_back(static_cast<T>(static_cast<float>(0.17 * (i + 1))));
    y.push_back(static_cast<T>(static_cast<float>(0.21 * (i - 30))));
  }
  auto rows = run<T>(
      device, x, y, [](auto, auto b) { return exp(b); }, [](auto, auto b) { return exp2(b); },
      [](auto a, auto) { return log(a); }, [](auto a, auto) { return log2(a); },
      [](auto, auto b) { return sin(b); }, [](auto, auto b) { return cos(b); },
      [](auto a, auto) { return sqrt(a); }, [](auto a, auto) { return rsqrt(a); },
      [](auto, auto b) { return tanh(b); }, [](auto, auto b) { return erf(b); },
      [](auto, auto b) { return sigmoid(b); }, [](auto a, auto b) { return fma(a, b, 1); });
  int row = 0;
  const double ulp = static_cast<double>(std::numeric_limits<T>::epsilon());
  const double tolerance = std::max(ulp, 3e-6);
  auto check = [&](const char *what, auto expected) {
    expectRow<T>(what, rows[static_cast<size_t>(row++)], x, y, expected, tolerance);
  };
  check("exp", [](double, double b) { return std::exp(b); });
  check("exp2", [](double, double b) { return std::exp2(b); });
  check("log", [](double a, double) { return std::log(a); });
  check("log2", [](double a, double) { return std::log2(a); });
  check("sin", [](double, double b) { return std::sin(b); });
  check("cos", [](double, double b) { return std::cos(b); });
  check("sqrt", [](double a, double) { return std::sqrt(a); });
  check("rsqrt", [](double a, double) { return 1 / std::sqrt(a); });
  check("tanh", [](double, double b) { return std::tanh(b); });
  check("erf", [](double, double b) { return std::erf(b); });
  check("sigmoid", [](double, double b) { return 1 / (1 + std::exp(-b)); });
  check("fma", [](double a, double b) { return a * b + 1; });
}

TEST_P(LanguageRun, Functions) {
  checkFunctions<float>(device);
  checkFunctions<half>(device);
  checkFunctions<bfloat16>(device);
}

TEST_P(LanguageRun, SignallingNanBesideANumber) {
  std::vector<float> x(count, 1), y(count, 2);
  auto signalling = [](auto like) { return bitcast<float>(cast<int>(like) * 0x7fa00000); };
  auto rows = run<float>(
      device, x, y, [&](auto a, auto) { return minimum(signalling(a), a); },
      [&](auto a, auto) { return maximum(minimum(signalling(a), a), 0.5f); });
  for (const auto &row : rows)
    expectRow<float>("the number", row, x, y, [](float, float) { return 1.0f; });
}

TEST_P(LanguageRun, NanAndInfinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = INFINITY;
  std::vector<float> x(count, 1), y(count, 2);
  x[0] = nan, x[1] = inf, x[2] = -inf, y[3] = nan, x[4] = y[4] = nan;
  auto rows = run<float>(
      device, x, y, [](auto a, auto b) { return maximum(a, b); },
      [](auto a, auto b) { return minimum(a, b); },
      [](auto a, auto b) { return maximum(a, b, Nan::propagate); },
      [](auto a, auto b) { return a < b; }, [](auto a, auto b) { return a != b; },
      [](auto a, auto) { return exp(a); }, [](auto a, auto) { return sigmoid(a); },
      [](auto a, auto) { return a == a; });
  expectRow<float>("maximum", rows[0], x, y, [](float a, float b) { return std::fmax(a, b); });
  expectRow<float>("minimum", rows[1], x, y, [](float a, float b) { return std::fmin(a, b); });
  expectRow<float>("propagating maximum", rows[2], x, y, [&](float a, float b) {
    return std::isnan(a) || std::isnan(b) ? nan : std::max(a, b);
  });
  expectRow<float>("<", rows[3], x, y, [](float a, float b) { return a < b; });
  expectRow<float>("!=", rows[4], x, y, [](float a, float b) { return a != b; });
  expectRow<float>("exp", rows[5], x, y, [](float a, float) { return std::exp(a); }, 1e-6);
  expectRow<float>(
      "sigmoid", rows[6], x, y, [](float a, float) { return 1 / (1 + std::exp(-a)); }, 1e-6);
  expectRow<float>("==", rows[7], x, y, [](float a, float) { return a == a; });
}

//===-- Integers
//----------------------------------------------------------------------------------===//

template <class T> void checkIntegers(const Device &device) {
  std::vector<T> x, y;
  const T extremes[] = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T(0), T(1)};
  for (int i = 0; i < count; ++i) {
    x.push_back(i < 4 ? extremes[i] : static_cast<T>(37 * i - 900));
    y.push_back(static_cast<T>(i % 5 == 0                          ? 3
                               : std::is_signed_v<T> && i % 3 == 0 ? -7
                                                                   : i % 11 + 2));
  }
  auto rows = run<T>(
      device, x, y, [](auto a, auto b) { return a + b; }, [](auto a, auto b) { return a - b; },
      [](auto a, auto b) { return a * b; }, [](auto a, auto b) { return a / b; },
      [](auto a, auto b) { return a % b; }, [](auto a, auto b) { return a & b; },
      [](auto a, auto b) { return a | b; }, [](auto a, auto b) { return a ^ b; },
      [](auto a, auto) { return ~a; }, [](auto a, auto) { return -a; },
      [](auto a, auto) { return a << 2; }, [](auto a, auto) { return a >> 3; },
      [](auto a, auto b) { return a < b; }, [](auto a, auto b) { return a >= b; },
      [](auto a, auto b) { return minimum(a, b); }, [](auto a, auto b) { return maximum(a, b); },
      [](auto a, auto b) { return where(!(a > b) && a != 5, a, b); });
  int row = 0;
  auto check = [&](const char *what, auto expected) {
    expectRow<T>(what, rows[static_cast<size_t>(row++)], x, y,
                 [&](T a, T b) { return static_cast<double>(static_cast<T>(expected(a, b))); });
  };
  using U = std::uint64_t; // wraps, and its low bits are those of any T
  check("+", [](T a, T b) { return U(a) + U(b); });
  check("-", [](T a, T b) { return U(a) - U(b); });
  check("*", [](T a, T b) { return U(a) * U(b); });
  check("/", [](T a, T b) { return a / b; });
  check("%", [](T a, T b) { return a % b; });
  check("&", [](T a, T b) { return a & b; });
  check("|", [](T a, T b) { return a | b; });
  check("^", [](T a, T b) { return a ^ b; });
  check("~", [](T a, T) { return ~a; });
  check("neg", [](T a, T) { return -U(a); });
  check("<<", [](T a, T) { return U(a) << 2; });
  check(">>", [](T a, T) { return a >> 3; });
  check("<", [](T a, T b) { return a < b; });
  check(">=", [](T a, T b) { return a >= b; });
  check("minimum", [](T a, T b) { return std::min(a, b); });
  check("maximum", [](T a, T b) { return std::max(a, b); });
  check("where", [](T a, T b) { return !(a > b) && a != 5 ? a : b; });
}

TEST_P(LanguageRun, Integers) {
  checkIntegers<std::int8_t>(device);
  checkIntegers<std::int16_t>(device);
  checkIntegers<std::int32_t>(device);
  checkIntegers<std::int64_t>(device);
  checkIntegers<std::uint8_t>(device);
  checkIntegers<std::uint16_t>(device);
  checkIntegers<std::uint32_t>(device);
  checkIntegers<std::uint64_t>(device);
}

//===-- Casts
//-------------------------------------------------------------------------------------===//

template <class A, class B> double converted(A value) {
  using Source = Host<A>;
  const auto source = static_cast<Source>(value);
  if constexpr (std::same_as<B, bool>)
    return source != 0;
  else
    return static_cast<double>(static_cast<Host<B>>(static_cast<B>(source)));
}

template <class A, class... B> void checkCasts(const Device &device) {
  std::vector<A> x;
  for (int i = 0; i < count; ++i) // what every type can hold, and fractions where A has them
    x.push_back(static_cast<A>(std::same_as<A, bool> ? i % 2 : static_cast<Host<A>>(i * 0.375)));
  auto rows = run<A>(device, x, x, [](auto a, auto) { return cast<B>(a); }...);
  size_t row = 0;
  (expectRow<A>(name_of(dtype_of<B>).data(), rows[row++], x, x,
                [](Host<A> a, Host<A>) { return converted<A, B>(static_cast<A>(a)); }),
   ...);
}
template <class... A> struct Types {
  template <class X> static void from(const Device &device) { checkCasts<X, A...>(device); }
  static void all(const Device &device) { (from<A>(device), ...); }
};

TEST_P(LanguageRun, EveryCast) {
  Types<bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
        std::uint32_t, std::uint64_t, float8_e4m3, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz,
        float8_e4m3b11fnuz, half, bfloat16, float, double>::all(device);
}

//===-- Shapes and reductions
//---------------------------------------------------------------------===//

TEST_P(LanguageRun, Shapes) {
  Kernel kernel{"shapes", [](Ptr<const float> in, Ptr<float> out) {
                  auto flat = [](int n) { return arange(0, n); };
                  auto x = reshape(load(in + flat(128)), 2, 4, 16);
                  store(out + flat(128), reshape(permute(x, {2, 0, 1}), 128));
                  store(out + 128 + flat(128), reshape(trans(x), 128));
                  auto row = load(in + flat(8)), column = load(in + flat(4));
                  store(out + 256 + flat(32), reshape(expand(column, 1) * 10 + row, 32));
                }};
  std::vector<float> in(128);
  for (int i = 0; i < 128; ++i)
    in[static_cast<size_t>(i)] = static_cast<float>(i);
  auto out = device.allocate<float>(288);
  kernel.launch(device.stream(), 1, device.upload(in), out);
  const std::vector<float> got = out.download();
  size_t at = 0;
  for (int k = 0; k < 16; ++k)
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 4; ++j)
        ASSERT_EQ(got[at++], static_cast<float>(i * 64 + j * 16 + k));
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 16; ++k)
      for (int j = 0; j < 4; ++j)
        ASSERT_EQ(got[at++], static_cast<float>(i * 64 + j * 16 + k));
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 8; ++j)
      ASSERT_EQ(got[at++], static_cast<float>(10 * i + j));
}

TEST_P(LanguageRun, Reductions) {
  Kernel kernel{
      "reductions", [](Ptr<const float> in, Ptr<float> out) {
        auto r = arange(0, 8), c = arange(0, 32);
        auto x = load(in + expand(r, 1) * 32 + c);
        store(out + r, sum(x, 1));
        store(out + 8 + c, max(x, 0));
        store(out + 40 + r, cast<float>(argmin(x, -1)));
        store(out + 48, sum(x));
        store(out + 49, cast<float>(any(x > 200)));
        store(out + 50, cast<float>(all(x > -200)));
        store(out + 51, cast<float>(sum(x > 0)));
        auto [largest, at] =
            reduce(std::tuple(x, broadcast_to(c, 8, 32)), 1, [](Float a, Int i, Float b, Int j) {
              auto left = a > b || (a == b && i < j);
              return std::tuple(where(left, a, b), where(left, i, j));
            });
        store(out + 52 + r, largest);
        store(out + 60 + r, cast<float>(at));
        store(out + 68, reduce(load(in + c), 0, [](auto a, auto b) { return minimum(a, b) + 0; }));
      }};
  float x[8][32];
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 32; ++j)
      x[i][j] = static_cast<float>((i * 37 + j * 53) % 41 - 20);
  auto out = device.allocate<float>(69);
  kernel.launch(device.stream(), 1, device.upload(std::vector<float>(&x[0][0], &x[0][0] + 256)),
                out);
  const std::vector<float> got = out.download();
  float all = 0;
  int positive = 0;
  for (int i = 0; i < 8; ++i) {
    const auto row = static_cast<size_t>(i);
    float total = 0;
    for (float v : x[i]) {
      total += v;
      positive += v > 0;
    }
    all += total;
    EXPECT_EQ(got[row], total);
    EXPECT_EQ(got[40 + row], static_cast<float>(std::min_element(x[i], x[i] + 32) - x[i]));
    EXPECT_EQ(got[52 + row], *std::max_element(x[i], x[i] + 32));
    EXPECT_EQ(got[60 + row], static_cast<float>(std::max_element(x[i], x[i] + 32) - x[i]));
  }
  for (size_t j = 0; j < 32; ++j) {
    float largest = x[0][j];
    for (auto &row : x)
      largest = std::max(largest, row[j]);
    EXPECT_EQ(got[8 + j], largest);
  }
  EXPECT_EQ(got[48], all);
  EXPECT_EQ(got[49], 0);
  EXPECT_EQ(got[50], 1);
  EXPECT_EQ(got[51], static_cast<float>(positive));
  EXPECT_EQ(got[68], *std::min_element(x[0], x[0] + 32));
}

//===-- Control flow
//------------------------------------------------------------------------------===//

TEST_P(LanguageRun, ControlFlow) {
  // Each against the same C++ on the host, for many n, zero and below included.
  Kernel kernel{"control", [](Ptr<std::int32_t> out, Int n) {
                  Int a = 0, b = 1, steps = 0, value = n, nested = 0, odd = 0, chosen = 5;
                  for ([[maybe_unused]] auto i : range(n)) {
                    auto next = a + b;
                    a = b;
                    b = next % 1000;
                  }
                  loop_while([&] { return value > 1; },
                             [&] {
                               when(
                                   value % 2 == 0, [&] { value = value / 2; },
                                   [&] { value = value * 3 + 1; });
                               steps += 1;
                             });
                  for (auto i : range(n))
                    for (auto j : range(i, n, 3))
                      when((i + j) % 2 == 0, [&] { nested += j; }, [&] { odd -= i; });
                  when(n > 3, [&] {
                    chosen = 7;
                    when(n > 6, [&] { chosen = 8; });
                  });
                  for (auto i : range(2, n + 2, 4)) {
                    for (int unrolled = 0; unrolled < 2; ++unrolled)
                      odd += i * unrolled;
                  }
                  Int results[] = {a, b, steps, nested, odd, chosen};
                  for (int i = 0; i < 6; ++i)
                    store(out + i, results[i]);
                }};
  auto out = device.allocate<std::int32_t>(6);
  for (int n : {-3, 0, 1, 2, 5, 7, 12}) {
    kernel.launch(device.stream(), 1, out, n);
    int a = 0, b = 1, steps = 0, value = n, nested = 0, odd = 0;
    for (int i = 0; i < n; ++i) {
      int next = a + b;
      a = b;
      b = next % 1000;
    }
    for (; value > 1; ++steps)
      value = value % 2 == 0 ? value / 2 : value * 3 + 1;
    for (int i = 0; i < n; ++i)
      for (int j = i; j < n; j += 3)
        ((i + j) % 2 == 0 ? nested += j : odd -= i);
    for (int i = 2; i < n + 2; i += 4)
      odd += i;
    EXPECT_THAT(out.download(), testing::ElementsAre(a, b, steps, nested, odd,
                                                     n > 6   ? 8
                                                     : n > 3 ? 7
                                                             : 5))
        << n;
  }
}

//===-- Memory
//------------------------------------------------------------------------------------===//

TEST_P(LanguageRun, MasksOthersAndBools) {
  Kernel kernel{"masks",
                [](Ptr<const half> x, Ptr<const bool> flags, Ptr<half> y, Ptr<bool> z, Int n) {
                  auto i = arange(0, 32);
                  auto flag = load(flags + i, i < n, true);
                  store(y + i, load(x + i, flag && i < n, -1), i < n);
                  store(z + i, !flag, i < n);
                }};
  std::vector<half> x;
  std::vector<bool> flags;
  for (int i = 0; i < 20; ++i) {
    x.push_back(static_cast<half>(i * 0.5f));
    flags.push_back(i % 3 == 0);
  }
  auto y = device.allocate<half>(20);
  auto z = device.allocate<bool>(20);
  kernel.launch(device.stream(), 1, device.upload(x), device.upload(flags), y, z, 20);
  auto gotY = y.download();
  auto gotZ = z.download();
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(gotY[i], flags[i] ? static_cast<float>(x[i]) : -1.0f) << i;
    EXPECT_EQ(gotZ[i], !flags[i]) << i;
  }
}

//===-- Views
//-------------------------------------------------------------------------------------===//

TEST_P(LanguageRun, PartsOfViews) {
  // Every block of 8 × 16 below lies across some edge of its view; what it holds is stored whole.
  Kernel kernel{"parts", [](View<const int, 4> v, Ptr<int> out) {
                  auto place = expand(arange(0, 8), 1) * 16 + arange(0, 16);
                  int blocks = 0;
                  auto keep = [&](auto tile) { store(out + (128 * blocks++ + place), tile); };
                  auto [t0, t1] = v.at(1, program_id(0) + 2).tiles(8, 16);
                  keep(v.at(1, 2).tile(8, 16).load(t0 - 1, t1 - 1));
                  keep(v.at(1, 2).transposed().tile(8, 16).padding(-7).load(1, 0));
                  keep(v.fix(2, 5).at(0).tile(8, 16).padding(-1).load_at(1, 3));
                  keep(v.at(0, 1).slice(0, 3, 4).slice(1, 2, 9).tile(8, 16).load(0, 0));
                  keep(v.permuted({3, 1, 0, 2}).at(2, 1).tile(8, 16).load(0, 0));
                  keep(v.at(0, 0).tile(8, 16).padding(99).load_at(-3, -2));
                  const int last = blocks++;
                  for (auto i : range(v.extent(0)))
                    store(out + (128 * last + place), v.at(i).fix(0, i).tile(8, 16).load(0, 0));
                }};
  constexpr int a = 2, b = 3, c = 11, d = 21;
  std::vector<int> values;
  for (int i = 0; i < a * b * c * d; ++i)
    values.push_back(1000 + i);
  auto v = device.upload(values);
  auto out = device.allocate<int>(7 * 128);
  kernel.launch(device.stream(), 1, tensor(v, {a, b, c, d}), out);
  const std::vector<int> got = out.download();
  auto at = [&](int i, int j, int k, int l) {
    return values[static_cast<size_t>(((i * b + j) * c + k) * d + l)];
  };
  auto inside = [](int i, int extent) { return i >= 0 && i < extent; };
  auto check = [&](int block, auto expected) {
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 16; ++j)
        ASSERT_EQ(got[static_cast<size_t>(128 * block + 16 * i + j)], expected(i, j))
            << "block " << block << ", element " << i << ", " << j;
  };
  check(0, [&](int i, int j) {
    return inside(i + 8, c) && inside(j + 16, d) ? at(1, 2, i + 8, j + 16) : 0;
  });
  check(1,
        [&](int i, int j) { return inside(i + 8, d) && inside(j, c) ? at(1, 2, j, i + 8) : -7; });
  check(2, [&](int i, int j) {
    return inside(i + 1, b) && inside(j + 3, d) ? at(0, i + 1, 5, j + 3) : -1;
  });
  check(3, [&](int i, int j) { return i < 4 && j < 9 ? at(0, 1, i + 3, j + 2) : 0; });
  check(4, [&](int i, int j) { return inside(i, a) && inside(j, c) ? at(i, 1, j, 2) : 0; });
  check(5, [&](int i, int j) {
    return inside(i - 3, c) && inside(j - 2, d) ? at(0, 0, i - 3, j - 2) : 99;
  });
  check(6, [&](int i, int j) { return inside(i, c) && inside(j, d) ? at(1, 1, i, j) : 0; });
}

TEST_P(LanguageRun, StoresToViewsStayInside) {
  Kernel kernel{"stores", [](View<half, 2> v, Float x) {
                  v.slice(1, 2, 3).tile(4, 8).store(0, 0, x + cast<float>(arange(0, 8)));
                  v.transposed().tile(4, 4).store_at(6, 3, 9);
                }};
  auto v = device.allocate<half>(5 * 7);
  v.fill(half(-1.0f));
  kernel.launch(device.stream(), 1, tensor(v, {5, 7}), 4.0f);
  const std::vector<half> got = v.download();
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 7; ++j)
      EXPECT_EQ(got[static_cast<size_t>(7 * i + j)], j == 6 && i >= 3           ? 9.0f
                                                     : i < 4 && j >= 2 && j < 5 ? 2.0f + j
                                                                                : -1.0f)
          << i << ", " << j;
}

TEST_P(LanguageRun, ViewsOfPointers) {
  Kernel kernel{"diagonal", [](Ptr<const int> in, Ptr<int> out, Int n) {
                  View<const int, 1> diagonal(in, {n}, {n + 1});
                  store(out + arange(0, 8), diagonal.tile(8).load(0));
                }};
  std::vector<int> values(36);
  for (int i = 0; i < 36; ++i)
    values[static_cast<size_t>(i)] = i;
  auto out = device.allocate<int>(8);
  kernel.launch(device.stream(), 1, device.upload(values), out, 6);
  EXPECT_THAT(out.download(), testing::ElementsAre(0, 7, 14, 21, 28, 35, 0, 0));
}

} // namespace
