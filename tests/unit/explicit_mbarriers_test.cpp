// Mbarriers that a kernel of the explicit level names itself: partitions in turns, a partition that
// copies when it is told to, and mistakes.
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

/// What a kernel whose partitions take turns gets wrong.
enum class Turns { Right, NobodyBegins, ArrivesTwice, OtherParity, OneIsEnough };

/// c = a b. The kernel and a partition of another number of warps multiply in turns, each every
/// other tile. The partition signals to the kernel at one mbarrier, the kernel to it at another.
auto inTurns(int m, int n, int k, unsigned own, int second, Turns turns = Turns::Right) {
  return Kernel{"in_turns",
                [=](In a, In b, Out c) {
                  auto ring = [&] {
                    return cta::Channel(2, cta::TileOf<half>{m, k}, cta::TileOf<half>{k, n});
                  };
                  auto upper = ring(), lower = ring();
                  cta::Mbarriers upperTurn(1, turns == Turns::OneIsEnough ? 1 : second),
                      lowerTurn(1, int(own));
                  const auto tiles = c.tiles(2 * m, n);
                  auto steps = cdiv(a.extent(1), k);
                  auto rounds = cdiv(tiles[0] * tiles[1] - program_id(0), num_programs(0));
                  auto tileOf = [&](const Int &round) {
                    return program_id(0) + round * num_programs(0);
                  };
                  cta::partition({.warps = 1}, [&] {
                    for (auto round : range(0, rounds))
                      for (int half : {0, 1})
                        for (auto step : range(0, steps)) {
                          auto &filled = half ? lower : upper;
                          auto [left, right] = filled.acquire();
                          auto tile = tileOf(round);
                          left.copy(a.tile(m, k), tile / tiles[1] * 2 + half, step);
                          right.copy(b.tile(k, n), step, tile % tiles[1]);
                          filled.commit();
                        }
                  });
                  auto multiply = [&](int half, auto &from, const cta::Mbarriers &turn,
                                      const cta::Mbarriers &others) {
                    for (auto round : range(0, rounds)) {
                      turn.wait(0, turns == Turns::OtherParity ? round + 1 : round);
                      auto acc = zeros<float>(m, n);
                      for ([[maybe_unused]] auto step : range(0, steps)) {
                        auto [left, right] = from.wait();
                        acc = dot(left.read(), right.read(), acc);
                        from.release();
                      }
                      others.arrive(0);
                      if (turns == Turns::ArrivesTwice)
                        others.arrive(0);
                      auto tile = tileOf(round);
                      c.tile(m, n).store(tile / tiles[1] * 2 + half, tile % tiles[1],
                                         acc + sum(sum(acc, 1), 0));
                    }
                  };
                  cta::partition({.warps = second}, [&] {
                    if (turns != Turns::NobodyBegins)
                      upperTurn.arrive(0);
                    multiply(1, lower, lowerTurn, upperTurn);
                  });
                  multiply(0, upper, upperTurn, lowerTurn);
                },
                {.warps = own}};
}

/// What a kernel that tells a partition when to copy gets wrong.
enum class Told { Right, Nobody, Remainders, InBranch };

/// c = a b. A partition copies each step when the kernel says so, at three mbarriers in turns, and
/// its one thread says that it has begun.
auto told(int m, int n, int k, unsigned warps, Told how = Told::Right) {
  return Kernel{"told",
                [=](In a, In b, Out c) {
                  cta::Channel ring(2, cta::TileOf<half>{m, k}, cta::TileOf<half>{k, n});
                  cta::Mbarriers go(3, int(warps)), begun(1, 1);
                  auto i = program_id(0), j = program_id(1);
                  auto steps = cdiv(a.extent(1), k);
                  cta::partition({.warps = 4}, [&] {
                    for (auto step : range(0, steps)) {
                      if (how == Told::Remainders)
                        go.wait(step % 3, step / 3 % 2);
                      else
                        go.wait(step, step / 3);
                      auto [left, right] = ring.acquire();
                      left.copy(a.tile(m, k), i, step);
                      right.copy(b.tile(k, n), step, j);
                      ring.commit();
                      if (how != Told::Nobody)
                        begun.arrive(0);
                    }
                  });
                  auto acc = zeros<float>(m, n);
                  for (auto step : range(0, steps)) {
                    if (how == Told::InBranch)
                      when(step < 7, [&] { go.arrive(step); });
                    else
                      go.arrive(step);
                    begun.wait(0, step);
                    auto [left, right] = ring.wait();
                    acc = dot(left.read(), right.read(), acc);
                    ring.release();
                  }
                  c.tile(m, n).store(i, j, acc);
                },
                {.warps = warps}};
}

class ExplicitMbarriers : public test::OnSmallIntegers {
protected:
  /// Of small integers. To each tile of [m, n] the sum of its products is added `times` times.
  static std::vector<float> product(int rows, int columns, int inner, int m, int n, int times) {
    std::vector<float> result(size_t(rows) * columns);
    std::map<std::pair<int, int>, float> sums;
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column) {
        float &at = result[size_t(row * columns + column)];
        for (int p = 0; p < inner; ++p)
          at += elementOf(row * inner + p) * elementOf(p * columns + column);
        sums[{row / m, column / n}] += at;
      }
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column)
        result[size_t(row * columns + column)] += float(times) * sums[{row / m, column / n}];
    return result;
  }
};
SECTILE_INSTANTIATE_ON(ExplicitMbarriers, "interpreter,virtual:sm_90a");

