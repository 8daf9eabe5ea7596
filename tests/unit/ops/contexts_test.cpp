// Contexts of other libraries, several devices and a device that is lost, on NVIDIA's chips. What
// the fake driver's tests say of these, a driver says too.
#include "Devices.h"
#include <algorithm>
#include <dlfcn.h>
#include <gmock/gmock.h>

namespace sc = sectile;
using testing::Each;

namespace {

const sc::Kernel addOne{"add_one", [](sc::Ptr<const float> x, sc::Ptr<float> y) {
                          auto i = sc::program_id(0) * 64 + sc::arange(0, 64);
                          sc::store(y + i, sc::load(x + i) + 1.0f);
                        }};

class OnCuda : public testing::Test {
protected:
  void SetUp() override {
    if (std::ranges::none_of(sc::test::devices(),
                             [](const auto &name) { return name.starts_with("cuda:"); }))
      GTEST_SKIP() << "for chips: there is a fake driver's test of the same";
  }

  template <class... Arguments> static void call(const char *name, Arguments... arguments) {
    static void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    auto *function = reinterpret_cast<int (*)(Arguments...)>(dlsym(driver, name));
    ASSERT_TRUE(function) << name;
    ASSERT_EQ(function(arguments...), 0) << name;
  }
  static void expectWorks(const sc::Device &device) {
    const auto x = device.upload(std::vector<float>(640, 2));
    auto y = device.allocate<float>(640);
    addOne.launch(device.stream(), 10, x, y);
    EXPECT_THAT(y.download(), Each(3));
  }
};

TEST_F(OnCuda, AContextOfAnotherLibraryIsADevice) {
  const sc::Device own = sc::Device::open("cuda:0");
  expectWorks(own);
  void *context = nullptr, *other = nullptr, *stream = nullptr;
  call("cuCtxCreate_v2", &context, 0u, 0);
  call("cuStreamCreate", &stream, 1u); // in the context, which is current now
  call("cuCtxPopCurrent_v2", &other);
  {
    const sc::Device device = sc::Device::wrap(context);
    EXPECT_NE(device, own);
    expectWorks(device);
    const auto x = device.upload(std::vector<float>(640, 4));
    auto y = device.allocate<float>(640);
    {
      const sc::Stream theirs = sc::Stream::wrap(device, stream);
      addOne.launch(theirs, 10, x, y);
      theirs.synchronize();
    }
    EXPECT_THAT(y.download(), Each(5));
    EXPECT_THROW(sc::Stream::wrap(own, stream), sc::DeviceError);
    expectWorks(own);
  }
}

TEST_F(OnCuda, MemoryIsCopiedFromDeviceToDevice) {
  std::optional<sc::Device> second;
  try {
    second = sc::Device::open("cuda:1");
  } catch (const sc::DeviceError &) {
    GTEST_SKIP() << "there is one device";
  }
  const sc::Device first = sc::Device::open("cuda:0");
  expectWorks(*second);
  const auto from = first.upload(std::vector<float>(1 << 20, 7));
  auto to = second->allocate<float>(1 << 20);
  to.copy_from(from);
  from.fill(9); // behind the copy
  EXPECT_THAT(to.download(), Each(7));
  EXPECT_THAT(from.download(), Each(9));
  // Streams wait for the other device's events.
  auto back = first.allocate<float>(1 << 20);
  second->stream().wait(first.stream().record());
  to.fill(11);
  first.stream().wait(second->stream().record());
  back.copy_from(to);
  EXPECT_THAT(back.download(), Each(11));
}

TEST_F(OnCuda, ADeviceIsOpenedAgainAfterAReset) {
  const sc::Device device = sc::Device::open("cuda:0");
  expectWorks(device);
  device.reset();
  expectWorks(sc::Device::open("cuda:0"));
}

// Last in this file: nothing more can be done there in this process.
TEST_F(OnCuda, AnErrorInAKernelLosesTheDevice) {
  const sc::Device device = sc::Device::open("cuda:0");
  expectWorks(device);
  addOne.launch(device.stream(), 1, reinterpret_cast<const float *>(8), // NOLINT
                reinterpret_cast<float *>(8));                          // NOLINT
  EXPECT_THROW(device.synchronize(), sc::DeviceError);
  EXPECT_THROW(device.upload(std::vector<float>(64, 1)), sc::DeviceError);
  device.reset();
  EXPECT_THROW(sc::Device::open("cuda:0"), sc::DeviceError);
}

} // namespace
