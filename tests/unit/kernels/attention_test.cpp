// The forward attention kernel over its options, alone and together.
#include "AttentionTest.h"
#include "tests/unit/Processes.h"
#include <gmock/gmock.h>
#include <sectile/attention.h>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;

namespace {

SECTILE_INSTANTIATE_ON(Attention, "virtual:sm_80,virtual:sm_90,virtual:sm_90a");
SECTILE_INSTANTIATE_ON(AttentionAnywhere, "interpreter,virtual:gfx942,virtual:gfx1100");

// One query beside the second of three keys whose scores are 0, 1 and 2; values 1, 10 and 100.
TEST(AttentionReference, ByHand) {
  auto array = [](Shape shape, std::vector<double> values) {
    return HostArray(DType::float64, std::move(shape), values);
  };
  const auto q = array({1, 1, 1, 1}, {1}), k = array({1, 1, 3, 1}, {0, 1, 2}),
             v = array({1, 1, 3, 1}, {1, 10, 100});
  const double e = std::exp(1.0);
  auto expect = [&](AttentionSettings settings, double o, double sum) {
    settings.scale = 1;
    const auto result = attentionReference(q, k, v, settings, Arithmetic::exact);
    EXPECT_NEAR(result.o.to_double()[0], o, 1e-12);
    EXPECT_NEAR(result.lse.to_double()[0], std::log(sum), 1e-12);
  };
  const double all = 1 + e + e * e;
  expect({}, (1 + 10 * e + 100 * e * e) / all, all);
  // The only query lies beside the last key.
  expect({.causal = true}, (1 + 10 * e + 100 * e * e) / all, all);
  expect({.left = 0, .right = 0}, 100, e * e);
  expect({.left = 1}, (10 * e + 100 * e * e) / (e + e * e), e + e * e);
  const double t1 = std::exp(0.5 * std::tanh(2.0)), t2 = std::exp(0.5 * std::tanh(4.0));
  expect({.cap = 0.5}, (1 + 10 * t1 + 100 * t2) / (1 + t1 + t2), 1 + t1 + t2);
  const auto sinks = array({1, 2}, {0, 1});
  expect({.sinks = &sinks}, (1 + 10 * e + 100 * e * e) / (all + 1 + e), all + 1 + e);
  // After the cap: a bias of -inf hides, and does not leak as -cap would.
  const auto bias = array({1, 1, 1, 3}, {0, 0, -std::numeric_limits<double>::infinity()});
  expect({.cap = 0.5, .bias = &bias}, (1 + 10 * t1) / (1 + t1), 1 + t1);
}

TEST_P(Attention, TypedCallsDoTheSameInBothLayouts) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  constexpr int heads = 2, length = 20, width = 16;
  const Invocation call = resolveTypical(findKernel("attention"), "f16",
                                         {{"B", 1},
                                          {"Hq", heads},
                                          {"Hkv", heads},
                                          {"Sq", length},
                                          {"Sk", length},
                                          {"D", width},
                                          {"Dv", width}},
                                         {});
  const std::vector<HostArray> inputs = sampleInputs(call, 3);
  std::vector<Tensor<const half, 4>> rows, columns;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto values = inputs[i].as<half>();
    const auto buffer = device.upload(std::vector<half>(values.begin(), values.end()));
    rows.push_back(tensor(buffer, {1, heads, length, width}));
    // The same elements, axes named in the other order.
    columns.push_back(rows.back().permute({0, 2, 1, 3}));
  }
  AttentionOptions options{.causal = true, .dropout = 0.25, .seed = 9};
  const auto first = attention(device.stream(), rows[0], rows[1], rows[2], options);
  options.layout = AttentionLayout::bshd;
  const auto second = attention(device.stream(), columns[0], columns[1], columns[2], options);
  const auto gradients = attention_backward(device.stream(), columns[0], columns[1], columns[2],
                                            second.o, second.lse, columns[0], options);
  device.synchronize();
  EXPECT_EQ(Buffer<float>(first.lse.memory()).download(),
            Buffer<float>(second.lse.memory()).download());
  EXPECT_EQ(second.o.extents(), (std::array<std::int64_t, 4>{1, length, heads, width}));
  EXPECT_EQ(gradients.dk.extents(), second.o.extents());
  EXPECT_FALSE(gradients.dbias || gradients.dsinks);
  // What is given is written.
  const AttentionOutputs<half, 4> out{
      tensor(device.allocate<half>(heads * length * width), {1, length, heads, width}),
      tensor(device.allocate<float>(heads * length), {1, heads, length})};
  const auto given = attention(device.stream(), columns[0], columns[1], columns[2], options, out);
  EXPECT_EQ(given.o.data(), out.o.data());
  EXPECT_EQ(Buffer<float>(out.lse.memory()).download(),
            Buffer<float>(second.lse.memory()).download());
  const auto fresh = [&] {
    return tensor(device.allocate<half>(heads * length * width), {1, length, heads, width});
  };
  const AttentionGradients<half, 4> to{fresh(), fresh(), fresh()};
  const auto again = attention_backward(device.stream(), columns[0], columns[1], columns[2],
                                        second.o, second.lse, columns[0], options, to);
  EXPECT_EQ(again.dk.data(), to.dk.data());
  device.synchronize();
  const auto bits = [](const Tensor<half, 4> &numbers) {
    std::vector<float> all;
    for (const half number : Buffer<half>(numbers.memory()).download())
      all.push_back(static_cast<float>(number));
    return all;
  };
  EXPECT_EQ(bits(to.dk), bits(gradients.dk));
  EXPECT_EQ(bits(to.dv), bits(gradients.dv));
  const auto a = Buffer<half>(first.o.memory()).download(),
             b = Buffer<half>(second.o.memory()).download();
  for (int h = 0; h < heads; ++h)
    for (int s = 0; s < length; ++s)
      for (int d = 0; d < width; ++d)
        EXPECT_EQ(static_cast<float>(a[static_cast<std::size_t>((h * length + s) * width + d)]),
                  static_cast<float>(b[static_cast<std::size_t>((s * heads + h) * width + d)]));
}

