// delta_rule and its gradients against their references, which go step by step.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

class DeltaRule : public OnDevice {};
SECTILE_INSTANTIATE_ON(DeltaRule, "virtual:sm_80,virtual:sm_90a");
class DeltaRuleElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(DeltaRuleElsewhere, "interpreter,virtual:gfx942,virtual:gfx1100");

namespace {

using Names = std::vector<std::string>;
const char *const forward = "delta_rule", *const backward = "delta_rule_backward";
const Names plain{"beta"}, gated{"beta", "g", "initial_state"},
    packed{"beta", "g", "initial_state", "cu_seqlens"};

Names withGradient(Names names, const char *kernel) {
  if (kernel == backward && std::count(names.begin(), names.end(), "initial_state"))
    names.push_back("dfinal_state");
  return names;
}

} // namespace

TEST_P(DeltaRule, OfAllDtypes) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const char *kernel : {forward, backward})
    for (const Names &with : {plain, gated, packed})
      for (const char *dtype : {"bf16", "f16", "f32", "bf16,beta=bf16,g=bf16", "f16,g=f16"})
        if (isAmongAThird(place++))
          expectRight(device, {kernel, {}, {}, withGradient(with, kernel), dtype});
}

TEST_P(DeltaRule, OfAllLengths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  std::size_t place = 0;
  for (const char *kernel : {forward, backward})
    for (std::int64_t length : {0, 1, 15, 16, 17, 33, 64, 65, 200})
      for (const Names &with : {gated, packed})
        if (const std::size_t row = place++; isAmongAThird(row + row / 18))
          expectRight(device, {kernel,
                               {{"T", length}, {"Hk", 1}, {"Hv", 2}},
                               {},
                               withGradient(with, kernel),
                               "bf16"});
}

TEST_P(DeltaRule, OfAllChunks) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  std::size_t place = 0;
  for (const char *kernel : {forward, backward}) {
    ++place;
    for (std::int64_t chunk : {16, 32, 64})
      for (const auto &[dtype, with] : {std::pair("bf16", packed), {"f32", gated}})
        if (isAmongAThird(place++))
          expectRight(device, {kernel,
                               {{"T", 150}, {"Hk", 1}, {"Hv", 2}},
                               {},
                               withGradient(with, kernel),
                               dtype,
                               {{"chunk", chunk}, {"dv", 16}, {"columns", 32}}});
  }
}

TEST_P(DeltaRule, OfAllWidths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const char *kernel : {forward, backward})
    for (const auto &[width, values] : {std::pair(1, 33), {17, 1}, {64, 64}, {130, 33}, {256, 48}})
      if (isAmongAThird(place++))
        expectRight(device, {kernel,
                             {{"T", 70}, {"Hk", 1}, {"Hv", 1}, {"K", width}, {"V", values}},
                             {},
                             withGradient(gated, kernel),
                             "bf16"});
}

TEST_P(DeltaRule, OptionsAndStrides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const Assignments &options :
       {Assignments{{"scale", "0.3"}, {"state_layout", "vk"}},
        {{"qk_l2norm", "true"}, {"beta_sigmoid", "true"}},
        {{"gate", "softplus"}, {"allow_negative", "true"}, {"beta_sigmoid", "true"}},
        {{"gate", "sigmoid"}, {"lower_bound", "-2"}}}) {
    Names with = packed;
    if (options[0].first == "gate")
      with.insert(with.end(), {"A_log", "dt_bias"});
    for (const char *kernel : {forward, backward})
      for (const char *dtype : {"bf16", "f32"})
        if (isAmongAThird(place++))
          expectRight(device, {kernel, {}, options, withGradient(with, kernel), dtype});
  }
  expectRight(device, {forward, {}, {{"gate", "softplus"}}, {"beta", "g"}, "f16"});
  for (const char *kernel : {forward, backward})
    expectRight(device, {kernel, {}, {}, {"beta", "A_log", "dt_bias"}, "bf16"});
  expectRightWithStrides(device, {forward, {{"B", 2}}, {{"state_layout", "vk"}}, gated, "bf16"});
  expectRightWithStrides(device, {forward, {}, {}, packed, "f16"});
  expectRightWithStrides(device, {backward, {}, {}, packed, "bf16"});
}

