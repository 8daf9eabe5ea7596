// Devices among other people's: contexts and events of other libraries, several devices in one
// process, devices that are lost and opened again. Over the fake CUDA driver and virtual GPUs.
#include "tests/fake/fake_cuda.h"
#include "tests/unit/Message.h"
#include <cstdlib>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/sectile.h>

using namespace sectile;
using sectile::test::message;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

const bool chosen = setenv("SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA, 1) == 0 &&
                    setenv("SECTILE_CACHE_DIR", "", 1) == 0;

Kernel add{"fake_add", [](Ptr<const float> x, Ptr<const float> y, Ptr<float> z, Int n) {
             auto i = program_id(0) * 128 + arange(0, 128);
             store(z + i, load(x + i, i < n) + load(y + i, i < n), i < n);
           }};

template <class F> F fake(const char *symbol) {
  static void *library = dlopen(SECTILE_FAKE_CUDA, RTLD_NOW);
  return reinterpret_cast<F>(dlsym(library, symbol));
}
void *newContext(int device) { return fake<decltype(&fakeCudaContext)>("fakeCudaContext")(device); }
void destroy(void *context) {
  fake<decltype(&fakeCudaDestroyContext)>("fakeCudaDestroyContext")(context);
}
void breakDevice(int device) { fake<decltype(&fakeCudaBreak)>("fakeCudaBreak")(device); }

std::vector<float> sumOn(const Device &device) {
  auto x = device.upload(std::vector<float>{1, 2, 3}), z = device.allocate<float>(3);
  add.launch(device.stream(), 1, x, x, z, 3);
  return z.download();
}

} // namespace

TEST(Contexts, OfOtherLibrariesAreDevices) {
  void *const context = newContext(0);
  const Device own = Device::open("cuda:0"), device = Device::wrap(context);
  EXPECT_NE(device, own);
  EXPECT_EQ(device, Device::wrap(context));
  EXPECT_EQ(device, Device::open(device.name()));
  EXPECT_EQ(device.target(), "sm_90a");
  EXPECT_EQ(Device::wrap(newContext(1)).target(), "sm_86");
  EXPECT_THAT(sumOn(device), ElementsAre(2, 4, 6));
  EXPECT_THAT(sumOn(own), ElementsAre(2, 4, 6));

  // Memory and streams are those of one context.
  auto there = own.upload(std::vector<float>{1, 2, 3}), z = device.allocate<float>(3);
  EXPECT_THAT(message<LaunchError>([&] { add.launch(device.stream(), 1, there, there, z, 3); }),
              HasSubstr("argument 0 lies on cuda:0, the stream is one of " + device.name()));
  z.copy_from(there);
  EXPECT_THAT(z.download(), ElementsAre(1, 2, 3));
  const Stream stream = device.new_stream();
  EXPECT_THAT(message<DeviceError>([&] { Stream::wrap(own, stream.native()); }),
              HasSubstr("cuda:0: the stream is one of another context: Device::wrap"));
  EXPECT_EQ(Stream::wrap(device, stream.native()).device(), device);
}

TEST(Contexts, ThatAreGoneAreNotMistakenForOthers) {
  const Device own = Device::open("cuda:0");
  void *const context = newContext(0);
  {
    const Device device = Device::wrap(context);
    auto buffer = device.upload(std::vector<float>(3));
    EXPECT_THAT(sumOn(device), ElementsAre(2, 4, 6));
    destroy(context);
    EXPECT_THAT(message<DeviceError>([&] { device.allocate<float>(3); }),
                HasSubstr("a CUDA context cannot be made current"));
    EXPECT_THAT(message<DeviceError>([&] { buffer.download(); }),
                HasSubstr("a CUDA context cannot be made current"));
  }
  EXPECT_THAT(sumOn(own), ElementsAre(2, 4, 6));
}

TEST(Contexts, AreGivenUpBeforeTheyEnd) {
  void *const context = newContext(0);
  const Device device = Device::wrap(context);
  auto buffer = device.upload(std::vector<float>{1});
  device.reset();
  EXPECT_THAT(message<DeviceError>([&] { buffer.download(); }),
              HasSubstr("is lost to this process: it was reset"));
  // The context itself is its owner's.
  const Device again = Device::wrap(context);
  EXPECT_NE(again, device);
  EXPECT_THAT(sumOn(again), ElementsAre(2, 4, 6));
}

TEST(Events, OfOtherLibrariesOrderOurStreams) {
  const Device device = Device::open("cuda:0");
  const Stream first = device.new_stream(), second = device.new_stream();
  auto from = device.upload(std::vector<int>{1}), to = device.allocate<int>(1);
  from.fill(2, first);
  const Event recorded = first.record();
  {
    const Event event = Event::wrap(device, recorded.native());
    EXPECT_EQ(event.native(), recorded.native());
    second.wait(event);
  }
  to.copy_from(from, second);
  second.synchronize();
  EXPECT_THAT(to.download(), ElementsAre(2));
  recorded.synchronize(); // it is still its owner's
}

