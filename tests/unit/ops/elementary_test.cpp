// Elementary functions of floats on every device, against C's in higher precision, in units of the
// last place: docs/compiler.md states the bounds.
#include "Apply.h"
#include <cmath>
#include <random>
#include <sectile/approximate.h>

using namespace sectile;
using sectile::test::apply;

SECTILE_ON_DEVICES(Elementary);

namespace {

using Wide = long double;

// Numbers of every magnitude, near 0 and 1, special ones, and random bits.
template <class T> std::vector<T> samples(double most) {
  const T inf = std::numeric_limits<T>::infinity();
  std::vector<T> values = {T(0),
                           T(-0.0),
                           T(1),
                           T(-1),
                           T(0.5),
                           T(2),
                           T(-0.5),
                           T(10),
                           inf,
                           -inf,
                           std::numeric_limits<T>::quiet_NaN(),
                           std::numeric_limits<T>::max(),
                           std::numeric_limits<T>::lowest(),
                           std::numeric_limits<T>::min(),
                           std::numeric_limits<T>::denorm_min(),
                           T(-3),
                           T(3),
                           T(0.25)};
  for (int i = -2000; i <= 2000; ++i)
    values.push_back(static_cast<T>(most * i / 2000));
  for (int i = -600; i <= 600; ++i) {
    values.push_back(static_cast<T>(i / 512.0));
    values.push_back(static_cast<T>(1 + i * 1e-3));
    values.push_back(static_cast<T>(std::exp2(i / 8.0)));
    values.push_back(static_cast<T>(-std::exp2(i / 8.0)));
  }
  return values;
}

// How many units of T's last place, at least those of the smallest normal number, two numbers are
// apart.
template <class T> double unitsApart(T got, Wide want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(rounded))
    return std::isnan(got) ? 0 : INFINITY;
  if (got == rounded)
    return 0;
  if (std::isnan(got) || std::isinf(got) != std::isinf(rounded)) {
    // The largest number and infinity are neighbours.
    const bool close =
        !std::isnan(got) && std::signbit(got) == std::signbit(rounded) &&
        std::min(std::abs(got), std::abs(rounded)) > std::numeric_limits<T>::max() * T(1 - 1e-6);
    return close ? 1 : INFINITY;
  }
  const int exponent = std::max(std::ilogb(rounded), std::numeric_limits<T>::min_exponent - 1);
  const Wide unit = std::ldexp(Wide(1), exponent - std::numeric_limits<T>::digits + 1);
  return static_cast<double>(std::abs(static_cast<Wide>(got) - want) / unit);
}

template <class T, class F, class G>
void check(const Device &device, const char *name, double bound, double most, F function,
           G reference) {
  const std::vector<T> x = samples<T>(most);
  const auto got = apply<T>(device, function, x);
  double worst = 0;
  T where = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double apart = unitsApart(got[i], static_cast<Wide>(reference(static_cast<Wide>(x[i]))));
    if (!(apart <= worst))
      worst = apart, where = x[i];
    if (got[i] == 0 && x[i] == 0) {
      EXPECT_EQ(std::signbit(got[i]),
                std::signbit(static_cast<T>(reference(static_cast<Wide>(x[i])))))
          << name << " of a zero";
    }
  }
  EXPECT_LE(worst, bound) << name << " at " << where;
  if (std::getenv("SECTILE_PRINT_ERRORS"))
    std::printf("%-10s %s %.2f at %g\n", name, std::same_as<T, float> ? "f32" : "f64", worst,
                static_cast<double>(where));
}

#define CHECK(name, bound32, bound64, most)                                                        \
  check<float>(                                                                                    \
      device, #name, bound32, most, [](auto x) { return sectile::name(x); },                       \
      [](Wide x) { return std::name(x); });                                                        \
  check<double>(                                                                                   \
      device, #name, bound64, most, [](auto x) { return sectile::name(x); },                       \
      [](Wide x) { return std::name(x); })

TEST_P(Elementary, Trigonometric) {
  CHECK(sin, 3, 4, 1000);
  CHECK(cos, 3, 4, 1000);
  CHECK(tan, 4, 4, 1000);
  CHECK(asin, 3, 3, 1);
  CHECK(acos, 3, 3, 1);
  CHECK(atan, 3, 3, 50);
}

