// rerope_attention and its gradients: two sets of queries and keys, chosen by distance.
#include "AttentionTest.h"
#include "PositionAttentionTest.h"
#include "kernels/references/References.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

class Rerope : public OnDevice {};
SECTILE_INSTANTIATE_ON(Rerope, "virtual:sm_80,virtual:sm_90a");

// Blocks of 16, so that a few dozen positions have near, mixed and far ones.
static const Config blocks{{"m", 16}, {"n", 16}},
    backwardBlocks{{"q_m", 16}, {"q_n", 16}, {"kv_m", 16}, {"kv_n", 16}};

static KernelCase forward(std::map<std::string, std::int64_t> extents, Assignments options,
                          const char *dtype = "", std::vector<std::string> with = {}) {
  return {
      "rerope_attention", std::move(extents), std::move(options), std::move(with), dtype, blocks};
}
static KernelCase back(std::map<std::string, std::int64_t> extents, Assignments options,
                       const char *dtype = "", std::vector<std::string> with = {}) {
  return consistent({"rerope_attention_backward", std::move(extents), std::move(options),
                     std::move(with), dtype, backwardBlocks});
}

TEST_P(Rerope, EveryWindow) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *causal : {"true", "false"})
    for (const char *window : {"0", "1", "15", "16", "17", "33", "1000", "5000000000"}) {
      const std::map<std::string, std::int64_t> extents{{"B", 1}, {"Sq", 70}, {"Sk", 75}};
      expectRight(device, forward(extents, {{"window", window}, {"causal", causal}}));
      expectRight(device, back(extents, {{"window", window}, {"causal", causal}}));
    }
}

TEST_P(Rerope, IsRightAtEveryEdge) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const auto &[queries, keys] :
       {std::pair{1, 1}, {1, 65}, {15, 16}, {17, 15}, {0, 5}, {5, 0}, {70, 20}, {20, 70}})
    for (const char *causal : {"true", "false"}) {
      const std::map<std::string, std::int64_t> extents{{"B", 1}, {"Sq", queries}, {"Sk", keys}};
      expectRight(device, forward(extents, {{"window", "9"}, {"causal", causal}}));
      expectRight(device, back(extents, {{"window", "9"}, {"causal", causal}}));
    }
}

// Far keys on either side, or on one, of which the options may hide all.
TEST_P(Rerope, WindowsWithinWindows) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const std::map<std::string, std::int64_t> extents{{"B", 1}, {"Sq", 70}, {"Sk", 75}};
  const std::vector<const char *> windows{"0", "7", "30"}, sides{"-1", "0", "5", "40"};
  for (std::size_t window = 0; window < windows.size(); ++window)
    for (std::size_t left = 0; left < sides.size(); ++left)
      for (std::size_t right = 0; right < sides.size(); ++right) {
        if (!isAmongAThird(window + left + right))
          continue;
        const Assignments options{{"window", windows[window]},
                                  {"window_left", sides[left]},
                                  {"window_right", sides[right]}};
        expectRight(device, forward(extents, options));
        expectRight(device, back(extents, options));
      }
}

TEST_P(Rerope, TakesEveryOptionOfAttention) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const AttentionFeature &feature : attentionFeatures())
    for (const char *window : {"0", "9", "1000"}) {
      if (const std::size_t row = place++; !isAmongAThird(row + row / 3))
        continue;
      std::map<std::string, std::int64_t> extents{{"B", 1}, {"Hq", 4}};
      extents.insert(feature.extents.begin(), feature.extents.end());
      Assignments options = feature.options;
      options.emplace_back("window", window);
      expectRight(device, forward(extents, options, "", feature.with));
      expectRight(device, back(extents, options, "", feature.with));
    }
  for (const auto &single : {std::vector<std::string>{}, {"bias", "mask", "sinks"}}) {
    KernelCase all = forward({{"Hq", 4}}, {{"causal", "true"}, {"window", "9"}, {"softcap", "2"}},
                             "f32", {"bias", "mask", "sinks"});
    all.single = single;
    expectRight(device, all);
    all = back({{"Hq", 4}}, {{"causal", "true"}, {"window", "9"}, {"softcap", "2"}}, "bf16",
               {"bias", "mask", "sinks"});
    all.single = single;
    expectRight(device, consistent(all));
  }
}