TEST_P(Attention, LengthsBesideTileEdges) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  for (auto [queries, keys] :
       {std::pair{1, 1}, {1, 65}, {63, 64}, {65, 63}, {64, 129}, {0, 5}, {5, 0}})
    for (const char *causal : {"false", "true"})
      expectRight(device, {"attention",
                           {{"Sq", queries}, {"Sk", keys}},
                           {{"causal", causal}},
                           {},
                           queries % 2 ? "f16" : "bf16"});
}

// Few queries: rows of one block are of several heads, and keys are split among programs.
void expectFewQueriesRight(const Device &device, bool everything) {
  const auto few = [](int queries, int keys, int heads, int kvHeads, Assignments options = {},
                      std::vector<std::string> with = {}, std::string dtype = "f16", int d = 64,
                      Config config = {{"packed", 1}, {"splits", 3}}) {
    return KernelCase{"attention",
                      {{"B", 2},
                       {"Sq", queries},
                       {"Sk", keys},
                       {"Hq", heads},
                       {"Hkv", kvHeads},
                       {"D", d},
                       {"Dv", d}},
                      std::move(options),
                      std::move(with),
                      std::move(dtype),
                      std::move(config)};
  };
  expectRight(device, few(1, 300, 8, 2));
  expectRight(device, few(5, 200, 6, 2, {{"causal", "true"}, {"window_left", "40"}, {"scale", "2"}},
                          {"bias", "mask", "sinks"}, "bf16"));
  // What they take by themselves has room for f32.
  for (const int d : {64, 128, 256})
    expectRight(device, few(13, 260, 6, 2, {}, {}, "f32", d, {}));
  if (!everything)
    return;
  for (const AttentionFeature &feature : attentionFeatures()) {
    KernelCase test = few(3, 150, 4, 2, feature.options, feature.with);
    test.extents.insert(feature.extents.begin(), feature.extents.end());
    for (const char *causal : {"false", "true"}) {
      KernelCase both = test;
      if (feature.options.empty() || feature.options.front().first != "causal")
        both.options.emplace_back("causal", causal);
      expectRight(device, both);
    }
    test.options.emplace_back("layout", "bshd");
    test.single = test.with;
    expectRight(device, test);
  }
  // Heads that are no power of two, rows of more than one block, parts without a key, a head alone.
  expectRight(device, few(13, 70, 14, 2, {{"causal", "true"}}, {"bias"}));
  expectRight(device, few(16, 260, 16, 2, {{"causal", "true"}, {"window_left", "9"}}));
  expectRight(device, few(2, 90, 3, 3, {}, {"mask"}, "f16", 128, {{"packed", 1}, {"splits", 7}}));
  expectRight(device, few(4, 90, 2, 1, {}, {}, "f16", 256, {{"packed", 1}, {"splits", 1}}));
  expectRight(device, few(4, 90, 2, 1, {{"precision", "exact"}}, {"sinks"}, "f32", 48));
  expectRight(device, few(1, 0, 2, 1, {}, {"sinks"}));
  expectRight(device, few(0, 70, 2, 1));
  // What few queries take by themselves, with parts that the keys are enough for. So do more where
  // programs of one head each would leave most of a chip idle.
  const auto alone = [&](KernelCase test, std::int64_t packed) {
    test.config.clear();
    EXPECT_EQ(completeConfig(resolveCase(test), device.target(), {}).at("packed"), packed);
    expectRight(device, test);
  };
  for (int queries : {1, 16})
    alone(few(queries, 1100, 8, 2, {{"causal", "true"}}), 1);
  alone(few(40, 1500, 8, 2, {{"causal", "true"}}, {"sinks"}), 1);
  alone(few(40, 1500, 8, 2, {{"dropout", "0.5"}}), 1);
  alone(few(150, 1500, 2, 2, {}, {"bias"}, "bf16", 128), 1);
  alone(few(40, 300, 8, 2), 0);
  alone(few(40, 1500, 8, 2, {{"window_left", "90"}}), 0);
}
TEST_P(Attention, FewQueries) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_80");
  expectFewQueriesRight(device, true);
}
TEST_P(AttentionAnywhere, FewQueries) { expectFewQueriesRight(device, false); }

