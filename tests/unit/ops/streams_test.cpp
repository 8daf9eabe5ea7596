// What the order of streams and the memory of graphs come to on every device. On a chip a kernel
// that takes long runs in a stream that the driver itself keeps in no order with copies.
#include "Devices.h"
#include "runtime/DriverDevice.h"
#include "runtime/cuda/CudaDriver.h"
#include "runtime/hip/HipDriver.h"
#include <gmock/gmock.h>
#include <optional>
#include <sectile/library.h>

namespace sc = sectile;
using testing::Each;

namespace {

SECTILE_ON_DEVICES(Graphs);

auto makeAddTo() {
  return sc::Kernel{"add_to", [](sc::Ptr<const float> x, sc::Ptr<float> y) {
                      auto i = sc::program_id(0) * 64 + sc::arange(0, 64);
                      sc::store(y + i, sc::load(x + i) + sc::load(y + i));
                    }};
}

TEST_P(Graphs, KeepWhatTheirLaunchesUse) {
  const sc::Stream stream = device.new_stream();
  const auto result = device.upload(std::vector<float>(640));
  std::optional<sc::Graph> graph;
  {
    const auto addTo = makeAddTo();
    const auto ones = device.upload(std::vector<float>(640, 1)),
               sums = device.upload(std::vector<float>(640, 3));
    const auto launches = [&] {
      addTo.launch(stream, 10, ones, sums);
      addTo.launch(stream, 10, sums.data(), result.slice(0, 640)); // an address alone will do
    };
    launches(); // loads the code
    stream.begin_capture();
    launches();
    graph = stream.end_capture();
  }
  std::vector<sc::Buffer<float>> others;
  for (int i = 0; i < 4; ++i)
    others.push_back(device.upload(std::vector<float>(640, -1)));
  EXPECT_THAT(result.download(), Each(4));
  graph->launch(stream);
  EXPECT_THAT(result.download(), Each(4 + 5));
  graph->launch(device.stream());
  EXPECT_THAT(result.download(), Each(4 + 5 + 6));
  for (const auto &other : others)
    EXPECT_THAT(other.download(), Each(-1));
}

TEST_P(Graphs, HaveTheWorkOfStreamsThatWaitForTheirs) {
  const auto addTo = makeAddTo();
  const sc::Stream stream = device.new_stream(), other = device.new_stream();
  const auto x = device.upload(std::vector<float>(64, 1)),
             y = device.upload(std::vector<float>(64)), z = device.upload(std::vector<float>(64));
  addTo.launch(stream, 1, x, y);
  device.synchronize();
  stream.begin_capture();
  addTo.launch(stream, 1, x, y);
  other.wait(stream.record());
  addTo.launch(other, 1, y, z);
  stream.wait(other.record());
  addTo.launch(stream, 1, z, y);
  const sc::Graph graph = stream.end_capture();
  EXPECT_THAT(z.download(), Each(0));
  graph.launch(stream);
  EXPECT_THAT(z.download(), Each(2));
  EXPECT_THAT(y.download(), Each(4));
  addTo.launch(other, 1, x, z); // a stream of its own again
  EXPECT_THAT(z.download(), Each(3));
}

TEST_P(Graphs, AreCapturedWhileMemoryComesAndGoes) {
  const auto addTo = makeAddTo();
  const sc::Kernel copyTo{"copy_to", [](sc::Ptr<const float> x, sc::Ptr<float> y) {
                            sc::store(y + sc::arange(0, 64), sc::load(x + sc::arange(0, 64)));
                          }};
  const sc::Stream stream = device.new_stream();
  const auto x = device.upload(std::vector<float>(64, 1)),
             y = device.upload(std::vector<float>(64));
  addTo.launch(stream, 1, x, y);
  copyTo.launch(stream, 1, x, device.allocate<float>(64));
  device.synchronize();
  stream.begin_capture();
  addTo.launch(stream, 1, x, y);
  for (int i = 0; i < 3; ++i)
    copyTo.launch(stream, 1, x, device.allocate<float>(64));
  device.allocate<float>(64);
  const sc::Graph graph = stream.end_capture();
  graph.launch(stream);
  EXPECT_THAT(y.download(), Each(2));
}

// y = x + 1, after at least some tens of milliseconds for 10 million rounds.
const sc::Kernel late{"late", [](sc::Ptr<const float> x, sc::Ptr<float> y, sc::Int rounds) {
                        auto i = sc::program_id(0) * 1024 + sc::arange(0, 1024);
                        // Ones that the compiler does not know, or it would leave out the loop.
                        auto one = sc::load(x + i) * 0.0f + 1.0f;
                        for ([[maybe_unused]] auto round : sc::range(0, rounds))
                          one = one * 0.5f + 0.5f;
                        sc::store(y + i, sc::load(x + i) + one);
                      }};

// Streams as other libraries make them, on the first chip among the devices.
class OtherLibrarysStreams : public testing::Test {
protected:
  static std::string chip() {
    for (const std::string &name : sc::test::devices())
      if (name.starts_with("cuda:") || name.starts_with("hip:"))
        return name;
    return "";
  }
  void SetUp() override {
    if (chip().empty())
      GTEST_SKIP() << "for chips: on the host a launch returns when the kernel has run";
    const bool cuda = chip().starts_with("cuda:");
    const auto current = device.impl()->makeCurrent();
    constexpr unsigned nonBlocking = 1;
    ASSERT_EQ(cuda ? sc::runtime::CudaDriver::get().streamCreate(&theirs, nonBlocking)
                   : sc::runtime::HipDriver::get().streamCreate(&theirs, nonBlocking),
              0);
    fill(0); // loads the code
    device.synchronize();
  }
  void TearDown() override {
    if (theirs)
      destroyStream();
  }
  void destroyStream() {
    const auto current = device.impl()->makeCurrent();
    EXPECT_EQ(chip().starts_with("cuda:") ? sc::runtime::CudaDriver::get().streamDestroy(theirs)
                                          : sc::runtime::HipDriver::get().streamDestroy(theirs),
              0);
    theirs = nullptr;
  }
  void fill(int rounds) { late.launch(sc::Stream::wrap(device, theirs), programs, x, y, rounds); }

