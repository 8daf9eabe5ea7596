// scaled_matmul: fp8 and int8 operands with scales for blocks.
#include "KernelTest.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

namespace {

class ScaledMatmul : public OnDevice {};
SECTILE_INSTANTIATE_ON(ScaledMatmul, "virtual:sm_80,virtual:sm_90a");
class ScaledMatmulEverywhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(ScaledMatmulEverywhere, "interpreter,virtual:gfx942,virtual:gfx1100");

KernelCase scaled(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t depth,
                  std::int64_t width, const char *dtype = "f8e4m3",
                  const std::vector<std::string> &with = {}) {
  return {"scaled_matmul",
          {{"M", m},
           {"N", n},
           {"K", k},
           {"Sk", (k + depth - 1) / depth},
           {"Sn", (n + width - 1) / width}},
          {{"block_k", std::to_string(depth)}, {"block_n", std::to_string(width)}},
          with,
          dtype};
}

TEST_P(ScaledMatmul, AnyExtents) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const auto &[m, n, k] : {std::tuple{1, 1, 1},
                                {65, 1, 33},
                                {1, 129, 127},
                                {63, 64, 129},
                                {17, 257, 256},
                                {3, 5, 0},
                                {0, 5, 32}})
    expectRight(device, scaled(m, n, k, 128, 128));
}

TEST_P(ScaledMatmul, BlocksDtypesAndResults) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *dtype : {"f8e4m3", "f8e5m2", "i8"})
    for (const auto &[depth, width] : {std::pair{32, 1}, {64, 48}, {128, 128}, {96, 1000}})
      for (const char *out : {"bf16", "f32"}) {
        KernelCase test = scaled(33, 150, 200, depth, width, dtype, {"bias"});
        test.options.emplace_back("out", out);
        expectRight(device, test);
      }
}

TEST_P(ScaledMatmul, EitherOrderOfBAndActivated) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *activation : {"relu", "gelu", "silu"}) {
    KernelCase test = scaled(33, 150, 200, 128, 128, "f8e4m3", {"bias"});
    test.options.emplace_back("trans_b", activation[0] == 'g' ? "true" : "false");
    test.options.emplace_back("activation", activation);
    test.options.emplace_back("out", "f16");
    expectRight(device, test);
  }
}

TEST_P(ScaledMatmulEverywhere, Right) {
  for (const char *dtype : {"f8e4m3", "i8"})
    for (const char *transposed : {"true", "false"}) {
      KernelCase test = scaled(33, 70, 100, 64, 32, dtype, {"bias"});
      test.options.emplace_back("trans_b", transposed);
      expectRight(device, test);
    }
}

TEST_P(ScaledMatmulEverywhere, RowsThatShareScales) {
  for (const char *dtype : {"f8e4m3", "i8"})
    for (const std::int64_t m : {1, 33}) {
      KernelCase test = scaled(m, 70, 100, 64, 32, dtype);
      test.single = {"a_scales"};
      expectRight(device, test);
    }
}

TEST_P(ScaledMatmul, Strides) {
  KernelCase test = scaled(33, 70, 100, 64, 32, "f8e4m3", {"bias"});
  expectRightWithStrides(device, test);
}

TEST_P(ScaledMatmul, WholeNumbersAreExact) {
  for (const char *dtype : {"f8e4m3", "i8"}) {
    KernelCase test = scaled(33, 70, 200, 64, 32, dtype);
    test.options.emplace_back("out", "f32");
    test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
      for (std::size_t i = 0; i < 4; ++i)
        fillIntegers(inputs[i], 3, i + 1);
    };
    expectExact(device, test);
  }
}

// Blocks that splits do not divide, fewer than there are splits, and none.
TEST_P(ScaledMatmul, SplitsShareBlocks) {
  for (const int splits : {2, 3, 8})
    for (const std::int64_t k : {0, 96, 330}) {
      KernelCase test = scaled(40, 150, k, 64, 32, splits == 3 ? "i8" : "f8e4m3", {"bias"});
      test.config = {{"m", 64}, {"n", 64}, {"k", 32}, {"splits", splits}};
      test.options.emplace_back("activation", "gelu");
      test.options.emplace_back("trans_b", splits == 8 ? "false" : "true");
      expectRight(device, test);
    }
  const Invocation call = resolveCase(scaled(219, 256, 22016, 128, 128));
  EXPECT_EQ(call.kernel->defaults(call, "sm_90a").at("splits"), 16);
}

// Two blocks of K with scales of their own, by hand.
TEST(ScaledReference, ByHand) {
  KernelCase test = scaled(1, 1, 33, 32, 1);
  const Invocation call = resolveCase(test);
  std::vector<double> a(33), b(33);
  a[0] = 2;
  b[0] = 3;
  a[32] = 4;
  b[32] = 5;
  const std::vector<HostArray> inputs{
      HostArray(DType::float8_e4m3, {1, 33}, a), HostArray(DType::float8_e4m3, {33, 1}, b),
      HostArray(DType::float32, {1, 2}, std::vector<double>{10, 100}),
      HostArray(DType::float32, {2, 1}, std::vector<double>{0.5, 0.25}), HostArray()};
  EXPECT_EQ(referenceOutputs(call, inputs, Arithmetic::exact)[0].to_double()[0],
            2 * 3 * 10 * 0.5 + 4 * 5 * 100 * 0.25);
}

TEST(ScaledHarness, CatchesAScaleOfTheNextBlock) {
  const Invocation call = resolveCase({"scaled_matmul"});
  const auto inputs = sampleInputs(call, 1);
  auto other = inputs;
  auto scales = other[3].as<float>();
  std::swap(scales[0], scales[1]);
  EXPECT_FALSE(
      check(call, inputs, referenceOutputs(call, other, Arithmetic::own))[0].accuracy.ok());
}

std::string refusal(const KernelCase &test) {
  try {
    resolveCase(test);
  } catch (const std::exception &error) {
    return error.what();
  }
  return "accepted";
}

TEST(ScaledErrors, SaySo) {
  EXPECT_THAT(refusal(scaled(4, 4, 33, 48, 1)), HasSubstr("a positive multiple of 32, not 48"));
  KernelCase test = scaled(4, 4, 64, 32, 1);
  test.extents["Sk"] = 3;
  EXPECT_THAT(refusal(test), HasSubstr("Sk is 3, but K has 2 blocks"));
}

} // namespace