void expectFloatsRoundToResults(const Device &device, const std::string &kernel,
                                const std::map<std::string, std::int64_t> &extents,
                                const Config &some = {}) {
  const KernelCase test{kernel, extents, {{"causal", "true"}}, {}, "f16", some};
  SCOPED_TRACE(device.name() + " " + test.describe());
  FilledCall filled = fill(test);
  const Config config = completeConfig(filled.call, device.target(), test.config);
  const auto rounded = execute(device, filled.call, config, filled.inputs).outputs;
  for (std::size_t i = 0; i < filled.call.tensors.size(); ++i)
    if (!filled.call.kernel->arguments[i].also.empty())
      filled.call.tensors[i].dtype = DType::float32;
  const auto floats = execute(device, filled.call, config, filled.inputs).outputs;
  ASSERT_EQ(rounded.size(), floats.size());
  for (std::size_t i = 0; i < floats.size(); ++i) {
    if (rounded[i].data.empty()) // a gradient of what there is not
      continue;
    HostArray expected(rounded[i].dtype, rounded[i].shape);
    expected.assign(floats[i].to_double());
    EXPECT_EQ(expected.data, rounded[i].data) << i;
  }
}

// Results as f32 numbers become those of q's dtype where they are rounded, in each of the ways to
// launch: by blocks of one head, and by all heads that share keys, in one part and in several.
void expectFloatsRoundToResults(const Device &device) {
  expectFloatsRoundToResults(device, "attention", {{"Sq", 70}, {"Sk", 50}});
  expectFloatsRoundToResults(device, "attention", {{"Sq", 2}, {"Sk", 40}});
  expectFloatsRoundToResults(device, "attention", {{"Sq", 2}, {"Sk", 600}}, {{"splits", 3}});
  for (const std::int64_t parts : {1, 2})
    expectFloatsRoundToResults(device, "attention_backward",
                               {{"Hq", 2}, {"Hkv", 1}, {"Sq", 40}, {"Sk", 50}},
                               {{"kv_parts", parts}});
}
TEST_P(AttentionAnywhere, ResultsMayBeFloats) { expectFloatsRoundToResults(device); }
TEST_P(Attention, ResultsMayBeFloats) {
  SECTILE_LEAVE_SM_90_TO_OTHERS();
  expectFloatsRoundToResults(device);
}

