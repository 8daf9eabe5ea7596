// What the attention kernels read, and how, by the virtual GPU's counters: queries once, keys and
// values once for each block of queries that sees them; gradients likewise the other way round.
#include "CountersTest.h"
#include "PagedTest.h"
#include "tests/unit/LoopPlans.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;

namespace {

class AttentionCounters : public CountersTest {
protected:
  using Extents = std::map<std::string, std::int64_t>;

  // Two heads of queries share keys and values.
  static constexpr std::uint64_t heads = 2, length = 256, width = 64;
  static constexpr std::uint64_t rows = heads * length; // of queries
  static constexpr std::uint64_t row = 2 * width;       // bytes, of f16
  const Extents extents{{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 256}, {"Sk", 256}, {"D", 64}};
  /// Of kernels whose values have a width of their own.
  Extents withDv() const {
    Extents all = extents;
    all["Dv"] = width;
    return all;
  }

  /// Bytes of the blocks of n that m rows of a head see, for all blocks of rows: keys that queries
  /// see, or, the other way round, queries that see keys.
  static std::uint64_t seen(std::uint64_t m, std::uint64_t n, bool causal, bool queries = false) {
    std::uint64_t count = 0;
    for (std::uint64_t first = 0; first < length; first += m) {
      const std::uint64_t hidden = causal && queries ? first / n : 0;
      const std::uint64_t end = causal && !queries ? std::min(length, first + m) : length;
      count += (end + n - 1) / n - hidden;
    }
    return count * n * row;
  }
  std::uint64_t field(const KernelCase &test, const char *name) {
    return static_cast<std::uint64_t>(configOf(test).at(name));
  }
  /// A page's number for a step's keys and each warp, a sector at most; whose neighbours in a table
  /// share sectors.
  static void expectFewNumbersOfPages(const Counted &counters, std::uint64_t pages,
                                      std::uint64_t warps) {
    EXPECT_LE(counters.read.at("block_tables"), pages * warps * 32) << counters.text();
    EXPECT_LE(counters.read.at("context_lens"), counters.blocks * warps * 32) << counters.text();
  }
  /// Statistics of a block's rows, f32 each, that every warp may read for itself.
  static std::uint64_t statistics(std::uint64_t blockRows, std::uint64_t warps,
                                  std::uint64_t arrays = 1) {
    return arrays * warps * blockRows * 4;
  }
};
SECTILE_INSTANTIATE_ON(AttentionCounters,
                       "virtual:sm_80,virtual:sm_90,virtual:sm_90a,virtual:gfx942,virtual:gfx1100");

} // namespace

TEST_P(AttentionCounters, KeysAreReadOnceForABlockOfQueries) {
  for (const bool causal : {false, true}) {
    const KernelCase test{
        "attention", withDv(), {{"causal", causal ? "true" : "false"}}, {}, "f16"};
    const std::uint64_t keys = heads * seen(field(test, "m"), field(test, "n"), causal);
    const Counters counters = count(test);
    expectMoved(counters, rows * row + 2 * keys, rows * row + rows * 4);
    expectNoConflicts(counters);
    // Two products of each row with each key that it meets.
    expectProducts(counters, 2 * keys / 2 * field(test, "m"));
  }
}

// Twice the bytes, on matrix units by tf32 or by multiply-adds.
TEST_P(AttentionCounters, SinglePrecision) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  for (const char *precision : {"tf32", "exact"}) {
    const KernelCase test{"attention", withDv(), {{"precision", precision}}, {}, "f32"};
    const std::uint64_t keys = heads * seen(field(test, "m"), field(test, "n"), false);
    const Counters counters = count(test);
    expectMoved(counters, 2 * (rows * row + 2 * keys), 2 * rows * row + rows * 4);
    expectNoConflicts(counters);
  }
}

// Four warps of a row of the products each, all of which need the queries.
TEST_P(AttentionCounters, ManyWarpsOfFewRowsHaveNoConflicts) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  for (const std::int64_t n : {64, 128})
    expectNoConflicts(count(
        {"attention", withDv(), {}, {"bias", "mask"}, "f16", {{"m", 32}, {"n", n}, {"warps", 8}}}));
}

