// The autotuner on the virtual GPU: what it measures, what it chooses, what it leaves alone.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/autotune.h>
#include <sectile/sectile.h>
#include <thread>

using namespace sectile;
using testing::HasSubstr;

namespace {

const bool chosen =
    setenv("SECTILE_CACHE_DIR", "", 1) == 0 && setenv("SECTILE_AUTOTUNE", "on", 1) == 0;

struct MatmulTile {
  int m = 32, n = 32, k = 16;
};
SECTILE_CONFIG(MatmulTile, m, n, k)

auto matmul = [](View<const half, 2> a, View<const half, 2> b, View<half, 2> c,
                 const MatmulTile &tile) {
  auto i = program_id(0), j = program_id(1);
  auto left = a.tile(tile.m, tile.k);
  auto right = b.tile(tile.k, tile.n);
  auto sums = zeros<float>(tile.m, tile.n);
  for (auto k : range(0, cdiv(a.extent(1), tile.k)))
    sums = dot(left.load(i, k), right.load(k, j), sums);
  c.tile(tile.m, tile.n).store(i, j, sums);
};

AutotuneOptions quiet() {
  AutotuneOptions options;
  options.quiet = true;
  return options;
}

// c = a b on a device, with the grid that a configuration wants.
struct Product {
  int m, n, k;
  Device device = Device::open("virtual:sm_90a");
  Tensor<half, 2> a = random(m, k, 1), b = random(k, n, 2), c = random(m, n, 3);

  Tensor<half, 2> random(int rows, int columns, unsigned seed) {
    std::vector<half> values(static_cast<size_t>(rows * columns));
    for (half &value : values) {
      seed = seed * 1664525 + 1013904223;
      value = static_cast<float>(seed >> 24) / 64 - 2;
    }
    return tensor(device.upload(values), {rows, columns});
  }
  auto grid() const {
    return [m = m, n = n](const MatmulTile &tile) {
      return Grid((m + tile.m - 1) / tile.m, (n + tile.n - 1) / tile.n);
    };
  }
  static std::vector<half> values(const Tensor<half, 2> &tensor) {
    return Buffer<half>(tensor.memory()).download();
  }
};

TEST(Autotune, FindsTheBestByTheCostModel) {
  Kernel kernel{"tuned_matmul", matmul};
  Product p{128, 128, 64};
  Autotuner tuned{kernel,
                  space(&MatmulTile::m, {16, 32, 64}) * space(&MatmulTile::n, {16, 32, 64}) *
                      warps({2, 4}),
                  quiet()};
  ASSERT_EQ(tuned.candidates().size(), 18u);
  const std::vector<half> before = Product::values(p.c);
  const TuneReport report = tuned.tune(p.device.stream(), p.grid(), p.a, p.b, p.c);
  EXPECT_EQ(Product::values(p.c), before) << "tuning runs on copies";
  ASSERT_EQ(report.rows.size(), 18u);
  EXPECT_EQ(report.rows[0].config, "m=32 n=32 k=16 warps=4 stages=3");
  for (const auto &row : report.rows) {
    EXPECT_EQ(row.verdict, TuneVerdict::good) << row.config << row.message;
    EXPECT_GT(row.microseconds, 0);
    EXPECT_GE(row.microseconds, report.rows[report.best].microseconds);
    EXPECT_EQ(row.runs, 0u) << "the model's estimate, not a measurement";
    EXPECT_FALSE(row.known);
  }
  const auto best = tuned.best(p.device.stream(), p.a, p.b, p.c);
  EXPECT_THAT(
      report.rows[report.best].config,
      testing::StartsWith(describe(best.config) + " warps=" + std::to_string(best.options.warps)));

  tuned.launch(p.device.stream(), p.grid(), p.a, p.b, p.c);
  const std::vector<half> result = Product::values(p.c);
  kernel.launch(p.device.stream(), p.grid()({}), p.a, p.b, p.c);
  EXPECT_EQ(result, Product::values(p.c));

  const TuneReport again = tuned.tune(p.device.stream(), p.grid(), p.a, p.b, p.c);
  ASSERT_EQ(again.rows.size(), 18u);
  EXPECT_EQ(again.best, report.best);
  for (const auto &row : again.rows)
    EXPECT_TRUE(row.known);
}

// Writes which configuration ran.
struct Which {
  int size = 64, tag = 1;
};
SECTILE_CONFIG(Which, size, tag)

auto which = [](Ptr<float> out, Int n, const Which &config) {
  auto i = program_id(0) * config.size + arange(0, config.size);
  store(out + i, full<float>(config.tag, config.size), i < n);
};

// The tag of the configuration that a launch took, and how often a grid was asked for.
struct Tagged {
  explicit Tagged(int n) : n(n), out(device.upload(std::vector<float>(n))) {}

