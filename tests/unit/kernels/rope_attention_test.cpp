// rope_attention and exposb_attention with their gradients.
#include "AttentionTest.h"
#include "PositionAttentionTest.h"
#include "kernels/position/References.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

class RotaryAttention : public OnDevice {
  void SetUp() override { SECTILE_LEAVE_SM_90_TO_OTHERS(); }
};
SECTILE_INSTANTIATE_ON(RotaryAttention, "virtual:sm_80,virtual:sm_90,virtual:sm_90a");

namespace {

std::vector<AttentionFeature> features() {
  std::vector<AttentionFeature> all = attentionFeatures();
  for (const Assignments &options : {Assignments{{"style", "interleaved"}},
                                     {{"rotary", "12"}},
                                     {{"theta", "30"}},
                                     {{"window_left", "0"}, {"window_right", "0"}},
                                     {{"layout", "bshd"}}})
    all.push_back({options});
  return all;
}

/// Of a kernel with a feature; of a backward one the call of what the forward one gives.
KernelCase with(const AttentionFeature &feature, const char *kernel,
                std::map<std::string, std::int64_t> extents, const char *dtype = "") {
  extents.insert(feature.extents.begin(), feature.extents.end());
  return sound({kernel, extents, feature.options, feature.with, dtype});
}

Assignments both(Assignments a, const Assignments &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const char *const forwards[] = {"rope_attention", "exposb_attention"};
const char *const backwards[] = {"rope_attention_backward", "exposb_attention_backward"};

} // namespace

TEST_P(RotaryAttention, IsRightAtEveryEdge) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const auto &[queries, keys] :
       {std::pair{1, 1}, {1, 65}, {63, 64}, {65, 63}, {0, 5}, {5, 0}, {33, 129}})
    expectRight(device, {"rope_attention", {{"Sq", queries}, {"Sk", keys}}, {{"causal", "true"}}});
  for (std::int64_t width : {16, 24, 40, 128})
    for (const char *style : {"half", "interleaved"})
      expectRight(device, {"rope_attention", {{"D", width}, {"B", 1}}, {{"style", style}}});
  expectRight(device, {"rope_attention", {{"D", 33}, {"B", 1}}, {{"rotary", "6"}}});
  expectRight(device, {"rope_attention", {{"D", 256}, {"Dv", 256}, {"B", 1}, {"Hq", 1}}});
}

TEST_P(RotaryAttention, TakesEveryOption) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const AttentionFeature &feature : features())
    for (const char *kernel : forwards) {
      expectRight(device, with(feature, kernel, {{"Hq", 4}, {"B", 1}}));
      KernelCase small = with(feature, kernel, {{"Hq", 4}, {"B", 1}, {"Sq", 65}, {"Sk", 37}});
      small.config = {{"m", 16}, {"n", 16}};
      expectRight(device, small);
    }
  for (const char *kernel : forwards)
    for (const char *dtype : {"bf16", "f32"})
      expectRight(device, {kernel, {{"B", 1}}, {{"causal", "true"}}, {}, dtype});
  expectRight(device, {"rope_attention", {{"B", 1}}, {{"precision", "tf32"}}, {}, "f32"});
}

// The heads that share keys are rows of one block, and programs have a part of the keys each.
TEST_P(RotaryAttention, FewQueriesOfManyKeys) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const char *kernel : forwards)
    for (std::int64_t queries : {1, 3})
      for (const AttentionFeature &feature : features())
        if (isAmongAThird(place++) &&
            (feature.options.empty() || feature.options.front().first != "dropout")) {
          KernelCase test =
              with(feature, kernel, {{"B", 1}, {"Hq", 4}, {"Sq", queries}, {"Sk", 301}});
          test.config = {{"splits", queries}};
          EXPECT_EQ(completeConfig(resolveCase(test), device.target(), {}).at("packed"), 1);
          expectRight(device, test);
        }
}

TEST_P(RotaryAttention, ConstantsOfExposbAreOptions) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *option : {"gain_base", "gain_peak", "gain_center", "gain_width", "boost",
                             "boost_decay", "near_base", "near_peak", "near_decay"}) {
    const Assignments options{{option, std::string(option).ends_with("decay") ? "0.05" : "1.5"}};
    expectRight(device, {"exposb_attention", {{"B", 1}, {"Hkv", 2}}, options});
    expectGradients({"exposb_attention", {{"B", 1}, {"Sq", 7}, {"Sk", 9}, {"D", 16}}, options},
                    "exposb_attention_backward");
  }
}