// Whatever the type of the products that they are loaded beside, which settles how threads lie.
TEST_P(AttentionCounters, BiasAndMaskAreReadOnce) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90", "virtual:gfx1100");
  for (const auto &[dtype, precision, bytes] :
       {std::tuple{"f16", "tf32", 2u}, {"f32", "tf32", 4u}, {"f32", "exact", 4u}})
    for (const char *kernel : {"attention", "attention_backward"}) {
      const KernelCase test{kernel, withDv(), {{"precision", precision}}, {"bias", "mask"}, dtype};
      for (const auto &[name, counters] : countAll(test)) {
        if (name.ends_with("_rows"))
          continue;
        SCOPED_TRACE(test.dtype + " " + name);
        EXPECT_EQ(counters.read.at("bias"), rows * length * bytes) << counters.text();
        // As MFMA's sums of f32 lie, two warps have the same columns of the mask for themselves:
        // each reads its bytes.
        if (device.target() == "gfx942" && test.dtype == "f32" && name != "attention") {
          EXPECT_LE(counters.read.at("mask"), 2 * rows * length) << counters.text();
          EXPECT_LE(counters.globalLoad.sectors, 1.05 * counters.globalLoad.idealSectors)
              << counters.text();
        } else {
          EXPECT_EQ(counters.read.at("mask"), rows * length) << counters.text();
          expectCoalesced(counters);
        }
        expectNoConflicts(counters);
      }
    }
}

TEST_P(AttentionCounters, GradientsReadEachSideOnceForABlockOfTheOther) {
  for (const bool causal : {false, true}) {
    const KernelCase test{
        "attention_backward", withDv(), {{"causal", causal ? "true" : "false"}}, {}, "f16"};
    for (const auto &[name, counters] : countAll(test)) {
      SCOPED_TRACE(name);
      expectNoConflicts(counters);
      if (name == "attention_backward_rows") {
        expectRead(counters, 2 * rows * row + rows * 4, statistics(rows, 4, 1));
        EXPECT_EQ(counters.globalStore.bytes, 2 * rows * 4);
        continue;
      }
      const bool ofQueries = name == "attention_backward_q";
      const std::string prefix = ofQueries ? "q_" : "kv_";
      const std::uint64_t m = field(test, (prefix + "m").c_str()),
                          n = field(test, (prefix + "n").c_str()),
                          warps = field(test, (prefix + "warps").c_str());
      if (ofQueries) {
        const std::uint64_t keys = heads * seen(m, n, causal);
        expectRead(counters, 2 * rows * row + 2 * keys, statistics(rows, warps, 2));
        EXPECT_EQ(counters.globalStore.bytes, rows * row);
        expectProducts(counters, 3 * keys / 2 * m);
      } else {
        const std::uint64_t queries = heads * seen(n, m, causal, true);
        expectRead(counters, 2 * length * row + 2 * queries, statistics(queries / row, warps, 2));
        EXPECT_EQ(counters.globalStore.bytes, 2 * length * row);
        expectProducts(counters, 4 * queries / 2 * n);
      }
    }
  }
}

// Sequences of whole blocks: as attention, but for the lengths, which every warp reads.
TEST_P(AttentionCounters, PackedSequencesAreReadAsOthers) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  const std::vector<std::int32_t> lengths{128, 256, 64};
  for (const char *kernel : {"attention_varlen", "attention_varlen_backward"}) {
    KernelCase test{
        kernel,
        {{"Hq", 2}, {"Hkv", 1}, {"D", 64}, {"Dv", 64}, {"B1", 4}, {"Tq", 448}, {"Tk", 448}},
        {{"causal", "true"}},
        {},
        "f16"};
    test.prepare = [&](const Invocation &, std::vector<HostArray> &inputs) {
      for (std::size_t input : {3, 4}) {
        std::int32_t end = 0;
        for (std::size_t s = 0; s < lengths.size(); ++s)
          inputs[input].as<std::int32_t>()[s + 1] = end += lengths[s];
      }
    };
    auto pairs = [&](std::uint64_t m, std::uint64_t n) {
      std::uint64_t blocks = 0;
      for (const std::int32_t each : lengths)
        for (std::uint64_t first = 0; first < static_cast<std::uint64_t>(each); first += m)
          blocks += (first + m + n - 1) / n;
      return blocks;
    };
    constexpr std::uint64_t all = 448;
    for (const auto &[name, counters] : countAll(test)) {
      SCOPED_TRACE(name);
      expectNoConflicts(counters);
      if (name.ends_with("_rows")) {
        expectRead(counters, 2 * heads * all * row + heads * all * 4,
                   statistics(heads * all, 4, 1));
        EXPECT_EQ(counters.globalStore.bytes, 2 * heads * all * 4);
        continue;
      }
      const std::string prefix = name.ends_with("_q") ? "q_" : name.ends_with("_kv") ? "kv_" : "";
      const std::uint64_t m = field(test, (prefix + "m").c_str()),
                          n = field(test, (prefix + "n").c_str()),
                          warps = field(test, (prefix + "warps").c_str());
      // m is n here, so that as many blocks of queries see a key's as the other way round.
      const std::uint64_t other = heads * pairs(m, n) * n * row;
      const std::uint64_t own = prefix == "kv_"  ? 2 * all * row
                                : prefix == "q_" ? 2 * heads * all * row
                                                 : heads * all * row;
      const std::uint64_t starts = counters.blocks * warps * 32 * 4 * lengths.size();
      const std::uint64_t again = starts + statistics(other / row, warps, prefix.empty() ? 0 : 2);
      EXPECT_GE(readBytes(counters), own + 2 * other) << counters.text();
      EXPECT_LE(readBytes(counters), own + 2 * other + again) << counters.text();
      // A lane of MFMA's has four rows of the sums. Packed sequences begin anywhere, so that it
      // reads those rows' statistics one by one.
      const std::uint64_t apart =
          device.target() == "gfx942" ? statistics(other / row, warps, prefix.empty() ? 0 : 2) : 0;
      for (const AccessCounters *access : {&counters.globalLoad, &counters.asyncCopy})
        EXPECT_LE(access->sectors, access->idealSectors + apart / 32) << counters.text();
      EXPECT_EQ(counters.globalStore.sectors, counters.globalStore.idealSectors) << counters.text();
    }
  }
}

