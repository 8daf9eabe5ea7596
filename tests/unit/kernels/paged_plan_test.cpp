// paged_plan, and paged_decode with its plans: parts of all kinds of lengths, what a part of the
// keys gives, plans that are refused.
#include "PagedTest.h"
#include "kernels/calls/Use.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr int planAt = 8;

class PagedPlan : public OnDevice {};
SECTILE_INSTANTIATE_ON(PagedPlan, "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942");
class PlannedDecode : public OnDevice {};
SECTILE_INSTANTIATE_ON(PlannedDecode, "virtual:sm_80,virtual:sm_90a,virtual:gfx942");

KernelCase planOf(const std::vector<double> &lengths, std::int64_t parts) {
  KernelCase test{"paged_plan",
                  {{"S", static_cast<std::int64_t>(lengths.size())}},
                  {{"parts", std::to_string(parts)}}};
  test.prepare = [lengths](const Invocation &, std::vector<HostArray> &inputs) {
    inputs[0].assign(lengths);
  };
  return test;
}

// Sequences of up to 960 keys, of which parts of 256 and more are planned.
KernelCase decoding(int page, std::vector<int> some, int parts, int width = 32) {
  const int max = (960 + page - 1) / page, count = static_cast<int>(some.size());
  KernelCase test{"paged_decode",
                  {{"S", count},
                   {"parts", parts},
                   {"page", page},
                   {"max", max},
                   {"blocks", 2 * max},
                   {"D", width},
                   {"Dc", width}},
                  {},
                  {"plan"}};
  test.prepare = lengths(std::move(some));
  return test;
}

TEST_P(PagedPlan, IsOfTheSmallestPartsThatDo) {
  expectExact(device, planOf({1000, 0, 255, 256, 257, 1}, 9));
  expectExact(device, planOf({1000, 0, 255, 256, 257, 1}, 6));
  for (const int parts : {1, 2, 4, 5, 300})
    expectExact(device, planOf({65536}, parts));
  expectExact(device, planOf({0, 0, 0}, 3));
  expectExact(device, planOf({1 << 30, 1 << 30}, 7));
  std::vector<double> mixed(63, 1000);
  mixed.insert(mixed.begin() + 40, 65536);
  for (const int parts : {64, 65, 128, 130})
    expectExact(device, planOf(mixed, parts));
}

TEST_P(PagedPlan, TakesAnyNumberOfSequences) {
  for (const int width : {64, 256})
    for (const int count : {0, 1, width + 1}) {
      KernelCase test{"paged_plan", {{"S", count}}};
      test.seed = static_cast<std::uint64_t>(count + width);
      test.config = {{"width", width}, {"warps", 1}};
      for (const int more : {0, 7, 200}) {
        test.options = {{"parts", std::to_string(count + more)}};
        expectExact(device, test);
      }
    }
  expectExact(device, {"paged_plan", {{"S", 1500}}});
  expectRightWithStrides(device, {"paged_plan"});
}

TEST_P(PlannedDecode, IsRight) {
  const std::vector<int> some{900, 0, 1, 256, 257, 511, 960};
  for (const int page : {16, 48}) {
    KernelCase test = decoding(page, some, 15);
    expectRight(device, test);
    test.extents["parts"] = 7; // one each
    test.with.push_back("sinks");
    test.options = {{"softcap", "2"}, {"window_left", page == 16 ? "300" : "600"}};
    expectRight(device, test);
    test.extents["parts"] = 40;
    expectRight(device, test);
  }
  expectRight(device, {"paged_decode", {{"S", 0}}, {}, {"plan"}});
  const auto outputs = expectRight(device, decoding(16, {0, 700}, 8));
  EXPECT_EQ(outputs[1].to_double()[0], -inf);
}

// More parts than a merge takes at a time.
TEST_P(PlannedDecode, SequencesMayHaveManyParts) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  KernelCase test = decoding(256, {9000, 100}, 40);
  test.extents["max"] = 36;
  expectRight(device, test);
}

