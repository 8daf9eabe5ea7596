// The explicit level: dots that read their left operand from registers, and waits for one of
// several dots in flight, on every device; and schedules that would read or overwrite what is not
// there yet.
#include "ops/Devices.h"
#include <array>
#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <regex>
#include <sectile/cta.h>
#include <sectile/sectile.h>

using namespace sectile;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

using In = View<const half, 2>;
using Out = View<float, 2>;
using Ring = cta::Channel<half>;
constexpr int extent = 64; // of all tiles, and of a head

cta::TileOf<half> tileOf() { return {extent, extent}; }

/// Softmax along the rows of scores that come one block after the other.
struct Softmax {
  Tile<float> top = full<float>(-INFINITY, extent), total = zeros<float>(extent);

  /// Gives the weights of a block, and what the sums so far are scaled by.
  std::pair<Tile<float>, Tile<float>> add(const Tile<float> &scores) {
    Tile<float> most = maximum(top, max(scores, 1));
    Tile<float> weights = exp2(scores - expand(most, 1)), scale = exp2(top - most);
    total = total * scale + sum(weights, 1);
    top = most;
    return {weights, expand(scale, 1)};
  }
};

/// How the second product of an iteration is done.
enum class Second {
  Own,     ///< of the weights of this iteration, waited for at its end
  Before,  ///< of those of the iteration before, which the loop carries, beside the new ones
  Carried, ///< as `Own`, waited for in the next iteration, before its weights are written
  Early    ///< the same, after its weights are written
};

/// The steps of attention after the first: both products are in flight, the first is waited for
/// alone. `keys` and `values` give the block of a step.
template <class Keys, class Values>
void attend(Second second, const Tile<half> &queries, const Int &steps, Ring &keyRing,
            Ring &valueRing, Keys keys, Values values, const Tile<float> &none, Tile<float> &acc,
            Softmax &softmax) {
  auto scoresOf = [&](const Int &step) {
    cta::InFlight scores{none};
    return cta::dot_async(queries, trans(keys(step)), scores);
  };
  Tile<float> scores = cta::wait(scoresOf(0));
  keyRing.release();
  if (second == Second::Own) {
    for (auto step : range(1, steps)) {
      auto next = scoresOf(step);
      auto [weights, scale] = softmax.add(scores);
      cta::InFlight sums{acc * scale};
      sums = cta::dot_async(cast<half>(weights), values(step - 1), sums);
      scores = cta::wait(next);
      keyRing.release();
      acc = cta::wait(sums);
      valueRing.release();
    }
    auto [weights, scale] = softmax.add(scores);
    acc = dot(cast<half>(weights), values(steps - 1), acc * scale);
    valueRing.release();
  } else if (second == Second::Before) {
    auto [first, unused] = softmax.add(scores);
    Tile<half> weights = cast<half>(first);
    for (auto step : range(1, steps)) {
      auto next = scoresOf(step);
      cta::InFlight sums{acc};
      sums = cta::dot_async(weights, values(step - 1), sums);
      auto [own, scale] = softmax.add(cta::wait(next));
      keyRing.release();
      acc = cta::wait(sums) * scale;
      valueRing.release();
      weights = cast<half>(own);
    }
    acc = dot(weights, values(steps - 1), acc);
    valueRing.release();
  } else {
    auto [first, unused] = softmax.add(scores);
    cta::InFlight sums{acc};
    sums = cta::dot_async(cast<half>(first), values(0), sums);
    for (auto step : range(1, steps)) {
      auto [weights, scale] = softmax.add(cta::wait(scoresOf(step)));
      keyRing.release();
      Tile<half> early =
          second == Second::Early ? cast<half>(weights) : zeros<half>(extent, extent);
      cta::InFlight scaled{cta::wait(sums) * scale};
      valueRing.release();
      sums = cta::dot_async(second == Second::Early ? early : cast<half>(weights), values(step),
                            scaled);
    }
    acc = cta::wait(sums);
    valueRing.release();
  }
}

