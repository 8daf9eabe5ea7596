// The explicit level: what stays alive until a dot in flight is waited for, waits whose sums nobody
// needs, and copies under conditions that are false.
#include "ops/Devices.h"
#include <functional>
#include <sectile/cta.h>
#include <sectile/sectile.h>

using namespace sectile;

namespace {

using In = View<const half, 2>;
using Out = View<float, 2>;
constexpr int extent = 64;

class ExplicitWaits : public test::OnDevice {
protected:
  static half elementOf(int row, int column, int salt) {
    return half(float((row * 7 + column * 3 + salt) % 5 - 2));
  }
  static std::vector<half> operand(int rows, int columns, int salt) {
    std::vector<half> values;
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column)
        values.push_back(elementOf(row, column, salt));
    return values;
  }

  /// The sum over `from` to `to` of the operands' products.
  static float product(int row, int column, int from, int to) {
    float sum = 0;
    for (int p = from; p < to; ++p)
      sum += float(elementOf(row, p, 0)) * float(elementOf(p, column, 1));
    return sum;
  }

  /// Runs a kernel of a, b, c and more on `programs` blocks of rows, and compares c.
  template <class K, class... More>
  void expect(const K &kernel, int programs, int k,
              const std::function<float(int row, int column)> &want, const More &...more) {
    auto c = device.allocate<float>(size_t(programs) * extent * extent);
    kernel.launch(device.stream(), programs,
                  tensor(device.upload(operand(programs * extent, k, 0)), {programs * extent, k}),
                  tensor(device.upload(operand(k, extent, 1)), {k, extent}),
                  tensor(c, {programs * extent, extent}), more...);
    const std::vector<float> got = c.download();
    for (int row = 0; row < programs * extent; ++row)
      for (int column = 0; column < extent; ++column)
        ASSERT_EQ(got[size_t(row * extent + column)], want(row, column)) << row << ", " << column;
  }
};
SECTILE_INSTANTIATE_ON(ExplicitWaits,
                       "interpreter,virtual:sm_80,virtual:sm_90,virtual:sm_90a,virtual:gfx942");

using Ring = cta::Channel<half, half>;
Ring makeRing(int depth) {
  return Ring(depth, cta::TileOf<half>{extent, extent}, cta::TileOf<half>{extent, extent});
}
void fetch(Ring &ring, const In &a, const In &b, const Int &row, const Int &step) {
  auto [left, right] = ring.acquire();
  left.copy(a.tile(extent, extent), row, step);
  right.copy(b.tile(extent, extent), step, 0);
  ring.commit();
}

/// Sums of 64 by 64 ones, along an axis, in a way that takes scratch: 64.
Tile<float> reduced(const In &a, const Int &row, int axis) {
  return sum(cast<float>(a.tile(extent, extent).load(row, 0)) * 0.0f + 1.0f, axis);
}

TEST_P(ExplicitWaits, ReductionBesideADotInFlight) {
  Kernel kernel{"beside", [](In a, In b, Out c) {
                  auto ring = makeRing(1);
                  auto row = program_id(0);
                  fetch(ring, a, b, row, 0);
                  auto [left, right] = ring.wait();
                  cta::InFlight sums{zeros<float>(extent, extent)};
                  sums = cta::dot_async(left.read(), right.read(), sums);
                  auto scratch = reduced(a, row, 0);
                  auto acc = cta::wait(sums);
                  ring.release();
                  c.tile(extent, extent).store(row, 0, acc + expand(scratch, 0));
                }};
  expect(kernel, 2, extent,
         [](int row, int column) { return product(row, column, 0, extent) + extent; });
}

// The dot of an iteration goes on into the next one, beside a reduction there and one after the
// loop.
TEST_P(ExplicitWaits, ReductionsBesideDotsOfALoop) {
  for (int depth : {2, 3}) {
    Kernel kernel{"loop", [=](In a, In b, Out c) {
                    auto ring = makeRing(depth);
                    auto row = program_id(0);
                    auto steps = maximum(cdiv(a.extent(1), extent), 1);
                    cta::InFlight sums{zeros<float>(extent, extent)};
                    fetch(ring, a, b, row, 0);
                    auto [left, right] = ring.wait();
                    sums = cta::dot_async(left.read(), right.read(), sums);
                    auto scratch = zeros<float>(extent);
                    for (auto step : range(1, steps)) {
                      fetch(ring, a, b, row, step);
                      scratch += reduced(a, row, 0);
                      auto [left, right] = ring.wait();
                      sums = cta::dot_async(left.read(), right.read(), sums);
                      scratch += reduced(a, row, 0);
                      cta::wait_for_dots(1);
                      ring.release();
                    }
                    scratch += reduced(a, row, 0);
                    auto acc = cta::wait(sums);
                    ring.release();
                    c.tile(extent, extent).store(row, 0, acc + expand(scratch, 0));
                  }};
    for (int steps : {1, 2, 5})
      expect(kernel, 1, steps * extent, [=](int row, int column) {
        return product(row, column, 0, steps * extent) + float((2 * steps - 1) * extent);
      });
  }
}

