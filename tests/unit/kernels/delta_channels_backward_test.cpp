// The gradients of kda (with gated linear attention) and rwkv7 against their reference, which goes
// step by step, and that against differences of the forward one.
#include "DeltaChannelsTest.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

class DeltaChannelGradients : public OnDevice {};
SECTILE_INSTANTIATE_ON(DeltaChannelGradients, "virtual:sm_80,virtual:sm_90a");
class DeltaChannelGradientsElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(DeltaChannelGradientsElsewhere,
                       "interpreter,virtual:gfx942,virtual:gfx1100");

namespace {

// The case of the gradients, with that of the last state where there is a first one.
KernelCase gradients(KernelCase test) {
  test.kernel += "_backward";
  if (std::count(test.with.begin(), test.with.end(), "initial_state"))
    test.with.push_back("dfinal_state");
  return test;
}

} // namespace

TEST_P(DeltaChannelGradients, OfAllModelsAndTypes) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const KernelCase &test : {kda, bounded, plainly, attention, rwkv})
    for (const char *dtype : {"bf16", device.name() == "virtual:sm_80" ? "f32" : "f16"})
      // kda's first row is that of mixed types below, but for these.
      if (const std::size_t row = place++; isAmongAThird(row) && (row || count(0, 1)))
        expectRight(device, gradients(with(test, {}, dtype)));
  expectRight(device, gradients(with(kda, {}, "bf16,g=bf16,beta=f16")));
  if (count(0, 1))
    expectRight(device, gradients(with(plainly, {}, "f16,g=f16")));
}

TEST_P(DeltaChannelGradients, OfAllLengths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  std::size_t place = 0;
  for (std::int64_t length : {0, 1, 15, 17, 64, 65})
    for (const KernelCase &test : {kda, rwkv})
      if (isAmongAThird(place++))
        expectRight(device, gradients(with(test, {{"T", length}, {"Hk", 1}, {"Hv", 2}})));
}

TEST_P(DeltaChannelGradients, OfAllChunks) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (std::int64_t chunk : {16, 32, 64})
    for (const char *dtype : {"bf16", "f32"})
      for (const KernelCase &test : {bounded, rwkv})
        if (const std::size_t row = place++; isAmongAThird(row + row / 4))
          expectRight(device, gradients(with(test, {{"T", 90}, {"Hk", 1}, {"Hv", 1}}, dtype,
                                             {{"chunk", chunk}, {"dv", 16}, {"columns", 16}})));
}

TEST_P(DeltaChannelGradients, OfAllWidths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  std::size_t place = 0;
  for (const auto &[width, values] :
       {std::pair(0, 5), {1, 33}, {17, 1}, {128, 16}, {130, 33}, {256, 0}, {256, 16}})
    for (const KernelCase &test : {plainly, rwkv})
      if (isAmongAThird(place++))
        expectRight(
            device,
            gradients(with(test, {{"T", 50}, {"Hk", 1}, {"Hv", 1}, {"K", width}, {"V", values}})));
}

TEST_P(DeltaChannelGradients, OtherInputsOfRwkv) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const Names &inputs :
       {Names{}, {"z"}, {"A_log", "dt_bias", "D"}, {"g", "A_log", "beta"}, {"dt_bias"}})
    expectRight(device,
                {"rwkv7_backward", {}, {{"scale", "0.5"}, {"qk_l2norm", "true"}}, inputs, "bf16"});
}

TEST_P(DeltaChannelGradients, OptionsAndStrides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  KernelCase test = with(kda, {}, "bf16");
  test.options = {{"allow_negative", "true"},
                  {"state_layout", "vk"},
                  {"scale", "0.3"},
                  {"dt_min", "0.1"},
                  {"dt_max", "0.9"}};
  expectRight(device, gradients(test));
  expectRightWithStrides(device, gradients(test));
  expectRightWithStrides(device, gradients(with(bounded, {{"B", 2}}, "f16,g=bf16")),
                         Spread::everywhere);
  expectRightWithStrides(device, gradients(with(rwkv, {})));
}

TEST_P(DeltaChannelGradientsElsewhere, Works) {
  std::size_t place = 0;
  for (const KernelCase &test : {kda, bounded, attention, rwkv})
    for (const char *dtype : {"bf16", "f16"})
      if (isAmongAThird(place++))
        expectRight(device, gradients(with(test, {{"Hk", 1}, {"Hv", 2}}, dtype)));
  for (const KernelCase &test : {plainly, rwkv})
    if (isAmongAThird(place++))
      expectRight(
          device,
          gradients(with(test, {{"T", 33}, {"Hk", 1}, {"Hv", 1}, {"K", 128}, {"V", 16}}, "bf16")));
}

