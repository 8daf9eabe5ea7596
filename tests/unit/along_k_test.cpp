// Products whose operands do not lie along K, of types that matrix units read along K alone: a step
// turns them on their way through shared memory. Small whole numbers, so that results are exact.
#include "ops/Devices.h"
#include "tests/unit/LoopPlans.h"
#include <gmock/gmock.h>
#include <sectile/cta.h>
#include <sectile/sectile.h>

using namespace sectile;
using testing::HasSubstr;

namespace {

[[maybe_unused]] const bool plans = alwaysWithLoopPlans();

/// Which operands are stored across K.
struct Form {
  int turns_a = 0, turns_b = 1;
  int m = 128, n = 128, k = 128;
  int warps = 8, stages = 2;
  int special = 1; ///< warps of their own copy
  int tiles = 0;   ///< a program does one tile after another
};
SECTILE_CONFIG(Form, turns_a, turns_b, m, n, k, warps, stages, special, tiles)

template <class T> using SumOf = std::conditional_t<std::is_integral_v<T>, std::int32_t, float>;

template <class T>
Kernel product{
    "along_k",
    [](View<const T, 2> a, View<const T, 2> b, View<SumOf<T>, 2> c, Int depth, const Form &form) {
      const auto counts = c.tiles(form.m, form.n);
      const Int count = counts[0] * counts[1];
      auto body = [&](const Int &tile) {
        const Int i = tile / counts[1], j = tile % counts[1];
        auto sums = zeros<SumOf<T>>(form.m, form.n);
        for (auto k : range(0, cdiv(depth, form.k), 1, {.warp_specialize = form.special != 0})) {
          auto left = form.turns_a ? trans(a.tile(form.k, form.m).load(k, i))
                                   : a.tile(form.m, form.k).load(i, k);
          auto right = form.turns_b ? b.tile(form.k, form.n).load(k, j)
                                    : trans(b.tile(form.n, form.k).load(j, k));
          sums = dot(left, right, sums);
        }
        c.tile(form.m, form.n).store(i, j, sums);
      };
      if (form.tiles)
        for (auto tile : range(program_id(0), count, num_programs(0)))
          body(tile);
      else
        body(program_id(0));
    }};

struct AlongK : test::OnDevice {
  template <class T> void expectExact(const Form &form, int m, int n, int k) {
    SCOPED_TRACE(testing::Message()
                 << m << " by " << n << " by " << k << ", tile " << form.m << " by " << form.n
                 << " by " << form.k << ", " << form.warps << " warps");
    std::uint32_t state = 5;
    auto numbers = [&](int count) {
      std::vector<T> all;
      for (int i = 0; i < count; ++i) {
        state = state * 1664525 + 1013904223;
        all.push_back(T(float(int(state >> 24) % 9 - 4)));
      }
      return all;
    };
    const std::vector<T> a = numbers(m * k), b = numbers(k * n);
    auto as = device.upload(a), bs = device.upload(b);
    auto c = device.allocate<SumOf<T>>(m * n);
    const int programs = form.tiles ? 2 : cdiv(m, form.m) * cdiv(n, form.n);
    product<T>.launch(
        device.stream(), programs, form.turns_a ? tensor(as, {k, m}) : tensor(as, {m, k}),
        form.turns_b ? tensor(bs, {k, n}) : tensor(bs, {n, k}), tensor(c, {m, n}), k, form);
    const auto results = c.download();
    int wrong = 0;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int p = 0; p < k; ++p)
          sum += double(float(a[form.turns_a ? p * m + i : i * k + p])) *
                 double(float(b[form.turns_b ? p * n + j : j * k + p]));
        wrong += double(results[i * n + j]) != sum;
      }
    EXPECT_EQ(wrong, 0);
  }

  template <class T> void expectExact() {
    const int line = 128 / int(sizeof(T)), depth = 2 * line + 16;
    for (const auto &[a, b] : {std::pair(0, 1), std::pair(1, 0), std::pair(1, 1)}) {
      SCOPED_TRACE(testing::Message() << "turned: " << a << ", " << b);
      expectExact<T>({.turns_a = a, .turns_b = b, .k = line}, 160, 144, depth);
    }
    expectExact<T>({.k = line, .special = 0}, 128, 160, depth);
    expectExact<T>({.k = line, .tiles = 1}, 320, 144, depth);
    // Lines of 64 and 32 bytes, other widths, rows of no whole 16 bytes, one step alone.
    expectExact<T>({.m = 64, .n = 96, .k = line / 2, .warps = 4}, 64, 96, depth);
    expectExact<T>({.turns_a = 1, .m = 64, .n = 64, .k = line / 4, .warps = 4}, 96, 64, depth);
    expectExact<T>({.m = 64, .n = 256, .k = line, .warps = 4}, 70, 250, line - 3);
  }
};

SECTILE_INSTANTIATE_ON(AlongK, "virtual:sm_90a,virtual:sm_80");

