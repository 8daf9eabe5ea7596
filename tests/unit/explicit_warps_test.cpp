// The explicit level with partitions of several numbers of warps: each computes in layouts for its
// own warps, and channels, barriers and registers count the warps of each.
#include "SmallIntegers.h"
#include <gmock/gmock.h>
#include <sectile/cta.h>
#include <sectile/sectile.h>

using namespace sectile;
using testing::AllOf;
using testing::HasSubstr;

namespace {

using In = View<const half, 2>;
using Out = View<float, 2>;

/// The warps of the kernel itself, of two partitions that compute, and of one that copies.
struct Warps {
  int own = 4, second = 8, third = 4, copying = 1;
};

/// What a partition does with its rows of the product: in layouts of its warps, with sums across
/// them and tiles that pass between them.
Tile<float> finished(const Tile<float> &product, const Tile<float> &bias, const Tile<float> &ahead,
                     int m, int n) {
  auto sums = broadcast_to(expand(sum(product, 0), 0), m, n);
  auto rows = broadcast_to(expand(max(product, 1), 1), m, n);
  return trans(cumsum(trans(product), 0)) + sums + rows + ahead + sum(sum(bias, 1), 0);
}

/// c = finished(a b), by three partitions with m rows each. All read the columns of b from one
/// ring. What follows from numbers alone is computed around them. They meet at a barrier, and count
/// themselves.
auto uneven(int m, int n, int k, int depth, Warps warps, bool inFlight,
            cta::PartitionOptions budgets = {.warps = 0}) {
  return Kernel{"uneven",
                [=](In a, In b, Out c, Ptr<int> counts) {
                  auto rowsRing = [&] { return cta::Channel(depth, cta::TileOf<half>{m, k}); };
                  auto first = rowsRing(), second = rowsRing(), third = rowsRing();
                  cta::Channel right(depth, cta::TileOf<half>{k, n});
                  cta::Barrier all(warps.own + warps.second + warps.third);
                  auto i = program_id(0), j = program_id(1);
                  auto steps = maximum(cdiv(a.extent(1), k), 1);
                  auto bias = cast<float>(expand(arange(0, m) % 7, 1)) +
                              cast<float>(expand(arange(0, n) % 5, 0));
                  auto ahead = cumsum(bias, 0);
                  auto options = [&](int count, bool copies = false) {
                    cta::PartitionOptions made{.warps = count};
                    if (budgets.warps) {
                      made.registers = copies ? 24 : budgets.registers;
                      made.others = budgets.others;
                    }
                    return made;
                  };
                  cta::partition(options(warps.copying, /*copies=*/true), [&] {
                    for (auto step : range(0, steps)) {
                      right.acquire().copy(b.tile(k, n), step, j);
                      right.commit();
                      int number = 0;
                      for (auto *ring : {&first, &second, &third}) {
                        ring->acquire().copy(a.tile(m, k), i * 3 + number++, step);
                        ring->commit();
                      }
                    }
                  });
                  auto compute = [&](int number, auto &left) {
                    auto acc = zeros<float>(m, n);
                    cta::InFlight sums{acc};
                    for ([[maybe_unused]] auto step : range(0, steps)) {
                      auto rows = left.wait();
                      auto columns = right.wait();
                      if (inFlight) {
                        sums = cta::dot_async(rows.read(), columns.read(), sums);
                        cta::wait_for_dots(0);
                      } else {
                        acc = dot(rows.read(), columns.read(), acc);
                      }
                      left.release();
                      right.release();
                    }
                    if (inFlight)
                      acc = cta::wait(sums);
                    all.sync();
                    const auto program = i * num_programs(1) + j;
                    auto before = atomic_add(counts + program * 3 + number, 1);
                    c.tile(m, n).store(i * 3 + number, j,
                                       finished(acc, bias, ahead, m, n) + cast<float>(before));
                    all.sync();
                  };
                  cta::partition(options(warps.second), [&] { compute(1, second); });
                  cta::partition(options(warps.third), [&] { compute(2, third); });
                  compute(0, first);
                },
                {.warps = unsigned(warps.own)}};
}

/// A partition fills a ring from registers. The rest of the kernel and a second partition read it.
auto stored(int m, int n, int k, Warps warps) {
  return Kernel{"stored",
                [=](In a, In b, Out c) {
                  cta::Channel ring(2, cta::TileOf<half>{m, k}, cta::TileOf<half>{k, n});
                  auto i = program_id(0), j = program_id(1);
                  auto steps = cdiv(a.extent(1), k);
                  cta::partition({.warps = warps.copying}, [&] {
                    for (auto step : range(0, steps)) {
                      auto plain = cast<float>(b.tile(k, n).load(step, j));
                      auto [left, right] = ring.acquire();
                      left.copy(a.tile(m, k), i, step);
                      right.store(cast<half>(plain * 2.f));
                      ring.commit();
                    }
                  });
                  auto compute = [&](int number, float factor) {
                    auto acc = zeros<float>(m, n);
                    for ([[maybe_unused]] auto step : range(0, steps)) {
                      auto [left, right] = ring.wait();
                      acc = dot(left.read(), right.read(), acc);
                      ring.release();
                    }
                    c.tile(m, n).store(i * 2 + number, j, acc * factor);
                  };
                  cta::partition({.warps = warps.second}, [&] { compute(1, -1.f); });
                  compute(0, 1.f);
                },
                {.warps = unsigned(warps.own)}};
}

class ExplicitWarps : public test::OnSmallIntegers {
protected:
  /// The product of small integers, which is exact, of these extents.
  static std::vector<float> product(int m, int n, int k) {
    std::vector<float> result(size_t(m) * n);
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column)
        for (int p = 0; p < k; ++p)
          result[size_t(row * n + column)] += elementOf(row * k + p) * elementOf(p * n + column);
    return result;
  }

