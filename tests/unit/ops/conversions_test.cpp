// Conversions between floats on every device, rounding and saturating as told, against LLVM's
// APFloat; bools as bits of integers; addresses as integers.
#include "Apply.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APSInt.h"
#include <cmath>
#include <gmock/gmock.h>
#include <random>

using namespace sectile;
using llvm::APFloat;
using sectile::test::apply;

SECTILE_ON_DEVICES(Conversions);

namespace {

template <class T> const llvm::fltSemantics &semanticsOf() {
  if constexpr (std::same_as<T, float8_e4m3>)
    return APFloat::Float8E4M3FN();
  else if constexpr (std::same_as<T, float8_e5m2>)
    return APFloat::Float8E5M2();
  else if constexpr (std::same_as<T, float8_e4m3fnuz>)
    return APFloat::Float8E4M3FNUZ();
  else if constexpr (std::same_as<T, float8_e5m2fnuz>)
    return APFloat::Float8E5M2FNUZ();
  else if constexpr (std::same_as<T, float8_e4m3b11fnuz>)
    return APFloat::Float8E4M3B11FNUZ();
  else if constexpr (std::same_as<T, half>)
    return APFloat::IEEEhalf();
  else if constexpr (std::same_as<T, bfloat16>)
    return APFloat::BFloat();
  else if constexpr (std::same_as<T, float>)
    return APFloat::IEEEsingle();
  else
    return APFloat::IEEEdouble();
}

template <std::size_t size> struct BitsOf;
template <> struct BitsOf<1> {
  using type = std::uint8_t;
};
template <> struct BitsOf<2> {
  using type = std::uint16_t;
};
template <> struct BitsOf<4> {
  using type = std::uint32_t;
};
template <> struct BitsOf<8> {
  using type = std::uint64_t;
};
template <class T> using Bits = typename BitsOf<sizeof(T)>::type;

template <class T> Bits<T> bitsOf(T value) {
  Bits<T> bits;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T> T fromBits(std::uint64_t code) {
  const auto bits = static_cast<Bits<T>>(code);
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T> APFloat exact(T value) {
  return APFloat(semanticsOf<T>(), llvm::APInt(8 * sizeof(T), bitsOf(value)));
}

template <class To, class From> APFloat expected(From from, Rounding rounding, Overflow overflow) {
  const APFloat x = exact(from);
  APFloat result = x;
  bool lossy;
  result.convert(semanticsOf<To>(),
                 rounding == Rounding::toward_zero ? APFloat::rmTowardZero
                                                   : APFloat::rmNearestTiesToEven,
                 &lossy);
  if (overflow == Overflow::saturate && !x.isNaN() && !result.isFinite())
    return APFloat::getLargest(semanticsOf<To>(), x.isNegative());
  return result;
}

template <class To> void expectSame(To got, const APFloat &want, double from) {
  if (want.isNaN())
    ASSERT_TRUE(exact(got).isNaN()) << from << " is " << +bitsOf(got);
  else
    ASSERT_EQ(+bitsOf(got), want.bitcastToAPInt().getZExtValue()) << from;
}

template <class To, class From> void check(const Device &device, const std::vector<From> &x) {
  struct Mode {
    Rounding rounding;
    Overflow overflow;
  };
  constexpr Mode modes[] = {{Rounding::nearest_even, Overflow::saturate},
                            {Rounding::nearest_even, Overflow::infinity},
                            {Rounding::toward_zero, Overflow::saturate},
                            {Rounding::toward_zero, Overflow::infinity}};
  const auto got = apply<To>(
      device,
      [=](auto a) {
        return std::array{cast<To>(a, modes[0].rounding, modes[0].overflow),
                          cast<To>(a, modes[1].rounding, modes[1].overflow),
                          cast<To>(a, modes[2].rounding, modes[2].overflow),
                          cast<To>(a, modes[3].rounding, modes[3].overflow)};
      },
      x);
  for (size_t mode = 0; mode < std::size(modes); ++mode) {
    SCOPED_TRACE(std::string(name_of(dtype_of<From>)) + " to " +
                 std::string(name_of(dtype_of<To>)) + ", mode " + std::to_string(mode));
    for (size_t i = 0; i < x.size(); ++i) {
      expectSame(got[mode * x.size() + i],
                 expected<To>(x[i], modes[mode].rounding, modes[mode].overflow),
                 exact(x[i]).convertToDouble());
      if (testing::Test::HasFatalFailure())
        return;
    }
  }
}

template <class T> std::vector<T> allCodes() {
  std::vector<T> values;
  for (unsigned code = 0; code < 1u << (8 * sizeof(T)); ++code)
    values.push_back(fromBits<T>(code));
  return values;
}

// Every number of a small type, the middles between neighbours, all with their neighbours in From,
// special values, and random bits.
template <class Small, class From> std::vector<From> around() {
  std::vector<From> values = {From(0),
                              -From(0),
                              From(INFINITY),
                              -From(INFINITY),
                              From(NAN),
                              std::numeric_limits<From>::max(),
                              std::numeric_limits<From>::lowest(),
                              std::numeric_limits<From>::denorm_min(),
                              std::numeric_limits<From>::min(),
                              fromBits<From>(~0ull)};
  auto add = [&](double number) {
    const auto x = static_cast<From>(number);
    if (std::isfinite(x))
      values.insert(values.end(),
                    {x, std::nextafter(x, From(INFINITY)), std::nextafter(x, -From(INFINITY))});
  };
  const unsigned step = sizeof(Small) == 1 ? 1 : 61;
  for (unsigned code = 0; code + 1 < 1u << (8 * sizeof(Small)); code += step) {
    const double low = exact(fromBits<Small>(code)).convertToDouble();
    const double high = exact(fromBits<Small>(code + 1)).convertToDouble();
    add(low);
    add((low + high) / 2);
  }
  // Beyond the largest number: where the next would be, and the middle to it.
  const double largest = exact(std::numeric_limits<Small>::max()).convertToDouble();
  const double unit = std::ldexp(1.0, std::ilogb(largest) + 1 - std::numeric_limits<Small>::digits);
  for (double sign : {1.0, -1.0})
    for (double beyond : {0.5, 1.0, 2.0})
      add(sign * (largest + beyond * unit));
  std::mt19937_64 random(7);
  for (int i = 0; i < 4000; ++i)
    values.push_back(fromBits<From>(random()));
  return values;
}

template <class To> void checkInto(const Device &device) {
  check<To>(device, allCodes<half>());
  check<To>(device, allCodes<bfloat16>());
  check<To>(device, around<To, float>());
  check<To>(device, around<To, double>());
}

TEST_P(Conversions, HalvesIntoWiderTypes) {
  check<float>(device, allCodes<half>());
  check<double>(device, allCodes<half>());
  check<double>(device, allCodes<bfloat16>());
  check<double>(device, around<half, float>());
}

template <class From> void checkFrom(const Device &device) {
  const auto codes = allCodes<From>();
  check<half>(device, codes);
  check<bfloat16>(device, codes);
  check<float>(device, codes);
  check<double>(device, codes);
  check<float8_e4m3>(device, codes);
  check<float8_e5m2>(device, codes);
  check<float8_e4m3fnuz>(device, codes);
  check<float8_e5m2fnuz>(device, codes);
  check<float8_e4m3b11fnuz>(device, codes);
}

TEST_P(Conversions, IntoE4M3) { checkInto<float8_e4m3>(device); }
TEST_P(Conversions, IntoE5M2) { checkInto<float8_e5m2>(device); }
TEST_P(Conversions, IntoE4M3FNUZ) { checkInto<float8_e4m3fnuz>(device); }
TEST_P(Conversions, IntoE5M2FNUZ) { checkInto<float8_e5m2fnuz>(device); }
TEST_P(Conversions, IntoE4M3B11FNUZ) { checkInto<float8_e4m3b11fnuz>(device); }
TEST_P(Conversions, IntoHalf) { checkInto<half>(device); }
TEST_P(Conversions, IntoBfloat16) { checkInto<bfloat16>(device); }
TEST_P(Conversions, DoubleIntoFloat) { check<float>(device, around<bfloat16, double>()); }
TEST_P(Conversions, FromE4M3) { checkFrom<float8_e4m3>(device); }
TEST_P(Conversions, FromE5M2) { checkFrom<float8_e5m2>(device); }
TEST_P(Conversions, FromE4M3FNUZ) { checkFrom<float8_e4m3fnuz>(device); }
TEST_P(Conversions, FromE5M2FNUZ) { checkFrom<float8_e5m2fnuz>(device); }
TEST_P(Conversions, FromE4M3B11FNUZ) { checkFrom<float8_e4m3b11fnuz>(device); }

template <class To> void checkPlain(const Device &device) {
  const auto x = around<To, float>();
  const auto got = apply<To>(device, [](auto a) { return cast<To>(a); }, x);
  const auto usual = sizeof(To) == 1 ? Overflow::saturate : Overflow::infinity;
  for (size_t i = 0; i < x.size(); ++i) {
    const APFloat want = expected<To>(x[i], Rounding::nearest_even, usual);
    expectSame(got[i], want, x[i]);
    expectSame(To(x[i]), want, x[i]); // the host's conversion is the same one
    if (testing::Test::HasFatalFailure())
      return;
  }
}

TEST_P(Conversions, PlainCasts) {
  checkPlain<float8_e4m3>(device);
  checkPlain<float8_e5m2>(device);
  checkPlain<float8_e4m3fnuz>(device);
  checkPlain<float8_e5m2fnuz>(device);
  checkPlain<float8_e4m3b11fnuz>(device);
  checkPlain<half>(device);
  checkPlain<bfloat16>(device);
}

template <class To, class I> void checkIntegers(const Device &device) {
  std::vector<I> x = {0, 1, std::numeric_limits<I>::max(), std::numeric_limits<I>::min()};
  std::mt19937_64 random(3);
  for (int i = 0; i < 3000; ++i) {
    // Near the middle between two numbers of eight bits, where rounding twice goes wrong.
    const std::uint64_t shift = random() % (8 * sizeof(I) - 10);
    const std::uint64_t middle = (random() % 256 | 128) * 2 + 1;
    x.push_back(static_cast<I>((middle << shift) + random() % 3 - 1));
    x.push_back(static_cast<I>(random() >> random() % 64));
  }
  const auto got = apply<To>(device, [](auto a) { return cast<To>(a); }, x);
  for (size_t i = 0; i < x.size(); ++i) {
    APFloat want(semanticsOf<To>());
    want.convertFromAPInt(llvm::APInt(8 * sizeof(I), static_cast<std::uint64_t>(x[i]), false, true),
                          std::is_signed_v<I>, APFloat::rmNearestTiesToEven);
    ASSERT_EQ(bitsOf(got[i]), want.bitcastToAPInt().getZExtValue())
        << +x[i] << " to " << name_of(dtype_of<To>);
  }
}

TEST_P(Conversions, IntegersAreRoundedOnce) {
  checkIntegers<bfloat16, std::int16_t>(device);
  checkIntegers<bfloat16, std::int32_t>(device);
  checkIntegers<bfloat16, std::uint32_t>(device);
  checkIntegers<bfloat16, std::int64_t>(device);
  checkIntegers<bfloat16, std::uint64_t>(device);
  checkIntegers<float, std::int64_t>(device);
  checkIntegers<float, std::uint64_t>(device);
  checkIntegers<double, std::uint64_t>(device);
}

// Toward zero; what is out of range gives the nearest number that is not, NaN zero.
template <class I, class From>
void checkSaturated(const Device &device, const std::vector<From> &x) {
  const auto got = apply<I>(device, [](auto a) { return cast<I>(a); }, x);
  for (size_t i = 0; i < x.size(); ++i) {
    llvm::APSInt want(8 * sizeof(I), std::is_unsigned_v<I>);
    bool isExact;
    exact(x[i]).convertToInteger(want, APFloat::rmTowardZero, &isExact);
    ASSERT_EQ(static_cast<std::uint64_t>(got[i]),
              std::is_signed_v<I> ? want.getSExtValue() : want.getZExtValue())
        << exact(x[i]).convertToDouble() << ", " << name_of(dtype_of<From>) << " to "
        << name_of(dtype_of<I>);
  }
}
template <class From> std::vector<From> aroundIntegers() {
  if constexpr (sizeof(From) <= 2) {
    return allCodes<From>();
  } else {
    std::vector<From> x = around<half, From>();
    for (const double bound : {-0x1p63, -0x1p31, -0x1p15, -0x1p7, -1.0, 0.0, 0x1p7, 0x1p8, 0x1p15,
                               0x1p16, 0x1p31, 0x1p32, 0x1p63, 0x1p64})
      for (const double beside : {-1.0, -0.5, 0.0, 0.5, 1.0})
        for (const double scale : {1 - 0x1p-20, 1.0, 1 + 0x1p-20})
          x.push_back(static_cast<From>(bound * scale + beside));
    return x;
  }
}
template <class From> void checkSaturated(const Device &device) {
  const auto x = aroundIntegers<From>();
  checkSaturated<std::int8_t>(device, x);
  checkSaturated<std::int16_t>(device, x);
  checkSaturated<std::int32_t>(device, x);
  checkSaturated<std::int64_t>(device, x);
  checkSaturated<std::uint8_t>(device, x);
  checkSaturated<std::uint16_t>(device, x);
  checkSaturated<std::uint32_t>(device, x);
  checkSaturated<std::uint64_t>(device, x);
}

TEST_P(Conversions, FloatsToIntegersSaturate) {
  checkSaturated<double>(device);
  checkSaturated<float>(device);
  checkSaturated<half>(device);
  checkSaturated<bfloat16>(device);
  checkSaturated<float8_e4m3>(device);
  checkSaturated<float8_e5m2>(device);
  checkSaturated<float8_e4m3b11fnuz>(device);
}

// The compiler knows these numbers.
TEST_P(Conversions, ConstantsSaturate) {
  Kernel kernel{"constants", [](Ptr<std::int32_t> out, Ptr<std::uint8_t> small) {
                  store(out, cast<std::int32_t>(Float(1e10f)));
                  store(out + 1, cast<std::int32_t>(Float(-1e10f)));
                  store(out + 2, cast<std::int32_t>(Float(NAN)));
                  store(out + 3, cast<std::int32_t>(Float(-2.5f)));
                  store(small, cast<std::uint8_t>(Float(INFINITY)));
                  store(small + 1, cast<std::uint8_t>(Float(-1.0f)));
                }};
  auto out = device.allocate<std::int32_t>(4);
  auto small = device.allocate<std::uint8_t>(2);
  kernel.launch(device.stream(), 1, out, small);
  using Limits = std::numeric_limits<std::int32_t>;
  EXPECT_EQ(out.download(), (std::vector<std::int32_t>{Limits::max(), Limits::min(), 0, -2}));
  EXPECT_EQ(small.download(), (std::vector<std::uint8_t>{255, 0}));
}

// The chips' own conversions saturate.
TEST(ConversionCode, OneInstructionToAnInteger) {
  Kernel kernel{"convert", [](Ptr<const float> x, Ptr<std::int32_t> y, Ptr<std::uint32_t> z) {
                  auto i = arange(0, 128);
                  store(y + i, cast<std::int32_t>(load(x + i)));
                  store(z + i, cast<std::uint32_t>(load(x + i)));
                }};
  const float *x = nullptr;
  std::int32_t *y = nullptr;
  std::uint32_t *z = nullptr;
  const std::string ptx = kernel.emit("sm_80", "ptx", x, y, z);
  EXPECT_THAT(ptx, testing::HasSubstr("cvt.rzi.s32.f32"));
  EXPECT_THAT(ptx, testing::HasSubstr("cvt.rzi.u32.f32"));
  EXPECT_THAT(ptx, testing::Not(testing::ContainsRegex("setp|selp|min|max")));
  const std::string assembly = kernel.emit("gfx942", "amdgcn", x, y, z);
  EXPECT_THAT(assembly, testing::HasSubstr("v_cvt_i32_f32"));
  EXPECT_THAT(assembly, testing::HasSubstr("v_cvt_u32_f32"));
  EXPECT_THAT(assembly, testing::Not(testing::ContainsRegex("v_cndmask|v_med|v_min|v_max")));
}

template <class A, class B> void checkBitcast(const Device &device) {
  std::vector<A> x;
  std::mt19937_64 random(5);
  for (int i = 0; i < 300; ++i)
    x.push_back(fromBits<A>(random()));
  const auto got = apply<B>(device, [](auto a) { return bitcast<B>(a); }, x);
  for (size_t i = 0; i < x.size(); ++i) {
    if constexpr (detail::isFloat(detail::kindOf<A>()))
      if (exact(x[i]).isSignaling()) // loading one may make it quiet
        continue;
    ASSERT_EQ(+bitsOf(got[i]), +bitsOf(x[i]));
  }
}
template <class... T> void checkBitcasts(const Device &device) {
  auto from = [&]<class A>(std::type_identity<A>) { (checkBitcast<A, T>(device), ...); };
  (from(std::type_identity<T>()), ...);
}

TEST_P(Conversions, Bitcasts) {
  checkBitcasts<std::int8_t, std::uint8_t, float8_e4m3, float8_e5m2, float8_e4m3fnuz>(device);
  checkBitcasts<std::int8_t, float8_e5m2fnuz, float8_e4m3b11fnuz>(device);
  checkBitcasts<std::int16_t, std::uint16_t, half, bfloat16>(device);
  checkBitcasts<std::int32_t, std::uint32_t, float>(device);
  checkBitcasts<std::int64_t, std::uint64_t, double>(device);
}

template <class T> void checkPacking(const Device &device) {
  constexpr int rows = 3, bits = 8 * static_cast<int>(sizeof(T)), words = 5 * 64 / bits;
  std::vector<std::uint8_t> bools;
  std::mt19937 random(11);
  for (int i = 0; i < rows * words * bits; ++i)
    bools.push_back(random() & 1);
  Kernel kernel{"pack", [](Ptr<const std::uint8_t> in, Ptr<T> packed, Ptr<bool> back) {
                  auto at = expand(arange(0, rows), 1) * (words * bits) + arange(0, words * bits);
                  auto x = pack_bits<T>(load(in + at) != 0);
                  store(packed + (expand(arange(0, rows), 1) * words + arange(0, words)), x);
                  store(back + at, unpack_bits(x));
                }};
  auto packed = device.allocate<T>(rows * words);
  auto back = device.allocate<bool>(bools.size());
  kernel.launch(device.stream(), 1, device.upload(bools), packed, back);
  const auto got = packed.download();
  for (size_t i = 0; i < bools.size(); ++i)
    ASSERT_EQ(got[i / bits] >> (i % bits) & 1, bools[i]) << i;
  std::vector<std::uint8_t> unpacked(bools.size());
  back.memory().download(unpacked.data());
  EXPECT_EQ(unpacked, bools);
}

TEST_P(Conversions, PackedBools) {
  checkPacking<std::uint8_t>(device);
  checkPacking<std::uint16_t>(device);
  checkPacking<std::uint32_t>(device);
  checkPacking<std::uint64_t>(device);
}

TEST_P(Conversions, Addresses) {
  constexpr int count = 64;
  Kernel kernel{"addresses", [](Ptr<const float> in, Ptr<float> out, Ptr<std::int64_t> where) {
                  auto i = arange(0, count);
                  auto address = bitcast<std::int64_t>(in + i);
                  store(where + i, address - bitcast<std::int64_t>(in));
                  // A table of addresses in memory, read back as pointers.
                  auto ptr = bitcast<Ptr<const float>>(address);
                  store(out + i, load(ptr) + load(bitcast<Ptr<float>>(bitcast<std::int64_t>(in))));
                }};
  std::vector<float> x;
  for (int i = 0; i < count; ++i)
    x.push_back(static_cast<float>(i) + 0.5f);
  auto out = device.allocate<float>(count);
  auto where = device.allocate<std::int64_t>(count);
  kernel.launch(device.stream(), 1, device.upload(x), out, where);
  const auto values = out.download();
  const auto distances = where.download();
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(values[i], x[i] + 0.5f);
    EXPECT_EQ(distances[i], static_cast<std::int64_t>(4 * i));
  }
}

template <class T> void checkDot(const Device &device) {
  constexpr int m = 16, n = 16, k = 32;
  std::vector<T> a, b;
  for (int i = 0; i < m * k; ++i)
    a.push_back(static_cast<T>(static_cast<float>(i * 7 % 13 - 6) * 0.5f));
  for (int i = 0; i < k * n; ++i)
    b.push_back(static_cast<T>(static_cast<float>(i * 5 % 11 - 5) * 0.25f));
  Kernel kernel{"dot", [](Ptr<const T> left, Ptr<const T> right, Ptr<float> out) {
                  auto row = expand(arange(0, m), 1), inner = expand(arange(0, k), 0);
                  auto x = load(left + (row * k + inner));
                  auto y = load(right + (expand(arange(0, k), 1) * n + arange(0, n)));
                  store(out + (row * n + arange(0, n)), dot(x, y));
                }};
  auto out = device.allocate<float>(m * n);
  kernel.launch(device.stream(), 1, device.upload(a), device.upload(b), out);
  const auto got = out.download();
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float want = 0; // exact: small multiples of an eighth
      for (size_t l = 0; l < k; ++l)
        want += static_cast<float>(a[i * k + l]) * static_cast<float>(b[l * n + j]);
      ASSERT_EQ(got[i * n + j], want) << name_of(dtype_of<T>) << " " << i << " " << j;
    }
}

TEST_P(Conversions, MatrixProducts) {
  checkDot<float8_e4m3fnuz>(device);
  checkDot<float8_e5m2fnuz>(device);
  checkDot<float8_e4m3b11fnuz>(device);
}

// Pairs at once where the chip has conversions: on NVIDIA from sm_89 on.
TEST(Fp8, IsConvertedByTheChip) {
  Kernel kernel{"narrow", [](Ptr<const float> in, Ptr<float8_e4m3> out, Ptr<float> back) {
                  auto i = arange(0, 512);
                  auto x = cast<float8_e4m3>(load(in + i));
                  store(out + i, x);
                  store(back + i, cast<float>(x));
                }};
  auto ptx = [&](const char *target) {
    return kernel.emit(target, "ptx", static_cast<const float *>(nullptr),
                       static_cast<float8_e4m3 *>(nullptr), static_cast<float *>(nullptr));
  };
  const auto count = [](const std::string &text, const std::string &what) {
    int found = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at)
      ++found;
    return found;
  };
  const std::string hopper = ptx("sm_90a"), ampere = ptx("sm_80");
  // Four numbers a thread.
  EXPECT_EQ(count(hopper, "cvt.rn.satfinite.e4m3x2.f32"), 2) << hopper;
  EXPECT_EQ(count(hopper, "cvt.rn.f16x2.e4m3x2"), 2) << hopper;
  EXPECT_EQ(count(ampere, "e4m3x2"), 0);
}

