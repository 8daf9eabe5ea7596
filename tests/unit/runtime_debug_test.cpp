// Assertions and prints over the fake drivers: when the log gets to a launch, and when it is read.
#include "runtime/DeviceImpl.h"
#include "tests/fake/fake_cuda.h"
#include <cstdlib>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/buffer.h>

using namespace sectile;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

const bool chosen = setenv("SECTILE_HIP_LIBRARY", SECTILE_FAKE_HIP, 1) == 0 &&
                    setenv("SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA, 1) == 0;

class RuntimeDebug : public testing::TestWithParam<std::string> {
protected:
  RuntimeDebug() {
    before = set_print_handler([this](std::string_view text) { printed += text; });
  }
  ~RuntimeDebug() override { set_print_handler(before); }

  template <class F> F fake(const char *symbol) {
    void *library = dlopen(GetParam() == "cuda:0" ? SECTILE_FAKE_CUDA : SECTILE_FAKE_HIP, RTLD_NOW);
    return reinterpret_cast<F>(dlsym(library, symbol));
  }
  int calls() { return fake<decltype(&fakeCudaCalls)>("fakeCudaCalls")(nullptr); }

  Artifact artifact(const std::string &entry) {
    Artifact result;
    result.kind = GetParam() == "cuda:0" ? "ptx" : "hsaco";
    result.entry = entry;
    result.bytes = ".visible .entry " + entry + "()";
    result.plan.threads = 128;
    return result;
  }
  std::shared_ptr<runtime::LoadedKernel> loadLogging() {
    Artifact logging = artifact("fake_log");
    logging.debugSites = {{true, false, "n = ", "k.cpp", 7, {{"u32", {2}}}},
                          {false, false, "n is small", "k.cpp", 8, {{"bool", {2, 2}}}}};
    return device.impl()->load(logging);
  }
  void launch(const runtime::LoadedKernel &kernel, unsigned programs, const Stream &stream) {
    void *arguments[2];
    device.impl()->debugLogs.launch(kernel, {programs, 1, 1}, arguments, 0, stream.native());
  }
  static std::string expected(int programs) {
    std::string text;
    for (int i = 0; i < programs; ++i)
      text += "fake_log (" + std::to_string(i) + ", 0, 0): n = u32[2]\n  [0]  " +
              std::to_string(i) + " " + std::to_string(i + 1) + "\n";
    return text;
  }

  Device device = Device::open(GetParam());
  std::string printed;
  PrintHandler before;
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeDebug, testing::Values("cuda:0", "hip:0"),
                         [](const auto &info) {
                           return info.param.substr(0, info.param.find(':'));
                         });

TEST_P(RuntimeDebug, PrintsInTheOrderOfLaunchesAndPrograms) {
  auto kernel = loadLogging();
  launch(*kernel, 2, device.stream());
  launch(*kernel, 1, device.stream());
  EXPECT_EQ(printed, "");
  device.stream().synchronize();
  EXPECT_EQ(printed, expected(2) + expected(1));
  device.stream().synchronize();
  EXPECT_EQ(printed, expected(2) + expected(1));
}

TEST_P(RuntimeDebug, OfAStreamOfAnotherLibraryIsDeliveredWhenItsWrapperEnds) {
  auto kernel = loadLogging();
  const bool cuda = GetParam() == "cuda:0";
  const auto current = device.impl()->makeCurrent();
  void *theirs = nullptr;
  ASSERT_EQ(fake<int (*)(void **, unsigned)>(cuda ? "cuStreamCreate"
                                                  : "hipStreamCreateWithFlags")(&theirs, 1),
            0);
  launch(*kernel, 5, Stream::wrap(device, theirs));
  EXPECT_EQ(printed, expected(5));
  fake<int (*)(void *)>(cuda ? "cuStreamDestroy_v2" : "hipStreamDestroy")(theirs);
  EXPECT_THROW(device.synchronize(), AssertionError);
}

TEST_P(RuntimeDebug, ReportsTheFirstFailureOnceAndGoesOn) {
  auto kernel = loadLogging();
  launch(*kernel, 5, device.stream());
  try {
    device.stream().synchronize();
    FAIL() << "nothing was thrown";
  } catch (const AssertionError &error) {
    EXPECT_STREQ(error.what(),
                 "k.cpp:8: assertion failed in kernel 'fake_log', program (2, 0, 0): n "
                 "is small; the first element that does not hold is [1, 1] (2 more "
                 "programs failed)");
  }
  EXPECT_EQ(printed, expected(5));
  device.stream().synchronize();
  launch(*kernel, 2, device.stream());
  EXPECT_THAT(device.upload(std::vector<int>{1, 2}).download(), ElementsAre(1, 2));
  EXPECT_EQ(printed, expected(5) + expected(2));
}

TEST_P(RuntimeDebug, StreamsReportTheirOwn) {
  auto kernel = loadLogging();
  const Stream one = device.new_stream(), other = device.new_stream();
  launch(*kernel, 3, one);
  launch(*kernel, 1, other);
  other.synchronize();
  EXPECT_EQ(printed, expected(1));
  EXPECT_THROW(one.record().synchronize(), AssertionError);
  launch(*kernel, 3, one);
  EXPECT_THROW(device.synchronize(), AssertionError);
  auto buffer = device.allocate<int>(1);
  launch(*kernel, 3, one);
  EXPECT_THROW(buffer.download(), AssertionError);
  launch(*kernel, 3, one);
  EXPECT_THROW(buffer.upload(std::vector<int>{1}), AssertionError);
  {
    const Stream gone = device.new_stream();
    launch(*kernel, 3, gone);
  }
  one.synchronize();
  EXPECT_THROW(device.synchronize(), AssertionError);
  device.synchronize();
}

TEST_P(RuntimeDebug, CapturedLaunchesReportWhereTheGraphRuns) {
  auto kernel = loadLogging();
  launch(*kernel, 1, device.stream());
  device.synchronize();
  printed.clear();
  const Stream stream = device.new_stream();
  launch(*kernel, 3, stream);
  EXPECT_THROW(stream.begin_capture(), AssertionError) << "what was launched before";
  printed.clear();
  stream.begin_capture();
  launch(*kernel, 3, stream);
  const Graph graph = stream.end_capture();
  stream.synchronize();
  EXPECT_EQ(printed, "");
  const Stream other = device.new_stream();
  graph.launch(other);
  EXPECT_THROW(other.synchronize(), AssertionError);
  EXPECT_EQ(printed, expected(3));
}

TEST_P(RuntimeDebug, AFailedLaunchStaysAnOrdinaryError) {
  auto kernel = loadLogging();
  launch(*kernel, 1, device.stream());
  fake<decltype(&fakeCudaFail)>("fakeCudaFail")("cuLaunchKernel", 719, 1);
  EXPECT_THROW(launch(*kernel, 1, device.stream()), DeviceError);
  EXPECT_EQ(printed, expected(1)) << "what was printed before tells more";
  device.synchronize();
}

TEST_P(RuntimeDebug, OtherKernelsAreLaunchedAndWaitedForAsEver) {
  auto logging = loadLogging(), quiet = device.impl()->load(artifact("quiet"));
  EXPECT_FALSE(quiet->debug);
  const Stream stream = device.new_stream();
  auto callsOfOne = [&] {
    const int before = calls();
    device.impl()->launch(*quiet, {}, nullptr, stream.native());
    stream.synchronize();
    return calls() - before;
  };
  const int usual = callsOfOne();
  launch(*logging, 1, device.stream());
  EXPECT_EQ(callsOfOne(), usual);
  device.synchronize();
  EXPECT_EQ(callsOfOne(), usual);
}

} // namespace
