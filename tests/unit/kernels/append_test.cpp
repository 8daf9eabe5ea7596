// kv_append, rope_append and paged_slots: edges, layouts, codes, caches in place, and that nothing
// but the tokens' slots changes.
#include "../VirtualTest.h"
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;
using testing::ElementsAre;
using testing::HasSubstr;

class Append : public OnDevice {};
SECTILE_INSTANTIATE_ON(Append, "virtual:sm_80,virtual:sm_90a");

namespace {

const char *const kernels[] = {"kv_append", "rope_append"};

std::vector<HostArray> run(const Device &device, const FilledCall &filled) {
  return execute(device, filled.call, completeConfig(filled.call, device.target(), {}),
                 filled.inputs)
      .outputs;
}

} // namespace

TEST_P(Append, IsRightAtEveryEdge) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : kernels) {
    for (std::int64_t tokens : {0, 1, 4, 5, 30})
      expectRight(device, {kernel, {{"T", tokens}}});
    for (std::int64_t heads : {0, 1, 4, 9})
      expectRight(device, {kernel, {{"Hkv", heads}}});
    for (std::int64_t width : {2, 16, 66, 128, 576})
      expectRight(device, {kernel, {{"D", width}, {"Dv", 33}, {"T", 9}}});
    for (std::int64_t page : {1, 16, 300})
      expectRight(device, {kernel, {{"page", page}, {"T", 30}}});
    expectRight(device, {kernel, {{"blocks", 0}}});
    expectRight(device, {kernel, {{"T", 31}, {"Hkv", 5}}, {}, {}, "", {{"m", 8}, {"heads", 2}}});
  }
  expectRight(device, {"rope_append", {{"Hq", 0}}});
  expectRight(device, {"rope_append", {{"Hq", 17}, {"Hkv", 1}}});
}

TEST_P(Append, TakesEveryKindOfCache) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : kernels) {
    const std::string rows = std::string(kernel) == "kv_append" ? "k=" : "q=";
    for (const char *dtype : {"f16", "bf16", "f32"})
      for (const char *slots : {"i32", "i64"})
        for (const std::string cache : {dtype, "f8e4m3", "f8e5m2", "i8"})
          for (const char *layout : {"hnd", "nhd"})
            expectRight(device, {kernel,
                                 {},
                                 {{"layout", layout}},
                                 {"k_scale", "v_scale"},
                                 rows + dtype + ",k_cache=" + cache + ",slots=" + slots,
                                 {},
                                 1,
                                 nullptr,
                                 {"v_scale"}});
    expectRight(device, {kernel, {}, {}, {}, rows + "f16,k_cache=i8"});
    expectRight(device, {kernel, {}, {}, {"k_scales", "v_scale", "v_scales"}}); // of no codes
    // Scales that fit each token and head, of both or one beside the other's.
    for (const std::string cache : {"f8e4m3", "f8e5m2", "i8"})
      for (const char *layout : {"hnd", "nhd"})
        expectRight(device, {kernel,
                             {},
                             {{"layout", layout}},
                             {"k_scales", "v_scale", cache == "i8" ? "k_scale" : "v_scales"},
                             rows + "bf16,k_cache=" + cache});
    expectRightWithStrides(
        device, {kernel, {}, {{"layout", "nhd"}}, {"k_scales", "v_scales"}, "k_cache=f8e4m3"});
    for (const char *layout : {"hnd", "nhd"})
      expectRightWithStrides(device, {kernel, {}, {{"layout", layout}}, {"k_scale"}});
  }
}

TEST_P(Append, RotatesInEveryWay) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *style : {"half", "interleaved"}) {
    const Assignments options{{"style", style}};
    for (const std::vector<std::string> &with :
         std::vector<std::vector<std::string>>{{"q_weight", "k_weight"},
                                               {"k_weight"},
                                               {"cos_sin"},
                                               {"cos_sin", "q_weight", "k_weight"}}) {
      expectRight(device, {"rope_append", {}, options, with, "f16"});
      expectRight(device, {"rope_append", {}, options, with, "f32"});
      expectRight(device, {"rope_append",
                           {{"R", 8}, {"D", 27}},
                           {{"style", style}, {"rotary", "8"}, {"weight_offset", "1"}},
                           with,
                           "bf16"});
    }
  }
  for (const char *scaling : {"linear", "llama3", "yarn"})
    expectRight(device, {"rope_append", {}, {{"scaling", scaling}, {"original_length", "300"}}});
  expectRight(device, {"rope_append", {}, {{"scaling", "dynamic"}, {"length", "9000"}}});
}

