// The gradients of attention: the formula against central differences, the kernels against the
// formula.
#include "AttentionTest.h"
#include "tests/unit/Processes.h"
#include <sectile/tuning.h>

using namespace sectile;
using namespace sectile::test;

namespace {

SECTILE_INSTANTIATE_ON(Attention, "virtual:sm_80,virtual:sm_90,virtual:sm_90a");
SECTILE_INSTANTIATE_ON(AttentionAnywhere, "interpreter,virtual:gfx942,virtual:gfx1100");

KernelCase smallForward() {
  return {"attention",
          {{"B", 2}, {"Hq", 4}, {"Hkv", 2}, {"Sq", 7}, {"Sk", 9}, {"D", 16}, {"Dv", 17}}};
}

TEST(AttentionGradients, EveryOption) {
  for (const AttentionFeature &feature : attentionFeatures())
    for (bool single : {false, true}) {
      KernelCase test = smallForward();
      test.options = feature.options;
      test.with = feature.with;
      if (single)
        test.single = feature.with;
      expectGradients(test, "attention_backward");
    }
}

TEST_P(Attention, LengthsBesideTileEdges) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (auto [queries, keys] : {std::pair{1, 1}, {1, 65}, {63, 64}, {65, 63}, {0, 5}, {5, 0}})
    for (const char *causal : {"false", "true"})
      expectRight(device, consistent({"attention_backward",
                                      {{"Sq", queries}, {"Sk", keys}},
                                      {{"causal", causal}},
                                      {},
                                      queries % 2 ? "f16" : "bf16"}));
}

TEST_P(Attention, HeadWidths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  for (auto [d, dv] : {std::pair{17, 80}, {96, 64}, {128, 128}, {256, 256}})
    expectRight(device, consistent({"attention_backward",
                                    {{"D", d}, {"Dv", dv}, {"Sq", 20}, {"Sk", 40}},
                                    {{"causal", "1"}}}));
  for (const char *precision : {"tf32", "exact"})
    expectRight(device, consistent({"attention_backward",
                                    {{"D", 72}, {"Dv", 40}},
                                    {{"precision", precision}},
                                    {},
                                    "f32"}));
}

TEST_P(Attention, Options) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_80");
  for (const AttentionFeature &feature : attentionFeatures())
    for (const char *dtype : {"f16", "f32"}) {
      KernelCase test{"attention_backward",
                      {{"Hq", 4}, {"Sq", 50}, {"Sk", 70}},
                      feature.options,
                      feature.with,
                      dtype,
                      {{"q_n", 32}, {"kv_m", 32}}};
      test.extents.insert(feature.extents.begin(), feature.extents.end());
      expectRight(device, consistent(test));
    }
}

// Products beside arithmetic, and a warp of its own that copies.
const std::map<std::string, std::int64_t> besideArithmetic{
    {"q_m", 128}, {"q_n", 64},   {"q_warps", 8},  {"q_stages", 2},  {"q_overlap", 1},
    {"kv_m", 32}, {"kv_n", 128}, {"kv_warps", 8}, {"kv_stages", 2}, {"kv_overlap", 1}};

TEST_P(Attention, ProductsBesideArithmetic) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (auto [queries, keys] : {std::pair{1, 1}, {130, 300}, {200, 65}, {0, 5}, {5, 0}})
    for (const char *causal : {"false", "true"})
      expectRight(device, consistent({"attention_backward",
                                      {{"Sq", queries}, {"Sk", keys}},
                                      {{"causal", causal}},
                                      {},
                                      queries % 2 ? "f16" : "bf16",
                                      besideArithmetic}));
  // One pair of key and value is that of many query heads: a loop around the loop.
  expectRight(device, consistent({"attention_backward",
                                  {{"Hq", 6}, {"Hkv", 2}, {"Sq", 150}, {"Sk", 140}},
                                  {{"window_left", "70"}, {"window_right", "3"}},
                                  {},
                                  "f16",
                                  besideArithmetic}));
  for (auto [d, dv] : {std::pair{128, 128}, {256, 256}, {80, 96}}) {
    auto config = besideArithmetic;
    if (d > 64)
      for (const char *field : {"q_m", "q_n", "kv_n"})
        config[field] = d > 128 ? 32 : 64; // for the shared memory of sm_80
    if (d > 128)
      config["q_warps"] = config["kv_warps"] = 4;
    expectRight(device, consistent({"attention_backward",
                                    {{"D", d}, {"Dv", dv}, {"Sq", 70}, {"Sk", 200}},
                                    {{"causal", "true"}},
                                    {},
                                    "f16",
                                    config}));
  }
}