  auto grid() {
    return [this](const Which &config) {
      ++asked;
      return (n + config.size - 1) / config.size;
    };
  }
  template <class Tuned> float launch(Tuned &tuned) {
    tuned.launch(device.stream(), grid(), out, n);
    return out.download().front();
  }

  int n;
  std::atomic<int> asked = 0;
  Device device = Device::open("virtual:sm_90a");
  Buffer<float> out;
};

// The larger the tag the fewer blocks, up to 64 of them.
Space<Which> tags() {
  return (space(&Which::size, {64, 128, 256}) * space(&Which::tag, {1, 2, 3}))
      .where([](const Which &config, const LaunchOptions &) {
        return config.size == 32 << config.tag;
      });
}

AutotuneOptions anyTag() {
  AutotuneOptions options = quiet();
  options.tolerance = 1e9; // what they write is which they are
  return options;
}

TEST(Autotune, ConstraintsSeeWarpsAndStages) {
  Kernel kernel{"constrained", matmul};
  std::vector<std::pair<unsigned, unsigned>> seen;
  const auto space = (sectile::space(&MatmulTile::m, {64}) * warps({2, 8}) * stages({2, 3}))
                         .where([&](const MatmulTile &tile, const LaunchOptions &options) {
                           EXPECT_EQ(tile.m, 64);
                           seen.emplace_back(options.warps, options.stages);
                           return options.warps == 8;
                         });
  Autotuner tuned{kernel, space, quiet()};
  EXPECT_THAT(seen, testing::ElementsAre(testing::Pair(2, 2), testing::Pair(2, 3),
                                         testing::Pair(8, 2), testing::Pair(8, 3)));
  EXPECT_EQ(tuned.candidates().size(), 3u) << "two of the space, and the reference configuration";
}

TEST(Autotune, WarpsOfAConfigurationAreItsField) {
  struct Own {
    int warps = 2;
  };
  LaunchOptions options{.warps = 8};
  Own own;
  Space<Own>::completeOptions(own, options, {});
  EXPECT_EQ(own.warps, 8);
  options = {};
  Space<Own>::completeOptions(own, options, {});
  EXPECT_EQ(options.warps, 8u);
  EXPECT_EQ(options.stages, 3u);
}

TEST(Autotune, FirstLaunchTunesAndLaterOnesLookUp) {
  Kernel kernel{"tagged", which};
  Tagged run(4096);
  Autotuner tuned{kernel, tags(), anyTag()};
  const float first = run.launch(tuned);
  EXPECT_GT(run.asked, 3);
  run.asked = 0;
  EXPECT_EQ(run.launch(tuned), first);
  EXPECT_EQ(run.asked, 1) << "the launch's own";

  Autotuner again{kernel, tags(), anyTag()};
  run.asked = 0;
  EXPECT_EQ(run.launch(again), first);
  EXPECT_LE(run.asked, 2) << "what one tuner has found out, another need not";
}

TEST(Autotune, OffAndCachedNeverTune) {
  Kernel kernel{"modes", which};
  Tagged small(256), large(8192);
  AutotuneOptions off = anyTag(), cached = anyTag();
  off.mode = AutotuneMode::off;
  cached.mode = AutotuneMode::cached;
  {
    Autotuner tuned{kernel, tags(), cached};
    EXPECT_EQ(large.launch(tuned), 1) << "nothing is known: the reference configuration";
    EXPECT_LE(large.asked, 2);
  }
  Autotuner tunes{kernel, tags(), anyTag()};
  TuneReport report = tunes.tune(small.device.stream(), small.grid(), small.out, small.n);
  const float best = small.launch(tunes);
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_NE(best, 1) << report.text();
  {
    Autotuner tuned{kernel, tags(), cached};
    large.asked = 0;
    EXPECT_EQ(large.launch(tuned), best) << "the nearest bucket";
    EXPECT_LE(large.asked, 2);
    EXPECT_EQ(small.launch(tuned), best);
  }
  Autotuner tuned{kernel, tags(), off};
  EXPECT_EQ(small.launch(tuned), 1);
}

TEST(Autotune, TheEnvironmentSaysTheMode) {
  EXPECT_EQ(autotune_mode(), AutotuneMode::on);
  unsetenv("SECTILE_AUTOTUNE");
  EXPECT_EQ(autotune_mode(), AutotuneMode::cached);
  {
    Kernel kernel{"unasked", which};
    Tagged run(4096);
    Autotuner tuned{kernel, tags(), anyTag()};
    EXPECT_EQ(run.launch(tuned), 1);
    EXPECT_LE(run.asked, 2) << "a first launch does not tune unless it is asked to";
  }
  setenv("SECTILE_AUTOTUNE", "cached", 1);
  EXPECT_EQ(autotune_mode(), AutotuneMode::cached);
  setenv("SECTILE_AUTOTUNE", "off", 1);
  EXPECT_EQ(autotune_mode(), AutotuneMode::off);
  setenv("SECTILE_AUTOTUNE", "maybe", 1);
  try {
    autotune_mode();
    ADD_FAILURE() << "accepted";
  } catch (const LaunchError &error) {
    EXPECT_STREQ(error.what(), "SECTILE_AUTOTUNE is 'maybe'; it can be off, cached or on");
  }
  setenv("SECTILE_AUTOTUNE", "on", 1);
}

// What is settled is asked for again when more may be known, but not tuned again.
TEST(Autotune, ALaunchSeesWhatOthersFoundMeanwhile) {
  Kernel kernel{"meanwhile", which};
  Tagged run(4096);
  AutotuneOptions cached = anyTag();
  cached.mode = AutotuneMode::cached;
  Autotuner serves{kernel, tags(), cached}, tunes{kernel, tags(), anyTag()};
  EXPECT_EQ(run.launch(serves), 1);
  const TuneReport report = tunes.tune(run.device.stream(), run.grid(), run.out, run.n);
  ASSERT_NE(report.best, 0u) << report.text();
  EXPECT_EQ(run.launch(serves), run.launch(tunes));
  run.asked = 0;
  run.launch(serves);
  EXPECT_EQ(run.asked, 1);
}

TEST(Autotune, BucketsAreTheRules) {
  EXPECT_EQ(next_power_of_two(-3), -3);
  EXPECT_EQ(next_power_of_two(0), 0);
  EXPECT_EQ(next_power_of_two(1), 1);
  EXPECT_EQ(next_power_of_two(1000), 1024);
  EXPECT_EQ(next_power_of_two(1024), 1024);

  Kernel kernel{"bucketed", which};
  Tagged a(1000), b(1020), c(1030);
  Autotuner tuned{kernel, tags(), anyTag()};
  a.launch(tuned);
  b.launch(tuned);
  EXPECT_EQ(b.asked, 1) << "the same power of two";
  c.launch(tuned);
  EXPECT_GT(c.asked, 3);

  AutotuneOptions own = anyTag();
  own.bucket = [](const LaunchArguments &arguments) {
    return NamedExtents{{"thousands", arguments.value(1) / 1000}};
  };
  Autotuner thousands{kernel, tags(), own};
  EXPECT_EQ(thousands.tune(a.device.stream(), a.grid(), a.out, a.n).bucket,
            (NamedExtents{{"thousands", 1}}));
  c.asked = 0;
  c.launch(thousands);
  EXPECT_EQ(c.asked, 1);

  own.bucket = [](const LaunchArguments &arguments) {
    return NamedExtents{{"rows", arguments.extent(1, 0)}};
  };
  Autotuner wrong{kernel, tags(), own};
  EXPECT_THROW(a.launch(wrong), LaunchError);
}

TEST(Autotune, AddingAConfigurationMeasuresOnlyThatOne) {
  Kernel kernel{"grows", which};
  Tagged run(2048);
  Autotuner few{kernel, space(&Which::size, {64, 128}), anyTag()};
  EXPECT_EQ(few.tune(run.device.stream(), run.grid(), run.out, run.n).rows.size(), 2u);
  Autotuner more{kernel, space(&Which::size, {64, 128, 512}), anyTag()};
  run.launch(more);
  const TuneReport report = more.tune(run.device.stream(), run.grid(), run.out, run.n);
  ASSERT_EQ(report.rows.size(), 3u);
  for (const auto &row : report.rows)
    EXPECT_TRUE(row.known) << "the launch had measured it";
  Autotuner most{kernel, space(&Which::size, {64, 128, 256, 512}), anyTag()};
  const TuneReport added = most.tune(run.device.stream(), run.grid(), run.out, run.n);
  ASSERT_EQ(added.rows.size(), 4u);
  for (const auto &row : added.rows)
    EXPECT_EQ(row.known, !row.config.starts_with("size=256")) << row.config;
}

// Candidates that are wrong, and those that fail in every way that there is.
struct Trap {
  int kind = 0;
};
SECTILE_CONFIG(Trap, kind)

auto trapped = [](Ptr<const float> x, Ptr<float> y, Int n, const Trap &trap) {
  static_check(trap.kind != 2, "not like this");
  auto i = program_id(0) * 64 + arange(0, 64);
  auto inside = i < n;
  if (trap.kind == 1) // less to do than for the right result
    return store(y + i, full<float>(1, 64), inside);
  if (trap.kind == 3) // beyond the end
    return store(y + i + 4096, load(x + i, inside) * 2.0f);
  if (trap.kind == 4)
    device_assert(n < 10, "too many");
  if (trap.kind == 5) // right, but for the last bits
    return store(y + i, load(x + i, inside) * 2.0001f, inside);
  store(y + i, load(x + i, inside) + load(x + i, inside), inside);
};

TEST(Autotune, WrongAndFailingCandidatesAreRecordedAndNeverChosen) {
  Kernel kernel{"trapped", trapped};
  const Device device = Device::open("virtual:sm_90a");
  std::vector<float> values(256);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i) + 2;
  auto x = device.upload(values), y = device.upload(std::vector<float>(256, 7));
  Autotuner tuned{kernel, space(&Trap::kind, {0, 1, 2, 3, 4, 5}), quiet()};
  const TuneReport report = tuned.tune(device.stream(), Grid(4), x, y, 256);
  EXPECT_EQ(y.download(), std::vector<float>(256, 7));
  ASSERT_EQ(report.rows.size(), 6u);
  EXPECT_TRUE(report.problem.empty());
  EXPECT_EQ(report.rows[0].verdict, TuneVerdict::good);
  EXPECT_EQ(report.rows[1].verdict, TuneVerdict::wrong);
  EXPECT_EQ(report.rows[1].message,
            "argument 1: 256 of 256 elements differ from the reference configuration's; element 0 "
            "is 1 instead of 4");
  EXPECT_EQ(report.rows[2].verdict, TuneVerdict::failed);
  EXPECT_THAT(report.rows[2].message, HasSubstr("not like this"));
  EXPECT_THAT(report.text(), testing::ContainsRegex("kind=2 [^\n]* -  +-  +-  [^\n]*  failed: "))
      << "no time where none was taken";
  EXPECT_EQ(report.rows[3].verdict, TuneVerdict::failed);
  EXPECT_THAT(report.rows[3].message, HasSubstr("trapped"));
  EXPECT_EQ(report.rows[4].verdict, TuneVerdict::failed);
  EXPECT_THAT(report.rows[4].message, HasSubstr("too many"));
  EXPECT_EQ(report.rows[5].verdict, TuneVerdict::good);
  const int best = tuned.best(device.stream(), x, y, 256).config.kind;
  EXPECT_TRUE(best == 0 || best == 5);