TEST_P(ExplicitMbarriers, TakeTurns) {
  const int m = 64, n = 32, rows = 384, columns = 64;
  for (int inner : {32, 96})
    for (auto [own, second] : {std::pair(4, 4), std::pair(4, 8), std::pair(8, 2)}) {
      auto a = device.upload(operand(rows * inner)), b = device.upload(operand(inner * columns));
      auto c = device.allocate<float>(size_t(rows) * columns);
      inTurns(m, n, 32, unsigned(own), second)
          .launch(device.stream(), {2}, tensor(a, {rows, inner}), tensor(b, {inner, columns}),
                  tensor(c, {rows, columns}));
      ASSERT_EQ(c.download(), product(rows, columns, inner, m, n, 1));
    }
}

TEST_P(ExplicitMbarriers, TellAPartition) {
  const int m = 64, n = 32, rows = 128, columns = 64;
  for (int inner : {32, 96, 256})
    for (unsigned warps : {2u, 4u}) {
      auto a = device.upload(operand(rows * inner)), b = device.upload(operand(inner * columns));
      auto c = device.allocate<float>(size_t(rows) * columns);
      told(m, n, 32, warps)
          .launch(device.stream(), {2, 2}, tensor(a, {rows, inner}), tensor(b, {inner, columns}),
                  tensor(c, {rows, columns}));
      ASSERT_EQ(c.download(), product(rows, columns, inner, m, n, 0));
    }
}

//===-- What is made of them ------------------------------------------------------------------===//

const Tensor<const half, 2> someRows(nullptr, {256, 256}, {256, 1});
const Tensor<float, 2> someSums(nullptr, {256, 256}, {256, 1});

/// One lane of each warp arrives, or the one thread that copies. No barrier of the chip is needed.
TEST(ExplicitMbarriersCode, Arrivals) {
  const auto kernel = told(64, 32, 32, 4);
  const std::string cta = kernel.emit("sm_90a", "cta", someRows, someRows, someSums);
  EXPECT_THAT(cta, AllOf(HasSubstr("cta.mbarriers {arrivals = 4 : i32, by_hand"),
                         HasSubstr("cta.mbarriers {by_hand"), HasSubstr("cta.mbarrier_signal")));
  EXPECT_THAT(kernel.emit("sm_90a", "ptx", someRows, someRows, someSums),
              AllOf(HasSubstr("mbarrier.arrive"), HasSubstr("bar.warp.sync")));
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

TEST(ExplicitMbarriersErrors, Turns) {
  auto turns = [](Turns turns, const char *target = "sm_90a") {
    return errorFrom([&] {
      inTurns(64, 32, 32, 4, 8, turns).emit(target, "cta", someRows, someRows, someSums);
    });
  };
  EXPECT_EQ(turns(Turns::Right), "no error");
  EXPECT_THAT(turns(Turns::NobodyBegins),
              AllOf(HasSubstr("explicit_mbarriers_test.cpp"),
                    HasSubstr("nobody completes the phase of mbarrier 0 (phase 0)")));
  EXPECT_THAT(turns(Turns::ArrivesTwice),
              HasSubstr("may count for an earlier phase of mbarrier 0"));
  EXPECT_THAT(turns(Turns::OneIsEnough), HasSubstr("may count for an earlier phase of mbarrier 0"));
  EXPECT_THAT(turns(Turns::OtherParity), HasSubstr("mbarrier 0"));
  EXPECT_THAT(turns(Turns::Right, "sm_80"),
              HasSubstr("the copy engine makes the copies of a partition"));
  EXPECT_THAT(turns(Turns::Right, "gfx1100"), HasSubstr("gfx1100 has none"));
}

TEST(ExplicitMbarriersErrors, Signals) {
  auto signals = [](Told how) {
    return errorFrom(
        [&] { told(64, 32, 32, 4, how).emit("sm_90a", "cta", someRows, someRows, someSums); });
  };
  EXPECT_EQ(signals(Told::Right), "no error");
  EXPECT_THAT(signals(Told::Nobody),
              HasSubstr("nobody completes the phase of mbarrier 0 (phase 0)"));
  EXPECT_EQ(signals(Told::Remainders), "no error");
  EXPECT_THAT(signals(Told::InBranch), HasSubstr("not in branches"));
}

TEST(ExplicitMbarriersErrors, Making) {
  auto made = [](auto body) {
    return errorFrom([&] {
      Kernel{"mistaken", [=](Out c) { body(c); }, {.warps = 4}}.emit("sm_90a", "cta", someSums);
    });
  };
  EXPECT_THAT(made([](const Out &) { cta::Mbarriers none(0, 4); }),
              HasSubstr("sc::cta::Mbarriers makes 1 to 64 mbarriers, not 0"));
  EXPECT_THAT(made([](const Out &) { cta::Mbarriers none(1, 65); }),
              HasSubstr("1 to 64 arrivals end a phase of an mbarrier, not 65"));
  EXPECT_THAT(made([](const Out &) { cta::partition({}, [] { cta::Mbarriers inside(1, 4); }); }),
              HasSubstr("an mbarrier is part of a kernel's outermost level"));
  EXPECT_THAT(made([](const Out &) {
                cta::Mbarriers alone(1, 4);
                alone.arrive(0);
              }),
              HasSubstr("nobody else arrives at these mbarriers: partitions signal to each other "
                        "by them"));
  EXPECT_THAT(made([](const Out &) {
                cta::Mbarriers some(2, 4);
                some.arrive(arange(0, 2));
              }),
              HasSubstr("the number of an mbarrier is one number, not a tile of [2]"));
  EXPECT_THAT(made([](const Out &) {
                cta::Mbarriers some(2, 4);
                some.wait(0, 0.5f);
              }),
              HasSubstr("0.5 is not an integer"));
}

} // namespace