TEST_P(Attention, HeadWidths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (auto [d, dv] : {std::pair{16, 16}, {17, 80}, {96, 64}, {128, 48}, {192, 128}, {256, 256}})
    expectRight(device,
                {"attention", {{"D", d}, {"Dv", dv}, {"Sq", 20}, {"Sk", 70}}, {{"causal", "1"}}});
  for (const char *precision : {"tf32", "exact"})
    for (int d : {24, 72})
      expectRight(device,
                  {"attention", {{"D", d}, {"Dv", 40}}, {{"precision", precision}}, {}, "f32"});
}

TEST_P(Attention, Windows) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  for (auto [left, right] :
       {std::pair{0, 0}, {0, -1}, {-1, 0}, {3, 5}, {40, 0}, {7, -1}, {1 << 30, 1 << 30}})
    for (auto [queries, keys] : {std::pair{90, 90}, {40, 150}, {150, 40}})
      expectRight(device,
                  {"attention",
                   {{"Sq", queries}, {"Sk", keys}},
                   {{"window_left", std::to_string(left)}, {"window_right", std::to_string(right)}},
                   {},
                   "",
                   {{"m", 32}, {"n", 32}}});
}

TEST_P(Attention, TheDiagonalOnlyGivesTheValuesThemselves) {
  const KernelCase test{"attention",
                        {{"Sq", 40}, {"Sk", 40}, {"Hkv", 2}},
                        {{"window_left", "0"}, {"window_right", "0"}},
                        {},
                        "f16",
                        {},
                        1,
                        [](const Invocation &, std::vector<HostArray> &inputs) {
                          for (std::uint64_t i = 0; i < 3; ++i)
                            fillIntegers(inputs[i], 3, i);
                        }};
  const auto outputs = expectRight(device, test);
  const Invocation call = resolveCase(test);
  std::vector<HostArray> inputs = sampleInputs(call, test.seed);
  test.prepare(call, inputs);
  EXPECT_EQ(outputs[0].to_double(), inputs[2].to_double());
}

TEST_P(Attention, Options) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const AttentionFeature &feature : attentionFeatures())
    for (const char *dtype : {"f16", "f32"}) {
      KernelCase test{"attention",     {{"Hq", 4}, {"Sq", 50}, {"Sk", 70}},
                      feature.options, feature.with,
                      dtype,           {{"n", 32}}};
      test.extents.insert(feature.extents.begin(), feature.extents.end());
      expectRight(device, test);
    }
}

// The order in which long sequences of wide heads are done on sm_90a: weights meet their values a
// step later. It is right on every device.
const std::map<std::string, std::int64_t> aStepLater{
    {"m", 128}, {"n", 64}, {"warps", 8}, {"stages", 2}, {"overlap", 1}};