  tuned.launch(device.stream(), Grid(4), x, y, 256);
  EXPECT_NEAR(y.download().back(), 514, 0.1);

  AutotuneOptions strict = quiet();
  strict.tolerance = 1e-6;
  Kernel strictly{"strictly", trapped};
  Autotuner exact{strictly, space(&Trap::kind, {0, 5}), strict};
  EXPECT_EQ(exact.tune(device.stream(), Grid(4), x, y, 256).rows[1].verdict, TuneVerdict::wrong);
}

// Candidates that leave out what the reference writes; the memory holds it already.
auto lazy = [](Ptr<const std::int32_t> x, Ptr<std::int32_t> y, Ptr<float> z, Ptr<float> total,
               Int n, const Trap &trap) {
  if (trap.kind == 1)
    return;
  auto i = program_id(0) * 64 + arange(0, 64);
  auto inside = i < n;
  auto value = load(x + i, inside);
  store(y + i, value * 2, trap.kind == 2 ? inside & (i != 70) : inside);
  store(z + i, cast<float>(value) + 0.5f, trap.kind == 3 ? i < 64 : inside);
  auto sums = load(total + i, inside);
  store(total + i, sums + cast<float>(value), inside);
  if (trap.kind == 4) // more than the reference does
    store(z + i + 64, full<float>(0, 64), i == 66);
};

