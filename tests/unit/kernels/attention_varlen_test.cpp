// Attention over packed sequences, forward and backward.
#include "AttentionTest.h"
#include "kernels/calls/Use.h"
#include "tests/unit/Processes.h"
#include <cstring>
#include <gmock/gmock.h>
#include <numeric>
#include <sectile/attention.h>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;

namespace {

SECTILE_INSTANTIATE_ON(Attention, "virtual:sm_80,virtual:sm_90,virtual:sm_90a");
SECTILE_INSTANTIATE_ON(AttentionAnywhere, "interpreter,virtual:gfx942,virtual:gfx1100");

/// With sequences of these lengths.
KernelCase packed(KernelCase test, const std::vector<std::int32_t> &queries,
                  const std::vector<std::int32_t> &keys) {
  test.extents["Tq"] = std::accumulate(queries.begin(), queries.end(), 0);
  test.extents["Tk"] = std::accumulate(keys.begin(), keys.end(), 0);
  test.extents["B1"] = static_cast<std::int64_t>(queries.size()) + 1;
  test.prepare = [=](const Invocation &, std::vector<HostArray> &inputs) {
    for (const auto &[input, lengths] : {std::pair{3, &queries}, {4, &keys}})
      std::partial_sum(lengths->begin(), lengths->end(),
                       inputs[static_cast<std::size_t>(input)].as<std::int32_t>().begin() + 1);
  };
  return test;
}

KernelCase packedSound(KernelCase test, const std::vector<std::int32_t> &queries,
                       const std::vector<std::int32_t> &keys) {
  return sound(packed(std::move(test), queries, keys));
}

const std::vector<std::int32_t> queryLengths{17, 0, 64, 1, 33}, keyLengths{5, 9, 65, 0, 40};

TEST(AttentionVarlenGradients, EveryOption) {
  for (const AttentionFeature &feature : attentionFeatures())
    for (bool single : {false, true}) {
      KernelCase test{"attention_varlen",
                      {{"Hq", 4}, {"Hkv", 2}, {"D", 16}, {"Dv", 17}, {"Mk", 7}},
                      feature.options,
                      feature.with};
      if (single)
        test.single = feature.with;
      expectGradients(packed(test, {3, 0, 6, 2}, {4, 2, 7, 0}), "attention_varlen_backward");
    }
}

TEST_P(Attention, Options) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (const char *kernel : {"attention_varlen", "attention_varlen_backward"})
    for (const AttentionFeature &feature : attentionFeatures()) {
      KernelCase test{kernel, {{"Hq", 4}, {"Mk", 65}}, feature.options, feature.with, "bf16"};
      test.extents.insert(feature.extents.begin(), feature.extents.end());
      expectRight(device, packedSound(test, queryLengths, keyLengths));
    }
}

// More of them than a program looks at together, most of them short, some with no tokens at all.
TEST_P(Attention, ManySequences) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  std::vector<std::int32_t> queries, keys;
  for (std::int32_t s = 0; s < 600; ++s) {
    queries.push_back(s % 97 == 5 ? 70 : s % 3);
    keys.push_back(s % 89 == 7 ? 130 : s % 4);
  }
  for (const char *kernel : {"attention_varlen", "attention_varlen_backward"})
    expectRight(device, packedSound({kernel,
                                     {{"Hq", 1}, {"Hkv", 1}, {"D", 16}, {"Dv", 16}},
                                     {{"causal", "true"}},
                                     {},
                                     "f16"},
                                    queries, keys));
}

TEST_P(Attention, AlsoInF32AndWithOneForAllHeads) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_90a");
  for (const char *kernel : {"attention_varlen", "attention_varlen_backward"})
    for (const char *only : {"bias", "mask", "sinks"})
      expectRight(device,
                  packedSound({kernel, {{"Mk", 70}}, {}, {only}, "f32", {}, 1, nullptr, {only}},
                              queryLengths, keyLengths));
}

TEST_P(Attention, OneSequenceNoneAndEmptyOnes) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (const char *kernel : {"attention_varlen", "attention_varlen_backward"}) {
    expectRight(device, packedSound({kernel, {}, {{"causal", "true"}}}, {70}, {70}));
    expectRight(device, packedSound({kernel}, {}, {}));
    expectRight(device, packedSound({kernel}, {0, 0}, {0, 0}));
    expectRight(device, packedSound({kernel}, {0, 5}, {7, 0}));
    expectRight(device, packedSound({kernel, {}, {{"causal", "true"}}}, {1, 1, 1}, {63, 64, 65}));
  }
}