TEST_P(Attention, ValuesAStepLater) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (auto [queries, keys] : {std::pair{1, 1}, {130, 300}, {200, 65}, {0, 5}, {5, 0}})
    for (const char *causal : {"false", "true"})
      expectRight(device, {"attention",
                           {{"Sq", queries}, {"Sk", keys}},
                           {{"causal", causal}},
                           {},
                           queries % 2 ? "f16" : "bf16",
                           aStepLater});
  // Rows that see nothing, and blocks of them.
  for (auto [left, right] : {std::pair{0, 0}, {3, 5}, {70, 0}})
    for (auto [queries, keys] : {std::pair{150, 150}, {300, 100}})
      expectRight(device,
                  {"attention",
                   {{"Sq", queries}, {"Sk", keys}},
                   {{"window_left", std::to_string(left)}, {"window_right", std::to_string(right)}},
                   {},
                   "f16",
                   aStepLater});
  // The largest product is the largest score only if the scale is positive.
  for (const char *scale : {"-0.3", "0", "1e-30"})
    expectRight(device, {"attention",
                         {{"Sq", 140}, {"Sk", 140}},
                         {{"scale", scale}, {"causal", "true"}},
                         {},
                         "f16",
                         aStepLater});
  for (auto [d, dv] : {std::pair{128, 128}, {256, 256}, {80, 96}}) {
    auto config = aStepLater;
    if (d > 128)
      config["n"] = 32; // for the shared memory of sm_80
    expectRight(device, {"attention",
                         {{"D", d}, {"Dv", dv}, {"Sq", 40}, {"Sk", 200}},
                         {{"causal", "true"}},
                         {},
                         "f16",
                         config});
  }
}

TEST_P(Attention, ValuesAStepLaterWithOptions) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (const AttentionFeature &feature : attentionFeatures()) {
    KernelCase test{"attention",     {{"Hq", 4}, {"Sq", 150}, {"Sk", 200}},
                    feature.options, feature.with,
                    "f16",           aStepLater};
    test.extents.insert(feature.extents.begin(), feature.extents.end());
    expectRight(device, test);
  }
  expectRight(
      device,
      {"attention",
       {{"Sq", 150}, {"Sk", 200}, {"D", 40}, {"Dv", 24}},
       {{"window_left", "90"}, {"window_right", "20"}, {"softcap", "3"}, {"dropout", "0.2"}},
       {"bias", "mask", "sinks"},
       "f16",
       aStepLater});
  // Beside keys and values so wide there is room for one bias on sm_90a, and none on sm_80.
  for (auto [d, n] : {std::pair{128, 128}, {256, 64}}) {
    auto config = aStepLater;
    config["n"] = std::string(GetParam()) == "virtual:sm_80" ? 32 : n;
    for (const char *tile : {"bias", "mask"})
      expectRight(device, {"attention",
                           {{"D", d}, {"Dv", d}, {"Sq", 150}, {"Sk", 400}},
                           {{"causal", "true"}},
                           {tile},
                           "f16",
                           config});
  }
}

// Few programs do one block after another. In causal order each does pairs of blocks, one of each
// of two heads, if heads are even.
TEST_P(Attention, OneBlockAfterAnother) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  auto config = aStepLater;
  config["persistent"] = 1;
  std::size_t place = 0;
  for (auto [programs, heads] : {std::pair{1, 2}, {2, 3}, {3, 4}})
    for (auto [queries, keys] : {std::pair{1, 1}, {300, 200}, {257, 300}, {0, 5}, {140, 0}})
      for (const char *causal : {"false", "true"}) {
        if (!isAmongAThird(place++))
          continue;
        config["programs"] = programs;
        expectRight(device, {"attention",
                             {{"B", 1}, {"Hq", heads}, {"Sq", queries}, {"Sk", keys}},
                             {{"causal", causal}},
                             {},
                             queries % 2 ? "f16" : "bf16",
                             config});
      }
  config["programs"] = 3;
  for (const AttentionFeature &feature : attentionFeatures()) {
    if (!isAmongAThird(place++))
      continue;
    KernelCase test{"attention",     {{"Hq", 4}, {"Sq", 150}, {"Sk", 200}},
                    feature.options, feature.with,
                    "f16",           config};
    test.extents.insert(feature.extents.begin(), feature.extents.end());
    expectRight(device, test);
  }
  for (auto [d, dv] : {std::pair{128, 128}, {256, 256}}) {
    config["n"] = d > 128 ? 32 : 64; // for the shared memory of sm_80
    expectRight(device, {"attention",
                         {{"D", d}, {"Dv", dv}, {"Sq", 150}, {"Sk", 200}},
                         {{"causal", "true"}},
                         {},
                         "f16",
                         config});
  }
}