// Without the correction: gated linear attention, and Mamba-2 with all that it has.
TEST_P(DeltaRule, OtherRules) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const Names mamba{"g", "A_log", "dt_bias", "D", "z", "initial_state"};
  std::size_t place = 0;
  for (const char *kernel : {forward, backward}) {
    ++place;
    for (const char *dtype : {"bf16", "f16", "f32"}) {
      if (isAmongAThird(place++))
        expectRight(device, {kernel,
                             {{"T", 70}},
                             {{"rule", "mamba2"}, {"dt_min", "0.3"}, {"dt_max", "1.2"}},
                             withGradient(mamba, kernel),
                             dtype});
      if (isAmongAThird(place))
        expectRight(device,
                    {kernel, {}, {{"rule", "add"}}, withGradient({"beta", "g"}, kernel), dtype});
    }
  }
  for (const char *kernel : {forward, backward}) {
    expectRight(device, {kernel, {}, {{"rule", "add"}}, {}, "bf16"});
    expectRight(device, {kernel, {}, {{"rule", "mamba2"}}, {"g", "cu_seqlens"}, "bf16,g=bf16"});
    expectRight(device, {kernel,
                         {{"T", 33}, {"K", 130}, {"V", 70}},
                         {{"rule", "mamba2"}, {"qk_l2norm", "true"}},
                         withGradient({"A_log", "z", "cu_seqlens", "initial_state"}, kernel),
                         "bf16"});
    expectRight(device, {kernel, {}, {}, {"beta", "g", "D", "z"}, "bf16"});
    expectRight(device, {kernel, {}, {}, {"g", "D"}, "f16"});
  }
  expectRightWithStrides(device, {backward, {}, {{"rule", "mamba2"}}, {"g", "D", "z"}, "bf16"});
}

TEST_P(DeltaRuleElsewhere, Works) {
  std::size_t place = 0;
  for (const char *kernel : {forward, backward})
    for (const char *dtype : {"bf16", "f16"})
      for (const Names &with : {gated, packed})
        if (isAmongAThird(place++))
          expectRight(device, {kernel,
                               {{"Hk", 1}, {"Hv", 2}},
                               {{"qk_l2norm", "true"}},
                               withGradient(with, kernel),
                               dtype});
}

// Strong decays, and decays to nothing in the middle of chunks.
TEST_P(DeltaRule, ForgetsAll) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : {forward, backward})
    for (const char *dtype : {"f32", "bf16"}) {
      KernelCase test{kernel, {{"T", 80}}, {}, gated, dtype};
      test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
        auto logs = inputs[call.index("g")].as<float>();
        for (std::size_t i = 0; i < logs.size(); ++i)
          logs[i] = i % 7 == 3   ? -std::numeric_limits<float>::infinity()
                    : i % 5 == 1 ? -60.0f
                                 : logs[i];
      };
      expectRight(device, test);
    }
}

// The same key at each step, fully replaced: powers of the triangle are as large as 2^60, and the
// inverse has two diagonals. Values are whole, so that results are too.
TEST_P(DeltaRule, KeysThatAreAlike) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *dtype : {"f32", "bf16", "f16"}) {
    KernelCase test{forward, {{"T", 130}}, {{"scale", "1"}}, plain, dtype};
    test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
      for (std::size_t i : {0, 1, 3})
        inputs[i].assign(std::vector<double>(static_cast<std::size_t>(inputs[i].count()), 0));
      for (std::size_t i : {0, 1}) {
        std::vector<double> rows = inputs[i].to_double();
        for (std::size_t at = 0; at < rows.size(); at += static_cast<std::size_t>(call.extent("K")))
          rows[at] = 1;
        inputs[i].assign(rows);
      }
      inputs[3].assign(std::vector<double>(static_cast<std::size_t>(inputs[3].count()), 1));
      fillIntegers(inputs[2], 3, 7);
    };
    expectExact(device, test);
  }
}

