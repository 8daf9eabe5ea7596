// paged_prefill: chunks of any lengths, options and dtypes, and the same numbers as attention over
// keys that lie in a row.
#include "PagedTest.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// Chunks and contexts of each sequence.
KernelCase chunks(std::vector<std::pair<int, int>> some, KernelCase test = {"paged_prefill"}) {
  std::vector<double> ends{0};
  std::vector<int> contexts;
  for (auto [chunk, context] : some) {
    ends.push_back(ends.back() + chunk);
    contexts.push_back(context);
  }
  test.extents["T"] = static_cast<std::int64_t>(ends.back());
  test.extents["S"] = static_cast<std::int64_t>(some.size());
  test.extents["ends"] = static_cast<std::int64_t>(ends.size());
  test.prepare = [=](const Invocation &call, std::vector<HostArray> &inputs) {
    inputs[endsAt].assign(ends);
    lengths(contexts)(call, inputs);
  };
  return test;
}

class PagedPrefill : public OnDevice {};
SECTILE_INSTANTIATE_ON(PagedPrefill, "virtual:sm_80,virtual:sm_90a");
class PagedPrefillEverywhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(PagedPrefillEverywhere,
                       "interpreter,virtual:sm_80,virtual:gfx942,virtual:gfx1100");

TEST_P(PagedPrefillEverywhere, IsRight) {
  expectRight(device, {"paged_prefill", {}, {}, {"sinks"}});
  expectRight(device, chunks({{20, 90}, {0, 9}, {7, 7}, {1, 40}},
                             {"paged_prefill", {}, {{"window_left", "9"}}, {}, "bf16"}));
  expectRight(device, {"paged_prefill", {}, {{"softcap", "2"}}, {}, "f32"});
  expectRight(device, {"paged_prefill", {}, {}, {"k_scale", "v_scale"}, "f16,k_cache=i8"});
}

TEST_P(PagedPrefill, TakesChunksOfAnyLength) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (int group : {1, 2, 3})
    for (int m : {16, 64}) {
      KernelCase test{"paged_prefill", {{"Hq", 2 * group}, {"page", 7}, {"max", 14}}};
      test.config = {{"m", m}, {"n", 16}, {"warps", m / 16}};
      // Beside every edge of a block of rows, empty ones first, in the middle and last; whole
      // sequences and the ends of longer ones.
      expectRight(device, chunks({{0, 5},
                                  {1, 1},
                                  {15, 15},
                                  {16, 98},
                                  {0, 0},
                                  {17, 40},
                                  {31, 32},
                                  {32, 32},
                                  {33, 90},
                                  {0, 98}},
                                 test));
    }
  expectRight(device, chunks({{65, 70}}));
  expectRight(device, chunks({{0, 70}, {0, 0}}));
  expectRight(device, chunks({}));
}

TEST_P(PagedPrefill, FindsItsSequenceAmongMany) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  std::vector<std::pair<int, int>> many;
  for (int s = 0; s < 300; ++s)
    many.emplace_back(s % 7 == 3 ? 0 : s % 3, s % 20);
  KernelCase test{"paged_prefill", {{"Hq", 1}, {"Hkv", 1}, {"D", 16}, {"Dc", 16}, {"max", 2}}};
  expectRight(device, chunks(many, test));
}

// Fewer keys than queries: the first rows see none.
TEST_P(PagedPrefill, RowsBeforeAllKeysAreZero) {
  const auto outputs = expectRight(device, chunks({{5, 2}, {3, 0}}));
  const auto o = outputs[0].to_double(), lse = outputs[1].to_double();
  for (std::size_t row = 0; row < 8; ++row)
    EXPECT_EQ(lse[row * 4] == -inf, row != 3 && row != 4) << row;
  EXPECT_TRUE(std::all_of(o.begin(), o.begin() + 3 * 4 * 32, [](double x) { return x == 0; }));
}