// Equal to rope of the keys, then kv_append, but for how sums of products are fused.
TEST_P(Append, IsRopeThenAppend) {
  const KernelCase test{"rope_append", {}, {}, {}, "f32"};
  const FilledCall both = fill(test);
  const auto outputs = run(device, both);
  const std::int64_t tokens = both.call.extent("T"), dims = both.call.extent("D");
  for (std::size_t which : {0u, 1u}) {
    const HostArray &rows = both.inputs[which];
    FilledCall rope = fill({"rope",
                            {{"B", tokens}, {"H", rows.shape[1]}, {"S", 1}, {"D", dims}},
                            {},
                            {"positions"},
                            "f32"});
    rope.inputs[0].assign(rows.to_double());
    rope.inputs[1].assign(both.inputs[both.call.index("positions")].to_double());
    const auto rotated = run(device, rope)[0];
    if (which == 0) {
      EXPECT_THAT(outputs[0].to_double(),
                  testing::Pointwise(testing::DoubleNear(3e-7), rotated.to_double()));
      continue;
    }
    FilledCall append = fill({"kv_append", {}, {}, {}, "f32"});
    append.inputs[0].assign(rotated.to_double());
    for (std::size_t i = 1; i < 5; ++i)
      append.inputs[i] = both.inputs[i + 1];
    const auto caches = run(device, append);
    EXPECT_THAT(outputs[1].to_double(),
                testing::Pointwise(testing::DoubleNear(3e-7), caches[0].to_double()));
    EXPECT_EQ(caches[1].to_double(), outputs[2].to_double());
  }
}

// Bit for bit: rows come in as they are, all else stays, NaN and what no token has included; and
// slots that the cache does not have are left out.
TEST_P(Append, ChangesSlotsAlone) {
  FilledCall filled = fill({"kv_append", {{"T", 5}, {"blocks", 3}, {"page", 4}}, {}, {}, "f16"});
  filled.inputs[4].assign(std::vector<double>{7, -1, 0, 11, -5});
  for (std::size_t cache : {2u, 3u})
    filled.inputs[cache].as<half>()[3] = half(NAN);
  const auto outputs = run(device, filled);
  const std::size_t heads = 3, dims = 20, page = 4;
  const std::vector<std::pair<std::size_t, std::size_t>> moved{{7, 0}, {0, 2}, {11, 3}};
  for (std::size_t which : {0u, 1u}) {
    HostArray wanted = filled.inputs[2 + which];
    const std::size_t row = dims * 2;
    for (const auto &[slot, token] : moved)
      for (std::size_t h = 0; h < heads; ++h)
        std::copy_n(filled.inputs[which].data.begin() +
                        static_cast<std::ptrdiff_t>((token * heads + h) * row),
                    row,
                    wanted.data.begin() +
                        static_cast<std::ptrdiff_t>(
                            ((slot / page * heads + h) * page + slot % page) * row));
    EXPECT_EQ(outputs[which].data, wanted.data) << which;
  }
  filled.inputs[4].assign(std::vector<double>{12, -1, 1000000, 3, 2147483647});
  const auto some = run(device, filled);
  HostArray wanted = filled.inputs[2];
  for (std::size_t h = 0; h < heads; ++h)
    std::copy_n(filled.inputs[0].data.begin() + static_cast<std::ptrdiff_t>((3 * heads + h) * 40),
                40, wanted.data.begin() + static_cast<std::ptrdiff_t>((h * page + 3) * 40));
  EXPECT_EQ(some[0].data, wanted.data);
}