TEST_P(RotaryAttention, GradientsAreRight) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const char *kernel : backwards) {
    for (const AttentionFeature &feature : features())
      if (isAmongAThird(place++))
        expectRight(device, with(feature, kernel, {{"B", 1}, {"Hq", 2}}));
    expectRight(device, backward(kernel, {{"B", 1}}, {{"causal", "true"}}, "bf16"));
    expectRight(device, backward(kernel, {{"B", 1}}, {{"style", "interleaved"}}, "f32"));
    expectRight(device, backward(kernel, {{"B", 1}, {"Sq", 70}}, {{"softcap", "2"}}, "f32"));
    KernelCase parts = backward(kernel, {{"B", 1}, {"Hq", 4}, {"Hkv", 1}});
    parts.config = {{"kv_parts", 2}};
    expectRight(device, parts);
  }
  for (const auto &[queries, keys] : {std::pair{1, 1}, {65, 63}, {0, 5}, {5, 0}, {20, 70}})
    expectRight(device, backward("rope_attention_backward", {{"Sq", queries}, {"Sk", keys}},
                                 {{"causal", "true"}}));
  for (std::int64_t width : {24, 128})
    expectRight(device,
                backward("rope_attention_backward", {{"D", width}, {"Dv", width}, {"B", 1}}));
}

// dq is summed in any order, and turned back after that.
TEST_P(RotaryAttention, UnorderedGradients) {
  KernelCase test = backward("exposb_attention_backward", {{"B", 1}, {"Sq", 70}},
                             {{"causal", "true"}, {"unordered", "true"}});
  test.config = {{"fused", 1}};
  expectRight(device, test);
}

TEST_P(RotaryAttention, TakesAnyStrides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : forwards)
    expectRightWithStrides(device, {kernel, {}, {{"layout", "bshd"}}});
  for (const char *kernel : backwards)
    expectRightWithStrides(device, backward(kernel, {}, {{"causal", "true"}}));
}

// A row with nothing to attend gives 0, -inf and no gradient, never NaN.
TEST_P(RotaryAttention, RowsWithoutKeys) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : forwards) {
    const auto outputs = run(
        device,
        {kernel, {{"B", 1}, {"Hq", 1}, {"Sq", 40}, {"Sk", 10}}, {{"causal", "true"}}, {}, "f32"});
    for (std::size_t i = 0; i < 30; ++i) {
      EXPECT_EQ(outputs[1].as<float>()[i], -INFINITY);
      EXPECT_EQ(outputs[0].as<float>()[i * 32 + 5], 0);
    }
  }
  for (const char *kernel : backwards) {
    const auto outputs = run(device, backward(kernel, {{"B", 1}, {"Hq", 1}, {"Sq", 40}, {"Sk", 10}},
                                              {{"causal", "true"}}, "f32"));
    for (std::size_t i = 0; i < 30 * 32; ++i)
      EXPECT_EQ(outputs[0].as<float>()[i], 0);
  }
}

// Scores far beyond what an exponential holds.
TEST_P(RotaryAttention, HugeScoresStayFinite) {
  for (const char *kernel : forwards)
    expectRight(device, {kernel, {{"B", 1}}, {{"scale", "500"}}, {}, "f32"});
}

// The kernel is rope and attention, one behind the other.
TEST_P(RotaryAttention, IsAttentionOfTurnedRows) {
  const std::map<std::string, std::int64_t> extents{{"B", 1},   {"Hq", 2},  {"Hkv", 2},
                                                    {"Sq", 30}, {"Sk", 30}, {"D", 32}};
  const KernelCase fused{"rope_attention", extents, {{"causal", "true"}}, {}, "f32"};
  const auto got = run(device, fused);
  const Invocation call = resolveCase(fused);
  auto inputs = sampleInputs(call, fused.seed);
  for (std::size_t i : {0, 1})
    inputs[i] = ropeReference(inputs[i], {}, {.rotary = 32}, Arithmetic::exact);
  const auto plain =
      attentionReference(inputs[0], inputs[1], inputs[2], {.causal = true}, Arithmetic::exact);
  EXPECT_THAT(got[0].to_double(),
              testing::Pointwise(testing::DoubleNear(2e-5), plain.o.to_double()));
}

TEST(RotaryAttentionElsewhere, OnTheInterpreterAndOtherChips) {
  for (const char *name : {"interpreter", "virtual:gfx942", "virtual:gfx1100"}) {
    const Device device = Device::open(name);
    for (const char *kernel : forwards)
      expectRight(device, {kernel, {{"B", 1}}, {{"causal", "true"}}});
    for (const char *kernel : backwards)
      expectRight(device, backward(kernel, {{"B", 1}, {"Hq", 1}}, {{"causal", "true"}}));
  }
}

TEST(RotaryAttentionReference, Gradients) {
  const std::map<std::string, std::int64_t> extents{{"B", 1},   {"Hq", 4}, {"Hkv", 2}, {"Sq", 9},
                                                    {"Sk", 12}, {"D", 16}, {"Dv", 17}};
  for (std::size_t kernel : {0, 1}) {
    for (const AttentionFeature &feature : features())
      expectGradients({forwards[kernel], extents, feature.options, feature.with},
                      backwards[kernel]);
    std::mt19937_64 random(17);
    const auto drawn = [&, all = features()] { return all[random() % all.size()]; };
    for (int i = 0; i < 8; ++i) {
      const AttentionFeature first = drawn(), second = drawn();
      expectGradients({forwards[kernel], extents, both(first.options, second.options), first.with},
                      backwards[kernel]);
    }
  }
}

