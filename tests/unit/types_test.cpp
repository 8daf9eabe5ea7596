// The small floating-point types: every code, and rounding against a search for the nearest value.
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <sectile/types.h>

using namespace sectile;

template <class T> class SmallFloatTest : public testing::Test {};
using SmallFloats = testing::Types<half, bfloat16, float8_e4m3, float8_e5m2, float8_e4m3fnuz,
                                   float8_e5m2fnuz, float8_e4m3b11fnuz>;
TYPED_TEST_SUITE(SmallFloatTest, SmallFloats);

template <class T> constexpr unsigned codes = 1u << (8 * sizeof(T));

TYPED_TEST(SmallFloatTest, EveryCodeSurvivesTheWayThroughFloat) {
  for (unsigned code = 0; code < codes<TypeParam>; ++code) {
    auto x = TypeParam::from_bits(static_cast<typename TypeParam::Bits>(code));
    float f = x;
    TypeParam back(f);
    if (std::isnan(f))
      EXPECT_TRUE(std::isnan(static_cast<float>(back)));
    else if (std::isinf(f) && sizeof(TypeParam) == 1)
      EXPECT_EQ(static_cast<float>(back), std::copysign(57344.0f, f));
    else
      EXPECT_EQ(back.bits, x.bits) << code;
  }
}

TYPED_TEST(SmallFloatTest, RoundsToNearestEven) {
  // All finite values that are not negative, in order: the codes themselves.
  const unsigned top = std::numeric_limits<TypeParam>::max().bits;
  auto value = [](unsigned code) {
    return static_cast<double>(
        static_cast<float>(TypeParam::from_bits(static_cast<typename TypeParam::Bits>(code))));
  };
  for (unsigned code = 0; code < top; ++code) {
    const double low = value(code), high = value(code + 1), middle = (low + high) / 2;
    ASSERT_LT(low, high);
    EXPECT_EQ(TypeParam(middle).bits, code & 1 ? code + 1 : code);
    EXPECT_EQ(TypeParam(std::nextafter(middle, low)).bits, code);
    EXPECT_EQ(TypeParam(std::nextafter(middle, high)).bits, code + 1);
    EXPECT_EQ(value(TypeParam(-middle).bits & (codes<TypeParam> / 2 - 1)),
              value(TypeParam(middle).bits));
  }
}

TEST(Types, Overflow) {
  EXPECT_EQ(static_cast<float>(half(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(static_cast<float>(half(65520.0f))));
  EXPECT_TRUE(std::isinf(static_cast<float>(bfloat16(3.4e38f))));
  EXPECT_EQ(static_cast<float>(float8_e4m3(1e9f)), 448.0f);
  EXPECT_EQ(static_cast<float>(float8_e4m3(-INFINITY)), -448.0f);
  EXPECT_EQ(static_cast<float>(float8_e5m2(INFINITY)), 57344.0f);
  EXPECT_TRUE(std::isnan(static_cast<float>(float8_e4m3(NAN))));
  EXPECT_EQ(static_cast<float>(float8_e4m3fnuz(1e9f)), 240.0f);
  EXPECT_EQ(static_cast<float>(float8_e5m2fnuz(-INFINITY)), -57344.0f);
  EXPECT_EQ(static_cast<float>(float8_e4m3b11fnuz(31.5f)), 30.0f);
  EXPECT_EQ(float8_e4m3fnuz(-NAN).bits, 0x80);
  EXPECT_EQ(float8_e5m2fnuz(-0.0).bits, 0);
  EXPECT_EQ(float8_e4m3b11fnuz(-1e-9).bits, 0);
}

TEST(Types, DoubleIsRoundedOnce) {
  // Through float this would first become the midpoint 1 + 2^-11 and then round down.
  EXPECT_EQ(half(1.0 + 0x1p-11 + 0x1p-40).bits, half(1.0).bits + 1);
}

TEST(Types, Limits) {
  using H = std::numeric_limits<half>;
  static_assert(H::max_exponent == 16 && H::min_exponent == -13 && H::digits == 11);
  static_assert(std::numeric_limits<bfloat16>::max_exponent == 128);
  static_assert(std::numeric_limits<float8_e4m3>::max_exponent == 9);
  static_assert(std::numeric_limits<float8_e5m2>::max_exponent == 16);
  static_assert(std::numeric_limits<float8_e4m3fnuz>::max_exponent == 8 &&
                std::numeric_limits<float8_e4m3fnuz>::min_exponent == -6);
  static_assert(std::numeric_limits<float8_e5m2fnuz>::max_exponent == 16);
  static_assert(std::numeric_limits<float8_e4m3b11fnuz>::max_exponent == 5 &&
                !std::numeric_limits<float8_e4m3b11fnuz>::has_infinity);
  static_assert(static_cast<float>(H::min()) == 0x1p-14f &&
                static_cast<float>(H::denorm_min()) == 0x1p-24f);
  static_assert(static_cast<float>(H::epsilon()) == 0x1p-10f);
  static_assert(std::is_trivially_copyable_v<half> && sizeof(float8_e5m2) == 1);
  half x(1);
  x = 0.5f;
  EXPECT_EQ(x * 2, 1.0f);
}

TEST(Types, DTypes) {
  static_assert(dtype_of<const float> == DType::float32 && dtype_of<bool> == DType::boolean);
  static_assert(dtype_of<std::int64_t> == DType::int64 && dtype_of<unsigned char> == DType::uint8);
  static_assert(dtype_of<long long> == DType::int64 && dtype_of<half> == DType::float16);
  static_assert(!Element<long double> && !Element<void *>);
  static_assert(size_of(DType::bfloat16) == 2 && name_of(DType::float8_e5m2) == "f8e5m2");
  static_assert(name_of(DType::uint64) == "u64" && name_of(DType::float64) == "f64");
  static_assert(dtype_of<float8_e4m3b11fnuz> == DType::float8_e4m3b11fnuz &&
                name_of(DType::float8_e4m3b11fnuz) == "f8e4m3b11fnuz");
  static_assert(is_floating(DType::float16) && !is_floating(DType::uint64));
}
