// attention_cached: chunks and trees of any lengths over pages, with cu_seqlens_q and without,
// split evenly and by plans, and what it refuses.
#include "PagedTest.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr int treeAt = 9, paddingAt = 13, valueQueriesAt = 14;
constexpr std::byte kept{0xff}; // what outputs hold before a call

/// Queries and contexts of each sequence, packed.
KernelCase chunks(std::vector<std::pair<int, int>> some, KernelCase test = {"attention_cached"}) {
  std::vector<double> ends{0};
  std::vector<int> contexts;
  for (auto [chunk, context] : some) {
    ends.push_back(ends.back() + chunk);
    contexts.push_back(context);
  }
  test.extents["T"] = static_cast<std::int64_t>(ends.back());
  test.extents["S"] = static_cast<std::int64_t>(some.size());
  test.extents["ends"] = static_cast<std::int64_t>(ends.size());
  test.with.push_back("cu_seqlens_q");
  test.prepare = [=](const Invocation &call, std::vector<HostArray> &inputs) {
    inputs[endsAt].assign(ends);
    lengths(contexts)(call, inputs);
  };
  return test;
}
/// As many queries of each, with these contexts.
KernelCase even(int queries, std::vector<int> contexts, KernelCase test = {"attention_cached"}) {
  test.extents["S"] = static_cast<std::int64_t>(contexts.size());
  test.extents["T"] = queries * test.extents["S"];
  test.prepare = lengths(contexts);
  return test;
}

/// With so many keys of padding in each sequence, over and over; pages of nothing else get numbers
/// that no block has.
KernelCase padded(std::vector<int> some, KernelCase test) {
  test.with.push_back("left_pad");
  test.prepare = [=, before = test.prepare](const Invocation &call,
                                            std::vector<HostArray> &inputs) {
    before(call, inputs);
    const std::int64_t count = call.extent("S"), max = call.extent("max");
    const auto paddingOf = [&](std::int64_t s) {
      return some[static_cast<std::size_t>(s) % some.size()];
    };
    inputs[paddingAt].assign(sequence(count, paddingOf));
    auto tables = inputs[tablesAt].as<std::int32_t>();
    for (std::int64_t s = 0; s < count; ++s)
      for (std::int64_t p = 0; p < std::min(max, paddingOf(s) / call.extent("page")); ++p)
        tables[static_cast<std::size_t>(s * max + p)] = p % 2 ? -2000000000 : 2147483647;
  };
  return test;
}

class AttentionCached : public OnDevice {};
SECTILE_INSTANTIATE_ON(AttentionCached, "virtual:sm_80,virtual:sm_90a");
class AttentionCachedEverywhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(AttentionCachedEverywhere,
                       "interpreter,virtual:sm_80,virtual:gfx942,virtual:gfx1100");

TEST_P(AttentionCachedEverywhere, IsRight) {
  expectRight(device, even(4, {90, 5, 40}, {"attention_cached", {}, {}, {"sinks", "tree"}}));
  expectRight(device, chunks({{20, 90}, {0, 9}, {7, 7}, {1, 40}},
                             {"attention_cached", {}, {{"window_left", "9"}}, {"tree"}, "bf16"}));
  expectRight(device,
              even(3, {96, 0, 17},
                   {"attention_cached", {}, {{"softcap", "2"}, {"chunk", "20"}}, {}, "f32"}));
  expectRight(device, chunks({{2, 60}, {5, 96}, {1, 0}}, {"attention_cached",
                                                          {},
                                                          {{"max_queries", "5"}},
                                                          {"plan", "k_scale", "v_scale"},
                                                          "f16,k_cache=f8e5m2"}));
  expectRight(device, even(2, {50, 96, 31}, {"attention_cached", {}, {}, {"plan", "tree"}}));
  expectRight(device,
              chunks({{2, 60}, {5, 96}, {1, 0}}, {"attention_cached",
                                                  {},
                                                  {},
                                                  {"plan", "k_scale", "k_scales", "v_scales"},
                                                  "f16,k_cache=f8e4m3"}));
  expectRight(device, padded({33, 0, 2}, even(3, {90, 40, 5},
                                              {"attention_cached",
                                               {},
                                               {{"chunk", "20"}, {"window_left", "30"}},
                                               {"sinks", "tree"}})));
  expectRight(device, chunks({{2, 60}, {20, 96}, {1, 0}},
                             {"attention_cached", {}, {}, {"qv", "sinks", "plan"}, "f16"}));
  expectRight(device, even(3, {60, 0}, {"attention_cached", {}, {}, {"qv"}, "f32"}));
  expectRight(device,
              even(3, {60, 0},
                   {"attention_cached", {}, {}, {"qv", "k_scale", "v_scales"}, "bf16,k_cache=i8"}));
}

