// softmax and log_softmax, forward and backward.
#include "KernelTest.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;

SECTILE_ON_DEVICES(Softmax);
class SoftmaxOnChips : public OnDevice {};
SECTILE_INSTANTIATE_ON(SoftmaxOnChips, "virtual:sm_80,virtual:sm_90a");

namespace {

constexpr const char *kernels[] = {"softmax", "softmax_backward", "log_softmax",
                                   "log_softmax_backward"};

/// Four rows of six: of -inf; with a NaN; with +inf; with some -inf.
void fillSpecial(HostArray &array) {
  constexpr double inf = INFINITY;
  array.assign(std::vector<double>{-inf, -inf, -inf, -inf, -inf, -inf, 0,    NAN, 1, 2, 3,   4, 1,
                                   2,    inf,  4,    5,    6,    -inf, -inf, 0.5, 1, 2, -inf});
}

} // namespace

TEST_P(Softmax, EveryType) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : kernels)
    for (const char *dtype : {"f32", "f16", "bf16"})
      expectRight(device, {kernel, {{"...", 7}, {"N", 300}}, {}, {}, dtype});
}

TEST_P(SoftmaxOnChips, AnyShape) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : kernels) {
    for (std::int64_t n : {0, 1, 31, 33, 128, 1025})
      expectRight(device, {kernel, {{"...", 3}, {"N", n}}});
    for (std::int64_t rows : {0, 1, 65})
      expectRight(device, {kernel, {{"...", rows}, {"N", 40}}});
    for (std::int64_t n : {33, 256})
      expectRightWithStrides(device, {kernel, {{"...", 6}, {"N", n}}});
  }
}

TEST_P(SoftmaxOnChips, RowsBeyondABlock) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : kernels) {
    expectRight(device, {kernel, {{"...", 2}, {"N", 8193}}, {}, {}, "f16"});
    expectRight(device, {kernel, {{"...", 2}, {"N", 13000}}, {}, {}, "f32"});
    expectRight(device,
                {kernel, {{"...", 5}, {"N", 700}}, {}, {}, "", {{"block", 128}, {"rows", 2}}});
  }
}

// As in PyTorch; and in every way that a row is taken.
TEST_P(SoftmaxOnChips, InfinitiesAndNan) {
  for (const char *kernel : {"softmax", "log_softmax"})
    for (std::int64_t block : {2, 4, 8}) {
      const auto y = expectRight(
          device, {.kernel = kernel,
                   .extents = {{"...", 4}, {"N", 6}},
                   .config = {{"block", block}, {"rows", 1}},
                   .prepare = [](const Invocation &, auto &in) { fillSpecial(in[0]); }});
      const auto values = y[0].as<float>();
      for (std::size_t i = 0; i < 18; ++i)
        EXPECT_TRUE(std::isnan(values[i])) << i;
      for (std::size_t i = 18; i < 24; ++i)
        EXPECT_FALSE(std::isnan(values[i])) << i;
    }
}

TEST_P(SoftmaxOnChips, HugeNumbers) {
  for (const char *kernel : {"softmax", "log_softmax"})
    for (std::int64_t block : {64, 512})
      expectRight(device, {.kernel = kernel,
                           .config = {{"block", block}},
                           .prepare = [](const Invocation &, auto &in) {
                             std::vector<double> values = in[0].to_double();
                             for (double &value : values)
                               value *= 1e4;
                             in[0].assign(values);
                           }});
}

TEST(SoftmaxGradients, AgainstCentralDifferences) {
  for (std::int64_t n : {1, 2, 30}) {
    expectGradients({"softmax", {{"...", 4}, {"N", n}}}, "softmax_backward");
    expectGradients({"log_softmax", {{"...", 4}, {"N", n}}}, "log_softmax_backward");
  }
}

// x = 0, log 3: softmax is 1/4, 3/4. dy = 4, 8: sum(y dy) = 7; of the logarithms sum(dy) = 12.
TEST(SoftmaxReference, ByHand) {
  const auto numbers = [](const std::vector<double> &values) {
    return HostArray(DType::float64, {1, 2}, values);
  };
  auto run = [&](const char *kernel, const std::vector<HostArray> &in) {
    const Invocation call = resolveCase({kernel, {{"...", 1}, {"N", 2}}});
    return referenceOutputs(call, in, Arithmetic::exact)[0].to_double();
  };
  using testing::DoubleNear;
  using testing::ElementsAre;
  const double third = std::log(3), e = 1e-14;
  EXPECT_THAT(run("log_softmax", {numbers({0, third})}),
              ElementsAre(DoubleNear(-std::log(4), e), DoubleNear(third - std::log(4), e)));
  EXPECT_THAT(run("softmax_backward", {numbers({0.25, 0.75}), numbers({4, 8})}),
              ElementsAre(-0.75, 0.75));
  EXPECT_THAT(
      run("log_softmax_backward", {numbers({std::log(0.25), std::log(0.75)}), numbers({4, 8})}),
      ElementsAre(DoubleNear(1, e), DoubleNear(-1, e)));
}

// Zeros behind a row that are counted; a gradient without the row's sum.
TEST(SoftmaxJudge, PlantedMistakesAreSeen) {
  for (const char *kernel : {"softmax", "log_softmax"}) {
    const FilledCall right = fill({kernel, {{"...", 3}, {"N", 33}}, {}, {}, "f16"});
    const FilledCall longer = fill({kernel, {{"...", 3}, {"N", 34}}, {}, {}, "f16"});
    // The row goes on with a zero.
    FilledCall padded = longer;
    std::vector<double> values = right.inputs[0].to_double();
    for (std::size_t row = 3; row > 0; --row)
      values.insert(values.begin() + static_cast<std::ptrdiff_t>(row * 33), 0.0);
    padded.inputs[0].assign(values);
    const auto outputs = referenceOutputs(padded.call, padded.inputs, Arithmetic::own);
    std::vector<double> y = outputs[0].to_double();
    for (std::size_t row = 3; row > 0; --row)
      y.erase(y.begin() + static_cast<std::ptrdiff_t>(row * 34 - 1));
    const std::vector wrong{HostArray(DType::float16, right.inputs[0].shape, y)};
    EXPECT_FALSE(check(right.call, right.inputs, wrong)[0].accuracy.ok());
  }
  const FilledCall gradient = backwardOf({"softmax", {{"...", 3}, {"N", 33}}}, "softmax_backward");
  std::vector<double> y = gradient.inputs[0].to_double(), dy = gradient.inputs[1].to_double();
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] *= dy[i];
  const std::vector wrong{HostArray(DType::float32, gradient.inputs[0].shape, y)};
  EXPECT_FALSE(check(gradient.call, gradient.inputs, wrong)[0].accuracy.ok());
}
