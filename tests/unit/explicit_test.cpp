// The explicit level: products that state their copies, partitions and waits on every device, and
// mistakes that the compiler has to refuse for the reason they are mistakes.
#include "kernels/references/Accuracy.h"
#include "ops/Devices.h"
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

/// c = a b, copies issued depth - 1 steps ahead by all warps.
auto pipelined(int m, int n, int k, int depth) {
  return Kernel{"pipelined",
                [=](In a, In b, Out c) {
                  cta::Channel ring(depth, cta::TileOf<half>{m, k}, cta::TileOf<half>{k, n});
                  auto i = program_id(0), j = program_id(1);
                  auto steps = cdiv(a.extent(1), k);
                  auto fetch = [&](Int step) {
                    auto [left, right] = ring.acquire();
                    left.copy(a.tile(m, k), i, step, step < steps);
                    right.copy_at(b.tile(k, n), step * k, j * n, step < steps);
                    ring.commit();
                  };
                  for (int step = 0; step < depth - 1; ++step)
                    fetch(step);
                  auto acc = zeros<float>(m, n);
                  for (auto step : range(0, steps)) {
                    auto [left, right] = ring.wait();
                    fetch(step + (depth - 1));
                    acc = dot(left.read(), right.read(), acc);
                    ring.release();
                  }
                  c.tile(m, n).store(i, j, cast<half>(acc));
                },
                {.warps = 4}};
}

/// The same with a partition for the copies; every program does several tiles, and B is transposed.
/// Each tile has dots in flight.
auto partitioned(int m, int n, int k, int depth, unsigned warps, cta::PartitionOptions options) {
  return Kernel{"partitioned",
                [=](In a, In b, Out c) {
                  cta::Channel ring(depth, cta::TileOf<half>{m, k}, cta::TileOf<half>{n, k});
                  const auto tiles = c.tiles(m, n);
                  auto steps = maximum(cdiv(a.extent(1), k), 1);
                  cta::partition(options, [&] {
                    for (auto tile : range(program_id(0), tiles[0] * tiles[1], num_programs(0)))
                      for (auto step : range(0, steps)) {
                        auto [left, right] = ring.acquire();
                        left.copy(a.tile(m, k), tile / tiles[1], step);
                        right.copy(b.tile(n, k), tile % tiles[1], step);
                        ring.commit();
                      }
                  });
                  for (auto tile : range(program_id(0), tiles[0] * tiles[1], num_programs(0))) {
                    cta::InFlight sums{zeros<float>(m, n)};
                    auto [left, right] = ring.wait();
                    sums = cta::dot_async(left.read(), trans(right.read()), sums);
                    for (auto step : range(1, steps)) {
                      auto [left, right] = ring.wait();
                      sums = cta::dot_async(left.read(), trans(right.read()), sums);
                      cta::wait_for_dots(1);
                      ring.release();
                    }
                    auto acc = cta::wait(sums);
                    ring.release();
                    c.tile(m, n).store(tile / tiles[1], tile % tiles[1], cast<half>(acc));
                  }
                },
                {.warps = warps}};
}

class Explicit : public test::OnDevice {
protected:
  static double elementOf(int number) { return double(number * 7 % 31 - 15) / 16; }

  std::vector<half> operand(int count) {
    std::vector<half> values;
    for (int i = 0; i < count; ++i)
      values.push_back(half(float(elementOf(i))));
    return values;
  }

  /// Against float64; the base arithmetic adds in float.
  template <class Kernel>
  void expectProduct(const Kernel &kernel, Grid grid, int m, int n, int k, bool transposed) {
    const std::vector<half> a = operand(m * k), b = operand(k * n);
    auto deviceA = device.upload(a), deviceB = device.upload(b);
    auto c = device.allocate<half>(size_t(m * n));
    kernel.launch(device.stream(), grid, Tensor<const half, 2>(deviceA.data(), {m, k}, {k, 1}),
                  transposed ? Tensor<const half, 2>(deviceB.data(), {n, k}, {k, 1})
                             : Tensor<const half, 2>(deviceB.data(), {k, n}, {n, 1}),
                  Tensor<half, 2>(c.data(), {m, n}, {n, 1}));
    const std::vector<half> got = c.download();
    std::vector<double> output, exact, base;
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column) {
        double sum = 0;
        float plain = 0;
        for (int p = 0; p < k; ++p) {
          const float left = float(a[size_t(row * k + p)]);
          const float right = float(b[size_t(transposed ? column * k + p : p * n + column)]);
          sum += double(left) * double(right);
          plain += left * right;
        }
        output.push_back(float(got[size_t(row * n + column)]));
        exact.push_back(sum);
        base.push_back(float(half(plain)));
      }
    const Shape shape{m, n};
    const Accuracy accuracy =
        judge(HostArray(DType::float16, shape, output), HostArray(DType::float64, shape, exact),
              HostArray(DType::float16, shape, base));
    EXPECT_TRUE(accuracy.ok()) << m << " x " << n << ", depth " << k << ": " << accuracy.describe();
  }
};
SECTILE_INSTANTIATE_ON(Explicit,
                       "interpreter,virtual:sm_80,virtual:sm_90,virtual:sm_90a,virtual:gfx942");

