// stick_breaking_attention and its gradients.
#include "PositionAttentionTest.h"
#include "kernels/position/References.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

class StickBreaking : public OnDevice {};
SECTILE_INSTANTIATE_ON(StickBreaking, "virtual:sm_80,virtual:sm_90a");

static const char *const name = "stick_breaking_attention";
static const char *const back = "stick_breaking_attention_backward";
static const Config blocks{{"m", 16}, {"n", 16}};
static const std::vector<std::string> withRest{"drem"};

TEST_P(StickBreaking, IsRightAtEveryEdge) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const auto &[queries, keys] : {std::pair{1, 1},
                                      {2, 2},
                                      {1, 65},
                                      {16, 16},
                                      {17, 16},
                                      {16, 17},
                                      {70, 75},
                                      {0, 5},
                                      {5, 0},
                                      {70, 20},
                                      {20, 70}}) {
    const std::map<std::string, std::int64_t> extents{{"B", 1}, {"Sq", queries}, {"Sk", keys}};
    expectRight(device, {name, extents, {}, {}, "", blocks});
    expectRight(device, {back, extents, {}, withRest, "", blocks});
  }
}

TEST_P(StickBreaking, TakesEveryOption) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *dtype : {"f16", "bf16", "f32"}) {
    expectRight(device, {name, {}, {{"scale", "0.5"}}, {}, dtype});
    expectRight(device, {back, {{"B", 1}}, {{"scale", "0.5"}}, withRest, dtype});
  }
  for (std::int64_t width : {24, 128}) {
    expectRight(device, {name, {{"B", 1}, {"D", width}}});
    expectRight(device, {back, {{"B", 1}, {"Hq", 1}, {"D", width}}});
  }
  expectRight(device,
              {name, {{"B", 1}, {"Hq", 1}, {"Sq", 20}, {"Sk", 20}, {"D", 256}}, {}, {}, "f32"});
  expectRight(device, {name, {{"B", 1}, {"Hq", 4}, {"Hkv", 2}}, {{"layout", "bshd"}}});
  expectRight(device, {back, {{"B", 1}, {"Hq", 4}, {"Hkv", 2}}, {{"layout", "bshd"}}});
}

// As where scratch memory does not hold what all heads need.
TEST_P(StickBreaking, HeadsComeInTurn) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const std::int64_t heads : {1, 2, 3})
    for (const auto &with : {withRest, std::vector<std::string>()})
      expectRight(device, {back,
                           {{"Hq", 6}, {"Hkv", 3}},
                           {{"layout", heads == 2 ? "bshd" : "bhsd"}},
                           with,
                           "",
                           {{"heads", heads}}});
}

TEST_P(StickBreaking, TakesAnyStrides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  expectRightWithStrides(device, {name, {}, {{"layout", "bshd"}}});
  expectRightWithStrides(device, {back, {}, {}, withRest});
}

// Each query is the key before it, whose product with it is so large that it takes the whole stick:
// o is that key's value, to the bit.
TEST_P(StickBreaking, SaturatedWeightsAreExact) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const auto shifted = [](std::vector<double> rows) {
    std::rotate(rows.begin(), rows.end() - 64, rows.end());
    return rows;
  };
  for (const char *dtype : {"f16", "f32"}) {
    const KernelCase test{name,
                          {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 70}, {"Sk", 70}, {"D", 64}},
                          {{"scale", "1"}},
                          {},
                          dtype,
                          {},
                          1,
                          [&](const Invocation &, std::vector<HostArray> &inputs) {
                            fillIntegers(inputs[1], 3, 1);
                            fillIntegers(inputs[2], 100, 2);
                            inputs[0].assign(shifted(inputs[1].to_double()));
                          }};
    std::vector<double> values = shifted(fill(test).inputs[2].to_double());
    std::fill_n(values.begin(), 64, 0.0); // the first query sees nothing
    EXPECT_EQ(expectRight(device, test)[0].to_double(), values);
  }
}

// The first query sees nothing: its stick stays whole. The weights and the rest add up to the
// stick.
TEST_P(StickBreaking, WeightsAndRestAreTheStick) {
  const auto outputs = run(device, {name,
                                    {{"B", 1}, {"Hq", 1}, {"Sq", 40}, {"Sk", 40}},
                                    {},
                                    {},
                                    "f32",
                                    {},
                                    1,
                                    [](const Invocation &, std::vector<HostArray> &inputs) {
                                      for (float &value : inputs[2].as<float>())
                                        value = 1;
                                    }});
  const auto o = outputs[0].as<float>(), rem = outputs[1].as<float>();
  EXPECT_EQ(rem[0], 1);
  for (std::size_t i = 0; i < 40; ++i)
    EXPECT_NEAR(o[i * 32 + 7] + rem[i], 1, 1e-5);
  EXPECT_EQ(o[3], 0);
}

