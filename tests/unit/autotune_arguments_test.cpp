// Configurations that are valid for some launches only: the predicates of a space, asked with the
// arguments when candidates are made and when a measurement of another launch would be used.
#include <atomic>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/autotune.h>
#include <sectile/sectile.h>

using namespace sectile;
using testing::AllOf;
using testing::HasSubstr;

namespace {

const bool chosen =
    setenv("SECTILE_CACHE_DIR", "", 1) == 0 && setenv("SECTILE_AUTOTUNE", "cached", 1) == 0;

struct Rows {
  int block = 128;
  bool single = false; // a row fits a block
};
SECTILE_CONFIG(Rows, block, single)

auto rowSum = [](View<const float, 2> x, Ptr<float> y, const Rows &rows) {
  auto row = program_id(0);
  auto from = x.at(row).tile(rows.block);
  if (rows.single) {
    store(y + row, sum(from.load(0)));
  } else {
    auto sums = zeros<float>(rows.block);
    for (auto i : range(0, cdiv(x.extent(1), rows.block)))
      sums += from.load(i);
    store(y + row, sum(sums));
  }
};

// [where]
// `single`: a block holds a whole row. Argument 0 is x, and its axis 1 is as long as a row.
const auto rowSpace =
    (space(&Rows::block, {128, 384, 512}) * space(&Rows::single, {false, true}))
        .where([](const Rows &rows, const LaunchOptions &, const LaunchArguments &arguments) {
          return !rows.single || rows.block >= arguments.extent(0, 1);
        });
// [/where]

AutotuneOptions quiet(AutotuneMode mode = AutotuneMode::cached) {
  AutotuneOptions options;
  options.quiet = true;
  options.mode = mode;
  return options;
}

template <class Tuned> struct RowSums {
  Tuned &tuned;
  Device device;

  auto of(std::int64_t width,
          const std::function<void(const Tensor<float, 2> &, Buffer<float> &)> &work) const {
    auto x = device.allocate<float>(static_cast<std::size_t>(8 * width));
    auto y = device.allocate<float>(8);
    x.fill(1);
    work(tensor(x, {8, width}), y);
    return y.download()[0];
  }
  TuneReport tune(std::int64_t width) const {
    TuneReport report;
    of(width, [&](const Tensor<float, 2> &x, Buffer<float> &y) {
      report = tuned.tune(device.stream(), 8, x, y);
    });
    return report;
  }
  float launch(std::int64_t width) const {
    return of(width, [&](const Tensor<float, 2> &x, Buffer<float> &y) {
      tuned.launch(device.stream(), 8, x, y);
    });
  }
  Rows best(std::int64_t width) const {
    Rows rows;
    of(width, [&](const Tensor<float, 2> &x, Buffer<float> &y) {
      rows = tuned.best(device.stream(), x, y).config;
    });
    return rows;
  }
};
template <class Tuned> RowSums(Tuned &, Device) -> RowSums<Tuned>;

TEST(AutotuneArguments, RowsOfOtherWidthsAreRight) {
  Kernel kernel{"row_sum", rowSum};
  Autotuner tuned{kernel, rowSpace, quiet()};
  const RowSums sums{tuned, Device::open("virtual:sm_90a")};
  EXPECT_EQ(sums.tune(512).rows.size(), 4u) << "two blocks are too narrow";
  EXPECT_TRUE(sums.best(512).single) << "else this test shows nothing";
  for (const std::int64_t width : {512, 300, 700, 1000, 5000, 100})
    EXPECT_EQ(sums.launch(width), static_cast<float>(width));
  EXPECT_FALSE(sums.best(1000).single);
}

// Bucket 512 holds widths from 257 to 512.
TEST(AutotuneArguments, LaunchesOfOneBucketAreAskedForOneByOne) {
  Kernel kernel{"row_sum_in_bucket", rowSum};
  const auto narrow =
      (space(&Rows::block, {128, 384}) * space(&Rows::single, {false, true}))
          .where([](const Rows &rows, const LaunchOptions &, const LaunchArguments &arguments) {
            return !rows.single || rows.block >= arguments.extent(0, 1);
          });
  for (const AutotuneMode mode : {AutotuneMode::cached, AutotuneMode::on}) {
    Autotuner tuned{kernel, narrow, quiet(mode)};
    const RowSums sums{tuned, Device::open("virtual:sm_90a")};
    sums.tune(300);
    ASSERT_TRUE(sums.best(300).single);
    for (const std::int64_t width : {300, 500, 384, 385, 300}) {
      EXPECT_EQ(sums.launch(width), static_cast<float>(width));
      EXPECT_EQ(sums.best(width).single, width <= 384) << width;
    }
  }
  // What another tuner, as of another process, has left in the database.
  Autotuner later{kernel, narrow, quiet()};
  const RowSums sums{later, Device::open("virtual:sm_90a")};
  EXPECT_EQ(sums.launch(500), 500);
  EXPECT_EQ(sums.launch(300), 300);
  EXPECT_TRUE(sums.best(300).single);
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

// The larger the tag the fewer blocks: up to 64 of them that is faster.
Space<Which> tags() {
  return (space(&Which::size, {64, 128, 256}) * space(&Which::tag, {1, 2, 3}))
      .where([](const Which &config, const LaunchOptions &) {
        return config.size == 32 << config.tag;
      });
}

AutotuneOptions anyTag(AutotuneMode mode = AutotuneMode::cached) {
  AutotuneOptions options = quiet(mode);
  options.tolerance = 1e9; // what they write is which they are
  return options;
}

struct Tagged {
  Device device = Device::open("virtual:sm_90a");

  template <class Tuned> float launch(Tuned &tuned, int n) {
    auto out = device.allocate<float>(static_cast<std::size_t>(n));
    tuned.launch(device.stream(), grid(n), out, n);
    return out.download().front();
  }
  template <class Tuned> TuneReport tune(Tuned &tuned, int n) {
    auto out = device.allocate<float>(static_cast<std::size_t>(n));
    return tuned.tune(device.stream(), grid(n), out, n);
  }
  static std::function<Grid(const Which &)> grid(int n) {
    return [n](const Which &config) { return Grid((n + config.size - 1) / config.size); };
  }
};

bool isBelow(const LaunchArguments &arguments, std::int64_t most) {
  return arguments.value(1) <= most;
}

TEST(AutotuneArguments, TheNextNearestIsTakenWhereTheNearestIsNotValid) {
  Kernel kernel{"tag_nearest", which};
  Tagged run;
  const auto space = tags().where(
      [](const Which &config, const LaunchOptions &, const LaunchArguments &arguments) {
        // Below 1000 tag 2 alone, to 10,000 tag 3 alone; beyond it 1 and 2.
        return isBelow(arguments, 1000)    ? config.tag == 2
               : isBelow(arguments, 10000) ? config.tag == 3
                                           : config.tag <= 2;
      });
  Autotuner tuned{kernel, space, anyTag()};
  EXPECT_EQ(run.tune(tuned, 500).rows.size(), 1u);
  EXPECT_EQ(run.tune(tuned, 4000).rows.size(), 1u);
  EXPECT_EQ(run.launch(tuned, 500), 2);
  EXPECT_EQ(run.launch(tuned, 4000), 3);
  EXPECT_EQ(run.launch(tuned, 20000), 2) << "4000 is nearer, but tag 3 is not valid here";
}

TEST(AutotuneArguments, TheKernelsOwnConfigurationIsAskedForToo) {
  Kernel kernel{"tag_own", which};
  const auto space = tags().where(
      [](const Which &config, const LaunchOptions &, const LaunchArguments &arguments) {
        return config.tag == 3 || (config.tag == 2 && isBelow(arguments, 1000));
      });
  for (const AutotuneMode mode : {AutotuneMode::off, AutotuneMode::cached, AutotuneMode::on}) {
    Tagged run;
    Autotuner tuned{kernel, space, anyTag(mode)};
    EXPECT_EQ(run.launch(tuned, 4000), 3);
    run.device = Device::open("interpreter");
    EXPECT_EQ(run.launch(tuned, 500), 2);
    EXPECT_EQ(run.launch(tuned, 4000), 3);
  }
  Tagged run;
  AutotuneOptions halving = anyTag();
  halving.strategy = Strategy::halving;
  Autotuner tuned{kernel, space, halving};
  const TuneReport report = run.tune(tuned, 500);
  ASSERT_EQ(report.rows.size(), 2u) << report.text();
  EXPECT_THAT(report.rows[0].config, HasSubstr("tag=2"));
  EXPECT_THAT(report.rows[1].config, HasSubstr("tag=3"));
}

TEST(AutotuneArguments, NumericsAreThoseOfTheLaunchesReference) {
  Kernel kernel{"tag_numerics", which};
  const auto space = tags().where(
      [](const Which &config, const LaunchOptions &, const LaunchArguments &arguments) {
        return config.tag != 1 || isBelow(arguments, 1000);
      });
  AutotuneOptions options = anyTag();
  options.numerics = Numerics::fixed;
  Autotuner tuned{kernel, space, options};
  Tagged run;
  EXPECT_EQ(run.tune(tuned, 500).rows.size(), 1u);
  EXPECT_EQ(run.launch(tuned, 500), 1);
  EXPECT_EQ(run.tune(tuned, 4000).rows.size(), 1u);
  EXPECT_EQ(run.launch(tuned, 4000), 2) << "every time, whatever was measured";
}

std::string messageOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const LaunchError &error) {
    return error.what();
  }
  return "accepted";
}