TEST_P(AttentionCached, TakesChunksOfAnyLength) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (int group : {1, 2, 3})
    for (int m : {16, 64}) {
      if (m == 64 && group == 2)
        continue;
      KernelCase test{"attention_cached", {{"Hq", 2 * group}, {"page", 7}, {"max", 14}}};
      test.config = {{"m", m}, {"n", 16}, {"warps", m / 16}, {"overlap", 0}};
      for (int splits : {1, 3}) {
        test.config["splits"] = splits;
        expectRight(
            device,
            chunks(
                {{0, 5}, {1, 1}, {15, 15}, {16, 98}, {0, 0}, {17, 40}, {31, 32}, {33, 90}, {0, 98}},
                test));
        for (int queries : {1, 5, 16, 33})
          expectRight(device, even(queries, {98, 33, 0, 7, 64}, test));
      }
    }
  expectRight(device, chunks({}));
  expectRight(device, even(0, {9, 30}));
  for (const char *kernel : {"attention_cached", "paged_prefill"}) // no heads, but heads of keys
    expectRight(device, {kernel, {{"Hq", 0}}});
  expectRight(device, {"attention_cached", {{"Hq", 0}}, {}, {"cu_seqlens_q", "plan"}});
}

// As in a graph that is replayed with fewer tokens than it has room for.
TEST_P(AttentionCached, TokensBehindTheLastSequenceAreNotWritten) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const bool planned : {false, true})
    for (int splits : {1, 3}) {
      KernelCase test{"attention_cached"};
      if (planned)
        test.with = {"plan"};
      const KernelCase call = chunks({{3, 90}, {4, 20}}, test);
      FilledCall filled = fill(call);
      filled.inputs[endsAt].assign(std::vector<double>{0, 3, 5});
      const Config config = completeConfig(filled.call, device.target(), {{"splits", splits}});
      for (const HostArray &output : execute(device, filled.call, config, filled.inputs).outputs) {
        const std::size_t row = output.data.size() / 7;
        EXPECT_NE(std::ranges::count(std::span(output.data).subspan(4 * row, row), kept), row);
        EXPECT_EQ(std::ranges::count(std::span(output.data).subspan(5 * row), kept), 2 * row);
      }
    }
}

// A launch of a plan has programs for max_queries of each part; sequences have fewer, or none.
TEST_P(AttentionCached, PlansOfSeveralQueries) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const std::vector<std::pair<int, int>> some{{3, 900}, {0, 300}, {8, 8}, {1, 1024}, {5, 0}};
  for (int group : {1, 3}) {
    KernelCase test{"attention_cached",
                    {{"Hq", 2 * group}, {"page", 64}, {"max", 16}, {"parts", 11}},
                    {},
                    {"plan", "sinks"}};
    expectRight(device, chunks(some, test)); // T of each part
    expectRight(device, even(4, {900, 0, 1024, 255, 257}, test));
    test.options = {{"max_queries", "8"}, {"window_left", "300"}};
    test.with.push_back("tree");
    expectRight(device, chunks(some, test));
    test.extents["parts"] = 5; // one for each
    expectRight(device, chunks(some, test));
  }
  expectRight(device, chunks({}, {"attention_cached", {}, {}, {"plan"}}));
}

// A warp of its own copies whole steps, also of several parts and where trees hide keys.
TEST_P(AttentionCached, WholeStepsOfPages) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *dtype : {"f16", "bf16"})
    for (int splits : {1, 3}) {
      KernelCase test{"attention_cached",
                      {{"Hq", 8}, {"D", 64}, {"Dc", 64}, {"page", 128}, {"max", 4}},
                      {},
                      {"tree"},
                      dtype};
      test.config = {{"splits", splits}};
      const KernelCase call = even(4, {512, 130, 64, 257, 3}, test);
      EXPECT_EQ(completeConfig(resolveCase(call), device.target(), {}).at("overlap"),
                device.target() == "sm_90a");
      expectRight(device, call);
      expectRight(device, chunks({{40, 300}, {2, 512}, {0, 9}, {17, 17}},
                                 {"attention_cached", test.extents, {{"window_left", "70"}}}));
    }
}

