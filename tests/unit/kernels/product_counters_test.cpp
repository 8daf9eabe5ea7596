// What matrix products and convolutions read, and how, by the virtual GPU's counters: a tile of the
// result reads its rows of the one operand and its columns of the other once.
#include "CountersTest.h"
#include "kernels/conv/Launch.h"
#include "tests/unit/LoopPlans.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;

namespace {

class ProductCounters : public CountersTest {
protected:
  using Extents = std::map<std::string, std::int64_t>;

  std::uint64_t field(const KernelCase &test, const char *name) {
    return static_cast<std::uint64_t>(configOf(test).at(name));
  }
  /// Bytes of the tiles of a [rows, depth] and b [depth, columns] that the result's tiles read.
  std::uint64_t tiles(const KernelCase &test, std::uint64_t rows, std::uint64_t columns,
                      std::uint64_t depth, std::uint64_t bytes = 2) {
    return rows / field(test, "m") * columns * depth * bytes +
           columns / field(test, "n") * rows * depth * bytes;
  }
  /// Filters [filters, own, taps], each number once: runs of taps, or, in nhwc, of channels, which
  /// begin anywhere in a sector.
  static void expectFiltersCopied(const Counters &counters, const char *layout,
                                  std::uint64_t filters, std::uint64_t own, std::uint64_t taps,
                                  std::uint64_t bytes, std::uint64_t written) {
    const bool first = layout == std::string("nchw");
    const std::uint64_t run = first ? taps : own, runs = filters * own * taps / run;
    const std::uint64_t sectors = ((run - 1) * bytes + 32 - bytes) / 32 + 1;
    EXPECT_EQ(counters.globalLoad.bytes, runs * run * bytes) << counters.text();
    EXPECT_LE(counters.globalLoad.sectors, runs * sectors) << counters.text();
    EXPECT_EQ(counters.globalStore.bytes, written) << counters.text();
    EXPECT_EQ(counters.globalStore.sectors, counters.globalStore.idealSectors) << counters.text();
    expectNoConflicts(counters);
  }
  static constexpr std::uint64_t size = 256;
  const Extents square{{"M", 256}, {"N", 256}, {"K", 256}};
};
SECTILE_INSTANTIATE_ON(ProductCounters,
                       "virtual:sm_80,virtual:sm_90,virtual:sm_90a,virtual:gfx942,virtual:gfx1100");

} // namespace

TEST_P(ProductCounters, TilesAreReadOnce) {
  for (const Assignments &options : {Assignments{}, {{"trans_a", "true"}}, {{"trans_b", "true"}}}) {
    const KernelCase test{"matmul", square, options, {}, "f16"};
    const Counters counters = count(test);
    expectMoved(counters, tiles(test, size, size, size), size * size * 2);
    expectNoConflicts(counters);
    expectProducts(counters, size * size * size);
  }
  for (const auto &[dtype, bytes] : {std::pair{"f32", 4u}, {"f8e4m3", 1u}, {"i8", 1u}}) {
    const KernelCase test{"matmul", square, {{"trans_b", "true"}}, {}, dtype};
    const Counters counters = count(test);
    expectRead(counters, tiles(test, size, size, size, bytes));
    expectNoConflicts(counters);
  }
}

// From the sums' layout to whole lines of the result: 16 bytes of a thread at once, in and out.
TEST_P(ProductCounters, SumsBecomeLinesInTheWidestAccesses) {
  SECTILE_NEEDS_LOOP_PLANS();
  if (!device.target().starts_with("sm_"))
    GTEST_SKIP() << "lanes of other chips' sums hold other elements";
  for (Config config : {Config{{"m", 128}, {"n", 256}, {"k", 64}, {"warps", 8}},
                        Config{{"m", 128}, {"n", 128}, {"k", 32}, {"warps", 4}},
                        Config{{"m", 64}, {"n", 256}, {"k", 32}, {"warps", 4}}}) {
    config["stages"] = 3;
    const KernelCase test{"matmul", square, {}, {}, "f16", config};
    SCOPED_TRACE(test.describe());
    const Counters counters = count(test);
    const std::uint64_t bytes = size * size * 2;
    EXPECT_EQ(counters.sharedStore.requests, bytes / 512) << counters.text();
    EXPECT_EQ(counters.sharedStore.wavefronts, bytes / 128) << counters.text();
    // The copy engine stores panels of 64 columns, and what it reads is no request, as what a wgmma
    // reads is none.
    const bool byEngine = device.target() == "sm_90" || device.target() == "sm_90a";
    EXPECT_EQ(counters.globalStore.requests,
              byEngine ? size / field(test, "m") * (size / 64) : bytes / 512)
        << counters.text();
    EXPECT_EQ(counters.globalStore.bytes, bytes) << counters.text();
    expectNoConflicts(counters);
    expectCoalesced(counters);
    if (device.target() == "sm_90a") {
      EXPECT_EQ(counters.sharedLoad.requests, 0u) << counters.text();
    }
  }
}