TEST_P(PagedPrefill, OptionsHoldTogether) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  std::mt19937_64 random(5);
  for (int i = 0; i < 12; ++i) {
    auto pick = [&](std::vector<const char *> from) { return from[random() % from.size()]; };
    KernelCase test{"paged_prefill", {{"R", 2}, {"Hq", 6}, {"page", 5}, {"max", 20}}};
    test.options = {{"causal", pick({"true", "true", "false"})},
                    {"softcap", pick({"0", "1.5"})},
                    {"window_left", pick({"-1", "0", "30"})},
                    {"scale", pick({"0.1", "0.7"})}};
    test.dtype = pick({"f16", "bf16", "f32", "f16,k_cache=i8", "bf16,k_cache=f8e4m3"});
    if (random() % 2)
      test.with.push_back("sinks");
    if (std::string(test.dtype).size() > 4) {
      test.with.insert(test.with.end(), {"k_scale", "v_scale"});
      if (random() % 2)
        test.single = {"v_scale"};
    }
    test.seed = 100 + static_cast<std::uint64_t>(i);
    expectRight(device, chunks({{10, 60}, {3, 100}, {21, 21}, {0, 30}, {1, 0}}, test));
  }
}

// Pages that whole steps lie in, a window that begins within one.
TEST_P(PagedPrefill, StepsWithinPages) {
  for (const char *left : {"-1", "9", "40"}) {
    KernelCase test{"paged_prefill", {{"page", 48}, {"max", 3}}, {{"window_left", left}}};
    test.config = {{"m", 16}, {"n", 16}, {"warps", 1}};
    expectRight(device, chunks({{20, 100}, {1, 144}, {0, 50}, {33, 33}, {7, 49}}, test));
  }
}

TEST_P(PagedPrefill, TakesAnyWidth) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const std::vector<std::pair<int, const char *>> widths{
      {16, "f32"}, {17, "bf16"}, {80, "f16"}, {128, "f16"}, {256, "bf16"}};
  for (auto [width, dtype] : widths)
    expectRight(device, {"paged_prefill", {{"D", width}, {"Dc", width}}, {}, {}, dtype});
}

TEST_P(PagedPrefill, TakesAnyStrides) {
  expectRightWithStrides(device, {"paged_prefill", {{"R", 2}}, {}, {"sinks"}});
}

// Scores are 0, so weights are shares of whole numbers of keys: of 1, 2, 4 and 8 keys, exact.
TEST_P(PagedPrefill, WholeNumbersAreExact) {
  KernelCase test = chunks({{1, 1}, {1, 2}, {1, 4}, {1, 8}});
  test.prepare = [before = test.prepare](const Invocation &call, std::vector<HostArray> &inputs) {
    before(call, inputs);
    inputs[qAt].assign(std::vector<double>(static_cast<std::size_t>(inputs[qAt].count())));
    fillIntegers(inputs[vAt], 16, 3);
  };
  const Invocation call = resolveCase(test);
  const auto outputs = expectRight(device, test);
  std::vector<HostArray> inputs = sampleInputs(call, test.seed);
  test.prepare(call, inputs);
  EXPECT_EQ(outputs[0].to_double(),
            referenceOutputs(call, inputs, Arithmetic::exact)[0].to_double());
}

