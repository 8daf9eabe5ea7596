// HIP devices over a fake HIP: everything a back end does, and that its errors say what was being
// done.
#include "runtime/DeviceImpl.h"
#include "tests/fake/fake_cuda.h"
#include "tests/unit/Message.h"
#include <cmath>
#include <cstdlib>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/buffer.h>

using namespace sectile;
using sectile::test::message;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

const bool chosen = setenv("SECTILE_HIP_LIBRARY", SECTILE_FAKE_HIP, 1) == 0 &&
                    setenv("SECTILE_CUDA_LIBRARY", "", 1) == 0;

template <class F> F fake(const char *symbol) {
  static void *library = dlopen(SECTILE_FAKE_HIP, RTLD_NOW);
  return reinterpret_cast<F>(dlsym(library, symbol));
}
void failNext(const char *symbol, int error) {
  fake<decltype(&fakeCudaFail)>("fakeCudaFail")(symbol, error, 1);
}
int live() { return fake<decltype(&fakeCudaLive)>("fakeCudaLive")(); }

class RuntimeHip : public testing::Test {
protected:
  static Artifact artifact(const std::string &entry) {
    Artifact result;
    result.kind = "hsaco";
    result.entry = entry;
    result.bytes = ".entry " + entry;
    result.plan.threads = 256;
    return result;
  }
  Device device = Device::open("hip:0");
};

TEST_F(RuntimeHip, TellsWhatTheDeviceIs) {
  EXPECT_EQ(Device::best(), device);
  EXPECT_EQ(device.description(), "Fake MI");
  EXPECT_EQ(device.target(), "gfx942");
  EXPECT_EQ(device.limits().warp_size, 64u);
  EXPECT_EQ(message<DeviceError>([] { Device::open("hip:2"); }), "hip:2: there are 2 HIP devices");
  EXPECT_THAT(message<DeviceError>([] { Device::open("hip:1"); }),
              HasSubstr("hip:1 (gfx90a): unknown target 'gfx9999'"));
  for (const Device &other : Device::all())
    EXPECT_NE(other.name(), "hip:1") << "a device that does not open is not among them";
}

TEST_F(RuntimeHip, ResetsAndOpensAgain) {
  auto buffer = device.upload(std::vector<int>{1});
  device.reset();
  EXPECT_EQ(message<DeviceError>([&] { buffer.download(); }),
            "hip:0 is lost to this process: it was reset");
  const Device again = Device::open("hip:0");
  EXPECT_NE(again, device);
  EXPECT_THAT(again.upload(std::vector<int>{2}).download(), ElementsAre(2));
}

TEST_F(RuntimeHip, MovesAndFillsMemory) {
  auto buffer = device.upload(std::vector<int>{1, 2, 3});
  auto copy = device.allocate<int>(3);
  copy.copy_from(buffer);
  EXPECT_THAT(copy.download(), ElementsAre(1, 2, 3));
  for (size_t count : {1, 2, 5, 8}) {
    auto wide = device.allocate<double>(count);
    wide.fill(1.1);
    EXPECT_EQ(wide.download(), std::vector<double>(count, 1.1));
    wide.fill(0);
    EXPECT_EQ(wide.download(), std::vector<double>(count, 0.0));
  }
  auto halves = device.allocate<half>(3);
  halves.fill(half(0.5f));
  EXPECT_EQ(halves.download()[2], 0.5f);
  halves.poison();
  EXPECT_TRUE(std::isnan(halves.download()[1]));
}

TEST_F(RuntimeHip, LaunchesAndCaptures) {
  const auto use = [&] {
    auto kernel = device.impl()->load(artifact("fake_add"));
    auto x = device.upload(std::vector<float>{1, 2}), z = device.upload(std::vector<float>{0, 0});
    uint64_t words[] = {x.memory().address(), z.memory().address(), z.memory().address(), 2};
    void *arguments[] = {&words[0], &words[1], &words[2], &words[3]};
    device.impl()->launch(*kernel, {}, arguments, device.stream().native());
    EXPECT_THAT(z.download(), ElementsAre(1, 2));
    Stream stream = device.new_stream();
    stream.begin_capture();
    device.impl()->launch(*kernel, {}, arguments, stream.native());
    Graph graph = stream.end_capture();
    EXPECT_THAT(z.download(), ElementsAre(1, 2));
    graph.launch(stream);
    EXPECT_THAT(z.download(), ElementsAre(2, 4));
    Event start = stream.record_timed(), stop = stream.record_timed();
    EXPECT_GE(elapsed_ms(start, stop), 0.0f);
  };
  use();
  const int before = live();
  use();
  EXPECT_EQ(live(), before);
}

TEST_F(RuntimeHip, FailuresNameWhatWasDone) {
  EXPECT_THAT(message<DeviceError>([&] { device.allocate<char>(size_t{2} << 30); }),
              HasSubstr("hip:0: allocating 2147483648 bytes (1073741824 of 1073741824 are free): "
                        "hipErrorOutOfMemory"));
  auto buffer = device.allocate<int>(1);
  struct Case {
    const char *symbol, *doing;
    std::function<void()> act;
  };
  const Case cases[] = {
      {"cuMemcpyHtoD_v2", "copying to the device", [&] { device.upload(std::vector<int>{1}); }},
      {"cuMemcpyDtoH_v2", "copying to the host", [&] { buffer.download(); }},
      {"cuMemsetD32Async", "filling memory", [&] { buffer.fill(1); }},
      {"cuCtxSynchronize", "waiting for the device", [&] { device.synchronize(); }},
      {"cuStreamCreate", "creating a stream", [&] { device.new_stream(); }},
      {"cuModuleLoadDataEx", "loading kernel 'k'", [&] { device.impl()->load(artifact("k")); }},
      {"cuModuleGetFunction", "finding kernel 'k'", [&] { device.impl()->load(artifact("k")); }},
      {"cuLaunchKernel", "launching kernel 'k'",
       [&] {
         device.impl()->launch(*device.impl()->load(artifact("k")), {}, nullptr,
                               device.stream().native());
       }},
  };
  for (const Case &c : cases) {
    failNext(c.symbol, 719);
    EXPECT_THAT(message<DeviceError>(c.act),
                testing::AllOf(HasSubstr(std::string("hip:0: ") + c.doing),
                               HasSubstr("hipErrorSomething: as the fake HIP says")))
        << c.symbol;
  }
  Artifact other = artifact("k");
  other.kind = "ptx";
  EXPECT_THAT(message<DeviceError>([&] { device.impl()->load(other); }),
              HasSubstr("of the kind 'ptx'"));
}

} // namespace