TEST_P(PlannedDecode, TakesAnyHeadsAndCaches) {
  SECTILE_LEAVE_TO_OTHERS("virtual:gfx942");
  for (const auto &[heads, kvHeads] : {std::pair{1, 1}, {40, 1}, {6, 2}}) {
    KernelCase test = decoding(32, {700, 30, 512}, 8);
    test.extents.merge(std::map<std::string, std::int64_t>{{"Hq", heads}, {"Hkv", kvHeads}});
    expectRight(device, test);
  }
  for (const char *dtypes : {"f16,k_cache=f8e4m3", "bf16,k_cache=i8", "f16,k_cache=u8"}) {
    KernelCase test = decoding(24, {700, 30, 512}, 8);
    test.dtype = dtypes;
    if (test.dtype.ends_with("u8"))
      test.extents["Dc"] = 16;
    test.with = {"k_scale", "v_scale", "plan"};
    expectRight(device, test);
  }
  for (const char *dtype : {"bf16", "f32"}) {
    KernelCase test = decoding(16, {700, 30, 512}, 8);
    test.dtype = dtype;
    expectRight(device, test);
  }
  expectRightWithStrides(device, decoding(16, {700, 30, 512}, 8));
}

// Whole steps that a warp of its own copies.
TEST_P(PlannedDecode, WholeStepsAreCopiedAsTheyAre) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const int page : {64, 128})
    for (const char *left : {"-1", "400"}) {
      KernelCase test = decoding(page, {900, 0, 63, 256, 321, 960}, 14, 64);
      test.options = {{"window_left", left}};
      test.with.push_back("sinks");
      EXPECT_EQ(completeConfig(resolveCase(test), device.target(), {}).at("overlap"),
                device.target() == "sm_90a");
      expectRight(device, test);
    }
}

// What is in no part of a plan is not seen, so the plan is what says the parts.
TEST_P(PlannedDecode, KeysAreThoseOfThePlan) {
  const FilledCall filled = fill(decoding(16, {900, 300}, 8));
  const auto run = [&](const std::vector<HostArray> &inputs) {
    return execute(device, filled.call, completeConfig(filled.call, device.target(), {}), inputs)
        .outputs;
  };
  auto shorter = filled.inputs, cut = filled.inputs;
  shorter[lengthsAt].assign(std::vector<double>{512, 300});
  shorter[planAt].assign(std::vector<double>{0, 0, 256, 2,   0, 256, 512, 0, 1, 0,  256,
                                             2, 1, 256, 300, 0, -1,  0,   0, 0, -1, 0,
                                             0, 0, -1,  0,   0, 0,   -1,  0, 0, 0});
  cut[planAt] = shorter[planAt];
  const auto some = run(cut), few = run(shorter), all = run(filled.inputs);
  EXPECT_EQ(some[0].data, few[0].data);
  EXPECT_EQ(some[1].data, few[1].data);
  EXPECT_NE(some[0].data, all[0].data);
}

TEST(PlannedDecodeLaunches, HaveAProgramForEachPart) {
  const Invocation call = resolveCase(decoding(16, {900, 300}, 8));
  const BoundKernel bound = bindKernel(call, completeConfig(call, "sm_90a", {{"splits", 3}}));
  EXPECT_EQ(bound.part("paged_attention").grid.x, 8u);
  EXPECT_EQ(bound.part("paged_attention").grid.z, 1u);
  EXPECT_EQ(bound.part("paged_merge").grid.x, 8u);
  try {
    bindKernel(call, completeConfig(call, "sm_90a", {{"n", 512}}));
    FAIL() << "parts need not begin with a step";
  } catch (const InputError &error) {
    EXPECT_STREQ(error.what(), "paged_decode: a step is 512 keys, but a plan's parts are multiples "
                               "of 256");
  }
}