TEST_P(DeltaRule, ReplacesWhatAKeyStoodFor) {
  // [example]
  // One key: beta 1 replaces its value, 1/2 goes half of the way. The decay of step 2 halves it
  // before.
  const std::vector<float> ones{1, 1, 1}, values{4, 8, 6}, strengths{1, 0.5f, 0};
  const std::vector<float> logs{0, 0, std::log(0.5f)};
  auto one = device.upload(ones), v = device.upload(values), beta = device.upload(strengths),
       g = device.upload(logs);
  auto out = sectile::run_kernel(device.stream(), "delta_rule",
                                 {{"q", tensor(one, {1, 3, 1, 1})},
                                  {"k", tensor(one, {1, 3, 1, 1})},
                                  {"v", tensor(v, {1, 3, 1, 1})},
                                  {"beta", tensor(beta, {1, 3, 1})},
                                  {"g", tensor(g, {1, 3, 1})}});
  device.synchronize();
  auto o = out.at("o").as<float, 4>(); // 4, 6, 3
  // [/example]
  EXPECT_EQ(Buffer<float>(o.memory()).download(), (std::vector<float>{4, 6, 3}));
}

// A decay that comes too late, and a state that is not handed on: the harness must see it.
TEST(DeltaRuleReference, PlantedBugsAreCaught) {
  const FilledCall right = fill({forward, {{"T", 6}}, {}, gated, "bf16"});
  for (const char *input : {"g", "initial_state", "beta"})
    expectMistakeIsSeen(right, without(right, input));
}

TEST(DeltaRuleErrors, SayWhatIsWrong) {
  EXPECT_THAT(refusalOf({forward, {{"K", 257}}}), HasSubstr("K is 257, but must be at most 256"));
  EXPECT_THAT(refusalOf({forward, {{"Hv", 5}}}),
              HasSubstr("v has 5 heads, which is no multiple of the 2 heads of k"));
  EXPECT_THAT(refusalOf({forward, {{"B", 2}}, {}, {"cu_seqlens"}}),
              HasSubstr("with cu_seqlens B must be 1, but is 2"));
  EXPECT_THAT(refusalOf({forward, {{"N1", 1}}, {}, {"cu_seqlens"}}),
              HasSubstr("q has steps, but there is no sequence"));
  EXPECT_THAT(refusalOf({forward, {{"N", 3}}, {}, {"initial_state"}}),
              HasSubstr("there are 3 states, but 1 sequences"));
  EXPECT_THAT(refusalOf({forward, {}, {{"rule", "mamba2"}}, {"beta", "g"}}),
              HasSubstr("with rule=mamba2 beta is softplus(g + dt_bias): leave beta out"));
  EXPECT_THAT(refusalOf({forward, {}, {{"rule", "mamba2"}, {"gate", "sigmoid"}}, {"g"}}),
              HasSubstr("with rule=mamba2 option 'gate' must be softplus"));
  EXPECT_THAT(refusalOf({forward, {}, {{"allow_negative", "true"}}, {"g"}}),
              HasSubstr("there is no beta, which option 'allow_negative' changes"));
  EXPECT_THAT(refusalOf({forward, {}, {{"dt_max", "1"}}, {"g"}}),
              HasSubstr("option 'dt_max' is a limit of gate=softplus"));
  EXPECT_THAT(
      refusalOf({forward, {}, {{"rule", "mamba2"}, {"dt_min", "2"}, {"dt_max", "1"}}, {"g"}}),
      HasSubstr("option 'dt_min' must be from 0 to dt_max"));
  EXPECT_THAT(refusalOf({forward, {}, {{"gate", "none"}}, {"g", "A_log"}}),
              HasSubstr("A_log is the gate's: option 'gate' cannot be none with it"));
}