// Angles of every size: each power of two, on both sides of where the reduction changes, and those
// that are nearest to a multiple of a quarter turn.
template <class T> std::vector<T> largeAngles() {
  std::vector<T> angles = {T(48038.5), T(48039), T(48040), T(0x1p30), T(0x1.0000001p30)};
  if constexpr (std::same_as<T, double>)
    angles.insert(angles.end(), {0x1.6ac5b262ca1ffp849, 0x1.4c6f7ad81b9c6p+200,
                                 6381956970095103 * 0x1p797, 1e22});
  else
    angles.insert(angles.end(), {16367173 * 0x1p72f, 0x1.f9cbe2p+30f, 0x1.6f04bap+20f, 1e22f});
  std::mt19937_64 random(11);
  for (int exponent = 10; exponent < std::numeric_limits<T>::max_exponent; ++exponent)
    for (int i = 0; i < 8; ++i)
      angles.push_back(std::ldexp(
          T(1) + static_cast<T>(static_cast<double>(random() >> 11) * 0x1p-53), exponent));
  const std::size_t size = angles.size();
  for (std::size_t i = 0; i < size; ++i)
    angles.push_back(-angles[i]);
  return angles;
}

template <class T> void checkLargeAngles(const Device &device) {
  const std::vector<T> x = largeAngles<T>();
  const auto got = apply<T>(device, [](auto v) { return std::array{sin(v), cos(v), tan(v)}; }, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isinf(x[i]))
      continue;
    const auto wide = static_cast<Wide>(x[i]);
    EXPECT_LE(unitsApart(got[i], std::sin(wide)), 4) << "sin " << x[i];
    EXPECT_LE(unitsApart(got[x.size() + i], std::cos(wide)), 4) << "cos " << x[i];
    EXPECT_LE(unitsApart(got[2 * x.size() + i], std::tan(wide)), 4) << "tan " << x[i];
  }
}

TEST_P(Elementary, AnglesOfEverySize) {
  checkLargeAngles<float>(device);
  checkLargeAngles<double>(device);
}

TEST_P(Elementary, Hyperbolic) {
  CHECK(sinh, 6, 4, 90);
  CHECK(cosh, 6, 4, 90);
  CHECK(asinh, 4, 4, 1000);
  CHECK(acosh, 4, 4, 1000);
  CHECK(atanh, 4, 4, 1);
}

TEST_P(Elementary, ExponentialsAndRoots) {
  // Of f32, results below the smallest normal number may be 0.
  constexpr float least = std::numeric_limits<float>::min();
  check<float>(
      device, "exp2", 2, 140,
      [](auto x) {
        auto power = exp2(x);
        return where(power < least, 0, power);
      },
      [](Wide x) { return std::exp2(x) < Wide(least) ? 0 : std::exp2(x); });
  check<double>(
      device, "exp2", 2, 1070, [](auto x) { return exp2(x); }, [](Wide x) { return std::exp2(x); });
  CHECK(expm1, 4, 4, 90);
  CHECK(log1p, 4, 4, 90);
  CHECK(log10, 4, 4, 1000);
  CHECK(cbrt, 2, 4, 1000);
  CHECK(trunc, 0, 0, 1000);
  check<float>(
      device, "exp10", 4, 40, [](auto x) { return exp10(x); },
      [](Wide x) { return std::pow(Wide(10), x); });
  check<double>(
      device, "exp10", 2, 320, [](auto x) { return exp10(x); },
      [](Wide x) { return std::pow(Wide(10), x); });
}

template <class T> std::pair<std::vector<T>, std::vector<T>> pairs() {
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T special[] = {T(0),
                       T(-0.0),
                       T(1),
                       T(-1),
                       T(2),
                       T(-2),
                       T(3),
                       T(-3),
                       inf,
                       -inf,
                       nan,
                       T(0.5),
                       T(-0.5),
                       T(1.5),
                       T(0x1p24),
                       T(0x1p53),
                       std::numeric_limits<T>::max(),
                       std::numeric_limits<T>::min(),
                       std::numeric_limits<T>::denorm_min(),
                       -std::numeric_limits<T>::denorm_min()};
  std::vector<T> x, y;
  for (T a : special)
    for (T b : special)
      x.push_back(a), y.push_back(b);
  std::mt19937_64 random(17);
  auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
  };
  for (int i = 0; i < 4000; ++i) {
    x.push_back(static_cast<T>(std::exp2(uniform(-30, 30)) * (i % 5 ? 1 : -1)));
    y.push_back(static_cast<T>(i % 3 ? uniform(-40, 40) : std::trunc(uniform(-20, 20))));
    x.push_back(static_cast<T>(uniform(0.9, 1.1)));
    y.push_back(static_cast<T>(uniform(-1000, 1000)));
    x.push_back(static_cast<T>(std::exp2(uniform(-100, 100))));
    y.push_back(static_cast<T>(std::exp2(uniform(-100, 100)) * (i % 2 ? 1 : -1)));
  }
  return {x, y};
}