TEST(AutotuneArguments, NoValidConfigurationIsAnError) {
  Kernel kernel{"tag_none", which};
  const auto space =
      tags().where([](const Which &, const LaunchOptions &, const LaunchArguments &arguments) {
        return isBelow(arguments, 1000);
      });
  Tagged run;
  for (const AutotuneMode mode : {AutotuneMode::off, AutotuneMode::cached, AutotuneMode::on}) {
    Autotuner tuned{kernel, space, anyTag(mode)};
    EXPECT_NO_THROW(run.launch(tuned, 1000));
    const std::string wanted = "kernel 'tag_none': the predicates of its space hold for no "
                               "configuration of a launch with 1=1001; add one that is valid for "
                               "all launches";
    EXPECT_EQ(messageOf([&] { run.launch(tuned, 1001); }), wanted);
    EXPECT_EQ(messageOf([&] { run.tune(tuned, 1001); }), wanted);
  }
  const auto wrong =
      tags().where([](const Which &, const LaunchOptions &, const LaunchArguments &arguments) {
        return arguments.extent(1, 0) > 0;
      });
  Autotuner tuned{kernel, wrong, anyTag()};
  EXPECT_THAT(messageOf([&] { run.launch(tuned, 10); }),
              HasSubstr("a bucket rule or a space's predicate asks for extent 0 of argument 1, "
                        "which is no view of such a rank"));
  const auto none =
      tags().where([](const Which &, const LaunchOptions &, const LaunchArguments &arguments) {
        return arguments.value(2) > 0;
      });
  Autotuner missing{kernel, none, anyTag()};
  EXPECT_THAT(messageOf([&] { run.launch(missing, 10); }),
              HasSubstr("a bucket rule or a space's predicate asks for argument 2 of a kernel that "
                        "has 2"));
  const auto pointer =
      tags().where([](const Which &, const LaunchOptions &, const LaunchArguments &arguments) {
        return arguments.value(0) > 0;
      });
  Autotuner ofPointer{kernel, pointer, anyTag()};
  EXPECT_THAT(messageOf([&] { run.launch(ofPointer, 10); }),
              HasSubstr("a bucket rule or a space's predicate asks for the value of argument 0, "
                        "which is no integer"));
}