void expectRightWithEachOption(const Device &device, const Config &config,
                               const Assignments &always = {}) {
  for (const AttentionFeature &feature : attentionFeatures()) {
    KernelCase test{"attention_backward",
                    {{"Hq", 4}, {"Sq", 150}, {"Sk", 200}},
                    feature.options,
                    feature.with,
                    "f16",
                    config};
    test.options.insert(test.options.end(), always.begin(), always.end());
    test.extents.insert(feature.extents.begin(), feature.extents.end());
    expectRight(device, consistent(test));
  }
}

TEST_P(Attention, ProductsBesideArithmeticWithOptions) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  expectRightWithEachOption(device, besideArithmetic);
}

TEST_P(Attention, ProgramsShareAGroup) {
  SECTILE_LEAVE_SM_90_TO_OTHERS();
  for (const auto &[extents, parts] :
       {std::pair<std::map<std::string, std::int64_t>, std::int64_t>{{{"Hq", 6}, {"Hkv", 2}}, 3},
        {{{"B", 2}, {"Hq", 4}, {"Hkv", 1}, {"D", 80}}, 2}})
    for (const char *dtype : {"f16", "f32"}) {
      KernelCase test{
          "attention_backward", {{"Sq", 150}, {"Sk", 140}}, {{"causal", "true"}}, {}, dtype,
          {{"kv_parts", parts}}};
      test.extents.insert(extents.begin(), extents.end());
      expectRight(device, consistent(test));
    }
  expectRight(device, consistent({"attention_backward",
                                  {{"Hq", 2}, {"Hkv", 1}, {"Sq", 0}, {"Sk", 5}},
                                  {},
                                  {},
                                  "f16",
                                  {{"kv_parts", 2}}}));
}

TEST_P(Attention, ProgramsOfKeysSumDq) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  auto config = besideArithmetic;
  config["fused"] = 1;
  for (auto [queries, keys] : {std::pair{1, 1}, {130, 300}, {200, 65}, {0, 5}, {5, 0}})
    for (const char *causal : {"false", "true"})
      expectRight(device, consistent({"attention_backward",
                                      {{"Sq", queries}, {"Sk", keys}},
                                      {{"causal", causal}, {"unordered", "true"}},
                                      {},
                                      queries % 2 ? "f16" : "bf16",
                                      config}));
  config["kv_parts"] = 3;
  expectRight(device, consistent({"attention_backward",
                                  {{"Hq", 6}, {"Hkv", 2}, {"D", 40}, {"Sq", 150}, {"Sk", 140}},
                                  {{"window_left", "70"},
                                   {"window_right", "3"},
                                   {"layout", "bshd"},
                                   {"unordered", "true"}},
                                  {},
                                  "f16",
                                  config}));
  expectRight(device, consistent({"attention_backward",
                                  {{"Sq", 50}, {"Sk", 70}},
                                  {{"unordered", "true"}},
                                  {},
                                  "f32",
                                  {{"fused", 1}}}));
}

TEST_P(Attention, ProgramsOfKeysSumDqWithOptions) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  auto config = besideArithmetic;
  config["fused"] = 1;
  expectRightWithEachOption(device, config, {{"unordered", "true"}});
}

Config chosen(const std::map<std::string, std::int64_t> &extents, const Assignments &options) {
  return ownChoice(resolveCase({"attention_backward", extents, options, {}, "f16"}), "sm_90a");
}

TEST(AttentionBackwardChoice, ProgramsShareAGroupWhereTheyWouldBeFew) {
  const auto parts = [](std::int64_t batches, std::int64_t heads, std::int64_t kvHeads,
                        std::int64_t length) {
    return chosen({{"B", batches},
                   {"Hq", heads},
                   {"Hkv", kvHeads},
                   {"Sq", length},
                   {"Sk", length},
                   {"D", 128},
                   {"Dv", 128}},
                  {})
        .at("kv_parts");
  };
  EXPECT_EQ(parts(1, 16, 1, 2048), 8);
  EXPECT_EQ(parts(1, 32, 8, 1024), 2);
  EXPECT_EQ(parts(4, 16, 16, 4096), 1);
  EXPECT_EQ(parts(1, 32, 8, 8192), 1);
}

