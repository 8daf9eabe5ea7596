// What is prepared beforehand, what a capture cannot do, and what the graphs of other libraries
// keep. Over fake drivers, where a call's kernels do nothing, and on the virtual GPU, where they
// do.
#include "OrderTest.h"
#include "kernels/calls/Workspace.h"
#include <gmock/gmock.h>
#include <sectile/autotune.h>
#include <sectile/library.h>

using namespace sectile;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

const bool cacheless = setenv("SECTILE_CACHE_DIR", "", 1) == 0 &&
                       unsetenv("SECTILE_AUTOTUNE") == 0 &&
                       setenv("FAKE_HIP_TAKES_CODE", "1", 1) == 0;

struct Tiles {
  int n = 128;
};
SECTILE_CONFIG(Tiles, n)

const auto addOne = [](Ptr<const float> x, Ptr<float> z, const Tiles &config) {
  const auto i = program_id(0) * config.n + arange(0, config.n);
  store(z + i, load(x + i) + 1.0f);
};

std::string refused(const std::function<void()> &f) {
  try {
    f();
  } catch (const LaunchError &error) {
    return error.what();
  }
  return "nothing was thrown";
}

NamedTensors softmaxOf(const Buffer<float> &x, std::int64_t rows, std::int64_t columns) {
  return {{"x", tensor(x, {rows, columns})}};
}

