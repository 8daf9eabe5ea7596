// What a call of the library is launched with: by its bucket, and as of what other processes have
// found out meanwhile.
#include "kernels/tuning/Tune.h"
#include "tests/unit/Processes.h"
#include <gtest/gtest.h>
#include <sectile/register_kernel.h>
#include <thread>

using namespace sectile;

namespace {

class AutotuneBuckets : public testing::Test {
protected:
  AutotuneBuckets() {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    setenv("SECTILE_CACHE_DIR", folder.c_str(), 1);
    setenv("SECTILE_TUNING_PATH", "", 1);
    unsetenv("SECTILE_AUTOTUNE");
  }
  ~AutotuneBuckets() override { std::filesystem::remove_all(folder); }

  // Of a small space, whose default is slow.
  static const KernelSpec &spec() {
    static const KernelSpec spec = [] {
      KernelSpec spec = findKernel("softmax");
      spec.spaces[0].axes = {{"block", {128}}, {"rows", {1, 2}}, {"warps", {1, 2}}};
      spec.spaces[0].where = [](const Invocation &call, const std::string &, const Config &config) {
        return elementCount(call.leading) == 60 || config.at("warps") == 1;
      };
      spec.defaults = [](const Invocation &, const std::string &) {
        return Config{{"block", 128}, {"rows", 8}, {"warps", 1}};
      };
      return spec;
    }();
    return spec;
  }
  static Invocation softmax(std::int64_t rows) {
    return resolveTypical(spec(), "", {{"...", rows}, {"N", 100}}, {});
  }
  static int inProcess(const std::function<void()> &body) {
    test::Child child([&] {
      body();
      return testing::Test::HasFailure() ? 1 : 0;
    });
    return child.wait();
  }
  static Config tune(std::int64_t rows) {
    AutotuneOptions options;
    options.quiet = true;
    const TuneReport report =
        tuneKernel(softmax(rows), Device::open("virtual:sm_90a"), options).at(0);
    EXPECT_NE(report.best, 0u) << report.text();
    return *bestKnown(softmax(rows), Device::open("virtual:sm_90a"));
  }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("sectile-buckets-" + std::to_string(getpid()));
};

// What a bucket's best is may not suit all of its calls: then the next, else the kernel's own.
TEST_F(AutotuneBuckets, CallsOfOneBucketShareWhatIsKnownAndSuitsThem) {
  const int status = inProcess([] {
    const Device device = Device::open("virtual:sm_90a");
    const Config best = tune(60);
    EXPECT_EQ(configFor(softmax(60), device), best);
    for (const std::int64_t rows : {33, 64}) {
      const Config config = configFor(softmax(rows), device);
      EXPECT_EQ(config.at("warps"), 1) << rows;
      EXPECT_EQ(config, *bestKnown(softmax(rows), device));
    }
    setenv("SECTILE_AUTOTUNE", "off", 1);
    EXPECT_EQ(configFor(softmax(60), device), spec().defaults(softmax(60), "sm_90a"));
  });
  EXPECT_EQ(status, 0);
}

struct RowConfig {
  int block = 64;
  bool single = false; // a row fits a block
};
SECTILE_CONFIG(RowConfig, block, single)

Kernel rowSums{"row_sums", [](View<const float, 2> x, View<float, 1> y, const RowConfig &config) {
                 auto row = program_id(0);
                 auto from = x.at(row).tile(config.block);
                 auto sums = zeros<float>(config.block);
                 for (auto i : range(0, config.single ? Int(1) : cdiv(x.extent(1), config.block)))
                   sums += from.load(i);
                 y.tile(1).store(row, expand(sum(sums), 0));
               }};

// A configuration that holds a whole row, of a kernel that a user describes.
TEST_F(AutotuneBuckets, ARowInOneBlockIsNotTakenForLongerRows) {
  const int status = inProcess([] {
    KernelSpec spec;
    spec.name = "row_sums";
    spec.summary = "y = the sum of each row";
    spec.arguments = {{.name = "x", .axes = {"M", "N"}, .dtypes = {DType::float32}},
                      {.name = "y", .output = true, .axes = {"M"}, .like = "x"}};
    spec.typical = {{"M", 4}, {"N", 100}};
    spec.configure<RowConfig>();
    spec.spaces = {{.axes = {{"block", {64, 192, 256}}, {"single", {0, 1}}},
                    .where = [](const Invocation &call, const std::string &, const Config &config) {
                      return !config.at("single") || config.at("block") >= call.extent("N");
                    }}};
    spec.apply = [](Use &use) {
      use(rowSums, use.call.extent("M"), use.tensor<float, 2>("x"), use.tensor<float, 1>("y"),
          use.config_as<RowConfig>());
    };
    register_kernel(std::move(spec));
    const Device device = Device::open("virtual:sm_90a");
    AutotuneOptions options;
    options.quiet = true;
    const auto of = [&](std::int64_t n) {
      return resolveTypical(findKernel("row_sums"), "", {{"N", n}}, {});
    };
    tuneKernel(of(150), device, options);
    ASSERT_EQ(configFor(of(150), device).at("single"), 1) << "else this test shows nothing";
    for (const std::int64_t n : {150, 192, 250, 256, 300, 1000, 64}) { // 129 to 256 are one bucket
      const auto x = device.upload(std::vector<float>(static_cast<std::size_t>(4 * n), 1));
      const NamedTensors out = run_kernel(device.stream(), "row_sums", {{"x", tensor(x, {4, n})}});
      EXPECT_EQ(Buffer<float>(out.at("y").memory).download(),
                std::vector<float>(4, static_cast<float>(n)));
    }
  });
  EXPECT_EQ(status, 0);
}

// A program may call with another number each time.
TEST_F(AutotuneBuckets, NoMoreThanSoManyAreRemembered) {
  const int status = inProcess([] {
    const Device device = Device::open("virtual:sm_90a");
    const auto call = [](int number) {
      return resolveTypical(findKernel("rms_norm"), "", {{"...", 4}, {"N", 64}},
                            {{"eps", std::to_string(number) + "e-9"}});
    };
    constexpr int threads = 4, each = mostBuckets / 3;
    std::vector<std::thread> callers;
    for (int thread = 0; thread < threads; ++thread)
      callers.emplace_back([&, thread] {
        for (int i = 0; i < each; ++i) {
          const Invocation one = call(1 + thread * each + i);
          EXPECT_EQ(configFor(one, device), one.kernel->defaults(one, device.target()));
          EXPECT_LE(bucketsRemembered(), mostBuckets);
        }
      });
    for (std::thread &caller : callers)
      caller.join();
    // As some were forgotten, there are fewer than calls; the last ones are there.
    const std::size_t remembered = bucketsRemembered();
    EXPECT_GT(remembered, 0u);
    EXPECT_LE(remembered, threads * std::size_t{each} - mostBuckets + 1);
    configFor(call(threads * each), device);
    EXPECT_LE(bucketsRemembered(), remembered + 1);
  });
  EXPECT_EQ(status, 0);
}

TEST_F(AutotuneBuckets, WhatAnotherProcessTunesIsSeen) {
  const int status = inProcess([] {
    test::Child tunes([&] {
      usleep(500000);
      tune(60);
      return testing::Test::HasFailure() ? 1 : 0;
    });
    const Device device = Device::open("virtual:sm_90a");
    const Invocation call = softmax(60);
    const Config own = configFor(call, device);
    EXPECT_EQ(own, call.kernel->defaults(call, device.target()));
    EXPECT_EQ(tunes.wait(), 0);
    Config later = own;
    for (int i = 0; i < 1000 && later == own; ++i) {
      usleep(20000);
      later = configFor(call, device);
    }
    EXPECT_NE(later, own);
    EXPECT_EQ(later, bestKnown(call, device));
  });
  EXPECT_EQ(status, 0);
}

} // namespace
