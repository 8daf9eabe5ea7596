// quantized_matmul: int4 and int8 codes, groups, zero points.
#include "KernelTest.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

namespace {

class QuantizedMatmul : public OnDevice {};
SECTILE_INSTANTIATE_ON(QuantizedMatmul, "virtual:sm_80,virtual:sm_90a");
class QuantizedMatmulEverywhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(QuantizedMatmulEverywhere, "interpreter,virtual:gfx942,virtual:gfx1100");

KernelCase quantized(std::int64_t m, std::int64_t n, std::int64_t k, int group, const char *dtype,
                     const std::vector<std::string> &with = {}) {
  const bool packed = !strstr(dtype, "i8");
  return {"quantized_matmul",
          {{"M", m}, {"N", n}, {"K", k}, {"W", packed ? k / 2 : k}, {"S", (k + group - 1) / group}},
          {{"group", std::to_string(group)}},
          with,
          dtype};
}

TEST_P(QuantizedMatmul, AnyExtents) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *dtype : {"f16", "f16,w=i8"})
    for (const auto &[m, n, k] : {std::tuple{1, 1, 2},
                                  {1, 65, 34},
                                  {15, 64, 128},
                                  {17, 63, 130},
                                  {65, 7, 254},
                                  {3, 5, 0},
                                  {0, 5, 32}})
      expectRight(device, quantized(m, n, k, 128, dtype, {"zeros"}));
}

TEST_P(QuantizedMatmul, GroupsAndZeros) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *dtype : {"f16", "f16,w=i8"})
    for (const int group : {16, 32, 48, 128})
      for (const auto &with : {std::vector<std::string>{}, {"zeros", "bias"}})
        expectRight(device, quantized(20, 33, 200, group, dtype, with));
  for (const char *dtype : {"bf16", "bf16,w=i8"})
    for (const char *with : {"zeros", "bias"})
      expectRight(device, quantized(20, 33, 200, 32, dtype, {with}));
}

// Steps that splits do not divide, and fewer than there are splits.
TEST_P(QuantizedMatmul, Splits) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const int splits : {2, 3, 8})
    for (const char *dtype : {"f16", "bf16,w=i8"}) {
      KernelCase test = quantized(20, 70, 200, 32, dtype, {"zeros", "bias"});
      test.config = {{"m", 32}, {"n", 32}, {"k", 32}, {"splits", splits}};
      expectRight(device, test);
    }
  const Config few =
      completeConfig(resolveCase(quantized(1, 4096, 4096, 128, "f16")), "sm_90a", {});
  EXPECT_EQ(few.at("splits"), 4);
}

// As with many rows: no step of the product need lie in one group.
TEST_P(QuantizedMatmul, DecodedApart) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *dtype : {"f16", "bf16,w=i8"})
    for (const int group : {16, 48, 128}) {
      KernelCase test = quantized(20, 33, 200, group, dtype, {"zeros", "bias"});
      test.config = {{"decode_first", 1}, {"k", 32}};
      expectRight(device, test);
      test.with.clear();
      expectRight(device, test);
    }
  const auto byDefault = [](std::int64_t rows, const char *target) {
    return completeConfig(resolveCase(quantized(rows, 4096, 4096, 64, "f16")), target, {})
        .at("decode_first");
  };
  EXPECT_EQ(byDefault(128, "sm_90a"), 0);
  EXPECT_EQ(byDefault(512, "sm_90a"), 1);
  EXPECT_EQ(byDefault(512, "sm_80"), 0);
  EXPECT_EQ(byDefault(1024, "sm_80"), 1);
}

TEST_P(QuantizedMatmulEverywhere, Right) {
  for (const char *dtype : {"f16", "bf16,w=i8"})
    expectRight(device, quantized(20, 33, 200, 32, dtype, {"zeros", "bias"}));
}

TEST_P(QuantizedMatmul, Activations) {
  for (const char *activation : {"relu", "gelu", "silu"})
    expectRight(device, {"quantized_matmul", {}, {{"activation", activation}}, {"bias"}, "f16"});
}

TEST_P(QuantizedMatmul, Strides) {
  expectRightWithStrides(device, {"quantized_matmul", {}, {}, {"zeros", "bias"}, "f16"});
}

TEST_P(QuantizedMatmul, WholeNumbersAreExact) {
  KernelCase test = quantized(20, 33, 100, 32, "f16", {"zeros", "bias"});
  test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
    fillIntegers(inputs[call.index("a")], 1, 1);
    fillIntegers(inputs[call.index("scales")], 1, 2);
    fillIntegers(inputs[call.index("bias")], 3, 3);
  };
  expectExact(device, test);
}

