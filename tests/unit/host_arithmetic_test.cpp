// Programs that round in another direction, or take subnormal numbers as zero: devices on the host
// compute as ever, and so does the compiler.
#include <cfenv>
#include <gtest/gtest.h>
#include <sectile/sectile.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace sectile;

namespace {

const std::vector<float> values = [] {
  std::vector<float> made;
  for (int i = 0; i < 64; ++i)
    made.push_back(i < 8 ? 1e-40f * static_cast<float>(i) : 0.37f * static_cast<float>(i - 32));
  return made;
}();

// Each test has a kernel of its own, so that each compiles one.
template <int number> std::vector<std::uint32_t> bitsOf(const std::string &deviceName) {
  static Kernel kernel{"host_arithmetic", [](Ptr<const float> x, Ptr<std::uint32_t> bits) {
                         const auto i = arange(0, 64);
                         const auto value = load(x + i);
                         const auto folded =
                             exp(full<double>(0.1, 64)) + sin(full<double>(0.7, 64)) +
                             pow(full<double>(1.1, 64), full<double>(2.3, 64)) / 3.0;
                         store(bits + i, bitcast<std::uint32_t>(value + value * 0.3f));
                         store(bits + 64 + i, cast<std::uint32_t>(bitcast<std::uint64_t>(folded)));
                         store(bits + 128 + i, bitcast<std::uint32_t>(exp(value) / 3.0f));
                         store(bits + 192, std::uint32_t{number}); // makes it another kernel
                       }};
  const Device device = Device::open(deviceName);
  auto x = device.upload(values);
  auto bits = device.allocate<std::uint32_t>(193);
  kernel.launch(device.stream(), 1, x, bits);
  auto found = bits.download();
  found.resize(192);
  return found;
}

class HostArithmetic : public testing::TestWithParam<const char *> {
protected:
  void TearDown() override { std::fesetenv(FE_DFL_ENV); }
};

INSTANTIATE_TEST_SUITE_P(Devices, HostArithmetic,
                         testing::Values("virtual:sm_90a", "virtual:gfx942", "interpreter"));

TEST_P(HostArithmetic, DoesNotMatter) {
  const auto wanted = bitsOf<0>(GetParam());
  for (const int direction : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(direction);
    EXPECT_EQ(bitsOf<0>(GetParam()), wanted);
    EXPECT_EQ(std::fegetround(), direction);
    std::fesetround(FE_TONEAREST);
  }
  std::fesetround(FE_UPWARD);
  EXPECT_EQ(bitsOf<1>(GetParam()), wanted) << "compiled here";
  std::fesetround(FE_TONEAREST);
#if defined(__x86_64__)
  constexpr unsigned flushes = 0x8040; // subnormal results and operands
  _mm_setcsr(_mm_getcsr() | flushes);
  EXPECT_EQ(bitsOf<2>(GetParam()), wanted);
  EXPECT_EQ(_mm_getcsr() & flushes, flushes);
#endif
}

} // namespace
