// cross_entropy and cross_entropy_backward.
#include "KernelTest.h"
#include "kernels/calls/Use.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;

SECTILE_ON_DEVICES(CrossEntropy);
class CrossEntropyOnChips : public OnDevice {};
SECTILE_INSTANTIATE_ON(CrossEntropyOnChips, "virtual:sm_80,virtual:sm_90a");

namespace {

constexpr const char *kernels[] = {"cross_entropy", "cross_entropy_backward"};

const std::vector<Assignments> variants{
    {},
    {{"reduction", "none"}},
    {{"reduction", "sum"}, {"label_smoothing", "0.1"}},
    {{"lse_square", "0.01"}, {"ignore_index", "3"}},
    {{"label_smoothing", "1"}, {"lse_square", "0.5"}, {"reduction", "none"}},
    {{"label_smoothing", "0.3"}, {"ignore_index", "0"}},
};

void ignoreAll(HostArray &targets) {
  targets.assign(std::vector<double>(static_cast<std::size_t>(targets.count()), -100));
}

} // namespace

TEST_P(CrossEntropy, EveryTypeAndOption) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : kernels)
    for (std::size_t i = 0; i < variants.size(); ++i)
      expectRight(device, {kernel,
                           {{"...", 7}, {"V", 300}},
                           variants[i],
                           {},
                           i % 3 == 0   ? "f32"
                           : i % 3 == 1 ? "f16"
                                        : "bf16"});
}

TEST_P(CrossEntropyOnChips, AnyShape) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : kernels) {
    for (std::int64_t v : {1, 2, 31, 33, 128, 1025})
      expectRight(device,
                  {kernel, {{"...", 3}, {"V", v}}, variants[static_cast<std::size_t>(v) % 6]});
    for (std::int64_t rows : {1, 65, 2100})
      expectRight(device, {kernel, {{"...", rows}, {"V", 5}}});
    expectRight(device, {kernel, {{"...", 0}, {"V", 40}}, {{"reduction", "none"}}});
    expectRight(device, {kernel, {{"...", 0}, {"V", 40}}});
    for (const Assignments &options : {variants[0], variants[1]})
      expectRightWithStrides(device, {kernel, {{"...", 6}, {"V", 33}}, options});
  }
}

TEST_P(CrossEntropyOnChips, ManyClasses) {
  for (const char *kernel : kernels) {
    expectRight(device, {kernel, {{"...", 2}, {"V", 5001}}, variants[2], {}, "f16"});
    expectRight(
        device,
        {kernel, {{"...", 5}, {"V", 700}}, variants[5], {}, "", {{"block", 128}, {"rows", 2}}});
  }
}

TEST_P(CrossEntropyOnChips, TargetsOf32Bits) {
  for (const char *kernel : kernels) {
    const KernelSpec &spec = findKernel(kernel);
    std::map<std::string, GivenTensor> types;
    const Invocation usual = resolveCase({kernel});
    for (std::size_t i = 0; i < spec.arguments.size(); ++i)
      if (!spec.arguments[i].output)
        types[spec.arguments[i].name] = {usual.tensors[i], ""};
    types["targets"].type.dtype = DType::int32;
    const Invocation call = resolve(spec, types, {});
    const auto inputs = sampleInputs(call, 3);
    const auto outputs =
        execute(device, call, completeConfig(call, device.target(), {}), inputs).outputs;
    for (const Verdict &verdict : check(call, inputs, outputs))
      EXPECT_TRUE(verdict.accuracy.ok()) << verdict.output << verdict.accuracy.describe();
  }
}

// Each program counts the targets of a mean where they are few.
TEST_P(CrossEntropyOnChips, OneLaunchOfFewTargets) {
  for (const auto &[rows, launches] : {std::pair{1000, 1u}, {1400, 2u}}) {
    const KernelCase test{"cross_entropy_backward", {{"...", rows}, {"V", 40}}};
    const Invocation call = resolveCase(test);
    EXPECT_EQ(bindKernel(call, completeConfig(call, device.target(), {})).launches.size(), launches)
        << rows;
    expectRight(device, test);
  }
}

// No loss and no gradient, whatever the row holds; the mean over none is 0/0, as in PyTorch.
TEST_P(CrossEntropyOnChips, IgnoredRows) {
  for (const char *reduction : {"none", "sum", "mean"})
    for (const char *kernel : kernels) {
      const auto out = expectRight(device, {.kernel = kernel,
                                            .options = {{"reduction", reduction}},
                                            .prepare = [](const Invocation &, auto &in) {
                                              ignoreAll(in[1]);
                                              in[0].template as<float>()[5] = NAN;
                                            }});
      for (float value : out[0].as<float>()) {
        if (kernel == kernels[0] && reduction == std::string("mean"))
          EXPECT_TRUE(std::isnan(value));
        else
          EXPECT_EQ(value, 0.0f);
      }
    }
}

