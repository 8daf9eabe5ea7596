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

TEST_P(CrossEntropy, WeightsOfClasses) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : kernels)
    for (std::size_t i = 0; i < variants.size(); ++i)
      expectRight(device, {kernel,
                           {{"...", 7}, {"V", 300}},
                           variants[i],
                           {"class_weights"},
                           i % 2 ? "f16" : "f32"});
}
class CrossEntropyElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(CrossEntropyElsewhere, "virtual:gfx942,virtual:gfx1100");
TEST_P(CrossEntropyElsewhere, WeightsOfClasses) {
  for (const char *kernel : kernels)
    expectRight(device, {kernel, {{"...", 7}, {"V", 70}}, variants[5], {"class_weights"}});
  expectRight(device, {"cross_entropy", {{"...", 7}, {"V", 70}}, {{"argmax", "true"}}});
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
    expectRight(device, {kernel, {{"...", 0}, {"V", 40}}, {}, {"class_weights"}});
    for (const Assignments &options : {variants[0], variants[1]})
      expectRightWithStrides(device, {kernel, {{"...", 6}, {"V", 33}}, options});
    expectRightWithStrides(device,
                           {kernel, {{"...", 6}, {"V", 33}}, variants[5], {"class_weights"}},
                           Spread::everywhere);
  }
}

TEST_P(CrossEntropyOnChips, ManyClasses) {
  for (const char *kernel : kernels) {
    expectRight(device, {kernel, {{"...", 2}, {"V", 5001}}, variants[2], {}, "f16"});
    expectRight(
        device,
        {kernel, {{"...", 5}, {"V", 700}}, variants[5], {}, "", {{"block", 128}, {"rows", 2}}});
    expectRight(device, {kernel,
                         {{"...", 5000}, {"V", 7}},
                         variants[4],
                         {"class_weights"},
                         "",
                         {{"block", 32}, {"rows", 16}}});
    expectRight(device, {kernel,
                         {{"...", 5}, {"V", 5001}},
                         variants[3],
                         {"class_weights"},
                         "",
                         {{"block", 128}, {"rows", 2}}});
  }
}

// Of equals the first, a NaN before all, in any block of a row; and of nothing but -inf the first.
TEST_P(CrossEntropyOnChips, WhereTheLargestIs) {
  for (const std::int64_t block : {128, 1024}) {
    const auto out = expectRight(device, {"cross_entropy",
                                          {{"...", 5}, {"V", 700}},
                                          {{"argmax", "true"}, {"reduction", "none"}},
                                          {},
                                          "",
                                          {{"block", block}, {"rows", 2}},
                                          1,
                                          [](const Invocation &, auto &in) {
                                            auto logits = in[0].template as<float>();
                                            logits[300] = logits[301] = logits[650] = 50;
                                            std::fill_n(logits.begin() + 700, 700, -INFINITY);
                                            logits[1400 + 20] = logits[1400 + 500] = NAN;
                                            logits[1400 + 10] = INFINITY;
                                            logits[2100 + 699] = INFINITY;
                                            std::fill_n(logits.begin() + 2800, 700, 3.0f);
                                          }});
    EXPECT_THAT(out[2].as<std::int32_t>(), testing::ElementsAre(300, 0, 20, 699, 0));
  }
}

TEST_P(CrossEntropyOnChips, TargetsOf32Bits) {
  for (const char *kernel : kernels)
    for (const std::vector<std::string> &with : {std::vector<std::string>(), {"class_weights"}})
      expectRight(device, {kernel, {}, {}, with, "f32,targets=i32"});
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
  for (const auto &[reduction, with] :
       std::initializer_list<std::pair<const char *, std::vector<std::string>>>{
           {"none", {}},
           {"sum", {}},
           {"mean", {}},
           {"none", {"class_weights"}},
           {"mean", {"class_weights"}}})
    for (const char *kernel : kernels) {
      const auto out = expectRight(device, {.kernel = kernel,
                                            .options = {{"reduction", reduction}},
                                            .with = with,
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
  // Weights that a mean is not divided by.
  const FilledCall weighted =
      fill({"cross_entropy", {}, {{"reduction", "mean"}}, {"class_weights"}});
  FilledCall other = fill({"cross_entropy", {}, {{"reduction", "sum"}}, {"class_weights"}});
  expectMistakeIsSeen(weighted, other);

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
      for (const std::vector<std::string> &with : {std::vector<std::string>(), {"class_weights"}})
        expectGradients({"cross_entropy", {{"...", 4}, {"V", v}}, options, with},
                        "cross_entropy_backward");
  std::mt19937 random(7);
  const char *reductions[] = {"mean", "sum", "none"}, *numbers[] = {"0", "0.2", "0.9"};
  for (int i = 0; i < 8; ++i)
    expectGradients(
        {.kernel = "cross_entropy",
         .extents = {{"...", 6}, {"V", 4}},
         .options = {{"reduction", reductions[random() % 3]},
                     {"label_smoothing", numbers[random() % 3]},
                     {"lse_square", numbers[random() % 3]},
                     {"ignore_index", random() % 2 ? "1" : "-100"}},
         .with = i % 2 ? std::vector<std::string>{"class_weights"} : std::vector<std::string>(),
         .seed = random()},
        "cross_entropy_backward");
}

// Rows 0, log 3 and 0, 0 with class 1 and 0: losses log 4 - log 3 and log 2.
TEST(CrossEntropyReference, ByHand) {
  const HostArray logits(DType::float64, {2, 2}, std::vector<double>{0, std::log(3), 0, 0});
  const HostArray targets(DType::int64, {2}, std::vector<double>{1, 0});
  auto loss = [&](Assignments options, HostArray weights = {}) {
    const Invocation call =
        resolveCase({"cross_entropy",
                     {{"...", 2}, {"V", 2}},
                     options,
                     weights.shape.empty() ? std::vector<std::string>()
                                           : std::vector<std::string>{"class_weights"}});
    return referenceOutputs(call, std::vector{logits, targets, weights}, Arithmetic::exact)[0]
        .to_double();
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
  // Weights 1 and 3 of the classes; the squares of lse have none, and the mean has its own.
  const HostArray weights(DType::float32, {2}, std::vector<double>{1, 3});
  EXPECT_THAT(loss({{"reduction", "none"}}, weights),
              ElementsAre(DoubleNear(3 * first, e), DoubleNear(second, e)));
  EXPECT_THAT(loss({}, weights), ElementsAre(DoubleNear((3 * first + second) / 4, e)));
  const double squares = std::log(4) * std::log(4) + second * second;
  EXPECT_THAT(loss({{"lse_square", "2"}}, weights),
              ElementsAre(DoubleNear((3 * first + second) / 4 + squares, e)));
  // mean(w (lse - x)) of the first row: (log 4 + 3 (log 4 - log 3)) / 2.
  EXPECT_THAT(loss({{"reduction", "none"}, {"label_smoothing", "0.5"}}, weights),
              ElementsAre(DoubleNear(3 * first / 2 + (std::log(4) + 3 * first) / 4, e),
                          DoubleNear(second / 2 + second, e)));
}