TEST_P(Attention, AForgottenOptionIsFound) {
  for (const AttentionFeature &feature : attentionFeatures())
    if (feature.extents.empty())
      expectMissed(device, "attention", feature);
}

TEST_P(Attention, Strides) {
  for (const char *layout : {"bhsd", "bshd"})
    expectRightWithStrides(device, {"attention",
                                    {},
                                    {{"layout", layout}, {"causal", "true"}, {"dropout", "0.3"}},
                                    {"bias", "mask", "sinks"}});
}

TEST_P(Attention, MasksOfOneRowOrHeadServeAll) {
  for (const char *only : {"bias", "mask", "sinks"})
    expectRight(device, {"attention", {}, {}, {only}, "", {}, 1, nullptr, {only}});
}

TEST_P(Attention, HugeScores) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  // Their exponentials, and those of twice as much, overflow.
  for (const char *cap : {"0", "5", "30"})
    for (const char *dtype : {"f16", "f32"})
      expectRight(device,
                  {"attention",
                   {},
                   {{"softcap", cap}, {"scale", "60"}, {"causal", "true"}, {"precision", "exact"}},
                   {"mask"},
                   dtype});
}

TEST_P(Attention, RowsWithoutKeysAreZero) {
  const auto hideAll = [](const Invocation &, std::vector<HostArray> &inputs) {
    for (bool &seen : inputs[4].as<bool>())
      seen = false;
  };
  auto outputs = expectRight(device, {"attention", {}, {}, {"mask"}, "f16", {}, 1, hideAll});
  EXPECT_THAT(outputs[0].to_double(), testing::Each(0.0));
  EXPECT_THAT(outputs[1].to_double(), testing::Each(-std::numeric_limits<double>::infinity()));
  // Sinks alone: no output either, but a sum.
  outputs = expectRight(device, {"attention", {}, {}, {"mask", "sinks"}, "f16", {}, 1, hideAll});
  EXPECT_THAT(outputs[0].to_double(), testing::Each(0.0));
  EXPECT_THAT(outputs[1].to_double(), testing::Each(testing::Gt(-10.0)));
}

TEST_P(Attention, SinksFarAboveTheScoresEnterTheMaximum) {
  expectRight(device, {"attention",
                       {{"Sk", 200}},
                       {},
                       {"sinks"},
                       "f16",
                       {},
                       1,
                       [](const Invocation &, std::vector<HostArray> &inputs) {
                         for (float &sink : inputs[5].as<float>())
                           sink = 150 + sink;
                       }});
}

TEST_P(Attention, SpecialValues) {
  expectRight(device, {"attention",
                       {{"Sq", 3}, {"Sk", 70}},
                       {},
                       {"bias"},
                       "f32",
                       {},
                       1,
                       [](const Invocation &, std::vector<HostArray> &inputs) {
                         constexpr float infinity = std::numeric_limits<float>::infinity();
                         auto bias = inputs[3].as<float>();
                         for (std::size_t j = 0; j < 70; ++j)
                           bias[j] = -infinity; // of row 0: nothing left
                         bias[75] = std::numeric_limits<float>::quiet_NaN();
                         bias[150] = -infinity;
                       }});
}

// Of any scheme and any way to keep the keys: its row is NaN, and no other.
TEST_P(Attention, ANanInAQueryStaysInItsRow) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (const char *kernel :
       {"attention", "attention_varlen", "rope_attention", "exposb_attention", "rerope_attention",
        "stick_breaking_attention", "block_sparse_attention", "paged_decode", "paged_prefill",
        "attention_cached", "latent_decode", "latent_sparse"})
    expectRight(
        device,
        {kernel, {}, {}, {}, "f32", {}, 1, [](const Invocation &, std::vector<HostArray> &inputs) {
           inputs[0].as<float>()[5] = std::numeric_limits<float>::quiet_NaN();
         }});
}