/// All warps copy the blocks of the next step.
auto attention(Second second) {
  return Kernel{"attention", [=](In q, In k, In v, Out o) {
                  Ring queryRing(1, tileOf()), keyRing(2, tileOf()), valueRing(2, tileOf());
                  auto row = program_id(0);
                  auto steps = maximum(cdiv(k.extent(0), extent), 1);
                  auto fetch = [&](Ring &ring, const In &from, const Int &step) {
                    ring.acquire().copy(from.tile(extent, extent), step, 0, step < steps);
                    ring.commit();
                  };
                  queryRing.acquire().copy(q.tile(extent, extent), row, 0);
                  queryRing.commit();
                  fetch(keyRing, k, 0);
                  fetch(valueRing, v, 0);
                  auto block = [&](Ring &ring, const In &from) {
                    return [&ring, from, fetch](const Int &step) {
                      Tile<half> tile = ring.wait().read();
                      fetch(ring, from, step + 1);
                      return tile;
                    };
                  };
                  auto queries = queryRing.wait();
                  Tile<float> acc = zeros<float>(extent, extent);
                  Softmax softmax;
                  attend(second, queries.read(), steps, keyRing, valueRing, block(keyRing, k),
                         block(valueRing, v), zeros<float>(extent, extent), acc, softmax);
                  queryRing.release();
                  o.tile(extent, extent).store(row, 0, acc / expand(softmax.total, 1));
                }};
}

/// A partition copies, and two others attend to the same keys.
auto attentionOfTwoPartitions(Second second) {
  return Kernel{
      "two_partitions", [=](In q, In k, In v, Out o) {
        Ring upper(1, tileOf()), lower(1, tileOf()), keyRing(2, tileOf()), valueRing(2, tileOf());
        auto rows = program_id(0);
        auto steps = maximum(cdiv(k.extent(0), extent), 1);
        cta::partition({.warps = 4, .registers = 24, .others = 240}, [&] {
          int half = 0;
          for (Ring *ring : {&upper, &lower}) {
            ring->acquire().copy(q.tile(extent, extent), 2 * rows + half++, 0);
            ring->commit();
          }
          for (auto step : range(0, steps))
            for (auto [ring, from] : {std::pair(&keyRing, k), std::pair(&valueRing, v)}) {
              ring->acquire().copy(from.tile(extent, extent), step, 0);
              ring->commit();
            }
        });
        auto side = [&](Ring &ring, int half) {
          auto block = [](Ring &ring) { return [&](const Int &) { return ring.wait().read(); }; };
          auto queries = ring.wait();
          Tile<float> acc = zeros<float>(extent, extent);
          Softmax softmax;
          attend(second, queries.read(), steps, keyRing, valueRing, block(keyRing),
                 block(valueRing), zeros<float>(extent, extent), acc, softmax);
          ring.release();
          o.tile(extent, extent).store(2 * rows + half, 0, acc / expand(softmax.total, 1));
        };
        cta::partition({.warps = 4, .registers = 240}, [&] { side(lower, 1); });
        side(upper, 0);
      }};
}

class ExplicitDots : public test::OnDevice {
protected:
  static std::vector<half> numbers(int count, int factor, int modulus, float unit) {
    std::vector<half> values;
    for (int i = 0; i < count; ++i)
      values.push_back(half(float(i * factor % modulus - modulus / 2) * unit));
    return values;
  }