// Scores that break the stick whole, that leave it whole, and rows so long that nothing is left of
// it: a product of numbers below 1 would be 0 long before, and its logarithm infinite.
TEST_P(StickBreaking, LongRowsAndHugeScoresStayFinite) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *scale : {"0", "30", "3000"}) {
    const std::map<std::string, std::int64_t> extents{{"B", 1}, {"Hq", 1}, {"Sq", 20}, {"Sk", 700}};
    for (const char *dtype : {"f16", "f32"}) {
      for (const auto &output : expectRight(device, {name, extents, {{"scale", scale}}, {}, dtype}))
        for (double value : output.to_double())
          EXPECT_TRUE(std::isfinite(value));
      for (const auto &output :
           expectRight(device, {back, extents, {{"scale", scale}}, withRest, dtype}))
        for (double value : output.to_double())
          EXPECT_TRUE(std::isfinite(value));
    }
  }
}

// Blocks are an implementation's matter.
TEST_P(StickBreaking, BlocksDoNotMatter) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const std::map<std::string, std::int64_t> extents{{"B", 1}, {"Sq", 70}, {"Sk", 70}};
  for (const Config &config : {Config{{"m", 16}, {"n", 32}}, {{"m", 64}, {"n", 16}}}) {
    expectRight(device, {name, extents, {}, {}, "f32", config});
    expectRight(device, {back, extents, {}, withRest, "f16", config});
  }
}

TEST(StickBreakingElsewhere, OnTheInterpreterAndOtherChips) {
  for (const char *target : {"interpreter", "virtual:gfx942", "virtual:gfx1100"}) {
    const Device device = Device::open(target);
    expectRight(device, {name, {{"B", 1}}});
    expectRight(device, {back, {{"B", 1}, {"Hq", 1}}, {}, withRest});
  }
}

TEST(StickBreakingReference, ByHand) {
  auto array = [](std::initializer_list<double> values) {
    return HostArray(DType::float64, {1, 1, static_cast<std::int64_t>(values.size()), 1},
                     std::vector<double>(values));
  };
  // One query at position 2 sees keys 1 and 0, that order.
  const std::vector<HostArray> inputs{array({2}), array({0.5, -1, 7}), array({10, 1, 100})};
  auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double nearest = sigmoid(-2), next = sigmoid(1) * (1 - sigmoid(-2));
  const auto result = stickBreakingReference(inputs, 1, Arithmetic::exact);
  EXPECT_NEAR(result[0].to_double()[0], nearest + 10 * next, 1e-12);
  EXPECT_NEAR(result[1].to_double()[0], 1 - nearest - next, 1e-12);
}

TEST(StickBreakingReference, Gradients) {
  for (const auto &[queries, keys] : {std::pair{9, 9}, {5, 12}, {12, 5}})
    for (const Assignments &options : {Assignments{}, {{"scale", "1.5"}}, {{"layout", "bshd"}}})
      expectGradients(
          {name, {{"Hq", 4}, {"Hkv", 2}, {"Sq", queries}, {"Sk", keys}, {"D", 16}}, options}, back);
}

// Another scale, a gradient of the rest that is forgotten, keys that see themselves.
TEST(StickBreakingReference, PlantedMistakesAreSeen) {
  const Device device = Device::open("virtual:sm_80");
  const std::map<std::string, std::int64_t> one{{"B", 1}};
  for (const char *output : {"o", "rem"})
    expectSeen(device, {name, one}, {name, one, {{"scale", "0.3"}}}, output);
  expectSeen(device, {back, one}, {back, one, {{"scale", "0.3"}}}, "dk");
  const Invocation call = resolveCase({back, {{"Sq", 4}, {"Sk", 4}}, {}, withRest});
  auto inputs = sampleInputs(call, 1);
  const auto outputs =
      execute(device, call, completeConfig(call, device.target(), {}), inputs).outputs;
  for (float &value : inputs[4].as<float>())
    value = 0;
  EXPECT_FALSE(check(call, inputs, outputs)[0].accuracy.ok());
  const Invocation ahead = resolveCase({name, {{"B", 1}, {"Sq", 40}, {"Sk", 40}}});
  inputs = sampleInputs(ahead, 1);
  const auto own =
      execute(device, ahead, completeConfig(ahead, device.target(), {}), inputs).outputs;
  std::vector<double> shifted = own[0].to_double();
  std::rotate(shifted.begin(), shifted.begin() + 32, shifted.end());
  std::vector<HostArray> wrong = own;
  wrong[0].assign(shifted);
  EXPECT_FALSE(check(ahead, inputs, wrong)[0].accuracy.ok());
}

TEST(StickBreakingReference, RefusesWhatItCannotDo) {
  EXPECT_THROW(resolveCase({name, {{"D", 8}}}), InputError);
  EXPECT_THROW(resolveCase({name, {{"Hq", 3}, {"Hkv", 2}}}), InputError);
}

TEST(StickBreakingExample, Remainder) {
  const Device device = Device::open("virtual:sm_80");
  const auto q = tensor(device.upload(std::vector<half>(4 * 8 * 64, half(1.0f))), {1, 4, 8, 64});
  const auto k = q, v = q;
  // [stick_breaking]
  auto out =
      run_kernel(device.stream(), "stick_breaking_attention", {{"q", q}, {"k", k}, {"v", v}});
  auto o = out.at("o").as<half, 4>();
  auto rem = out.at("rem").as<float, 3>();
  // [/stick_breaking]
  device.synchronize();
  EXPECT_EQ(o.extents(), q.extents());
  EXPECT_EQ(rem.extents()[2], 8);
}