TEST_P(Explicit, Pipelined) {
  expectProduct(pipelined(64, 64, 64, 3), {4, 4}, 256, 256, 256, false);
  // Of fewer steps than slots, and with tails.
  for (int k : {16, 64, 104, 200})
    expectProduct(pipelined(64, 32, 32, 4), {2, 3}, 72, 88, k, false);
  expectProduct(pipelined(64, 32, 32, 2), {1, 1}, 64, 32, 96, false);
}

/// A slot's tile is a tile: here its rows are summed up, and it is multiplied.
TEST_P(Explicit, TilesOfSlots) {
  Kernel kernel{"tiles",
                [](In a, View<float, 1> sums) {
                  cta::Channel ring(2, cta::TileOf<half>{32, 64});
                  auto steps = cdiv(a.extent(1), 64);
                  ring.acquire().copy(a.tile(32, 64), 0, 0);
                  ring.commit();
                  auto acc = zeros<float>(32);
                  for (auto k : range(0, steps)) {
                    auto tile = cast<float>(ring.wait().read());
                    ring.acquire().copy(a.tile(32, 64), 0, k + 1);
                    ring.commit();
                    acc += sum(tile, 1);
                    ring.release();
                  }
                  ring.wait();
                  ring.release();
                  sums.tile(32).store(0, acc);
                },
                {.warps = 4}};
  const std::vector<half> a = operand(32 * 200);
  auto deviceA = device.upload(a);
  auto sums = device.allocate<float>(32);
  kernel.launch(device.stream(), 1, Tensor<const half, 2>(deviceA.data(), {32, 200}, {200, 1}),
                Tensor<float, 1>(sums.data(), {32}, {1}));
  const std::vector<float> got = sums.download();
  for (int row = 0; row < 32; ++row) {
    double exact = 0;
    for (int p = 0; p < 200; ++p)
      exact += double(float(a[size_t(row * 200 + p)]));
    EXPECT_NEAR(got[size_t(row)], exact, 1e-3);
  }
}

class ExplicitPartition : public Explicit {};
SECTILE_INSTANTIATE_ON(ExplicitPartition,
                       "interpreter,virtual:sm_90a,virtual:sm_90,virtual:sm_100a");

TEST_P(ExplicitPartition, Products) {
  expectProduct(partitioned(128, 64, 64, 4, 8, {.registers = 24}), {3}, 256, 256, 256, true);
  for (int k : {16, 64, 104, 712})
    expectProduct(partitioned(64, 32, 32, 3, 4, {.warps = 1}), {2}, 72, 88, k, true);
  // Of so few rows that threads read the slots.
  expectProduct(partitioned(32, 32, 32, 2, 4, {.warps = 1}), {2}, 72, 88, 200, true);
}

//===-- What is made of them ------------------------------------------------------------------===//

template <class K> std::string codeOf(const K &kernel, const char *target, const char *form) {
  half *memory = nullptr;
  const Tensor<const half, 2> operand(memory, {256, 256}, {256, 1});
  return kernel.emit(target, form, operand, operand, Tensor<half, 2>(memory, {256, 256}, {256, 1}));
}

