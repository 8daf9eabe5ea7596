// Functions of integers on every device, against C++.
#include "Apply.h"
#include "vgpu/VirtualDevice.h"
#include <bit>
#include <gmock/gmock.h>
#include <limits>
#include <random>

using namespace sectile;
using sectile::test::apply;

SECTILE_ON_DEVICES(Integers);

namespace {

template <class T> std::vector<T> samples(unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values = {
      T(0), T(1), T(2), T(-1), std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  while (values.size() < 333)
    values.push_back(static_cast<T>(random() >> random() % 64));
  return values;
}

template <class T> T upperHalf(T a, T b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (8 * sizeof(T)));
}

template <class T> void checkMulhi(const Device &device) {
  const auto x = samples<T>(1), y = samples<T>(2);
  const auto got = apply<T>(device, [](auto a, auto b) { return mulhi(a, b); }, x, y);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(+got[i], +upperHalf(x[i], y[i])) << +x[i] << " and " << +y[i];
}

TEST_P(Integers, Mulhi) {
  checkMulhi<std::int8_t>(device);
  checkMulhi<std::uint16_t>(device);
  checkMulhi<std::int32_t>(device);
  checkMulhi<std::uint32_t>(device);
  checkMulhi<std::int64_t>(device);
  checkMulhi<std::uint64_t>(device);
}

TEST_P(Integers, MulhiBroadcastsAndTakesNumbers) {
  const std::vector<std::uint32_t> x = {0, 1, 5, 0xffffffff};
  const auto got = apply<std::uint32_t>(device, [](auto a) { return mulhi(a, 0x80000000u); }, x);
  EXPECT_EQ(got, (std::vector<std::uint32_t>{0, 0, 2, 0x7fffffff}));
}

template <class T> void checkBits(const Device &device) {
  using U = std::make_unsigned_t<T>;
  const auto x = samples<T>(3);
  const auto got = apply<std::int32_t>(
      device, [](auto a) { return std::array{popcount(a), clz(a), ctz(a), ffs(a)}; }, x);
  const auto reversed = apply<T>(device, [](auto a) { return brev(a); }, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const U u = static_cast<U>(x[i]);
    ASSERT_EQ(got[i], std::popcount(u)) << +x[i];
    ASSERT_EQ(got[x.size() + i], std::countl_zero(u)) << +x[i];
    ASSERT_EQ(got[2 * x.size() + i], std::countr_zero(u)) << +x[i];
    ASSERT_EQ(got[3 * x.size() + i], u ? std::countr_zero(u) + 1 : 0) << +x[i];
    U mirrored = 0;
    for (unsigned bit = 0; bit < 8 * sizeof(T); ++bit)
      mirrored = static_cast<U>(mirrored | (u >> bit & 1) << (8 * sizeof(T) - 1 - bit));
    ASSERT_EQ(+reversed[i], +static_cast<T>(mirrored)) << +x[i];
  }
}

TEST_P(Integers, Bits) {
  checkBits<std::int8_t>(device);
  checkBits<std::uint16_t>(device);
  checkBits<std::int32_t>(device);
  checkBits<std::uint64_t>(device);
}

// The lowest number by -1 does not fit: it wraps to itself, and leaves nothing. A divisor known
// when the kernel is compiled has a code of its own.
template <class T> void checkQuotients(const Device &device) {
  constexpr T lowest = std::numeric_limits<T>::min(), highest = std::numeric_limits<T>::max();
  auto x = samples<T>(4), y = samples<T>(5);
  for (const T a : {lowest, highest, T(lowest + 1), T(0), T(7)})
    for (const T b : {T(-1), T(1), lowest, highest}) {
      x.push_back(a);
      y.push_back(b);
    }
  for (T &each : y)
    each = each == T(0) ? T(3) : each;
  auto quotient = [](T a, T b) {
    return b == T(-1) ? T(0 - std::make_unsigned_t<T>(a)) : T(a / b);
  };
  auto rest = [](T a, T b) { return b == T(-1) ? T(0) : T(a % b); };
  const auto got = apply<T>(
      device,
      [](auto a, auto given) {
        auto b = where(given == T(0), T(1), given); // beyond the end
        return std::array{a / b, a % b, a / T(-1), a % T(-1)};
      },
      x, y);
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    SCOPED_TRACE(std::to_string(x[i]) + " by " + std::to_string(y[i]));
    ASSERT_EQ(+got[i], +quotient(x[i], y[i]));
    ASSERT_EQ(+got[n + i], +rest(x[i], y[i]));
    ASSERT_EQ(+got[2 * n + i], +quotient(x[i], T(-1)));
    ASSERT_EQ(+got[3 * n + i], 0);
  }
}

TEST_P(Integers, QuotientsWrap) {
  checkQuotients<std::int8_t>(device);
  checkQuotients<std::int16_t>(device);
  checkQuotients<std::int32_t>(device);
  checkQuotients<std::int64_t>(device);
}

// A quotient that is not used may be by 0: of some elements, or ahead of a loop that never runs.
// The interpreter, which computes both sides of `where`, ends there, and so does a virtual GPU
// unless its checks are off.
class UnusedQuotients : public sectile::test::OnDevice {};
SECTILE_INSTANTIATE_ON(UnusedQuotients, "virtual:sm_80,virtual:sm_90a,virtual:gfx942");

template <class T> void checkUnused(const Device &device) {
  const std::vector<T> x = {10, 11, 12, 13}, y = {0, 3, 0, 5};
  EXPECT_EQ(apply<T>(
                device, [](auto a, auto b) { return where(b == T(0), a, a / b + a % b); }, x, y),
            (std::vector<T>{10, 5, 12, 5}));
}

TEST_P(UnusedQuotients, MayBeByZero) {
  auto *machine = dynamic_cast<runtime::VirtualDevice *>(device.impl().get());
  if (machine)
    machine->setOptions({.checks = false});
  checkUnused<std::int32_t>(device);
  checkUnused<std::uint32_t>(device);
  checkUnused<std::int64_t>(device);
  checkUnused<std::uint8_t>(device);
  if (machine)
    machine->setOptions({});
}

template <class T> void expectByZero(const Device &device) {
  const std::vector<T> x = {10, 11, 12, 13}, y = {1, 3, 0, 5};
  for (const bool divides : {true, false})
    try {
      apply<T>(device, [=](auto a, auto b) { return divides ? a / b : a % b; }, x, y);
      ADD_FAILURE() << "nothing was found";
    } catch (const DeviceError &error) {
      EXPECT_THAT(error.what(), testing::ContainsRegex("integers_test.cpp:[0-9]+, .*: trap: an "
                                                       "integer is divided by zero"));
    }
}

TEST_P(UnusedQuotients, AreFoundWithChecks) {
  if (!dynamic_cast<runtime::VirtualDevice *>(device.impl().get()))
    GTEST_SKIP() << "a chip goes on";
  expectByZero<std::int32_t>(device);
  expectByZero<std::uint32_t>(device);
  expectByZero<std::int64_t>(device);
  expectByZero<std::uint8_t>(device);
}

} // namespace