  void expectUneven(int m, int n, int k, int depth, Warps warps, bool inFlight,
                    cta::PartitionOptions budgets = {.warps = 0}) {
    const int rows = 3 * m, inner = 2 * k, columns = 2 * n;
    auto a = device.upload(operand(rows * inner)), b = device.upload(operand(inner * columns));
    auto c = device.allocate<float>(size_t(rows) * columns);
    auto counts = device.upload(std::vector<int>{0, 10, 20, 30, 40, 50});
    uneven(m, n, k, depth, warps, inFlight, budgets)
        .launch(device.stream(), {1, 2}, tensor(a, {rows, inner}), tensor(b, {inner, columns}),
                tensor(c, {rows, columns}), counts);
    EXPECT_THAT(counts.download(), testing::ElementsAre(1, 11, 21, 31, 41, 51));
    const std::vector<float> sums = product(rows, columns, inner), got = c.download();
    auto bias = [](int row, int column) { return float(row % 7 + column % 5); };
    float allBias = 0;
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column)
        allBias += bias(row, column);
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 2; ++j) {
        auto at = [&](int row, int column) {
          return sums[size_t(i * m + row) * columns + j * n + column];
        };
        for (int row = 0; row < m; ++row) {
          float along = 0, most = at(row, 0);
          for (int column = 0; column < n; ++column)
            most = std::max(most, at(row, column));
          for (int column = 0; column < n; ++column) {
            float ofColumn = 0, biases = 0;
            for (int other = 0; other < m; ++other) {
              ofColumn += at(other, column);
              biases += other <= row ? bias(other, column) : 0;
            }
            along += at(row, column);
            ASSERT_EQ(got[size_t(i * m + row) * columns + j * n + column],
                      along + ofColumn + most + biases + allBias + float((j * 3 + i) * 10))
                << "partition " << i << ", column tile " << j << ", at [" << row << ", " << column
                << "]";
          }
        }
      }
  }
};
SECTILE_INSTANTIATE_ON(ExplicitWarps, "interpreter,virtual:sm_90a");

/// The product of a warpgroup, or of two, beside that of single warps.
TEST_P(ExplicitWarps, OfEachPartition) {
  for (bool inFlight : {false, true}) {
    expectUneven(64, 32, 32, 2, {.own = 4, .second = 8, .third = 4}, inFlight);
    expectUneven(64, 32, 32, 2, {.own = 8, .second = 4, .third = 1}, inFlight);
    expectUneven(64, 32, 32, 3, {.own = 4, .second = 1, .third = 8, .copying = 4}, inFlight);
  }
  expectUneven(32, 32, 32, 2, {.own = 1, .second = 2, .third = 1}, false);
  expectUneven(32, 32, 32, 2, {.own = 2, .second = 1, .third = 2, .copying = 3}, false);
  expectUneven(64, 32, 32, 2, {.own = 16, .second = 4, .third = 2}, false);
}

TEST_P(ExplicitWarps, WithBudgets) {
  expectUneven(64, 32, 32, 2, {.own = 4, .second = 4, .third = 8, .copying = 4}, true,
               {.warps = 1, .registers = 112, .others = 120});
}

TEST_P(ExplicitWarps, StoreToSlots) {
  const int m = 64, n = 32, k = 32, inner = 96;
  for (Warps warps : {Warps{.own = 4, .second = 8, .copying = 2}, Warps{.own = 8, .second = 4},
                      Warps{.own = 4, .second = 2, .copying = 8}}) {
    auto a = device.upload(operand(m * inner)), b = device.upload(operand(inner * 2 * n));
    auto c = device.allocate<float>(size_t(4 * m) * n);
    stored(m, n, k, warps)
        .launch(device.stream(), {1, 2}, tensor(a, {m, inner}), tensor(b, {inner, 2 * n}),
                tensor(c, {2 * m, 2 * n}));
    const std::vector<float> sums = product(m, 2 * n, inner), got = c.download();
    for (int i = 0; i < m * 2 * n; ++i) {
      ASSERT_EQ(got[size_t(i)], 2 * sums[size_t(i)]) << i;
      ASSERT_EQ(got[size_t(i + m * 2 * n)], -2 * sums[size_t(i)]) << i;
    }
  }
}

