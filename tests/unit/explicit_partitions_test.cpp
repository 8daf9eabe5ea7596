// The explicit level with several computing partitions: some multiply in turns, some share a
// ring, slots that are filled from registers, copies that the blocks of a cluster share, and the
// mistakes that the compiler has to refuse.
#include "SmallIntegers.h"
#include <gmock/gmock.h>
#include <sectile/cta.h>
#include <sectile/sectile.h>

using namespace sectile;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

using In = View<const half, 2>;
using Out = View<half, 2>;
using Ring = cta::Channel<half, half>;

/// Adds the products of a ring's uses to zeros; `begun` is called when the last one is.
template <class Begun>
Tile<float> multiply(Ring &ring, int m, int n, const Int &steps, Begun begun) {
  cta::InFlight sums{zeros<float>(m, n)};
  auto [left, right] = ring.wait();
  sums = cta::dot_async(left.read(), right.read(), sums);
  for (auto k : range(1, steps)) {
    static_cast<void>(k);
    auto [left, right] = ring.wait();
    sums = cta::dot_async(left.read(), right.read(), sums);
    cta::wait_for_dots(1);
    ring.release();
  }
  begun();
  auto acc = cta::wait(sums);
  ring.release();
  return acc;
}

/// What a kernel of two partitions that take turns gets wrong.
enum class Turns { Right, NobodyBegins, ArrivesTwice, OtherDoesNotArrive };

/// c = a b. Two partitions multiply in turns, each another tile of m rows, from rings of their own.
auto inTurns(int m, int n, int k, int depth, cta::PartitionOptions copying = {},
             cta::PartitionOptions second = {}, Turns turns = Turns::Right) {
  return Kernel{"in_turns",
                [=](In a, In b, Out c) {
                  Ring upper(depth, cta::TileOf<half>{m, k}, cta::TileOf<half>{k, n});
                  Ring lower(depth, cta::TileOf<half>{m, k}, cta::TileOf<half>{k, n});
                  cta::Barrier upperTurn(8), lowerTurn(8);
                  const auto tiles = c.tiles(2 * m, n);
                  auto steps = maximum(cdiv(a.extent(1), k), 1);
                  auto mine = [&] {
                    return range(program_id(0), tiles[0] * tiles[1], num_programs(0));
                  };
                  cta::partition(copying, [&] {
                    for (auto t : mine())
                      for (int half : {0, 1})
                        for (auto step : range(0, steps)) {
                          Ring &ring = half ? lower : upper;
                          auto [left, right] = ring.acquire();
                          left.copy(a.tile(m, k), t / tiles[1] * 2 + half, step);
                          right.copy(b.tile(k, n), step, t % tiles[1]);
                          ring.commit();
                        }
                  });
                  auto compute = [&](int number, Ring &ring, const cta::Barrier &turn,
                                     const cta::Barrier &others) {
                    for (auto t : mine()) {
                      turn.sync();
                      auto acc = multiply(ring, m, n, steps, [&] {
                        if (turns != Turns::OtherDoesNotArrive || number == 0)
                          others.arrive();
                        if (turns == Turns::ArrivesTwice)
                          others.arrive();
                      });
                      c.tile(m, n).store(t / tiles[1] * 2 + number, t % tiles[1], cast<half>(acc));
                    }
                  };
                  cta::partition(second, [&] {
                    if (turns != Turns::NobodyBegins)
                      upperTurn.arrive();
                    compute(1, lower, lowerTurn, upperTurn);
                  });
                  compute(0, upper, upperTurn, lowerTurn);
                },
                {.warps = 4}};
}