// Queries and keys are turned once, by launches of their own; what follows is attention.
TEST_P(AttentionCounters, RowsAreTurnedOnce) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  for (const char *kernel : {"rope_attention", "exposb_attention"})
    for (const char *style : {"half", "interleaved"}) {
      const KernelCase test{kernel, withDv(), {{"style", style}, {"causal", "true"}}, {}, "f16"};
      const auto counted = countAll(test);
      ASSERT_EQ(counted.size(), 3u);
      EXPECT_EQ(counted[0].first, "rope");
      expectMoved(counted[0].second, rows * row, rows * row);
      expectMoved(counted[1].second, length * row, length * row);
      EXPECT_EQ(counted[2].first, "attention");
      const std::uint64_t keys = heads * seen(field(test, "m"), field(test, "n"), true);
      expectMoved(counted[2].second, rows * row + 2 * keys, rows * row + rows * 4);
      expectNoConflicts(counted[2].second);
      expectProducts(counted[2].second, 2 * keys / 2 * field(test, "m"));
    }
}

TEST_P(AttentionCounters, GradientsOfTurnedRows) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  for (const char *kernel : {"rope_attention_backward", "exposb_attention_backward"}) {
    const KernelCase test{kernel, withDv(), {{"causal", "true"}}, {}, "f16"};
    const auto counted = countAll(test);
    ASSERT_EQ(counted.size(), 7u);
    for (const std::size_t launch : {0, 5})
      expectMoved(counted[launch].second, rows * row, rows * row);
    for (const std::size_t launch : {1, 6})
      expectMoved(counted[launch].second, length * row, length * row);
    const std::uint64_t keys = heads * seen(field(test, "q_m"), field(test, "q_n"), true),
                        queries =
                            heads * seen(field(test, "kv_n"), field(test, "kv_m"), true, true);
    EXPECT_EQ(counted[3].first, "attention_backward_q");
    expectRead(counted[3].second, 2 * rows * row + 2 * keys,
               statistics(rows, field(test, "q_warps"), 2));
    expectProducts(counted[3].second, 3 * keys / 2 * field(test, "q_m"));
    EXPECT_EQ(counted[4].first, "attention_backward_kv");
    expectRead(counted[4].second, 2 * length * row + 2 * queries,
               statistics(queries / row, field(test, "kv_warps"), 2));
    expectProducts(counted[4].second, 4 * queries / 2 * field(test, "kv_n"));
    for (const std::size_t launch : {3, 4})
      expectNoConflicts(counted[launch].second);
  }
}

