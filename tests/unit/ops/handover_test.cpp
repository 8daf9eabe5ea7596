// Memory that a product reads is handed over to it: by flags of other programs, or within a program
// by a barrier. Copies that run ahead, by warps of their own too, come after.
#include "Devices.h"
#include "tests/unit/LoopPlans.h"
#include <sectile/cta.h>

namespace sc = sectile;

namespace {

constexpr int m = 64, n = 128, k = 64;
constexpr int programs = 4;

struct Variant {
  bool special = false; // warp_specialize
  int where = 0;
};
SECTILE_CONFIG(Variant, special, where)

void waitFor(const sc::Ptr<int> &flag) {
  sc::loop_while([&] { return sc::atomic_add(flag, 0, {.order = sc::MemoryOrder::acquire}) == 0; },
                 [&] {});
}
void raise(const sc::Ptr<int> &flag) {
  sc::atomic_exchange(flag, 1, {.order = sc::MemoryOrder::release});
}

const sc::Function waitInFunction{"wait_for", [](sc::Ptr<int> flag, sc::Int wanted) {
                                    sc::when(wanted > 0, [&] { waitFor(flag); });
                                  }};

/// to = from · w, [m, n] each.
void multiply(const sc::View<sc::half, 2> &from, const sc::View<const sc::half, 2> &w,
              const sc::View<sc::half, 2> &to, bool special) {
  auto acc = sc::zeros<float>(m, n);
  for (auto step : sc::range(0, sc::cdiv(from.extent(1), k), {.warp_specialize = special}))
    acc = sc::dot(from.tile(m, k).load(0, step), w.tile(k, n).load(step, 0), acc);
  to.tile(m, n).store(0, 0, sc::cast<sc::half>(acc));
}

enum { InWhen, InFunction, InLoop, AtTheEndOfALoop };

/// Program i multiplies what program i - 1 stored. In loops it does so several times, of h's other
/// matrices; at the end of an iteration it waits for the next one's.
sc::Kernel chain{"chain", [](sc::View<sc::half, 4> h, sc::View<const sc::half, 2> w,
                             sc::Ptr<int> flags, const Variant &of) {
                   auto i = sc::program_id(0), times = h.extent(1);
                   auto flag = [&](const sc::Int &program, const sc::Int &time) {
                     return flags + (program * times + time);
                   };
                   auto once = [&](const sc::Int &time) {
                     const bool shifts = of.where == AtTheEndOfALoop;
                     multiply(h.at(i).at(time), w, h.at(i + 1).at(shifts ? time + 1 : time),
                              of.special);
                     raise(flag(i, time));
                   };
                   if (of.where == AtTheEndOfALoop) {
                     for (auto time : sc::range(0, times - 1)) {
                       once(time);
                       sc::when(i > 0, [&] { waitFor(flag(i - 1, time)); });
                     }
                   } else if (of.where == InLoop) {
                     for (auto time : sc::range(0, times)) {
                       sc::when(i > 0, [&] { waitFor(flag(i - 1, time)); });
                       once(time);
                     }
                   } else {
                     if (of.where == InFunction)
                       waitInFunction(flag(i - 1, 0), i);
                     else
                       sc::when(i > 0, [&] { waitFor(flag(i - 1, 0)); });
                     once(0);
                   }
                 }};

/// Moves columns to the right.
std::vector<sc::half> shift() {
  std::vector<sc::half> w(n * n);
  for (int i = 0; i < n; ++i)
    w[size_t(i * n + (i + 1) % n)] = sc::half(1.0f);
  return w;
}
float element(int row, int column) { return float((row * 7 + column * 3) % 11); }

SECTILE_ON_DEVICES(Handover);

TEST_P(Handover, ByFlagsOfOtherPrograms) {
  constexpr int size = m * n;
  for (int where : {InWhen, InFunction, InLoop, AtTheEndOfALoop})
    for (bool special : {false, true}) {
      const int times = where == InLoop || where == AtTheEndOfALoop ? 3 : 1;
      // What is there before: the first program's input, and all others' first one where they wait
      // at the end only.
      auto isInput = [&](int program, int time) {
        return program == 0 || (where == AtTheEndOfALoop && time == 0);
      };
      std::vector<sc::half> matrices(size_t((programs + 1) * times * size));
      std::vector<int> shifts(size_t((programs + 1) * times)), from(shifts.size());
      for (int program = 0; program <= programs; ++program)
        for (int time = 0; time < times; ++time) {
          const size_t at = size_t(program * times + time);
          if (isInput(program, time)) {
            from[at] = int(at);
            for (int e = 0; e < size; ++e)
              matrices[at * size + size_t(e)] = sc::half(element(e / n + int(at), e % n));
          } else {
            const size_t source =
                size_t((program - 1) * times + time - (where == AtTheEndOfALoop ? 1 : 0));
            from[at] = from[source];
            shifts[at] = shifts[source] + 1;
          }
        }
      auto h = device.upload(matrices);
      auto w = device.upload(shift());
      auto flags = device.upload(std::vector<int>(size_t(programs * times)));
      chain.launch(device.stream(), programs, sc::tensor(h, {programs + 1, times, m, n}),
                   sc::tensor(w, {n, n}), flags, Variant{special, where});
      const std::vector<sc::half> got = h.download();
      for (size_t at = 0; at < shifts.size(); ++at)
        for (int e = 0; e < size; ++e)
          ASSERT_EQ(float(got[at * size + size_t(e)]),
                    element(e / n + from[at], (e % n - shifts[at] + n) % n))
              << "variant " << where << ", warp_specialize " << special << ", matrix " << at
              << ", element " << e;
    }
}

enum { Plain, WithinWhen, AtALoopsEnd };

/// Adds one to `p`, then multiplies it as `a`, which is the same memory.
sc::Kernel alias{"alias", [](sc::View<sc::half, 2> p, sc::View<const sc::half, 2> a,
                             sc::View<const sc::half, 2> b, sc::View<float, 2> c, sc::Int times,
                             const Variant &of) {
                   auto steps = sc::cdiv(a.extent(1), k);
                   auto add = [&] {
                     for (auto step : sc::range(0, steps))
                       p.tile(m, k).store(0, step,
                                          sc::cast<sc::half>(p.tile(m, k).load(0, step) + 1.0f));
                   };
                   auto product = [&] {
                     auto acc = sc::zeros<float>(m, m);
                     for (auto step : sc::range(0, steps, {.warp_specialize = of.special}))
                       acc = sc::dot(a.tile(m, k).load(0, step), b.tile(k, m).load(step, 0), acc);
                     c.tile(m, m).store(0, 0, c.tile(m, m).load(0, 0) + acc);
                   };
                   if (of.where == AtALoopsEnd) {
                     for ([[maybe_unused]] auto time : sc::range(0, times)) {
                       product();
                       sc::barrier();
                       add();
                       sc::barrier();
                     }
                     return;
                   }
                   if (of.where == Plain) {
                     add();
                     sc::barrier();
                   } else {
                     sc::when(times > 0, [&] {
                       add();
                       sc::barrier();
                     });
                   }
                   product();
                 }};

constexpr int depth = 256;

TEST_P(Handover, ByABarrierBetweenTwoArguments) {
  for (int where : {Plain, WithinWhen, AtALoopsEnd})
    for (bool special : {false, true}) {
      auto a = device.upload(std::vector<sc::half>(m * depth, sc::half(1.0f)));
      auto b = device.upload(std::vector<sc::half>(depth * m, sc::half(1.0f)));
      auto c = device.upload(std::vector<float>(m * m));
      const auto left = sc::tensor(a, {m, depth});
      alias.launch(device.stream(), 1, left, left, sc::tensor(b, {depth, m}), sc::tensor(c, {m, m}),
                   3, Variant{special, where});
      const float expected = where == AtALoopsEnd ? (1 + 2 + 3) * depth : 2 * depth;
      for (float sum : c.download())
        ASSERT_EQ(sum, expected) << "variant " << where << ", warp_specialize " << special;
    }
}

/// The chain with copies that the kernel states: by all warps, or by a partition that waits itself.
/// Both views are of the same memory, so that barriers are between them.
sc::Kernel stated{
    "stated", [](sc::View<const sc::half, 3> h, sc::View<sc::half, 3> stored,
                 sc::View<const sc::half, 2> w, sc::Ptr<int> flags, const Variant &of) {
      auto i = sc::program_id(0);
      auto from = h.at(i);
      auto to = stored.at(i + 1);
      sc::cta::Channel ring(2, sc::cta::TileOf<sc::half>{m, k}, sc::cta::TileOf<sc::half>{k, n});
      auto steps = sc::cdiv(from.extent(1), k);
      auto wait = [&] {
        sc::when(i > 0, [&] { waitFor(flags + (i - 1)); });
        sc::barrier();
      };
      auto fetch = [&](const sc::Int &step) {
        auto [left, right] = ring.acquire();
        left.copy(from.tile(m, k), 0, step);
        right.copy(w.tile(k, n), step, 0);
        ring.commit();
      };
      if (of.special) {
        sc::cta::partition({.warps = 4}, [&] {
          wait();
          for (auto step : sc::range(0, steps))
            fetch(step);
        });
      } else {
        wait();
      }
      auto acc = sc::zeros<float>(m, n);
      for (auto step : sc::range(0, steps)) {
        if (!of.special)
          fetch(step);
        auto [left, right] = ring.wait();
        acc = sc::dot(left.read(), right.read(), acc);
        ring.release();
      }
      to.tile(m, n).store(0, 0, sc::cast<sc::half>(acc));
      raise(flags + i);
    }};

TEST_P(Handover, ToCopiesThatTheKernelStates) {
  constexpr int size = m * n;
  const bool hasPartitions = GetParam() == "interpreter" || GetParam() == "virtual:sm_90a";
  for (bool special : {false, true}) {
    if (special && !hasPartitions)
      continue;
    std::vector<sc::half> matrices(size_t((programs + 1) * size));
    for (int e = 0; e < size; ++e)
      matrices[size_t(e)] = sc::half(element(e / n, e % n));
    auto h = device.upload(matrices);
    auto w = device.upload(shift());
    auto flags = device.upload(std::vector<int>(programs));
    const auto all = sc::tensor(h, {programs + 1, m, n});
    stated.launch(device.stream(), programs, all, all, sc::tensor(w, {n, n}), flags,
                  Variant{special});
    const std::vector<sc::half> got = h.download();
    for (int at = 0; at <= programs; ++at)
      for (int e = 0; e < size; ++e)
        ASSERT_EQ(float(got[size_t(at * size + e)]), element(e / n, (e % n - at + n) % n))
            << "partition " << special << ", matrix " << at << ", element " << e;
  }
}

//===-- What sm_90a makes of it
//--------------------------------------------------------------------===//

const char fence[] = "fence.proxy.async.global";

std::string chainCode(Variant of) {
  sc::half *memory = nullptr;
  int *flags = nullptr;
  return chain.emit(
      "sm_90a", "ptx",
      sc::Tensor<sc::half, 4>(memory, {programs + 1, 3, m, n}, {3 * m * n, m * n, n, 1}),
      sc::Tensor<sc::half, 2>(memory, {n, n}, {n, 1}), flags, of);
}
std::string aliasCode(Variant of) {
  sc::half *memory = nullptr;
  float *sums = nullptr;
  const sc::Tensor<sc::half, 2> a(memory, {m, depth}, {depth, 1});
  return alias.emit("sm_90a", "ptx", a, a, sc::Tensor<sc::half, 2>(memory, {depth, m}, {m, 1}),
                    sc::Tensor<float, 2>(sums, {m, m}, {m, 1}), 3, of);
}

TEST(HandoverCode, TheEngineCopiesBehindAFence) {
  SECTILE_NEEDS_LOOP_PLANS();
  for (bool special : {false, true}) {
    for (int where : {InWhen, InFunction, InLoop, AtTheEndOfALoop}) {
      const std::string code = chainCode({special, where});
      // In loops the program itself may have written what it reads, so that threads copy it.
      const bool byEngine = where == InWhen || where == InFunction;
      EXPECT_EQ(code.find("cp.async.bulk.tensor") != std::string::npos, byEngine) << where;
      EXPECT_EQ(code.find(fence) != std::string::npos, byEngine) << where;
      EXPECT_NE(code.find(".reqntid 128"), std::string::npos) << where;
    }
    sc::half *memory = nullptr;
    int *flags = nullptr;
    const sc::Tensor<sc::half, 3> all(memory, {programs + 1, m, n}, {m * n, n, 1});
    const std::string code =
        stated.emit("sm_90a", "ptx", all, all, sc::Tensor<sc::half, 2>(memory, {n, n}, {n, 1}),
                    flags, Variant{special});
    EXPECT_NE(code.find("cp.async.bulk.tensor"), std::string::npos);
    EXPECT_NE(code.find(fence), std::string::npos);
    for (int where : {Plain, WithinWhen, AtALoopsEnd}) {
      const std::string code = aliasCode({special, where});
      EXPECT_NE(code.find("cp.async.bulk.tensor"), std::string::npos) << where;
      EXPECT_NE(code.find(fence), std::string::npos) << where;
      EXPECT_NE(code.find(".reqntid 128"), std::string::npos) << where;
    }
  }
}

/// Counts tiles with this order after each product.
std::string countedCode(sc::MemoryOrder order, bool ahead) {
  sc::Kernel kernel{
      "counted", [=](sc::View<const sc::half, 2> a, sc::View<const sc::half, 2> b,
                     sc::View<sc::half, 2> c, sc::Ptr<int> count) {
        if (ahead)
          sc::atomic_add(count, 1, {.order = order});
        for (auto tile : sc::range(sc::program_id(0), 8, 2)) {
          auto acc = sc::zeros<float>(m, m);
          for (auto step : sc::range(0, sc::cdiv(a.extent(1), k), {.warp_specialize = true}))
            acc = sc::dot(a.tile(m, k).load(tile, step), b.tile(k, m).load(step, 0), acc);
          if (!ahead)
            sc::atomic_add(count, 1, {.order = order});
          c.tile(m, m).store(tile, 0, sc::cast<sc::half>(acc));
        }
      }};
  sc::half *memory = nullptr;
  int *count = nullptr;
  return kernel.emit("sm_90a", "ptx", sc::Tensor<sc::half, 2>(memory, {8 * m, depth}, {depth, 1}),
                     sc::Tensor<sc::half, 2>(memory, {depth, m}, {m, 1}),
                     sc::Tensor<sc::half, 2>(memory, {8 * m, m}, {m, 1}), count);
}

TEST(HandoverCode, WhatComesAfterTheCopiesOrOrdersNothingKeepsThePartition) {
  SECTILE_NEEDS_LOOP_PLANS();
  using sc::MemoryOrder;
  for (auto [order, ahead] :
       {std::pair(MemoryOrder::acq_rel, false), std::pair(MemoryOrder::relaxed, true),
        std::pair(MemoryOrder::release, true)}) {
    const std::string code = countedCode(order, ahead);
    EXPECT_NE(code.find(".reqntid 256"), std::string::npos) << ahead;
    EXPECT_EQ(code.find(fence), std::string::npos) << ahead;
  }
  const std::string code = countedCode(MemoryOrder::acquire, true);
  EXPECT_NE(code.find(".reqntid 128"), std::string::npos);
  EXPECT_NE(code.find(fence), std::string::npos);
}

} // namespace