// Rows of dense caches, of whole steps and not.
TEST_P(AttentionCached, PagesAsLongAsACache) {
  const int page = device.target() == "sm_90a" ? 512 : 500;
  for (const bool coded : {false, true}) {
    KernelCase test{"attention_cached",
                    {{"Hq", 8}, {"D", 64}, {"Dc", 64}, {"page", page}, {"max", 1}, {"blocks", 5}}};
    if (coded) {
      test.dtype = "bf16,k_cache=i8";
      test.with = {"plan", "k_scale", "v_scales"};
    }
    expectRight(device, padded({60, 0, 3}, chunks({{40, 300}, {2, page}, {3, 0}}, test)));
  }
}

// Values that are keys, too: where the engine copies, threads do, and codes have scales of either.
TEST_P(AttentionCached, QueriesForValues) {
  const bool large = device.target() == "sm_90a";
  for (int width : large ? std::vector{64, 128, 256} : std::vector{256})
    for (int queries : {2, 40}) {
      KernelCase test{"attention_cached",
                      {{"Hq", 8},
                       {"D", width},
                       {"Dc", width},
                       {"page", large ? 128 : 16},
                       {"max", large ? 3 : 9},
                       {"blocks", 9}},
                      {},
                      {"qv"},
                      width == 128 ? "bf16" : "f16"};
      expectRight(device, even(queries, {140, 64, 3}, test));
    }
  if (large)
    return;
  for (const auto &scales : std::vector<std::vector<std::string>>{
           {"k_scale"}, {"v_scale"}, {"v_scales", "k_scale"}, {"k_scales"}, {}})
    for (const char *cache : {"i8", "u8"}) {
      KernelCase test{"attention_cached", {}, {{"softcap", "2"}}, scales};
      test.dtype = std::string("f16,k_cache=") + cache;
      test.with.push_back("qv");
      if (cache[0] == 'u')
        test.extents = {{"Dc", 16}};
      expectRight(device, even(3, {90, 33, 0}, test));
    }
}

// Without a scale it is that of a query as wide as both.
TEST_P(AttentionCached, QueriesForValuesAreColumns) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  KernelCase test = even(3, {50, 20}, {"attention_cached", {}, {}, {"qv"}});
  KernelCase plain = test;
  plain.with = {};
  plain.options = {{"scale", "0.125"}};
  test.prepare = [before = test.prepare](const Invocation &call, std::vector<HostArray> &inputs) {
    before(call, inputs);
    std::ranges::fill(inputs[valueQueriesAt].data, std::byte{0});
  };
  EXPECT_EQ(expectRight(device, test)[0].to_double(), expectRight(device, plain)[0].to_double());
}

// Trees whose nodes lie across the edges of steps and words.
TEST_P(AttentionCached, TreesOfAnySize) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (int nodes : {1, 31, 32, 33, 64, 70})
    for (int before : {0, 1, 13, 31, 60}) {
      KernelCase test{"attention_cached", {{"words", (nodes + 31) / 32}, {"Hq", 2}, {"max", 9}}};
      test.with = {"tree"};
      test.options = {{"causal", nodes % 2 ? "true" : "false"}};
      test.seed = static_cast<std::uint64_t>(nodes + before);
      expectRight(device, even(nodes, {before + nodes, nodes}, test));
    }
}

// Of a chain of nodes that each see their ancestors, each row is that of causal order.
TEST_P(AttentionCached, AChainIsCausal) {
  KernelCase test = even(6, {50, 20}, {"attention_cached", {}, {{"causal", "false"}}, {"tree"}});
  test.prepare = [before = test.prepare](const Invocation &call, std::vector<HostArray> &inputs) {
    before(call, inputs);
    inputs[treeAt].assign(sequence(inputs[treeAt].count(), [](std::int64_t token) {
      return static_cast<double>((2 << token % 6) - 1);
    }));
  };
  KernelCase causal = test;
  causal.with = {};
  causal.options = {{"causal", "true"}};
  causal.prepare = lengths({50, 20});
  EXPECT_EQ(expectRight(device, test)[0].to_double(), expectRight(device, causal)[0].to_double());
}