TEST_P(Rerope, FewQueriesOfManyKeys) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (std::int64_t queries : {1, 3})
    for (const char *causal : {"true", "false"})
      for (const char *window : {"0", "20", "1000"}) {
        KernelCase test{"rerope_attention",
                        {{"B", 1}, {"Hq", 4}, {"Sq", queries}, {"Sk", 301}},
                        {{"causal", causal}, {"window", window}},
                        {"sinks"}};
        for (std::int64_t splits : {1, 3}) {
          test.config = {{"splits", splits}};
          EXPECT_EQ(completeConfig(resolveCase(test), device.target(), {}).at("packed"), 1);
          expectRight(device, test);
        }
      }
}

// Parts of several programs, or sums in any order, for both sets.
TEST_P(Rerope, WaysToSumGradients) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  KernelCase test = back({{"B", 1}, {"Hq", 4}, {"Hkv", 1}}, {{"window", "9"}});
  test.config["kv_parts"] = 2;
  expectRight(device, test);
  test = back({{"B", 1}}, {{"window", "9"}, {"causal", "true"}, {"unordered", "true"}});
  test.config["fused"] = 1;
  expectRight(device, test);
}

TEST_P(Rerope, TakesEveryOption) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *dtype : {"bf16", "f32"}) {
    expectRight(device,
                {"rerope_attention", {{"B", 1}}, {{"window", "20"}, {"scale", "0.4"}}, {}, dtype});
    expectRight(device, backward("rerope_attention_backward", {{"B", 1}},
                                 {{"window", "20"}, {"layout", "bshd"}}, dtype));
  }
  for (std::int64_t width : {24, 128}) {
    expectRight(device, {"rerope_attention", {{"B", 1}, {"D", width}}, {{"window", "20"}}});
    expectRight(device, backward("rerope_attention_backward", {{"B", 1}, {"Hq", 1}, {"D", width}},
                                 {{"window", "20"}}));
  }
  expectRight(device, {"rerope_attention", {{"B", 1}, {"Hq", 4}, {"Hkv", 2}}, {{"window", "5"}}});
}

// v has strides of its own; none of q's.
TEST_P(Rerope, TakesAnyStrides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *layout : {"bhsd", "bshd"}) {
    expectRightWithStrides(device, {"rerope_attention", {}, {{"layout", layout}, {"window", "7"}}});
    expectRightWithStrides(device,
                           backward("rerope_attention_backward", {},
                                    {{"layout", layout}, {"window", "7"}, {"causal", "true"}}));
  }
}

// With one set twice it is attention, whatever the window: far keys still attend.
TEST_P(Rerope, OneSetTwiceIsAttention) {
  KernelCase test = forward({{"B", 1}, {"Hkv", 2}}, {{"window", "6"}}, "f32");
  const Invocation call = resolveCase(test);
  auto inputs = sampleInputs(call, 1);
  inputs[1] = inputs[0];
  inputs[3] = inputs[2];
  test.prepare = [&](const Invocation &, std::vector<HostArray> &own) { own = inputs; };
  const auto plain = attentionReference(inputs[0], inputs[2], inputs[4], {}, Arithmetic::exact);
  EXPECT_THAT(run(device, test)[0].to_double(),
              testing::Pointwise(testing::DoubleNear(2e-5), plain.o.to_double()));
}

TEST_P(Rerope, RowsWithoutKeys) {
  const auto outputs = run(device, forward({{"B", 1}, {"Hq", 1}, {"Sq", 40}, {"Sk", 10}},
                                           {{"causal", "true"}, {"window", "3"}}, "f32"));
  for (std::size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(outputs[1].as<float>()[i], -INFINITY);
    EXPECT_EQ(outputs[0].as<float>()[i * 32 + 5], 0);
  }
}

