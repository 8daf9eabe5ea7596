// kda (with gated linear attention) and rwkv7 against their reference, which goes step by step.
#include "DeltaChannelsTest.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

class DeltaChannels : public OnDevice {};
SECTILE_INSTANTIATE_ON(DeltaChannels, "virtual:sm_80,virtual:sm_90a");
class DeltaChannelsElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(DeltaChannelsElsewhere, "interpreter,virtual:gfx942,virtual:gfx1100");

TEST_P(DeltaChannels, OfAllModelsAndTypes) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const KernelCase &test : {kda, bounded, plainly, attention, rwkv})
    for (const char *dtype : {"bf16", device.name() == "virtual:sm_80" ? "f32" : "f16"})
      if (isAmongAThird(place++))
        expectRight(device, with(test, {}, dtype));
  expectRight(device, with(kda, {}, "bf16,g=bf16,beta=f16"));
  expectRight(device, with(plainly, {}, "f16,g=f16"));
}

TEST_P(DeltaChannels, OfAllLengths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  std::size_t place = 0;
  for (std::int64_t length : {0, 1, 15, 17, 64, 65, 150})
    for (const KernelCase &test : {kda, rwkv})
      if (isAmongAThird(place++))
        expectRight(device, with(test, {{"T", length}, {"Hk", 1}, {"Hv", 2}}));
}

TEST_P(DeltaChannels, OfAllChunks) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (std::int64_t chunk : {16, 32, 64})
    for (const char *dtype : {"bf16", "f32"})
      for (const KernelCase &test : {bounded, rwkv})
        if (const std::size_t row = place++; isAmongAThird(row + row / 4))
          expectRight(device, with(test, {{"T", 90}, {"Hk", 1}, {"Hv", 1}}, dtype,
                                   {{"chunk", chunk}, {"dv", 16}, {"columns", 16}}));
}

TEST_P(DeltaChannels, OfAllWidths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  std::size_t place = 0;
  for (const auto &[width, values] :
       {std::pair(0, 5), {1, 33}, {17, 1}, {128, 16}, {130, 33}, {256, 0}, {256, 16}})
    for (const KernelCase &test : {plainly, rwkv})
      if (isAmongAThird(place++))
        expectRight(device,
                    with(test, {{"T", 70}, {"Hk", 1}, {"Hv", 1}, {"K", width}, {"V", values}}));
}

TEST_P(DeltaChannels, OtherInputsOfRwkv) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const Names &inputs :
       {Names{}, {"z"}, {"A_log", "dt_bias", "D"}, {"g", "A_log", "beta"}, {"dt_bias"}})
    expectRight(device, {"rwkv7", {}, {{"scale", "0.5"}, {"qk_l2norm", "true"}}, inputs, "bf16"});
}

TEST_P(DeltaChannels, OptionsAndStrides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  KernelCase test = with(kda, {}, "bf16");
  test.options = {{"allow_negative", "true"},
                  {"state_layout", "vk"},
                  {"scale", "0.3"},
                  {"dt_min", "0.1"},
                  {"dt_max", "0.9"}};
  expectRight(device, test);
  expectRightWithStrides(device, test);
  expectRightWithStrides(device, with(bounded, {{"B", 2}}, "f16,g=bf16"), Spread::everywhere);
  expectRightWithStrides(device, with(rwkv, {}));
}

TEST_P(DeltaChannelsElsewhere, Works) {
  std::size_t place = 0;
  for (const KernelCase &test : {kda, bounded, attention, rwkv})
    for (const char *dtype : {"bf16", "f16"})
      if (isAmongAThird(place++))
        expectRight(device, with(test, {{"Hk", 1}, {"Hv", 2}}, dtype));
  for (const std::int64_t width : {128, 256})
    for (const KernelCase &test : {plainly, rwkv})
      if (isAmongAThird(place++))
        expectRight(device,
                    with(test, {{"T", 65}, {"Hk", 1}, {"Hv", 1}, {"K", width}, {"V", 16}}, "bf16"));
}

// A chunk's products must neither overflow nor lose the channels that last.
TEST_P(DeltaChannels, ForgetsAtAnySpeed) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  std::size_t place = 0;
  for (const auto &speed : speeds)
    for (const KernelCase &test : {plainly, rwkv, attention})
      for (const char *dtype : {"f32", "bf16", "f16"})
        if ((device.name() == "virtual:sm_90a" ? std::string(dtype) != "f16" : dtype[0] == 'f') &&
            isAmongAThird(place++))
          expectRight(
              device,
              decayed(with(test, {{"T", 80}, {"Hk", 1}, {"Hv", 1}, {"V", 16}}, dtype), speed));
}