TEST_P(Attention, DropoutDoesNotDependOnTiles) {
  std::vector<std::vector<HostArray>> runs;
  for (int n : {16, 64}) {
    runs.push_back(expectRight(device, {"attention",
                                        {{"Sk", 100}},
                                        {{"dropout", "0.5"}, {"seed", "-7"}},
                                        {},
                                        "f16",
                                        {{"m", n}, {"n", n}}}));
  }
  EXPECT_EQ(runs[0][1].shape, runs[1][1].shape);
  const auto a = runs[0][0].to_double(), b = runs[1][0].to_double();
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], 2e-3);
}

TEST_P(Attention, SmallWholeNumbersAreExact) {
  // Every query sees one key: o is its value, lse the score.
  expectExact(device, {"attention",
                       {{"Sq", 70}, {"Sk", 70}},
                       {{"window_left", "0"}, {"window_right", "0"}, {"scale", "0"}},
                       {},
                       "bf16",
                       {},
                       1,
                       [](const Invocation &, std::vector<HostArray> &inputs) {
                         for (std::uint64_t i = 0; i < 3; ++i)
                           fillIntegers(inputs[i], 100, i);
                       }});
}

// Each query is a key, in another order, and its product with that key is by far the largest: all
// other weights are 0 in any precision, so that o is a value, to the bit. The scale times log2 e is
// a power of two: scores in either base are exact.
TEST_P(Attention, SaturatedWeightsAreExact) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_90a");
  for (const char *dtype : {"f16", "bf16", "f32"}) {
    const KernelCase test{"attention",
                          {{"Hq", 2}, {"Hkv", 2}, {"Sq", 70}, {"Sk", 70}, {"D", 64}},
                          {{"scale", "11.090354888959125"}},
                          {},
                          dtype,
                          {},
                          1,
                          [](const Invocation &call, std::vector<HostArray> &inputs) {
                            fillIntegers(inputs[1], 3, 1);
                            fillIntegers(inputs[2], 100, 2);
                            const std::vector<double> keys = inputs[1].to_double();
                            std::vector<double> queries;
                            const std::size_t width = 64, count = keys.size() / width;
                            const auto length = static_cast<std::size_t>(call.extent("Sk"));
                            for (std::size_t i = 0; i < count; ++i) {
                              const std::size_t j = i / length * length + (7 * i + 3) % length;
                              queries.insert(queries.end(),
                                             keys.begin() + std::ptrdiff_t(j * width),
                                             keys.begin() + std::ptrdiff_t(j * width + width));
                            }
                            inputs[0].assign(queries);
                          }};
    const FilledCall filled = fill(test);
    EXPECT_EQ(expectRight(device, test)[0].to_double(),
              referenceOutputs(filled.call, filled.inputs, Arithmetic::exact)[0].to_double());
  }
}

// As above, where every query sees one key: dv is do, and dq and dk are 0.
TEST_P(Attention, GradientsOfSmallWholeNumbersAreExact) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_90a");
  expectExact(device, sound({"attention_backward",
                             {{"Sq", 70}, {"Sk", 70}},
                             {{"window_left", "0"}, {"window_right", "0"}, {"scale", "0"}},
                             {},
                             "bf16",
                             {},
                             1,
                             [](const Invocation &call, std::vector<HostArray> &inputs) {
                               for (const char *name : {"q", "k", "v", "do"})
                                 fillIntegers(inputs[call.index(name)], 3, call.index(name));
                             }}));
}

TEST_P(AttentionAnywhere, AllTogether) {
  expectRight(device,
              {"attention",
               {{"Sq", 33}, {"Sk", 45}, {"D", 40}, {"Dv", 24}},
               {{"window_left", "9"}, {"window_right", "20"}, {"softcap", "3"}, {"dropout", "0.2"}},
               {"bias", "mask", "sinks"}});
  expectRight(device, {"attention", {{"Sq", 65}, {"Sk", 33}}, {{"causal", "true"}}, {}, "f32"});
}

} // namespace
