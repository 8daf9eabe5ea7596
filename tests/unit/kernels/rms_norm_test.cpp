// rms_norm and rms_norm_backward, with and without weights and a residual.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

SECTILE_ON_DEVICES(RmsNorm);
class RmsNormOnChips : public OnDevice {};
SECTILE_INSTANTIATE_ON(RmsNormOnChips, "virtual:sm_80,virtual:sm_90a");

namespace {
const std::vector<std::vector<std::string>> residuals{{"w"}, {"w", "residual"}, {"residual"}, {}};
const std::vector<std::vector<std::string>> gradients{
    {"w"}, {"h"}, {"w", "dh"}, {"w", "h", "dh"}, {}};
} // namespace

TEST_P(RmsNorm, ForwardAndBackward) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *dtype : {"f32", "f16", "bf16"}) {
    for (const auto &with : residuals)
      expectRight(device, {"rms_norm", {{"...", 19}, {"N", 300}}, {}, with, dtype});
    for (const auto &with : gradients)
      expectRight(device, {"rms_norm_backward", {{"...", 19}, {"N", 300}}, {}, with, dtype});
  }
}

TEST_P(RmsNorm, WeightOffset) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const Assignments options{{"weight_offset", "1"}};
  for (const char *dtype : {"f32", "f16", "bf16"}) {
    for (const auto &with : residuals)
      expectRight(device, {"rms_norm", {{"...", 19}, {"N", 300}}, options, with, dtype});
    for (const auto &with : gradients)
      expectRight(device, {"rms_norm_backward", {{"...", 19}, {"N", 300}}, options, with, dtype});
  }
  for (const char *kernel : {"rms_norm", "rms_norm_backward"})
    expectRight(
        device,
        {kernel, {{"...", 5}, {"N", 700}}, options, {"w"}, "", {{"block", 256}, {"rows", 2}}});
}

TEST_P(RmsNormOnChips, RowsOfEveryLength) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (std::int64_t n : {0, 1, 31, 32, 33, 128, 1025}) {
    expectRight(device, {"rms_norm", {{"...", 3}, {"N", n}}, {}, residuals[n % 4]});
    expectRight(device, {"rms_norm_backward", {{"...", 3}, {"N", n}}, {}, gradients[n % 5]});
  }
}

TEST_P(RmsNormOnChips, AnyNumberOfRows) {
  for (std::int64_t rows : {0, 1, 2, 65}) {
    expectRight(device, {"rms_norm", {{"...", rows}, {"N", 40}}, {}, residuals[rows % 2]});
    expectRight(device, {"rms_norm_backward", {{"...", rows}, {"N", 40}}, {}, gradients[3]});
  }
}

TEST_P(RmsNormOnChips, RowsBeyondABlock) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  expectRight(device, {"rms_norm", {{"...", 3}, {"N", 9001}}, {}, residuals[1], "f16"});
  for (const auto &with : residuals)
    expectRight(
        device,
        {"rms_norm", {{"...", 5}, {"N", 700}}, {}, with, "", {{"block", 256}, {"rows", 2}}});
  for (const auto &with : gradients)
    expectRight(device, {"rms_norm_backward",
                         {{"...", 9}, {"N", 700}},
                         {},
                         with,
                         "",
                         {{"block", 256}, {"rows", 2}}});
}

TEST_P(RmsNormOnChips, Strides) {
  for (std::int64_t n : {33, 256}) {
    expectRightWithStrides(device, {"rms_norm", {{"...", 6}, {"N", n}}, {}, residuals[1]});
    expectRightWithStrides(device, {"rms_norm_backward", {{"...", 6}, {"N", n}}, {}, gradients[3]});
  }
}

TEST_P(RmsNormOnChips, IntegersAreExact) {
  expectExact(device, {.kernel = "rms_norm_backward",
                       .extents = {{"...", 50}, {"N", 64}},
                       .with = {"w", "dh"},
                       .prepare = [](const Invocation &, auto &in) {
                         for (std::size_t i : {0, 1, 3, 5})
                           fillIntegers(in[i], 2, i);
                         in[2].assign(std::vector<double>(50, 1.0));
                       }});
}

TEST_P(RmsNormOnChips, RowsOfZerosAndOfHugeNumbers) {
  expectRight(device, {.kernel = "rms_norm",
                       .with = {"w", "residual"},
                       .dtype = "bf16",
                       .prepare = [](const Invocation &, auto &in) {
                         std::vector<double> values = in[0].to_double();
                         for (std::size_t i = 0; i < 300; ++i) {
                           values[i] = 0;
                           values[300 + i] *= 1e15;
                           values[600 + i] *= 1e-15;
                         }
                         values[900] = INFINITY;
                         in[0].assign(values);
                       }});
}