/// Two partitions share the right operands: who reads a slot last hands it back. `releases`:
/// whether the second one hands its uses back.
auto sharing(int m, int n, int k, int depth, bool releases = true, int cluster = 1) {
  return Kernel{"sharing",
                [=](In a, In b, Out c) {
                  program_clusters(cluster);
                  cta::Channel upper(depth, cta::TileOf<half>{m, k});
                  cta::Channel lower(depth, cta::TileOf<half>{m, k});
                  cta::Channel right(depth, cta::TileOf<half>{k, n});
                  auto i = program_id(0), j = program_id(1);
                  auto steps = cdiv(a.extent(1), k);
                  cta::partition({.warps = 1}, [&] {
                    for (auto step : range(0, steps)) {
                      right.acquire().copy(b.tile(k, n), step, j);
                      right.commit();
                      upper.acquire().copy(a.tile(m, k), i * 2, step);
                      upper.commit();
                      lower.acquire().copy(a.tile(m, k), i * 2 + 1, step);
                      lower.commit();
                    }
                  });
                  auto compute = [&](int number, auto &left) {
                    auto acc = zeros<float>(m, n);
                    for (auto step : range(0, steps)) {
                      static_cast<void>(step);
                      auto rows = left.wait();
                      auto columns = right.wait();
                      acc = dot(rows.read(), columns.read(), acc);
                      left.release();
                      if (releases || number == 0)
                        right.release();
                    }
                    c.tile(m, n).store(i * 2 + number, j, cast<half>(acc));
                  };
                  cta::partition({}, [&] { compute(1, lower); });
                  compute(0, upper);
                },
                {.warps = 4}};
}

/// The right operands are doubled in registers by a partition, which has the engine copy the left.
auto doubled(int m, int n, int k, int depth, unsigned warps = 4) {
  return Kernel{"doubled",
                [=](In a, In b, Out c) {
                  Ring ring(depth, cta::TileOf<half>{m, k}, cta::TileOf<half>{k, n});
                  auto i = program_id(0), j = program_id(1);
                  auto steps = cdiv(a.extent(1), k);
                  cta::partition({.warps = int(warps)}, [&] {
                    for (auto step : range(0, steps)) {
                      auto plain = cast<float>(b.tile(k, n).load(step, j));
                      auto [left, right] = ring.acquire();
                      left.copy(a.tile(m, k), i, step);
                      right.store(cast<half>(plain * 2.f));
                      ring.commit();
                    }
                  });
                  auto acc = zeros<float>(m, n);
                  for (auto step : range(0, steps)) {
                    static_cast<void>(step);
                    auto [left, right] = ring.wait();
                    acc = dot(left.read(), right.read(), acc);
                    ring.release();
                  }
                  c.tile(m, n).store(i, j, cast<half>(acc));
                },
                {.warps = 4}};
}

/// The same by warps of one kind, on any target.
auto doubledByAll(int m, int n, int k) {
  return Kernel{"doubled",
                [=](In a, In b, Out c) {
                  Ring ring(2, cta::TileOf<half>{m, k}, cta::TileOf<half>{k, n});
                  auto i = program_id(0), j = program_id(1);
                  auto acc = zeros<float>(m, n);
                  for (auto step : range(0, cdiv(a.extent(1), k))) {
                    auto [toLeft, toRight] = ring.acquire();
                    toLeft.copy(a.tile(m, k), i, step);
                    toRight.store(cast<half>(cast<float>(b.tile(k, n).load(step, j)) * 2.f));
                    ring.commit();
                    auto [left, right] = ring.wait();
                    acc = dot(left.read(), right.read(), acc);
                    ring.release();
                  }
                  c.tile(m, n).store(i, j, cast<half>(acc));
                },
                {.warps = 4}};
}

/// c = 2 a b. Two partitions read their rows of a once for all columns of b, which they double and
/// put into shared memory each for itself.
auto readOnce(int m, int n, int k) {
  return Kernel{"read_once",
                [=](In a, In b, Out c) {
                  cta::Channel upper(1, cta::TileOf<half>{m, k}), lower(1, cta::TileOf<half>{m, k});
                  cta::Channel right(2, cta::TileOf<half>{k, n});
                  auto i = program_id(0), columns = cdiv(b.extent(1), n);
                  cta::partition({.warps = 1}, [&] {
                    upper.acquire().copy(a.tile(m, k), i * 2, 0);
                    upper.commit();
                    lower.acquire().copy(a.tile(m, k), i * 2 + 1, 0);
                    lower.commit();
                    for (auto j : range(0, columns)) {
                      right.acquire().copy(b.tile(k, n), 0, j);
                      right.commit();
                    }
                  });
                  auto compute = [&](int number, auto &left) {
                    auto rows = left.wait().read();
                    for (auto j : range(0, columns)) {
                      auto acc = dot(rows, cast<half>(cast<float>(right.wait().read()) * 2.f));
                      right.release();
                      c.tile(m, n).store(i * 2 + number, j, cast<half>(acc));
                    }
                    left.release();
                  };
                  cta::partition({.warps = 4}, [&] { compute(1, lower); });
                  compute(0, upper);
                },
                {.warps = 4}};
}

