// delta_step and rwkv7_step: rules and gates, states in place, rows that are skipped, several steps
// as one at a time and as rwkv7's, refusals.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <limits>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

class DeltaStep : public OnDevice {};
SECTILE_INSTANTIATE_ON(DeltaStep, "virtual:sm_80,virtual:sm_90a");
class DeltaStepElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(DeltaStepElsewhere, "interpreter,virtual:gfx942,virtual:gfx1100");

namespace {

using Names = std::vector<std::string>;
const char *const kernel = "delta_step";

// What models have: the gated delta rule, KDA, Mamba-2, gated linear attention, and RWKV-7.
const std::vector<KernelCase> &models() {
  static const std::vector<KernelCase> all{
      {kernel,
       {},
       {{"qk_l2norm", "true"}, {"beta_sigmoid", "true"}},
       {"beta", "g", "A_log", "dt_bias", "indices"}},
      {kernel, {}, {{"qk_l2norm", "true"}, {"scale", "1"}}, {"beta", "gk", "indices"}},
      {kernel, {}, {{"rule", "mamba2"}}, {"g", "A_log", "dt_bias", "D", "z", "indices"}},
      {kernel,
       {},
       {{"rule", "mamba2"}, {"dt_min", "0.3"}, {"dt_max", "1.2"}},
       {"g", "A_log", "dt_bias"}},
      {kernel, {}, {{"rule", "add"}}, {"g", "gk"}},
      {kernel,
       {},
       {{"gate", "sigmoid"}, {"allow_negative", "true"}, {"keep_states", "true"}},
       {"beta", "g", "A_log"}},
      {kernel, {}, {{"state_layout", "kv"}, {"keep_states", "true"}}, {"beta"}},
      {"rwkv7_step",
       {},
       {{"gate", "sigmoid"}, {"lower_bound", "-0.6065306597126334"}},
       {"g", "indices"}},
      {"rwkv7_step",
       {},
       {{"qk_l2norm", "true"}, {"dt_max", "0.9"}, {"keep_states", "true"}},
       {"beta", "g", "A_log", "dt_bias", "D", "z"}},
  };
  return all;
}

} // namespace

TEST_P(DeltaStep, OfAllModelsAndTypes) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (KernelCase test : models())
    for (const char *dtype :
         {"q=f16,state=f32,beta=f32,g=f32", "q=bf16,state=bf16,beta=bf16,g=f16",
          "q=f32,state=f32,beta=f16,g=bf16", "q=bf16,state=f32,beta=f32,g=bf16"}) {
      test.dtype = dtype;
      expectRight(device, test);
    }
}

TEST_P(DeltaStep, IsRightAtEveryEdge) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (KernelCase test : models())
    for (const std::map<std::string, std::int64_t> &extents :
         std::vector<std::map<std::string, std::int64_t>>{{{"B", 0}},
                                                          {{"T", 0}},
                                                          {{"T", 5}},
                                                          {{"K", 0}},
                                                          {{"K", 1}, {"V", 1}},
                                                          {{"K", 33}, {"V", 65}},
                                                          {{"K", 256}, {"B", 1}},
                                                          {{"V", 0}},
                                                          {{"Hv", 0}},
                                                          {{"Hk", 1}, {"Hv", 3}},
                                                          {{"B", 1}, {"P", 1}}}) {
      test.extents = extents;
      expectRight(device, test);
    }
}

TEST_P(DeltaStep, OfAllConfigurations) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (KernelCase test : models())
    for (std::int64_t dv : {4, 64})
      for (std::int64_t warps : {1, 4}) {
        test.config = {{"dv", dv}, {"warps", warps}};
        expectRight(device, test);
      }
}

TEST_P(DeltaStep, Strides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const KernelCase &test : models()) {
    expectRightWithStrides(device, test);
    expectRightWithStrides(device, test, Spread::everywhere);
  }
}