TEST(Autotune, WhatIsNotWrittenIsNoticedWhereTheMemoryIsRightAlready) {
  Kernel kernel{"lazy", lazy};
  const Device device = Device::open("virtual:sm_90a");
  std::vector<std::int32_t> values(128);
  std::vector<float> halves(192);
  for (int i = 0; i < 128; ++i)
    values[size_t(i)] = i + 2;
  auto x = device.upload(values), y = device.upload(std::vector<std::int32_t>(192, 9));
  auto z = device.upload(std::vector<float>(192, 9)), total = device.upload(halves);
  kernel.launch(device.stream(), Grid(2), x, y, z, total, 128);
  const auto before = y.download();
  const auto sums = total.download();
  Autotuner tuned{kernel, space(&Trap::kind, {0, 1, 2, 3, 4, 5}), quiet()};
  const TuneReport report = tuned.tune(device.stream(), Grid(2), x, y, z, total, 128);
  ASSERT_EQ(report.rows.size(), 6u);
  const char *messages[] = {"",
                            "argument 1: 128 of 192 elements differ",
                            "argument 1: 1 of 192",
                            "argument 2: 64 of 192",
                            "argument 2: 1 of 192",
                            ""};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(report.rows[i].verdict, *messages[i] ? TuneVerdict::wrong : TuneVerdict::good)
        << i << report.rows[i].message;
    EXPECT_THAT(report.rows[i].message, testing::StartsWith(messages[i]));
  }
  EXPECT_THAT(report.rows[2].message, HasSubstr("element 70 is 0 instead of 144"));
  EXPECT_THAT(report.rows[3].message, HasSubstr("element 64 is nan instead of 66.5"));
  EXPECT_EQ(y.download(), before);
  EXPECT_EQ(total.download(), sums);
}

