// latent_decode and latent_sparse: rows of every kind, lists that leave keys out, and what both
// refuse.
#include "PagedTest.h"
#include "RandomCase.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr int cacheAt = 1, contextsAt = 2, pagesAt = 3, indicesAt = 2;

/// As many queries of each sequence, with these keys; pages behind them have numbers of no block.
KernelCase even(int queries, std::vector<int> contexts, KernelCase test = {"latent_decode"}) {
  test.extents["S"] = static_cast<std::int64_t>(contexts.size());
  test.extents["T"] = queries * test.extents["S"];
  test.prepare = [=](const Invocation &call, std::vector<HostArray> &inputs) {
    inputs[contextsAt].assign(std::vector<double>(contexts.begin(), contexts.end()));
    const std::int64_t max = call.extent("max"), page = call.extent("page");
    auto tables = inputs[pagesAt].as<std::int32_t>();
    for (std::size_t at = 0; at < tables.size(); ++at)
      if (static_cast<std::int64_t>(at) % max * page >=
          contexts[at / static_cast<std::size_t>(max)])
        tables[at] = at % 2 ? -2000000000 : 2147483647;
    call.kernel->sample_dependent(call, inputs);
  };
  return test;
}
/// A row of bytes has a latent of 128 columns at least.
const std::map<std::string, std::int64_t> bytes{{"D", 192}};

class Latent : public OnDevice {};
SECTILE_INSTANTIATE_ON(Latent, "virtual:sm_80,virtual:sm_90a");
class LatentEverywhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(LatentEverywhere,
                       "interpreter,virtual:sm_80,virtual:gfx942,virtual:gfx1100");

TEST_P(LatentEverywhere, IsRight) {
  expectRight(device, even(2, {60, 5, 0}, {"latent_decode", {}, {}, {"sinks"}}));
  expectRight(device, {"latent_decode", {}, {}, {"cu_seqlens_q", "plan"}, "bf16"});
  expectRight(device, {"latent_decode", {}, {{"causal", "false"}}, {}, "f32"});
  expectRight(device, {"latent_decode", {}, {}, {"cache_scale"}, "f16,cache=f8e4m3"});
  for (const char *dtypes : {"f16,cache=u8", "bf16,cache=u8"}) {
    KernelCase test{"latent_decode", bytes, {}, {}, dtypes};
    test.options = {{"latent", "128"}};
    expectRight(device, test);
  }
  expectRight(device, {"latent_sparse", {}, {}, {"sinks", "lengths"}});
  expectRight(device, {"latent_sparse", bytes, {}, {}, "bf16,cache=u8"});
}

// The rows of DeepSeek's models, in the configurations that are chosen for them.
TEST_P(LatentEverywhere, TakesWideRows) {
  for (const char *dtypes : {"bf16", "bf16,cache=u8", "f16,cache=f8e4m3"}) {
    expectRight(device, even(1, {70, 3},
                             {"latent_decode",
                              {{"D", 576}, {"Hq", 16}, {"page", 64}, {"max", 2}, {"blocks", 3}},
                              {},
                              {},
                              dtypes}));
    expectRight(device, {"latent_sparse",
                         {{"D", 576}, {"Hq", 16}, {"page", 64}, {"S", 2}, {"blocks", 2}},
                         {},
                         {},
                         dtypes});
  }
}

TEST_P(Latent, ManyHeads) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (int heads : {1, 17, 64, 128})
    for (int queries : {1, 2}) {
      KernelCase test{"latent_decode",
                      {{"Hq", heads}, {"D", 320}, {"page", 64}, {"max", 3}, {"blocks", 7}}};
      test.options = {{"latent", "256"}};
      test.with = {"sinks"};
      expectRight(device, even(queries, {150, 64, 1}, test));
    }
}

// A warp of its own copies whole steps, of latents and of the columns beside them.
TEST_P(Latent, WholeStepsOfPages) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (int splits : {1, 2}) {
    KernelCase test{"latent_decode", {{"Hq", 64}, {"D", 192}, {"page", 64}, {"max", 4}}};
    test.options = {{"latent", "128"}};
    test.config = {{"m", 64}, {"n", 32}, {"warps", 4}, {"splits", splits}, {"overlap", 1}};
    expectRight(device, even(1, {200, 64, 0, 131}, test));
    expectRight(device, even(3, {200, 2, 65}, test));
  }
}