// Codes are the nearest, ties to even, the largest beyond; a NaN is none in int8.
TEST_P(Append, RoundsAndSaturates) {
  const std::vector<float> rows{0.5f, 1.5f, 2.5f, -3.5f, 1000, -1000, INFINITY, NAN};
  const auto codes = [&](const char *cache) {
    FilledCall filled =
        fill({"kv_append",
              {{"T", 1}, {"Hkv", 1}, {"D", 8}, {"Dv", 8}, {"blocks", 1}, {"page", 1}},
              {},
              {"k_scale"},
              std::string("k=f32,k_cache=") + cache});
    filled.inputs[0].assign(std::vector<double>(rows.begin(), rows.end()));
    filled.inputs[4].assign(std::vector<double>{0});
    filled.inputs[5].assign(std::vector<double>{0.5});
    return run(device, filled)[0].to_double();
  };
  EXPECT_THAT(codes("i8"), ElementsAre(1, 3, 5, -7, 127, -128, 127, 0));
  const auto e4m3 = codes("f8e4m3");
  EXPECT_THAT(std::vector(e4m3.begin(), e4m3.begin() + 7),
              ElementsAre(1, 3, 5, -7, 448, -448, 448));
  EXPECT_TRUE(std::isnan(e4m3[7]));
}

// A row's scale is its largest magnitude over the largest code, 1 of zeros, and none of a NaN;
// those of other slots stay.
TEST_P(Append, ScalesFitTheirRows) {
  for (const char *kernel : kernels) {
    KernelCase test{
        kernel,
        {{"T", 4}, {"Hq", 1}, {"Hkv", 1}, {"D", 4}, {"Dv", 4}, {"blocks", 1}, {"page", 5}},
        {},
        {"k_scales", "v_scales"},
        "f32,k_cache=i8"};
    if (std::string(kernel) == "kv_append")
      test.extents.erase("Hq");
    FilledCall filled = fill(test);
    const auto set = [&](const char *input, const std::vector<double> &numbers) {
      filled.inputs[filled.call.index(input)].assign(numbers);
    };
    set("v", {1, -127, 3, 4, 0, 0, 0, 0, 1, NAN, 2, 3, 254, 1, -3, 2});
    set("slots", {3, 0, 4, 1});
    set("v_scales", {7, 7, 7, 7, 7});
    const auto outputs = run(device, filled);
    const std::size_t last = outputs.size();
    const auto scales = outputs[last - 1].to_double(), codes = outputs[last - 3].to_double();
    EXPECT_EQ(scales[0], 1);
    EXPECT_EQ(scales[1], 2);
    EXPECT_EQ(scales[2], 7);
    EXPECT_EQ(scales[3], 1);
    EXPECT_TRUE(std::isnan(scales[4]));
    EXPECT_THAT(std::vector(codes.begin(), codes.begin() + 8),
                ElementsAre(0, 0, 0, 0, 127, 0, -2, 1));
    EXPECT_THAT(std::vector(codes.begin() + 12, codes.begin() + 16), ElementsAre(1, -127, 3, 4));
  }
}

TEST_P(Append, PositionsATableDoesNotHaveGiveNaN) {
  FilledCall filled = fill({"rope_append", {{"T", 2}, {"P", 5}}, {}, {"cos_sin"}, "f32"});
  filled.inputs[filled.call.index("positions")].assign(std::vector<double>{4, 5});
  const auto q = run(device, filled)[0].to_double();
  for (std::size_t i = 0; i < q.size(); ++i)
    EXPECT_EQ(std::isnan(q[i]), i >= q.size() / 2);
}

TEST_P(Append, SlotsOfSequences) {
  for (const Assignments &options :
       {Assignments{}, {{"page", "5"}}, {{"page", "1"}}, {{"page", "300"}}})
    for (std::int64_t sequences : {0, 1, 5, 33, 300})
      expectRight(device, {"paged_slots", {{"S", sequences}}, options});
  for (std::int64_t sequences : {1, 2, 5, 33, 300})
    for (const char *tokens : {"0", "1", "8", "700"})
      for (std::uint64_t seed : {1u, 2u})
        expectRight(device, {"paged_slots",
                             {{"S", sequences}, {"max", 7}},
                             {{"tokens", tokens}, {"page", "16"}},
                             {"cu_seqlens_q"},
                             "",
                             {},
                             seed});
}