TEST_P(ProductCounters, EpiloguesReadWhatTheyAreGivenOnce) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  const KernelCase test{
      "matmul", square, {}, {"bias", "residual", "row_scale", "column_scale"}, "f16"};
  const Counters counters = count(test);
  // The residual once; a tile's bias and scales by each warp at most.
  const std::uint64_t vectors = counters.blocks * field(test, "warps") * (2 + 4 + 4) *
                                std::max(field(test, "m"), field(test, "n"));
  expectRead(counters, tiles(test, size, size, size) + size * size * 2, vectors);
  EXPECT_EQ(counters.globalStore.bytes, size * size * 2);
  expectNoConflicts(counters);
}

// Each part of a sum that is split is stored once, and read once by the launch that adds them up.
TEST_P(ProductCounters, SplitSumsAreLeftAndReadOnce) {
  const KernelCase test{"matmul", square, {}, {}, "f16", {{"splits", 4}}};
  const std::uint64_t parts = 4 * size * size * 4;
  const auto launches = countAll(test);
  ASSERT_EQ(launches.size(), 2u);
  const Counters &products = launches[0].second, &sums = launches[1].second;
  EXPECT_EQ(products.globalStore.bytes, parts);
  expectRead(products, tiles(test, size, size, size));
  expectProducts(products, size * size * size);
  EXPECT_EQ(sums.globalStore.bytes, size * size * 2);
  EXPECT_EQ(readBytes(sums), parts);
  for (const Counters *counters : {&products, &sums}) {
    expectCoalesced(*counters);
    expectNoConflicts(*counters);
  }
}

// So is each part of a stream's, but for the last one's own of two; who arrives last is a matter of
// one atomic operation.
TEST_P(ProductCounters, StreamedSumsAreLeftAndReadOnce) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  const KernelCase test{"matmul", square, {{"schedule", "stream_k"}}, {}, "f16", {{"programs", 7}}};
  const Counters counters = count(test);
  // Beside the parts the last of a tile leaves its counter as it was.
  const std::uint64_t part = field(test, "m") * field(test, "n") * 4;
  const std::uint64_t left = counters.globalStore.bytes - size * size * 2;
  const std::uint64_t parts = left / part * part, resultTiles = size * size * 4 / part;
  EXPECT_LE(left - parts, 4 * resultTiles);
  EXPECT_GT(parts, 0u);
  expectRead(counters, tiles(test, size, size, size) + parts / 2, parts / 2);
  expectNoConflicts(counters);
  expectProducts(counters, size * size * size);
}

// 13 tiles of 4 steps for 5 programs: 5 tiles are done whole by their programs, and of the 8 whose
// steps are dealt out evenly 3 are cut, in two (docs/kernels/matmul.md).
TEST_P(ProductCounters, StreamedTilesAreThoseOfTheLastWaves) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  const std::uint64_t m = 64, n = 64, depth = 32;
  for (const int persistent : {0, 1}) {
    const Counters counters = count({"matmul",
                                     {{"M", 13 * m}, {"N", n}, {"K", 4 * depth}},
                                     {{"schedule", "stream_k"}},
                                     {},
                                     "f16",
                                     {{"m", m},
                                      {"n", n},
                                      {"k", depth},
                                      {"warps", 4},
                                      {"stages", 3},
                                      {"programs", 5},
                                      {"persistent", persistent}}});
    const std::uint64_t parts = (counters.globalStore.bytes - 13 * m * n * 2) / (m * n * 4);
    EXPECT_EQ(parts, 6u) << counters.text();
    EXPECT_EQ(counters.blocks, 5u);
  }
}

TEST_P(ProductCounters, EachMatrixOfABatch) {
  const KernelCase test{"batched_matmul",
                        {{"B", 3}, {"M", 128}, {"N", 128}, {"K", 128}},
                        {{"activation", "silu"}},
                        {},
                        "bf16"};
  const Counters counters = count(test);
  expectMoved(counters, 3 * tiles(test, 128, 128, 128), std::uint64_t(3) * 128 * 128 * 2);
  expectNoConflicts(counters);
}