  /// Against float64. Weights are rounded to halves, whose sum is 1 once they are divided.
  template <class K> void expectAttention(const K &kernel, int programs, int rows, int keys) {
    const std::vector<half> q = numbers(rows * extent, 7, 5, 1.0f / 8),
                            k = numbers(keys * extent, 11, 7, 1.0f / 8),
                            v = numbers(keys * extent, 13, 9, 1.0f);
    auto o = device.allocate<float>(size_t(rows) * extent);
    kernel.launch(device.stream(), programs, tensor(device.upload(q), {rows, extent}),
                  tensor(device.upload(k), {keys, extent}),
                  tensor(device.upload(v), {keys, extent}), tensor(o, {rows, extent}));
    const std::vector<float> got = o.download();
    auto at = [](const std::vector<half> &matrix, int row, int column) {
      return double(float(matrix[size_t(row * extent + column)]));
    };
    for (int row = 0; row < rows; ++row) {
      std::vector<double> weights(size_t(keys), 0.0);
      double total = 0;
      for (int key = 0; key < keys; ++key) {
        double score = 0;
        for (int i = 0; i < extent; ++i)
          score += at(q, row, i) * at(k, key, i);
        total += weights[size_t(key)] = std::exp2(score);
      }
      for (int column = 0; column < extent; ++column) {
        double want = 0;
        for (int key = 0; key < keys; ++key)
          want += weights[size_t(key)] / total * at(v, key, column);
        ASSERT_NEAR(got[size_t(row * extent + column)], want, 4e-3) << row << ", " << column;
      }
    }
  }
};
SECTILE_INSTANTIATE_ON(ExplicitDots,
                       "interpreter,virtual:sm_80,virtual:sm_90,virtual:sm_90a,virtual:gfx942");

TEST_P(ExplicitDots, AttentionWithWeightsInRegisters) {
  for (Second second : {Second::Own, Second::Before, Second::Carried, Second::Early})
    for (int steps : {1, 2, 5})
      expectAttention(attention(second), 2, 2 * extent, steps * extent);
}

class ExplicitDotsOfPartitions : public ExplicitDots {};
SECTILE_INSTANTIATE_ON(ExplicitDotsOfPartitions, "interpreter,virtual:sm_90a");

TEST_P(ExplicitDotsOfPartitions, AttentionWithWeightsInRegisters) {
  for (Second second : {Second::Own, Second::Before, Second::Carried, Second::Early})
    for (int steps : {1, 4})
      expectAttention(attentionOfTwoPartitions(second), 1, 2 * extent, steps * extent);
}

/// Left operands that threads load and convert, while the dot of the step before is in flight; its
/// registers are written once it is done.
template <class From, class E, class S> auto converted() {
  return Kernel{"converted", [](View<const From, 2> a, View<const E, 2> b, View<S, 2> c) {
                  cta::Channel ring(2, cta::TileOf<E>{extent, extent});
                  auto row = program_id(0);
                  auto steps = maximum(cdiv(a.extent(1), extent), 1);
                  auto fetch = [&](const Int &step) {
                    ring.acquire().copy(b.tile(extent, extent), 0, step);
                    ring.commit();
                  };
                  auto left = [&](const Int &step) {
                    return cast<E>(a.tile(extent, extent).load(row, step));
                  };
                  fetch(0);
                  cta::InFlight sums{zeros<S>(extent, extent)};
                  sums = cta::dot_async(left(0), trans(ring.wait().read()), sums);
                  for (auto step : range(1, steps)) {
                    fetch(step);
                    auto operand = left(step);
                    cta::wait_for_dots(0);
                    ring.release();
                    sums = cta::dot_async(operand, trans(ring.wait().read()), sums);
                  }
                  auto acc = cta::wait(sums);
                  ring.release();
                  c.tile(extent, extent).store(row, 0, acc);
                }};
}