TEST_P(Attention, Strides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_90a");
  for (const char *kernel : {"attention_varlen", "attention_varlen_backward"})
    expectRightWithStrides(device, packed({kernel,
                                           {{"Mk", 70}},
                                           {{"causal", "true"}, {"dropout", "0.3"}},
                                           {"bias", "mask", "sinks"}},
                                          queryLengths, keyLengths));
}

// A sequence by itself gives what it gives in company: dropout goes by its number.
TEST_P(Attention, SequencesDoNotKnowOfEachOther) {
  const KernelCase together =
      packed({"attention_varlen", {}, {{"causal", "true"}}, {}, "f16"}, {40, 30}, {50, 30});
  const KernelCase first =
      packed({"attention_varlen", {}, {{"causal", "true"}}, {}, "f16"}, {40}, {50});
  const Invocation both = resolveCase(together), one = resolveCase(first);
  std::vector<HostArray> inputs = sampleInputs(both, 1);
  together.prepare(both, inputs);
  std::vector<HostArray> parts = sampleInputs(one, 1);
  first.prepare(one, parts);
  for (std::size_t i = 0; i < 3; ++i)
    std::copy_n(inputs[i].data.begin(), parts[i].data.size(), parts[i].data.begin());
  const Config config = completeConfig(both, device.target(), {});
  const auto whole = execute(device, both, config, inputs).outputs[0];
  const auto part = execute(device, one, config, parts).outputs[0];
  EXPECT_TRUE(std::equal(part.data.begin(), part.data.end(), whole.data.begin()));
}

// A warp of their own copies on sm_90a: what is left at either end of a sequence, at both or at
// none, and nothing.
TEST_P(Attention, NarrowRowsByTheEngine) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  const Config config{{"m", 128}, {"n", 64}, {"warps", 8}, {"stages", 2}, {"overlap", 1}};
  for (const auto &queries : {std::vector<std::int32_t>{256, 128, 384}, {130, 0, 257, 1, 64}, {}})
    for (const char *causal : {"false", "true"}) {
      std::vector<std::int32_t> keys = queries;
      if (keys.size() > 1)
        std::swap(keys[0], keys[1]);
      expectRight(device, packed({"attention_varlen",
                                  {{"Hq", 2}, {"D", 16}, {"Dv", 16}},
                                  {{"causal", causal}},
                                  {},
                                  "f16",
                                  config},
                                 queries, keys));
    }
}

// Few programs do one block after another, and a warp of their own copies on sm_90a. In causal
// order each does pairs of blocks, one of each of two heads, if heads are even.
const Config oneAfterAnother{{"m", 128},     {"n", 64},         {"warps", 8},   {"stages", 2},
                             {"overlap", 1}, {"persistent", 1}, {"programs", 3}};

TEST_P(Attention, OneBlockAfterAnother) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  Config config = oneAfterAnother;
  const std::vector<std::vector<std::int32_t>> lengths{
      {256, 128, 384}, {130, 0, 257, 1, 64, 200}, {0, 0, 5, 127, 129}, {1}, {300}, {}, {0}};
  std::vector<std::int32_t> many(70);
  std::iota(many.begin(), many.end(), 0);
  expectRight(device,
              packedSound({"attention_varlen", {{"D", 16}, {"Dv", 16}}, {}, {}, "f16", config},
                          many, many));
  std::size_t place = 0;
  for (auto [programs, heads] : {std::pair{1, 2}, {2, 3}, {5, 4}})
    for (const auto &queries : lengths)
      for (const char *causal : {"false", "true"}) {
        if (!isAmongAThird(place++))
          continue;
        config["programs"] = programs;
        std::vector<std::int32_t> keys = queries;
        if (keys.size() > 1)
          std::swap(keys[0], keys[1]);
        expectRight(device, packedSound({"attention_varlen",
                                         {{"Hq", heads}, {"Hkv", 1}, {"D", 16}, {"Dv", 16}},
                                         {{"causal", causal}},
                                         {},
                                         heads == 3 ? "bf16" : "f16",
                                         config},
                                        queries, keys));
      }
  for (const AttentionFeature &feature : attentionFeatures()) {
    if (!isAmongAThird(place++))
      continue;
    KernelCase test{
        "attention_varlen", {{"Hq", 4}, {"Mk", 200}}, feature.options, feature.with, "f16",
        oneAfterAnother};
    test.extents.insert(feature.extents.begin(), feature.extents.end());
    expectRight(device, packedSound(test, {130, 0, 64, 140}, {150, 9, 0, 200}));
  }
}

