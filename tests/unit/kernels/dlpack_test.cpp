// Tensors of other libraries in calls of the library, and results for other libraries.
#include "../ops/Devices.h"
#include "tests/unit/Message.h"
#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <sectile/dlpack.h>
#include <sectile/kernels.h>

using namespace sectile;
using sectile::test::message;
using testing::HasSubstr;

namespace {

SECTILE_ON_DEVICES(DLPack);

// What another library would hand over: a matrix in memory of the device.
struct Foreign {
  Buffer<float> buffer;
  std::int64_t shape[2], strides[2];
  DLManagedTensor managed{};

  Foreign(const Device &device, const std::vector<float> &values, std::int64_t rows,
          std::int64_t columns)
      : buffer(device.upload(values)), shape{rows, columns}, strides{columns, 1} {
    // The device's own words for where it is.
    DLManagedTensor *const own = to_dlpack<DLManagedTensor>(tensor(buffer, {1}));
    managed.dl_tensor = own->dl_tensor;
    own->deleter(own);
    managed.dl_tensor.ndim = 2;
    managed.dl_tensor.shape = shape;
    managed.dl_tensor.strides = strides;
  }
};

// [example]
// Multiplies two matrices of another library by the kernel `matmul`, and gives it the product.
DLManagedTensor *product(const Device &device, const DLManagedTensor &a, const DLManagedTensor &b) {
  const NamedTensors out = run_kernel(
      device.stream(), "matmul", {{"a", from_dlpack(device, a)}, {"b", from_dlpack(device, b)}},
      {{"precision", "exact"}});
  device.synchronize();                           // DLPack says nothing of work in progress.
  return to_dlpack<DLManagedTensor>(out.at("c")); // Whoever takes it calls its deleter.
}
// [/example]

TEST_P(DLPack, TensorsGoInAndComeOut) {
  const Foreign a(device, {1, 2, 3, 4, 5, 6}, 2, 3), b(device, {1, 0, 0, 1, 1, 1}, 3, 2);
  DLManagedTensor *const c = product(device, a.managed, b.managed);
  EXPECT_EQ(c->dl_tensor.ndim, 2);
  EXPECT_EQ(c->dl_tensor.shape[0], 2);
  EXPECT_EQ(c->dl_tensor.shape[1], 2);
  EXPECT_EQ(c->dl_tensor.dtype.code, kDLFloat);
  EXPECT_EQ(c->dl_tensor.dtype.bits, 32);
  EXPECT_EQ(c->dl_tensor.dtype.lanes, 1);
  const AnyTensor back = from_dlpack(device, *c);
  EXPECT_EQ((back.as<float, 2>().download()), (std::vector<float>{4, 5, 10, 11}));
  EXPECT_THROW((back.as<half, 2>()), LaunchError);
  c->deleter(c);
}

TEST_P(DLPack, TensorsHaveStridesAndOffsets) {
  Foreign x(device, {9, 1, 2, 3, 4, 5, 6}, 3, 2);
  DLTensor &t = x.managed.dl_tensor;
  t.byte_offset = sizeof(float);
  t.strides[0] = 1; // transposed
  t.strides[1] = 3;
  EXPECT_EQ((from_dlpack(device, t).as<float, 2>().download()),
            (std::vector<float>{1, 4, 2, 5, 3, 6}));
  t.strides = nullptr; // row-major order
  EXPECT_EQ((from_dlpack(device, t).as<float, 2>().download()),
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
  // An output may be another library's too.
  const auto minus = tensor(device.upload(std::vector<float>{-1, -2, -3, -4, -5, -6}), {3, 2});
  run_kernel(device.stream(), "vector_add", {{"x", minus}, {"y", minus}}, {},
             {{"z", from_dlpack(device, t)}});
  EXPECT_EQ(x.buffer.download(), (std::vector<float>{9, -2, -4, -6, -8, -10, -12}));
}

// DLPack's struct since its version 1.0, which older headers lack.
struct Versioned {
  struct {
    std::uint32_t major, minor;
  } version;
  void *manager_ctx;
  void (*deleter)(Versioned *self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

TEST_P(DLPack, ManagedTensorsMayHaveVersions) {
  const auto x = tensor(device.upload(std::vector<float>{1, 2, 3, 4}), {4});
  Versioned *const managed = to_dlpack<Versioned>(x);
  EXPECT_EQ(managed->version.major, 1u);
  EXPECT_EQ(managed->flags, 0u);
  EXPECT_EQ((from_dlpack(device, *managed).as<float, 1>().download()), x.download());
  managed->deleter(managed);
}

// JAX's arrays are read-only, for one.
TEST_P(DLPack, ReadOnlyTensorsAreNotWritten) {
  const auto x = tensor(device.upload(std::vector<float>{1, 2, 3, 4}), {4});
  Versioned *const managed = to_dlpack<Versioned>(Tensor<const float, 1>(x));
  EXPECT_EQ(managed->flags, 1u);
  const AnyTensor back = from_dlpack(device, *managed);
  EXPECT_EQ((back.as<const float, 1>().download()), x.download());
  EXPECT_EQ(message<LaunchError>([&] { back.as<float, 1>(); }),
            "a read-only tensor of f32 [4] is one of const f32");
  const auto add = [&](const NamedTensors &outputs) {
    return message<LaunchError>([&] {
      run_kernel(device.stream(), "vector_add", {{"x", back}, {"y", back}}, {}, outputs);
    });
  };
  EXPECT_EQ(add({}), "nothing was thrown");
  const auto to = tensor(device.allocate<float>(4), {4});
  EXPECT_EQ(add({{"z", to}}), "nothing was thrown");
  EXPECT_EQ(to.download(), (std::vector<float>{2, 4, 6, 8}));
  // The call is known by now, with an output that may be written.
  EXPECT_EQ(add({{"z", back}}),
            "vector_add: z is an output, but the tensor given for it is read-only");
  EXPECT_THAT(message<LaunchError>([&] {
                prepare_kernel(device, "vector_add", {{"x", back}, {"y", back}}, {}, {{"z", back}});
              }),
              HasSubstr("read-only"));
  EXPECT_EQ(x.download(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_THAT(message<LaunchError>([&] { to_dlpack<DLManagedTensor>(back); }),
              HasSubstr("make it a DLManagedTensorVersioned"));
  managed->deleter(managed);
}

TEST_P(DLPack, ResultsKeepTheirMemory) {
  DLManagedTensor *managed = nullptr;
  {
    const auto x = tensor(device.upload(std::vector<float>{1, 2, 3, 4}), {2, 2});
    managed = to_dlpack<DLManagedTensor>(x.transpose());
  }
  EXPECT_EQ((from_dlpack(device, *managed).as<float, 2>().download()),
            (std::vector<float>{1, 3, 2, 4}));
  managed->deleter(managed);
}

TEST_P(DLPack, OtherDevicesAndTypesAreRefused) {
  Foreign x(device, {1, 2, 3, 4}, 2, 2);
  DLTensor &t = x.managed.dl_tensor;
  const auto refused = [&] { return message<LaunchError>([&] { from_dlpack(device, t); }); };
  const DLDevice own = t.device;
  t.device.device_type = kDLMetal;
  EXPECT_THAT(
      refused(),
      HasSubstr("a DLPack tensor in memory of another kind (DLPack's number 8) was given for " +
                device.name()));
  t.device = own;
  t.device.device_id += 1;
  EXPECT_THAT(refused(), HasSubstr("a DLPack tensor on device " +
                                   std::to_string(t.device.device_id) + " of its kind"));
  t.device = own;
  t.dtype = {kDLComplex, 64, 1};
  EXPECT_EQ(refused(), "Sectile has no type for a DLPack tensor of type code 5 with 64 bits and 1 "
                       "lane");
  t.dtype = {kDLFloat, 32, 4};
  EXPECT_THAT(refused(), HasSubstr("32 bits and 4 lanes"));
  t.dtype = {kDLFloat, 32, 1};
  t.shape[0] = -1;
  EXPECT_THAT(refused(), HasSubstr("a negative extent"));
  t.shape[0] = 3;
  t.strides[0] = INT64_MAX;
  EXPECT_THAT(refused(), HasSubstr("beyond 64 bits"));
  t.shape[0] = 0;
  EXPECT_EQ(refused(), "nothing was thrown");
  const Tensor<float, 1> bare(x.buffer.data(), {4}, {1});
  EXPECT_THAT(message<LaunchError>([&] { to_dlpack<DLManagedTensor>(bare); }),
              HasSubstr("a bare address"));
}

} // namespace