// Nobody needs one of the sums, and two dots compute the same: each is waited for.
TEST_P(ExplicitWaits, SumsThatNobodyNeeds) {
  Kernel kernel{"unneeded", [](View<const std::int8_t, 2> a, View<const std::int8_t, 2> b,
                               View<std::int32_t, 2> c) {
                  cta::Channel ring(2, cta::TileOf<std::int8_t>{extent, extent},
                                    cta::TileOf<std::int8_t>{extent, extent});
                  cta::InFlight one{zeros<std::int32_t>(extent, extent)},
                      two{zeros<std::int32_t>(extent, extent)};
                  for (auto step : range(0, cdiv(a.extent(1), extent))) {
                    auto [left, right] = ring.acquire();
                    left.copy(a.tile(extent, extent), 0, step);
                    right.copy(b.tile(extent, extent), 0, step);
                    ring.commit();
                    auto [p, q] = ring.wait();
                    one = cta::dot_async(p.read(), trans(q.read()), one);
                    two = cta::dot_async(p.read(), trans(q.read()), two);
                    cta::wait_for_dots(0);
                    ring.release();
                  }
                  auto x = cta::wait(one), y = cta::wait(two);
                  c.tile(extent, extent).store(0, 0, x + y - y);
                }};
  std::vector<std::int8_t> a, b;
  for (int i = 0; i < extent * extent * 2; ++i) {
    a.push_back(std::int8_t(i * 7 % 11 - 5));
    b.push_back(std::int8_t(i * 5 % 13 - 6));
  }
  auto c = device.allocate<std::int32_t>(extent * extent);
  kernel.launch(device.stream(), 1, tensor(device.upload(a), {extent, 2 * extent}),
                tensor(device.upload(b), {extent, 2 * extent}), tensor(c, {extent, extent}));
  const std::vector<std::int32_t> got = c.download();
  for (int row = 0; row < extent; ++row)
    for (int column = 0; column < extent; ++column) {
      int want = 0;
      for (int p = 0; p < 2 * extent; ++p)
        want += a[size_t(row * 2 * extent + p)] * b[size_t(column * 2 * extent + p)];
      ASSERT_EQ(got[size_t(row * extent + column)], want);
    }
}

TEST_P(ExplicitWaits, DotsAlike) {
  Kernel kernel{"alike", [](In a, In b, Out c) {
                  auto ring = makeRing(1);
                  fetch(ring, a, b, 0, 0);
                  auto [left, right] = ring.wait();
                  auto x = left.read(), y = right.read();
                  cta::InFlight zero{zeros<float>(extent, extent)};
                  auto one = cta::dot_async(x, y, zero), two = cta::dot_async(x, y, zero);
                  auto first = cta::wait(one), second = cta::wait(two);
                  ring.release();
                  c.tile(extent, extent).store(0, 0, first + second);
                }};
  expect(kernel, 1, extent,
         [](int row, int column) { return 2 * product(row, column, 0, extent); });
}

//===-- Copies under conditions --------------------------------------------------------------===//

/// What a condition is computed from.
enum class Known { Program, Loaded, Step };

/// Each step is copied, waited for and read, whatever the condition; where `both` is false the
/// right tile is copied always.
auto masked(Known known, bool both, int depth) {
  return Kernel{"masked", [=](In a, In b, Out c, Ptr<const int> flags) {
                  auto ring = makeRing(depth);
                  auto row = program_id(0);
                  auto acc = zeros<float>(extent, extent);
                  for (auto step : range(0, cdiv(a.extent(1), extent))) {
                    Bool wanted = known == Known::Program  ? row < 1
                                  : known == Known::Loaded ? load(flags + row) != 0
                                                           : load(flags + step) != 0;
                    auto [left, right] = ring.acquire();
                    left.copy(a.tile(extent, extent), row, step, wanted);
                    if (both)
                      right.copy(b.tile(extent, extent), step, 0, wanted);
                    else
                      right.copy(b.tile(extent, extent), step, 0);
                    ring.commit();
                    auto [p, q] = ring.wait();
                    acc = dot(p.read(), q.read(), acc);
                    ring.release();
                  }
                  c.tile(extent, extent).store(row, 0, acc);
                }};
}