TEST(AttentionBackwardChoice, SumsOfAnyOrderOnlyWhereTheyAreAllowed) {
  const std::map<std::string, std::int64_t> extents{
      {"B", 4}, {"Hq", 8}, {"Hkv", 8}, {"Sq", 4096}, {"Sk", 4096}, {"D", 128}, {"Dv", 128}};
  const Assignments allowed{{"unordered", "true"}};
  EXPECT_EQ(chosen(extents, {}).at("fused"), 0);
  EXPECT_EQ(chosen(extents, allowed).at("fused"), 1);
  set_numerics(Numerics::fixed);
  EXPECT_EQ(chosen(extents, allowed).at("fused"), 0);
  set_numerics(Numerics::any);
}

TEST(AttentionBackwardChoice, Refusals) {
  const auto refusal = [](const Assignments &options, const Config &config) -> std::string {
    const FilledCall filled =
        fill({"attention_backward", {{"Hq", 4}, {"Hkv", 1}}, options, {}, "f16"});
    const Device device = Device::open("interpreter");
    try {
      execute(device, filled.call, completeConfig(filled.call, device.target(), config),
              filled.inputs);
    } catch (const InputError &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({}, {{"kv_parts", 3}}),
            "attention_backward: kv_parts (3) must divide the query heads of a group (4)");
  EXPECT_EQ(refusal({}, {{"fused", 1}}),
            "attention_backward: fused sums dq in any order, which only unordered=true allows");
}

TEST_P(Attention, GivenOutputsNeedNotBeTheForwardPass) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  expectRight(device, {"attention_backward", {}, {{"causal", "true"}}, {"bias", "sinks"}});
}

TEST_P(Attention, AForgottenOptionIsFound) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_90a");
  for (const AttentionFeature &feature : attentionFeatures())
    if (feature.extents.empty())
      expectMissed(device, "attention_backward", feature);
}

TEST_P(Attention, Strides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  expectRightWithStrides(device, {"attention_backward",
                                  {},
                                  {{"layout", "bshd"}, {"causal", "true"}, {"dropout", "0.3"}},
                                  {"bias", "mask", "sinks"}});
}

TEST_P(Attention, OneBiasOrSinkForAllSumsTheirGradients) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_90a");
  for (const char *only : {"bias", "mask", "sinks"})
    expectRight(
        device,
        consistent(
            {"attention_backward", {{"B", 3}, {"Hq", 4}}, {}, {only}, "", {}, 1, nullptr, {only}}));
}

// Several programs share the rows of a head.
TEST_P(Attention, SinksOfManyRowsSumTheirGradients) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  expectRight(device, {"attention_backward",
                       {{"B", 1}, {"Sq", 2100}, {"Sk", 17}, {"D", 16}, {"Dv", 16}},
                       {},
                       {"sinks"}});
}

TEST_P(Attention, RowsWithoutKeysHaveNoGradient) {
  KernelCase test{"attention_backward", {}, {}, {"mask"}, "f16"};
  test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
    for (bool &seen : inputs[call.index("mask")].as<bool>())
      seen = false;
  };
  for (const HostArray &gradient : expectRight(device, consistent(test)))
    EXPECT_THAT(gradient.to_double(), testing::Each(0.0));
}

TEST_P(Attention, HugeScores) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (const char *cap : {"0", "5", "30"})
    expectRight(device, consistent({"attention_backward",
                                    {},
                                    {{"softcap", cap}, {"scale", "60"}, {"causal", "true"}},
                                    {"mask"},
                                    "f16"}));
}

TEST_P(AttentionAnywhere, AllTogether) {
  expectRight(
      device,
      consistent(
          {"attention_backward",
           {{"Sq", 33}, {"Sk", 45}, {"D", 40}, {"Dv", 24}},
           {{"window_left", "9"}, {"window_right", "20"}, {"softcap", "3"}, {"dropout", "0.2"}},
           {"bias", "mask", "sinks"}}));
  expectRight(
      device,
      consistent(
          {"attention_backward", {{"Sq", 65}, {"Sk", 33}}, {{"causal", "true"}}, {}, "f32"}));
}

// Without matrix units tiles of wide f32 rows are smaller than what dropout draws at once.
TEST_P(AttentionAnywhere, DropoutOfWideRows) {
  for (int width : {72, 144})
    expectRight(device, consistent({"attention_backward",
                                    {{"Sq", 33}, {"Sk", 45}, {"D", width}, {"Dv", width}},
                                    {{"dropout", "0.2"}},
                                    {},
                                    "f32"}));
}

} // namespace
