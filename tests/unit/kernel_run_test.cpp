// Kernels from the lambda to the result, on the virtual GPU: traced, compiled, cached, run.
#include "jit/CompileCache.h"
#include "jit/CompileTimes.h"
#include "ops/Devices.h"
#include "vgpu/HostDevice.h"
#include <cstdlib>
#include <gmock/gmock.h>
#include <numeric>
#include <sectile/sectile.h>

using namespace sectile;
using testing::HasSubstr;

namespace {

struct Block {
  int size = 256;
};
SECTILE_CONFIG(Block, size)

template <class T>
Kernel scale{"scale", [](Ptr<const T> x, Ptr<T> y, Int n, Tile<float> factor, Tile<bool> negate,
                         const Block &block) {
               auto i = program_id(0) * block.size + arange(0, block.size);
               auto inside = i < n;
               auto value = load(x + i, inside) * factor;
               store(y + i, where(negate, -value, value), inside);
             }};

template <class T>
Kernel copy{"copy", [](View<const T, 2> from, View<T, 2> to) {
              to.tile(16, 32).store(program_id(0), program_id(1),
                                    from.tile(16, 32).load(program_id(0), program_id(1)));
            }};

Function placeOf{"place_of", [](Int x) {
                   return (program_id(2) * num_programs(1) + program_id(1)) * num_programs(0) + x;
                 }};
Kernel places{"places", [](Ptr<int> out) {
                program_clusters(1);
                const Int place = placeOf(program_id(0));
                store(out + place, place);
              }};
Kernel failsAt{"fails_at", [](Ptr<int> out, Int x, Int z) {
                 device_assert(program_id(0) != x || program_id(2) != z, "here");
                 store(out, 1, program_id(0) == x && program_id(2) == z);
               }};
Kernel writesFar{"writes_far", [](Ptr<int> out, Int x, Int z) {
                   const auto isIt = program_id(0) == x && program_id(2) == z;
                   store(out + (z - 65'533), 1, isIt); // right behind, where no other memory is
                 }};

// Numbers that only literals make: as wide as the launch's Ints, alone and where they meet those.
Kernel fromLiterals{"from_literals", [](Ptr<std::int64_t> out, Int n) {
                      std::int64_t at = 0;
                      auto put = [&](const Int &x) { store(out + at++, cast<std::int64_t>(x)); };
                      Int sums = 0, last = 0, chosen = n;
                      for (auto i : range(0, 64)) {
                        sums += i * (1 << 27);
                        last = i;
                        when(i == 5, [&] { chosen = i; });
                      }
                      put(sums);
                      put(last);
                      put(chosen);
                      View<std::int64_t, 1> part(out, {n}, {1});
                      when(n > 100, [&] { part = part.slice(0, 3, 1 << 20); });
                      put(part.extent(0) * (1 << 20));
                      Int tile = zeros<Index>(4), doubled = full<Index>(1 << 30, 4);
                      for (auto i : range(0, 3)) {
                        tile += arange(0, 4) + n;
                        doubled = doubled * 2;
                      }
                      put(sum(tile));
                      put(sum(doubled));
                      Int before = program_id(0);
                      for (auto i : range(0, cast<std::int32_t>(min(tile) * 0 + 2)))
                        before = i * (1 << 30) + num_programs(0) * (1 << 30);
                      put(before);
                    }};

class KernelRun : public test::OnDevice {};
SECTILE_INSTANTIATE_ON(KernelRun,
                       "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942,virtual:gfx1100");

TEST_P(KernelRun, ScalarsAndPointers) {
  for (int n : {1, 7, 256, 1000}) {
    std::vector<float> values(static_cast<size_t>(n));
    std::iota(values.begin(), values.end(), -3.0f);
    auto x = device.upload(values);
    auto y = device.allocate<float>(values.size());
    for (bool negate : {false, true}) {
      y.poison();
      scale<float>.launch(device.stream(), {(n + 255) / 256}, x, y, n, 2.5, negate);
      const std::vector<float> got = y.download();
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(got[i], values[i] * (negate ? -2.5f : 2.5f)) << "n = " << n << ", element " << i;
    }
  }
}

// Along y and z a device takes 65535 programs; along x many more.
TEST_P(KernelRun, LongAxesOfGrids) {
  auto run = [&](Grid grid) {
    const size_t count = size_t{grid.x} * grid.y * grid.z;
    auto out = device.allocate<int>(count);
    out.poison();
    places.launch(device.stream(), grid, out, {.warps = 1});
    const std::vector<int> got = out.download();
    for (size_t i = 0; i < count; ++i)
      ASSERT_EQ(got[i], static_cast<int>(i)) << grid.x << " x " << grid.y << " x " << grid.z;
  };
  run({2, 3, 4});
  run({2, 65'536});
  run({1, 2, 65'536});
  run({2, 3, 4});
}

TEST_P(KernelRun, LongAxesOfGridsInReports) {
  if (GetParam() == "interpreter")
    GTEST_SKIP() << "it stops at the first program that fails";
  auto out = device.allocate<int>(2);
  failsAt.launch(device.stream(), {2, 1, 65'536}, out, 1, 65'535, {.warps = 1});
  try {
    device.stream().synchronize();
    FAIL() << "the assertion did not fail";
  } catch (const AssertionError &error) {
    EXPECT_THAT(error.what(), HasSubstr("(1, 0, 65535)"));
  }
  if (!GetParam().starts_with("virtual"))
    return; // a chip says nothing of the place, and is lost
  try {
    writesFar.launch(device.stream(), {2, 1, 65'536}, out, 1, 65'535, {.warps = 1});
    FAIL() << "nothing was found";
  } catch (const runtime::FoundFault &fault) {
    EXPECT_EQ(fault.finding.block[0], 1u);
    EXPECT_EQ(fault.finding.block[2], 65'535u);
  }
}

TEST_P(KernelRun, UnalignedPointers) {
  auto x = device.upload(std::vector<half>(100, half(3.0f)));
  auto y = device.allocate<half>(100);
  y.fill(half(1.0f));
  scale<half>.launch(device.stream(), 1, x.slice(1, 99), y.slice(3, 90), 90, 2, false);
  const std::vector<half> got = y.download();
  EXPECT_EQ(got[2], 1.0f);
  EXPECT_EQ(got[3], 6.0f);
  EXPECT_EQ(got[92], 6.0f);
  EXPECT_EQ(got[93], 1.0f);
}

TEST_P(KernelRun, ViewsWithStridesAndEdges) {
  const int rows = 37, columns = 45;
  std::vector<float> values(static_cast<size_t>(rows * columns));
  std::iota(values.begin(), values.end(), 0.0f);
  auto from = device.upload(values);
  auto to = device.allocate<float>(values.size());
  to.poison();
  // The copy is of the transposed tensor into row-major order.
  copy<float>.launch(device.stream(), {(columns + 15) / 16, (rows + 31) / 32},
                     tensor(from, {rows, columns}).transpose(), tensor(to, {columns, rows}));
  const std::vector<float> got = to.download();
  for (int i = 0; i < columns; ++i)
    for (int j = 0; j < rows; ++j)
      ASSERT_EQ(got[static_cast<size_t>(i * rows + j)],
                values[static_cast<size_t>(j * columns + i)]);
}

TEST_P(KernelRun, StridesBeyond32Bits) {
  // One row: its stride is never taken, but decides the width of index arithmetic.
  auto from = device.upload(std::vector<float>(32, 4.0f)), to = device.allocate<float>(32);
  copy<float>.launch(device.stream(), 1, tensor(from, {1, 32}, {std::int64_t{1} << 40, 1}),
                     tensor(to, {1, 32}));
  EXPECT_EQ(to.download(), std::vector<float>(32, 4.0f));
}

TEST_P(KernelRun, IntsOfLongLaunches) {
  const auto n = std::int64_t{1} << 33;
  auto out = device.allocate<std::int64_t>(7);
  fromLiterals.launch(device.stream(), 1, out, n);
  const std::int64_t one = 1;
  EXPECT_THAT(out.download(), testing::ElementsAre(2016 * (one << 27), 63, 5, one << 40,
                                                   3 * (6 + 4 * n), one << 35, one << 31));
}

TEST_P(KernelRun, AFaultOfTheKernelNamesTheUsersLine) {
  if (!GetParam().starts_with("virtual:") && GetParam() != "interpreter")
    GTEST_SKIP() << "a chip does not notice";
  Kernel beyond{"beyond",
                [](Ptr<float> p) { store(p + program_id(0) * 64 + arange(0, 64), 1.0f); }};
  const unsigned line = __LINE__ - 1;
  auto small = device.allocate<float>(2 * 64 - 1); // enough for the first program
  try {
    beyond.launch(device.stream(), 2, small);
    FAIL() << "nothing was thrown";
  } catch (const runtime::FoundFault &fault) {
    EXPECT_EQ(fault.finding.kind, vgpu::FindingKind::OutOfBounds) << fault.what();
    EXPECT_EQ(fault.finding.line, line) << fault.what();
    EXPECT_EQ(fault.finding.block[0], 1u) << fault.what();
    EXPECT_THAT(fault.what(), HasSubstr("kernel_run_test.cpp"));
  }
}

// Several threads hold each element of the short tile, and use it after one of them has stored.
Kernel inPlace{"in_place", [](View<float, 1> counts, View<float, 2> values) {
                 auto row = arange(0, 8);
                 auto before = counts.tile(8).load(0);
                 counts.tile(8).store(0, before + 1.0f);
                 auto tile = values.tile(8, 256);
                 tile.store(0, 0,
                            tile.load(0, 0) + expand(before, 1) + cast<float>(expand(row, 1)));
                 // And what one thread has stored, others load.
                 values.transposed().tile(256, 8).store(
                     0, 0, values.transposed().tile(256, 8).load(0, 0) * 2.0f);
               }};

TEST_P(KernelRun, AccessesThroughOneArgumentAreInOrder) {
  const auto counts = device.upload(std::vector<float>(8, 3.0f));
  const auto values = device.upload(std::vector<float>(8 * 256, 1.0f));
  inPlace.launch(device.stream(), 1, counts, tensor(values, {8, 256}));
  EXPECT_EQ(counts.download(), std::vector<float>(8, 4.0f));
  const std::vector<float> got = values.download();
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], 2.0f * (4.0f + static_cast<float>(i / 256))) << i;
}

TEST(KernelTimes, AreRecorded) {
  float *null = nullptr;
  CompileTimes times;
  {
    runtime::RecordCompileTimes record(times);
    scale<float>.emit("sm_90a", "ptx", null, null, 64, 1, false);
  }
  scale<float>.emit("sm_90a", "ptx", null, null, 64, 1, false);
  ASSERT_GE(times.size(), 4u);
  EXPECT_EQ(times[0].first, "trace");
  for (const auto &[stage, milliseconds] : times)
    EXPECT_GE(milliseconds, 0) << stage;
}

TEST(KernelEmit, EveryFormOfEveryVendor) {
  float *null = nullptr;
  auto emit = [&](const char *target, const char *form) {
    return scale<float>.emit(target, form, null, null, 64, 1, false);
  };
  EXPECT_THAT(emit("sm_80", "tile"), HasSubstr("tile.store"));
  EXPECT_THAT(emit("sm_80", "cta"), HasSubstr("#cta.layout"));
  EXPECT_THAT(emit("sm_80", "llvm"), HasSubstr("ptx_kernel"));
  EXPECT_THAT(emit("sm_90a", "ptx"), HasSubstr(".target sm_90a"));
  EXPECT_THAT(emit("gfx1100", "amdgcn"), HasSubstr("gfx1100"));
  EXPECT_EQ(emit("gfx942", "hsaco").substr(1, 3), "ELF");
  EXPECT_THROW(emit("gfx942", "ptx"), CompileError);
}

} // namespace