// The same key at each step, fully replaced: powers of the triangle are as large as 2^60, and the
// inverse has two diagonals. Values are whole, so that results are too.
TEST_P(DeltaChannels, KeysThatAreAlike) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *dtype : {"f32", "bf16", "f16"}) {
    KernelCase test{"kda", {{"T", 130}}, {{"scale", "1"}}, {"beta", "g"}, dtype};
    test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
      for (const char *name : {"q", "k", "beta", "g"}) {
        HostArray &array = inputs[call.index(name)];
        std::vector<double> numbers(static_cast<std::size_t>(array.count()),
                                    name == std::string("beta") ? 1 : 0);
        if (*name == 'q' || *name == 'k')
          for (std::size_t at = 0; at < numbers.size();
               at += static_cast<std::size_t>(call.extent("K")))
            numbers[at] = 1;
        array.assign(numbers);
      }
      fillIntegers(inputs[call.index("v")], 3, 7);
    };
    expectExact(device, test);
  }
}

TEST_P(DeltaChannels, ThatDecayAlikeAreThoseOfAHead) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const FilledCall heads =
      fill({"delta_rule", {{"T", 50}}, {}, {"beta", "g", "initial_state"}, "f32"});
  FilledCall channels = fill({"kda", {{"T", 50}}, {}, {"beta", "g", "initial_state"}, "f32"});
  const auto logs = heads.inputs[heads.call.index("g")].to_double();
  HostArray &each = channels.inputs[channels.call.index("g")];
  std::vector<double> spread(static_cast<std::size_t>(each.count()));
  for (std::size_t i = 0; i < spread.size(); ++i)
    spread[i] = logs[i * logs.size() / spread.size()];
  each.assign(spread);
  for (const char *name : {"q", "k", "v", "beta", "initial_state"})
    channels.inputs[channels.call.index(name)] = heads.inputs[heads.call.index(name)];
  const auto expected = expectRight(device, heads), given = expectRight(device, channels);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto a = expected[i].to_double(), b = given[i].to_double();
    for (std::size_t at = 0; at < a.size(); ++at)
      ASSERT_NEAR(a[at], b[at], 1e-4 * (1 + std::abs(a[at])));
  }
}

TEST_P(DeltaChannels, ForgetsByChannel) {
  // [example]
  // Two channels, with a key in both. The decay of step 2 forgets the first channel's half.
  const std::vector<float> keys{1, 1, 1, 1}, values{4, 8}, strengths{0.5f, 0};
  const float forget = -std::numeric_limits<float>::infinity();
  const std::vector<float> logs{0, 0, forget, 0};
  auto qk = device.upload(keys), v = device.upload(values), beta = device.upload(strengths),
       g = device.upload(logs);
  auto out = sectile::run_kernel(device.stream(), "kda",
                                 {{"q", tensor(qk, {1, 2, 1, 2})},
                                  {"k", tensor(qk, {1, 2, 1, 2})},
                                  {"v", tensor(v, {1, 2, 1, 1})},
                                  {"beta", tensor(beta, {1, 2, 1})},
                                  {"g", tensor(g, {1, 2, 1, 2})}},
                                 {{"scale", "1"}});
  device.synchronize();
  auto o = out.at("o").as<float, 4>(); // 4, 2
  // [/example]
  EXPECT_EQ(Buffer<float>(o.memory()).download(), (std::vector<float>{4, 2}));
}

TEST(DeltaChannelsReference, PlantedBugsAreCaught) {
  const FilledCall right = fill(with(rwkv, {{"T", 6}}));
  for (const char *input : {"g", "a", "b"})
    expectMistakeIsSeen(right, without(right, input));
}

TEST(DeltaChannelsErrors, SayWhatIsWrong) {
  EXPECT_THAT(refusalOf({"kda", {{"K", 257}}}), HasSubstr("K is 257, but must be at most 256"));
  EXPECT_THAT(refusalOf({"rwkv7", {{"Hv", 5}}}),
              HasSubstr("v has 5 heads, which is no multiple of the 2 heads of k"));
  EXPECT_THAT(refusalOf({"kda", {}, {{"gate", "none"}}, {"g", "dt_bias"}}),
              HasSubstr("dt_bias is the gate's: option 'gate' cannot be none with it"));
  EXPECT_THAT(refusalOf({"kda", {}, {{"rule", "mamba2"}}, {"g"}}),
              HasSubstr("option 'rule' cannot be 'mamba2'"));
  EXPECT_THAT(refusalOf({"rwkv7", {}, {{"beta_sigmoid", "true"}}}),
              HasSubstr("there is no beta, which option 'beta_sigmoid' changes"));
}
