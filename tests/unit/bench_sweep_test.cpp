// Sweeps of benchmarks: what is run, what is kept, and every form in which it is shown.
#include "autotune/Plot.h"
#include "llvm/Support/JSON.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <sectile/bench.h>
#include <sectile/sectile.h>

using namespace sectile;
using namespace sectile::bench;

namespace {

const bool chosen = setenv("SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA, 1) == 0 &&
                    setenv("SECTILE_CACHE_DIR", "", 1) == 0;

Timing took(double microseconds) {
  return {microseconds, 0.9 * microseconds, 1.2 * microseconds, 7};
}

Sweep additions() {
  Sweep sweep;
  sweep.title = "a + b";
  sweep.axis = "n";
  sweep.values = powers_of_two(10, 12);
  sweep.metric = Metric::gigabytes;
  sweep.work = [](std::int64_t n) { return Work{double(n), 12.0 * double(n)}; };
  sweep.peak = Peak{0, 4};
  return sweep;
}

// One is quick, one fails at 2048.
std::vector<Provider> providers() {
  return {{"ours", [](std::int64_t n) { return took(double(n) / 100); }},
          {"theirs, the <old> one", [](std::int64_t n) {
             if (n == 2048)
               throw Error("no \"room\"");
             return took(double(n) / 50);
           }}};
}

size_t count(const std::string &text, const std::string &what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1))
    ++found;
  return found;
}

TEST(BenchSweep, RunsSizeBySizeAndSaysSoBefore) {
  std::string order;
  bench::run(additions(), providers(), [&](const std::string &provider, std::int64_t n) {
    order += provider.substr(0, 1) + std::to_string(n) + " ";
  });
  EXPECT_EQ(order, "o1024 t1024 o2048 t2048 o4096 t4096 ");
}

TEST(BenchSweep, TableHasRatesTheRooflineAndWhatFailed) {
  // 12 bytes per element: 1024 elements in 10.24 us are 1.2 GB/s.
  EXPECT_EQ(bench::run(additions(), providers()).text(),
            "a + b (GB/s)\n"
            "   n  ours  theirs, the <old> one  roofline\n"
            "1024  1.20                 0.6000      4.00\n"
            "2048  1.20                      -      4.00\n"
            "4096  1.20                 0.6000      4.00\n"
            "theirs, the <old> one at n=2048: no \"room\"\n");
}

TEST(BenchSweep, TableSaysWhereNothingWasTimed) {
  Sweep sweep = additions();
  sweep.metric = Metric::microseconds;
  sweep.peak.reset();
  const Results results =
      bench::run(sweep, {{"model", [](std::int64_t) { return Timing{5, 5, 5, 0}; }}});
  EXPECT_EQ(results.text().substr(0, results.text().find('\n')), "a + b (us, by the cost model)");
  EXPECT_NE(results.svg().find(">us, by the cost model<"), std::string::npos);
  EXPECT_EQ(bench::run(additions(), providers()).svg().find("cost model"), std::string::npos);
}

TEST(BenchSweep, CsvQuotesWhatNeedsIt) {
  EXPECT_EQ(bench::run(additions(), providers()).csv(),
            "n,provider,median_us,low_us,high_us,runs,GB/s,error\n"
            "1024,ours,10.240,9.216,12.288,7,1.200000,\n"
            "1024,\"theirs, the <old> one\",20.480,18.432,24.576,7,0.600000,\n"
            "2048,ours,20.480,18.432,24.576,7,1.200000,\n"
            "2048,\"theirs, the <old> one\",,,,,,\"no \"\"room\"\"\"\n"
            "4096,ours,40.960,36.864,49.152,7,1.200000,\n"
            "4096,\"theirs, the <old> one\",81.920,73.728,98.304,7,0.600000,\n");
}