TEST_P(AlongK, Float8) { expectExact<float8_e4m3>(); }
TEST_P(AlongK, Int8) { expectExact<std::int8_t>(); }
TEST_P(AlongK, Float32) {
  expectExact<float>();
  // Rows that warpgroups share evenly the other way round, and such that they do not.
  expectExact<float>({.m = 256, .n = 128, .k = 32, .tiles = 1}, 300, 200, 80);
  expectExact<float>({.m = 192, .n = 128, .k = 32}, 192, 200, 80);
  expectExact<float>({.m = 128, .n = 192, .k = 32}, 130, 192, 80);
  expectExact<float>({.m = 16, .n = 64, .k = 64, .warps = 4}, 16, 100, 150);
}

/// Channels of the kernel's own, of which both operands lie across K.
Kernel ringed{"along_k_ring", [](View<const std::int8_t, 2> a, View<const std::int8_t, 2> b,
                                 View<std::int32_t, 2> c, Int steps, const Form &form) {
                cta::Channel ring(form.stages, cta::TileOf<std::int8_t>{form.k, form.m},
                                  cta::TileOf<std::int8_t>{form.k, form.n});
                auto sums = zeros<std::int32_t>(form.m, form.n);
                for (auto k : range(0, steps)) {
                  auto [to, beside] = ring.acquire();
                  to.copy(a.tile(form.k, form.m), k, 0);
                  beside.copy(b.tile(form.k, form.n), k, 0);
                  ring.commit();
                  auto [left, right] = ring.wait();
                  sums = dot(trans(left.read()), right.read(), sums);
                  ring.release();
                }
                c.tile(form.m, form.n).store(0, 0, sums);
              }};

// Rings of loops make room for what is turned, and those that a kernel states do not.
TEST_P(AlongK, ChannelsLeaveRoomOrDotsStay) {
  constexpr int steps = 3;
  const auto multipliesByWarpgroups = [&](const Form &form) {
    const int depth = steps * form.k;
    auto a = device.allocate<std::int8_t>(depth * form.m),
         b = device.allocate<std::int8_t>(depth * form.n);
    auto c = device.allocate<std::int32_t>(form.m * form.n);
    return ringed
               .emit("sm_90a", "ptx", tensor(a, {depth, form.m}), tensor(b, {depth, form.n}),
                     tensor(c, {form.m, form.n}), steps, form)
               .find("wgmma.mma_async") != std::string::npos;
  };
  EXPECT_TRUE(multipliesByWarpgroups({.k = 128}));
  EXPECT_FALSE(multipliesByWarpgroups({.m = 192, .k = 256}));
}

// Warpgroups multiply them, and no number goes to shared memory or comes from there alone.
TEST_P(AlongK, WordsGoBothWays) {
  auto a = device.allocate<float8_e4m3>(256 * 256), b = device.allocate<float8_e4m3>(256 * 256);
  auto c = device.allocate<float>(256 * 256);
  const std::string code =
      product<float8_e4m3>.emit("sm_90a", "ptx", tensor(a, {256, 256}), tensor(b, {256, 256}),
                                tensor(c, {256, 256}), 256, Form{});
  EXPECT_THAT(code, HasSubstr("wgmma.mma_async"));
  EXPECT_THAT(code, Not(HasSubstr("st.shared.b8")));
  EXPECT_THAT(code, Not(HasSubstr("ld.shared.b8")));
}

// Words go to registers as they lie, as the left operand: the loop's sums are those of transposed
// operands where they are b's.
TEST_P(AlongK, WordsAreReadIntoRegisters) {
  auto a = device.allocate<float>(256 * 256), b = device.allocate<float>(256 * 256),
       c = device.allocate<float>(256 * 256);
  for (const auto &[turnsA, turnsB] : {std::pair(0, 1), std::pair(1, 0)}) {
    const Form form{.turns_a = turnsA, .turns_b = turnsB, .m = 256, .k = 32, .tiles = 1};
    const std::string code =
        product<float>.emit("sm_90a", "ptx", tensor(a, {256, 256}), tensor(b, {256, 256}),
                            tensor(c, {256, 256}), 256, form);
    const std::string left = "[{]%r[0-9]+, %r[0-9]+, %r[0-9]+, %r[0-9]+[}]";
    EXPECT_THAT(code, testing::ContainsRegex("wgmma.mma_async.sync.aligned.m64n" +
                                             std::string(turnsB ? "256" : "128") +
                                             "k8.f32.tf32.tf32 .*, " + left + ", %rd"));
  }
}

/// Sums that begin as other numbers, two of them in a loop, and one that the loop also reads.
Kernel several{"along_k_several",
               [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c,
                  View<float, 2> d, View<float, 2> least, Int depth, const Form &form) {
                 auto first = c.tile(form.m, form.n).load(0, 0),
                      second = zeros<float>(form.m, form.n), lowest = first;
                 for (auto k : range(0, cdiv(depth, form.k))) {
                   auto left = a.tile(form.m, form.k).load(0, k);
                   auto right = b.tile(form.k, form.n).load(k, 0);
                   first = dot(left, right, first);
                   lowest = minimum(lowest, second);
                   second = dot(left * 2, right, second);
                 }
                 c.tile(form.m, form.n).store(0, 0, first);
                 d.tile(form.m, form.n).store(0, 0, second);
                 least.tile(form.m, form.n).store(0, 0, lowest);
               }};