  static constexpr int programs = 132, longTime = 10'000'000;
  sc::Device device = chip().empty() ? sc::Device::interpreter() : sc::Device::open(chip());
  sc::Buffer<float> x = device.upload(std::vector<float>(programs * 1024, 1)),
                    y = device.upload(std::vector<float>(programs * 1024, 0));
  void *theirs = nullptr;
};

TEST_F(OtherLibrarysStreams, AreWaitedForByDownloads) {
  const sc::Stream stream = sc::Stream::wrap(device, theirs);
  fill(longTime);
  EXPECT_THAT(y.download(), Each(2));
}

TEST_F(OtherLibrarysStreams, AreWaitedForThoughTheyAreGone) {
  fill(longTime);
  destroyStream();
  EXPECT_THAT(y.download(), Each(2));
}

TEST_F(OtherLibrarysStreams, AreWaitedForByUploads) {
  fill(longTime);
  x.upload(std::vector<float>(programs * 1024, 7));
  EXPECT_THAT(y.download(), Each(2));
}

TEST_F(OtherLibrarysStreams, FindWhatWasUploaded) {
  for (float round = 0; round < 20; ++round) {
    x.upload(std::vector<float>(programs * 1024, round));
    fill(0);
    EXPECT_THAT(y.download(), Each(round + 1));
  }
}

TEST_F(OtherLibrarysStreams, KeepTheirMemoryUntilTheyHaveUsedIt) {
  fill(longTime);
  x = {};
  const auto other = device.upload(std::vector<float>(programs * 1024, 9));
  EXPECT_THAT(y.download(), Each(2));
}

// A graph that another library captures and launches, by the driver's own functions.
template <class Driver> class TheirGraph {
public:
  TheirGraph(const sc::Device &device, void *stream) : device(device), stream(stream) {
    const auto current = device.impl()->makeCurrent();
    EXPECT_EQ(Driver::get().streamBeginCapture(stream, sc::runtime::driver::captureRelaxed), 0);
  }
  ~TheirGraph() {
    const auto current = device.impl()->makeCurrent();
    Driver::get().graphExecDestroy(executable);
  }
  void end() {
    const auto current = device.impl()->makeCurrent();
    void *graph = nullptr;
    ASSERT_EQ(Driver::get().streamEndCapture(stream, &graph), 0);
    ASSERT_EQ(Driver::get().graphInstantiate(&executable, graph, 0), 0);
    EXPECT_EQ(Driver::get().graphDestroy(graph), 0);
  }
  void launch() {
    const auto current = device.impl()->makeCurrent();
    EXPECT_EQ(Driver::get().graphLaunch(executable, stream), 0);
  }

private:
  const sc::Device device;
  void *const stream;
  void *executable = nullptr;
};

template <class Driver> void replayAfterLargerCalls(const sc::Device &device, void *theirs) {
  const sc::Stream stream = sc::Stream::wrap(device, theirs);
  const auto sort = [&](std::size_t count, const sc::NamedTensors &given) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>((i * 7919) % count);
    const auto x = device.upload(values);
    return [=, keep = x] {
      return sc::run_kernel(stream, "sort", {{"x", tensor(keep, {1, std::int64_t(count)})}}, {},
                            given);
    };
  };
  constexpr std::size_t small = 100'000, large = 4'000'000;
  const auto result = device.upload(std::vector<float>(small));
  {
    const auto call = sort(small, {});
    sc::prepare(call);
    TheirGraph<Driver> graph(device, theirs);
    result.copy_from(sc::Buffer<float>(call().at("y").memory), stream);
    graph.end();
    for (int round = 0; round < 2; ++round) {
      sort(large, {})();
      result.fill(-1);
      device.synchronize();
      graph.launch();
      const std::vector<float> sorted = result.download();
      for (std::size_t i = 0; i < small; ++i)
        ASSERT_EQ(sorted[i], static_cast<float>(i));
    }
  }
  device.synchronize();
}