TEST(Autotune, WhatReadsItsOutputsIsCheckedOnTheUsersMemory) {
  // Zeros, which integers are spoiled with, are no index here.
  Kernel kernel{"chases", [](Ptr<const float> table, Ptr<std::int32_t> place, Ptr<float> y,
                             const Trap &trap) {
                  auto i = arange(0, 64);
                  auto at = load(place + i);
                  store(place + i, at);
                  store(y + i, load(table + (at - 1)) + (trap.kind == 1 ? 1.0f : 0.0f));
                }};
  const Device device = Device::open("virtual:sm_90a");
  auto table = device.upload(std::vector<float>(64, 3));
  auto place = device.upload(std::vector<std::int32_t>(64, 64));
  auto y = device.upload(std::vector<float>(64, 3));
  Autotuner tuned{kernel, space(&Trap::kind, {0, 1, 2}), quiet()};
  const TuneReport report = tuned.tune(device.stream(), Grid(1), table, place, y);
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(report.rows[0].verdict, TuneVerdict::good) << report.rows[0].message;
  EXPECT_EQ(report.rows[1].verdict, TuneVerdict::wrong);
  EXPECT_EQ(report.rows[2].verdict, TuneVerdict::good) << report.rows[2].message;
}

TEST(Autotune, AFailingReferenceIsAnError) {
  Kernel kernel{"no_reference", [](Ptr<float> x, const Which &config) {
                  static_check(config.size != 64, "the default does not work");
                  store(x + arange(0, config.size), zeros<float>(config.size));
                }};
  const Device device = Device::open("virtual:sm_90a");
  auto x = device.allocate<float>(1024);
  Autotuner tuned{kernel, space(&Which::size, {64, 128}), quiet()};
  EXPECT_THROW(tuned.launch(device.stream(), Grid(1), x), CompileError);
}

