// attention_merge: what it is by definition, parts that count nothing, and what it reads.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <cmath>

using namespace sectile;
using namespace sectile::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

class AttentionMerge : public OnDevice {};
SECTILE_INSTANTIATE_ON(AttentionMerge, "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942");

TEST_P(AttentionMerge, IsRightForAnyExtents) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (std::int64_t parts : {0, 1, 2, 7})
    for (std::int64_t rows : {0, 1, 15, 16, 17})
      expectRight(device, {"attention_merge", {{"P", parts}, {"Sq", rows}}});
  for (std::int64_t width : {1, 15, 16, 17, 64, 257, 1024})
    for (const char *dtype : {"f16", "bf16", "f32"})
      expectRight(device, {"attention_merge", {{"Sq", 5}, {"D", width}, {"B", 1}}, {}, {}, dtype});
  expectRight(device, {"attention_merge", {{"B", 0}}});
  expectRight(device, {"attention_merge", {{"Hq", 0}}});
}

TEST_P(AttentionMerge, TakesAnyStrides) { expectRightWithStrides(device, {"attention_merge"}); }

TEST_P(AttentionMerge, PartsThatSawNothingMayHoldAnything) {
  KernelCase test{"attention_merge", {{"P", 3}, {"B", 1}, {"Hq", 1}, {"Sq", 3}, {"D", 16}}};
  test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
    std::vector<double> states(3 * 3 * 16), logs(9, -inf);
    for (std::size_t i = 0; i < states.size(); ++i)
      states[i] = i < 96 ? (i % 2 ? NAN : inf) : 3; // the first two parts
    logs[6] = 0.5;                                  // of the last part only, in the first row
    logs[7] = 1e30;
    inputs[0].assign(states);
    inputs[1].assign(logs);
  };
  const auto outputs = expectRight(device, test);
  std::vector<double> o(48, 3);
  std::fill_n(o.begin() + 32, 16, 0);
  EXPECT_EQ(outputs[0].to_double(), o);
  EXPECT_EQ(outputs[1].to_double(),
            (std::vector<double>{
                0.5, HostArray(DType::float32, {1}, std::vector{1e30}).to_double()[0], -inf}));
}

// Equal shares of whole numbers: exact in every dtype.
TEST_P(AttentionMerge, EqualPartsAreAveraged) {
  for (const char *dtype : {"f16", "bf16", "f32"}) {
    KernelCase test{"attention_merge", {{"P", 4}}, {}, {}, dtype};
    test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
      fillIntegers(inputs[0], 16, 3);
      inputs[1].assign(std::vector<double>(static_cast<std::size_t>(inputs[1].count()), -2.0));
    };
    const auto outputs = expectRight(device, test);
    const Invocation call = resolveCase(test);
    std::vector<HostArray> inputs = sampleInputs(call, test.seed);
    test.prepare(call, inputs);
    const auto states = inputs[0].to_double(), o = outputs[0].to_double();
    for (std::size_t i = 0; i < o.size(); ++i) {
      double sum = 0;
      for (std::size_t part = 0; part < 4; ++part)
        sum += states[part * o.size() + i];
      ASSERT_EQ(o[i], sum / 4);
    }
  }
}

TEST_P(AttentionMerge, HugeLogarithmsDoNotOverflow) {
  KernelCase test{"attention_merge"};
  test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
    std::vector<double> logs = inputs[1].to_double();
    for (std::size_t i = 0; i < logs.size(); ++i)
      logs[i] += i % 2 ? 1e4 : -1e4;
    inputs[1].assign(logs);
  };
  expectRight(device, test);
}

// exp(0) and exp(log 3): weights 1/4 and 3/4.
TEST(AttentionMergeReference, AgreesWithWorkedValues) {
  const Invocation call = resolveTypical(findKernel("attention_merge"), "f32",
                                         {{"P", 2}, {"B", 1}, {"Hq", 1}, {"Sq", 1}, {"D", 2}}, {});
  const std::vector<double> o{4, 8, 0, 4}, lse{0, std::log(3.0)};
  const std::vector<HostArray> inputs{HostArray(DType::float64, {2, 1, 1, 1, 2}, o),
                                      HostArray(DType::float64, {2, 1, 1, 1}, lse)};
  const auto outputs = referenceOutputs(call, inputs, Arithmetic::exact);
  EXPECT_DOUBLE_EQ(outputs[0].to_double()[0], 1);
  EXPECT_DOUBLE_EQ(outputs[0].to_double()[1], 5);
  EXPECT_DOUBLE_EQ(outputs[1].to_double()[0], std::log(4.0));
}

// A merge by the mean, or one that forgets a part, must not pass.
TEST(AttentionMergeReference, PlantedMistakesAreSeen) {
  const Invocation call = resolveCase({"attention_merge"});
  const std::vector<HostArray> inputs = sampleInputs(call, 1);
  auto outputs = referenceOutputs(call, inputs, Arithmetic::exact);
  outputs = {HostArray(DType::float16, outputs[0].shape, outputs[0].to_double()),
             HostArray(DType::float32, outputs[1].shape, outputs[1].to_double())};
  for (const Verdict &verdict : check(call, inputs, outputs))
    EXPECT_TRUE(verdict.accuracy.ok());
  std::vector<HostArray> fewer = inputs;
  std::vector<double> logs = inputs[1].to_double();
  std::fill(logs.end() - 10, logs.end(), -inf);
  fewer[1].assign(logs);
  for (const Verdict &verdict : check(call, fewer, outputs))
    EXPECT_FALSE(verdict.accuracy.ok()) << verdict.output;
}

} // namespace
