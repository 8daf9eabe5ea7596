// What kernels over rows and elements move, by the virtual GPU's counters.
#include "CountersTest.h"

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
  const Counters plain = count({"rms_norm", extents, {}, {}, "f16"});
  expectRead(plain, half16 + weights, rows * weights);
  EXPECT_EQ(plain.globalStore.bytes, half16 + rows * 4) << plain.text();
  const Counters added = count({"rms_norm", extents, {}, {"residual"}, "f16"});
  expectRead(added, 2 * half16 + weights, rows * weights);
  EXPECT_EQ(added.globalStore.bytes, 2 * half16 + rows * 4) << added.text();
}

TEST_P(RowCounters, GradientsOfNormsReadRowsOnce) {
  // Each program reads the weights once for each of the rows that it holds at
  // once.
  constexpr std::uint64_t weights = length * 2, held = 2, warps = 4;
  const Counters layer = count({"layer_norm_backward", extents, {}, {}, "f16"}, "norm_backward");
  EXPECT_LT(layer.blocks, rows / 4) << "each program has several rows";
  expectRead(layer, 2 * half16, layer.blocks * held * weights + 2 * rows * warps * 32);
  EXPECT_EQ(layer.globalStore.bytes, half16 + layer.blocks * 2 * length * 4) << layer.text();
  const Counters rms =
      count({"rms_norm_backward", extents, {}, {"h", "dh"}, "f16"}, "norm_backward");
  expectRead(rms, 3 * half16, rms.blocks * held * weights + rows * warps * 32);
  EXPECT_EQ(rms.globalStore.bytes, half16 + rms.blocks * length * 4) << rms.text();
}

TEST_P(RowCounters, LongRowsAreReadTwice) {
  const std::map<std::string, std::int64_t> longRows{{"...", 2}, {"N", 2048}};
  const Config small{{"block", 512}, {"rows", 1}, {"warps", 2}};
  constexpr std::uint64_t bytes = 2 * 2048 * 4;
  expectMoved(count({"softmax", longRows, {}, {}, "", small}), 2 * bytes, bytes);
  expectMoved(count({"softmax_backward", longRows, {}, {}, "", small}), 4 * bytes, bytes);
}

TEST_P(RowCounters, LogitsAreReadOnce) {
  const std::map<std::string, std::int64_t> classes{{"...", 4}, {"V", 8192}};
  constexpr std::uint64_t bytes = 4 * 8192 * 2,
                          perWarp = 4 * 32; // a few numbers of a row
  auto warps = [&](const Counters &counters) { return counters.blocks * 16; };
  const Counters loss = count({"cross_entropy", classes, {{"reduction", "none"}}, {}, "f16"});
  expectRead(loss, bytes, warps(loss) * perWarp);
  const Counters gradient =
      count({"cross_entropy_backward", classes, {{"reduction", "none"}}, {}, "f16"});
  expectRead(gradient, bytes, warps(gradient) * perWarp);
  EXPECT_EQ(gradient.globalStore.bytes, bytes);
}

TEST_P(RowCounters, ElementsMoveOnce) {
  const std::map<std::string, std::int64_t> many{{"...", 16384}};
  constexpr std::uint64_t bytes = 2 * 16384;
  expectMoved(count({"activation", many, {}, {}, "f16"}), bytes, bytes);
  expectMoved(count({"swiglu_backward", many, {}, {}, "f16"}), 3 * bytes, 2 * bytes);
  const Counters dropout = count({"dropout", many, {}, {}, "f16"});
  expectMoved(dropout, bytes, bytes);
  for (const char *kernel : {"activation", "dropout"}) {
    const Counters counters = count({kernel, many, {}, {}, "f16"});
    // Sixteen bytes for each access of a thread.
    EXPECT_EQ(counters.globalLoad.requests * 16 *
                  static_cast<std::uint64_t>(warpSize(device.target())),
              counters.globalLoad.bytes)
        << kernel << counters.text();
  }
}