// A predicate that sees no arguments may compare with a variable: what it held for at one shape is
// not known to hold at another.
TEST(AutotuneArguments, APredicateThatCapturesKeepsShapesApart) {
  Kernel kernel{"tag_captured", which};
  Tagged run;
  int most = 3000;
  const auto space = tags().where([&](const Which &config, const LaunchOptions &) {
    return config.tag == 1 || most <= 3000; // for launches up to 3000
  });
  EXPECT_TRUE(space.captures());
  EXPECT_FALSE(tags().captures());
  AutotuneOptions loud = anyTag();
  loud.quiet = false;
  Autotuner tuned{kernel, space, loud};
  EXPECT_EQ(run.launch(tuned, 3000), 1);
  testing::internal::CaptureStderr();
  const TuneReport report = run.tune(tuned, 3000);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("sectile: kernel 'tag_captured' is tuned for each shape by itself, because "
                        "a predicate of its space captures variables; one that takes the "
                        "LaunchArguments shares what is measured"));
  EXPECT_EQ(report.bucket, (NamedExtents{{"exactly 1", 3000}}));
  EXPECT_NE(run.launch(tuned, 3000), 1) << report.text();
  for (const int other : {4000, 2999, 3001, 8000})
    EXPECT_EQ(run.launch(tuned, other), 1) << other;
  // What shared buckets hold is of no use to it, nor the other way round.
  Autotuner shared{kernel, tags(), anyTag()};
  EXPECT_EQ(run.launch(shared, 3000), 1);
  run.tune(shared, 4096);
  EXPECT_EQ(run.launch(tuned, 4096), 1);
}

TEST(AutotuneArguments, PredicatesOfAllFactorsHold) {
  const auto small = [](const Which &config, const LaunchOptions &, const LaunchArguments &) {
    return config.size <= 128;
  };
  const auto tagged = [](const Which &config, const LaunchOptions &, const LaunchArguments &) {
    return config.tag == 2;
  };
  const auto both = sectile::space(&Which::size, {64, 128, 256}).where(small) *
                    sectile::space(&Which::tag, {1, 2}).where(tagged);
  EXPECT_TRUE(both.asks_arguments());
  const LaunchArguments none({}, nullptr);
  EXPECT_TRUE(both.holds({.size = 128, .tag = 2}, {}, none));
  EXPECT_FALSE(both.holds({.size = 256, .tag = 2}, {}, none));
  EXPECT_FALSE(both.holds({.size = 128, .tag = 1}, {}, none));
  EXPECT_FALSE(tags().asks_arguments());
}

} // namespace