TEST(ReropeElsewhere, OnTheInterpreterAndOtherChips) {
  for (const char *name : {"interpreter", "virtual:gfx942", "virtual:gfx1100"}) {
    const Device device = Device::open(name);
    expectRight(device, forward({{"B", 1}, {"Hq", 1}}, {{"causal", "true"}, {"window", "9"}}));
    expectRight(device, back({{"B", 1}, {"Hq", 1}}, {{"window", "9"}}));
  }
}

TEST(ReropeReference, ByHand) {
  // One query at position 2; keys 2 and 1 are near, key 0 is far.
  auto array = [](std::initializer_list<double> values) {
    return HostArray(DType::float64, {1, 1, static_cast<std::int64_t>(values.size()), 1},
                     std::vector<double>(values));
  };
  const std::vector<HostArray> inputs{array({1}), array({10}), array({1, 2, 3}), array({.5, 6, 7}),
                                      array({1, 0, 0})};
  const auto result = attentionReference(
      inputs[0], inputs[2], inputs[4],
      {.scale = 1, .farQueries = &inputs[1], .farKeys = &inputs[3], .far = 2}, Arithmetic::exact);
  const double sum = std::exp(10 * .5) + std::exp(2) + std::exp(3);
  EXPECT_NEAR(result.lse.to_double()[0], std::log(sum), 1e-12);
  EXPECT_NEAR(result.o.to_double()[0], std::exp(5) / sum, 1e-12);
}

TEST(ReropeReference, Gradients) {
  for (const char *causal : {"true", "false"})
    for (const char *window : {"0", "3", "50"})
      expectGradients({"rerope_attention",
                       {{"B", 1}, {"Hq", 4}, {"Hkv", 2}, {"Sq", 9}, {"Sk", 12}, {"D", 16}},
                       {{"causal", causal}, {"window", window}}},
                      "rerope_attention_backward");
  expectGradients({"rerope_attention",
                   {{"Sq", 6}, {"Sk", 5}, {"D", 16}},
                   {{"scale", "0.6"}, {"layout", "bshd"}, {"window", "2"}}},
                  "rerope_attention_backward");
  for (const AttentionFeature &feature : attentionFeatures()) {
    Assignments options = feature.options;
    options.emplace_back("window", "3");
    expectGradients({"rerope_attention",
                     {{"B", 1}, {"Hq", 4}, {"Sq", 7}, {"Sk", 9}, {"D", 16}, {"Dv", 17}},
                     options,
                     feature.with},
                    "rerope_attention_backward");
  }
}

// A window that is one off, one taken for a mask's, and none at all.
TEST(ReropeReference, PlantedMistakesAreSeen) {
  const Device device = Device::open("virtual:sm_80");
  const std::map<std::string, std::int64_t> one{{"B", 1}};
  for (const char *window : {"10", "0", "1000"}) {
    expectSeen(device, {"rerope_attention", one, {{"window", "9"}}},
               {"rerope_attention", one, {{"window", window}}}, "o");
    for (const char *output : {"dq1", "dk2"})
      expectSeen(device, backward("rerope_attention_backward", one, {{"window", "9"}}),
                 {"rerope_attention_backward", one, {{"window", window}}}, output);
  }
}

TEST(ReropeReference, RefusesWhatItCannotDo) {
  EXPECT_THROW(resolveCase({"rerope_attention", {}, {{"window", "-1"}}}), InputError);
  EXPECT_THROW(resolveCase({"rerope_attention", {{"D", 300}}}), InputError);
}

TEST(ReropeExample, Window) {
  const Device device = Device::open("virtual:sm_80");
  const auto q1 = tensor(device.upload(std::vector<half>(4 * 8 * 64, half(1.0f))), {1, 4, 8, 64});
  const auto q2 = q1, k1 = q1, k2 = q1, v = q1;
  // [rerope]
  auto out = run_kernel(device.stream(), "rerope_attention",
                        {{"q1", q1}, {"q2", q2}, {"k1", k1}, {"k2", k2}, {"v", v}},
                        {{"causal", "true"}, {"window", "512"}});
  auto o = out.at("o").as<half, 4>();
  // [/rerope]
  device.synchronize();
  EXPECT_EQ(o.extents(), q1.extents());
}