// Few queries: rows of one block are of several heads, and programs share their keys. Some have
// none: of short sequences, and where a row sees few.
void expectPackedHeadsRight(const Device &device, bool everything) {
  const std::vector<std::int32_t> queries{30, 0, 14, 1, 70}, keys{150, 9, 0, 200, 80};
  const auto few = [&](int heads, int kvHeads, Assignments options = {},
                       std::vector<std::string> with = {}, std::string dtype = "f16", int d = 64,
                       std::int64_t parts = 3) {
    return packed({"attention_varlen",
                   {{"Hq", heads}, {"Hkv", kvHeads}, {"D", d}, {"Dv", d}, {"Mk", 200}},
                   std::move(options),
                   std::move(with),
                   std::move(dtype),
                   {{"packed", 1}, {"splits", parts}}},
                  queries, keys);
  };
  expectRight(device, few(8, 2, {{"causal", "true"}}));
  expectRight(device, few(6, 2, {{"causal", "true"}, {"window_left", "40"}, {"softcap", "3"}},
                          {"bias", "mask", "sinks"}, "bf16"));
  // What they take by themselves.
  const auto alone = [&](KernelCase test, std::int64_t isPacked) {
    const Config own = ownChoice(resolveCase(test), device.target());
    EXPECT_EQ(own.at("packed"), isPacked);
    expectRight(device, test);
    return own.at("splits");
  };
  const auto call = [&](int heads, int kvHeads, const std::string &dtype,
                        const std::vector<std::int32_t> &queries,
                        const std::vector<std::int32_t> &keys, Assignments options = {}) {
    options.emplace_back("causal", "true");
    return packed({"attention_varlen",
                   {{"Hq", heads}, {"Hkv", kvHeads}},
                   std::move(options),
                   {"sinks"},
                   dtype},
                  queries, keys);
  };
  alone(call(8, 2, "f32", {1, 1, 0, 1}, {300, 500, 70, 200}), 1);
  if (!everything)
    return;
  EXPECT_GT(alone(call(4, 2, "f32", {40, 3}, {2500, 1500}), 1), 1);
  EXPECT_GT(alone(call(4, 1, "bf16", {40, 3}, {2500, 1500}), 1), 1);
  EXPECT_GT(alone(call(4, 1, "f16", {40, 3}, {2500, 1500}, {{"dropout", "0.5"}}), 1), 1);
  alone(call(4, 2, "f16", {40, 3}, {150, 300}), 0);
  std::size_t place = 0;
  for (const AttentionFeature &feature : attentionFeatures()) {
    if (!isAmongAThird(place++))
      continue;
    for (const std::int64_t parts : {1, 2, 5}) {
      KernelCase test = few(4, 2, feature.options, feature.with, "f16", 64, parts);
      test.extents.insert(feature.extents.begin(), feature.extents.end());
      expectRight(device, test);
      test.single = test.with;
      expectRight(device, test);
    }
  }
  // Heads that are no power of two, or do not share keys.
  expectRight(device, few(14, 2, {{"causal", "true"}}, {"bias"}));
  expectRight(device, few(3, 3, {}, {"mask"}, "f16", 128, 7));
  expectRight(device, few(4, 1, {}, {}, "f16", 256, 1));
  expectRight(device, few(4, 1, {{"precision", "exact"}}, {"sinks"}, "f32", 48));
  expectRightWithStrides(
      device, few(6, 2, {{"causal", "true"}, {"dropout", "0.3"}}, {"bias", "mask", "sinks"}));
}
TEST_P(Attention, PackedHeads) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  expectPackedHeadsRight(device, true);
}
TEST_P(AttentionAnywhere, PackedHeads) { expectPackedHeadsRight(device, false); }