//===-- What is made of them ------------------------------------------------------------------===//

std::string codeOf(Warps warps, const char *form, cta::PartitionOptions budgets = {.warps = 0},
                   const char *target = "sm_90a") {
  half *memory = nullptr;
  float *sums = nullptr;
  const Tensor<const half, 2> operand(memory, {256, 256}, {256, 1});
  return uneven(64, 32, 32, 2, warps, true, budgets)
      .emit(target, form, operand, operand, Tensor<float, 2>(sums, {256, 256}, {256, 1}),
            static_cast<int *>(nullptr));
}

/// The larger partition comes first after the kernel's own warps, so that warpgroups begin at
/// multiples of four.
TEST(ExplicitWarpsCode, Numbers) {
  const std::string ptx = codeOf({.own = 4, .second = 2, .third = 8}, "ptx");
  EXPECT_THAT(ptx,
              AllOf(HasSubstr(".reqntid 480"), HasSubstr("bar.sync \t4, 448"),
                    HasSubstr("bar.sync \t1, 128"), HasSubstr("bar.sync \t2, 64"),
                    HasSubstr("bar.sync \t3, 256"), HasSubstr("wgmma"), HasSubstr("mma.sync")));
  // The copying warp, the two of the second partition, and the eight of the third.
  for (const char *first : {", -448;", ", -384;", ", -128;"})
    EXPECT_THAT(ptx, HasSubstr(first));
  const std::string cta = codeOf({.own = 4, .second = 2, .third = 8}, "cta");
  EXPECT_THAT(cta,
              AllOf(HasSubstr("cta.partition computes warps 2"),
                    HasSubstr("cta.partition computes warps 8"), HasSubstr("arrivals = 14 : i32")));
}

//===-- Mistakes ------------------------------------------------------------------------------===//

template <class Compile> std::string errorFrom(Compile compile) {
  try {
    compile();
  } catch (const CompileError &error) {
    return error.what();
  }
  return "no error";
}

std::string errorOf(Warps warps, cta::PartitionOptions budgets = {.warps = 0},
                    const char *target = "sm_90a") {
  return errorFrom([&] { codeOf(warps, "cta", budgets, target); });
}

TEST(ExplicitWarpsErrors, Numbers) {
  EXPECT_THAT(errorOf({.own = 4, .second = 3}),
              AllOf(HasSubstr("explicit_warps_test.cpp"),
                    HasSubstr("the number of warps of a partition that computes is a power of two "
                              "up to 64, not 3")));
  EXPECT_THAT(
      errorOf({.own = 2, .second = 4, .third = 2}),
      HasSubstr("four warps whose numbers begin at a multiple of four do this dot together, "
                "and 2 warps come before this partition's"));
  EXPECT_THAT(errorOf({.own = 16, .second = 8, .third = 8}),
              HasSubstr("a block has at most 1024 threads, not 1056"));
  EXPECT_THAT(errorOf({}, {.warps = 0}, "sm_80"),
              HasSubstr("the copy engine makes the copies of a partition"));
  EXPECT_THAT(errorOf({}, {.warps = 0}, "gfx942"),
              HasSubstr("cannot make this one: gfx942 has none"));
}

/// Registers of other warps are not read, whatever their number.
TEST(ExplicitWarpsErrors, TilesOfOthers) {
  for (int count : {4, 8}) {
    Kernel kernel{"mistaken",
                  [=](In a, Out c) {
                    auto tile = cast<float>(a.tile(64, 64).load(0, 0));
                    cta::partition({.warps = count},
                                   [&] { c.tile(64, 64).store(0, 0, tile + tile); });
                    c.tile(64, 64).store(1, 0, tile);
                  },
                  {.warps = 4}};
    EXPECT_THAT(errorFrom([&] {
                  kernel.emit("sm_90a", "cta", Tensor<const half, 2>(nullptr, {128, 64}, {64, 1}),
                              Tensor<float, 2>(nullptr, {128, 64}, {64, 1}));
                }),
                HasSubstr("takes a tile that other warps have in their registers"));
  }
}

/// `setmaxnreg` is for four warps together.
TEST(ExplicitWarpsErrors, Budgets) {
  EXPECT_THAT(errorOf({.own = 4, .second = 2, .third = 4, .copying = 4},
                      {.warps = 1, .registers = 112, .others = 128}),
              HasSubstr("registers are moved between groups of four warps: a partition of 2"));
  EXPECT_THAT(
      errorOf({.own = 4, .second = 4, .third = 8, .copying = 4},
              {.warps = 1, .registers = 168, .others = 128}),
      HasSubstr("the block is launched with 61440 registers: 4 warps with 24 for each thread and "
                "4 warps with 168 and 8 warps with 168 and 4 with 128 take 83968"));
}

} // namespace