/// The programs of a cluster have the columns of b in common.
auto clustered(int m, int n, int k, int depth, bool partitioned) {
  return Kernel{"clustered",
                [=](In a, In b, Out c) {
                  program_clusters(2);
                  Ring ring(depth, cta::TileOf<half>{m, k}, cta::TileOf<half>{k, n});
                  auto i = program_id(0), j = program_id(1);
                  auto steps = cdiv(a.extent(1), k);
                  auto fetch = [&](const Int &step) {
                    auto [left, right] = ring.acquire();
                    left.copy(a.tile(m, k), i, step);
                    right.copy(b.tile(k, n), step, j);
                    ring.commit();
                  };
                  if (partitioned)
                    cta::partition({.warps = 1}, [&] {
                      for (auto step : range(0, steps))
                        fetch(step);
                    });
                  auto acc = zeros<float>(m, n);
                  for (auto step : range(0, steps)) {
                    if (!partitioned)
                      fetch(step);
                    auto [left, right] = ring.wait();
                    acc = dot(left.read(), right.read(), acc);
                    ring.release();
                  }
                  c.tile(m, n).store(i, j, cast<half>(acc));
                },
                {.warps = 4}};
}

class ExplicitPartitions : public test::OnSmallIntegers {
protected:
  /// Of small integers, whose products and sums are exact.
  template <class K>
  void expectProduct(const K &kernel, Grid grid, int m, int n, int k, float factor = 1) {
    auto a = device.upload(operand(m * k)), b = device.upload(operand(k * n));
    auto c = device.allocate<half>(size_t(m * n));
    kernel.launch(device.stream(), grid, Tensor<const half, 2>(a.data(), {m, k}, {k, 1}),
                  Tensor<const half, 2>(b.data(), {k, n}, {n, 1}),
                  Tensor<half, 2>(c.data(), {m, n}, {n, 1}));
    const std::vector<half> got = c.download();
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column) {
        float expected = 0;
        for (int p = 0; p < k; ++p)
          expected += elementOf(row * k + p) * elementOf(p * n + column) * factor;
        ASSERT_EQ(float(got[size_t(row * n + column)]), float(half(expected)))
            << m << " x " << n << ", depth " << k << ", at [" << row << ", " << column << "]";
      }
  }
};
SECTILE_INSTANTIATE_ON(ExplicitPartitions, "interpreter,virtual:sm_90a,virtual:sm_100");

TEST_P(ExplicitPartitions, TakeTurns) {
  const auto kernel = inTurns(64, 32, 32, 2, {.registers = 24, .others = 240}, {.registers = 240});
  // Of fewer tiles than programs, of several each, and with an upper tile alone at the end.
  for (int k : {8, 32, 104, 200})
    expectProduct(kernel, {2}, 320, 72, k);
  expectProduct(kernel, {3}, 64, 64, 64);
  expectProduct(inTurns(64, 32, 32, 3, {.warps = 1}), {2}, 256, 96, 136);
}

TEST_P(ExplicitPartitions, ShareARing) {
  for (int k : {8, 64, 200})
    for (int cluster : {1, 2})
      expectProduct(sharing(64, 64, 32, 2, /*releases=*/true, cluster), {2, 2}, 200, 128, k);
}