// Every other sequence is NaN. No product of another one may see that: not even a zero times it.
TEST_P(Attention, SequencesDoNotReadEachOther) {
  const std::vector<std::int32_t> lengths{1, 64, 0, 63, 65, 65, 3, 64, 63, 0, 1, 130, 66, 2};
  const Config inParts{{"packed", 1}, {"splits", 2}};
  for (auto [causal, chosen] : {std::pair{"false", Config()},
                                {"true", Config()},
                                {"false", oneAfterAnother},
                                {"true", oneAfterAnother},
                                {"false", inParts},
                                {"true", inParts}}) {
    const KernelCase test =
        packed({"attention_varlen", {}, {{"causal", causal}}, {}, "f16"}, lengths, lengths);
    const Invocation call = resolveCase(test);
    std::vector<HostArray> inputs = sampleInputs(call, 1);
    test.prepare(call, inputs);
    const Config config = completeConfig(call, device.target(), chosen);
    const HostArray expected = execute(device, call, config, inputs).outputs[0];
    constexpr unsigned char ofNaN = 0x7e; // both bytes of it
    const auto rows = [&](HostArray &array, std::size_t sequence) {
      const std::size_t row = array.data.size() / static_cast<std::size_t>(call.extent("Tk"));
      const auto first = static_cast<std::size_t>(
          std::accumulate(lengths.begin(), lengths.begin() + std::ptrdiff_t(sequence), 0));
      return std::span(array.data)
          .subspan(first * row, static_cast<std::size_t>(lengths[sequence]) * row);
    };
    for (std::size_t clean = 0; clean < 2; ++clean) {
      std::vector<HostArray> poisoned = inputs;
      for (std::size_t sequence = 1 - clean; sequence < lengths.size(); sequence += 2)
        for (std::size_t input : {0, 1, 2})
          std::memset(rows(poisoned[input], sequence).data(), ofNaN,
                      rows(poisoned[input], sequence).size());
      HostArray found = execute(device, call, config, poisoned).outputs[0], right = expected;
      for (std::size_t sequence = clean; sequence < lengths.size(); sequence += 2)
        EXPECT_TRUE(std::ranges::equal(rows(found, sequence), rows(right, sequence)))
            << "sequence " << sequence << ", causal " << causal << ", "
            << (chosen.empty()      ? "a program each"
                : chosen == inParts ? "in parts"
                                    : "one after another");
    }
  }
}

// A prompt's attention in models whose cache holds latents: keys are wider than values.
TEST_P(Attention, WidthsOfLatentAttention) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_90a");
  for (const char *kernel : {"attention_varlen", "attention_varlen_backward"})
    expectRight(device, packedSound({kernel,
                                     {{"Hq", 2}, {"Hkv", 2}, {"D", 192}, {"Dv", 128}},
                                     {{"causal", "true"}},
                                     {},
                                     "bf16"},
                                    {70, 0, 33, 140}, {70, 5, 40, 140}));
}

// Tensors of three axes are packed sequences.
TEST_P(Attention, TypedCallsTakePackedSequences) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  constexpr int heads = 2, width = 16;
  const KernelCase test =
      packed({"attention_varlen", {{"Hq", heads}, {"Hkv", heads}, {"D", width}, {"Dv", width}}},
             queryLengths, keyLengths);
  const FilledCall filled = fill(test);
  auto rows = [&](std::size_t input) {
    const auto values = filled.inputs[input].as<half>();
    const auto buffer = device.upload(std::vector<half>(values.begin(), values.end()));
    return Tensor<const half, 3>(tensor(buffer, {values.size() / heads / width, heads, width}));
  };
  auto bounds = [&](std::size_t input) {
    const auto values = filled.inputs[input].as<std::int32_t>();
    return tensor(device.upload(std::vector<std::int32_t>(values.begin(), values.end())),
                  {values.size()});
  };
  const auto q = rows(0), k = rows(1), v = rows(2);
  AttentionOptions options{.causal = true, .dropout = 0.25, .seed = 9};
  EXPECT_THROW(attention(device.stream(), q, k, v, options), LaunchError);
  options.cu_seqlens_q = bounds(3);
  options.cu_seqlens_k = bounds(4);
  const auto [o, lse] = attention(device.stream(), q, k, v, options);
  const auto gradients = attention_backward(device.stream(), q, k, v, o, lse, o, options);
  device.synchronize();

  KernelCase same = test;
  same.options = {{"causal", "true"}, {"dropout", "0.25"}, {"seed", "9"}};
  const auto outputs = expectRight(device, fill(same), {});
  const auto got = Buffer<half>(o.memory()).download();
  const auto expected = outputs[0].as<half>();
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(static_cast<float>(got[i]), static_cast<float>(expected[i]));
  EXPECT_EQ(gradients.dk.extents(), k.extents());
  EXPECT_FALSE(gradients.dbias || gradients.dsinks);

  options.layout = AttentionLayout::bshd;
  EXPECT_THROW(attention(device.stream(), q, k, v, options), LaunchError);
}