TEST_P(AttentionCached, OptionsHoldTogether) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  std::mt19937_64 random(11);
  for (int i = 0; i < 16; ++i) {
    auto pick = [&](std::vector<const char *> from) { return from[random() % from.size()]; };
    KernelCase test{"attention_cached",
                    {{"R", 2}, {"Hq", 6}, {"page", 5}, {"max", 20}, {"words", 1}, {"parts", 9}}};
    test.options = {
        {"causal", pick({"true", "false"})},      {"softcap", pick({"0", "1.5"})},
        {"window_left", pick({"-1", "0", "30"})}, {"window_right", pick({"-1", "0", "3"})},
        {"chunk", pick({"0", "16", "33"})},       {"scale", pick({"0.1", "0.7"})}};
    test.dtype = pick({"f16", "bf16", "f32", "f16,k_cache=i8", "bf16,k_cache=f8e5m2"});
    for (const char *input : {"sinks", "tree", "plan", "left_pad", "qv"})
      if (random() % 2)
        test.with.push_back(input);
    if (std::string(test.dtype).size() > 4)
      for (const std::string scale : {"k_scale", "v_scale"})
        test.with.push_back(random() % 2 ? scale : scale + "s");
    test.config = {{"splits", 1 + static_cast<int>(random() % 3)}};
    test.seed = 100 + static_cast<std::uint64_t>(i);
    expectRight(device, random() % 2 ? chunks({{10, 60}, {3, 100}, {21, 21}, {0, 30}, {1, 0}}, test)
                                     : even(9, {60, 100, 9, 4, 0}, test));
  }
}

// Padding that ends within a step, at its edges, behind some queries, and behind all keys.
TEST_P(AttentionCached, PaddingOnTheLeft) {
  const bool large = device.target() == "sm_90a"; // the engine copies whole steps
  const std::vector<int> padding{0, 1, 128, 200, 63, 260, 500, 5};
  for (auto [causal, chunk] :
       {std::pair{"true", "0"}, std::pair{"true", "100"}, std::pair{"false", "100"}}) {
    KernelCase test{"attention_cached", {}, {{"causal", causal}, {"chunk", chunk}}};
    if (large)
      test.extents = {{"Hq", 8}, {"D", 64}, {"Dc", 64}, {"page", 128}, {"max", 4}};
    else
      test.extents = {{"page", 7}, {"max", 74}, {"blocks", 200}};
    test.config = {{"splits", chunk[0] == '0' ? 1 : 3}};
    test.with = {causal[0] == 't' ? "sinks" : "tree"};
    expectRight(device, padded(padding, even(4, {512, 130, 300, 512, 64, 258, 400, 7}, test)));
    test.with.push_back("plan");
    test.extents.insert({{"parts", 12}});
    expectRight(device, padded(padding, chunks({{40, 300}, {2, 511}, {0, 9}, {17, 210}}, test)));
  }
}

// Keys that are left out on the left, or not there at all: the same sums. Chunks and windows are of
// the keys that are there.
TEST_P(AttentionCached, PaddingIsAsIfItWereNotThere) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const int padding = 64, present = 40, pages = 4; // of padding, a whole step
  KernelCase test =
      even(6, {padding + present},
           {"attention_cached", {{"max", 8}}, {{"chunk", "25"}, {"window_left", "20"}}, {"sinks"}});
  test.config = {{"splits", 1}};
  const KernelCase withPadding = padded({padding}, test);
  const FilledCall filled = fill(withPadding);
  const Config config = completeConfig(filled.call, device.target(), {{"splits", 1}});
  KernelCase plain = test;
  plain.prepare = lengths({present});
  FilledCall shifted = fill(plain);
  for (int i : {qAt, kAt, vAt, 5})
    shifted.inputs[static_cast<std::size_t>(i)] = filled.inputs[static_cast<std::size_t>(i)];
  const auto from = filled.inputs[tablesAt].as<std::int32_t>();
  std::copy(from.begin() + pages, from.end(), shifted.inputs[tablesAt].as<std::int32_t>().begin());
  const auto outputs = execute(device, filled.call, config, filled.inputs).outputs,
             wanted = execute(device, shifted.call, config, shifted.inputs).outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    EXPECT_EQ(outputs[i].to_double(), wanted[i].to_double()) << i;
}