// Two keys at distances 0 and 1, worked by hand.
TEST(RotaryAttentionReference, ExposbByHand) {
  const Assignments options{{"scale", "1"},       {"theta", "100"},         {"gain_base", "0.8"},
                            {"gain_peak", "0.4"}, {"gain_center", "0"},     {"gain_width", "1"},
                            {"boost", "0.2"},     {"boost_decay", "0.001"}, {"near_base", "0.7"},
                            {"near_peak", "0.3"}, {"near_decay", "0.005"},  {"rotary", "2"}};
  const Invocation call =
      resolveCase({"exposb_attention",
                   {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 1}, {"Sk", 2}, {"D", 16}, {"Dv", 16}},
                   options});
  // Of 16 numbers all but the first are 0.
  const auto rows = [](std::initializer_list<std::pair<double, double>> firsts) {
    std::vector<double> values;
    for (const auto &[a, b] : firsts) {
      values.insert(values.end(), {a, b});
      values.insert(values.end(), 14, 0);
    }
    return HostArray(DType::float64, {1, 1, static_cast<std::int64_t>(firsts.size()), 16}, values);
  };
  const std::vector<HostArray> inputs{
      rows({{1, 2}}), rows({{3, 4}, {5, 6}}), rows({{1, 0}, {0, 1}}), {}, {}, {}};
  // The query is at position 1, as the last key.
  const double c = std::cos(1.0), s = std::sin(1.0), boost = 1 + 0.2 * std::exp(-0.001);
  const double g0 = 1.2, g1 = 0.8 + 0.4 * std::exp(-0.5);
  const double q0 = g0 * boost * (c - 2 * s), q1 = g1 * boost * (2 * c + s);
  const double far = (q0 * g0 * 1.2 * 3 + q1 * g1 * 1.2 * 4) * (0.7 + 0.3 * std::exp(-0.005));
  const double near = q0 * g0 * boost * (5 * c - 6 * s) + q1 * g1 * boost * (6 * c + 5 * s);
  const auto result = call.kernel->reference(call, inputs, Arithmetic::exact);
  EXPECT_NEAR(result[1].to_double()[0], std::log(std::exp(far) + std::exp(near)), 1e-12);
  EXPECT_NEAR(result[0].to_double()[0], 1 / (1 + std::exp(near - far)), 1e-12);
}

// The mistakes of public kernels for these gradients, each seen by the harness.
TEST(RotaryAttentionReference, PlantedMistakesAreSeen) {
  const Device device = Device::open("virtual:sm_80");
  const std::map<std::string, std::int64_t> one{{"B", 1}};
  for (const Assignments &wrong : {Assignments{{"scale", "0.3"}},
                                   {{"near_peak", "0"}, {"near_base", "1"}},
                                   {{"gain_peak", "0"}},
                                   {{"boost", "0"}},
                                   {{"causal", "true"}}}) {
    expectSeen(device, {"exposb_attention", one}, {"exposb_attention", one, wrong}, "o");
    expectSeen(device, backward("exposb_attention_backward", one),
               {"exposb_attention_backward", one, wrong}, "dq");
  }
  for (const Assignments &wrong : {Assignments{{"style", "interleaved"}}, {{"window_left", "30"}}})
    expectSeen(device, {"rope_attention", one}, {"rope_attention", one, wrong}, "o");
  for (const char *kernel : {"rope_attention", "exposb_attention", "rope_attention_backward"})
    for (const AttentionFeature &feature : attentionFeatures())
      if (feature.extents.empty())
        expectMissed(device, kernel, feature);
}

TEST(RotaryAttentionReference, RefusesWhatItCannotDo) {
  for (const Assignments &options : {Assignments{{"rotary", "7"}},
                                     {{"rotary", "34"}},
                                     {{"theta", "0"}},
                                     {{"window_left", "-2"}},
                                     {{"softcap", "-1"}},
                                     {{"dropout", "1"}}})
    EXPECT_THROW(resolveCase({"rope_attention", {}, options}), InputError);
  EXPECT_THROW(resolveCase({"rope_attention", {{"D", 8}}}), InputError);
  EXPECT_THROW(resolveCase({"rope_attention", {{"Hq", 3}, {"Hkv", 2}}}), InputError);
  EXPECT_THROW(resolveCase({"exposb_attention", {}, {{"gain_width", "0"}}}), InputError);
}

TEST(RotaryAttentionExample, Causal) {
  const Device device = Device::open("virtual:sm_80");
  const auto q = tensor(device.upload(std::vector<half>(4 * 8 * 64, half(1.0f))), {1, 4, 8, 64});
  const auto k = q, v = q;
  // [rope_attention]
  auto out = run_kernel(device.stream(), "rope_attention", {{"q", q}, {"k", k}, {"v", v}},
                        {{"causal", "true"}, {"style", "interleaved"}, {"theta", "500000"}});
  auto o = out.at("o").as<half, 4>();
  // [/rope_attention]
  device.synchronize();
  EXPECT_EQ(o.extents(), q.extents());
}