// The place of a slot that is read once is worked out ahead of its partition.
TEST_P(ExplicitPartitions, ReadOnce) {
  const auto kernel = readOnce(64, 64, 64);
  expectProduct(kernel, {1}, 128, 160, 64, 2);
  expectProduct(kernel, {2}, 200, 64, 48, 2);
}

TEST_P(ExplicitPartitions, StoreToSlots) {
  for (int k : {8, 64, 200})
    expectProduct(doubled(64, 32, 32, 3), {2, 2}, 72, 64, k, 2);
}

TEST_P(ExplicitPartitions, ShareCopiesInAcluster) {
  for (bool partitioned : {false, true})
    for (int k : {8, 64, 200})
      expectProduct(clustered(64, 64, 32, 3, partitioned), {4, 2}, 200, 128, k);
}

class StoredSlots : public ExplicitPartitions {};
SECTILE_INSTANTIATE_ON(StoredSlots,
                       "interpreter,virtual:sm_80,virtual:sm_90,virtual:sm_90a,virtual:gfx942");

TEST_P(StoredSlots, ByTheWarpsThatRead) {
  for (int k : {16, 64, 104})
    expectProduct(doubledByAll(64, 32, 32), {2, 2}, 72, 64, k, 2);
}

//===-- What is made of them ------------------------------------------------------------------===//

template <class K> std::string codeOf(const K &kernel, const char *form) {
  half *memory = nullptr;
  const Tensor<const half, 2> operand(memory, {256, 256}, {256, 1});
  return kernel.emit("sm_90a", form, operand, operand,
                     Tensor<half, 2>(memory, {256, 256}, {256, 1}));
}

TEST(ExplicitPartitionsCode, Barriers) {
  const std::string ptx =
      codeOf(inTurns(64, 32, 32, 2, {.registers = 24, .others = 240}, {.registers = 240}), "ptx");
  EXPECT_THAT(ptx,
              AllOf(HasSubstr(".reqntid 384"), HasSubstr("setmaxnreg.dec.sync.aligned.u32 \t24"),
                    HasSubstr("setmaxnreg.inc.sync.aligned.u32 \t240")));
  // 1 is for the kernel's own warps, 2 for the partition that computes.
  EXPECT_THAT(ptx, AllOf(HasSubstr("bar.sync \t3, 256"), HasSubstr("bar.arrive \t4, 256")));
}

/// Each partition from a buffer of its own.
TEST(ExplicitPartitionsCode, StoresOfPartitions) {
  EXPECT_THAT(codeOf(inTurns(64, 32, 32, 2), "cta"), HasSubstr("cta.tensor_store "));
}

TEST(ExplicitPartitionsCode, Multicast) {
  for (bool partitioned : {false, true})
    EXPECT_THAT(codeOf(clustered(64, 64, 32, 3, partitioned), "ptx"),
                HasSubstr(".multicast::cluster"));
  EXPECT_THAT(codeOf(sharing(64, 64, 32, 2, /*releases=*/true, 2), "ptx"),
              HasSubstr(".multicast::cluster"));
}

//===-- Mistakes ------------------------------------------------------------------------------===//

template <class K> std::string errorOf(const K &kernel) {
  try {
    codeOf(kernel, "cta");
  } catch (const CompileError &error) {
    return error.what();
  }
  return "no error";
}

template <class Body> std::string errorIn(Body body) {
  return errorOf(Kernel{"mistaken", [=](In a, In b, Out c) { body(a, b, c); }, {.warps = 4}});
}

TEST(ExplicitPartitionsErrors, Turns) {
  auto turns = [](Turns turns) { return errorOf(inTurns(64, 32, 32, 2, {}, {}, turns)); };
  EXPECT_EQ(turns(Turns::Right), "no error");
  EXPECT_THAT(turns(Turns::NobodyBegins),
              AllOf(HasSubstr("explicit_partitions_test.cpp"), HasSubstr("this waits for ever"),
                    HasSubstr("fewer warps come to this barrier than it counts")));
  EXPECT_THAT(turns(Turns::ArrivesTwice), HasSubstr("this comes to a barrier again"));
  EXPECT_THAT(turns(Turns::OtherDoesNotArrive),
              HasSubstr("fewer warps come to this barrier than it counts"));
}