TEST(ExplicitCode, UsesTheEngineWhereThereIsOne) {
  const std::string hopper = codeOf(pipelined(64, 64, 64, 3), "sm_90a", "cta");
  EXPECT_THAT(hopper, AllOf(HasSubstr("cta.tensor_copy "), HasSubstr("cta.channel {by_hand,"),
                            Not(HasSubstr("cta.local_load"))));
  EXPECT_THAT(codeOf(pipelined(64, 64, 64, 3), "sm_80", "cta"), HasSubstr("cta.async_copy "));
  EXPECT_THAT(codeOf(pipelined(64, 64, 64, 3), "gfx942", "cta"), HasSubstr("cta.local_store "));
}

TEST(ExplicitCode, MovesRegisters) {
  const std::string moved =
      codeOf(partitioned(128, 64, 64, 4, 8, {.registers = 24}), "sm_90a", "ptx");
  EXPECT_THAT(moved,
              AllOf(HasSubstr("setmaxnreg.dec.sync.aligned.u32 \t24"),
                    HasSubstr("setmaxnreg.inc.sync.aligned.u32 \t240"), HasSubstr(".reqntid 384")));
  const std::string kept = codeOf(partitioned(128, 64, 64, 4, 8, {.warps = 1}), "sm_90a", "ptx");
  EXPECT_THAT(kept, AllOf(Not(HasSubstr("setmaxnreg")), HasSubstr(".reqntid 288"),
                          HasSubstr("wgmma.wait_group.sync.aligned \t1")));
}

// Budgets are for chips whose warps hand registers over: others leave them out, and a remark says
// so.
TEST(ExplicitCode, RegistersThatAChipKeeps) {
  for (const char *target : {"sm_90", "sm_100", "sm_120"})
    EXPECT_THAT(codeOf(partitioned(128, 64, 64, 2, 8, {.registers = 24}), target, "ptx"),
                testing::AllOf(HasSubstr(".reqntid 384"), Not(HasSubstr("setmaxnreg"))));
}

TEST(ExplicitCode, LanesThatReadASlotMeetBeforeOneOfThemHandsItBack) {
  const std::string byLanes = codeOf(partitioned(32, 32, 32, 2, 4, {.warps = 1}), "sm_90a", "ptx");
  EXPECT_THAT(byLanes, testing::ContainsRegex("ldmatrix.*bar\\.warp\\.sync.*mbarrier\\.arrive\\."));
  // Matrix instructions read it for all of them.
  const std::string byWarpgroups =
      codeOf(partitioned(64, 64, 64, 2, 4, {.warps = 1}), "sm_90a", "ptx");
  EXPECT_THAT(byWarpgroups, AllOf(HasSubstr("wgmma.mma_async"), HasSubstr("mbarrier.arrive."),
                                  Not(HasSubstr("bar.warp.sync"))));
}

//===-- Mistakes ------------------------------------------------------------------------------===//

/// The error that ends the compilation of a kernel with this body.
template <class Body>
std::string errorOf(Body body, const char *target = "sm_90a", unsigned warps = 4) {
  try {
    codeOf(Kernel{"mistaken", [=](In a, In b, Out c) { body(a, b, c); }, {.warps = warps}}, target,
           "cta");
  } catch (const CompileError &error) {
    return error.what();
  }
  return "no error";
}

using Ring = cta::Channel<half, half>;
cta::TileOf<half> tileOf() { return {64, 64}; }

void fill(Ring &ring, const In &a, const In &b, const Int &step) {
  auto [left, right] = ring.acquire();
  left.copy(a.tile(64, 64), 0, step);
  right.copy(b.tile(64, 64), step, 0);
  ring.commit();
}

TEST(ExplicitErrors, PartitionThatWaitsForItself) {
  EXPECT_THAT(errorOf([](In a, In b, Out) {
                Ring ring(2, tileOf(), tileOf());
                cta::partition({}, [&] {
                  fill(ring, a, b, 0);
                  ring.wait();
                });
              }),
              AllOf(HasSubstr("explicit_test.cpp"), HasSubstr("waits for itself")));
  EXPECT_THAT(errorOf([](In a, In b, Out) {
                Ring ring(2, tileOf(), tileOf());
                cta::partition({}, [&] { ring.release(); });
                fill(ring, a, b, 0);
              }),
              HasSubstr("a partition releases no slot"));
  EXPECT_THAT(errorOf([](In a, In b, Out) {
                Ring ring(2, tileOf(), tileOf());
                cta::partition({}, [&] { fill(ring, a, b, 0); });
                fill(ring, a, b, 1);
              }),
              HasSubstr("a partition fills this channel: the rest of the kernel waits"));
}