// Of near keys the blocks that are near to any query of a block are read, of far ones in causal
// order those that are far from any: blocks of 32 where keys are near up to 63 places away.
TEST_P(AttentionCounters, NearAndFarKeysAreReadWhereTheyAre) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  constexpr std::uint64_t blocks = length / 32, block = 32 * row, all = blocks * blocks;
  for (const bool causal : {true, false})
    for (const bool edge : {true, false}) {
      const auto counted =
          countAll({"rerope_attention",
                    withDv(),
                    {{"causal", causal ? "true" : "false"}, {"window", edge ? "64" : "1000"}},
                    {},
                    "f16",
                    {{"m", 32}, {"n", 32}}});
      ASSERT_EQ(counted.size(), 3u);
      const std::uint64_t below = 3 * blocks - 3,
                          visible = causal ? blocks * (blocks + 1) / 2 : all;
      const std::uint64_t near = !edge ? visible : causal ? below : 2 * below - blocks;
      const std::uint64_t far = !causal ? all : edge ? (blocks - 1) * (blocks - 2) / 2 : 0;
      for (const auto &[launch, pairs] : {std::pair{0u, near}, {1u, far}}) {
        const Counters &counters = counted[launch].second;
        expectMoved(counters, rows * row + heads * 2 * pairs * block, rows * (2 * row + 4));
        expectNoConflicts(counters);
        expectProducts(counters, heads * 2 * pairs * block / 2 * 32);
      }
      EXPECT_EQ(counted[2].first, "attention_merge");
      expectRead(counted[2].second, 2 * rows * (2 * row + 4), 2 * statistics(rows, 4));
      EXPECT_EQ(counted[2].second.globalStore.bytes, rows * (row + 4));
    }
}

TEST_P(AttentionCounters, GradientsOfTwoSets) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  const KernelCase test{"rerope_attention_backward",
                        withDv(),
                        {{"causal", "true"}, {"window", "64"}},
                        {},
                        "f16",
                        {{"q_m", 32}, {"q_n", 32}, {"kv_m", 32}, {"kv_n", 32}}};
  constexpr std::uint64_t blocks = length / 32, block = 32 * row;
  const auto counted = countAll(test);
  ASSERT_EQ(counted.size(), 9u);
  for (const auto &[first, pairs] :
       {std::pair{0u, 3 * blocks - 3}, {4u, (blocks - 1) * (blocks - 2) / 2}}) {
    EXPECT_EQ(counted[first + 1].first, "attention_backward_q");
    expectProducts(counted[first + 1].second, 3 * heads * pairs * block / 2 * 32);
    EXPECT_EQ(counted[first + 2].first, "attention_backward_kv");
    expectProducts(counted[first + 2].second, 4 * heads * pairs * block / 2 * 32);
  }
  for (const auto &[name, counters] : counted)
    expectNoConflicts(counters);
}

// A score needs those of all later keys: the gradients go through the keys twice, through the
// values once.
TEST_P(AttentionCounters, SticksAreBrokenFromTheLastKey) {
  const KernelCase test{"stick_breaking_attention", extents, {}, {}, "f16"};
  const std::uint64_t m = field(test, "m"), n = field(test, "n");
  const Counters counters = count(test);
  const std::uint64_t keys = heads * seen(m, n, true);
  expectMoved(counters, rows * row + 2 * keys, rows * row + rows * 4);
  expectNoConflicts(counters);
  expectProducts(counters, 2 * keys / 2 * m);
}

TEST_P(AttentionCounters, GradientsOfSticks) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  const KernelCase test{"stick_breaking_attention_backward", extents, {}, {}, "f16"};
  const auto counted = countAll(test);
  ASSERT_EQ(counted.size(), 2u);
  const std::uint64_t m = field(test, "m"), n = field(test, "n"), warps = field(test, "warps");
  const std::uint64_t keys = heads * seen(m, n, true), queries = heads * seen(n, m, true, true);
  // For each row and block of keys what the later and the earlier ones sum to is left, and read
  // again.
  const std::uint64_t sums = keys / row / n * m * 4;
  expectRead(counted[0].second, 2 * rows * row + 3 * keys, warps * sums);
  EXPECT_EQ(counted[0].second.globalStore.bytes, rows * row + 2 * sums);
  expectRead(counted[1].second, 2 * length * row + 2 * queries, warps * 2 * sums);
  EXPECT_EQ(counted[1].second.globalStore.bytes, 2 * length * row);
  for (const auto &[name, counters] : counted)
    expectNoConflicts(counters);
}