TEST(AppendElsewhere, OnTheInterpreterAndOtherChips) {
  for (const char *name : {"interpreter", "virtual:gfx942", "virtual:gfx1100"}) {
    const Device device = Device::open(name);
    for (const char *kernel : kernels)
      for (const char *cache : {"f16", "f8e4m3", "i8"})
        expectRight(device, {kernel,
                             {},
                             {},
                             cache[0] == 'i' ? std::vector<std::string>{"k_scales"}
                                             : std::vector<std::string>{},
                             std::string("k_cache=") + cache});
    expectRight(device, {"rope_append", {}, {{"style", "interleaved"}}, {"q_weight", "cos_sin"}});
    expectRight(device, {"paged_slots", {}, {{"tokens", "8"}}, {"cu_seqlens_q"}});
  }
}

TEST(AppendReference, PlantedMistakesAreSeen) {
  for (const char *kernel : kernels) {
    const FilledCall right = fill({kernel, {}, {}, {"k_scale"}, "k_cache=f8e4m3"});
    FilledCall wrong = right;
    if (std::string(kernel) == "rope_append")
      wrong.inputs[wrong.call.index("positions")].assign(std::vector<double>(13, 3));
    else
      wrong.inputs[wrong.call.index("slots")].assign(std::vector<double>(13, -1));
    expectMistakeIsSeen(right, wrong);
  }
}

TEST(AppendRefuses, WhatItCannotDo) {
  const auto expectRefused = [](const KernelCase &test, const char *text) {
    try {
      FilledCall filled = fill(test);
      referenceOutputs(filled.call, filled.inputs, Arithmetic::exact);
      ADD_FAILURE() << text;
    } catch (const InputError &error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  const auto slots = [](std::vector<double> places) {
    return [=](const Invocation &call, std::vector<HostArray> &inputs) {
      inputs[call.index("slots")].assign(places);
    };
  };
  expectRefused({"kv_append", {{"D", 1025}}}, "D is 1025, but must be from 1 to 1024");
  expectRefused({"kv_append", {{"Dv", 0}}}, "Dv is 0");
  expectRefused({"kv_append", {{"page", 0}}}, "a page is 0 rows, but must be from 1 to 1073741823");
  expectRefused({"kv_append", {}, {}, {}, "k=f16,k_cache=f32"}, "has the dtype of k");
  expectRefused({"kv_append", {{"T", 2}}, {}, {}, "", {}, 1, slots({30, 1})},
                "slots[0] is 30, but the caches have 30 slots");
  expectRefused({"kv_append", {{"T", 2}}, {}, {}, "", {}, 1, slots({4, 4})},
                "slots[1] is 4, which another token has, too");
  expectRefused({"rope_append", {}, {{"rotary", "22"}}}, "rotary is 22");
  expectRefused({"rope_append", {}, {{"eps", "-1"}}}, "'eps' is -1, but must be at least 0");
  expectRefused({"rope_append", {}, {{"rotary", "8"}}, {"cos_sin"}}, "cos_sin has 20 columns");
  expectRefused({"rope_append", {}, {{"scaling", "yarn"}}, {"cos_sin"}}, "nothing to scale");
  expectRefused({"rope_append", {}, {{"scaling", "dynamic"}}}, "give it as option 'length'");
  expectRefused({"rope_append", {{"P", 0}}, {}, {"cos_sin"}}, "cos_sin has no rows");
  expectRefused({"rope_append",
                 {{"T", 1}},
                 {},
                 {"cos_sin"},
                 "",
                 {},
                 1,
                 [](const Invocation &call, std::vector<HostArray> &inputs) {
                   inputs[call.index("positions")].assign(std::vector<double>{50});
                 }},
                "positions[0] is 50, but cos_sin has 50 rows");
  expectRefused({"paged_slots", {}, {{"page", "0"}}}, "'page' is 0");
  expectRefused({"paged_slots", {}, {{"tokens", "4"}}}, "each of the 5 sequences has one token");
  expectRefused({"paged_slots", {{"S", 0}}, {{"tokens", "4"}}, {"cu_seqlens_q"}},
                "there is no sequence");
  expectRefused({"paged_slots",
                 {{"S", 1}, {"max", 2}},
                 {},
                 {},
                 "",
                 {},
                 1,
                 [](const Invocation &, std::vector<HostArray> &inputs) {
                   inputs[0].assign(std::vector<double>{33});
                 }},
                "context_lens[0] is 33, but must be from 0 to 32");
}
