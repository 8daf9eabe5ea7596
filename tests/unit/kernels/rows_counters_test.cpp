// What kernels over rows and elements move, by the virtual GPU's counters.
#include "CountersTest.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;

namespace {

class RowCounters : public CountersTest {};
SECTILE_INSTANTIATE_ON(RowCounters, "virtual:sm_80,virtual:sm_90a,virtual:gfx942");

constexpr std::uint64_t rows = 64, length = 512;
const std::map<std::string, std::int64_t> extents{{"...", rows}, {"N", length}};
constexpr std::uint64_t half16 = 2 * rows * length; // bytes of an array of half

} // namespace

TEST_P(RowCounters, RowsAreReadOnce) {
  for (const char *kernel : {"softmax", "log_softmax"})
    expectMoved(count({kernel, extents, {}, {}, "f16"}), half16, half16);
  for (const char *kernel : {"softmax_backward", "log_softmax_backward"})
    expectMoved(count({kernel, extents, {}, {}, "f16"}), 2 * half16, half16);
}

// And the weights for each row at most.
TEST_P(RowCounters, NormsReadRowsOnce) {
  constexpr std::uint64_t weights = length * 2;
  const Counted plain = count({"rms_norm", extents, {}, {"w"}, "f16"});
  expectRead(plain, half16 + weights, rows * weights);
  expectReadOf(plain, {{"x", half16}});
  EXPECT_EQ(plain.globalStore.bytes, half16 + rows * 4) << plain.text();
  expectNoConflicts(plain);
  const Counted added = count({"rms_norm", extents, {}, {"w", "residual"}, "f16"});
  expectRead(added, 2 * half16 + weights, rows * weights);
  expectReadOf(added, {{"x", half16}, {"residual", half16}});
  EXPECT_EQ(added.globalStore.bytes, 2 * half16 + rows * 4) << added.text();
  expectNoConflicts(added);
}

TEST_P(RowCounters, GradientsOfNormsReadRowsOnce) {
  // Each program reads the weights once for each of the rows that it holds at
  // once.
  constexpr std::uint64_t weights = length * 2, held = 2, warps = 4;
  const Config shared{{"programs", 32}};
  const Counted layer =
      count({"layer_norm_backward", extents, {}, {"w", "b"}, "f16", shared}, "norm_backward");
  EXPECT_LE(layer.blocks, std::max<std::uint64_t>(rows / 4, multiprocessors(device.target())))
      << "each program has several rows, or a multiprocessor of its own";
  expectRead(layer, 2 * half16, layer.blocks * held * weights + 2 * rows * warps * 32);
  expectReadOf(layer, {{"x", half16}, {"dy", half16}});
  EXPECT_EQ(layer.globalStore.bytes, half16 + layer.blocks * 2 * length * 4) << layer.text();
  expectNoConflicts(layer);
  const Counted rms =
      count({"rms_norm_backward", extents, {}, {"w", "h", "dh"}, "f16", shared}, "norm_backward");
  expectRead(rms, 3 * half16, rms.blocks * held * weights + rows * warps * 32);
  expectReadOf(rms, {{"h", half16}, {"dy", half16}, {"dh", half16}});
  EXPECT_EQ(rms.globalStore.bytes, half16 + rms.blocks * length * 4) << rms.text();
  expectNoConflicts(rms);
}

// A row of 12288 fits a program: there is no launch ahead for its mean. Of few rows there is none
// behind either, and the programs that sum dw read the rows once more.
TEST_P(RowCounters, GradientsOfFewWideRowsTakeOneLaunch) {
  constexpr std::uint64_t bytes = 2 * 4 * 12288;
  const KernelCase test{"rms_norm_backward", {{"...", 4}, {"N", 12288}}, {}, {"w"}, "f16"};
  const auto launches = countAll(test);
  ASSERT_EQ(launches.size(), 1u);
  const Counted &counters = launches[0].second;
  EXPECT_EQ(counters.blocks, 4 + 12288 / 512u) << "few rows do not wait for each other";
  expectReadOf(counters, {{"x", 2 * bytes}, {"dy", 2 * bytes}, {"w", bytes}});
  EXPECT_EQ(counters.globalStore.bytes, bytes + 2 * 12288) << counters.text();
  expectCoalesced(counters);
  expectNoConflicts(counters);
}