// What steps of 64 keys leave of shared memory holds no scores in f32 on their way between warps.
// They are the default of full tiles.
TEST_P(Latent, StepsOf64KeysOfTheWidestLatents) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const int overlap : {0, 1}) {
    KernelCase test{"latent_decode", {{"Hq", 20}, {"D", 576}, {"page", 64}, {"max", 3}}};
    test.options = {{"latent", "512"}};
    test.config = {{"m", 64}, {"n", 64}, {"warps", 8}, {"stages", 2}, {"overlap", overlap}};
    expectRight(device, even(1, {130, 64}, test));
  }
  const auto keysOfStep = [](std::int64_t heads) {
    const KernelCase test{
        "latent_decode", {{"Hq", heads}, {"D", 576}, {"page", 64}}, {}, {}, "bf16"};
    return completeConfig(resolveCase(test), "sm_90a", {}).at("n");
  };
  EXPECT_EQ(keysOfStep(128), 64);
  EXPECT_EQ(keysOfStep(16), 32);
}

TEST_P(Latent, OptionsHoldTogether) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  std::mt19937_64 random(13);
  for (int i = 0; i < 14; ++i) {
    auto pick = [&](std::vector<const char *> from) { return from[random() % from.size()]; };
    const char *dtype = pick({"f16", "bf16", "f32", "bf16,cache=u8", "f16,cache=u8",
                              "f16,cache=f8e4m3", "bf16,cache=f8e4m3"});
    const bool grouped = std::string(dtype).ends_with("u8");
    KernelCase test{"latent_decode",
                    {{"R", 2}, {"Hq", 5}, {"page", 7}, {"max", 12}, {"parts", 6}},
                    {{"causal", pick({"true", "false"})}, {"scale", pick({"0.05", "0.2"})}},
                    {},
                    dtype};
    const int latent = grouped ? 128 << random() % 2 : 16 + static_cast<int>(random() % 200),
              rest = grouped ? 2 * (1 + static_cast<int>(random() % 40))
                             : 1 + static_cast<int>(random() % 100);
    test.extents["D"] = latent + rest;
    test.options.push_back({"latent", std::to_string(latent)});
    test.extents["Dc"] = grouped ? latent + latent / 32 + 2 * rest : latent + rest;
    for (const char *input : {"sinks", "plan", "cu_seqlens_q"})
      if (random() % 2)
        test.with.push_back(input);
    if (random() % 2)
      test.with.push_back("cache_scale");
    test.config = {{"splits", 1 + static_cast<int>(random() % 3)}};
    test.seed = 100 + static_cast<std::uint64_t>(i);
    if (grouped && test.extents["Dc"] % 4)
      test.extents["D"] += 1, test.extents["Dc"] += 2;
    if (isTaken(test))
      expectRight(device, test);
  }
}

TEST_P(Latent, ListsOfAnyLength) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (int most : {1, 15, 16, 33, 100})
    for (int splits : {1, 3}) {
      KernelCase test{"latent_sparse", {{"topk", most}, {"S", 5}, {"R", 2}}};
      test.with = {"lengths", "sinks"};
      test.config = {{"splits", splits}};
      test.prepare = [most](const Invocation &call, std::vector<HostArray> &inputs) {
        inputs[call.index("lengths")].assign(
            std::vector<double>{0, double(most), 1, double(most / 2), double(most)});
        auto indices = inputs[indicesAt].as<std::int32_t>();
        for (int j = 0; j < most; ++j) // the last query has no key
          indices[static_cast<std::size_t>(4 * most + j)] = -1 - j;
        for (int j = most / 2; j < most; ++j) // not read
          indices[static_cast<std::size_t>(3 * most + j)] = 2147483647;
      };
      expectRight(device, test);
    }
  expectRight(device, {"latent_sparse", {{"topk", 0}}});
  expectRight(device, {"latent_sparse", {{"S", 0}}});
  expectRight(device, {"latent_decode", {{"T", 0}, {"S", 0}}});
  expectRight(device, {"latent_decode", {{"Hq", 0}}});
}

TEST_P(Latent, RowsThatSeeNothingAreZero) {
  const auto outputs = expectRight(device, even(3, {2, 0}));
  const auto o = outputs[0].to_double(), lse = outputs[1].to_double();
  for (std::size_t row = 0; row < 6; ++row)
    EXPECT_EQ(lse[row * 4] == -inf, row != 1 && row != 2) << row;
  EXPECT_TRUE(std::all_of(o.begin(), o.begin() + 4 * 32, [](double x) { return x == 0; }));
}