namespace {

/// Blocks of 64 queries and 64 keys, of one head, that are there.
KernelCase blocks(const char *kernel, bool causal,
                  std::function<bool(std::size_t, std::size_t)> present) {
  KernelCase test{kernel,
                  {{"B", 1},
                   {"Hq", 1},
                   {"Hkv", 1},
                   {"Sq", 256},
                   {"Sk", 256},
                   {"D", 64},
                   {"Dv", 64},
                   {"Mq", 4},
                   {"Mk", 4}},
                  {{"causal", causal ? "true" : "false"}},
                  {},
                  "f16"};
  if (test.kernel == "block_sparse_attention")
    test.config = {{"m", 64}, {"n", 64}};
  test.prepare = [present](const Invocation &call, std::vector<HostArray> &inputs) {
    auto mask = inputs[call.index("block_mask")].as<bool>();
    for (std::size_t i = 0; i < mask.size(); ++i)
      mask[i] = present(i / 4 % 4, i % 4);
  };
  return test;
}

} // namespace

TEST_P(AttentionCounters, OnlyPresentBlocksAreRead) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  SECTILE_NEEDS_LOOP_PLANS();
  auto expectBlocks = [&](bool causal, std::uint64_t visible,
                          std::function<bool(std::size_t, std::size_t)> present) {
    constexpr std::uint64_t block = 64 * row;
    const KernelCase forward = blocks("block_sparse_attention", causal, present);
    const Counters counters = count(forward);
    const std::uint64_t warps = field(forward, "warps");
    // Beside them the lists' numbers, where a block is fetched and where it is used.
    const std::uint64_t lists = 2 * (visible + 4) * 32 * warps;
    expectRead(counters, length * row + 2 * visible * block, lists);
    expectNoConflicts(counters);
    expectProducts(counters, 2 * visible * block / 2 * 64);
    const KernelCase backward = blocks("block_sparse_attention_backward", causal, present);
    for (const auto &[name, of] : countAll(backward)) {
      SCOPED_TRACE(name);
      expectNoConflicts(of);
      const bool ofQueries = name.ends_with("_q");
      if (!ofQueries && !name.ends_with("_kv"))
        continue;
      const std::string prefix = ofQueries ? "q_" : "kv_";
      const std::uint64_t m = field(backward, (prefix + "m").c_str()),
                          n = field(backward, (prefix + "n").c_str()),
                          warps = field(backward, (prefix + "warps").c_str());
      const std::uint64_t tiles = 64 / (ofQueries ? m : n), steps = 64 / (ofQueries ? n : m),
                          other = visible * tiles;
      const std::uint64_t lists = 2 * (other * steps + 4 * tiles) * 32 * warps;
      expectRead(of, 2 * length * row + 2 * other * block,
                 lists + statistics(ofQueries ? length : other * 64, warps, 2));
      expectProducts(of, (ofQueries ? 3 * m : 4 * n) * other * block / 2);
    }
  };
  expectBlocks(false, 16, [](auto, auto) { return true; });
  expectBlocks(false, 4, [](auto i, auto j) { return i == j; });
  expectBlocks(false, 2, [](auto i, auto j) { return i == 1 && j > 1; });
  expectBlocks(false, 0, [](auto, auto) { return false; });
  expectBlocks(true, 10, [](auto, auto) { return true; });
}

// All heads that share a page's keys read them together.
TEST_P(AttentionCounters, PagesAreReadOnceForAllHeadsThatShareThem) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  constexpr std::uint64_t copying = 4; // warps that copy, and read for themselves how far
  for (const int page : {16, 128}) {
    KernelCase test{"paged_decode",
                    {{"S", 2},
                     {"Hq", 8},
                     {"Hkv", 2},
                     {"D", 128},
                     {"Dc", 128},
                     {"page", page},
                     {"max", 512 / page},
                     {"blocks", 64}},
                    {},
                    {},
                    "f16",
                    {{"splits", 1}}};
    test.prepare = lengths({512, 256});
    const Counted counters = count(test);
    const std::uint64_t keys = 2 * (512 + 256), queries = 2 * 8;
    expectReadOf(
        counters,
        {{"k_cache", keys * 128 * 2}, {"v_cache", keys * 128 * 2}, {"q", queries * 128 * 2}});
    expectFewNumbersOfPages(counters, keys / static_cast<std::uint64_t>(std::min(page, 32)),
                            field(test, "warps") +
                                (page == 128 && field(test, "overlap") ? copying : 0));
    EXPECT_EQ(counters.asyncCopy.sectors, counters.asyncCopy.idealSectors) << counters.text();
    expectNoConflicts(counters);
  }
}