// Whatever a program's share of the rows.
TEST_P(RowCounters, RowsTogetherHaveNoConflicts) {
  for (const std::int64_t together : {1, 2, 4})
    for (const std::int64_t warps : {1, 4, 8}) {
      const Config config{{"rows", together}, {"warps", warps}};
      expectNoConflicts(count({"layer_norm", extents, {}, {"w", "b"}, "f16", config}));
      expectNoConflicts(count({"rms_norm", extents, {}, {"w", "residual"}, "f32", config}));
    }
}

// Widths that models have: no thread idles, and each moves 16 bytes at once.
TEST_P(RowCounters, RowsOfAnyWidthFillTheirThreads) {
  for (const std::int64_t width : {64, 768, 3584, 5120, 12288}) {
    const std::int64_t together = width == 64 ? 64 : 4;
    const std::uint64_t bytes = static_cast<std::uint64_t>(2 * together * width);
    const auto lanes = static_cast<std::uint64_t>(warpSize(device.target()));
    for (const char *kernel : {"softmax", "rms_norm", "layer_norm", "reduce"}) {
      const KernelCase test{kernel, {{"...", together}, {"N", width}}, {}, {}, "f16"};
      SCOPED_TRACE(test.describe());
      if (std::string_view(kernel) == "reduce" && width > 2048)
        continue; // few long rows are cut into parts
      const Counted counters = count(test);
      expectReadOf(counters, {{"x", bytes}});
      EXPECT_EQ(counters.globalLoad.requests * 16 * lanes, bytes) << counters.text();
      EXPECT_EQ(counters.globalLoad.bytes, bytes) << counters.text();
      expectCoalesced(counters);
      expectNoConflicts(counters);
      // Of sums: a number from each warp and all of a row's to each thread, twice at most.
      const auto warps = static_cast<std::uint64_t>(configOf(test).at("warps"));
      EXPECT_LE(counters.sharedStore.bytes, 2 * counters.blocks * warps * 4) << counters.text();
    }
  }
}

TEST_P(RowCounters, LongRowsAreReadTwice) {
  const std::map<std::string, std::int64_t> longRows{{"...", 2}, {"N", 2048}};
  const Config small{{"block", 512}, {"rows", 1}, {"warps", 2}};
  constexpr std::uint64_t bytes = 2 * 2048 * 4;
  expectMoved(count({"softmax", longRows, {}, {}, "", small}), 2 * bytes, bytes);
  expectMoved(count({"softmax_backward", longRows, {}, {}, "", small}), 4 * bytes, bytes);
}

// One scale for a tensor takes a look at all of it before.
TEST_P(RowCounters, QuantizedMatricesAreReadOnce) {
  constexpr std::uint64_t m = 128, k = 1024, bytes = m * k * 2;
  for (const auto &[granularity, scales] :
       {std::pair{"row", m}, {"group", m * k / 128}, {"block", k / 128}}) {
    const Counted counters =
        count({"quantize", {{"M", m}, {"K", k}}, {{"granularity", granularity}}, {}, "f16"});
    expectReadOf(counters, {{"x", bytes}});
    EXPECT_EQ(counters.globalStore.bytes, m * k + 4 * scales) << counters.text();
    EXPECT_EQ(counters.globalLoad.sectors, counters.globalLoad.idealSectors) << counters.text();
  }
  const KernelCase whole{"quantize", {{"M", m}, {"K", k}}, {{"granularity", "tensor"}}, {}, "f16"};
  expectReadOf(count(whole, "quantize_largest"), {{"x", bytes}});
  const Counted second = count(whole, "quantize_all");
  expectReadOf(second, {{"x", bytes}});
  EXPECT_EQ(second.globalStore.bytes, m * k + 4) << second.text();
}