// The numbers are there before a run from files, and for a reference.
TEST(AttentionVarlenErrors, BoundariesThatLeadElsewhere) {
  const FilledCall filled = fill(packed({"attention_varlen"}, {4, 6}, {5, 7}));
  auto refusal = [&](std::size_t input, std::vector<double> values) -> std::string {
    auto wrong = filled.inputs;
    wrong[input].assign(values);
    try {
      referenceOutputs(filled.call, wrong, Arithmetic::exact);
    } catch (const InputError &error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(3, {0, 11, 10}),
              testing::HasSubstr("cu_seqlens_q falls from 11 to 10 at sequence 1"));
  EXPECT_THAT(refusal(3, {1, 4, 10}), testing::HasSubstr("cu_seqlens_q is from 1 to 10"));
  EXPECT_THAT(refusal(4, {0, 5, 13}),
              testing::HasSubstr("cu_seqlens_k is from 0 to 13, but must begin with 0 and end "
                                 "with 12"));
}

// One program orders them.
TEST(AttentionVarlenErrors, MoreSequencesThanAPlanHas) {
  const Invocation call =
      resolveCase(packed({"attention_varlen", {}, {}, {}, "f16", oneAfterAnother},
                         std::vector<std::int32_t>(1024, 1), std::vector<std::int32_t>(1024, 1)));
  EXPECT_THAT([&] { bindKernel(call, completeConfig(call, "sm_90a", oneAfterAnother)); },
              testing::ThrowsMessage<InputError>(
                  testing::HasSubstr("persistent programs have 1023 sequences at most, not 1024")));
  EXPECT_EQ(ownChoice(call, "sm_90a").at("persistent"), 0);
}

// Lengths that the host knows, that no cutting of the keys would give, that the device has.
TEST(AttentionVarlenErrors, BiasesAndMasksThatAreTooNarrow) {
  const Device device = Device::open("virtual:sm_90a");
  for (const char *kernel : {"attention_varlen", "attention_varlen_backward"})
    for (const char *input : {"bias", "mask"}) {
      const auto narrow = [&](std::int64_t width) {
        return packed({kernel, {{"Mk", width}}, {}, {input}, "f16"}, {4, 6}, {5, 9});
      };
      const auto refusal = [&](std::int64_t width) -> std::string {
        try {
          const FilledCall filled = fill(narrow(width));
          referenceOutputs(filled.call, filled.inputs, Arithmetic::exact);
        } catch (const InputError &error) {
          return error.what();
        }
        return "accepted";
      };
      EXPECT_EQ(refusal(9), "accepted");
      EXPECT_EQ(refusal(8),
                std::string(kernel) + ": " + input + " has 8 columns, but a sequence has 9 keys");
      EXPECT_THROW(resolveCase(narrow(6)), InputError);
      const FilledCall filled = fill(narrow(8));
      const Config config = completeConfig(filled.call, device.target(), {});
      EXPECT_THROW(execute(device, filled.call, config, filled.inputs), AssertionError);
    }
}

// A window one key too wide, a key of the next sequence, no window. Of the gradients the
// first is dq.
TEST(AttentionVarlenJudge, PlantedMistakesAreSeen) {
  for (const bool backward : {false, true}) {
    const auto call = [&](const char *left, std::vector<std::int32_t> keys) {
      const KernelCase test =
          packed({"attention_varlen", {}, {{"window_left", left}}, {}, "f16"}, {17, 30, 9}, keys);
      return backward ? backwardOf(test, "attention_varlen_backward") : fill(test);
    };
    const FilledCall right = call("6", {20, 30, 12});
    expectMistakeIsSeen(right, call("7", {20, 30, 12}));
    expectMistakeIsSeen(right, call("6", {21, 29, 12}));
    expectMistakeIsSeen(right, call("-1", {20, 30, 12}));
  }
}

// Every query sees one key: o is its value, lse 0, dv is do.
TEST_P(Attention, SmallWholeNumbersAreExact) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (const char *kernel : {"attention_varlen", "attention_varlen_backward"}) {
    KernelCase test = packed(
        {kernel, {}, {{"window_left", "0"}, {"window_right", "0"}, {"scale", "0"}}, {}, "f16"},
        {17, 0, 65, 1}, {17, 0, 65, 1});
    test.prepare = [lengths = test.prepare](const Invocation &call,
                                            std::vector<HostArray> &inputs) {
      lengths(call, inputs);
      for (const char *name : {"q", "k", "v", "do"})
        for (std::size_t i = 0; i < inputs.size(); ++i)
          if (call.kernel->arguments[i].name == name)
            fillIntegers(inputs[i], 3, i);
    };
    expectExact(device, sound(test));
  }
}

TEST_P(AttentionAnywhere, AllTogether) {
  for (const char *kernel : {"attention_varlen", "attention_varlen_backward"})
    expectRight(device, packedSound({kernel,
                                     {{"D", 40}, {"Dv", 24}, {"Mk", 50}},
                                     {{"window_left", "9"}, {"softcap", "3"}, {"dropout", "0.2"}},
                                     {"bias", "mask", "sinks"}},
                                    {20, 0, 33}, {15, 3, 45}));
}

} // namespace