// Groups of whole tiles: the lengths, which every warp reads, and no tile of an empty group.
TEST_P(ProductCounters, EachGroupsRows) {
  for (const char *kernel : {"grouped_matmul", "grouped_matmul_drhs"}) {
    KernelCase test{kernel, {{"M", 256}, {"N", 128}, {"K", 128}, {"G", 3}}, {}, {}, "f16"};
    test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
      inputs[call.index("group_sizes")].assign(std::vector<double>{128, 0, 128});
    };
    const bool ofRhs = kernel == std::string("grouped_matmul_drhs");
    const Counters counters = count(test);
    // drhs: a group's tiles are [K, N], its rows are summed.
    const std::uint64_t read = ofRhs ? 2 * tiles(test, 128, 128, 128) : tiles(test, 256, 128, 128);
    expectRead(counters, read, counters.blocks * field(test, "warps") * 2 * 32);
    EXPECT_EQ(counters.globalStore.bytes, ofRhs ? 3u * 128 * 128 * 2 : 256u * 128 * 2);
    expectNoConflicts(counters);
    expectProducts(counters, std::uint64_t(256) * 128 * 128);
  }
}

// Weights are read as they are packed, for each row of tiles once; a column's scale and zero point,
// which lie S apart, once in a step.
TEST_P(ProductCounters, WeightsAreReadAsTheyArePacked) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  for (const bool packed : {true, false})
    for (const std::int64_t rows : {16, 128})
      for (const bool zeros : {false, true}) {
        KernelCase test{"quantized_matmul",
                        {{"M", rows}, {"N", 128}, {"K", 256}, {"W", packed ? 128 : 256}, {"S", 2}},
                        {},
                        {},
                        packed ? "f16" : "f16,w=i8"};
        if (zeros)
          test.with = {"zeros"};
        const Counters counters = count(test);
        const auto m = static_cast<std::uint64_t>(rows);
        const std::uint64_t rowTiles = (m + field(test, "m") - 1) / field(test, "m");
        const std::uint64_t read =
            128 / field(test, "n") * m * 256 * 2 + rowTiles * 128 * (packed ? 128 : 256);
        const std::uint64_t steps = 256 / field(test, "k");
        const std::uint64_t scales =
            counters.blocks * steps * field(test, "n") * 2 * 2 * (zeros ? 2 : 1);
        // The half-waves of WMMA hold the same columns, and so may two warps that decode what wgmma
        // reads: both read their scales.
        const bool shared = device.target() == "gfx1100" || device.target() == "sm_90a";
        EXPECT_GE(readBytes(counters), read + scales) << counters.text();
        EXPECT_LE(readBytes(counters), read + scales * (shared ? 2 : 1)) << counters.text();
        EXPECT_EQ(counters.asyncCopy.sectors, counters.asyncCopy.idealSectors) << counters.text();
        // Of a tile of 16 rows each warp has the sums of eight columns, which are half a sector.
        const bool narrow = field(test, "m") == 16 && device.target().starts_with("sm_");
        EXPECT_EQ(counters.globalStore.sectors,
                  counters.globalStore.idealSectors * (narrow ? 2 : 1));
        // Where wgmma reads what was decoded, its lines are for the instruction: stores of them
        // take up to twice the wavefronts.
        if (device.target() != "sm_90a")
          expectNoConflicts(counters);
        EXPECT_LE(counters.sharedStore.wavefronts, 2 * counters.sharedStore.idealWavefronts)
            << counters.text();
      }
}

// With many rows the weights are decoded by a launch of their own; the product reads its tiles of
// what that left.
TEST_P(ProductCounters, WeightsAreDecodedOnce) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  for (const bool packed : {true, false}) {
    const KernelCase test{"quantized_matmul",
                          {{"M", 256}, {"N", 128}, {"K", 256}, {"W", packed ? 128 : 256}, {"S", 2}},
                          {},
                          {"zeros"},
                          packed ? "f16" : "f16,w=i8",
                          {{"m", 64}, {"n", 64}, {"decode_first", 1}}};
    const auto counted = countAll(test);
    ASSERT_EQ(counted.size(), 2u);
    const Counters &decode = counted[0].second, &product = counted[1].second;
    EXPECT_EQ(decode.globalStore.bytes, 128u * 256 * 2);
    EXPECT_EQ(decode.globalStore.sectors, decode.globalStore.idealSectors) << decode.text();
    // Scales and zero points, which lie S apart, for each program's rows and by each warp at most.
    const std::uint64_t codes = 128 * (packed ? 128 : 256);
    EXPECT_GE(readBytes(decode), codes) << decode.text();
    EXPECT_LE(readBytes(decode), codes + 2 * 128 * 2 * 32) << decode.text();
    expectMoved(product, tiles(test, 256, 128, 256), 256 * 128 * 2);
    expectNoConflicts(product);
    expectProducts(product, std::uint64_t(256) * 128 * 256);
  }
}