TEST_P(RowCounters, LogitsAreReadOnce) {
  const std::map<std::string, std::int64_t> classes{{"...", 4}, {"V", 8192}};
  constexpr std::uint64_t bytes = 4 * 8192 * 2,
                          perWarp = 4 * 32; // a few numbers of a row
  auto warps = [&](const Counters &counters) { return counters.blocks * 16; };
  const Counted loss = count({"cross_entropy", classes, {{"reduction", "none"}}, {}, "f16"});
  expectRead(loss, bytes, warps(loss) * perWarp);
  const Counted gradient =
      count({"cross_entropy_backward", classes, {{"reduction", "none"}}, {}, "f16"});
  expectRead(gradient, bytes, warps(gradient) * perWarp);
  expectReadOf(gradient, {{"logits", bytes}});
  EXPECT_EQ(gradient.globalStore.bytes, bytes);
  for (const Counters &counters : {loss, gradient})
    expectNoConflicts(counters);
}

TEST_P(RowCounters, ElementsMoveOnce) {
  const std::map<std::string, std::int64_t> many{{"...", 16384}};
  constexpr std::uint64_t bytes = 2 * 16384;
  expectMoved(count({"activation", many, {}, {}, "f16"}), bytes, bytes);
  expectMoved(count({"swiglu_backward", many, {}, {}, "f16"}), 3 * bytes, 2 * bytes);
  const Counted dropout = count({"dropout", many, {}, {}, "f16"});
  expectMoved(dropout, bytes, bytes);
  for (const char *kernel : {"activation", "dropout"}) {
    const Counted counters = count({kernel, many, {}, {}, "f16"});
    // Sixteen bytes for each access of a thread.
    EXPECT_EQ(counters.globalLoad.requests * 16 *
                  static_cast<std::uint64_t>(warpSize(device.target())),
              counters.globalLoad.bytes)
        << kernel << counters.text();
  }
}

TEST_P(RowCounters, LayerNormReadsRowsOnce) {
  constexpr std::uint64_t weights = 2 * length * 2;
  const Counted counters = count({"layer_norm", extents, {}, {"w", "b"}, "f16"});
  expectRead(counters, half16 + weights, counters.blocks * 2 * weights);
  expectReadOf(counters, {{"x", half16}});
  EXPECT_EQ(counters.globalStore.bytes, half16 + rows * 2 * 4) << counters.text();
  expectNoConflicts(counters);
  expectMoved(count({"layer_norm", extents, {}, {}, "f16"}), half16, half16 + rows * 2 * 4);
}

TEST_P(RowCounters, GroupsAreReadOnce) {
  const std::map<std::string, std::int64_t> images{{"B", 2}, {"C", 64}, {"...", 256}};
  constexpr std::uint64_t bytes = 2 * 64 * 256 * 2, warps = 4;
  const Counted forward = count({"group_norm", images, {}, {}, "f16"});
  expectRead(forward, bytes, forward.blocks * warps * 4 * 32);
  expectReadOf(forward, {{"x", bytes}});
  EXPECT_EQ(forward.globalStore.bytes, bytes + 2 * 32 * 2 * 4) << forward.text();
  expectNoConflicts(forward);
}