// The chips' own code generators take every conversion.
template <class From, class... To> void checkCode() {
  Kernel kernel{"conversions", [](Ptr<const From> in, Ptr<double> out) {
                  auto i = arange(0, 128);
                  auto x = load(in + i);
                  int row = 0;
                  auto keep = [&](const auto &y) {
                    store(out + (128 * row++ + i), cast<double>(y));
                  };
                  (keep(cast<To>(x)), ...);
                  (keep(cast<To>(x, Rounding::toward_zero)), ...);
                  (keep(cast<To>(x, Overflow::saturate)), ...);
                  (keep(cast<To>(x, Overflow::infinity)), ...);
                  (keep(cast<To>(cast<std::int64_t>(x))), ...);
                }};
  const From *in = nullptr;
  double *out = nullptr;
  for (const char *target : {"sm_80", "sm_90a"})
    EXPECT_NE(kernel.emit(target, "ptx", in, out).find(".entry"), std::string::npos);
  EXPECT_FALSE(kernel.emit("gfx942", "hsaco", in, out).empty());
}

TEST(ConversionsCode, OfChips) {
  checkCode<float, float8_e4m3, float8_e5m2, float8_e4m3fnuz, half, bfloat16, double>();
  checkCode<double, float8_e4m3, float8_e5m2fnuz, half, bfloat16, float>();
  checkCode<half, float8_e4m3, float8_e4m3b11fnuz, bfloat16, float, double>();
  checkCode<bfloat16, float8_e5m2, float8_e4m3fnuz, half, float, double>();
  checkCode<float8_e4m3, float8_e5m2, half, bfloat16, float, double>();
  checkCode<float8_e5m2fnuz, float8_e4m3, half, bfloat16, float, double>();
}

} // namespace

// What is known while compiling saturates like what is not.
TEST_P(Conversions, ConstantsTo8Bits) {
  const std::vector<float> x(3, 0.0f);
  const auto e4m3 =
      apply<float8_e4m3>(device, [](auto a) { return cast<float8_e4m3>(full_like(a, 1e6f)); }, x);
  const auto e5m2 =
      apply<float8_e5m2>(device, [](auto a) { return cast<float8_e5m2>(full_like(a, -1e6f)); }, x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(exact(e4m3[i]).convertToDouble(), 448);
    EXPECT_EQ(exact(e5m2[i]).convertToDouble(), -57344);
  }
}