TEST(Devices, CopyFromEachOther) {
  const Device first = Device::open("cuda:0"), second = Device::open("cuda:1");
  auto to = second.upload(std::vector<int>{0, 0});
  {
    auto from = first.upload(std::vector<int>{1, 2});
    // Behind what the source's stream had, before what it gets, and before the memory is freed.
    from.fill(7);
    to.copy_from(from);
    from.fill(9);
  }
  EXPECT_THAT(to.download(), ElementsAre(7, 7));

  const Stream stream = second.new_stream();
  auto from = first.upload(std::vector<int>{3, 4});
  to.copy_from(from, stream);
  stream.synchronize();
  EXPECT_THAT(to.download(), ElementsAre(3, 4));
  EXPECT_THAT(message<DeviceError>([&] { to.copy_from(from, first.stream()); }),
              HasSubstr("a stream of cuda:0 was given for memory of cuda:1"));
}

TEST(Devices, CopyFromEachOtherInGraphs) {
  const Device first = Device::open("cuda:0"), second = Device::open("cuda:1");
  const Stream stream = second.new_stream();
  auto from = first.upload(std::vector<int>{1, 2});
  auto to = second.upload(std::vector<int>{0, 0});
  stream.begin_capture();
  to.copy_from(from, stream);
  const Graph graph = stream.end_capture();
  from.upload(std::vector<int>{5, 6});
  from = Buffer<int>(); // The graph keeps it.
  graph.launch(stream);
  stream.synchronize();
  EXPECT_THAT(to.download(), ElementsAre(5, 6));
}

TEST(Devices, StreamsWaitForEventsOfOthers) {
  const Device first = Device::open("cuda:0"), second = Device::open("cuda:1");
  auto from = first.upload(std::vector<int>{1}), to = second.upload(std::vector<int>{0});
  const Stream writes = first.new_stream(), reads = second.new_stream();
  from.fill(4, writes);
  reads.wait(writes.record());
  to.copy_from(from, reads);
  reads.synchronize();
  EXPECT_THAT(to.download(), ElementsAre(4));
  EXPECT_THAT(
      message<DeviceError>([&] { reads.wait(Device::open("virtual:sm_80").stream().record()); }),
      HasSubstr("a stream of cuda:1 cannot wait for an event of virtual:sm_80"));
}

TEST(Devices, OfAllKindsCopyFromEachOther) {
  for (const auto &[source, target] : {std::pair{"virtual:sm_80", "virtual:gfx942"},
                                       {"cuda:0", "virtual:sm_80"},
                                       {"interpreter", "cuda:1"}}) {
    auto from = Device::open(source).upload(std::vector<int>{1, 2});
    auto to = Device::open(target).allocate<int>(2);
    from.fill(3);
    to.copy_from(from);
    EXPECT_THAT(to.download(), ElementsAre(3, 3)) << source << " " << target;
  }
}

TEST(Devices, AreOpenedAgainAfterAReset) {
  const Device lost = Device::open("cuda:0");
  auto buffer = lost.upload(std::vector<float>{1, 2, 3});
  const Stream stream = lost.new_stream();
  const Event event = stream.record();
  EXPECT_THAT(sumOn(lost), ElementsAre(2, 4, 6));
  EXPECT_EQ(Device::open("cuda:0"), lost);
  lost.reset();
  lost.reset();
  const Device device = Device::open("cuda:0");
  EXPECT_NE(device, lost);
  EXPECT_EQ(Device::best(), device);
  EXPECT_THAT(sumOn(device), ElementsAre(2, 4, 6));
  EXPECT_EQ(message<DeviceError>([&] { buffer.download(); }),
            "cuda:0 is lost to this process: it was reset");
  EXPECT_EQ(message<DeviceError>([&] { stream.synchronize(); }),
            "cuda:0 is lost to this process: it was reset");
  EXPECT_EQ(
      message<DeviceError>([&] { add.launch(device.stream(), 1, buffer, buffer, buffer, 3); }),
      "cuda:0 is lost to this process: it was reset");
}

TEST(Devices, OnTheHostAreOpenedAgain) {
  const Device before = Device::open("virtual:sm_86");
  EXPECT_THAT(sumOn(before), ElementsAre(2, 4, 6));
  before.reset();
  const Device device = Device::open("virtual:sm_86");
  EXPECT_NE(device, before);
  EXPECT_THAT(sumOn(device), ElementsAre(2, 4, 6));
}

// As a driver does: what a kernel did there lasts as long as the process. Last of these tests.
TEST(Devices, StayLostAfterAnErrorInAKernel) {
  const Device lost = Device::open("cuda:0");
  EXPECT_THAT(sumOn(lost), ElementsAre(2, 4, 6));
  breakDevice(0);
  EXPECT_THAT(message<DeviceError>([&] { sumOn(lost); }), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  lost.reset();
  EXPECT_THAT(message<DeviceError>([] { Device::open("cuda:0"); }),
              HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_THAT(sumOn(Device::open("cuda:1")), ElementsAre(2, 4, 6));
}