TEST(BenchSweep, JsonHoldsAllOfIt) {
  auto json = llvm::json::parse(bench::run(additions(), providers()).json());
  ASSERT_TRUE(bool(json)) << llvm::toString(json.takeError());
  const llvm::json::Object &all = *json->getAsObject();
  EXPECT_EQ(all.getString("unit"), "GB/s");
  EXPECT_EQ(all.getArray("roofline")->size(), 3u);
  const llvm::json::Object &theirs = *(*all.getArray("providers"))[1].getAsObject();
  EXPECT_EQ(theirs.getString("name"), "theirs, the <old> one");
  const llvm::json::Array &points = *theirs.getArray("points");
  EXPECT_EQ(points[1].getAsObject()->getString("error"), "no \"room\"");
  EXPECT_DOUBLE_EQ(*points[2].getAsObject()->getNumber("median_us"), 81.92);
  EXPECT_DOUBLE_EQ(*points[2].getAsObject()->getNumber("figure"), 0.6);
}

TEST(BenchSweep, SvgDrawsEveryLineInsideTheFrame) {
  const std::string svg = bench::run(additions(), providers()).svg();
  EXPECT_EQ(count(svg, "stroke-dasharray"), 2u); // the roofline, and its place in the legend
  EXPECT_EQ(count(svg, "<circle"), 5u);          // one point failed
  EXPECT_EQ(count(svg, "<svg"), count(svg, "</svg>"));
  EXPECT_NE(svg.find(">theirs, the &lt;old&gt; one<"), svg.npos);
  EXPECT_NE(svg.find(">roofline<"), svg.npos);
  EXPECT_NE(svg.find(">GB/s<"), svg.npos);
  EXPECT_NE(svg.find(">4096<"), svg.npos);
  const std::regex circle("cx=\"([0-9.]+)\" cy=\"([0-9.]+)\"");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), circle); it != std::sregex_iterator();
       ++it) {
    const double x = std::stod((*it)[1]), y = std::stod((*it)[2]);
    EXPECT_TRUE(x >= 80 && x <= 730) << x;
    EXPECT_TRUE(y >= 50 && y <= 400) << y;
  }
  EXPECT_EQ(svg.find("nan"), svg.npos);
}

TEST(BenchSweep, PlotsOfNothingAndOfOnePointAreWhole) {
  Plot plot;
  plot.title = "empty";
  plot.horizontal = {"x", true};
  plot.vertical = {"y", true};
  EXPECT_EQ(drawSvg(plot).find("nan"), std::string::npos);
  plot.lines = {{"one", {{0, 1, 1, 1}, {8, 5, 5, 5}}, false}}; // zero has no logarithm
  const std::string svg = drawSvg(plot);
  EXPECT_EQ(count(svg, "<circle"), 1u);
  EXPECT_EQ(svg.find("nan"), svg.npos);
  EXPECT_EQ(svg.find("inf"), svg.npos);

  // Values that lie close together have figures on both sides, and lie close together.
  plot.lines = {{"flat", {{1, 2.36, 2.36, 2.36}, {8, 2.37, 2.37, 2.37}}, false}};
  const std::string flat = drawSvg(plot);
  EXPECT_NE(flat.find(">2<"), flat.npos);
  EXPECT_NE(flat.find(">4<"), flat.npos);
  const std::regex height("cy=\"([0-9.]+)\"");
  std::vector<double> heights;
  for (std::sregex_iterator it(flat.begin(), flat.end(), height), end; it != end; ++it)
    heights.push_back(std::stod((*it)[1]));
  ASSERT_EQ(heights.size(), 2u);
  EXPECT_GT(heights[0], heights[1]);
  EXPECT_LT(heights[0] - heights[1], 5);
}

Kernel increment{"increment", [](Ptr<float> x) {
                   auto at = x + program_id(0) * 128 + arange(0, 128);
                   store(at, load(at) + 1.f);
                 }};

TEST(BenchTime, OnAVirtualDeviceTheWorkRunsOnceAndTheModelAddsItsLaunchesUp) {
  const Device device = Device::open("virtual:sm_90a");
  const auto x = device.upload(std::vector<float>(4096 * 128));
  unsigned calls = 0;
  const auto launches = [&](unsigned programs, unsigned times) {
    return bench::time(device.stream(), [&] {
      ++calls;
      for (unsigned i = 0; i < times; ++i)
        increment.launch(device.stream(), {programs}, x);
    });
  };
  const Timing one = launches(4096, 1), two = launches(4096, 2), small = launches(64, 1);
  EXPECT_EQ(calls, 3u);
  EXPECT_EQ(one.runs, 0u);
  EXPECT_DOUBLE_EQ(two.median, 2 * one.median);
  EXPECT_LT(small.median, one.median);
  // 4 MiB moved at 3352 GB/s, at least.
  EXPECT_GT(one.median, 4 * 1048576 / 3352e3);
  EXPECT_EQ(x.download()[0], 4); // 1 + 2 + 1 launches reached it
}

