// mx_matmul: fp8 and fp4 with e8m0 scales for 32 neighbours.
#include "KernelTest.h"
#include "kernels/calls/Emit.h"
#include "tests/unit/Processes.h"
#include <cmath>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

namespace {

class MxMatmul : public OnDevice {};
SECTILE_INSTANTIATE_ON(MxMatmul, "virtual:sm_80,virtual:sm_90a");
class MxMatmulEverywhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(MxMatmulEverywhere, "interpreter,virtual:gfx942,virtual:gfx1100");

KernelCase mx(std::int64_t m, std::int64_t n, std::int64_t k, const char *a = "f8e4m3",
              const char *b = "f8e4m3", const std::vector<std::string> &with = {}) {
  const bool packed = std::string_view(a) == "u8", otherPacked = std::string_view(b) == "u8";
  return {"mx_matmul",
          {{"M", m},
           {"N", n},
           {"Ka", packed ? k / 2 : k},
           {"Kb", otherPacked ? k / 2 : k},
           {"Sk", (k + 31) / 32}},
          {},
          with,
          std::string("a=") + a + ",b=" + b};
}

TEST_P(MxMatmul, AnyExtents) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *dtype : {"f8e4m3", "u8"})
    for (const auto &[m, n, k] : {std::tuple{1, 1, 2},
                                  {65, 1, 34},
                                  {1, 129, 126},
                                  {63, 64, 130},
                                  {17, 257, 256},
                                  {3, 5, 0},
                                  {0, 5, 32}})
      expectRight(device, mx(m, n, k, dtype, dtype));
  expectRight(device, mx(5, 7, 33));
}

TEST_P(MxMatmul, OperandsAndResults) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *a : {"f8e4m3", "f8e5m2", "u8"})
    for (const char *b : {"f8e4m3", "f8e5m2", "u8"})
      for (const char *out : {"bf16", "f16", "f32"}) {
        KernelCase test = mx(33, 70, 200, a, b, {"bias"});
        // No sum is beyond f16.
        test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
          for (const char *name : {"a_scales", "b_scales"})
            for (std::uint8_t &scale : inputs[call.index(name)].as<std::uint8_t>())
              scale = static_cast<std::uint8_t>(scale - 8);
        };
        test.options.emplace_back("out", out);
        expectRight(device, test);
      }
}

TEST_P(MxMatmul, Activated) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *activation : {"relu", "gelu", "silu"}) {
    KernelCase test = mx(33, 70, 100, "f8e4m3", "u8");
    test.options.emplace_back("activation", activation);
    expectRight(device, test);
  }
}

TEST_P(MxMatmul, DepthsOfSteps) {
  for (const std::int64_t k : {32, 128}) {
    KernelCase test = mx(33, 70, 200, "f8e4m3", "u8");
    test.config = {{"k", k}, {"m", 32}, {"n", 64}};
    expectRight(device, test);
  }
}

// As with many rows and columns.
TEST_P(MxMatmul, DecodedApart) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const auto decoded = [](KernelCase test) {
    test.config = {{"decode_first", 1}, {"m", 64}, {"n", 64}, {"k", 16}};
    return test;
  };
  for (const char *a : {"f8e4m3", "f8e5m2", "u8"})
    for (const char *b : {"f8e4m3", "f8e5m2", "u8"})
      expectRight(device, decoded(mx(33, 70, 200, a, b, {"bias"})));
  for (const auto &[m, n, k] : {std::tuple{1, 1, 2}, {65, 1, 34}, {3, 5, 0}, {0, 5, 32}})
    expectRight(device, decoded(mx(m, n, k, "u8", "u8")));
  expectRight(device, decoded(mx(5, 7, 33)));
  expectRightWithStrides(device, decoded(mx(33, 70, 100, "u8", "f8e4m3", {"bias"})));
  KernelCase persistent = decoded(mx(130, 260, 96, "u8", "f8e4m3"));
  persistent.config.insert({{"persistent", 1}, {"programs", 3}, {"warps", 4}});
  expectRight(device, persistent);
  const auto byDefault = [](std::int64_t rows) {
    return completeConfig(resolveCase(mx(rows, 4096, 4096)), "sm_90a", {}).at("decode_first");
  };
  EXPECT_EQ(byDefault(64), 0);
  EXPECT_EQ(byDefault(512), 1);
}

TEST_P(MxMatmulEverywhere, Right) {
  for (const char *a : {"f8e4m3", "u8"})
    for (const char *b : {"f8e5m2", "u8"})
      expectRight(device, mx(20, 40, 100, a, b, {"bias"}));
}

