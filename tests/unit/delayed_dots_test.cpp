// Loops that multiply what follows from other dots, written plainly: the compiler delays the last
// dot by an iteration where warps of their own copy. Against the same loop without that, on every
// device, for any number of iterations.
#include "ops/Devices.h"
#include "tests/unit/LoopPlans.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <gmock/gmock.h>
#include <sectile/sectile.h>

using namespace sectile;
using testing::AllOf;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Not;
using testing::Pointwise;

namespace {

[[maybe_unused]] const bool plans = alwaysWithLoopPlans();

using In = View<const half, 2>;

struct Form {
  int parts = 1;           ///< dots that scores are the sum of
  int mask = 0;            ///< of one block, in a branch
  int twice = 0;           ///< the weights are made by two operations on halves
  int tiles = 0;           ///< a program does one block of queries after another
  int first = 0, step = 1; ///< of the blocks of keys
  int special = 1;         ///< warps of their own copy
  int warps = 8, stages = 2;
};
SECTILE_CONFIG(Form, parts, mask, twice, tiles, first, step, special, warps, stages)

constexpr int m = 128, n = 64, width = 64;

Kernel attention{
    "delayed_dots", [](In q, In k, In v, View<float, 2> o, Int blocks, const Form &form) {
      auto body = [&](const Int &i) {
        auto sums = zeros<float>(m, width), top = full<float>(-1e30f, m), total = zeros<float>(m);
        std::vector<Tile<half>> queries;
        for (int part = 0; part < form.parts; ++part)
          queries.push_back(q.tile(m, width).load(i, part));
        for (auto j :
             range(form.first, blocks, form.step, {.warp_specialize = form.special != 0})) {
          Tile<float> scores = zeros<float>(m, n);
          for (int part = 0; part < form.parts; ++part)
            scores = dot(queries[std::size_t(part)], trans(k.tile(n, width).load(j, part)), scores);
          if (form.mask)
            when(j == 1, [&] {
              scores = where(expand(arange(0, m), 1) >= expand(arange(0, n), 0), scores, -1e30f);
            });
          auto most = maximum(top, max(scores, 1));
          auto weights = exp2(scores - expand(most, 1)), scale = exp2(top - most);
          total = total * scale + sum(weights, 1);
          auto packed = cast<half>(weights);
          if (form.twice)
            packed = packed * packed;
          sums = dot(packed, v.tile(n, width).load(j, 0), sums * expand(scale, 1));
          top = most;
        }
        o.tile(m, width).store(i, 0, sums / expand(where(total == 0.0f, 1.0f, total), 1));
      };
      if (form.tiles)
        for (auto i : range(program_id(0), cdiv(q.extent(0), m), 2))
          body(i);
      else
        body(program_id(0));
    }};

struct DelayedDots : test::OnDevice {
  static constexpr int rows = 3 * m, blocks = 5, keys = blocks * n - 24;
  std::vector<half> q, k, v;

  DelayedDots() {
    std::uint32_t state = 7;
    auto fill = [&](std::vector<half> &numbers, int count) {
      for (int i = 0; i < count; ++i) {
        state = state * 1664525 + 1013904223;
        numbers.push_back(half(float(int(state >> 24) - 128) / 256));
      }
    };
    fill(q, rows * 2 * width);
    fill(k, keys * 2 * width);
    fill(v, keys * width);
  }

  std::vector<float> run(const Form &form, int count) {
    auto qs = device.upload(q), ks = device.upload(k), vs = device.upload(v);
    auto os = device.upload(std::vector<float>(rows * width, -1));
    attention.launch(device.stream(), {form.tiles ? 2 : 3}, tensor(qs, {rows, 2 * width}),
                     tensor(ks, {keys, 2 * width}), tensor(vs, {keys, width}),
                     tensor(os, {rows, width}), count, form);
    return os.download();
  }