TEST_P(DeltaChannelGradients, OfDecaysAtAnySpeed) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  std::size_t place = 0;
  for (const Speed &speed : speeds)
    for (const KernelCase &test : {plainly, rwkv, attention})
      for (const char *dtype : {"f32", "bf16", "f16"})
        if ((device.name() == "virtual:sm_90a" ? std::string(dtype) != "f16" : dtype[0] == 'f') &&
            isAmongAThird(place++))
          expectRight(device,
                      gradients(decayed(
                          with(test, {{"T", 70}, {"Hk", 1}, {"Hv", 1}, {"V", 16}}, dtype), speed)));
}

// What decays to nothing has a gradient of exactly nothing, whatever its neighbours have.
TEST_P(DeltaChannelGradients, OfWhatIsForgottenAreNothing) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const auto isForgotten = [](std::int64_t t, std::int64_t d) { return (t + d) % 5 == 2; };
  for (KernelCase test : {plainly, rwkv})
    for (const char *dtype : {"f32", "bf16"}) {
      test.with = {"g", "initial_state"};
      const FilledCall filled = fill(gradients(
          decayed(with(test, {{"T", 40}, {"Hk", 1}, {"Hv", 1}}, dtype),
                  [&](std::int64_t t, std::int64_t d) {
                    return isForgotten(t, d) ? -std::numeric_limits<float>::infinity() : -0.1f;
                  })));
      const auto outputs = expectRight(device, filled);
      const std::int64_t width = filled.call.extent("K");
      const auto dg = outputs[filled.call.index("dg") - filled.inputs.size()].to_double();
      for (std::size_t i = 0; i < dg.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        EXPECT_EQ(dg[i] == 0, isForgotten(at / width, at % width)) << test.kernel << " at " << i;
      }
    }
}

// Of decays that are the same in all channels, the sums over these are the gradients by head.
TEST_P(DeltaChannelGradients, ThatDecayAlikeAreThoseOfAHead) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const Names inputs{"beta", "g", "initial_state", "dfinal_state"};
  const FilledCall heads = fill({"delta_rule_backward", {{"T", 50}}, {}, inputs, "f32"});
  FilledCall channels = fill({"kda_backward", {{"T", 50}}, {}, inputs, "f32"});
  const auto logs = heads.inputs[heads.call.index("g")].to_double();
  HostArray &each = channels.inputs[channels.call.index("g")];
  std::vector<double> spread(static_cast<std::size_t>(each.count()));
  const std::size_t width = spread.size() / logs.size();
  for (std::size_t i = 0; i < spread.size(); ++i)
    spread[i] = logs[i / width];
  each.assign(spread);
  for (const char *name : {"q", "k", "v", "beta", "initial_state", "do", "dfinal_state"})
    channels.inputs[channels.call.index(name)] = heads.inputs[heads.call.index(name)];
  const auto expected = expectRight(device, heads), given = expectRight(device, channels);
  const std::size_t ofLogs = heads.call.index("dg") - heads.inputs.size();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto a = expected[i].to_double();
    auto b = given[i].to_double();
    if (i == ofLogs) {
      std::vector<double> sums(a.size());
      for (std::size_t at = 0; at < b.size(); ++at)
        sums[at / width] += b[at];
      b = sums;
    }
    for (std::size_t at = 0; at < a.size(); ++at)
      ASSERT_NEAR(a[at], b[at], 2e-4 * (1 + std::abs(a[at]))) << "output " << i;
  }
}

TEST(DeltaChannelGradientsReference, IsThatOfDifferences) {
  const std::map<std::string, std::int64_t> tiny{
      {"T", 5}, {"Hk", 1}, {"Hv", 2}, {"K", 3}, {"V", 2}};
  for (KernelCase test : {kda, bounded, plainly, attention, rwkv}) {
    test = with(test, tiny, "f32");
    expectGradients(test, test.kernel + "_backward");
    test.with.push_back("z");
    test.with.push_back("D");
    test.options.emplace_back("state_layout", "vk");
    expectGradients(test, test.kernel + "_backward");
  }
}

TEST(DeltaChannelGradientsReference, PlantedBugsAreCaught) {
  const FilledCall right = fill(gradients(with(rwkv, {{"T", 6}})));
  for (const char *input : {"g", "a", "b", "do"})
    expectMistakeIsSeen(right, without(right, input));
}

TEST(DeltaChannelGradientsErrors, SayWhatIsWrong) {
  EXPECT_THAT(refusalOf({"kda_backward", {{"K", 257}}}),
              HasSubstr("K is 257, but must be at most 256"));
  EXPECT_THAT(refusalOf({"rwkv7_backward", {{"Hv", 5}}}),
              HasSubstr("v has 5 heads, which is no multiple of the 2 heads of k"));
  EXPECT_THAT(refusalOf({"kda_backward", {}, {{"rule", "mamba2"}}, {"g"}}),
              HasSubstr("option 'rule' cannot be 'mamba2'"));
}
