// Devices, buffers, streams, events, graphs and launches over the fake CUDA driver, every error
// path included.
#include "runtime/LaunchAccess.h"
#include "runtime/cuda/CudaDevice.h"
#include "tests/fake/fake_cuda.h"
#include "tests/unit/Message.h"
#include <cmath>
#include <cstdlib>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/buffer.h>
#include <sectile/library.h>
#include <thread>

using namespace sectile;
using runtime::GridExtents;
using sectile::test::message;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

// Before main, since the driver is opened once.
const bool chosen = setenv("SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA, 1) == 0;

template <class F> F fake(const char *symbol) {
  static void *library = dlopen(SECTILE_FAKE_CUDA, RTLD_NOW);
  return reinterpret_cast<F>(dlsym(library, symbol));
}
void failNext(const char *symbol, int error, int times = 1) {
  fake<decltype(&fakeCudaFail)>("fakeCudaFail")(symbol, error, times);
}
int calls(const char *symbol) { return fake<decltype(&fakeCudaCalls)>("fakeCudaCalls")(symbol); }
int live() { return fake<decltype(&fakeCudaLive)>("fakeCudaLive")(); }
// What a third round leaves is nothing: events are kept from those before.
template <class Round> void expectNothingLeft(Round round) {
  round();
  round();
  const int before = live();
  round();
  EXPECT_EQ(live(), before);
}
FakeLaunch lastLaunch() { return fake<decltype(&fakeCudaLastLaunch)>("fakeCudaLastLaunch")(); }

Artifact artifact(const std::string &entry, unsigned sharedBytes = 0) {
  Artifact result;
  result.target = "sm_90a";
  result.kind = "ptx";
  result.entry = entry;
  result.bytes = ".visible .entry " + entry + "()";
  result.plan.threads = 128;
  result.plan.sharedBytes = sharedBytes;
  return result;
}

class RuntimeCuda : public testing::Test {
protected:
  Device device = Device::open("cuda:0");
  const std::shared_ptr<runtime::DeviceImpl> &impl = device.impl();
};

TEST_F(RuntimeCuda, TellsWhatTheDeviceIs) {
  EXPECT_EQ(device.name(), "cuda:0");
  EXPECT_EQ(device.description(), "Fake H");
  EXPECT_EQ(device.target(), "sm_90a");
  EXPECT_EQ(device.limits().max_shared_bytes, 232448u);
  EXPECT_EQ(device.limits().multiprocessors, 132u);
  EXPECT_NEAR(device.limits().memory_gigabytes, 3352, 1); // 2 * 2.619 GHz * 640 bytes
  EXPECT_EQ(device.limits().max_grid[0], 0x7fffffffu);
  EXPECT_EQ(Device::open("cuda:1").target(), "sm_86");
  EXPECT_EQ(Device::open("cuda"), device);
  EXPECT_EQ(Device::best(), device);
  EXPECT_EQ(Device::all()[1], Device::open("cuda:1"));
}

/// An environment variable while this lives.
struct Environment {
  Environment(const char *name, const char *value) : name(name) { setenv(name, value, 1); }
  Environment(const Environment &) = delete;
  ~Environment() { unsetenv(name); }
  const char *const name;
};

TEST_F(RuntimeCuda, ChipsThatNoCodeIsForAreRefused) {
  for (const auto &[capability, text] : {std::pair{"75", "7.5"}, {"70", "7.0"}, {"61", "6.1"}}) {
    const Environment older("FAKE_CUDA_CAPABILITY", capability);
    EXPECT_EQ(message<DeviceError>([] { runtime::openCudaDevice(0); }),
              "cuda:0 (Fake H): its compute capability is " + std::string(text) +
                  ", and Sectile makes code for 8.0 and newer");
  }
  const Environment newer("FAKE_CUDA_CAPABILITY", "103");
  EXPECT_EQ(runtime::openCudaDevice(0)->target, "sm_103a");
}

TEST_F(RuntimeCuda, DriversThatTakeNoCodeOfOursAreRefused) {
  const auto opens = [](const char *version, const char *capability) {
    const Environment driver("FAKE_CUDA_VERSION", version),
        chip("FAKE_CUDA_CAPABILITY", capability);
    return message<DeviceError>([] { runtime::openCudaDevice(0); });
  };
  EXPECT_EQ(opens("11080", "80"),
            "cuda:0 (Fake H): the driver has CUDA 11.8, and code for sm_80 needs CUDA 12.0");
  EXPECT_EQ(opens("12000", "80"), "nothing was thrown");
  EXPECT_EQ(opens("12030", "90"),
            "cuda:0 (Fake H): the driver has CUDA 12.3, and code for sm_90a needs CUDA 12.4; with "
            "SECTILE_CUDA_TARGET=sm_80 it makes do with 12.0");
  EXPECT_EQ(opens("12040", "90"), "nothing was thrown");
  EXPECT_THAT(opens("12060", "120"), HasSubstr("code for sm_120a needs CUDA 12.8"));
  EXPECT_EQ(opens("12080", "120"), "nothing was thrown");
  const Environment target("SECTILE_CUDA_TARGET", "sm_80");
  EXPECT_EQ(opens("12030", "90"), "nothing was thrown");
}

TEST_F(RuntimeCuda, MakesTensorMapsOfArguments) {
  Artifact code = artifact("fake_map");
  code.plan.firstTensorMap = 2;
  TensorMapPlan plan;
  plan.elementBytes = 2;
  plan.swizzle = 128;
  plan.extents = {{-1, 64, 40}, {1, 32}};
  plan.strides = {{-1, 64, 48}};
  plan.box = {64, 128};
  code.plan.tensorMaps = {plan};
  // The zero that it keeps is no memory of the device that other tests look at.
  const Device other = Device::open("cuda:1");
  const auto kernel = other.impl()->load(code);
  uint64_t address = 0x7f0000001000, rows = 7;
  void *arguments[] = {&address, &rows};
  const int before = calls("cuTensorMapEncodeTiled");
  auto launch = [&] {
    other.impl()->launch(*kernel, GridExtents{1}, arguments, other.stream().native());
    const auto &map = lastLaunch().map;
    return std::vector<uint64_t>(map, map + 9);
  };
  constexpr uint64_t uint16 = 1, swizzle128 = 3;
  const std::vector<uint64_t> expected{uint16, 2, address, 40, 7, 96, 64, 128, swizzle128};
  EXPECT_EQ(launch(), expected);
  EXPECT_EQ(launch(), expected);
  EXPECT_EQ(calls("cuTensorMapEncodeTiled"), before + 1) << "the second launch is like the first";
  rows = 8;
  EXPECT_EQ(launch()[4], 8u);
  // Of nothing there is no map: a zero stands for it.
  rows = 0;
  const std::vector<uint64_t> empty = launch();
  EXPECT_NE(empty[2], address);
  EXPECT_EQ(empty[3], 1u);
  EXPECT_EQ(empty[4], 1u);
  rows = 9;
  failNext("cuTensorMapEncodeTiled", 1);
  EXPECT_THAT(message<DeviceError>([&] { launch(); }), HasSubstr("making a tensor map"));
}

// The numbers of CUtensorMapDataType.
TEST_F(RuntimeCuda, TensorMapsHaveTheTypeThatTheEngineAddsBy) {
  const Device other = Device::open("cuda:1");
  uint64_t address = 0x7f0000001000, rows = 8;
  void *arguments[] = {&address, &rows};
  auto typeOf = [&](unsigned bytes, TensorNumber number) {
    Artifact code = artifact("fake_map");
    code.plan.firstTensorMap = 2;
    TensorMapPlan plan;
    plan.elementBytes = bytes;
    plan.number = number;
    plan.extents = {{-1, 64, 64}, {-1, 64, 8}};
    plan.strides = {{-1, 64, 64}};
    plan.box = {16, 8};
    code.plan.tensorMaps = {plan};
    other.impl()->launch(*other.impl()->load(code), GridExtents{1}, arguments,
                         other.stream().native());
    return lastLaunch().map[0];
  };
  EXPECT_EQ(typeOf(1, TensorNumber::Bits), 0u);
  EXPECT_EQ(typeOf(4, TensorNumber::Bits), 2u);
  EXPECT_EQ(typeOf(8, TensorNumber::Bits), 4u);
  EXPECT_EQ(typeOf(2, TensorNumber::Half), 6u);
  EXPECT_EQ(typeOf(2, TensorNumber::BFloat), 9u);
}

TEST_F(RuntimeCuda, CompilesForAChosenTarget) {
  const auto target = [](const char *chosen) {
    setenv("SECTILE_CUDA_TARGET", chosen, 1);
    const std::string opened = runtime::openCudaDevice(0)->target;
    unsetenv("SECTILE_CUDA_TARGET");
    return opened;
  };
  EXPECT_EQ(target("sm_90"), "sm_90");
  EXPECT_EQ(target(""), "sm_90a");
  EXPECT_THAT(message<DeviceError>([&] { target("sm_91"); }), HasSubstr("unknown target 'sm_91'"));
  EXPECT_THAT(message<DeviceError>([&] { target("gfx942"); }),
              HasSubstr("'gfx942' is no target of a CUDA device"));
  unsetenv("SECTILE_CUDA_TARGET");
}

TEST_F(RuntimeCuda, RefusesUnknownNames) {
  auto open = [](const char *name) { return message<DeviceError>([&] { Device::open(name); }); };
  EXPECT_EQ(open("cuda:2"), "cuda:2: there are 2 CUDA devices");
  EXPECT_THAT(open("cuda:x"), HasSubstr("'x' is no number of a device"));
  EXPECT_THAT(open("cuda:01"), HasSubstr("'01' is no number of a device"));
  EXPECT_THAT(open("cuda:-1"), HasSubstr("'-1' is no number of a device"));
  EXPECT_THAT(open("cuda:"), HasSubstr("'' is no number of a device"));
  EXPECT_THAT(open("tpu"), HasSubstr("unknown device 'tpu'"));
  EXPECT_THAT(open(""), HasSubstr("unknown device ''"));
}

TEST_F(RuntimeCuda, UploadsAndDownloads) {
  std::vector<float> values{1, 2, 3};
  Buffer<float> buffer = device.upload(values);
  EXPECT_EQ(buffer.size(), 3u);
  EXPECT_EQ(buffer.device(), device);
  EXPECT_EQ(buffer.download(), values);
  const double array[] = {4, 5};
  EXPECT_THAT(device.upload(array).download(), ElementsAre(4, 5));
  Buffer<bool> flags = device.allocate<bool>(2);
  flags.fill(true);
  EXPECT_THAT(flags.download(), ElementsAre(true, true));
  std::vector<float> target(2);
  EXPECT_THAT(message<DeviceError>([&] { buffer.download(target); }),
              HasSubstr("the buffer has 3 elements, asked for are 2"));
}

TEST_F(RuntimeCuda, FillsEveryWidth) {
  auto filled = [&](auto value) {
    auto buffer = device.allocate<decltype(value)>(5);
    buffer.fill(value);
    for (auto got : buffer.download())
      EXPECT_EQ(got, value);
  };
  filled(std::int8_t{-3});
  filled(half(1.5f));
  filled(3.25f);
  filled(0x0123456789abcdefLL);
  filled(0x1234567812345678LL);
}

TEST_F(RuntimeCuda, PoisonIsNanOrAPattern) {
  auto floats = device.allocate<half>(3);
  floats.poison();
  for (float value : floats.download())
    EXPECT_TRUE(std::isnan(value));
  auto integers = device.allocate<int>(1);
  integers.poison();
  EXPECT_EQ(static_cast<unsigned>(integers.download()[0]), 0xcbcbcbcbu);
}

TEST_F(RuntimeCuda, SlicesShareTheMemory) {
  expectNothingLeft([&] {
    Buffer<int> part;
    {
      auto whole = device.upload(std::vector<int>{1, 2, 3, 4});
      part = whole.slice(1, 2);
      EXPECT_EQ(part.data(), whole.data() + 1);
      EXPECT_THAT(message<DeviceError>([&] { whole.slice(3, 2); }), HasSubstr("slice"));
    }
    part.fill(9);
    EXPECT_THAT(part.download(), ElementsAre(9, 9));
  });
}

TEST_F(RuntimeCuda, CopiesOnTheDevice) {
  auto source = device.upload(std::vector<int>{1, 2});
  auto target = device.allocate<int>(2);
  target.copy_from(source);
  EXPECT_THAT(target.download(), ElementsAre(1, 2));
  EXPECT_THAT(message<DeviceError>([&] { target.fill(0, Device::open("cuda:1").stream()); }),
              HasSubstr("a stream of cuda:1 was given for memory of cuda:0"));
}

TEST_F(RuntimeCuda, EmptyBuffersAreFine) {
  auto empty = device.allocate<float>(0);
  empty.fill(1);
  empty.poison();
  EXPECT_TRUE(empty.download().empty());
  EXPECT_TRUE(device.upload(std::vector<int>()).empty());
  Buffer<float> none;
  EXPECT_TRUE(none.empty());
  EXPECT_THAT(message<DeviceError>([&] { none.device(); }), HasSubstr("never allocated"));
}

TEST_F(RuntimeCuda, SaysWhyMemoryCannotBeHad) {
  EXPECT_EQ(message<DeviceError>([&] { device.allocate<char>(size_t{2} << 30); }),
            "cuda:0: allocating 2147483648 bytes (1073741824 of 1073741824 are free): "
            "CUDA_ERROR_OUT_OF_MEMORY: as the fake driver says");
  EXPECT_THAT(message<DeviceError>([&] { device.allocate<double>(SIZE_MAX / 4); }),
              HasSubstr("beyond any memory"));
  auto buffer = device.allocate<char>(1 << 20);
  EXPECT_EQ(device.memory().total_bytes - device.memory().free_bytes, size_t{1} << 20);
}

TEST_F(RuntimeCuda, EveryFailureNamesWhatWasDone) {
  auto buffer = device.upload(std::vector<int>{1});
  struct Case {
    const char *symbol, *doing;
    std::function<void()> act;
  };
  auto stream = device.new_stream();
  auto event = stream.record_timed();
  const Case cases[] = {
      {"cuMemAllocFromPoolAsync", "allocating 4 bytes", [&] { device.allocate<int>(1); }},
      {"cuMemcpyHtoD_v2", "copying to the device", [&] { device.upload(std::vector<int>{1}); }},
      {"cuMemcpyDtoH_v2", "copying to the host", [&] { buffer.download(); }},
      {"cuMemcpyDtoDAsync_v2", "copying on the device", [&] { buffer.copy_from(buffer); }},
      {"cuMemsetD32Async", "filling memory", [&] { buffer.fill(1); }},
      {"cuMemGetInfo_v2", "asking for the memory there is", [&] { device.memory(); }},
      {"cuCtxSynchronize", "waiting for the device", [&] { device.synchronize(); }},
      {"cuStreamCreate", "creating a stream", [&] { device.new_stream(); }},
      {"cuStreamSynchronize", "waiting for a stream", [&] { stream.synchronize(); }},
      {"cuEventCreate", "creating an event",
       [&] {
         for (std::vector<Event> all;;) // First come those that were there before.
           all.push_back(stream.record());
       }},
      {"cuEventRecord", "recording an event", [&] { stream.record(); }},
      {"cuEventSynchronize", "waiting for an event", [&] { event.synchronize(); }},
      {"cuEventQuery", "asking for an event", [&] { event.done(); }},
      {"cuStreamWaitEvent", "making a stream wait", [&] { stream.wait(event); }},
      {"cuEventElapsedTime", "measuring the time", [&] { elapsed_ms(event, event); }},
      {"cuStreamBeginCapture_v2", "starting a capture", [&] { stream.begin_capture(); }},
      {"cuModuleGetFunction", "finding kernel 'k'", [&] { impl->load(artifact("k")); }},
  };
  expectNothingLeft([&] {
    for (const Case &c : cases) {
      failNext(c.symbol, 700);
      EXPECT_THAT(message<DeviceError>(c.act),
                  testing::AllOf(testing::StartsWith(std::string("cuda:0: ") + c.doing),
                                 HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS")))
          << c.symbol;
    }
  });
  failNext("cuMemGetInfo_v2", 12345);
  EXPECT_THAT(message<DeviceError>([&] { device.memory(); }), HasSubstr("error 12345"));
}

TEST_F(RuntimeCuda, LaunchesAKernel) {
  auto kernel = impl->load(artifact("fake_add"));
  auto x = device.upload(std::vector<float>{1, 2, 3}),
       y = device.upload(std::vector<float>{10, 20, 30});
  auto z = device.allocate<float>(3);
  float *pointers[] = {x.data(), y.data(), z.data()};
  int n = 3;
  void *arguments[] = {&pointers[0], &pointers[1], &pointers[2], &n};
  impl->launch(*kernel, GridExtents{1, 2, 3}, arguments, device.stream().native());
  EXPECT_THAT(z.download(), ElementsAre(11, 22, 33));
  EXPECT_EQ(lastLaunch().grid[1], 2u);
  EXPECT_EQ(lastLaunch().threads, 128u);
  EXPECT_EQ(lastLaunch().stream, device.stream().native());

  n = 300;
  impl->launch(*kernel, GridExtents{3}, arguments, device.stream().native());
  EXPECT_EQ(message<DeviceError>([&] { z.download(); }),
            "cuda:0: copying to the host: CUDA_ERROR_ILLEGAL_ADDRESS: as the fake driver says");
  EXPECT_EQ(
      message<LaunchError>(
          [&] { impl->launch(*kernel, GridExtents{1, 65536, 1}, arguments, nullptr); }),
      "kernel 'fake_add': a grid of 1 x 65536 x 1 blocks; cuda:0 takes at most 2147483647 x 65535 "
      "x 65535");
  const int before = calls("cuLaunchKernel");
  impl->launch(*kernel, GridExtents{0}, arguments, device.stream().native());
  EXPECT_EQ(calls("cuLaunchKernel"), before) << "an empty grid launches nothing";
}

TEST_F(RuntimeCuda, DependentLaunchesOverlapWhereTheChipCan) {
  auto kernel = impl->load(artifact("quiet"));
  GridExtents grid{4, 2, 1, /*dependent=*/true};
  impl->launch(*kernel, grid, nullptr, device.stream().native());
  EXPECT_TRUE(lastLaunch().dependent);
  EXPECT_EQ(lastLaunch().grid[0], 4u);
  EXPECT_EQ(lastLaunch().grid[1], 2u);
  EXPECT_EQ(lastLaunch().threads, 128u);
  EXPECT_EQ(lastLaunch().stream, device.stream().native());
  grid.dependent = false;
  impl->launch(*kernel, grid, nullptr, device.stream().native());
  EXPECT_FALSE(lastLaunch().dependent);

  Device older = Device::open("cuda:1"); // sm_86
  auto there = older.impl()->load(artifact("quiet"));
  const int extended = calls("cuLaunchKernelEx");
  grid.dependent = true;
  older.impl()->launch(*there, grid, nullptr, older.stream().native());
  EXPECT_FALSE(lastLaunch().dependent);
  EXPECT_EQ(calls("cuLaunchKernelEx"), extended);
}

// What is ahead of a call's first launch may be anybody's.
TEST_F(RuntimeCuda, OnlyCodeThatWaitsOverlaps) {
  const Kernel kernel{"quiet", [](Ptr<int>) {}};
  detail::BoundLaunch launch = kernel.bind(1, device.allocate<int>(1), {.dependent = true});
  for (const WaitPoint wait : {WaitPoint::None, WaitPoint::Start, WaitPoint::ByHand}) {
    Artifact code = artifact("quiet");
    code.plan.wait = wait;
    const auto loaded = impl->load(code);
    const auto overlaps = [&] {
      runtime::LaunchAccess::launch(launch, *loaded, device.stream());
      return lastLaunch().dependent;
    };
    EXPECT_EQ(overlaps(), wait != WaitPoint::None);
    {
      const runtime::LaunchesOfCall one;
      launch.grid.x = 0; // none
      runtime::LaunchAccess::launch(launch, *loaded, device.stream());
      launch.grid.x = 1;
      EXPECT_EQ(overlaps(), wait == WaitPoint::Start);
      EXPECT_EQ(overlaps(), wait != WaitPoint::None);
    }
    {
      const runtime::LaunchesOfCall withoutAny;
    }
    EXPECT_EQ(overlaps(), wait != WaitPoint::None);
    launch.options.dependent = false;
    EXPECT_FALSE(overlaps());
    launch.options.dependent = true;
  }
}

// Each launch of a call overlaps the one ahead, the first whatever the stream holds.
TEST_F(RuntimeCuda, LaunchesOfOneCallOverlap) {
  const Buffer<half> values = device.upload(std::vector<half>(2 * 64 * 32));
  const Buffer<float> logs = device.upload(std::vector<float>(2 * 64));
  NamedTensors inputs{{"lse", tensor(logs, {1, 2, 64})}};
  for (const char *name : {"q", "k", "v", "o", "do"})
    inputs[name] = tensor(values, {1, 2, 64, 32});
  const auto expectLaunches = [&](int ordinary, int overlapping) {
    ordinary += calls("cuLaunchKernel"), overlapping += calls("cuLaunchKernelEx");
    run_kernel(device.stream(), "attention_backward", inputs);
    EXPECT_EQ(calls("cuLaunchKernel"), ordinary);
    EXPECT_EQ(calls("cuLaunchKernelEx"), overlapping);
  };
  for (int round = 0; round < 2; ++round)
    expectLaunches(0, 3);
  // Of no queries the launch that waits first is empty, and the one behind it reads k and v early.
  for (const char *name : {"q", "o", "do"})
    inputs[name] = tensor(values, {1, 2, 0, 32});
  inputs["lse"] = tensor(logs, {1, 2, 0});
  expectLaunches(1, 0);
}

TEST_F(RuntimeCuda, ALaunchCallsNothingButTheLaunch) {
  auto kernel = impl->load(artifact("quiet"));
  impl->launch(*kernel, GridExtents{}, nullptr, device.stream().native());
  const int all = calls(nullptr), contexts = calls("cuCtxGetCurrent");
  impl->launch(*kernel, GridExtents{}, nullptr, device.stream().native());
  // The question for the current context, its push and pop, and the launch.
  EXPECT_EQ(calls(nullptr) - all, 4);
  EXPECT_EQ(calls("cuCtxGetCurrent") - contexts, 1);
}

TEST_F(RuntimeCuda, SharedMemoryBeyondTheDefaultIsAskedFor) {
  auto kernel = impl->load(artifact("big", 200 * 1024));
  impl->launch(*kernel, GridExtents{}, nullptr, device.stream().native());
  EXPECT_EQ(lastLaunch().sharedBytes, 200u * 1024);
  EXPECT_EQ(message<LaunchError>(
                [&] { Device::open("cuda:1").impl()->load(artifact("big", 232 * 1024)); }),
            "kernel 'big' needs 232 KiB of shared memory, sm_86 has 99 KiB: lower the stages or "
            "the tile's extents");
  Artifact wide = artifact("wide");
  wide.plan.threads = 2048;
  EXPECT_THAT(message<LaunchError>([&] { impl->load(wide); }),
              HasSubstr("blocks of 2048 threads, sm_90a has 1024"));
}

TEST_F(RuntimeCuda, TellsWhatTheDriversCompilerSaid) {
  Artifact broken = artifact("broken");
  broken.bytes = "no code at all";
  EXPECT_EQ(message<DeviceError>([&] { impl->load(broken); }),
            "cuda:0: loading kernel 'broken' (fake ptxas: no entry): CUDA_ERROR_INVALID_PTX: as "
            "the fake driver says");
  broken.kind = "hsaco";
  EXPECT_THAT(message<DeviceError>([&] { impl->load(broken); }),
              HasSubstr("its code is of the kind 'hsaco'"));
}

TEST_F(RuntimeCuda, CapturesLaunchesIntoAGraph) {
  auto kernel = impl->load(artifact("fake_add"));
  auto x = device.upload(std::vector<float>{1, 2}), z = device.upload(std::vector<float>{0, 0});
  float *pointers[] = {x.data(), z.data(), z.data()};
  int n = 2;
  void *arguments[] = {&pointers[0], &pointers[1], &pointers[2], &n};
  Stream stream = device.new_stream();
  stream.begin_capture();
  impl->launch(*kernel, GridExtents{}, arguments, stream.native());
  Graph graph = stream.end_capture();
  EXPECT_THAT(z.download(), ElementsAre(0, 0));
  graph.launch(stream);
  graph.launch(stream);
  stream.synchronize();
  EXPECT_THAT(z.download(), ElementsAre(2, 4));
  EXPECT_THAT(message<DeviceError>([&] { graph.launch(Device::open("cuda:1").stream()); }),
              HasSubstr("a graph of cuda:0 cannot run in a stream of cuda:1"));
}

TEST_F(RuntimeCuda, EventsMeasureAndOrder) {
  Stream stream = device.new_stream();
  Event start = stream.record_timed();
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  Event end = stream.record_timed();
  EXPECT_GE(elapsed_ms(start, end), 3.0f);
  EXPECT_TRUE(end.done());
  device.stream().wait(end);
  Device::open("cuda:1").stream().wait(end);
}

TEST_F(RuntimeCuda, WrappedStreamsStayTheirOwners) {
  Stream own = device.new_stream();
  expectNothingLeft([&] { Stream wrapped = Stream::wrap(device, own.native()); });
  own.synchronize();
}

TEST_F(RuntimeCuda, WorksFromOtherThreads) {
  std::vector<int> got;
  std::thread([&] { got = device.upload(std::vector<int>{7}).download(); }).join();
  EXPECT_THAT(got, ElementsAre(7));
}

} // namespace