// A list of all keys, in another order, gives what the pages give.
TEST_P(Latent, AListOfAllKeysIsTheWhole) {
  const Invocation dense = resolveCase({"latent_decode", {{"S", 1}, {"T", 1}, {"max", 3}}});
  std::vector<HostArray> inputs = sampleInputs(dense, 5);
  inputs[contextsAt].assign(std::vector<double>{40});
  const auto wanted = referenceOutputs(dense, inputs, Arithmetic::exact);
  KernelCase test{"latent_sparse", {{"S", 1}, {"topk", 40}}};
  test.prepare = [&](const Invocation &, std::vector<HostArray> &own) {
    own[qAt] = inputs[qAt];
    own[cacheAt] = inputs[cacheAt];
    for (int j = 0; j < 40; ++j) {
      const int key = (7 * j + 3) % 40;
      own[indicesAt].as<std::int32_t>()[static_cast<std::size_t>(j)] =
          inputs[pagesAt].as<std::int32_t>()[static_cast<std::size_t>(key / 16)] * 16 + key % 16;
    }
  };
  const auto outputs = expectRight(device, test);
  const auto o = outputs[0].to_double(), all = wanted[0].to_double();
  for (std::size_t i = 0; i < o.size(); ++i)
    EXPECT_NEAR(o[i], all[i], 2e-3);
}

TEST_P(Latent, TakesAnyStrides) {
  expectRightWithStrides(device, {"latent_decode", {{"R", 2}}, {}, {"sinks", "plan"}});
  expectRightWithStrides(device, {"latent_sparse", {{"R", 2}}, {}, {"sinks", "lengths"}});
}

/// At the width of models, whose tiles are cut down to 64 and 99 KiB of shared memory.
TEST(LatentElsewhere, HasRoomAtTheWidthOfModels) {
  for (const auto &[name, dtypes] : {std::pair{"virtual:gfx1100", "f16"},
                                     {"virtual:gfx1100", "f32"},
                                     {"virtual:gfx942", "bf16,cache=u8"},
                                     {"virtual:sm_120a", "f16"}}) {
    KernelCase test{
        "latent_decode",
        {{"S", 1}, {"T", 1}, {"Hq", 32}, {"D", 576}, {"blocks", 3}, {"page", 16}, {"max", 2}},
        {},
        {},
        dtypes};
    if (std::string(dtypes).ends_with("u8"))
      test.extents["Dc"] = 656;
    expectRight(Device::open(name), test);
  }
}

/// Rows of bytes, one number at a time: 1.5 times a scale of 0.25, and 2 beside it.
TEST(LatentReference, ReadsRowsOfBytes) {
  const Invocation call = resolveTypical(findKernel("latent_decode"), "bf16,cache=u8",
                                         {{"S", 1},
                                          {"T", 1},
                                          {"Hq", 1},
                                          {"D", 130},
                                          {"Dc", 136},
                                          {"blocks", 1},
                                          {"page", 1},
                                          {"max", 1}},
                                         {{"latent", "128"}, {"scale", "0.5"}});
  std::vector<HostArray> inputs = sampleInputs(call, 1);
  auto row = inputs[cacheAt].as<std::uint8_t>();
  std::fill(row.begin(), row.end(), std::uint8_t(0));
  row[3] = 0x3c; // 1.5 in e4m3
  const float scale = 0.25f;
  std::memcpy(&row[128], &scale, 4);
  row[132 + 1] = 0x40; // 2 in bfloat16
  std::vector<double> q(130);
  q[3] = 4;
  q[128] = 3;
  inputs[qAt].assign(q);
  inputs[contextsAt].assign(std::vector<double>{1});
  inputs[pagesAt].assign(std::vector<double>{0});
  const auto outputs = referenceOutputs(call, inputs, Arithmetic::exact);
  EXPECT_EQ(outputs[0].to_double()[3], 0.375);
  EXPECT_EQ(outputs[0].to_double()[4], 0);
  EXPECT_NEAR(outputs[1].to_double()[0], 0.5 * (4 * 0.375 + 3 * 2), 1e-12);
}

/// A key too many, the rotated columns among the values, another scale.
TEST(LatentReference, PlantedMistakesAreSeen) {
  const KernelCase test = even(2, {50, 33});
  const Planted planted(test, pagesAt);
  const std::vector<HostArray> &inputs = planted.inputs;
  planted.expectSeen(test, inputs, false);
  auto wrong = inputs;
  wrong[contextsAt].assign(std::vector<double>{51, 34});
  planted.expectSeen(test, wrong, true);
  KernelCase other = test;
  other.options = {{"scale", "0.08"}};
  planted.expectSeen(other, inputs, true);
  other.options = {{"causal", "false"}};
  planted.expectSeen(other, inputs, true);
}