// y += x, in place: each run must see what was there before.
TEST(Autotune, AccumulatingKernelsAreNotCorrupted) {
  Kernel plain{"accumulates", [](Ptr<const float> x, Ptr<float> y, Int n, const Which &config) {
                 auto i = program_id(0) * config.size + arange(0, config.size);
                 store(y + i, load(y + i, i < n) + load(x + i, i < n), i < n);
               }};
  Kernel atomic{"accumulates_all",
                [](Ptr<const float> x, Ptr<float> y, Int n, const Which &config) {
                  auto i = program_id(0) * config.size + arange(0, config.size);
                  atomic_add(y, sum(load(x + i, i < n), 0));
                }};
  const Device device = Device::open("virtual:sm_90a");
  auto x = device.upload(std::vector<float>(512, 1));
  auto grid = [](const Which &config) { return 512 / config.size; };
  const auto sizes = space(&Which::size, {32, 64, 128, 256});
  auto y = device.upload(std::vector<float>(512, 5));
  Autotuner tuned{plain, sizes, quiet()};
  tuned.launch(device.stream(), grid, x, y, 512);
  EXPECT_EQ(y.download(), std::vector<float>(512, 6)) << "once, by the launch itself";
  for (const auto &row : tuned.tune(device.stream(), grid, x, y, 512).rows)
    EXPECT_EQ(row.verdict, TuneVerdict::good) << row.message;

  auto total = device.upload(std::vector<float>(1, 5));
  Autotuner all{atomic, sizes, quiet()};
  all.launch(device.stream(), grid, x, total, 512);
  EXPECT_EQ(total.download().front(), 517);
  for (const auto &row : all.tune(device.stream(), grid, x, total, 512).rows)
    EXPECT_EQ(row.verdict, TuneVerdict::good) << row.message;

  // The output is an input as well, by another argument and from another place of the buffer.
  auto both = device.upload(std::vector<float>(1024, 2));
  Kernel shift{"shifts", [](Ptr<const float> x, Ptr<float> y, Int n, const Which &config) {
                 auto i = program_id(0) * config.size + arange(0, config.size);
                 store(y + i, load(y + i, i < n) * load(x + i, i < n), i < n);
               }};
  Autotuner aliased{shift, sizes, quiet()};
  aliased.launch(device.stream(), grid, both.slice(256, 512), both.slice(0, 512), 256);
  std::vector<float> expected(1024, 2);
  std::fill_n(expected.begin(), 256, 4.0f);
  EXPECT_EQ(both.download(), expected);
}

TEST(Autotune, MemoryOfUnknownSizeIsRefused) {
  Kernel kernel{"bare", which};
  Tagged run(256);
  Autotuner tuned{kernel, tags(), anyTag()};
  try {
    tuned.tune(run.device.stream(), run.grid(), run.out.data(), run.n);
    ADD_FAILURE() << "accepted";
  } catch (const LaunchError &error) {
    EXPECT_STREQ(error.what(),
                 "kernel 'bare': argument 0 is written, and its size is not known, so it cannot be "
                 "tuned on a copy: pass a Buffer or a Tensor of one, or name the arguments that "
                 "are written in AutotuneOptions::outputs");
  }
  AutotuneOptions named = anyTag();
  named.outputs = std::vector<std::size_t>{1};
  Autotuner odd{kernel, tags(), named};
  EXPECT_THROW(odd.tune(run.device.stream(), run.grid(), run.out, run.n), LaunchError);
}