  std::vector<double> expected(const Form &form, int count) const {
    std::vector<double> result(rows * width);
    for (int i = 0; i < rows; ++i) {
      double total = 0;
      std::vector<double> sums(width);
      for (int block = form.first; block < count; block += form.step)
        for (int j = block * n; j < block * n + n; ++j) {
          // Keys behind the last are zeros, and so are their values.
          double score = 0;
          for (int c = 0; j < keys && c < form.parts * width; ++c)
            score += double(float(q[std::size_t(i * 2 * width + c)])) *
                     double(float(k[std::size_t(j * 2 * width + c)]));
          if (form.mask && block == 1 && i % m < j % n)
            continue;
          const double weight = std::exp2(score);
          total += weight;
          for (int c = 0; j < keys && c < width; ++c)
            sums[std::size_t(c)] += weight * double(float(v[std::size_t(j * width + c)]));
        }
      for (int c = 0; c < width; ++c)
        result[std::size_t(i * width + c)] = total ? sums[std::size_t(c)] / total : 0;
    }
    return result;
  }

  void check(const Form &form, int count) {
    const std::vector<float> found = run(form, count);
    const std::vector<double> wanted = expected(form, count);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(found[i], wanted[i], 1e-3) << "element " << i << " of " << count << " blocks";
  }
};
SECTILE_INSTANTIATE_ON(DelayedDots, "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942");

TEST_P(DelayedDots, AreRightForAnyNumberOfIterations) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (int count = 0; count <= blocks; ++count) {
    check({}, count);
    check({.parts = 2}, count);
    check({.mask = 1}, count);
    check({.tiles = 1}, count);
  }
}

TEST_P(DelayedDots, AreRightWhereverALoopBeginsAndHoweverItSteps) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (int first : {0, 1, 2})
    for (int step : {1, 2, 3})
      for (int count : {1, 4, 5})
        check({.tiles = first == 1, .first = first, .step = step}, count);
}

// The first iteration of the schedule multiplies no values: not even those of its own block.
TEST_P(DelayedDots, DoNotMultiplyZeroByInfinity) {
  v[3] = half(INFINITY);
  const std::vector<float> found = run({}, blocks);
  for (int i = 0; i < rows; ++i)
    for (int c = 0; c < width; ++c)
      ASSERT_EQ(std::isinf(found[std::size_t(i * width + c)]), c == 3) << i << ", " << c;
}

// Weights that two operations make are those of the same loop in its plain order.
TEST_P(DelayedDots, GiveWhatThePlainLoopGives) {
  for (Form form : {Form{.twice = 1}, Form{.parts = 2, .twice = 1}, Form{.twice = 1, .tiles = 1}}) {
    const std::vector<float> delayed = run(form, blocks);
    form.special = 0;
    EXPECT_THAT(delayed, Pointwise(FloatNear(1e-6f), run(form, blocks)));
  }
}

TEST(DelayedDotsCode, IsInFlightBesideTheComputation) {
  auto codeOf = [](const Form &form) {
    auto device = Device::open("virtual:sm_90a");
    auto halves = device.allocate<half>(384 * 128);
    auto floats = device.allocate<float>(384 * 64);
    auto of = [&](int r, int c) { return tensor(halves, {r, c}); };
    return attention.emit("sm_90a", "cta", of(384, 128), of(320, 128), of(320, 64),
                          tensor(floats, {384, 64}), 5, form);
  };
  for (const Form &form : {Form{}, Form{.parts = 2}, Form{.mask = 1}, Form{.twice = 1},
                           Form{.tiles = 1}, Form{.parts = 2, .mask = 1, .tiles = 1}})
    EXPECT_THAT(codeOf(form), AllOf(HasSubstr("cta.partition"), HasSubstr("cta.turn_wait"),
                                    HasSubstr("pending = 1"), HasSubstr(" behind ")));
  EXPECT_THAT(codeOf({.special = 0}), Not(HasSubstr("cta.partition")));
}

} // namespace