TEST_P(DeltaStepElsewhere, Works) {
  for (const KernelCase &test : models())
    expectRight(device, test);
}

// With states of integers and decays of 1 nothing is rounded.
TEST_P(DeltaStep, SumsOfIntegersAreExact) {
  const auto fillAll = [](const Invocation &, std::vector<HostArray> &inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i].data.empty())
        fillIntegers(inputs[i], 1, i);
  };
  KernelCase rwkv{"rwkv7_step", {{"T", 2}}, {}, {"beta", "D"}, "f16"};
  rwkv.prepare = fillAll;
  expectExact(device, rwkv);
  for (const char *rule : {"delta", "add"}) {
    KernelCase test{kernel, {{"T", 3}}, {{"rule", rule}, {"scale", "1"}}, {"beta", "D"}, "f16"};
    test.prepare = fillAll;
    if (std::string(rule) == "delta") // keys with one number: u stays small
      test.prepare = [plain = test.prepare](const Invocation &call,
                                            std::vector<HostArray> &inputs) {
        plain(call, inputs);
        auto keys = inputs[1].to_double();
        for (std::size_t i = 0; i < keys.size(); ++i)
          keys[i] = i % 24 == 7 ? 1 : 0;
        inputs[1].assign(keys);
      };
    expectExact(device, test);
  }
}

// A decay to nothing forgets whatever there was; a NaN stays in its row of the state.
TEST_P(DeltaStep, ForgetsAll) {
  for (const char *name : {kernel, "rwkv7_step"}) {
    KernelCase test{name, {{"B", 2}, {"T", 1}, {"P", 2}}, {}, {"beta", "g"}, "f32"};
    test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
      for (float &log : inputs[call.index("g")].as<float>())
        log = -std::numeric_limits<float>::infinity();
    };
    expectRight(device, test);
    test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
      inputs[call.index("state")].as<float>()[24 * 3] = NAN; // of row 3 of head 0
    };
    const auto outputs = expectRight(device, test);
    const auto o = outputs[0].as<float>();
    for (std::size_t i = 0; i < o.size(); ++i)
      EXPECT_EQ(std::isnan(o[i]), i == 3) << i;
  }
}

// K is no multiple of 16: what lies beyond it in a program's rows must not meet the infinity.
TEST_P(DeltaStep, AnInfinityIsNoNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const char *name : {kernel, "rwkv7_step"}) {
    KernelCase test{name, {{"B", 1}, {"T", 1}, {"P", 1}}, {}, {}, "f32"};
    test.prepare = [&](const Invocation &call, std::vector<HostArray> &inputs) {
      for (const char *input : {"q", "k"})
        for (float &number : inputs[call.index(input)].as<float>())
          number = std::abs(number);
      inputs[call.index("v")].as<float>()[3] = infinity;
    };
    EXPECT_EQ(expectRight(device, test)[0].as<float>()[3], infinity) << name;
  }
}

// A step at a time gives what all steps at once, by chunks, do.
TEST_P(DeltaStep, ContinuesRwkv7) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const Names inputs{"beta", "g", "A_log", "dt_bias"};
  const Assignments options{{"gate", "sigmoid"}};
  const FilledCall chunks = fill({"rwkv7", {{"B", 1}, {"T", 9}, {"N", 1}}, options, inputs, "f32"});
  FilledCall steps = fill({"rwkv7_step", {{"B", 1}, {"T", 9}, {"P", 1}}, options, inputs, "f32"});
  for (const char *name : {"q", "k", "v", "a", "b", "beta", "g", "A_log", "dt_bias"})
    steps.inputs[steps.call.index(name)] = chunks.inputs[chunks.call.index(name)];
  HostArray &state = steps.inputs[steps.call.index("state")];
  state.assign(std::vector<double>(static_cast<std::size_t>(state.count())));
  const auto wanted = expectRight(device, chunks), outputs = expectRight(device, steps);
  const auto o = outputs[0].to_double(), all = wanted[0].to_double(), last = outputs[1].to_double(),
             final = wanted[1].to_double();
  for (std::size_t i = 0; i < o.size(); ++i)
    EXPECT_NEAR(o[i], all[i], 3e-5) << i;
  const std::size_t k = 24, v = 20;
  for (std::size_t i = 0; i < last.size(); ++i)
    EXPECT_NEAR(last[i], final[i / (k * v) * k * v + i % k * v + i / k % v], 3e-5) << i;
}