// Fewer keys than queries, and chunks: rows that see nothing.
TEST_P(AttentionCached, RowsThatSeeNothingAreZero) {
  for (const char *chunk : {"0", "3"}) {
    const auto outputs =
        expectRight(device, chunks({{5, 2}, {3, 0}}, {"attention_cached", {}, {{"chunk", chunk}}}));
    const auto o = outputs[0].to_double(), lse = outputs[1].to_double();
    for (std::size_t row = 0; row < 8; ++row)
      EXPECT_EQ(lse[row * 4] == -inf, row != 3 && row != 4) << row;
    EXPECT_TRUE(std::all_of(o.begin(), o.begin() + 3 * 4 * 32, [](double x) { return x == 0; }));
  }
}

TEST_P(AttentionCached, TakesAnyWidth) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const std::vector<std::pair<int, const char *>> widths{
      {16, "f32"}, {17, "bf16"}, {80, "f16"}, {128, "f16"}, {256, "bf16"}};
  for (auto [width, dtype] : widths)
    for (int queries : {1, 20})
      expectRight(device, even(queries, {70, 33},
                               {"attention_cached", {{"D", width}, {"Dc", width}}, {}, {}, dtype}));
}

TEST_P(AttentionCached, TakesAnyStrides) {
  expectRightWithStrides(device, {"attention_cached",
                                  {{"R", 2}},
                                  {},
                                  {"sinks", "tree", "cu_seqlens_q", "plan", "left_pad", "qv"}});
}

TEST_P(AttentionCached, TakesWhatAppendsWrite) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *cache : {"f8e4m3", "f8e5m2", "i8"}) {
    const std::string dtypes = std::string("bf16,k_cache=") + cache;
    for (const char *kernel : {"paged_decode", "paged_prefill", "attention_cached"})
      for (const char *scales : {"_scale", "_scales"})
        expectRight(
            device,
            {kernel, {}, {}, {std::string("k") + scales, std::string("v") + scales}, dtypes});
  }
}

/// Top-left order, a tree of other tokens, bits of another word, a chunk that is one off, padding
/// that is.
TEST(AttentionCachedReference, PlantedMistakesAreSeen) {
  KernelCase test =
      even(40, {90, 70}, {"attention_cached", {{"words", 2}}, {{"chunk", "64"}}, {"tree"}});
  test.options.push_back({"causal", "false"});
  const Planted planted(test);
  const std::vector<HostArray> &inputs = planted.inputs;
  planted.expectSeen(test, inputs, false);
  auto wrong = inputs;
  auto bits = wrong[treeAt].as<std::int32_t>();
  std::rotate(bits.begin(), bits.begin() + 2, bits.end()); // the next token's
  planted.expectSeen(test, wrong, true);
  wrong = inputs;
  bits = wrong[treeAt].as<std::int32_t>();
  std::rotate(bits.begin(), bits.begin() + 1, bits.end());
  planted.expectSeen(test, wrong, true);
  wrong = inputs;
  wrong[lengthsAt].assign(std::vector<double>{89, 70});
  planted.expectSeen(test, wrong, true);
  KernelCase other = test;
  other.options = {{"chunk", "63"}, {"causal", "false"}};
  planted.expectSeen(other, inputs, true);
  other.options = {{"chunk", "64"}, {"causal", "true"}};
  planted.expectSeen(other, inputs, true);
  const KernelCase withPadding = padded({40, 9}, even(4, {90, 70}));
  const Planted plantedPadding(withPadding);
  wrong = plantedPadding.inputs;
  plantedPadding.expectSeen(withPadding, wrong, false);
  wrong[paddingAt].assign(std::vector<double>{40, 8});
  plantedPadding.expectSeen(withPadding, wrong, true);
  const KernelCase valuesToo = even(4, {90, 70}, {"attention_cached", {}, {}, {"qv"}});
  const Planted plantedQueries(valuesToo);
  wrong = plantedQueries.inputs;
  plantedQueries.expectSeen(valuesToo, wrong, false);
  std::swap(wrong[qAt], wrong[valueQueriesAt]);
  plantedQueries.expectSeen(valuesToo, wrong, true);
}