// A row's scales lie Sk apart: the sectors of all for each block of K, by each warp at most. The
// columns of a tile share one.
TEST_P(ProductCounters, BlocksOfCodesAndTheirScales) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx1100");
  for (const char *dtype : {"f8e4m3", "i8"})
    for (const char *transposed : {"false", "true"}) {
      const KernelCase test{"scaled_matmul",
                            {{"M", 128}, {"N", 256}, {"K", 256}, {"Sk", 2}, {"Sn", 2}},
                            {{"trans_b", transposed}},
                            {},
                            dtype};
      const Counted counters = count(test);
      const std::uint64_t m = field(test, "m"), n = field(test, "n");
      const char *const right = field(test, "copy_first") ? "scratch" : "b";
      expectReadOf(counters, {{"a", 128 * 256 * (256 / n)}, {right, 256 * 256 * (128 / m)}});
      const std::uint64_t blocks = counters.blocks * 2, warps = field(test, "warps");
      EXPECT_LE(counters.read.at("a_scales"), blocks * warps * m * 2 * 4) << counters.text();
      // A persistent program's threads load one scale for each of the rows that they have, of two
      // eights of rows.
      const std::uint64_t each = field(test, "persistent") ? 2 : 1;
      EXPECT_LE(counters.read.at("b_scales"), blocks * warps * 32 * each) << counters.text();
      EXPECT_EQ(counters.asyncCopy.sectors, counters.asyncCopy.idealSectors) << counters.text();
      EXPECT_EQ(counters.globalStore.sectors, counters.globalStore.idealSectors);
      if (device.target() == "sm_90a" && *transposed == 'f' && !field(test, "copy_first")) {
        // Words of b that are turned along K lie in as many banks as b's lines are long.
        EXPECT_LE(counters.sharedLoad.wavefronts, counters.sharedLoad.idealWavefronts * 128 / n);
        EXPECT_EQ(counters.sharedStore.wavefronts, counters.sharedStore.idealWavefronts);
      } else {
        expectNoConflicts(counters);
      }
    }
}

namespace {

constexpr std::uint64_t images = 2, channels = 64, filters = 64, taps = 9, edge = 18;

KernelCase convolution(const char *kernel, const char *layout, int m, int stride = 1) {
  const std::int64_t places = (18 - 3) / stride + 1;
  const std::string step = std::to_string(stride);
  return {kernel,
          {{"N", 2},
           {"C", 64},
           {"H", 18},
           {"W", 18},
           {"K", 64},
           {"Cg", 64},
           {"R", 3},
           {"S", 3},
           {"P", places},
           {"Q", places}},
          {{"layout", layout}, {"stride_h", step}, {"stride_w", step}},
          {},
          "f16",
          {{"m", m}, {"n", 64}}};
}

} // namespace

// Each tap reads the pixels under it: a row for each place. Where channels are not last a launch
// copies the image, and one the filters, each once.
TEST_P(ProductCounters, ConvolutionsReadRunsOfChannels) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_80", "virtual:gfx1100");
  for (const char *layout : {"nchw", "nhwc"})
    for (const int m : {64, 128})
      for (const int stride : {1, 2}) {
        KernelCase test = convolution("conv2d", layout, m, stride);
        test.extents.erase("P");
        test.extents.erase("Q");
        SCOPED_TRACE(test.describe());
        const auto counted = countAll(test);
        ASSERT_EQ(counted.size(), layout == std::string("nchw") ? 3u : 1u);
        const std::uint64_t places = images * (stride == 1 ? 16 * 16 : 8 * 8);
        const Counters &counters = counted.back().second;
        const std::uint64_t rowTiles = places / static_cast<std::uint64_t>(m);
        expectMoved(counters,
                    places * taps * channels * 2 + rowTiles * filters * taps * channels * 2,
                    places * filters * 2);
        expectNoConflicts(counters);
        expectProducts(counters, places * taps * channels * filters);
        if (counted.size() == 1)
          continue;
        // Where a warp's run of 32 pixels ends, two share a sector.
        constexpr std::uint64_t runs = edge * edge / 32 + 1;
        const Counters &image = counted[0].second;
        EXPECT_GE(readBytes(image), images * channels * edge * edge * 2) << image.text();
        EXPECT_LE(readBytes(image), images * channels * (edge * edge * 2 + runs * 32))
            << image.text();
        EXPECT_EQ(image.globalStore.bytes, images * channels * edge * edge * 2);
        expectNoConflicts(image);
        expectFiltersCopied(counted[1].second, layout, filters, channels, taps, 2,
                            filters * taps * channels * 2);
      }
}