TEST_F(OtherLibrarysStreams, MayBeCapturedAndTheGraphRunsAfterLargerCalls) {
  if (chip().starts_with("cuda:"))
    replayAfterLargerCalls<sc::runtime::CudaDriver>(device, theirs);
  else
    replayAfterLargerCalls<sc::runtime::HipDriver>(device, theirs);
}

// Neither the buffers' end nor the allocations wait for the kernel.
TEST_F(OtherLibrarysStreams, DoNotHoldUpAllocations) {
  fill(longTime);
  const sc::Event event = sc::Stream::wrap(device, theirs).record();
  // Few: each is new memory, as none of it is free before the kernel's end.
  for (int i = 0; i < 5; ++i)
    device.allocate<float>(1 << 20);
  EXPECT_FALSE(event.done());
  EXPECT_THAT(y.download(), Each(2));
}

TEST_F(OtherLibrarysStreams, AreCapturedThoughSomebodyWantsToWait) {
  const sc::Stream stream = sc::Stream::wrap(device, theirs);
  for (const sc::Stream &captured : {stream, device.new_stream()}) {
    y.fill(0);
    device.synchronize();
    const sc::Event before = device.stream().record();
    captured.begin_capture();
    late.launch(captured, programs, x, y, 0);
    EXPECT_THROW(y.download(), sc::DeviceError);
    EXPECT_THROW(y.upload(std::vector<float>(y.size())), sc::DeviceError);
    EXPECT_THROW(captured.synchronize(), sc::DeviceError);
    EXPECT_THROW(device.synchronize(), sc::DeviceError);
    EXPECT_TRUE(before.done());
    EXPECT_EQ(device.allocate<float>(5).size(), 5u);
    const sc::Graph graph = captured.end_capture();
    EXPECT_THAT(y.download(), Each(0));
    graph.launch(captured);
    EXPECT_THAT(y.download(), Each(2));
  }
}

} // namespace