TEST_P(RmsNormOnChips, ByName) {
  const auto numbers = device.upload(std::vector<float>{1, 2, 3, 4, 0, 0, 0, 2, 1, 1});
  auto rows = [&](std::int64_t first) {
    return Tensor<float, 2>(numbers.data() + first, {2, 2}, {2, 1}, numbers.memory());
  };
  auto x = rows(0), residual = rows(4), dy = rows(2), dh = rows(6);
  const Tensor<float, 1> w(numbers.data() + 8, {2}, {1}, numbers.memory());
  // [example]
  auto out = run_kernel(device.stream(), "rms_norm", {{"x", x}, {"w", w}, {"residual", residual}});
  auto gradients = run_kernel(
      device.stream(), "rms_norm_backward",
      {{"x", x}, {"w", w}, {"rstd", out.at("rstd")}, {"h", out.at("h")}, {"dy", dy}, {"dh", dh}});
  auto dx = gradients.at("dx").as<float, 2>(); // of x and of the residual
  // [/example]
  device.synchronize();
  EXPECT_EQ(Buffer<float>(out.at("h").memory).download(), (std::vector<float>{1, 2, 3, 6}));
  // Row 0: rstd^2 = 1/2.5, n = (1, 2) rstd, dy = (3, 4), mean(g n) = 5.5 rstd, dh = (0, 2).
  const float rstd = std::sqrt(0.4f);
  const auto result = Buffer<float>(dx.memory()).download();
  EXPECT_NEAR(result[0], rstd * (3 - 0.4f * 5.5f), 1e-4);
  EXPECT_NEAR(result[1], rstd * (4 - 2 * 0.4f * 5.5f) + 2, 1e-4);
}

TEST(RmsNormGradients, AgainstCentralDifferences) {
  for (const auto &with : residuals)
    for (const char *eps : {"1e-6", "0.5"})
      for (std::int64_t n : {1, 2, 30})
        for (const char *offset : {"0", "1"})
          expectGradients(
              {"rms_norm", {{"...", 4}, {"N", n}}, {{"eps", eps}, {"weight_offset", offset}}, with},
              "rms_norm_backward");
}

// h = 3, 4 + 1: mean of squares 17; with eps 8: rstd 1/5.
TEST(RmsNormReference, ByHand) {
  const auto numbers = [](const Shape &shape, const std::vector<double> &values) {
    return HostArray(DType::float64, shape, values);
  };
  const std::vector<HostArray> in{numbers({1, 2}, {3, 4}), numbers({2}, {10, 100}),
                                  numbers({1, 2}, {0, 1})};
  const Invocation call =
      resolveCase({"rms_norm", {{"...", 1}, {"N", 2}}, {{"eps", "8"}}, {"w", "residual"}});
  const auto out = referenceOutputs(call, in, Arithmetic::exact);
  EXPECT_EQ(out[0].to_double(), (std::vector<double>{3 * 0.2 * 10, 5 * 0.2 * 100}));
  EXPECT_EQ(out[1].to_double(), (std::vector<double>{3, 5}));
  EXPECT_EQ(out[2].to_double(), (std::vector<double>{0.2}));
  const Invocation moved = resolveCase({"rms_norm",
                                        {{"...", 1}, {"N", 2}},
                                        {{"eps", "8"}, {"weight_offset", "2"}},
                                        {"w", "residual"}});
  EXPECT_EQ(referenceOutputs(moved, in, Arithmetic::exact)[0].to_double(),
            (std::vector<double>{3 * 0.2 * 12, 5 * 0.2 * 102}));
}

// The mean of h taken away first, as layer norm does; the gradient of h itself left out.
TEST(RmsNormJudge, PlantedMistakesAreSeen) {
  const KernelCase test{"rms_norm", {{"...", 6}, {"N", 33}}, {}, {"w", "residual"}, "f16"};
  const FilledCall right = fill(test);
  FilledCall wrong = right;
  std::vector<double> x = right.inputs[0].to_double();
  const std::vector<double> residual = right.inputs[2].to_double();
  for (std::size_t row = 0; row < 6; ++row) {
    double sum = 0;
    for (std::size_t i = row * 33; i < row * 33 + 33; ++i)
      sum += x[i] + residual[i];
    for (std::size_t i = row * 33; i < row * 33 + 33; ++i)
      x[i] -= sum / 33;
  }
  wrong.inputs[0].assign(x);
  expectMistakeIsSeen(right, wrong);

  const FilledCall gradients = backwardOf(test, "rms_norm_backward");
  wrong = gradients;
  wrong.inputs[gradients.call.index("dh")].assign(std::vector<double>(6 * 33));
  expectMistakeIsSeen(gradients, wrong);
}
