// How kernels over rows cut them by default, and the widths of blocks.
#include "KernelTest.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "tests/unit/Processes.h"
#include <algorithm>

using namespace sectile;
using namespace sectile::test;

class Widths : public OnDevice {};
SECTILE_INSTANTIATE_ON(Widths, "virtual:sm_80,virtual:sm_90,virtual:gfx942");

// Widths that models have, by the default configurations.
TEST_P(Widths, OfModelsAreRight) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  for (const auto &[count, width] :
       {std::pair{37, 64}, {5, 768}, {2, 5120}, {2, 5000}, {2, 12288}}) {
    const std::map<std::string, std::int64_t> extents{{"...", count}, {"N", width}};
    for (const char *kernel :
         {"softmax", "softmax_backward", "log_softmax", "log_softmax_backward"})
      expectRight(device, {kernel, extents, {}, {}, "f16"});
    for (const char *kernel : {"layer_norm", "layer_norm_backward"})
      expectRight(device, {kernel, extents, {}, {"w", "b"}, "f16"});
    expectRight(device, {"rms_norm", extents, {}, {"w", "residual"}, "f16"});
    expectRight(device, {"rms_norm_backward", extents, {}, {"w", "h", "dh"}, "f16"});
    for (const char *op : {"sum", "max", "argmin"})
      expectRight(device, {"reduce", extents, {{"op", op}}, {}, "f16"});
    expectRight(device, {"scan", extents, {}, {}, "f16"});
    for (const char *kernel : {"cross_entropy", "cross_entropy_backward"})
      expectRight(device, {kernel, {{"...", count}, {"V", width}}, {}, {}, "f16"});
  }
}

TEST(RowBlocks, AreTheNarrowestThatThreadsShare) {
  const std::pair<std::int64_t, std::int64_t> expected[] = {
      {0, 32},      {1, 32},      {33, 64},     {64, 64},     {65, 128},     {129, 192},
      {193, 256},   {300, 320},   {321, 384},   {385, 448},   {449, 512},    {768, 768},
      {1000, 1024}, {3584, 3584}, {5000, 5120}, {5120, 5120}, {12288, 12288}};
  for (const auto &[length, block] : expected)
    EXPECT_EQ(blockFor(length, DType::float16), block) << length;
  // Of four bytes half as many are a cache line.
  EXPECT_EQ(blockFor(65, DType::float32), 96);
  EXPECT_EQ(blockFor(65, DType::int32), 96);
}

TEST(RowBlocks, OfEqualSizeCutLongRows) {
  EXPECT_EQ(rowBlocksFor(1, 12288, 8192, DType::float32, "sm_90").block, 6144);
  EXPECT_EQ(rowBlocksFor(1, 20001, 16384, DType::float16, "sm_90").block, 10240);
}

// Each thread has a vector of 16 bytes of its own, and 16 elements or more, of many threads 32. On
// NVIDIA's chips those of short rows have half a vector and half the elements, where these were 24.
TEST(RowBlocks, FillThreads) {
  for (const char *target : {"sm_80", "sm_90", "gfx942", "gfx1100"})
    for (const DType dtype : {DType::float16, DType::float32})
      for (const std::int64_t count : {1, 3, 100000})
        for (const std::int64_t length : {1, 64, 300, 768, 1024, 3584, 5120, 8192, 12288, 50000}) {
          const auto [block, rows, warps] = rowBlocksFor(count, length, 16384, dtype, target);
          SCOPED_TRACE(testing::Message()
                       << target << ' ' << name_of(dtype) << ' ' << count << " rows of " << length
                       << ": " << block << ' ' << rows << ' ' << warps);
          const std::int64_t tile = block * rows, threads = warps * warpSize(target);
          EXPECT_LT(rows, 2 * count);
          EXPECT_TRUE(rows == 1 || warps == 1 || tile <= 4096);
          if (warps == 1)
            continue;
          const std::int64_t vectors = (tile & -tile) / (dtype == DType::float16 ? 8 : 4);
          const bool isShort = std::string_view(target).starts_with("sm_") && rows > 1 &&
                               threads <= 128 && vectors < threads;
          EXPECT_GE(tile, (isShort ? 12 : threads > 256 ? 32 : 16) * threads);
          EXPECT_EQ((isShort ? 2 : 1) * vectors % threads, 0);
        }
}

// Of two tensors a thread of eight warps would hold twice as much.
TEST(RowBlocks, OfTwoTensorsTakeAllWarps) {
  const auto warps = [](int tensors) {
    return rowBlocksFor(4096, 22016, 32768, DType::float16, "sm_90a", elementsTogether, tensors)
        .warps;
  };
  EXPECT_EQ(warps(1), 8);
  EXPECT_EQ(warps(2), 16);
}

// The defaults are in the spaces that a search looks through.
TEST(RowBlocks, DefaultsAreWorthTrying) {
  for (const char *target : {"sm_80", "sm_90", "gfx942"})
    for (const char *kernel : {"reduce", "scan", "softmax", "rms_norm", "layer_norm"})
      for (const char *dtype : {"f16", "f32"})
        for (const std::int64_t length : {64, 768, 3584, 5120, 8192}) {
          const KernelCase test{kernel, {{"...", 100000}, {"N", length}}, {}, {}, dtype};
          SCOPED_TRACE(target + (" " + test.describe()));
          const Invocation call = resolveCase(test);
          const Config chosen = completeConfig(call, target, {});
          EXPECT_TRUE(call.kernel->spaces[0].where(call, target, chosen));
          for (const auto &[field, values] : call.kernel->spaces[0].axes)
            EXPECT_NE(std::ranges::find(values, chosen.at(field)), values.end()) << field;
        }
}