TEST_P(CrossEntropyOnChips, InfinitiesAndHugeLogits) {
  for (const char *kernel : kernels)
    for (const char *smoothing : {"0", "0.1"})
      expectRight(device, {.kernel = kernel,
                           .options = {{"reduction", "none"}, {"label_smoothing", smoothing}},
                           .prepare = [](const Invocation &, auto &in) {
                             auto logits = in[0].template as<float>();
                             for (std::size_t i = 0; i < 300; ++i) {
                               logits[i] = -INFINITY;  // nothing but -inf
                               logits[300 + i] *= 1e4; // one class has it all
                               logits[600 + i] += 5e4; // only differences count
                             }
                             logits[900] = -INFINITY;
                             logits[1200] = INFINITY;
                           }});
}

TEST_P(CrossEntropyOnChips, TargetsThatAreNoClassAreReported) {
  for (double target : {300.0, -1.0}) {
    const Invocation call = resolveCase({"cross_entropy"});
    auto inputs = sampleInputs(call, 1);
    inputs[1].assign(std::vector<double>{0, 1, target, 2, 3});
    EXPECT_THROW(execute(device, call, completeConfig(call, device.target(), {}), inputs),
                 AssertionError);
  }
}

// The mean over all targets, ignored ones among them; a gradient in an ignored row.
TEST(CrossEntropyJudge, CatchesPlantedMistakes) {
  const Invocation forward = resolveCase({"cross_entropy"});
  std::vector<HostArray> in = sampleInputs(forward, 1);
  in[1].as<std::int64_t>()[2] = -100;
  std::vector<HostArray> out = referenceOutputs(forward, in, Arithmetic::own);
  EXPECT_TRUE(check(forward, in, out)[0].accuracy.ok());
  const auto targets = in[1].as<std::int64_t>();
  const auto ignored = std::count(targets.begin(), targets.end(), -100);
  out[0].as<float>()[0] *= static_cast<float>(5 - ignored) / 5;
  EXPECT_FALSE(check(forward, in, out)[0].accuracy.ok());

  const Invocation backward = resolveCase({"cross_entropy_backward"});
  in = sampleInputs(backward, 1);
  in[1].as<std::int64_t>()[2] = -100;
  out = referenceOutputs(backward, in, Arithmetic::own);
  EXPECT_TRUE(check(backward, in, out)[0].accuracy.ok());
  out[0].as<float>()[2 * 300 + 7] = out[0].as<float>()[7];
  EXPECT_FALSE(check(backward, in, out)[0].accuracy.ok());
}

TEST(CrossEntropyGradients, AgainstCentralDifferences) {
  for (const Assignments &options : variants)
    for (std::int64_t v : {1, 2, 10})
      expectGradients({"cross_entropy", {{"...", 4}, {"V", v}}, options}, "cross_entropy_backward");
  std::mt19937 random(7);
  const char *reductions[] = {"mean", "sum", "none"}, *numbers[] = {"0", "0.2", "0.9"};
  for (int i = 0; i < 8; ++i)
    expectGradients({.kernel = "cross_entropy",
                     .extents = {{"...", 6}, {"V", 4}},
                     .options = {{"reduction", reductions[random() % 3]},
                                 {"label_smoothing", numbers[random() % 3]},
                                 {"lse_square", numbers[random() % 3]},
                                 {"ignore_index", random() % 2 ? "1" : "-100"}},
                     .seed = random()},
                    "cross_entropy_backward");
}

// Rows 0, log 3 and 0, 0 with class 1 and 0: losses log 4 - log 3 and log 2.
TEST(CrossEntropyReference, ByHand) {
  const HostArray logits(DType::float64, {2, 2}, std::vector<double>{0, std::log(3), 0, 0});
  const HostArray targets(DType::int64, {2}, std::vector<double>{1, 0});
  auto loss = [&](Assignments options) {
    const Invocation call = resolveCase({"cross_entropy", {{"...", 2}, {"V", 2}}, options});
    return referenceOutputs(call, std::vector{logits, targets}, Arithmetic::exact)[0].to_double();
  };
  using testing::DoubleNear;
  using testing::ElementsAre;
  const double first = std::log(4) - std::log(3), second = std::log(2), e = 1e-14;
  EXPECT_THAT(loss({{"reduction", "none"}}),
              ElementsAre(DoubleNear(first, e), DoubleNear(second, e)));
  EXPECT_THAT(loss({}), ElementsAre(DoubleNear((first + second) / 2, e)));
  EXPECT_THAT(loss({{"ignore_index", "0"}}), ElementsAre(DoubleNear(first, e)));
  EXPECT_THAT(loss({{"reduction", "sum"}, {"ignore_index", "1"}, {"lse_square", "2"}}),
              ElementsAre(DoubleNear(second + 2 * second * second, e)));
  // Half of the labels spread evenly: half of lse - mean(x).
  EXPECT_THAT(loss({{"reduction", "none"}, {"label_smoothing", "0.5"}}),
              ElementsAre(DoubleNear(first / 2 + (std::log(4) - std::log(3) / 2) / 2, e),
                          DoubleNear(second, e)));
}