// A stride lets a quarter of the taps lie on a pixel: they alone are summed. All that is stored
// lies side by side; what does not with channels first is computed with channels last and copied.
TEST_P(ProductCounters, GradientsOfConvolutionsSumNoTapsInVain) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_80", "virtual:gfx1100");
  for (const char *layout : {"nchw", "nhwc"})
    for (const int stride : {1, 2}) {
      KernelCase test = convolution("conv2d_backward", layout, 64, stride);
      test.with = {"b"};
      SCOPED_TRACE(test.describe());
      const bool first = layout == std::string("nchw");
      const std::uint64_t places = images * (stride == 1 ? 16 * 16 : 8 * 8);
      const std::uint64_t imageBytes = images * edge * edge * channels * 2,
                          filterBytes = filters * taps * channels * 2;
      std::vector<std::uint64_t> copiedBack;
      std::size_t gradients = 0;
      for (const auto &[name, counters] : countAll(test)) {
        SCOPED_TRACE(name);
        if (name == "conv2d_restore") {
          copiedBack.push_back(counters.globalStore.bytes);
          EXPECT_EQ(readBytes(counters), counters.globalStore.bytes) << counters.text();
          continue;
        }
        if (name == "conv2d_filter_rows") {
          expectFiltersCopied(counters, layout, filters, channels, taps, 2, filterBytes);
          continue;
        }
        if (name == "conv2d_reorder")
          continue;
        ++gradients;
        // Where a warp's run of 32 pixels ends, or an image, two share a sector.
        const bool shared = first && stride == 1 && name == "conv2d_dgrad";
        constexpr std::uint64_t ends = images * channels * (edge * edge / 32 + 2);
        EXPECT_LE(counters.globalStore.sectors,
                  counters.globalStore.idealSectors + (shared ? ends : 0))
            << counters.text();
        if (name == "conv2d_dgrad") {
          EXPECT_EQ(counters.globalStore.bytes, imageBytes);
          EXPECT_EQ(counters.asyncCopy.sectors, counters.asyncCopy.idealSectors) << counters.text();
          EXPECT_EQ(counters.globalLoad.sectors, counters.globalLoad.idealSectors);
          expectNoConflicts(counters);
          // Classes of pixels by the taps that lie on them: 9 or, of a stride of 2, 4, 2, 2 and 1.
          const std::uint64_t pixels =
              images * edge * edge / static_cast<std::uint64_t>(stride * stride);
          const std::uint64_t tile = 64 * channels * filters;
          // By the copy engine in boxes, some of which reach beyond the images' edges.
          const bool inBoxes = device.target() == "sm_90a" && !first;
          const auto rowTiles = inBoxes
                                    ? static_cast<std::uint64_t>(
                                          pixelBox(64, images, edge / stride, edge / stride).tiles)
                                    : (pixels + 63) / 64;
          expectProducts(counters, rowTiles * tile * taps);
        } else if (name == "conv2d_wgrad") {
          EXPECT_EQ(counters.globalStore.bytes, filterBytes);
          // Both operands for each column of tiles: 64 channels of a tap.
          expectRead(counters, taps * places * (channels + filters) * 2);
          expectNoConflicts(counters);
          expectProducts(counters, places * taps * channels * filters);
        } else {
          ASSERT_EQ(name, "conv2d_bias_gradient");
          expectMoved(counters, places * filters * 2, filters * 2);
        }
      }
      EXPECT_EQ(gradients, 3u);
      std::vector<std::uint64_t> expected;
      if (first && stride > 1)
        expected.push_back(imageBytes);
      if (first)
        expected.push_back(filterBytes);
      EXPECT_EQ(copiedBack, expected);
    }
}

namespace {

// Filters of 3 x 1 taps over rows of 32 pixels, so that each run of pixels is one of whole sectors.
KernelCase fewChannels(const char *kernel, const char *layout, const char *dtype, int channels,
                       int filters, int groups) {
  return {kernel,
          {{"N", 1},
           {"C", channels},
           {"H", 18},
           {"W", 32},
           {"K", filters},
           {"Cg", channels / groups},
           {"R", 3},
           {"S", 1},
           {"P", 16},
           {"Q", 32}},
          {{"layout", layout}, {"groups", std::to_string(groups)}},
          {},
          dtype,
          {{"m", 64}}};
}

std::uint64_t bytesOf(const char *dtype) { return dtype[1] == '1' ? 2 : 4; }

// A few channels of a group are read as a power of two, 8 bytes or more.
std::uint64_t blockOf(const char *dtype, int channels, int groups) {
  const std::uint64_t block = std::bit_ceil(static_cast<unsigned>(channels / groups));
  return block == 1 ? 1 : std::max(block, 8 / bytesOf(dtype));
}

// Of a row of the copied filters: all that a filter, or a channel of dx, is summed over.
std::uint64_t rowBytes(const char *dtype, int channels, int groups) {
  return (3 * blockOf(dtype, channels, groups) + 15) / 16 * 16 * bytesOf(dtype);
}

struct Few {
  int channels, filters, groups;
};

// Of 16 bytes of channels: each run of them would share its sector with the next group's.
Few groupsOfHalfSectors(const char *dtype) {
  return {32, 32, static_cast<int>(2 * bytesOf(dtype))};
}

} // namespace

