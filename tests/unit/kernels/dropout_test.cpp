// dropout and dropout_backward.
#include "KernelTest.h"
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

SECTILE_ON_DEVICES(Dropout);
class DropoutOnChips : public OnDevice {};
SECTILE_INSTANTIATE_ON(DropoutOnChips, "virtual:sm_80,virtual:sm_90a");

TEST_P(Dropout, EveryTypeAndSeed) {
  for (const char *kernel : {"dropout", "dropout_backward"})
    for (const char *dtype : {"f32", "f16", "bf16"})
      for (const char *seed : {"0", "-1", "81985529216486895"})
        expectRight(device, {kernel, {{"...", 1500}}, {{"p", "0.3"}, {"seed", seed}}, {}, dtype});
}

TEST_P(DropoutOnChips, AnyLength) {
  for (const char *kernel : {"dropout", "dropout_backward"})
    for (std::int64_t n : {0, 1, 3, 1023, 1025, 4000}) {
      expectRight(device, {kernel, {{"...", n}}});
      expectRightWithStrides(device, {kernel, {{"...", n}}});
    }
}

TEST_P(DropoutOnChips, NoneAndAll) {
  for (const char *p : {"0", "1"}) {
    const auto y = expectRight(
        device,
        {.kernel = "dropout", .options = {{"p", p}}, .prepare = [](const Invocation &, auto &in) {
           fillIntegers(in[0], 5, 1);
           if (in[0].count() > 3)
             in[0].template as<float>()[3] = 7;
         }});
    EXPECT_EQ(y[0].as<float>()[3], p[0] == '0' ? 7.0f : 0.0f);
  }
}

// What is left out is 0 even where it was NaN.
TEST_P(DropoutOnChips, NanIsLeftOut) {
  expectRight(device, {.kernel = "dropout", .prepare = [](const Invocation &, auto &in) {
                         for (float &value : in[0].template as<float>())
                           value = NAN;
                       }});
}

// The mask is that of the elements' places, however they lie and whatever the configuration.
TEST_P(DropoutOnChips, OneMaskForAllStridesAndConfigurations) {
  constexpr std::int64_t m = 30, n = 77;
  const auto ones = device.upload(std::vector<float>(2 * m * n, 1.0f));
  const KernelOptions options{{"p", "0.4"}, {"seed", "5"}};
  auto run = [&](std::int64_t step, std::int64_t next) {
    const Tensor<float, 2> x(ones.data(), {m, n}, {step, next}, ones.memory());
    const auto y = run_kernel(device.stream(), "dropout", {{"x", x}}, options).at("y");
    return Buffer<float>(y.memory).download();
  };
  const std::vector<float> dense = run(n, 1);
  EXPECT_EQ(run(2 * n, 1), dense);
  EXPECT_EQ(run(1, m), dense);
  const auto kept = std::count_if(dense.begin(), dense.end(), [](float v) { return v != 0; });
  EXPECT_NEAR(static_cast<double>(kept) / (m * n), 0.6, 0.04);
  for (std::int64_t size : {128, 256, 2048})
    expectRight(device, {"dropout", {}, {}, {}, "", {{"size", size}}});
}

TEST(DropoutMask, ChangesWithSeedAndPlace) {
  const Invocation call = resolveCase({"dropout", {{"...", 4000}}});
  const HostArray ones(DType::float64, {4000}, std::vector<double>(4000, 1.0));
  const auto first = referenceOutputs(call, std::vector{ones}, Arithmetic::exact)[0].toDouble();
  const Invocation other = resolveCase({"dropout", {{"...", 4000}}, {{"seed", "1"}}});
  const auto second = referenceOutputs(other, std::vector{ones}, Arithmetic::exact)[0].toDouble();
  long same = 0;
  for (std::size_t i = 0; i < 4000; ++i) {
    EXPECT_TRUE(first[i] == 0 || first[i] == 2);
    same += first[i] == second[i];
  }
  EXPECT_NEAR(static_cast<double>(same), 2000, 150);
  EXPECT_FALSE(std::equal(first.begin(), first.begin() + 2000, first.begin() + 2000));
}

TEST(DropoutGradients, AgainstCentralDifferences) {
  for (const char *p : {"0", "0.3", "1"})
    expectGradients({"dropout", {{"...", 24}}, {{"p", p}, {"seed", "9"}}}, "dropout_backward");
}

TEST(DropoutErrors, ProbabilitiesAreFromZeroToOne) {
  for (const char *p : {"-0.1", "1.1"})
    EXPECT_THROW(resolveCase({"dropout", {}, {{"p", p}}}), std::exception);
}