class RuntimePrepare : public RuntimeOrder {
protected:
  int loads() const { return calls("cuModuleLoadDataEx"); }
  int allocations() const {
    return calls("cuMemAllocFromPoolAsync") + calls("cuMemAlloc_v2") + calls("cuMemHostAlloc");
  }
  int waits() const {
    return calls("cuCtxSynchronize") + calls("cuStreamSynchronize") + calls("cuEventSynchronize");
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimePrepare, testing::Values("cuda:0", "hip:0"),
                         [](const auto &info) {
                           return info.param.substr(0, info.param.find(':'));
                         });

TEST_P(RuntimePrepare, AFirstLaunchInACaptureIsRefusedAndTheCaptureGoesOn) {
  const Kernel kernel{"refused_at_first", addOne};
  const auto launch = [&](const Stream &stream) {
    return refused([&] { kernel.launch(stream, {1}, x, z); });
  };
  const Stream ours = device.new_stream();
  ours.begin_capture();
  EXPECT_THAT(launch(ours), HasSubstr("kernel 'refused_at_first': there is no code for these"));
  ours.end_capture();
  void *const theirs = createStream(nonBlocking);
  const Stream stream = Stream::wrap(device, theirs);
  beginCapture(theirs);
  EXPECT_THAT(launch(stream), HasSubstr("a capture can neither compile nor load it"));
  // Beside it there is nothing against it.
  EXPECT_EQ(launch(device.stream()), "nothing was thrown");
  EXPECT_EQ(launch(stream), "nothing was thrown");
  EXPECT_EQ(endCapture(theirs), 0);
}

TEST_P(RuntimePrepare, APreparedKernelIsCapturedWithoutMore) {
  const Kernel kernel{"prepared", addOne};
  void *const theirs = createStream(nonBlocking);
  const Stream stream = Stream::wrap(device, theirs);
  const auto launch = [&] { kernel.launch(stream, {1}, x, z); };
  const int launched = calls("cuLaunchKernel");
  prepare(launch);
  EXPECT_EQ(calls("cuLaunchKernel"), launched) << "it ran";
  const int loaded = loads(), allocated = allocations(), waited = waits();
  beginCapture(theirs);
  launch();
  PreparedLaunch(device, kernel.bind({1}, x, z)).launch(stream);
  EXPECT_EQ(endCapture(theirs), 0);
  EXPECT_EQ(calls("cuLaunchKernel"), launched + 2);
  EXPECT_EQ(loads(), loaded);
  EXPECT_EQ(allocations(), allocated);
  EXPECT_EQ(waits(), waited);
}

TEST_P(RuntimePrepare, APreparedCallIsCapturedWithoutMore) {
  const auto values = device.upload(std::vector<half>(2 * 64 * 32));
  const auto logs = device.upload(std::vector<float>(2 * 64));
  NamedTensors inputs{{"lse", tensor(logs, {1, 2, 64})}};
  for (const char *name : {"q", "k", "v", "o", "do"})
    inputs[name] = tensor(values, {1, 2, 64, 32});
  void *const theirs = createStream(nonBlocking);
  const Stream stream = Stream::wrap(device, theirs);
  const auto launches = [&] { return calls("cuLaunchKernel") + calls("cuLaunchKernelEx"); };
  const int launched = launches();
  const PreparedCall call = prepare_kernel(device, "attention_backward", inputs);
  prepare([&] { run_kernel(stream, "attention_backward", inputs); });
  EXPECT_EQ(launches(), launched) << "it ran";
  const int loaded = loads(), allocated = allocations(), waited = waits();
  beginCapture(theirs);
  call.launch(stream);
  EXPECT_EQ(allocations(), allocated);
  EXPECT_EQ(waits(), waited);
  run_kernel(stream, "attention_backward", inputs);
  EXPECT_EQ(loads(), loaded);
  EXPECT_EQ(endCapture(theirs), 0);
  EXPECT_EQ(launches(), launched + 6) << "three of each";
  EXPECT_THAT(refused([&] { call.launch(Device::open("virtual:sm_90a").stream()); }),
              HasSubstr("was prepared for " + GetParam()));
}

TEST_P(RuntimePrepare, TuningInACaptureIsRefused) {
  const Kernel kernel{"tuned_in_a_capture", addOne};
  AutotuneOptions options;
  options.mode = AutotuneMode::on;
  Autotuner tuned{kernel, space(&Tiles::n, {64, 128}), options};
  void *const theirs = createStream(nonBlocking);
  const Stream stream = Stream::wrap(device, theirs);
  beginCapture(theirs);
  EXPECT_THAT(refused([&] { tuned.launch(stream, Grid(1), x, z); }),
              HasSubstr("would be tuned in a capture"));
  EXPECT_EQ(endCapture(theirs), 0);
}

// The graph of another library, launched after our handles are gone.
TEST_P(RuntimePrepare, GraphsOfOtherLibrariesKeepWhatTheyUse) {
  device.synchronize();
  const int inCallbacks = calls("in a callback");
  void *const theirs = createStream(nonBlocking);
  int before = 0;
  for (int round = 0; round < 2; ++round) {
    void *graph = nullptr;
    {
      const Stream stream = Stream::wrap(device, theirs);
      auto between = device.allocate<float>(2), sum = device.allocate<float>(2);
      auto code = device.impl()->load(artifact("fake_add"));
      beginCapture(theirs);
      between.fill(7, stream);
      std::swap(add, code);
      launchAdd(between, y, sum, stream);
      std::swap(add, code);
      z.copy_from(sum, stream);
      ASSERT_EQ(endCapture(theirs, &graph), 0);
    }
    for (int i = 0; i < 3; ++i) // would be the same memory
      device.allocate<float>(2).fill(0);
    launchGraph(graph, theirs);
    device.synchronize();
    EXPECT_THAT(z.download(), ElementsAre(17, 27));
    z.fill(0);
    destroyGraph(graph);
    device.synchronize();
    if (round == 0)
      before = live();
  }
  EXPECT_EQ(live(), before) << "what the graph kept is given back with it";
  EXPECT_EQ(calls("in a callback"), inCallbacks) << "where a driver must not be called";
  destroyStream(theirs);
}

// A stream of ours that takes part, since it waits for theirs.
TEST_P(RuntimePrepare, GraphsOfOtherLibrariesKeepWhatOurStreamsAddToThem) {
  void *const theirs = createStream(nonBlocking);
  const Stream stream = Stream::wrap(device, theirs), ours = device.new_stream();
  auto between = device.allocate<float>(2);
  beginCapture(theirs);
  ours.wait(stream.record());
  between.fill(7, ours);
  z.copy_from(between, ours);
  stream.wait(ours.record());
  void *graph = nullptr;
  ASSERT_EQ(endCapture(theirs, &graph), 0);
  between = {};
  device.allocate<float>(2).fill(0);
  launchGraph(graph, theirs);
  device.synchronize();
  EXPECT_THAT(z.download(), ElementsAre(7, 7));
  destroyGraph(graph);
}

// Scratch memory grows for a larger call; the graph has its own.
TEST_P(RuntimePrepare, AGraphOfAnotherLibraryRunsAfterLargerCalls) {
  void *const theirs = createStream(nonBlocking);
  const Stream stream = Stream::wrap(device, theirs);
  const auto scratch = [&](std::size_t bytes) {
    const auto workspace = Workspace::of(stream);
    const auto lock = workspace->begin();
    detail::Memory memory = workspace->take(stream, bytes);
    const unsigned char byte = 1;
    memory.fill(&byte, 1, &stream);
    return memory.address();
  };
  const std::uint64_t outside = scratch(64);
  beginCapture(theirs);
  EXPECT_NE(scratch(64), outside);
  void *graph = nullptr;
  ASSERT_EQ(endCapture(theirs, &graph), 0);
  scratch(std::size_t{1} << 20);
  device.synchronize();
  launchGraph(graph, theirs);
  device.synchronize(); // throws where the graph writes into memory that is gone
  destroyGraph(graph);
}

TEST_P(RuntimePrepare, WhereGraphsKeepNothingForOthersAllocatingIsRefused) {
  void *const theirs = createStream(nonBlocking);
  const Stream stream = Stream::wrap(device, theirs);
  const auto call = [&](const NamedTensors &given) {
    run_kernel(stream, "softmax", softmaxOf(x, 1, 2), {}, given);
  };
  const NamedTensors given{{"y", tensor(z, {1, 2})}};
  call(given);
  constexpr int notSupported = 801;
  beginCapture(theirs);
  failNext("cuUserObjectCreate", notSupported, 1000);
  EXPECT_THAT(refused([&] { call({}); }), HasSubstr("outputs that are not given are allocated"));
  call(given);
  failNext("cuUserObjectCreate", notSupported, 0);
  call({});
  EXPECT_EQ(endCapture(theirs), 0);
}

// The outputs' handles go; the graph writes them all the same.
TEST_P(RuntimePrepare, OutputsThatACaptureAllocatesAreKeptByItsGraph) {
  const Stream stream = device.new_stream();
  run_kernel(stream, "softmax", softmaxOf(x, 1, 2));
  device.synchronize();
  const auto round = [&] {
    stream.begin_capture();
    const std::uint64_t address = run_kernel(stream, "softmax", softmaxOf(x, 1, 2)).at("y").address;
    const Graph graph = stream.end_capture();
    EXPECT_NE(device.allocate<float>(2).memory().address(), address);
    graph.launch(stream);
  };
  round();
  device.synchronize();
  const int before = live();
  round();
  device.synchronize();
  EXPECT_EQ(live(), before);
}

class RuntimePrepareVirtual : public testing::Test {
protected:
  Device device = Device::open("virtual:sm_90a");
};

TEST_F(RuntimePrepareVirtual, APreparedLaunchDoesWhatALaunchDoes) {
  const Kernel kernel{"prepared_for_later", addOne};
  const auto x = device.upload(std::vector<float>(128, 2)),
             z = device.upload(std::vector<float>(128, 0));
  const PreparedLaunch prepared(device, kernel.bind({1}, x, z));
  EXPECT_EQ(z.download()[5], 0);
  for (int round = 0; round < 2; ++round) {
    z.fill(0);
    prepared.launch(device.stream());
    EXPECT_EQ(z.download(), std::vector<float>(128, 3));
  }
  EXPECT_THAT(refused([&] { prepared.launch(Device::open("virtual:sm_80").stream()); }),
              HasSubstr("was prepared for virtual:sm_90a"));
  EXPECT_THAT(
      refused([&] { PreparedLaunch(Device::open("virtual:sm_80"), kernel.bind({1}, x, z)); }),
      HasSubstr("lies on virtual:sm_90a"));
}

// A product in parts: scratch memory that begins with zeros, and that each launch leaves so.
TEST_F(RuntimePrepareVirtual, APreparedCallDoesWhatTheCallDoes) {
  std::vector<half> values(64 * 256);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = half(static_cast<float>(i % 7) - 3);
  const auto a = device.upload(values), b = device.upload(values);
  const NamedTensors inputs{{"a", tensor(a, {64, 256})}, {"b", tensor(b, {256, 64})}};
  const KernelOptions options{{"schedule", "stream_k"}};
  const auto dense = [&](const NamedTensors &outputs) {
    std::vector<half> result(64 * 64);
    outputs.at("c").memory.download(result.data());
    return result;
  };
  const std::vector<half> expected = dense(run_kernel(device.stream(), "matmul", inputs, options));
  const PreparedCall call = prepare_kernel(device, "matmul", inputs, options);
  for (int round = 0; round < 3; ++round) {
    const unsigned char nan = 0xff;
    call.outputs().at("c").memory.fill(&nan, 1, nullptr);
    call.launch(device.stream());
    EXPECT_EQ(dense(call.outputs()), expected);
  }
  const Stream stream = device.new_stream();
  stream.begin_capture();
  call.launch(stream);
  const Graph graph = stream.end_capture();
  graph.launch(stream);
  EXPECT_EQ(dense(call.outputs()), expected);
}

TEST_F(RuntimePrepareVirtual, WhatIsPreparedDoesNotRun) {
  const Kernel kernel{"only_prepared", addOne};
  const auto x = device.upload(std::vector<float>(128, 2)),
             z = device.upload(std::vector<float>(128, 0));
  const auto launch = [&] { kernel.launch(device.stream(), {1}, x, z); };
  {
    const Preparing outer;
    prepare(launch);
    launch(); // still
  }
  EXPECT_EQ(z.download(), std::vector<float>(128, 0));
  launch();
  EXPECT_EQ(z.download(), std::vector<float>(128, 3));
}

// What a launch would tune is tuned, and can be captured.
TEST_F(RuntimePrepareVirtual, ALaunchThatTunesIsPrepared) {
  ASSERT_TRUE(cacheless);
  const Kernel kernel{"tuned_beforehand", addOne};
  AutotuneOptions options;
  options.mode = AutotuneMode::on;
  options.quiet = true;
  Autotuner tuned{kernel, space(&Tiles::n, {64, 128}), options};
  const auto x = device.upload(std::vector<float>(128, 2)),
             z = device.upload(std::vector<float>(128, 0));
  const Stream stream = device.new_stream();
  const auto launch = [&] {
    tuned.launch(stream, [](const Tiles &config) { return 128 / config.n; }, x, z);
  };
  prepare(launch);
  EXPECT_EQ(z.download(), std::vector<float>(128, 0));
  stream.begin_capture();
  launch();
  const Graph graph = stream.end_capture();
  graph.launch(stream);
  EXPECT_EQ(z.download(), std::vector<float>(128, 3));
}

} // namespace