TEST_P(MxMatmul, Strides) {
  for (const char *dtype : {"f8e4m3", "u8"})
    expectRightWithStrides(device, mx(33, 70, 100, dtype, dtype, {"bias"}));
}

TEST_P(MxMatmul, WholeNumbersAreExact) {
  for (const auto &[dtype, decodeFirst] :
       {std::pair{"f8e4m3", 0}, {"u8", 0}, {"f8e4m3", 1}, {"u8", 1}}) {
    KernelCase test = mx(33, 70, 200, dtype, "f8e5m2");
    test.config = {{"decode_first", decodeFirst}};
    test.options.emplace_back("out", "f32");
    test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
      for (std::size_t i = 0; i < 2; ++i)
        if (inputs[i].dtype != DType::uint8) // halves of whole numbers are exact, too
          fillIntegers(inputs[i], 3, i + 1);
      for (std::size_t i = 2; i < 4; ++i)
        for (std::uint8_t &scale : inputs[i].as<std::uint8_t>())
          scale = static_cast<std::uint8_t>(126 + scale % 3);
    };
    expectExact(device, test);
  }
}

// The scale 255 makes its row of a, and its column of b, NaN, and nothing else.
TEST_P(MxMatmul, NanScales) {
  for (const auto &[dtype, decodeFirst] :
       {std::pair{"f8e4m3", 0}, {"u8", 0}, {"f8e4m3", 1}, {"u8", 1}}) {
    KernelCase test = mx(5, 7, 100, dtype, dtype);
    test.config = {{"decode_first", decodeFirst}};
    test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
      inputs[2].as<std::uint8_t>()[2 * 4 + 3] = 255;
      inputs[3].as<std::uint8_t>()[4 * 4 + 1] = 255;
    };
    const auto c = expectRight(device, test)[0].to_double();
    for (std::size_t i = 0; i < c.size(); ++i)
      EXPECT_EQ(std::isnan(c[i]), i / 7 == 2 || i % 7 == 4) << i;
  }
}

// 6 * 2^1 * -1.5 * 2^-1 + 0.5 * 2^1 * 4 * 2^-1, and a number of the second block.
TEST(MxReference, ByHand) {
  const Invocation call = resolveCase(mx(1, 1, 34, "u8", "u8"));
  HostArray a(DType::uint8, {1, 17}), b(DType::uint8, {1, 17});
  a.as<std::uint8_t>()[0] = 0x17;  // 6, 0.5
  b.as<std::uint8_t>()[0] = 0x6b;  // -1.5, 4
  a.as<std::uint8_t>()[16] = 0x20; // 0, 1
  b.as<std::uint8_t>()[16] = 0x50; // 0, 3
  const std::vector<HostArray> inputs{
      a, b, HostArray(DType::uint8, {1, 2}, std::vector<double>{128, 127}),
      HostArray(DType::uint8, {1, 2}, std::vector<double>{126, 130}), HostArray()};
  EXPECT_EQ(referenceOutputs(call, inputs, Arithmetic::exact)[0].to_double()[0],
            6 * -1.5 + 0.5 * 4 + 1 * 3 * 8.0);
}

TEST(MxHarness, CatchesAScaleOfTheNextBlock) {
  const FilledCall right = fill({"mx_matmul"});
  FilledCall wrong = right;
  auto scales = wrong.inputs[2].as<std::uint8_t>();
  scales[0] = static_cast<std::uint8_t>(scales[1] + 1);
  expectMistakeIsSeen(right, wrong);
}

std::string refusal(const KernelCase &test) {
  try {
    const Invocation call = resolveCase(test);
    emitKernel(call, completeConfig(call, "sm_90a", test.config), "sm_90a", "tile");
  } catch (const std::exception &error) {
    return error.what();
  }
  return "accepted";
}

TEST(MxErrors, SaySo) {
  KernelCase test = mx(4, 4, 64, "u8", "f8e4m3");
  test.extents["Kb"] = 32;
  EXPECT_THAT(refusal(test), HasSubstr("K is 64 in a, but 32 in b; u8 holds two numbers"));
  test = mx(4, 4, 64);
  test.extents["Sk"] = 3;
  EXPECT_THAT(refusal(test), HasSubstr("Sk is 3, but K has 2 blocks of 32"));
  test = mx(4, 4, 64);
  test.config = {{"k", 16}};
  EXPECT_THAT(refusal(test), HasSubstr("'k' is 16, which is no multiple of 32"));
}

} // namespace