/// The others wait for more than the partition commits, or for less.
TEST(ExplicitErrors, OtherNumbersOfUses) {
  auto product = [](int more) {
    return errorOf([=](In a, In b, Out c) {
      Ring ring(3, tileOf(), tileOf());
      auto steps = cdiv(a.extent(1), 64);
      cta::partition({}, [&] {
        for (auto step : range(0, steps))
          fill(ring, a, b, step);
      });
      auto acc = zeros<float>(64, 64);
      for (auto step : range(0, steps + more)) {
        auto [left, right] = ring.wait();
        acc = dot(left.read(), right.read(), acc);
        ring.release();
      }
      c.tile(64, 64).store(0, 0, cast<half>(acc));
    });
  };
  EXPECT_EQ(product(0), "no error");
  EXPECT_THAT(product(1), AllOf(HasSubstr("explicit_test.cpp"), HasSubstr("this waits for ever"),
                                HasSubstr("nobody completes the phase")));
  EXPECT_THAT(product(-1), AllOf(HasSubstr("this overwrites its bytes"),
                                 HasSubstr("while this may still write it")));
}

/// In one partition, where each step has to leave as many uses as it found.
std::string
errorOfStep(std::function<void(Ring &, cta::Slot<half>, cta::Slot<half>, In, In)> step) {
  return errorOf([=](In a, In b, Out c) {
    Ring ring(2, tileOf(), tileOf());
    auto acc = zeros<float>(64, 64);
    for (auto k : range(0, cdiv(a.extent(1), 64))) {
      auto [toLeft, toRight] = ring.acquire();
      toLeft.copy(a.tile(64, 64), 0, k);
      step(ring, toLeft, toRight, a, b);
      auto [left, right] = ring.wait();
      acc = dot(left.read(), right.read(), acc);
      ring.release();
    }
    c.tile(64, 64).store(0, 0, cast<half>(acc));
  });
}

TEST(ExplicitErrors, UsesOfARing) {
  auto copyRight = [](cta::Slot<half> right, In b) { right.copy(b.tile(64, 64), 0, 0); };
  EXPECT_EQ(errorOfStep([&](Ring &ring, auto, auto right, In, In b) {
              copyRight(right, b);
              ring.commit();
            }),
            "no error");
  EXPECT_THAT(errorOfStep([&](Ring &ring, auto, auto right, In, In b) {
                copyRight(right, b);
                ring.commit();
                ring.release();
              }),
              HasSubstr("this releases a use that was not waited for"));
  EXPECT_THAT(errorOfStep([&](Ring &ring, auto, auto right, In, In b) {
                copyRight(right, b);
                ring.commit();
                ring.wait();
              }),
              HasSubstr("this waits for a use that was not committed"));
  EXPECT_THAT(errorOfStep([&](Ring &ring, auto, auto right, In, In b) {
                copyRight(right, b);
                ring.commit();
                ring.acquire();
                ring.commit();
              }),
              HasSubstr("this leaves other numbers of uses in flight by one path"));
  EXPECT_THAT(errorOf([](In a, In b, Out) {
                Ring ring(2, tileOf(), tileOf());
                for (int step = 0; step < 3; ++step)
                  fill(ring, a, b, step);
              }),
              HasSubstr("this acquires a slot while all 2 are in use"));
  EXPECT_THAT(errorOfStep([&](Ring &ring, auto, auto right, In, In b) {
                copyRight(right, b);
                ring.commit();
                ring.commit();
              }),
              HasSubstr("this channel commits a use that was not acquired"));
}