template <class T, class F, class G>
void checkPairs(const Device &device, const char *name, double bound, F function, G reference) {
  const auto [x, y] = pairs<T>();
  const auto got = apply<T>(device, function, x, y);
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const Wide want = reference(static_cast<Wide>(x[i]), static_cast<Wide>(y[i]));
    const double apart = unitsApart(got[i], want);
    if (!(apart <= worst))
      worst = apart, where = i;
    if (!std::isnan(want)) {
      EXPECT_EQ(std::signbit(got[i]), std::signbit(static_cast<T>(want)))
          << name << " of " << x[i] << " and " << y[i];
    }
  }
  EXPECT_LE(worst, bound) << name << " of " << x[where] << " and " << y[where] << " is "
                          << got[where];
  if (std::getenv("SECTILE_PRINT_ERRORS"))
    std::printf("%-10s %s %.2f at %g %g\n", name, std::same_as<T, float> ? "f32" : "f64", worst,
                static_cast<double>(x[where]), static_cast<double>(y[where]));
}

#define CHECK_PAIRS(name, bound32, bound64)                                                        \
  checkPairs<float>(                                                                               \
      device, #name, bound32, [](auto x, auto y) { return sectile::name(x, y); },                  \
      [](Wide x, Wide y) { return std::name(x, y); });                                             \
  checkPairs<double>(                                                                              \
      device, #name, bound64, [](auto x, auto y) { return sectile::name(x, y); },                  \
      [](Wide x, Wide y) { return std::name(x, y); })

TEST_P(Elementary, Approximations) {
  constexpr float least = std::numeric_limits<float>::min();
  const std::vector<float> x = samples<float>(100);
  const auto powers = apply<float>(device, [](auto v) { return fast_exp(v); }, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const Wide want = std::exp(static_cast<Wide>(x[i]));
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(powers[i]));
      continue;
    }
    if (want < least) {
      EXPECT_LE(std::abs(powers[i]), least) << x[i];
      continue;
    }
    const double bound = std::isinf(x[i]) ? 0 : 2 + 1.5 * std::abs(x[i]);
    const bool overflows = want > std::numeric_limits<float>::max() * (1 - Wide(1e-5));
    if (!(overflows && std::isinf(powers[i]))) {
      EXPECT_LE(unitsApart(powers[i], want), bound) << x[i];
    }
  }
  const auto [a, b] = pairs<float>();
  const auto quotients =
      apply<float>(device, [](auto v, auto w) { return fast_divide(v, w); }, a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const float one = std::abs(1 / b[i]);
    if (std::isnan(a[i]) || std::isnan(b[i])) {
      EXPECT_TRUE(std::isnan(quotients[i])) << a[i] << " / " << b[i];
    } else if (std::isfinite(b[i]) && std::isnormal(one)) {
      EXPECT_LE(unitsApart(quotients[i], static_cast<Wide>(a[i]) / b[i]), 3)
          << a[i] << " / " << b[i];
    }
  }
  EXPECT_EQ(
      apply<float>(
          device, [](auto v) { return fast_divide(1, v); }, std::vector<float>{INFINITY, 4})[0],
      0);
}

TEST_P(Elementary, Powers) { CHECK_PAIRS(pow, 4, 2); }
TEST_P(Elementary, Angles) { CHECK_PAIRS(atan2, 3, 3); }
TEST_P(Elementary, Signs) { CHECK_PAIRS(copysign, 0, 0); }
TEST_P(Elementary, RemaindersAreExact) {
  CHECK_PAIRS(fmod, 0, 0);
  CHECK_PAIRS(remainder, 0, 0);
  checkPairs<float>(
      device, "%", 0, [](auto x, auto y) { return x % y; },
      [](Wide x, Wide y) { return std::fmod(x, y); });
}

template <class T> void checkLdexp(const Device &device) {
  const std::vector<T> x = samples<T>(100);
  std::vector<std::int32_t> n;
  std::mt19937 random(23);
  for (size_t i = 0; i < x.size(); ++i) {
    const std::int32_t extremes[] = {0, 1, -1, INT32_MAX, INT32_MIN, 127, -126, 1023, -1022};
    n.push_back(i % 7 == 0 ? extremes[random() % std::size(extremes)]
                           : static_cast<std::int32_t>(random() % 4400) - 2200);
  }
  const auto got = apply<T>(device, [](auto a, auto e) { return ldexp(a, e); }, x, n);
  for (size_t i = 0; i < x.size(); ++i) {
    const T want = std::ldexp(x[i], n[i]);
    ASSERT_TRUE(got[i] == want || (std::isnan(got[i]) && std::isnan(want)))
        << x[i] << " times 2^" << n[i] << " is " << got[i] << ", not " << want;
  }
}

TEST_P(Elementary, Ldexp) {
  checkLdexp<float>(device);
  checkLdexp<double>(device);
}