// Where a group has few channels, blocks of all of a group's channels are read, those of
// neighbouring pixels beside each other, and filters in the order of the sums: each row of them is
// one run, of 16 numbers or a multiple. What lies otherwise is copied once.
TEST_P(ProductCounters, FewChannelsAreReadInBlocks) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_80", "virtual:gfx1100");
  for (const char *layout : {"nchw", "nhwc"})
    for (const char *dtype : {"f16", "f32"})
      for (const auto &[channels, filters, groups] :
           {Few{3, 64, 1}, Few{2, 64, 2}, Few{32, 32, 16}, groupsOfHalfSectors(dtype)}) {
        KernelCase test = fewChannels("conv2d", layout, dtype, channels, filters, groups);
        test.extents.erase("P");
        test.extents.erase("Q");
        SCOPED_TRACE(test.describe());
        const std::uint64_t bytes = bytesOf(dtype), places = 16 * 32;
        const auto count = [&](int n) { return static_cast<std::uint64_t>(n) * bytes; };
        const std::uint64_t image = 18 * 32 * count(channels),
                            pixel = blockOf(dtype, channels, groups) * count(groups),
                            row = rowBytes(dtype, channels, groups);
        // Blocks of one channel are rows of pixels.
        const bool last = layout == std::string("nhwc"), copied = last || channels > groups,
                   copiedBack = last && groups > 1 && count(filters / groups) < 32;
        std::size_t launches = 0;
        for (const auto &[name, counters] : countAll(test)) {
          SCOPED_TRACE(name);
          ++launches;
          if (name == "conv2d_filter_rows") {
            const auto rows = static_cast<std::uint64_t>(filters);
            expectFiltersCopied(counters, layout, rows,
                                static_cast<std::uint64_t>(channels / groups), 3, bytes,
                                rows * row);
          } else if (name == "conv2d_reorder") {
            // Three channels of f16 fill no sectors with a warp's pixels: two share one.
            if (channels != 3) {
              expectReadOf(counters, {{"x", image}});
            }
            EXPECT_EQ(counters.globalStore.bytes, 18 * 32 * pixel);
            expectCoalesced(counters);
          } else if (name == "conv2d_restore") {
            expectMoved(counters, places * count(filters), places * count(filters));
          } else {
            expectNoConflicts(counters);
            // Taps of a single channel may be read together, and the rows that they share once
            // then.
            const std::uint64_t taps = 3 * places * pixel,
                                weights = places / 64 * static_cast<std::uint64_t>(filters) * row,
                                once = channels == groups ? image : taps;
            expectRead(counters, once + weights, taps - once);
            EXPECT_EQ(counters.globalStore.bytes, places * count(filters));
            if (!copied) {
              EXPECT_EQ(counters.read.at("scratch"), weights);
            }
          }
        }
        EXPECT_EQ(launches, 2u + copied + copiedBack);
      }
}

// So do the gradients, of x where channels are few and of dy where filters are.
TEST_P(ProductCounters, GradientsOfFewChannelsReadBlocks) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_80", "virtual:gfx1100", "virtual:gfx942");
  for (const char *layout : {"nchw", "nhwc"})
    for (const char *dtype : {"f16", "f32"})
      for (const int groups : {16, groupsOfHalfSectors(dtype).groups}) {
        KernelCase test = fewChannels("conv2d_backward", layout, dtype, 32, 32, groups);
        test.config.emplace("wgrad_splits", 1);
        SCOPED_TRACE(test.describe());
        const std::uint64_t bytes = bytesOf(dtype), places = 16 * 32, area = 18 * 32,
                            pixel =
                                blockOf(dtype, 32, groups) * bytes * static_cast<unsigned>(groups);
        std::size_t products = 0;
        for (const auto &[name, counters] : countAll(test)) {
          SCOPED_TRACE(name);
          const bool ofImage = name == "conv2d_dgrad";
          if (name == "conv2d_filter_rows")
            expectFiltersCopied(counters, layout, 32, 32u / static_cast<unsigned>(groups), 3,
                                bytesOf(dtype), 32 * rowBytes(dtype, 32, groups));
          if (!ofImage && name != "conv2d_wgrad")
            continue;
          ++products;
          expectNoConflicts(counters);
          EXPECT_EQ(counters.globalLoad.sectors, counters.globalLoad.idealSectors)
              << counters.text();
          EXPECT_EQ(counters.asyncCopy.sectors, counters.asyncCopy.idealSectors) << counters.text();
          // dy and filters; dy and x.
          const std::uint64_t other =
              ofImage ? area / 64 * 32 * rowBytes(dtype, 32, groups) : places * pixel;
          EXPECT_EQ(readBytes(counters), 3 * places * pixel + other) << counters.text();
          if (!ofImage)
            continue;
          EXPECT_EQ(counters.globalStore.bytes, area * 32 * bytes);
          EXPECT_EQ(counters.globalStore.sectors, counters.globalStore.idealSectors);
        }
        EXPECT_EQ(products, 2u);
      }
}