TEST(ExplicitErrors, BytesOfASlot) {
  EXPECT_THAT(errorOfStep([](Ring &ring, auto left, auto right, In a, In b) {
                right.copy(b.tile(64, 64), 0, 0);
                left.copy(a.tile(64, 64), 0, 0);
                ring.commit();
              }),
              HasSubstr("fills a tile of this slot again"));
  EXPECT_THAT(errorOf([](In a, In b, Out c) {
                Ring ring(2, tileOf(), tileOf());
                fill(ring, a, b, 0);
                auto [left, right] = ring.acquire();
                left.copy(a.tile(64, 64), 0, 1);
                ring.commit();
                auto [l0, r0] = ring.wait();
                auto acc = dot(l0.read(), r0.read());
                ring.release();
                auto [l1, r1] = ring.wait();
                acc = dot(l1.read(), r1.read(), acc);
                ring.release();
                c.tile(64, 64).store(0, 0, cast<half>(acc));
              }),
              HasSubstr("8192 bytes more than are copied"));
  EXPECT_THAT(errorOf([](In a, In, Out) {
                Ring ring(2, tileOf(), tileOf());
                std::get<0>(ring.acquire()).copy(a.tile(64, 32), 0, 0);
              }),
              HasSubstr("a tile of [64, 32] is copied to a slot of [64, 64]"));
  EXPECT_THAT(errorOfStep([](Ring &ring, auto, auto, In, In) { ring.commit(); }),
              HasSubstr("nothing is copied to a tile of this channel's slots"));
  EXPECT_THAT(errorOf([](In a, In, Out) {
                Ring ring(2, tileOf(), tileOf());
                std::get<0>(ring.acquire()).copy(a.tile(64, 64), 0, 0, arange(0, 8) < 4);
              }),
              HasSubstr("a copy happens or does not: its condition is one bool"));
}

TEST(ExplicitErrors, SlotsReadEarly) {
  EXPECT_THAT(errorOfStep([](Ring &ring, auto left, auto right, In, In b) {
                right.copy(b.tile(64, 64), 0, 0);
                left.read();
                ring.commit();
              }),
              HasSubstr("reads a slot that was acquired"));
  EXPECT_THAT(errorOf([](In a, In b, Out c) {
                Ring ring(2, tileOf(), tileOf());
                fill(ring, a, b, 0);
                auto [left, right] = ring.wait();
                auto l = left.read(), r = right.read();
                ring.release();
                c.tile(64, 64).store(0, 0, cast<half>(dot(l, r)));
              }),
              HasSubstr("this reads a use that was released"));
  // The dot that was begun last still reads its slot.
  EXPECT_THAT(errorOf([](In a, In b, Out c) {
                Ring ring(2, tileOf(), tileOf());
                cta::InFlight sums{zeros<float>(64, 64)};
                for (auto step : range(0, cdiv(a.extent(1), 64))) {
                  fill(ring, a, b, step);
                  auto [left, right] = ring.wait();
                  sums = cta::dot_async(left.read(), right.read(), sums);
                  cta::wait_for_dots(1);
                  ring.release();
                }
                c.tile(64, 64).store(0, 0, cast<half>(cta::wait(sums)));
              }),
              HasSubstr("this releases a use that a dot in flight reads"));
}

std::string errorOfPartition(cta::PartitionOptions options, const char *target = "sm_90a",
                             unsigned warps = 4) {
  return errorOf(
      [=](In a, In b, Out c) {
        Ring ring(2, tileOf(), tileOf());
        cta::partition(options, [&] { fill(ring, a, b, 0); });
        auto [left, right] = ring.wait();
        auto acc = dot(left.read(), right.read());
        ring.release();
        c.tile(64, 64).store(0, 0, cast<half>(acc));
      },
      target, warps);
}