// Codes of a byte, or two in a byte, and scales of a head.
TEST_P(AttentionCounters, CodesOfKeysAreReadAsTheyAreStored) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  for (const char *codes : {"i8", "u8"}) {
    const int perByte = codes == std::string("u8") ? 2 : 1;
    KernelCase test{"paged_decode",
                    {{"S", 2},
                     {"Hq", 8},
                     {"Hkv", 2},
                     {"D", 128},
                     {"Dc", 128 / perByte},
                     {"page", 16},
                     {"max", 32},
                     {"blocks", 64}},
                    {},
                    {"k_scale", "v_scale"},
                    std::string("f16,k_cache=") + codes,
                    {{"splits", 1}}};
    test.prepare = lengths({512, 256});
    const Counted counters = count(test);
    const std::uint64_t keys = 2 * (512 + 256), queries = 2 * 8 * 128 * 2;
    const std::uint64_t bytes = keys * 128 / static_cast<std::uint64_t>(perByte);
    expectReadOf(counters, {{"k_cache", bytes}, {"v_cache", bytes}, {"q", queries}});
    expectFewNumbersOfPages(counters, keys / 16, field(test, "warps"));
    expectNoConflicts(counters);
  }
}

// Keys that no row of a block sees are not read: of a whole sequence, causal, about half.
TEST_P(AttentionCounters, OnlyVisiblePagesAreRead) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  auto expectBlocks = [&](const char *causal, int context, std::uint64_t visible) {
    KernelCase test{"paged_prefill",
                    {{"S", 1},
                     {"T", 256},
                     {"ends", 2},
                     {"Hq", 1},
                     {"Hkv", 1},
                     {"D", 64},
                     {"Dc", 64},
                     {"max", 32}},
                    {{"causal", causal}},
                    {},
                    "f16",
                    {{"m", 64}, {"n", 64}}};
    test.prepare = [context](const Invocation &call, std::vector<HostArray> &inputs) {
      inputs[endsAt].assign(std::vector<double>{0, 256});
      lengths({context})(call, inputs);
    };
    const Counted counters = count(test);
    expectReadOf(
        counters,
        {{"k_cache", visible * 64 * row}, {"v_cache", visible * 64 * row}, {"q", 256 * row}});
    expectFewNumbersOfPages(counters, visible * 64 / 16, field(test, "warps"));
    EXPECT_EQ(counters.asyncCopy.sectors, counters.asyncCopy.idealSectors) << counters.text();
    expectNoConflicts(counters);
  };
  expectBlocks("false", 256, 4 * 4);
  expectBlocks("true", 256, 1 + 2 + 3 + 4);
  expectBlocks("true", 512, 5 + 6 + 7 + 8);
}

// The states once; their logarithms by each warp.
TEST_P(AttentionCounters, StatesAreMergedInOnePass) {
  const Counters counters = count(
      {"attention_merge", {{"P", 4}, {"B", 1}, {"Hq", 2}, {"Sq", 64}, {"D", 128}}, {}, {}, "f16"});
  constexpr std::uint64_t states = 4 * 2 * 64;
  expectRead(counters, states * 128 * 2, 4 * states * 4);
  EXPECT_EQ(counters.globalStore.bytes, states / 4 * (128 * 2 + 4));
}

// A ring's steps: the sums so far and the part of the keys, each once.
TEST_P(AttentionCounters, RingStepsReadTheSumsOnce) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  constexpr std::uint64_t rows = 64, f32 = rows * 64 * 4, f16 = rows * 64 * 2, logs = rows * 4;
  std::map<std::string, int> seen;
  for (const char *kernel : {"ring_attention", "ring_attention_backward"})
    for (const auto &[name, counters] : countAll({kernel,
                                                  {{"B", 1},
                                                   {"Hq", 1},
                                                   {"Hkv", 1},
                                                   {"Sq", 2 * rows},
                                                   {"Sk", 2 * rows},
                                                   {"D", 64},
                                                   {"Dv", 64}},
                                                  {{"slices", "2"}},
                                                  {},
                                                  "f16"})) {
      SCOPED_TRACE(std::string(kernel) + ": " + name);
      ++seen[name];
      if (name == "ring_merge") {
        expectRead(counters, 2 * f32, 2 * logs * 4); // by each of four warps
        EXPECT_EQ(counters.globalStore.bytes, f32 + logs);
      } else if (name == "ring_add") {
        expectMoved(counters, 2 * f32, f32);
      } else if (name == "ring_assign") {
        expectMoved(counters, 2 * f32, 2 * f16); // of all rows
      }
    }
  EXPECT_EQ(seen["ring_merge"], 2);
  EXPECT_EQ(seen["ring_add"], 2 * 3);
  EXPECT_EQ(seen["ring_assign"], 1 + 3);
}