// Of one call each, except for how products and sums are fused. The states that a call keeps are
// those that the others leave.
TEST_P(DeltaStep, StepsAreThoseOfOneCall) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (KernelCase test : models()) {
    test.extents = {{"B", 1}, {"T", 3}, {"P", 1}};
    test.dtype = "f32";
    std::erase(test.with, "indices");
    std::erase_if(test.options, [](const auto &option) { return option.first == "keep_states"; });
    KernelCase keeping = test;
    keeping.options.emplace_back("keep_states", "true");
    const FilledCall whole = fill(keeping);
    const auto wanted = expectRight(device, whole);
    test.extents["T"] = 1;
    HostArray state = whole.inputs[whole.call.index("state")];
    for (std::size_t t = 0; t < 3; ++t) {
      FilledCall one = fill(test);
      for (std::size_t i = 0; i < one.inputs.size(); ++i) {
        const HostArray &from = whole.inputs[i];
        if (from.data.empty())
          continue;
        HostArray &to = one.inputs[i];
        const bool steps = from.data.size() == 3 * to.data.size();
        std::copy_n(from.data.begin() + static_cast<std::ptrdiff_t>(steps ? t * to.data.size() : 0),
                    to.data.size(), to.data.begin());
      }
      one.inputs[one.call.index("state")] = state;
      const auto outputs = expectRight(device, one);
      const auto o = outputs[0].to_double(), all = wanted[0].to_double();
      for (std::size_t i = 0; i < o.size(); ++i)
        EXPECT_NEAR(o[i], all[t * o.size() + i], 3e-6) << t << " " << i;
      const auto next = outputs[1].to_double(), kept = wanted[2].to_double();
      for (std::size_t i = 0; i < next.size(); ++i)
        EXPECT_NEAR(next[i], kept[t * next.size() + i], 3e-6) << t << " " << i;
      state = outputs[1];
    }
  }
}

TEST_P(DeltaStep, SkipsSequencesWithoutARow) {
  FilledCall filled =
      fill({kernel, {}, {{"keep_states", "true"}}, {"beta", "g", "indices"}, "f32"});
  filled.inputs[filled.call.index("indices")].assign(std::vector<double>{-1, 3, -5});
  const auto outputs = expectRight(device, filled);
  const auto before = filled.inputs[filled.call.index("state")].to_double(),
             after = outputs[1].to_double(), o = outputs[0].to_double(),
             states = outputs[2].to_double();
  const std::size_t row = before.size() / 5;
  for (std::size_t i = 0; i < before.size(); ++i)
    if (i / row != 3)
      ASSERT_EQ(before[i], after[i]) << i;
  for (const auto *values : {&o, &states})
    for (std::size_t i = 0; i < values->size(); ++i)
      if (3 * i / values->size() != 1)
        ASSERT_EQ((*values)[i], 0) << i;
}

// On the device an index that is no row is none.
TEST_P(DeltaStep, LeavesOutRowsThatThereAreNot) {
  FilledCall filled = fill({kernel, {{"B", 2}}, {}, {"beta", "indices"}, "f32"});
  auto &indices = filled.inputs[filled.call.index("indices")];
  indices.assign(std::vector<double>{5, 1});
  const auto run = [&] {
    return execute(device, filled.call, completeConfig(filled.call, device.target(), {}),
                   filled.inputs)
        .outputs;
  };
  const auto beyond = run();
  indices.assign(std::vector<double>{-1, 1});
  const auto none = run();
  EXPECT_EQ(beyond[0].data, none[0].data);
  EXPECT_EQ(beyond[1].data, none[1].data);
}