// One sequence in one page is attention as such, whose reference has tests of its own.
TEST(PagedPrefillReference, AgreesWithAttention) {
  for (bool causal : {true, false})
    for (int left : {-1, 0, 6})
      for (double cap : {0.0, 1.2})
        for (auto [queries, keys] : {std::pair{9, 30}, {30, 30}, {30, 9}}) {
          KernelCase test{"paged_prefill",
                          {{"T", queries},
                           {"S", 1},
                           {"ends", 2},
                           {"page", keys},
                           {"max", 1},
                           {"blocks", 1},
                           {"R", 2}},
                          {{"causal", causal ? "true" : "false"},
                           {"window_left", std::to_string(left)},
                           {"softcap", std::to_string(cap)}},
                          {"sinks"}};
          const Invocation call = resolveCase(test);
          std::vector<HostArray> inputs = sampleInputs(call, 1);
          inputs[lengthsAt].assign(std::vector<double>{static_cast<double>(keys)});
          const auto paged = referenceOutputs(call, inputs, Arithmetic::exact);

          // The same as [1, H, S, D].
          const HostArray &q = inputs[qAt];
          HostArray queriesByHead(DType::float64, {1, 4, queries, 32});
          const auto values = q.to_double();
          auto byHead = queriesByHead.as<double>();
          for (std::size_t t = 0; t < static_cast<std::size_t>(queries); ++t)
            for (std::size_t i = 0; i < 4 * 32; ++i)
              byHead[(i / 32 * static_cast<std::size_t>(queries) + t) * 32 + i % 32] =
                  values[t * 4 * 32 + i];
          const auto whole = attentionReference(
              queriesByHead, inputs[kAt], inputs[vAt],
              {.causal = causal, .left = left, .cap = cap, .sinks = &inputs[5]}, Arithmetic::exact);
          const auto o = whole.o.to_double(), lse = whole.lse.to_double(),
                     pagedO = paged[0].to_double(), pagedLse = paged[1].to_double();
          for (std::size_t h = 0; h < 4; ++h)
            for (std::size_t t = 0; t < static_cast<std::size_t>(queries); ++t) {
              const std::size_t row = h * static_cast<std::size_t>(queries) + t;
              EXPECT_NEAR(pagedLse[t * 4 + h], lse[row], 1e-12);
              for (std::size_t d = 0; d < 32; ++d)
                ASSERT_NEAR(pagedO[(t * 4 + h) * 32 + d], o[row * 32 + d], 1e-12);
            }
        }
}

// Top-left instead of bottom-right, a window that is one off, a chunk that begins one token late.
TEST(PagedPrefillReference, PlantedMistakesAreSeen) {
  const KernelCase test =
      chunks({{20, 50}, {20, 60}}, {"paged_prefill", {}, {{"window_left", "15"}}});
  const Planted planted(test);
  const std::vector<HostArray> &inputs = planted.inputs;
  planted.expectSeen(test, inputs, false);
  auto wrong = inputs;
  wrong[lengthsAt].assign(std::vector<double>{20, 20});
  planted.expectSeen(test, wrong, true);
  wrong = inputs;
  wrong[endsAt].assign(std::vector<double>{0, 21, 40});
  planted.expectSeen(test, wrong, true);
  KernelCase window = test;
  window.options = {{"window_left", "14"}};
  planted.expectSeen(window, inputs, true);
}

TEST(PagedPrefillErrors, AreFoundInTheNumbersToo) {
  const KernelCase test = chunks({{20, 50}, {20, 60}});
  const Invocation call = resolveCase(test);
  std::vector<HostArray> inputs = sampleInputs(call, 1);
  test.prepare(call, inputs);
  auto refusal = [&](int at, std::vector<double> values) -> std::string {
    auto wrong = inputs;
    wrong[static_cast<std::size_t>(at)].assign(values);
    try {
      referenceOutputs(call, wrong, Arithmetic::exact);
    } catch (const InputError &error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(lengthsAt, {97, 60}), testing::HasSubstr("context_lens[0] is 97"));
  EXPECT_THAT(refusal(lengthsAt, {50, -1}), testing::HasSubstr("context_lens[1] is -1"));
  EXPECT_THAT(
      refusal(endsAt, {0, 20, 41}),
      testing::HasSubstr("cu_seqlens_q is from 0 to 41, but must begin with 0 and end with 40"));
  EXPECT_THAT(refusal(endsAt, {0, 50, 40}),
              testing::HasSubstr("cu_seqlens_q falls from 50 to 40 at sequence 1"));
  EXPECT_THAT(refusal(tablesAt, {1, 2, 3, 20, 5, 6, 7, 8, 9, 10, 11, 12}),
              testing::HasSubstr("block_tables[0, 3] is 20"));
}

TEST(PagedPrefillErrors, SayWhatIsWrong) {
  EXPECT_THAT(refusalOf({"paged_prefill", {{"ends", 3}}}),
              testing::HasSubstr("one more than the 3"));
  EXPECT_THAT(refusalOf({"paged_prefill", {{"ends", 1}, {"S", 0}}}),
              testing::HasSubstr("no sequence"));
}

} // namespace
