// Tensors copied to the host, from it, and from device to device, of any strides.
#include "ops/Devices.h"
#include "tests/unit/Message.h"
#include <gmock/gmock.h>
#include <numeric>

using namespace sectile;
using sectile::test::message;
using testing::HasSubstr;

namespace {

SECTILE_ON_DEVICES(TensorCopies);

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST_P(TensorCopies, DownloadsInTheOrderOfTheExtents) {
  const auto buffer = device.upload(counted(6));
  EXPECT_EQ(tensor(buffer, {2, 3}).download(), counted(6));
  EXPECT_EQ(tensor(buffer, {2, 3}).transpose().download(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(tensor(buffer, {2, 2}, {3, 2}).download(), (std::vector<float>{0, 2, 3, 5}));
  EXPECT_EQ(tensor(buffer, {2, 2}, {0, 1}).download(), (std::vector<float>{0, 1, 0, 1}));
  EXPECT_EQ(tensor(buffer, {4, 0}).download(), std::vector<float>());
  const Tensor<float, 1> backwards(buffer.data() + 5, {3}, {-2}, buffer.memory());
  EXPECT_EQ(backwards.download(), (std::vector<float>{5, 3, 1}));
  const Tensor<const float, 1> constant = backwards;
  std::vector<float> values(3);
  constant.download(values);
  EXPECT_EQ(values, (std::vector<float>{5, 3, 1}));
  const auto bits = tensor(device.upload(std::array{true, false, false}), {3});
  EXPECT_EQ(bits.download(), (std::vector<bool>{true, false, false}));
}

TEST_P(TensorCopies, TakesTheBoolsThatItGives) {
  const std::vector<bool> bits = {true, true, false, false}, others = {false, true, false, false};
  const auto buffer = device.upload(bits);
  EXPECT_EQ(buffer.download(), bits);
  buffer.upload(others);
  EXPECT_EQ(buffer.download(), others);
  const auto flipped = tensor(buffer, {2, 2}).transpose();
  flipped.upload(bits);
  EXPECT_EQ(flipped.download(), bits);
  EXPECT_EQ(buffer.download(), (std::vector<bool>{true, false, true, false}));
  EXPECT_THROW(buffer.upload(std::vector<bool>(3)), Error);
  EXPECT_THROW(flipped.upload(std::vector<bool>(3)), Error);
}

TEST_P(TensorCopies, UploadsBetweenOtherElements) {
  const auto buffer = device.upload(counted(7));
  tensor(buffer.slice(1, 6), {2, 2}, {3, 2}).upload(std::vector<float>{-1, -2, -3, -4});
  EXPECT_EQ(buffer.download(), (std::vector<float>{0, -1, 2, -2, -3, 5, -4}));
  tensor(buffer.slice(1, 6), {2, 3}).transpose().upload(std::vector<float>{1, 4, 2, 5, 3, 6});
  EXPECT_EQ(buffer.download(), counted(7));
  const Tensor<float, 1> backwards(buffer.data() + 6, {3}, {-3}, buffer.memory());
  backwards.upload(std::vector<float>{60, 30, 10});
  EXPECT_EQ(buffer.download(), (std::vector<float>{10, 1, 2, 30, 4, 5, 60}));
}

TEST_P(TensorCopies, GoToOtherDevices) {
  const auto buffer = device.upload(counted(6));
  for (const char *name : {"interpreter", "virtual:sm_80", "virtual:gfx942"}) {
    const Device other = Device::open(name);
    const auto matrix = tensor(buffer, {2, 3});
    const auto copy = matrix.transpose().to(other);
    EXPECT_EQ(copy.memory().device(), other);
    EXPECT_EQ(copy.strides(), matrix.transpose().strides());
    EXPECT_EQ(copy.download(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
    copy.upload(std::vector<float>{9, 9, 9, 9, 9, 9});
    EXPECT_EQ(matrix.download(), counted(6)) << "the copy has memory of its own";
    const Tensor<const float, 1> backwards =
        Tensor<float, 1>(buffer.data() + 5, {2}, {-2}, buffer.memory());
    EXPECT_EQ(backwards.to(other).download(), (std::vector<float>{5, 3}));
    EXPECT_EQ(tensor(buffer, {2, 0}).to(other).download(), std::vector<float>());
  }
}

TEST_P(TensorCopies, SayWhatIsWrong) {
  const auto buffer = device.upload(counted(6));
  const auto matrix = tensor(buffer, {2, 3});
  std::vector<float> five(5);
  EXPECT_EQ(message<DeviceError>([&] { matrix.upload(five); }),
            "upload: a tensor of extents [2, 3] has 6 elements, 5 were given");
  EXPECT_EQ(message<DeviceError>([&] { matrix.download(five); }),
            "download: a tensor of extents [2, 3] has 6 elements, 5 were given");
  const Tensor<float, 1> bare(buffer.data(), {6}, {1});
  EXPECT_THAT(message<LaunchError>([&] { bare.download(); }), HasSubstr("a bare address"));
  EXPECT_THAT(message<LaunchError>([&] { bare.upload(counted(6)); }), HasSubstr("a bare address"));
  EXPECT_THAT(message<LaunchError>([&] { bare.to(device); }), HasSubstr("a bare address"));
  const Tensor<float, 2> beyond(buffer.data(), {2, 3}, {4, 1}, buffer.memory());
  EXPECT_EQ(message<LaunchError>([&] { beyond.download(); }),
            "a tensor of extents [2, 3] and strides [4, 1] reaches beyond its 24 bytes of memory");
  EXPECT_EQ(message<LaunchError>([&] { beyond.to(device); }),
            "a tensor of extents [2, 3] and strides [4, 1] reaches beyond its 24 bytes of memory");
  const Tensor<float, 1> before(buffer.data(), {2}, {-1}, buffer.memory());
  EXPECT_THAT(message<LaunchError>([&] { before.upload(counted(2)); }),
              HasSubstr("reaches beyond its 24 bytes"));
  const Tensor<float, 2> negative(buffer.data(), {2, -3}, {4, 1}, buffer.memory());
  EXPECT_THAT(message<LaunchError>([&] { negative.download(); }), HasSubstr("a negative extent"));
  const Tensor<float, 2> endless(buffer.data(), {1ll << 40, 1ll << 40}, {0, 0}, buffer.memory());
  EXPECT_THAT(message<LaunchError>([&] { endless.download(); }),
              HasSubstr("more elements than any host's memory"));
  EXPECT_EQ(
      message<LaunchError>([&] { tensor(buffer, {2, 2}, {0, 1}).upload(std::vector<float>(4)); }),
      "upload: elements of a tensor of extents [2, 2] and strides [0, 1] share memory");
  EXPECT_EQ(buffer.download(), counted(6)) << "what is refused writes nothing";
}

// What a kernel is told of an address that is not the device's own memory.
TEST_P(TensorCopies, FindingsNameFreedAndHostMemory) {
  if (device.name() != "interpreter" && !device.name().starts_with("virtual:"))
    GTEST_SKIP() << "a chip does not say where an address lies";
  Kernel read{"read", [](Ptr<const float> x, Ptr<float> y) { store(y, load(x)); }};
  const auto y = device.allocate<float>(1);
  const auto found = [&](const float *x) {
    return message<DeviceError>([&] { read.launch(device.stream(), 1, x, y); });
  };
  const float *freed = nullptr;
  {
    const auto gone = device.upload(counted(100));
    freed = gone.data() + 3;
  }
  EXPECT_THAT(found(freed), HasSubstr("at byte 12 of an allocation of 400 bytes that was freed"));
  const auto host = std::make_unique<float[]>(1 << 20);
  EXPECT_THAT(found(host.get() + 5), HasSubstr("is it host memory?"));
  EXPECT_THAT(found(reinterpret_cast<const float *>(0x40)), testing::Not(HasSubstr("host memory")));
}

} // namespace