TEST(PlannedDecodeErrors, SayWhatIsWrong) {
  const auto refusal = [](const KernelCase &test) -> std::string {
    try {
      const FilledCall filled = fill(test);
      checkContents(filled.call, filled.inputs);
    } catch (const InputError &error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(planOf({1, 2, 3}, 2)),
            "paged_plan: option 'parts' is 2, but must be 3 at least: each sequence has a part");
  EXPECT_THAT(refusal(planOf({1, -2, 3}, 3)), HasSubstr("context_lens[1] is -2"));
  EXPECT_EQ(refusal(decoding(16, {900, 300}, 1)),
            "paged_decode: plan has 1 rows, but must be 2 at least: each sequence has a part");

  const auto refusalOf = [&](std::vector<double> plan) {
    KernelCase test = decoding(16, {600, 0}, 4);
    test.prepare = [plan, before = test.prepare](const Invocation &call,
                                                 std::vector<HostArray> &inputs) {
      before(call, inputs);
      inputs[planAt].assign(plan);
    };
    return refusal(test);
  };
  EXPECT_EQ(refusalOf({0, 0, 512, 2, 0, 512, 600, 0, 1, 0, 0, 1, -1, 0, 0, 0}), "accepted");
  EXPECT_EQ(refusalOf({0, 0, 600, 1, 1, 0, 0, 1, -1, 0, 0, 0, -1, 0, 0, 0}), "accepted");
  EXPECT_EQ(refusalOf({0, 0, 256, 2, 0, 512, 600, 0, 1, 0, 0, 1, -1, 0, 0, 0}),
            "paged_decode: plan[1] begins with key 512 of sequence 0, but must with key 256 of "
            "sequence 0");
  EXPECT_THAT(refusalOf({0, 0, 500, 2, 0, 500, 600, 0, 1, 0, 0, 1, -1, 0, 0, 0}),
              HasSubstr("plan[0] ends with key 500"));
  EXPECT_THAT(refusalOf({0, 0, 512, 1, 1, 0, 0, 1, -1, 0, 0, 0, -1, 0, 0, 0}),
              HasSubstr("must with key 512 of sequence 0"));
  EXPECT_THAT(refusalOf({0, 0, 512, 3, 0, 512, 600, 0, 1, 0, 0, 1, -1, 0, 0, 0}),
              HasSubstr("plan[0] says 3 parts, but must 2"));
  EXPECT_THAT(refusalOf({0, 0, 512, 2, 0, 512, 600, 1, 1, 0, 0, 1, -1, 0, 0, 0}),
              HasSubstr("plan[1] says 1 parts, but must 0"));
  EXPECT_THAT(refusalOf({0, 0, 600, 1, 1, 0, 0, 1, 1, 0, 0, 1, -1, 0, 0, 0}),
              HasSubstr("plan[2] is of sequence 1"));
  EXPECT_THAT(refusalOf({0, 0, 256, 3, 0, 256, 512, 0, 0, 512, 600, 0, 2, 0, 0, 1}),
              HasSubstr("but must with key 0 of sequence 1"));
  EXPECT_THAT(refusalOf({0, 0, 256, 4, 0, 256, 512, 0, 0, 512, 560, 0, 0, 560, 600, 0}),
              HasSubstr("plan[2] ends with key 560"));
}

// One plan for all layers of a step.
TEST(PagedPlanExample, FromCpp) {
  const Device device = Device::open("virtual:sm_80");
  const Stream stream = device.stream();
  constexpr std::int64_t D = 16, page = 256;
  auto q = device.upload(std::vector<float>(2 * D));
  std::vector<float> numbers(6 * page * D);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(i / (page * D)); // of block b: b
  auto cache = device.upload(numbers);
  auto tables = device.upload(std::vector<std::int32_t>{0, 1, 2, 3, 5, -1, -1, -1});
  const NamedTensors layer{{"q", tensor(q, {2, 1, D})},
                           {"k_cache", tensor(cache, {6, 1, page, D})},
                           {"v_cache", tensor(cache, {6, 1, page, D})},
                           {"block_tables", tensor(tables, {2, 4})}};
  // [example]
  auto lengths = tensor(device.upload(std::vector<std::int32_t>{1024, 100}), {2});
  // Once for each step: parts of 512 keys, because three parts do not hold all in 256 each.
  auto plan =
      sectile::run_kernel(stream, "paged_plan", {{"context_lens", lengths}}, {{"parts", "3"}})
          .at("plan"); // {0, 0, 512, 2}, {0, 512, 1024, 0}, {1, 0, 100, 1}
  // In each layer:
  sectile::NamedTensors inputs = layer; // q, k_cache, v_cache, block_tables
  inputs["context_lens"] = lengths;
  inputs["plan"] = plan;
  auto out = sectile::run_kernel(stream, "paged_decode", inputs);
  // [/example]
  device.synchronize();
  EXPECT_EQ(Buffer<std::int32_t>(plan.as<std::int32_t, 2>().memory()).download(),
            (std::vector<std::int32_t>{0, 0, 512, 2, 0, 512, 1024, 0, 1, 0, 100, 1}));
  const auto o = Buffer<float>(out.at("o").as<float, 3>().memory()).download();
  EXPECT_NEAR(o[0], 1.5, 1e-6);
  EXPECT_NEAR(o[D], 5, 1e-6);
}

} // namespace