TEST(ExplicitErrors, Partitions) {
  EXPECT_EQ(errorOfPartition({}), "no error");
  EXPECT_THAT(errorOfPartition({}, "sm_80"), HasSubstr("sm_80 has none"));
  EXPECT_THAT(errorOfPartition({}, "gfx942"), HasSubstr("gfx942 has none"));
  // 4 · 32 · 24 + 16 · 32 · 240.
  EXPECT_THAT(
      errorOfPartition({.registers = 24, .others = 240}, "sm_90a", 16),
      HasSubstr("the block is launched with 61440 registers: 4 warps with 24 for each thread and "
                "16 with 240 take 125952"));
  EXPECT_THAT(errorOfPartition({.registers = 24, .others = 160}, "sm_90a", 8),
              HasSubstr("all threads are launched with 168 registers"));
  // Eight warps have 248 each, whatever others are left.
  EXPECT_EQ(errorOfPartition({.registers = 24}), "no error");
  EXPECT_EQ(errorOfPartition({.registers = 24, .others = 240}), "no error");
  EXPECT_THAT(errorOfPartition({.warps = 2, .registers = 24}),
              HasSubstr("registers are moved between groups of four warps"));
  EXPECT_THAT(errorOfPartition({.registers = 25}),
              HasSubstr("24 to 240 registers, a multiple of 8"));
  EXPECT_THAT(errorOfPartition({.others = 240}),
              HasSubstr("has registers for the others but none for itself"));
  EXPECT_THAT(errorOfPartition({.warps = 0}), HasSubstr("a partition has 1 to 32 warps, not 0"));
  EXPECT_THAT(errorOfPartition({}, "sm_90a", 32), HasSubstr("a block has at most 1024 threads"));
  EXPECT_THAT(errorOf([](In a, In b, Out) {
                Ring ring(2, tileOf(), tileOf());
                cta::partition({}, [&] { fill(ring, a, b, 0); });
                cta::partition({}, [&] { fill(ring, a, b, 0); });
                ring.wait();
                ring.release();
              }),
              HasSubstr("a partition fills this channel"));
  // What other warps hold in registers is not there.
  EXPECT_THAT(errorOf([](In a, In b, Out) {
                Ring ring(2, tileOf(), tileOf());
                auto most = max(cast<std::int32_t>(a.tile(64, 64).load(0, 0)));
                cta::partition({}, [&] { fill(ring, a, b, Int(most)); });
                ring.wait();
                ring.release();
              }),
              HasSubstr("a partition computes with scalars that other warps can compute as well"));
}

TEST(ExplicitErrors, DotsInFlight) {
  EXPECT_THAT(errorOf([](In a, In b, Out c) {
                cta::InFlight sums{zeros<float>(64, 64)};
                sums = cta::dot_async(a.tile(64, 64).load(0, 0), b.tile(64, 64).load(0, 0), sums);
                c.tile(64, 64).store(0, 0, cast<half>(cta::wait(sums)));
              }),
              HasSubstr("a dot in flight reads its right operand from a slot of a channel"));
  // A partition goes on while the others wait for the launch ahead.
  EXPECT_THAT(errorOf([](In a, In b, Out) {
                Ring ring(2, tileOf(), tileOf());
                cta::partition({}, [&] { fill(ring, a, b, 0); });
                wait_dependencies();
                ring.wait();
                ring.release();
              }),
              HasSubstr("which a partition would not wait for"));
  // Nor does it wait for what others release to them.
  auto after = [](auto order) {
    return errorOf([=](In a, In b, Out c) {
      order(c);
      Ring ring(2, tileOf(), tileOf());
      cta::partition({}, [&] { fill(ring, a, b, 0); });
      ring.wait();
      ring.release();
    });
  };
  const char *refused = "a partition after this would not wait for it";
  EXPECT_THAT(after([](Out) { barrier(); }), HasSubstr(refused));
  EXPECT_THAT(after([](Out c) { c.tile(64, 64).atomic_add(0, 0, zeros<half>(64, 64)); }),
              HasSubstr(refused));
  EXPECT_THAT(after([](Out c) {
                when(c.extent(0) > 4, [&] {
                  c.tile(64, 64).atomic_add(0, 0, zeros<half>(64, 64),
                                            {.order = MemoryOrder::acquire});
                });
              }),
              HasSubstr(refused));
  EXPECT_EQ(after([](Out c) {
              c.tile(64, 64).atomic_add(0, 0, zeros<half>(64, 64), {.order = MemoryOrder::release});
            }),
            "no error");
}

TEST(ExplicitErrors, PlacesOfChannels) {
  EXPECT_THAT(errorOf([](In a, In, Out) {
                for (auto step : range(0, cdiv(a.extent(1), 64))) {
                  Ring ring(2, tileOf(), tileOf());
                  static_cast<void>(step);
                }
              }),
              HasSubstr("a channel is part of a kernel's outermost level"));
  EXPECT_THAT(errorOf([](In, In, Out) { Ring ring(0, tileOf(), tileOf()); }),
              HasSubstr("a channel has 1 to 64 slots, not 0"));
  EXPECT_THAT(errorOf([](In a, In b, Out) {
                Ring ring(2, tileOf(), tileOf());
                when(a.extent(0) > 4, [&] { fill(ring, a, b, 0); });
              }),
              HasSubstr("not in branches"));
  EXPECT_THAT(errorOf([](In, In, Out) { cta::wait_for_dots(9); }),
              HasSubstr("leaves 0 to 8 dots in flight, not 9"));
}

} // namespace