// Where a group has one channel and one filter, nothing is copied but nhwc filters. A program has
// some rows of outputs, for which it reads each row of the image that lies under a tap once for
// each column of taps.
TEST_P(ProductCounters, DepthwiseRowsAreReadOnceForAColumnOfTaps) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_80", "virtual:gfx1100");
  constexpr std::uint64_t n = 2, channels = 64, edge = 32;
  for (const char *kernel : {"conv2d", "conv2d_backward"})
    for (const char *layout : {"nchw", "nhwc"})
      for (const char *dtype : {"f16", "f32"}) {
        const bool last = layout == std::string("nhwc");
        // Runs of pixels begin where sectors do under one column of taps only.
        const std::uint64_t columns = last ? 3 : 1, bytes = bytesOf(dtype), taps = 3 * columns;
        KernelCase test{kernel,
                        {{"N", n},
                         {"C", channels},
                         {"H", edge},
                         {"W", edge},
                         {"K", channels},
                         {"Cg", 1},
                         {"R", 3},
                         {"S", static_cast<std::int64_t>(columns)}},
                        {{"layout", layout}, {"groups", "64"}, {"pad_h", "1"}},
                        {},
                        dtype};
        if (last)
          test.options.push_back({"pad_w", "1"});
        SCOPED_TRACE(test.describe());
        const std::uint64_t plane = channels * bytes, image = n * edge * edge * plane;
        // A tile reads a row above its own and one below, other than in the padding, and a row's
        // elements for each tap that lies on them. In the counters lanes whose tap is in the
        // padding are one access ahead, and share it with a neighbour.
        const auto expectRowsRead = [&](const Counters &counters, std::uint64_t rows,
                                        std::uint64_t other) {
          const std::uint64_t row = n * (edge + 2 * (edge / rows - 1)) * plane;
          const std::uint64_t shared = row * (columns - 1);
          const std::uint64_t read = row * (columns * edge - (columns - 1)) + other;
          EXPECT_GE(readBytes(counters), read - shared) << counters.text();
          EXPECT_LE(readBytes(counters), read) << counters.text();
          EXPECT_EQ(counters.globalLoad.sectors, counters.globalLoad.idealSectors);
          expectNoConflicts(counters);
        };
        std::vector<std::string> names;
        for (const auto &[name, counters] : countAll(test)) {
          SCOPED_TRACE(name);
          if (name == "conv2d_reorder") {
            EXPECT_EQ(counters.globalStore.bytes, taps * plane);
            continue;
          }
          names.push_back(name);
          if (name == "conv2d_wgrad") {
            expectRowsRead(counters, field(test, "wgrad_k"), image);
            EXPECT_EQ(counters.globalStore.bytes,
                      field(test, "wgrad_splits") * (taps + 1) * channels * 4);
          } else if (name == "conv2d_wgrad_sums") {
            EXPECT_EQ(readBytes(counters), field(test, "wgrad_splits") * (taps + 1) * channels * 4);
            EXPECT_EQ(counters.globalStore.bytes, taps * plane);
          } else {
            // Lanes beside each other share a filter, or read those of channels beside each other.
            const std::uint64_t filters =
                counters.blocks * field(test, "warps") * taps * (last ? plane : 32);
            expectRowsRead(counters, field(test, "k"), filters);
            EXPECT_EQ(counters.globalStore.bytes, image);
            EXPECT_EQ(counters.globalStore.sectors, counters.globalStore.idealSectors);
          }
        }
        EXPECT_EQ(names, kernel == std::string("conv2d")
                             ? std::vector<std::string>{"conv2d"}
                             : (std::vector<std::string>{"conv2d_wgrad", "conv2d_wgrad_sums",
                                                         "conv2d_dgrad"}));
      }
}