template <class T> void checkTests(const Device &device) {
  const auto x = samples<float>(10);
  std::vector<T> values;
  for (float v : x)
    values.push_back(static_cast<T>(v));
  const auto got = apply<std::uint8_t>(
      device, [](auto a) { return std::array{isnan(a), isinf(a), isfinite(a)}; }, values);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto v = static_cast<float>(values[i]);
    ASSERT_EQ(got[i], std::isnan(v)) << v;
    ASSERT_EQ(got[values.size() + i], std::isinf(v)) << v;
    ASSERT_EQ(got[2 * values.size() + i], std::isfinite(v)) << v;
  }
}

TEST_P(Elementary, KindsOfNumbers) {
  checkTests<float>(device);
  checkTests<half>(device);
  checkTests<bfloat16>(device);
  checkTests<float8_e4m3>(device);
  checkTests<float8_e5m2fnuz>(device);
}

// Below 32 bits a function is that of float32, rounded once.
template <class T> void checkNarrow(const Device &device) {
  std::vector<T> x;
  for (float v : samples<float>(8))
    x.push_back(static_cast<T>(v));
  const auto got = apply<T>(
      device, [](auto a) { return std::array{asin(a), atan2(a, 2), pow(abs(a), a), cbrt(a)}; }, x);
  auto wide = [&](auto function, size_t row) {
    for (size_t i = 0; i < x.size(); ++i) {
      const auto want = static_cast<float>(T(static_cast<float>(function(Wide(float(x[i]))))));
      const auto have = static_cast<float>(got[row * x.size() + i]);
      ASSERT_TRUE(have == want || (std::isnan(have) && std::isnan(want)) ||
                  std::abs(have - want) <=
                      std::abs(want) * static_cast<float>(std::numeric_limits<T>::epsilon()))
          << row << " of " << static_cast<float>(x[i]) << ": " << have << ", not " << want;
    }
  };
  wide([](Wide v) { return std::asin(v); }, 0);
  wide([](Wide v) { return std::atan2(v, Wide(2)); }, 1);
  wide([](Wide v) { return std::pow(std::abs(v), v); }, 2);
  wide([](Wide v) { return std::cbrt(v); }, 3);
}

TEST_P(Elementary, NarrowTypes) {
  checkNarrow<half>(device);
  checkNarrow<bfloat16>(device);
}

// The chips' own code generators know what the virtual GPU's host does not ask of them.
template <class T> void checkCode() {
  Kernel kernel{"everything", [](Ptr<const T> in, Ptr<T> out, Ptr<std::int32_t> bits) {
                  auto i = arange(0, 128);
                  auto x = load(in + i), y = load(in + (i + 128));
                  int row = 0;
                  for (const auto &f : {tan(x),      asin(x),
                                        acos(x),     atan(x),
                                        sinh(x),     cosh(x),
                                        asinh(x),    acosh(x),
                                        atanh(x),    expm1(x),
                                        log1p(x),    log10(x),
                                        exp10(x),    cbrt(x),
                                        trunc(x),    pow(x, y),
                                        atan2(x, y), copysign(x, y),
                                        fmod(x, y),  remainder(x, y),
                                        ldexp(x, i), where(isfinite(x), x, y)})
                    store(out + (128 * row++ + i), f);
                  auto n = load(bits + i);
                  auto wide = cast<std::int64_t>(n);
                  store(bits + i, mulhi(n, n) + popcount(n) + clz(n) + ctz(n) + brev(n) +
                                      cast<int>(mulhi(wide, wide)) + ffs(wide));
                }};
  const T *in = nullptr;
  T *out = nullptr;
  std::int32_t *bits = nullptr;
  for (const char *target : {"sm_80", "sm_90a"})
    EXPECT_NE(kernel.emit(target, "ptx", in, out, bits).find(".entry"), std::string::npos);
  EXPECT_FALSE(kernel.emit("gfx942", "hsaco", in, out, bits).empty());
}

TEST(ElementaryCode, OfChips) {
  checkCode<float>();
  checkCode<double>();
  checkCode<half>();
  checkCode<bfloat16>();
}

} // namespace

// Where an angle has no digits left below 2π its sine is any, but still one.
template <class T> void checkHugeAngles(const Device &device, const std::vector<T> &x) {
  const auto got = apply<T>(device, [](auto a) { return std::array{sin(a), cos(a)}; }, x);
  for (T value : got)
    EXPECT_LE(std::fabs(value), T(1.001)) << value;
}
TEST_P(Elementary, SineOfHugeAngles) {
  checkHugeAngles<float>(device, {1e18f, -1e25f, 3e38f, -3e38f});
  checkHugeAngles<double>(device, {1e18, -1e25, 3e150, -1.7e308});
}