TEST(BenchTime, OnADeviceRunsAreWarmedUpAndTimedByEvents) {
  const Device device = Device::open("cuda:0");
  unsigned calls = 0;
  const Timing timing =
      bench::time(device.stream(), [&] { ++calls; }, {.warmup_ms = 0, .total_ms = 0});
  EXPECT_EQ(timing.runs, 5u);
  EXPECT_EQ(calls, 1u + 5 + 5 + 5 + 5); // the first, a trial, warm-up, a trial with flushes, timed
  EXPECT_LE(timing.low, timing.median);
  EXPECT_LE(timing.median, timing.high);
}

TEST(BenchTime, TheInterpreterHasNone) {
  const Device device = Device::interpreter();
  EXPECT_THROW(bench::time(device.stream(), [] {}), Error);
  EXPECT_THROW(bench::peak_of(device), Error);
}

TEST(BenchTime, PeaksAreThePublishedOnes) {
  const auto peak = [](const char *device) { return bench::peak_of(Device::open(device)); };
  EXPECT_NEAR(peak("virtual:sm_90a").teraflops, 989, 5);
  EXPECT_NEAR(peak("virtual:sm_80").teraflops, 312, 2);
  EXPECT_NEAR(peak("virtual:gfx942").teraflops, 1307, 5);
  EXPECT_NEAR(peak("virtual:sm_80").gigabytes, 2039, 1);
  EXPECT_NEAR(peak("cuda:0").gigabytes, 3352, 1); // by the driver
}

TEST(BenchSweep, PeakIsTheSlowerOfComputingAndMoving) {
  const Peak peak{100, 1000}; // 1e8 flops and 1e6 bytes per microsecond
  EXPECT_DOUBLE_EQ(peak.least_us({2e8, 1e6}), 2);
  EXPECT_DOUBLE_EQ(peak.least_us({2e8, 3e6}), 3);
  EXPECT_DOUBLE_EQ(Peak{}.least_us({1, 1}), 0);
}

TEST(BenchSweep, RefusesWhatMakesNoSense) {
  const auto error = [](const Sweep &sweep, std::vector<Provider> providers = {}) -> std::string {
    try {
      bench::run(sweep, providers);
    } catch (const Error &e) {
      return e.what();
    }
    return "";
  };
  Sweep sweep = additions();
  sweep.values = {};
  EXPECT_EQ(error(sweep), "the sweep 'a + b' has no sizes");
  sweep.values = {4, 2};
  EXPECT_EQ(error(sweep), "the sizes of the sweep 'a + b' must ascend");
  sweep.values = {0, 2};
  EXPECT_EQ(error(sweep), "the sweep 'a + b' has the size 0 on a logarithmic axis");
  sweep = additions();
  sweep.work = nullptr;
  EXPECT_EQ(error(sweep), "the sweep 'a + b' asks for rates or a roofline: say in `work` what is "
                          "done at a size");
  EXPECT_EQ(error(additions(), {{"none", nullptr}}),
            "the provider 'none' of the sweep 'a + b' runs nothing");
}

TEST(BenchSweep, WritesTheFormThatTheNameAsksFor) {
  const Results results = bench::run(additions(), providers());
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "bench_sweep_test";
  std::filesystem::create_directories(folder);
  const std::pair<const char *, std::string> forms[] = {{"a.csv", results.csv()},
                                                        {"a.json", results.json()},
                                                        {"a.svg", results.svg()},
                                                        {"a.txt", results.text()}};
  for (const auto &[name, content] : forms) {
    results.write(folder / name);
    std::ifstream file(folder / name);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), content);
  }
  EXPECT_THROW(results.write(folder / "none" / "a.csv"), Error);
  std::filesystem::remove_all(folder);
}

} // namespace