/// What a query sees, one pair at a time, by the words of the page.
TEST(AttentionCachedReference, SeesWhatItShould) {
  for (auto [chunk, padding] : {std::pair{0, 0}, {7, 0}, {0, 16}, {7, 16}, {7, 20}})
    for (const char *right : {"-1", "2"}) {
      const KernelCase test = even(
          5, {23},
          {"attention_cached",
           {{"Hq", 1}, {"Hkv", 1}, {"D", 16}, {"Dc", 16}, {"page", 23}, {"max", 1}, {"blocks", 1}},
           {{"causal", "false"}, {"window_right", right}, {"window_left", "11"}, {"scale", "0"}},
           {"tree"}});
      KernelCase limited = padding ? padded({padding}, test) : test;
      limited.options.push_back({"chunk", std::to_string(chunk)});
      const Invocation call = resolveCase(limited);
      std::vector<HostArray> inputs = sampleInputs(call, 3);
      limited.prepare(call, inputs);
      const auto lse = referenceOutputs(call, inputs, Arithmetic::exact)[1].to_double();
      const auto tree = inputs[treeAt].as<std::int32_t>();
      for (int i = 0; i < 5; ++i) {
        int count = 0; // scores are 0, so e^lse counts keys
        for (int j = 0; j < 23; ++j) {
          const int place = 18 + i;
          const bool near = j >= place - 11 && (right[0] == '-' || j <= place + 2);
          const bool own = chunk == 0 ||
                           (place >= padding && (j - padding) / chunk == (place - padding) / chunk);
          const bool node = j < 18 || (tree[static_cast<std::size_t>(i)] >> (j - 18) & 1) != 0;
          count += j >= padding && near && own && node;
        }
        EXPECT_NEAR(std::exp(lse[static_cast<std::size_t>(i)]), count, 1e-9) << i;
      }
    }
}

TEST(AttentionCachedErrors, SayWhatIsWrong) {
  const auto of = [](const KernelCase &test) { return refusal([&] { resolveCase(test); }); };
  EXPECT_EQ(of({"attention_cached", {{"T", 16}, {"S", 3}}}),
            "attention_cached: q has 16 tokens for 3 sequences; give cu_seqlens_q where these have "
            "different numbers of tokens");
  EXPECT_EQ(of({"attention_cached", {{"T", 1}, {"S", 0}}}),
            "attention_cached: q has 1 tokens for 0 sequences; give cu_seqlens_q where these have "
            "different numbers of tokens");
  EXPECT_EQ(of({"attention_cached", {}, {{"chunk", "-1"}}}),
            "attention_cached: option 'chunk' is -1, but must be from 0 to 1073741823");
  EXPECT_EQ(of({"attention_cached", {}, {{"max_queries", "-2"}}}),
            "attention_cached: option 'max_queries' is -2, but must be at least 0");
  EXPECT_EQ(of({"attention_cached", {{"T", 3ll << 29}}}),
            "attention_cached: a sequence has 536870912 queries of 2 heads that share keys, but "
            "the product must be less than 2^30");
  EXPECT_EQ(
      of({"attention_cached", {{"T", 120}, {"words", 1}}, {}, {"tree"}}),
      "attention_cached: sequence 0 has 40 tokens in q, but the bits of a row of tree are 32");
  EXPECT_THAT(of({"attention_cached", {{"ends", 3}}, {}, {"cu_seqlens_q"}}),
              testing::HasSubstr("one more than the 3"));
  EXPECT_THAT(of({"attention_cached", {{"D", 300}, {"Dc", 300}}}),
              testing::HasSubstr("from 16 to 256"));
  EXPECT_THAT(of({"attention_cached", {{"parts", 2}}, {}, {"plan"}}),
              testing::HasSubstr("must be 3 at least"));
}

TEST(AttentionCachedErrors, AreFoundInTheNumbersToo) {
  const auto of = [](const KernelCase &test) {
    const Invocation call = resolveCase(test);
    std::vector<HostArray> inputs = sampleInputs(call, 1);
    test.prepare(call, inputs);
    return refusal([&] { referenceOutputs(call, inputs, Arithmetic::exact); });
  };
  EXPECT_EQ(
      of(chunks({{3, 70}, {40, 70}}, {"attention_cached", {{"words", 1}}, {}, {"tree"}})),
      "attention_cached: sequence 1 has 40 tokens in q, but the bits of a row of tree are 32");
  EXPECT_EQ(
      of(chunks({{2, 9}, {7, 9}}, {"attention_cached", {}, {{"max_queries", "6"}}, {"plan"}})),
      "attention_cached: sequence 1 has 7 tokens in q, but option 'max_queries' is 6");
  for (int padding : {-1, 97})
    EXPECT_EQ(of(padded({0, padding}, even(1, {9, 9}))),
              "attention_cached: left_pad[1] is " + std::to_string(padding) +
                  ", but must be from 0 to 96, the keys that a row of block_tables has room for");
}

} // namespace