template <class From, class E, class S> void expectConverted(Device device) {
  constexpr int rows = 2 * extent;
  for (int steps : {1, 2, 5}) {
    const int depth = steps * extent;
    std::vector<From> a;
    std::vector<E> b;
    for (int i = 0; i < rows * depth; ++i)
      a.push_back(From(float(i * 7 % 11 - 5)));
    for (int i = 0; i < extent * depth; ++i)
      b.push_back(E(float(i * 5 % 7 - 3)));
    auto c = device.allocate<S>(size_t(rows) * extent);
    converted<From, E, S>().launch(device.stream(), 2, tensor(device.upload(a), {rows, depth}),
                                   tensor(device.upload(b), {extent, depth}),
                                   tensor(c, {rows, extent}));
    const std::vector<S> got = c.download();
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < extent; ++column) {
        double want = 0;
        for (int p = 0; p < depth; ++p)
          want += double(float(a[size_t(row * depth + p)])) *
                  double(float(b[size_t(column * depth + p)]));
        ASSERT_EQ(double(got[size_t(row * extent + column)]), want) << row << ", " << column;
      }
  }
}

TEST_P(ExplicitDots, LeftOperandsOfEachType) {
  expectConverted<std::int8_t, half, float>(device);
  expectConverted<half, bfloat16, float>(device);
  expectConverted<half, float, float>(device);
  expectConverted<std::int8_t, std::int8_t, std::int32_t>(device);
  expectConverted<half, float8_e4m3, float>(device); // promoted sums, which are never in flight
}

/// What a dot multiplies is in slots from the start, so that nothing but the wait keeps the next
/// left operand from the registers of a dot that takes longer than it takes to compute that.
TEST_P(ExplicitDots, NextLeftOperandBesideAWideDot) {
  constexpr int wide = 256, steps = 12;
  if (device.limits().max_shared_bytes < 164 * 1024)
    GTEST_SKIP() << "four slots take 160 KiB of shared memory";
  Kernel kernel{"squares", [](In a, In b, Out c) {
                  constexpr int ahead = 3;
                  cta::Channel ring(ahead + 1, tileOf(), cta::TileOf<half>{extent, wide});
                  auto fetch = [&](const Int &step) {
                    auto [left, right] = ring.acquire();
                    left.copy(a.tile(extent, extent), 0, step, step < steps);
                    right.copy(b.tile(extent, wide), step, 0, step < steps);
                    ring.commit();
                  };
                  for (int step = 0; step < ahead; ++step)
                    fetch(step);
                  auto square = [](const Tile<half> &x) { return x * x; };
                  cta::InFlight sums{zeros<float>(extent, wide)};
                  auto [x, y] = ring.wait();
                  sums = cta::dot_async(square(x.read()), y.read(), sums);
                  for (auto step : range(1, steps)) {
                    fetch(step + (ahead - 1));
                    auto [left, right] = ring.wait();
                    auto next = square(left.read());
                    cta::wait_for_dots(0);
                    ring.release();
                    sums = cta::dot_async(next, right.read(), sums);
                  }
                  auto all = cta::wait(sums);
                  ring.release();
                  c.tile(extent, wide).store(0, 0, all);
                }};
  const std::vector<half> a = numbers(extent * extent * steps, 7, 5, 1),
                          b = numbers(extent * steps * wide, 11, 7, 1);
  auto c = device.allocate<float>(extent * wide);
  kernel.launch(device.stream(), 1, tensor(device.upload(a), {extent, extent * steps}),
                tensor(device.upload(b), {extent * steps, wide}), tensor(c, {extent, wide}));
  const std::vector<float> got = c.download();
  for (int row = 0; row < extent; ++row)
    for (int column = 0; column < wide; ++column) {
      float want = 0;
      for (int p = 0; p < extent * steps; ++p) {
        const float x = float(a[size_t(row * extent * steps + p)]);
        want += x * x * float(b[size_t(p * wide + column)]);
      }
      ASSERT_EQ(got[size_t(row * wide + column)], want) << row << ", " << column;
    }
}