TEST_P(DeltaStep, AnExample) {
  // [example]
  // A state of one number: 4 decays to 2; the key stood for 2, the value is 3, half of it is made
  // up for.
  const std::vector<float> ones{1}, values{3}, halves{0.5f}, logs{std::log(0.5f)}, four{4};
  auto one = device.upload(ones), v = device.upload(values), beta = device.upload(halves),
       g = device.upload(logs), state = device.upload(four);
  auto pool = tensor(state, {1, 1, 1, 1});
  auto out = sectile::run_kernel(device.stream(), "delta_step",
                                 {{"q", tensor(one, {1, 1, 1, 1})},
                                  {"k", tensor(one, {1, 1, 1, 1})},
                                  {"v", tensor(v, {1, 1, 1, 1})},
                                  {"beta", tensor(beta, {1, 1, 1})},
                                  {"g", tensor(g, {1, 1, 1})},
                                  {"state", pool}},
                                 {}, {{"state_out", pool}});
  device.synchronize();
  auto o = out.at("o").as<float, 4>(); // 2.5, as pool is now
  // [/example]
  EXPECT_FLOAT_EQ(o.download()[0], 2.5f);
  EXPECT_FLOAT_EQ(state.download()[0], 2.5f);
}

TEST(DeltaStepOnTheHost, Refusals) {
  const auto expectRefused = [](const KernelCase &test, const char *why) {
    try {
      fill(test);
      FAIL() << "not refused: " << why;
    } catch (const InputError &error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  expectRefused({kernel, {{"Hv", 3}}}, "v has 3 heads, which is no multiple of the 2 heads of k");
  expectRefused({kernel, {{"K", 257}}}, "K is 257");
  expectRefused({kernel, {{"B", 6}}}, "5 rows for 6 sequences");
  expectRefused({kernel, {}, {{"gate", "none"}}, {"A_log"}}, "A_log is the gate's");
  expectRefused({kernel, {}, {{"rule", "mamba2"}}, {"beta"}}, "leave beta out");
  expectRefused({kernel, {}, {{"rule", "mamba2"}, {"gate", "sigmoid"}}}, "must be softplus");
  expectRefused({kernel, {}, {{"dt_min", "0.1"}}}, "option 'dt_min' is a limit of gate=softplus");
  expectRefused({kernel, {}, {{"beta_sigmoid", "true"}}}, "there is no beta");
  expectRefused({"rwkv7_step", {{"Hv", 3}}},
                "v has 3 heads, which is no multiple of the 2 heads of k");
  expectRefused({"rwkv7_step", {{"K", 257}}}, "K is 257");
  expectRefused({"rwkv7_step", {{"B", 6}}}, "5 rows for 6 sequences");
  expectRefused({"rwkv7_step", {}, {{"gate", "none"}}, {"dt_bias"}}, "dt_bias is the gate's");
  expectRefused({"rwkv7_step", {}, {{"dt_max", "1"}}}, "is a limit of gate=softplus");
  expectRefused({"rwkv7_step", {}, {{"beta_sigmoid", "true"}}}, "there is no beta");
  expectRefused({"rwkv7_step", {}, {{"rule", "delta"}}}, "rule");

  FilledCall filled = fill({kernel, {}, {}, {"indices"}});
  const auto expectContents = [&](const std::vector<double> &rows, const char *why) {
    filled.inputs[filled.call.index("indices")].assign(rows);
    try {
      filled.call.kernel->contents(filled.call, filled.inputs);
      FAIL() << "not refused: " << why;
    } catch (const InputError &error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  expectContents({0, 5, -1}, "indices[1] is 5, but there are 5 rows");
  expectContents({2, -1, 2}, "indices[2] is 2, and so is that of sequence 0");
}