TEST(ExplicitPartitionsErrors, Barriers) {
  auto meeting = [](int warps, int barriers = 1, bool withPartition = true) {
    return errorIn([=](In, In, Out c) {
      std::vector<cta::Barrier> made;
      for (int i = 0; i < barriers; ++i)
        made.emplace_back(warps);
      auto compute = [&](int number) {
        made.back().sync();
        c.tile(64, 64).store(number, 0, zeros<half>(64, 64));
      };
      if (withPartition)
        cta::partition({}, [&] { compute(1); });
      compute(0);
    });
  };
  EXPECT_EQ(meeting(8), "no error");
  EXPECT_THAT(meeting(6), HasSubstr("whole partitions meet at a barrier"));
  EXPECT_THAT(meeting(12), HasSubstr("no choice of them has 12 warps: they have 4 and 4"));
  EXPECT_THAT(meeting(4), HasSubstr("this comes to a barrier again"));
  EXPECT_THAT(meeting(8, 14),
              HasSubstr("a block has 16 barriers: 3 of them are for its partitions"));
  EXPECT_THAT(meeting(4, 1, false), HasSubstr("nobody else comes to this barrier"));
  EXPECT_THAT(meeting(0), HasSubstr("1 to 64 warps come to a barrier, not 0"));
  EXPECT_THAT(errorIn([](In, In, Out) { cta::partition({}, [&] { cta::Barrier turn(8); }); }),
              HasSubstr("a barrier is part of a kernel's outermost level"));
}

TEST(ExplicitPartitionsErrors, SharedRings) {
  EXPECT_EQ(errorOf(sharing(64, 32, 32, 2)), "no error");
  EXPECT_THAT(errorOf(sharing(64, 32, 32, 2, /*releases=*/false)),
              HasSubstr("leaves other numbers of uses in flight"));
  auto copy = [](auto &ring, const In &a) {
    ring.acquire().copy(a.tile(64, 64), 0, 0);
    ring.commit();
  };
  auto read = [](auto &ring, const Out &c, int at) {
    c.tile(64, 64).store(at, 0, ring.wait().read());
    ring.release();
  };
  // A reader that never hands its use back, of as many as there are slots.
  EXPECT_THAT(errorIn([=](In a, In, Out c) {
                cta::Channel ring(1, cta::TileOf<half>{64, 64});
                cta::partition({}, [&] {
                  copy(ring, a);
                  copy(ring, a);
                });
                cta::partition({}, [&] {
                  read(ring, c, 0);
                  ring.wait();
                });
                c.tile(64, 64).store(1, 0, ring.wait().read());
                ring.wait();
              }),
              HasSubstr("waits for a use while all slots are being read"));
  EXPECT_THAT(errorIn([=](In a, In, Out c) {
                cta::Channel ring(1, cta::TileOf<half>{64, 64});
                cta::partition({}, [&] {
                  copy(ring, a);
                  copy(ring, a);
                });
                cta::partition({}, [&] { c.tile(64, 64).store(0, 0, ring.wait().read()); });
                read(ring, c, 1);
                read(ring, c, 2);
              }),
              HasSubstr("this waits for ever: nobody completes the phase of slot 0"));
  EXPECT_THAT(errorIn([=](In a, In, Out c) {
                cta::Channel ring(2, cta::TileOf<half>{64, 64});
                cta::partition({}, [&] { read(ring, c, 0); });
                cta::partition({}, [&] { copy(ring, a); });
              }),
              HasSubstr("no partition before this one fills the channel"));
  EXPECT_THAT(errorIn([=](In a, In, Out c) {
                cta::Channel ring(2, cta::TileOf<half>{64, 64});
                copy(ring, a);
                cta::partition({}, [&] { copy(ring, a); });
                read(ring, c, 0);
              }),
              HasSubstr("the rest of the kernel fills this channel"));
}