/// One row of waits in another order than the dots: the last one is first, and the others are done
/// by then.
TEST_P(ExplicitDots, WaitsInAnyOrder) {
  for (auto order : {std::array{0, 1, 2}, std::array{2, 0, 1}, std::array{1, 2, 0}}) {
    Kernel kernel{"orders", [=](In a, In b, Out c) {
                    cta::Channel ring(1, tileOf(), tileOf());
                    auto [left, right] = ring.acquire();
                    left.copy(a.tile(extent, extent), 0, 0);
                    right.copy(b.tile(extent, extent), 0, 0);
                    ring.commit();
                    auto [x, y] = ring.wait();
                    auto ones = cast<half>(zeros<float>(extent, extent) + 1.0f);
                    cta::InFlight none{zeros<float>(extent, extent)};
                    std::array flights{cta::dot_async(x.read(), y.read(), none),
                                       cta::dot_async(ones, y.read(), none),
                                       cta::dot_async(ones + ones, y.read(), none)};
                    auto sums = zeros<float>(extent, extent);
                    for (int i : order)
                      sums = sums * 2.0f + cta::wait(flights[size_t(i)]);
                    ring.release();
                    c.tile(extent, extent).store(0, 0, sums);
                  }};
    const std::vector<half> a = numbers(extent * extent, 7, 5, 1),
                            b = numbers(extent * extent, 11, 7, 1);
    auto c = device.allocate<float>(extent * extent);
    kernel.launch(device.stream(), 1, tensor(device.upload(a), {extent, extent}),
                  tensor(device.upload(b), {extent, extent}), tensor(c, {extent, extent}));
    const std::vector<float> got = c.download();
    for (int row = 0; row < extent; ++row)
      for (int column = 0; column < extent; ++column) {
        std::array<float, 3> products{};
        for (int p = 0; p < extent; ++p) {
          const float right = float(b[size_t(p * extent + column)]);
          products[0] += float(a[size_t(row * extent + p)]) * right;
          products[1] += right;
          products[2] += 2 * right;
        }
        float want = 0;
        for (int i : order)
          want = want * 2 + products[size_t(i)];
        ASSERT_EQ(got[size_t(row * extent + column)], want) << row << ", " << column;
      }
  }
}

//===-- What is made of them ------------------------------------------------------------------===//

template <class K> std::string codeOf(const K &kernel, const char *target, const char *form) {
  half *memory = nullptr;
  float *sums = nullptr;
  const Tensor<const half, 2> operand(memory, {256, extent}, {extent, 1});
  return kernel.emit(target, form, operand, operand, operand,
                     Tensor<float, 2>(sums, {256, extent}, {extent, 1}));
}

TEST(ExplicitDotsCode, WaitsForTheFirstOfTwo) {
  const std::string own = codeOf(attention(Second::Own), "sm_90a", "ptx");
  EXPECT_THAT(own, AllOf(HasSubstr("wgmma.wait_group.sync.aligned 1;"),
                         HasSubstr("wgmma.wait_group.sync.aligned 0;")));
  EXPECT_THAT(codeOf(attention(Second::Before), "sm_90a", "ptx"),
              HasSubstr("wgmma.wait_group.sync.aligned 1;"));
}

/// What wgmma reads of a tile in registers is copied where it starts, behind the waits before it:
/// the assembler sees one register for all iterations, and its other values may be written early.
TEST(ExplicitDotsCode, RegistersOfTheLeftOperandAreItsOwn) {
  const auto attended = attention(Second::Carried);
  EXPECT_THAT(codeOf(attended, "sm_90a", "cta"), HasSubstr("{cta.own_registers}"));
  const std::string text = codeOf(attended, "sm_90a", "ptx");
  std::smatch copied;
  ASSERT_TRUE(
      std::regex_search(text, copied, std::regex("\tand\\.b32 (%r[0-9]+), %r[0-9]+, lanes;")));
  EXPECT_THAT(text, HasSubstr("}, {" + copied[1].str() + ", "));
}

//===-- Mistakes ------------------------------------------------------------------------------===//