TEST(Autotune, ArgumentsOfAnotherDeviceAreRefused) {
  Kernel kernel{"elsewhere", which};
  Tagged run(256);
  Autotuner tuned{kernel, tags(), anyTag()};
  try {
    tuned.tune(Device::open("virtual:sm_80").stream(), run.grid(), run.out, run.n);
    ADD_FAILURE() << "accepted";
  } catch (const LaunchError &error) {
    EXPECT_STREQ(error.what(), "kernel 'elsewhere': argument 0 lies on virtual:sm_90a, the stream "
                               "is one of virtual:sm_80");
  }
}

TEST(Autotune, ThreadsTuneOnce) {
  Kernel kernel{"threads", which};
  Tagged first(1024), second(1024);
  Autotuner tuned{kernel, tags(), anyTag()};
  float results[2];
  std::thread other([&] { results[0] = first.launch(tuned); });
  results[1] = second.launch(tuned);
  other.join();
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(std::min<int>(first.asked, second.asked), 2)
      << "one of them asks what is known, and launches";
}

TEST(Autotune, WhoAskedNotToWaitGoesOn) {
  Kernel kernel{"impatient", which};
  Tagged tuning(2048), serving(2048);
  AutotuneOptions options = anyTag();
  options.wait = false;
  Autotuner tunes{kernel, tags(), anyTag()}, serves{kernel, tags(), options};
  std::atomic<bool> asked = false;
  float served = 0;
  // While one tunes, the other launches.
  auto grid = [&](const Which &config) {
    if (!asked.exchange(true))
      return 1; // asked for the key, before the tuning
    if (served == 0 && config.tag == 1) {
      served = -1;
      served = serving.launch(serves);
    }
    return (2048 + config.size - 1) / config.size;
  };
  AutotuneOptions alone = anyTag();
  alone.threads = 1;
  Autotuner tuned{kernel, tags(), alone};
  const TuneReport report = tuned.tune(tuning.device.stream(), grid, tuning.out, tuning.n);
  EXPECT_EQ(served, 1) << "the reference configuration";
  EXPECT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(serving.launch(serves), tuning.launch(tunes)) << "later what was found";
}

TEST(Autotune, ASpentBudgetLeavesTheReference) {
  Kernel kernel{"hurried", which};
  Tagged run(1024);
  AutotuneOptions options = anyTag();
  options.seconds = 1e-9;
  Autotuner hurried{kernel, tags(), options};
  EXPECT_TRUE(hurried.tune(run.device.stream(), run.grid(), run.out, run.n).rows.empty());
  EXPECT_EQ(run.launch(hurried), 1);
  options.seconds = 0;
  options.candidates = 1;
  Autotuner one{kernel, tags(), options};
  EXPECT_EQ(one.tune(run.device.stream(), run.grid(), run.out, run.n).rows.size(), 2u);
  options.candidates = 0;
  Autotuner all{kernel, tags(), options};
  EXPECT_EQ(all.tune(run.device.stream(), run.grid(), run.out, run.n).rows.size(), 3u);
}

// Whatever the order of the space.
TEST(Autotune, ALimitLeavesOutWhatIsFarFromTheReference) {
  Kernel kernel{"limited", which};
  Tagged run(1024);
  AutotuneOptions options = anyTag();
  options.candidates = 3;
  Autotuner few{kernel, space(&Which::size, {16, 512, 32, 256, 128, 64}) * warps({8, 2, 4}),
                options};
  std::vector<std::string> measured;
  for (const auto &row : few.tune(run.device.stream(), run.grid(), run.out, run.n).rows)
    measured.push_back(row.config);
  // The reference is size=64 warps=4.
  EXPECT_THAT(measured,
              testing::UnorderedElementsAre(testing::StartsWith("size=64 tag=1 warps=4"),
                                            testing::StartsWith("size=32 tag=1 warps=4"),
                                            testing::StartsWith("size=128 tag=1 warps=4"),
                                            testing::ContainsRegex("size=64 tag=1 warps=(2|8)")));
}