// Angles are made, not read; tables and weights are read once for the batches that share them.
TEST_P(RowCounters, PositionsMoveRowsOnce) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:gfx942");
  const std::map<std::string, std::int64_t> heads{{"B", 2}, {"H", 4}, {"S", 64}, {"D", 128}};
  constexpr std::uint64_t turned = 2 * 4 * 64 * 128 * 2;
  for (const char *kernel : {"rope", "rope_backward"})
    for (const char *style : {"half", "interleaved"}) {
      SCOPED_TRACE(style);
      const Counted counters = count({kernel, heads, {{"style", style}}, {}, "f16"});
      expectMoved(counters, turned, turned);
      EXPECT_EQ(counters.sharedStore.bytes, 0u) << counters.text();
    }
  const std::map<std::string, std::int64_t> hidden{{"B", 4}, {"S", 8}, {"H", 1024}};
  constexpr std::uint64_t bytes = 4 * 8 * 1024 * 2;
  const Counted waves = count({"sinusoidal", hidden, {}, {}, "f16"});
  expectMoved(waves, bytes, bytes);
  expectNoConflicts(waves);
  // The table is read once for as many batches as leave a thread 64 elements, eight at most.
  for (const char *dtype : {"f16", "f32"})
    for (const std::uint64_t batches : {2, 3, 16})
      for (const std::uint64_t width : {64, 512, 1024, 8192})
        for (const bool norm : {false, true}) {
          const KernelCase test{"add_positions",
                                {{"B", batches}, {"S", 16}, {"H", width}, {"P", 16}},
                                {},
                                norm ? std::vector<std::string>{"w", "b"}
                                     : std::vector<std::string>{},
                                dtype};
          SCOPED_TRACE(test.describe());
          const Counted counters = count(test);
          const std::uint64_t block = norm ? width : std::min<std::uint64_t>(width, 2048);
          const std::uint64_t together = std::min<std::uint64_t>(8, 8192 / block);
          const std::uint64_t row = width * (dtype[1] == '1' ? 2 : 4);
          expectReadOf(counters, {{"x", batches * 16 * row},
                                  {"table", (batches + together - 1) / together * 16 * row}});
          EXPECT_EQ(counters.globalStore.bytes,
                    batches * 16 * (row + (norm ? 2 * sizeof(float) : 0)));
          if (norm) {
            for (const char *weights : {"w", "b"})
              EXPECT_LE(counters.read.at(weights), counters.blocks * 4 * row);
          }
          expectNoConflicts(counters);
        }
}

TEST_P(RowCounters, PoolsReadPositionsOnce) {
  const std::map<std::string, std::int64_t> sequences{{"B", 2}, {"T", 128}, {"D", 128}};
  constexpr std::uint64_t bytes = 2 * 128 * 128 * 2, means = 2 * 128 * 2;
  const Counted mean = count({"mean_pool", sequences, {}, {}, "f16"});
  expectMoved(mean, bytes, means);
  expectNoConflicts(mean);
  const Counted back = count({"mean_pool_backward", sequences, {}, {}, "f16"});
  expectRead(back, means, back.blocks * means);
  EXPECT_EQ(back.globalStore.bytes, bytes) << back.text();
  const std::map<std::string, std::int64_t> chunked{{"B", 2}, {"T", 256}, {"H", 2}, {"D", 128}};
  constexpr std::uint64_t whole = 2 * 256 * 2 * 128 * 2, chunks = whole / 64;
  const Counted chunk = count({"chunk_mean_pool", chunked, {}, {}, "f16"});
  expectMoved(chunk, whole, chunks);
  expectNoConflicts(chunk);
  auto withChunks = chunked;
  withChunks["C"] = 4;
  const Counted spread = count({"chunk_mean_pool_backward", withChunks, {}, {}, "f16"});
  expectRead(spread, chunks, 4 * chunks);
  EXPECT_EQ(spread.globalStore.bytes, whole) << spread.text();
}

TEST_P(RowCounters, CollectionsReadRowsOnce) {
  const Counted reduced = count({"reduce", extents, {}, {}, "f16"});
  expectRead(reduced, half16);
  expectNoConflicts(reduced);
  const Counted scanned = count({"scan", extents, {}, {}, "f16"});
  expectMoved(scanned, half16, half16);
  expectNoConflicts(scanned);
}

// Rows of the table, wherever they lie.
TEST_P(RowCounters, EmbeddingsAreReadOnce) {
  const std::map<std::string, std::int64_t> words{{"V", 100}, {"H", 256}, {"...", 64}};
  constexpr std::uint64_t bytes = 64 * 256 * 2;
  const Counted counters = count({"embedding", words, {}, {}, "f16"});
  expectRead(counters, bytes, counters.blocks * 16 * 32);
  expectReadOf(counters, {{"table", bytes}});
  EXPECT_EQ(counters.globalStore.bytes, bytes) << counters.text();
}