TEST_P(ExplicitWaits, CopiesUnderFalseConditionsGiveZeros) {
  constexpr int steps = 4;
  const std::vector<int> flags{1, 0, 1, 0};
  auto memory = device.upload(flags);
  for (Known known : {Known::Program, Known::Loaded, Known::Step})
    for (bool both : {true, false})
      for (int depth : {1, 3})
        expect(
            masked(known, both, depth), 2, steps * extent,
            [&](int row, int column) {
              float sum = 0;
              for (int step = 0; step < steps; ++step)
                if (flags[size_t(known == Known::Step ? step : row / extent)])
                  sum += product(row, column, step * extent, (step + 1) * extent);
              return sum;
            },
            memory);
}

// Uses that nobody waits for: what is written there comes before the place has another use.
TEST_P(ExplicitWaits, MaskedUsesThatAreLeft) {
  for (int depth : {2, 4}) {
    Kernel kernel{"left", [=](In a, In b, Out c) {
                    auto ring = makeRing(depth);
                    auto row = program_id(0);
                    auto steps = cdiv(a.extent(1), extent);
                    auto next = [&](const Int &step) {
                      auto [left, right] = ring.acquire();
                      left.copy(a.tile(extent, extent), row, step, step < steps);
                      right.copy(b.tile(extent, extent), step, 0, step < steps);
                      ring.commit();
                    };
                    for (int step = 0; step < depth - 1; ++step)
                      next(step);
                    auto acc = zeros<float>(extent, extent);
                    for (auto step : range(0, steps)) {
                      auto [left, right] = ring.wait();
                      next(step + (depth - 1));
                      acc = dot(left.read(), right.read(), acc);
                      ring.release();
                    }
                    auto scratch = reduced(a, row, 0);
                    c.tile(extent, extent).store(row, 0, acc + expand(scratch, 0));
                  }};
    for (int steps : {1, 2, 7})
      expect(kernel, 2, steps * extent, [=](int row, int column) {
        return product(row, column, 0, steps * extent) + float(extent);
      });
  }
}

class ExplicitMaskedPartition : public ExplicitWaits {};
SECTILE_INSTANTIATE_ON(ExplicitMaskedPartition, "interpreter,virtual:sm_90a,virtual:sm_120");

// A partition copies under conditions, and more than the others read.
TEST_P(ExplicitMaskedPartition, Products) {
  const std::vector<int> flags{1, 0, 1, 1, 0, 1};
  auto memory = device.upload(flags);
  for (int depth : {1, 3})
    for (int more : {0, 1}) {
      Kernel kernel{"partition", [=](In a, In b, Out c, Ptr<const int> flags) {
                      auto ring = makeRing(depth);
                      auto row = program_id(0);
                      auto steps = maximum(cdiv(a.extent(1), extent), 1);
                      cta::partition({.warps = 1}, [&] {
                        for (auto step : range(0, steps + more)) {
                          auto [left, right] = ring.acquire();
                          auto isInside = step < steps;
                          left.copy(a.tile(extent, extent), row, step, isInside);
                          right.copy(b.tile(extent, extent), step, 0,
                                     load(flags + minimum(step, steps - 1)) != 0);
                          ring.commit();
                        }
                      });
                      auto acc = zeros<float>(extent, extent);
                      for ([[maybe_unused]] auto step : range(0, steps)) {
                        auto [left, right] = ring.wait();
                        acc = dot(left.read(), right.read(), acc);
                        ring.release();
                      }
                      auto scratch = reduced(a, row, 0);
                      c.tile(extent, extent).store(row, 0, acc + expand(scratch, 0));
                    }};
      for (int steps : {1, 2, 6})
        expect(
            kernel, 2, steps * extent,
            [&](int row, int column) {
              float sum = extent;
              for (int step = 0; step < steps; ++step)
                if (flags[size_t(step)])
                  sum += product(row, column, step * extent, (step + 1) * extent);
              return sum;
            },
            memory);
    }
}

} // namespace
