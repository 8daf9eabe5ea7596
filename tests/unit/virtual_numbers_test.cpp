// Arithmetic of the virtual GPU: narrow formats against their definition, and the NVVM intrinsics
// that convert, round and approximate.
#include "VirtualTest.h"
#include "vgpu/SmallFloats.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace sectile::vgpu;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(),
                nan = std::numeric_limits<float>::quiet_NaN();

// All finite values of a format, ascending, with their encodings.
std::vector<std::pair<float, uint32_t>> finiteValues(const FloatFormat &format) {
  std::vector<std::pair<float, uint32_t>> values;
  uint32_t count = 1u << (1 + format.exponentBits + format.mantissaBits);
  for (uint32_t bits = 0; bits < count; ++bits)
    if (float value = widenFloat(bits, format); std::isfinite(value))
      values.push_back({value, bits});
  std::sort(values.begin(), values.end(), [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  return values;
}

TEST(SmallFloats, KnownValues) {
  EXPECT_EQ(widenFloat(0x7e, e4m3Format), 448.0f);
  EXPECT_EQ(widenFloat(0x01, e4m3Format), 0x1p-9f);
  EXPECT_TRUE(std::isnan(widenFloat(0x7f, e4m3Format)));
  EXPECT_EQ(widenFloat(0x7b, e5m2Format), 57344.0f);
  EXPECT_EQ(widenFloat(0x7c, e5m2Format), infinity);
  EXPECT_EQ(widenFloat(0x01, e5m2Format), 0x1p-16f);
  EXPECT_EQ(widenFloat(0x3c00, f16Format), 1.0f);
  EXPECT_EQ(widenFloat(0xfbff, f16Format), -65504.0f);
  EXPECT_EQ(widenFloat(0x0001, f16Format), 0x1p-24f);
}

TEST(SmallFloats, NarrowingIsTheNearestValue) {
  std::mt19937 random(1);
  for (const FloatFormat &format : {f16Format, e4m3Format, e5m2Format}) {
    auto values = finiteValues(format);
    for (auto [value, bits] : values) {
      EXPECT_EQ(narrowFloat(value, format, Rounding::NearestEven), bits) << value;
      EXPECT_EQ(narrowFloat(value, format, Rounding::TowardZero), bits) << value;
    }
    for (int i = 0; i < 20000; ++i) {
      size_t index = random() % (values.size() - 1);
      auto [low, lowBits] = values[index];
      auto [high, highBits] = values[index + 1];
      if (low == high)
        continue;
      // Between two neighbours, and exactly in the middle every fourth time.
      double part = i % 4 ? double(random()) / 0x1p32 : 0.5;
      float between = float(low + (double(high) - low) * part);
      double toLow = double(between) - low, toHigh = double(high) - between;
      uint32_t nearest = toLow < toHigh || (toLow == toHigh && !(lowBits & 1)) ? lowBits : highBits;
      ASSERT_EQ(narrowFloat(between, format, Rounding::NearestEven), nearest) << between;
      if (between != low && between != high) {
        ASSERT_EQ(narrowFloat(between, format, Rounding::TowardZero),
                  between < 0 ? highBits : lowBits)
            << between;
      }
    }
  }
}

TEST(SmallFloats, BeyondTheRange) {
  EXPECT_EQ(halfFromFloat(65519.0f), 0x7bff);
  EXPECT_EQ(halfFromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(halfFromFloat(-infinity), 0xfc00);
  EXPECT_TRUE(std::isnan(floatFromHalf(halfFromFloat(nan))));
  EXPECT_EQ(halfFromFloat(1e9f, Rounding::TowardZero), 0x7bff);
  // The eight-bit conversions saturate.
  EXPECT_EQ(narrowFloat(1e9f, e4m3Format, Rounding::NearestEven), 0x7eu);
  EXPECT_EQ(narrowFloat(-infinity, e4m3Format, Rounding::NearestEven), 0xfeu);
  EXPECT_EQ(narrowFloat(nan, e4m3Format, Rounding::NearestEven), 0x7fu);
  EXPECT_EQ(narrowFloat(infinity, e5m2Format, Rounding::NearestEven), 0x7bu);
  EXPECT_EQ(narrowFloat(1e-30f, f16Format, Rounding::NearestEven), 0u);
  EXPECT_EQ(narrowFloat(-0.0f, f16Format, Rounding::NearestEven), 0x8000u);
}

// Runs `%r = ...` over floats %a and %b; the result is a word.
// A chip may differ by `chipUlps`.
uint32_t compute(const std::string &body, float a, float b = 0, unsigned chipUlps = 0) {
  Runner runner(
      nvidiaHead +
      std::string("define ptx_kernel void @k(ptr addrspace(1) %p, float %a, float %b) {\n") + body +
      "  store i32 %r, ptr addrspace(1) %p, align 4\n  ret void\n}\n");
  // Some functions the host computes, but no chip has an instruction for.
  runner.onChip &= body.find("@llvm.exp2.") == body.npos && body.find("@llvm.sin.") == body.npos;
  runner.chipUlps = chipUlps;
  auto *out = runner.allocate<uint32_t>(1);
  runner.expectClean(out, a, b);
  return *out;
}

float computeFloat(const std::string &call, float a, float b = 0) {
  return std::bit_cast<float>(
      compute("  %f = call float @" + call + "\n  %r = bitcast float %f to i32\n", a, b, 2));
}

TEST(Intrinsics, Approximations) {
  EXPECT_NEAR(computeFloat("llvm.nvvm.ex2.approx.f32(float %a)", 3.25f), std::exp2(3.25), 1e-5);
  EXPECT_EQ(computeFloat("llvm.nvvm.ex2.approx.ftz.f32(float %a)", -140.0f), 0.0f);
  EXPECT_EQ(computeFloat("llvm.nvvm.ex2.approx.f32(float %a)", -140.0f), 0x1p-140f);
  EXPECT_EQ(computeFloat("llvm.nvvm.ex2.approx.f32(float %a)", -infinity), 0.0f);
  EXPECT_NEAR(computeFloat("llvm.nvvm.lg2.approx.f(float %a)", 10.0f), std::log2(10.0), 1e-6);
  EXPECT_EQ(computeFloat("llvm.nvvm.rcp.approx.ftz.f(float %a)", 4.0f), 0.25f);
  EXPECT_EQ(computeFloat("llvm.nvvm.rsqrt.approx.f(float %a)", 16.0f), 0.25f);
  EXPECT_EQ(computeFloat("llvm.nvvm.sqrt.approx.f(float %a)", 6.25f), 2.5f);
  EXPECT_EQ(computeFloat("llvm.nvvm.div.approx.f(float %a, float %b)", 3.0f, 4.0f), 0.75f);
}

TEST(Intrinsics, MinimumAndMaximum) {
  EXPECT_EQ(computeFloat("llvm.nvvm.fmin.f(float %a, float %b)", nan, 2.0f), 2.0f);
  EXPECT_TRUE(std::isnan(computeFloat("llvm.nvvm.fmin.nan.f(float %a, float %b)", nan, 2.0f)));
  EXPECT_TRUE(std::signbit(computeFloat("llvm.nvvm.fmin.f(float %a, float %b)", 0.0f, -0.0f)));
  EXPECT_FALSE(std::signbit(computeFloat("llvm.nvvm.fmax.f(float %a, float %b)", -0.0f, 0.0f)));
  EXPECT_EQ(computeFloat("llvm.nvvm.fmax.ftz.f(float %a, float %b)", -infinity, 0x1p-140f), 0.0f);
}

// Whatever kind of NaN it is, beside what cannot be one.
TEST(Intrinsics, SignallingNaNsStay) {
  const auto signalling = std::bit_cast<float>(0x7fa00000u);
  for (const char *function : {"maximum", "minimum"})
    EXPECT_TRUE(
        std::isnan(std::bit_cast<float>(compute(std::string("  %i = fptosi float %b to i32\n"
                                                            "  %n = uitofp i32 %i to float\n"
                                                            "  %f = call float @llvm.") +
                                                    function +
                                                    ".f32(float %a, float %n)\n"
                                                    "  %r = bitcast float %f to i32\n",
                                                signalling, 27))))
        << function;
}

// An update compares what it loaded bit by bit: a signalling NaN must not have become a quiet one.
TEST(Intrinsics, ShortUpdatesOfNaNsEnd) {
  for (const char *type : {"half", "bfloat"}) {
    Runner runner(nvidiaHead +
                  std::string("define ptx_kernel void @k(ptr addrspace(1) %p) {\n"
                              "  %b = atomicrmw fadd ptr addrspace(1) %p, ") +
                  type + " 1.0 monotonic\n  ret void\n}\n");
    runner.onChip = false;
    const uint16_t signalling = type[0] == 'h' ? 0x7d00 : 0x7fa0;
    auto *memory = runner.upload(std::vector<uint16_t>{signalling});
    runner.expectClean(memory);
    const uint16_t infinity = type[0] == 'h' ? 0x7c00 : 0x7f80;
    EXPECT_GT(*memory & 0x7fff, infinity) << type;
  }
}

TEST(Intrinsics, IntegersFromFloats) {
  auto convert = [](const char *mode, float value) {
    return int32_t(
        compute(std::string("  %r = call i32 @llvm.nvvm.f2i.") + mode + "(float %a)\n", value));
  };
  EXPECT_EQ(convert("rn", 2.5f), 2);
  EXPECT_EQ(convert("rn", 3.5f), 4);
  EXPECT_EQ(convert("rz", -2.9f), -2);
  EXPECT_EQ(convert("rm", -2.1f), -3);
  EXPECT_EQ(convert("rp", 2.1f), 3);
  EXPECT_EQ(convert("rz", 1e20f), INT32_MAX);
  EXPECT_EQ(convert("rz", -infinity), INT32_MIN);
  EXPECT_EQ(convert("rz", nan), 0);
}

TEST(Intrinsics, NarrowConversionsPutTheFirstOperandHigh) {
  EXPECT_EQ(compute("  %h = call <2 x half> @llvm.nvvm.ff2f16x2.rn(float %a, float %b)\n"
                    "  %r = bitcast <2 x half> %h to i32\n",
                    1.0f, -2.0f),
            0x3c00c000u);
  EXPECT_EQ(compute("  %h = call <2 x bfloat> @llvm.nvvm.ff2bf16x2.rn(float %a, float %b)\n"
                    "  %r = bitcast <2 x bfloat> %h to i32\n",
                    1.0f, 0x1.01p0f),
            0x3f803f80u);
  std::string pair = "  %n = call i16 @llvm.nvvm.ff.to.e4m3x2.rn(float %a, float %b)\n";
  EXPECT_EQ(compute(pair + "  %r = zext i16 %n to i32\n", 448.0f, 1.0f), 0x7e38u);
  EXPECT_EQ(compute(pair + "  %h = call <2 x half> @llvm.nvvm.e4m3x2.to.f16x2.rn(i16 %n)\n"
                           "  %r = bitcast <2 x half> %h to i32\n",
                    448.0f, 1.0f),
            0x5f003c00u);
  EXPECT_EQ(compute("  %r = call i32 @llvm.nvvm.f2tf32.rna(float %a)\n", 1.0f + 0x1p-11f),
            0x3f802000u);
}

// What the host's compiler expands by itself or calls its runtime library for.
TEST(Intrinsics, HalfArithmeticOfTheHost) {
  EXPECT_EQ(compute(R"(
  %x = fptrunc float %a to bfloat
  %y = fptrunc float %b to bfloat
  %z = fadd bfloat %x, %y
  %w = fpext bfloat %z to float
  %r = bitcast float %w to i32
)",
                    1.5f, 0x1p-8f),
            std::bit_cast<uint32_t>(1.5f));
  EXPECT_EQ(compute(R"(
  %d = fpext float %a to double
  %e = fadd double %d, 0x3CD0000000000000
  %x = fptrunc double %e to half
  %y = fptrunc float %b to half
  %z = fmul half %x, %y
  %i = bitcast half %z to i16
  %r = zext i16 %i to i32
)",
                    1.0f + 0x1p-11f, 1.0f),
            0x3c01u);
  // A subnormal number stays one, whatever instructions the host has.
  EXPECT_EQ(compute("  %x = fptrunc float %a to bfloat\n"
                    "  %i = bitcast bfloat %x to i16\n"
                    "  %r = zext i16 %i to i32\n",
                    0x1.64p-127f),
            0x0059u);
  EXPECT_EQ(computeFloat("llvm.exp2.f32(float %a)", 4.0f), 16.0f);
  EXPECT_NEAR(computeFloat("llvm.sin.f32(float %a)", 1.0f), std::sin(1.0), 1e-7);
}

TEST(Intrinsics, BytesAndProducts) {
  // 0x03020100 and 0x07060504: byte i is i. Selector 0x7520 takes bytes 0, 2, 5, 7 from the lowest
  // up.
  EXPECT_EQ(compute("  %r = call i32 @llvm.nvvm.prmt(i32 50462976, i32 117835012, i32 29984)\n", 0),
            0x07050200u);
  // With the top bit of a selector digit the byte's sign is repeated: byte 3 of 0x80000000.
  EXPECT_EQ(compute("  %r = call i32 @llvm.nvvm.prmt(i32 -2147483648, i32 0, i32 11)\n", 0),
            0x000000ffu);
  EXPECT_EQ(compute("  %r = call i32 @llvm.nvvm.mulhi.i(i32 -2, i32 1073741824)\n", 0),
            0xffffffffu);
  EXPECT_EQ(compute("  %r = call i32 @llvm.nvvm.mulhi.ui(i32 -2, i32 1073741824)\n", 0),
            0x3fffffffu);
}

} // namespace