TEST(LatentErrors, SayWhatIsWrong) {
  const auto of = [](const KernelCase &test) { return refusal([&] { resolveCase(test); }); };
  EXPECT_EQ(of({"latent_decode", {{"D", 700}}}),
            "latent_decode: D is 700 with latents of 636, but a latent has 16 to 512 columns, and "
            "1 to 128 follow it (see the option 'latent')");
  EXPECT_EQ(of({"latent_decode", {}, {}, {}, "f16,cache=bf16"}),
            "latent_decode: cache is bf16, but q is f16; a cache has the dtype of q, or codes that "
            "f16 and bf16 go with");
  EXPECT_EQ(of({"latent_decode", {}, {}, {}, "f32,cache=f8e4m3"}),
            "latent_decode: cache is f8e4m3, but q is f32; a cache has the dtype of q, or codes "
            "that f16 and bf16 go with");
  EXPECT_EQ(of({"latent_decode", {}, {}, {}, "bf16,cache=u8"}),
            "latent_decode: rows of bytes have latents of a multiple of 128 columns and an even "
            "number of others, but these are 32 and 64");
  EXPECT_EQ(of({"latent_sparse", {{"D", 192}, {"Dc", 192}}, {}, {}, "bf16,cache=u8"}),
            "latent_sparse: a row of cache has 192 elements, but must have 260 for D = 192");
  EXPECT_THAT(of({"latent_decode", {{"T", 7}}}), testing::HasSubstr("q has 7 tokens for 3"));
  EXPECT_THAT(of({"latent_decode", {{"parts", 2}}, {}, {"plan"}}),
              testing::HasSubstr("must be 3 at least"));
}

TEST(LatentErrors, BytesLieAtMultiplesOfFour) {
  const Invocation typical =
      resolveCase({"latent_sparse", bytes, {{"latent", "128"}}, {}, "bf16,cache=u8"});
  std::map<std::string, GivenTensor> given;
  for (std::size_t i = 0; i < 3; ++i)
    given[typical.kernel->arguments[i].name] = {typical.tensors[i], ""};
  const auto of = [&](Shape strides) {
    given["cache"].type.strides = std::move(strides);
    return refusal([&] { resolve(*typical.kernel, given, {{"scale", "1"}}); });
  };
  EXPECT_EQ(of({16 * 300, 300, 1}), "accepted");
  EXPECT_EQ(of({16 * 302, 302, 1}),
            "latent_sparse: rows of bytes must be dense and lie at multiples of 4 bytes, but the "
            "strides of cache are [4832, 302, 1]");
  EXPECT_THAT(of({16 * 520, 520, 2}), testing::HasSubstr("must be dense"));
}

TEST(LatentErrors, TheScaleMustBeGiven) {
  const Invocation typical = resolveCase({"latent_sparse"});
  std::map<std::string, GivenTensor> given;
  for (std::size_t i = 0; i < 3; ++i)
    given[typical.kernel->arguments[i].name] = {typical.tensors[i], ""};
  EXPECT_EQ(refusal([&] { resolve(*typical.kernel, given, {}); }),
            "latent_sparse: the option 'scale' must be given, because models differ in it: "
            "1/sqrt(192) for DeepSeek-V2, with a factor for its longer contexts");
  EXPECT_EQ(resolve(*typical.kernel, given, {{"scale", "0.1"}}).extent("Dv"), 32);
}

TEST(LatentErrors, AreFoundInTheNumbersToo) {
  const auto of = [](const KernelCase &test, int at, std::vector<double> values) {
    const Invocation call = resolveCase(test);
    std::vector<HostArray> inputs = sampleInputs(call, 1);
    inputs[static_cast<std::size_t>(at)].assign(values);
    return refusal([&] { referenceOutputs(call, inputs, Arithmetic::exact); });
  };
  const KernelCase sparse{"latent_sparse", {{"S", 1}, {"topk", 2}}, {}, {"lengths"}};
  EXPECT_EQ(of(sparse, 5, {3}), "latent_sparse: lengths[0] is 3, but must be from 0 to 2");
  KernelCase all = sparse;
  all.with = {};
  EXPECT_EQ(of(all, 2, {1, 144}),
            "latent_sparse: indices[0, 1] is 144, but the cache has 144 rows");
  EXPECT_THAT(of({"latent_decode"}, 2, {65, 1, 1}), testing::HasSubstr("context_lens[0] is 65"));
}

} // namespace