/// The error that ends the compilation of a kernel with this body.
template <class Body> std::string errorOf(Body body, const char *target = "sm_90a") {
  try {
    codeOf(Kernel{"mistaken", [=](In a, In b, In, Out c) { body(a, b, c); }}, target, "cta");
  } catch (const CompileError &error) {
    return error.what();
  }
  return "no error";
}

void fill(Ring &ring, const In &from, const Int &step) {
  ring.acquire().copy(from.tile(extent, extent), step, 0);
  ring.commit();
}

TEST(ExplicitDotsErrors, RightOperandsComeFromSlots) {
  for (const char *target : {"sm_90a", "sm_80", "gfx942"})
    EXPECT_THAT(errorOf(
                    [](In a, In b, Out c) {
                      Ring ring(1, tileOf());
                      fill(ring, a, 0);
                      cta::InFlight sums{zeros<float>(extent, extent)};
                      sums = cta::dot_async(ring.wait().read(), b.tile(extent, extent).load(0, 0),
                                            sums);
                      auto acc = cta::wait(sums);
                      ring.release();
                      c.tile(extent, extent).store(0, 0, acc);
                    },
                    target),
                AllOf(HasSubstr("explicit_dots_test.cpp"),
                      HasSubstr("a dot in flight reads its right operand from a slot")));
}

/// A loop that begins a dot in each iteration, whose left operand is in registers, and leaves as
/// many in flight as `wait` does.
std::string errorOfLoop(std::function<void()> wait) {
  return errorOf([=](In a, In b, Out c) {
    Ring ring(1, tileOf());
    fill(ring, b, 0);
    auto right = ring.wait();
    cta::InFlight sums{zeros<float>(extent, extent)};
    for (auto step : range(0, cdiv(a.extent(0), extent))) {
      auto left = a.tile(extent, extent).load(step, 0);
      wait();
      sums = cta::dot_async(left, right.read(), sums);
    }
    auto acc = cta::wait(sums);
    ring.release();
    c.tile(extent, extent).store(0, 0, acc);
  });
}

TEST(ExplicitDotsErrors, RegistersOfADotInFlight) {
  EXPECT_EQ(errorOfLoop([] { cta::wait_for_dots(0); }), "no error");
  const auto refused =
      AllOf(HasSubstr("explicit_dots_test.cpp"),
            HasSubstr("this dot is started again while the one before may still read its left "
                      "operand from registers"));
  EXPECT_THAT(errorOfLoop([] {}), refused);
  EXPECT_THAT(errorOfLoop([] { cta::wait_for_dots(1); }), refused);
}

/// Two dots in flight, of which one is waited for before the use that `early` reads is released.
std::string errorOfTwo(bool waitsForFirst, bool releasesFirst) {
  return errorOf([=](In a, In b, Out c) {
    Ring one(1, tileOf()), two(1, tileOf());
    fill(one, a, 0);
    fill(two, b, 0);
    auto x = one.wait(), y = two.wait();
    auto left = a.tile(extent, extent).load(0, 0);
    cta::InFlight none{zeros<float>(extent, extent)};
    auto first = cta::dot_async(left, x.read(), none);
    auto second = cta::dot_async(left, y.read(), none);
    auto early = cta::wait(waitsForFirst ? first : second);
    (releasesFirst ? one : two).release();
    auto late = cta::wait(waitsForFirst ? second : first);
    (releasesFirst ? two : one).release();
    c.tile(extent, extent).store(0, 0, early + late);
  });
}

TEST(ExplicitDotsErrors, SlotsOfDotsStartedLater) {
  EXPECT_EQ(errorOfTwo(true, true), "no error");
  EXPECT_THAT(errorOfTwo(true, false),
              AllOf(HasSubstr("explicit_dots_test.cpp"), HasSubstr("a dot in flight reads")));
  // The second is done after the first.
  EXPECT_EQ(errorOfTwo(false, true), "no error");
  EXPECT_EQ(errorOfTwo(false, false), "no error");
}

} // namespace