TEST(Autotune, ResultsAreTheSameEveryTime) {
  Product p{64, 64, 64};
  auto tune = [&](const char *name, const char *device, Strategy strategy, size_t candidates) {
    Kernel kernel{name, matmul};
    p.device = Device::open(device);
    p.a = p.random(64, 64, 1);
    p.b = p.random(64, 64, 2);
    p.c = p.random(64, 64, 3);
    AutotuneOptions options = quiet();
    options.strategy = strategy;
    options.candidates = candidates;
    options.seed = 3;
    Autotuner tuned{kernel, space(&MatmulTile::m, {16, 32, 64}) * space(&MatmulTile::k, {16, 32}),
                    options};
    std::vector<std::pair<std::string, double>> times;
    for (const auto &row : tuned.tune(p.device.stream(), p.grid(), p.a, p.b, p.c).rows)
      times.emplace_back(row.config, row.microseconds);
    return times;
  };
  const auto all = tune("steady", "virtual:sm_80", Strategy::exhaustive, 0);
  // One kernel by two names: the second knows nothing of the first's results.
  const auto some = tune("steady", "virtual:sm_90a", Strategy::random, 3);
  EXPECT_EQ(some.size(), 4u);
  EXPECT_EQ(tune("again", "virtual:sm_90a", Strategy::random, 3), some);
  EXPECT_EQ(all.size(), 6u);
}

TEST(Autotune, HalvingMeasuresTheLikelierHalf) {
  Kernel kernel{"halved", matmul};
  Product p{128, 128, 128};
  const auto tiles = space(&MatmulTile::m, {16, 32, 64}) * space(&MatmulTile::n, {16, 32, 64}) *
                     space(&MatmulTile::k, {16, 32});
  AutotuneOptions options = quiet();
  Autotuner all{kernel, tiles, options};
  const TuneReport full = all.tune(p.device.stream(), p.grid(), p.a, p.b, p.c);
  ASSERT_EQ(full.rows.size(), 18u);

  options.strategy = Strategy::halving;
  Kernel other{"unknown", matmul};
  Autotuner half{other, tiles, options};
  const TuneReport report = half.tune(p.device.stream(), p.grid(), p.a, p.b, p.c);
  ASSERT_EQ(report.rows.size(), 9u) << "8 of 17, and the reference configuration";
  EXPECT_LE(report.rows[report.best].microseconds, 1.1 * full.rows[full.best].microseconds);
  std::size_t better = 0;
  double median = 0;
  {
    std::vector<double> times;
    for (const auto &row : full.rows)
      times.push_back(row.microseconds);
    std::sort(times.begin(), times.end());
    median = times[times.size() / 2];
  }
  for (const auto &row : report.rows)
    better += row.microseconds <= median;
  EXPECT_GE(better, 6u);
  p.c = p.random(128, 128, 3);
  const TuneReport again = half.tune(p.device.stream(), p.grid(), p.a, p.b, p.c);
  ASSERT_EQ(again.rows.size(), 9u);
  for (const auto &row : again.rows)
    EXPECT_TRUE(row.known);
}

TEST(Autotune, CtrlCStopsAndKeepsWhatWasMeasured) {
  Kernel kernel{"stopped", which};
  Tagged run(4096);
  struct sigaction before, after;
  sigaction(SIGINT, nullptr, &before);
  AutotuneOptions options = anyTag();
  options.threads = 1;
  Autotuner tuned{kernel, space(&Which::size, {64, 128, 256}) * warps({1, 2, 4, 8}), options};
  // Each candidate's grid is asked for when it is looked at, compiled, and measured.
  std::atomic<int> asked = 0;
  auto grid = [&](const Which &config) {
    if (++asked == 22)
      std::raise(SIGINT);
    return (run.n + config.size - 1) / config.size;
  };
  const TuneReport report = tuned.tune(run.device.stream(), grid, run.out, run.n);
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  EXPECT_TRUE(report.interrupted);
  EXPECT_GE(report.rows.size(), 1u);
  EXPECT_LT(report.rows.size(), 12u);
  const TuneReport rest = tuned.tune(run.device.stream(), run.grid(), run.out, run.n);
  EXPECT_FALSE(rest.interrupted);
  EXPECT_EQ(rest.rows.size(), 12u);
  size_t known = 0;
  for (const auto &row : rest.rows)
    known += row.known;
  EXPECT_EQ(known, report.rows.size());
}

} // namespace