// With a stride, the pixels that a tap meets one after the other lie beside each other: where
// channels or filters are few, each class of columns is copied to a place of its own. Taps are in
// one column, so that each run of pixels is one of whole sectors.
TEST_P(ProductCounters, PixelsOfAStrideAreReadTogether) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_80", "virtual:gfx1100", "virtual:gfx942");
  std::size_t place = 0;
  for (const char *kernel : {"conv2d", "conv2d_backward"})
    for (const char *layout : {"nchw", "nhwc"})
      for (const char *dtype : {"f16", "f32"}) {
        ++place;
        for (const auto &[channels, filters, groups] :
             {Few{3, 64, 1}, Few{64, 3, 1}, Few{8, 2, 1}, Few{8, 64, 8}, Few{32, 32, 16},
              groupsOfHalfSectors(dtype)}) {
          if (!isAmongAThird(place++))
            continue;
          KernelCase test = fewChannels(kernel, layout, dtype, channels, filters, groups);
          for (const auto &[axis, extent] : {std::pair{"W", 64}, {"P", 8}})
            test.extents[axis] = extent;
          if (kernel == std::string("conv2d")) {
            test.extents.erase("P");
            test.extents.erase("Q");
          }
          test.options.push_back({"stride_h", "2"});
          test.options.push_back({"stride_w", "2"});
          SCOPED_TRACE(test.describe());
          std::size_t products = 0;
          for (const auto &[name, counters] : countAll(test)) {
            if (name != "conv2d" && name != "conv2d_dgrad" && name != "conv2d_wgrad")
              continue;
            ++products;
            SCOPED_TRACE(name);
            EXPECT_EQ(counters.globalLoad.sectors, counters.globalLoad.idealSectors)
                << counters.text();
            EXPECT_EQ(counters.asyncCopy.sectors, counters.asyncCopy.idealSectors)
                << counters.text();
            expectNoConflicts(counters);
          }
          EXPECT_EQ(products, test.extents.contains("P") ? 2u : 1u);
        }
      }
}

// A program of dx has all pixels between those of a stride as columns, up to 32 of four channels,
// and stores whole rows of an image, or of a copy of it where pixels do not lie last.
TEST_P(ProductCounters, FewChannelsAreStoredWithoutGaps) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_80", "virtual:gfx1100", "virtual:gfx942");
  for (const char *layout : {"nchw", "nhwc"})
    for (const char *dtype : {"f16", "f32"})
      for (const int stride : {1, 2, 3, 4, 16}) {
        const std::int64_t rows = (12 - 3) / stride + 1, columns = (48 - 3) / stride + 1;
        const std::string step = std::to_string(stride);
        const KernelCase test{"conv2d_backward",
                              {{"N", 2},
                               {"C", 3},
                               {"H", 12},
                               {"W", 48},
                               {"K", 64},
                               {"Cg", 3},
                               {"R", 3},
                               {"S", 3},
                               {"P", rows},
                               {"Q", columns}},
                              {{"layout", layout}, {"stride_h", step}, {"stride_w", step}},
                              {},
                              dtype,
                              {{"m", 64}, {"splits", 1}}};
        SCOPED_TRACE(test.describe());
        const auto ceil = [](std::int64_t a, std::int64_t b) {
          return static_cast<std::uint64_t>((a + b - 1) / b);
        };
        // Filters as a tile of the product has them: of each channel, or of each of four and each
        // phase, for all taps, of which with a stride those in a row lie on one place together.
        const std::uint64_t phases = std::bit_ceil(static_cast<unsigned>(stride));
        const std::uint64_t filters = stride == 1 ? 3 : std::max<std::uint64_t>(4 * phases, 16),
                            taps = 3 * static_cast<std::uint64_t>(2 / stride + 1),
                            number = 64 * bytesOf(dtype);
        const std::uint64_t programs =
            ceil(static_cast<std::int64_t>(2 * ceil(12, stride) * ceil(48, stride)), 64);
        std::size_t products = 0;
        for (const auto &[name, counters] : countAll(test)) {
          if (!name.starts_with("conv2d_dgrad"))
            continue;
          ++products;
          SCOPED_TRACE(name);
          const std::uint64_t read =
              taps * number * (programs * filters + 2 * static_cast<std::uint64_t>(rows * columns));
          // There 64 lanes have one MFMA's sums of 16 columns: four numbers each, which are stored
          // as they lie rather than moved through shared memory.
          if (device.target() == "gfx942" && stride == 4) {
            EXPECT_EQ(readBytes(counters), read) << counters.text();
            EXPECT_EQ(counters.globalLoad.sectors, counters.globalLoad.idealSectors);
            EXPECT_EQ(counters.globalStore.bytes, 2u * 3 * 12 * 48 * bytesOf(dtype));
            EXPECT_LE(counters.globalStore.sectors, 4 * counters.globalStore.idealSectors)
                << counters.text();
          } else {
            expectMoved(counters, read, 2u * 3 * 12 * 48 * bytesOf(dtype));
          }
          expectNoConflicts(counters);
        }
        EXPECT_EQ(products, 1u);
      }
}