TEST_P(AlongK, SumsThatLoopsReadOrBeginWith) {
  constexpr int m = 128, n = 64, k = 96;
  const Form form{.m = m, .n = n, .k = 32, .warps = 4};
  auto number = [](int i) { return float(i * 7919 % 9 - 4); };
  std::vector<float> a, b, c;
  for (int i = 0; i < m * k; ++i)
    a.push_back(number(i));
  for (int i = 0; i < k * n; ++i)
    b.push_back(number(i + 5));
  for (int i = 0; i < m * n; ++i)
    c.push_back(number(i + 3));
  auto as = device.upload(a), bs = device.upload(b), cs = device.upload(c);
  auto ds = device.allocate<float>(m * n), leasts = device.allocate<float>(m * n);
  several.launch(device.stream(), 1, tensor(as, {m, k}), tensor(bs, {k, n}), tensor(cs, {m, n}),
                 tensor(ds, {m, n}), tensor(leasts, {m, n}), k, form);
  const auto firsts = cs.download(), seconds = ds.download(), lowest = leasts.download();
  int wrong = 0;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0, least = c[i * n + j];
      for (int p = 0; p < k; ++p) {
        if (p % form.k == 0)
          least = std::min(least, 2 * sum);
        sum += a[i * k + p] * b[p * n + j];
      }
      wrong += firsts[i * n + j] != c[i * n + j] + sum || seconds[i * n + j] != 2 * sum ||
               lowest[i * n + j] != least;
    }
  EXPECT_EQ(wrong, 0);
}

// Each step's sums scaled by row and column, clamped, and added to totals that begin as something.
template <class T>
Kernel scaledSteps{
    "along_k_scaled", [](View<const T, 2> a, View<const T, 2> b, View<const float, 2> first,
                         View<float, 2> c, Int depth, const Form &form) {
      auto totals = first.tile(form.m, form.n).load(0, 0);
      for (auto k : range(0, cdiv(depth, form.k), 1, {.warp_specialize = form.special != 0})) {
        auto left = form.turns_a ? trans(a.tile(form.k, form.m).load(k, 0))
                                 : a.tile(form.m, form.k).load(0, k);
        auto sums = cast<float>(
            dot(left, b.tile(form.k, form.n).load(k, 0), zeros<SumOf<T>>(form.m, form.n)));
        auto rows = cast<float>(arange(0, form.m) % 5 + cast<std::int32_t>(k)),
             columns = cast<float>(arange(0, form.n) % 3 + 1);
        auto scaled = sums * expand(rows, 1) * expand(columns, 0);
        totals = where(scaled > 0.0f, scaled, 2.0f * scaled) + totals;
      }
      c.tile(form.m, form.n).store(0, 0, totals);
    }};

TEST_P(AlongK, TotalsOfWhatBecomesOfSteps) {
  constexpr int k = 224;
  const auto expect = [&]<class T>(const Form &form) {
    SCOPED_TRACE(testing::Message() << form.m << " by " << form.n << ", turned: " << form.turns_a);
    const int m = form.m, n = form.n;
    auto number = [](int i) { return i * 7919 % 9 - 4; };
    std::vector<T> a, b;
    std::vector<float> first;
    for (int i = 0; i < m * k; ++i)
      a.push_back(T(float(number(i))));
    for (int i = 0; i < k * n; ++i)
      b.push_back(T(float(number(i + 5))));
    for (int i = 0; i < m * n; ++i)
      first.push_back(float(number(i + 3)));
    auto as = device.upload(a), bs = device.upload(b);
    auto firsts = device.upload(first), cs = device.allocate<float>(m * n);
    scaledSteps<T>.launch(device.stream(), 1,
                          form.turns_a ? tensor(as, {k, m}) : tensor(as, {m, k}),
                          tensor(bs, {k, n}), tensor(firsts, {m, n}), tensor(cs, {m, n}), k, form);
    const auto c = cs.download();
    int wrong = 0;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        float total = first[i * n + j];
        for (int step = 0; step * form.k < k; ++step) {
          float sum = 0;
          for (int p = step * form.k; p < std::min(k, (step + 1) * form.k); ++p)
            sum += float(a[form.turns_a ? p * m + i : i * k + p]) * float(b[p * n + j]);
          const float scaled = sum * float(i % 5 + step) * float(j % 3 + 1);
          total += scaled > 0 ? scaled : 2 * scaled;
        }
        wrong += c[i * n + j] != total;
      }
    EXPECT_EQ(wrong, 0);
  };
  for (const int turnsA : {0, 1})
    for (const Form &form :
         {Form{.m = 128, .n = 128, .k = 128}, Form{.m = 64, .n = 192, .k = 64, .warps = 4},
          Form{.m = 16, .n = 64, .k = 128, .warps = 4, .special = 0},
          Form{.m = 32, .n = 32, .k = 32, .warps = 2, .special = 0}}) {
      Form turned = form;
      turned.turns_a = turnsA;
      expect.operator()<std::int8_t>(turned);
      expect.operator()<float8_e4m3>(turned);
    }
}

} // namespace