// A weight is (code - zero) * scale: of a scale that is infinite it is NaN where code and zero are
// equal. In a group with such a scale, column 4 i + 1 has codes above zero, 4 i + 2 below, 4 i + 3
// all three; columns 4 i have finite scales.
KernelCase withScale(double scale, const char *dtype, const std::vector<std::string> &with) {
  KernelCase test = quantized(20, 33, 200, 32, dtype, with);
  test.prepare = [=](const Invocation &call, std::vector<HostArray> &inputs) {
    const auto fill = [&](const char *name, const auto &valueAt) {
      HostArray &array = inputs[call.index(name)];
      std::vector<double> values(static_cast<std::size_t>(array.count()));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = valueAt(static_cast<std::int64_t>(i));
      array.assign(values);
    };
    const std::int64_t groups = call.extent("S"), depth = call.extent("K");
    const bool packed = call.dtype("w") == DType::uint8;
    const std::int64_t zero = call.has("zeros") ? 5 : packed ? 8 : 0;
    const auto codeAt = [&](std::int64_t at) {
      const std::int64_t column = at / depth, p = at % depth, kind = column % 4,
                         away = kind == 0 || kind == 3 ? p % 3 - 1
                                : kind == 1            ? 1
                                                       : -1;
      return zero + away * (1 + p % 4);
    };
    fill("a", [](std::int64_t i) { return 1 + i % 2; });
    fill("w", [&](std::int64_t i) {
      return packed ? codeAt(2 * i) | codeAt(2 * i + 1) << 4 : codeAt(i);
    });
    fill("scales", [&](std::int64_t i) {
      const std::int64_t column = i / groups;
      return column % 4 && i % groups == column % groups ? scale : 0.5;
    });
    if (call.has("zeros"))
      fill("zeros", [&](std::int64_t) { return zero; });
  };
  return test;
}

TEST_P(QuantizedMatmul, ScalesThatAreNotFinite) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const char *dtype : {"f16", "f16,w=i8"})
    for (const auto &with : {std::vector<std::string>{}, {"zeros", "bias"}})
      for (const double scale : {infinity, std::nan("")}) {
        const auto c = expectRight(device, withScale(scale, dtype, with))[0].to_double();
        const bool known = std::isinf(scale);
        EXPECT_TRUE(std::isfinite(c[0]));
        EXPECT_TRUE(known ? c[1] == infinity : std::isnan(c[1])) << c[1];
        EXPECT_TRUE(known ? c[2] == -infinity : std::isnan(c[2])) << c[2];
        EXPECT_TRUE(std::isnan(c[3])) << c[3];
      }
}

// Codes and their order by hand: 0x3A holds 10, then 3.
TEST(QuantizedReference, ByHand) {
  const Invocation call = resolveCase(quantized(1, 1, 2, 16, "f16"));
  const std::vector<HostArray> inputs{
      HostArray(DType::float16, {1, 2}, std::vector<double>{1, 100}),
      HostArray(DType::uint8, {1, 1}, std::vector<double>{0x3A}),
      HostArray(DType::float16, {1, 1}, std::vector<double>{0.5}), HostArray(), HostArray()};
  EXPECT_EQ(referenceOutputs(call, inputs, Arithmetic::exact)[0].to_double()[0],
            (10 - 8) * 0.5 + 100 * (3 - 8) * 0.5);
}

TEST(QuantizedHarness, CatchesSwappedHalves) {
  const Invocation call = resolveCase({"quantized_matmul"});
  const auto inputs = sampleInputs(call, 1);
  auto swapped = inputs;
  for (std::byte &code : swapped[1].data)
    code = code << 4 | code >> 4;
  EXPECT_FALSE(
      check(call, inputs, referenceOutputs(call, swapped, Arithmetic::own))[0].accuracy.ok());
}

std::string refusal(const KernelCase &test) {
  try {
    resolveCase(test);
  } catch (const std::exception &error) {
    return error.what();
  }
  return "accepted";
}

TEST(QuantizedErrors, SaySo) {
  EXPECT_THAT(refusal(quantized(4, 4, 33, 16, "f16")), HasSubstr("two codes go into a byte"));
  EXPECT_THAT(refusal(quantized(4, 4, 64, 24, "f16")), HasSubstr("a positive multiple of 16"));
  KernelCase test = quantized(4, 4, 64, 32, "f16");
  test.extents["S"] = 3;
  EXPECT_THAT(refusal(test), HasSubstr("2 groups of 32 cover K = 64"));
}

} // namespace