TEST(ExplicitPartitionsErrors, StoredSlots) {
  EXPECT_EQ(errorOf(doubled(64, 32, 32, 2)), "no error");
  EXPECT_THAT(
      errorOf(doubled(64, 32, 32, 2, 3)),
      HasSubstr("the number of warps of a partition that computes is a power of two up to 64, "
                "not 3"));
  EXPECT_THAT(errorIn([](In, In, Out) {
                cta::Channel ring(2, cta::TileOf<half>{64, 64});
                ring.acquire().store(zeros<half>(64, 32));
              }),
              HasSubstr("a tile of [64, 32] is stored to a slot of [64, 64]"));
  EXPECT_THAT(errorIn([](In a, In, Out c) {
                cta::Channel ring(2, cta::TileOf<half>{64, 64});
                ring.acquire().store(zeros<half>(64, 64));
                ring.commit();
                ring.acquire().copy(a.tile(64, 64), 0, 0);
                ring.commit();
                for (int use : {0, 1}) {
                  c.tile(64, 64).store(use, 0, ring.wait().read());
                  ring.release();
                }
              }),
              HasSubstr("is copied in one place and stored in another"));
  // A slot that was not stored to.
  EXPECT_THAT(errorIn([](In a, In, Out c) {
                cta::Channel ring(2, cta::TileOf<half>{64, 64}, cta::TileOf<half>{64, 64});
                cta::partition({}, [&] {
                  for (int use : {0, 1}) {
                    auto [left, right] = ring.acquire();
                    left.copy(a.tile(64, 64), 0, use);
                    if (use == 0)
                      right.store(a.tile(64, 64).load(0, 0));
                    ring.commit();
                  }
                });
                for (int use : {0, 1}) {
                  auto [left, right] = ring.wait();
                  c.tile(64, 64).store(use, 0, left.read() + right.read());
                  ring.release();
                }
              }),
              HasSubstr("before anything was written there"));
}

TEST(ExplicitPartitionsErrors, WhatIsOutsideOfAPartition) {
  EXPECT_THAT(errorIn([](In a, In, Out c) {
                auto tile = a.tile(64, 64).load(0, 0);
                cta::partition({}, [&] { c.tile(64, 64).store(0, 0, tile + tile); });
                c.tile(64, 64).store(1, 0, tile);
              }),
              HasSubstr("takes a tile that other warps have in their registers"));
  // What follows from numbers alone is computed by both.
  EXPECT_EQ(errorIn([](In, In, Out c) {
              auto rows = cast<half>(expand(arange(0, 64), 1)) + zeros<half>(64, 64);
              cta::partition({}, [&] { c.tile(64, 64).store(0, 0, rows * 2); });
              c.tile(64, 64).store(1, 0, rows);
            }),
            "no error");
  EXPECT_THAT(errorIn([](In, In, Out c) {
                cta::partition({}, [&] { c.tile(64, 64).store(0, 0, zeros<half>(64, 64)); });
                c.tile(64, 64).store(1, 0, c.tile(64, 64).load(0, 0));
              }),
              HasSubstr("may read what other warps of the kernel write"));
}

TEST(ExplicitPartitionsErrors, Registers) {
  auto budgets = [](cta::PartitionOptions copying, cta::PartitionOptions second) {
    return errorOf(inTurns(64, 32, 32, 2, copying, second));
  };
  EXPECT_EQ(budgets({.registers = 24, .others = 240}, {.registers = 240}), "no error");
  EXPECT_EQ(budgets({.registers = 40}, {.registers = 232}), "no error");
  EXPECT_THAT(budgets({.registers = 24}, {}), HasSubstr("says no registers"));
  EXPECT_THAT(
      budgets({.registers = 40, .others = 240}, {.registers = 240}),
      HasSubstr("the block is launched with 64512 registers: 4 warps with 40 for each thread and "
                "4 warps with 240 and 4 with 240 take 66560"));
  EXPECT_THAT(budgets({.registers = 24, .others = 240}, {.registers = 240, .others = 232}),
              HasSubstr("partitions leave the others"));
}

} // namespace
