// Kernels on arrays whose rows lie more than 2^31 elements apart. The memory between the rows is
// reserved, never touched: the host has none for it.
#include "KernelTest.h"
#include "runtime/virtual/VirtualDevice.h"
#include <sectile/library.h>
#include <sys/mman.h>

using namespace sectile;
using namespace sectile::test;

namespace {

/// Addresses that a virtual GPU may access; pages come to be where one is.
class SparseMemory {
public:
  SparseMemory(const Device &device, std::size_t bytes)
      : device(static_cast<runtime::VirtualDevice &>(*device.impl())), bytes(bytes),
        start(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (start == MAP_FAILED)
      throw std::runtime_error("the system does not reserve " + std::to_string(bytes) + " bytes");
    memory().adopt(start, bytes);
  }
  ~SparseMemory() {
    memory().disown(start);
    munmap(start, bytes);
  }
  SparseMemory(const SparseMemory &) = delete;
  SparseMemory &operator=(const SparseMemory &) = delete;

  std::byte *at(std::size_t offset) const { return static_cast<std::byte *>(start) + offset; }

private:
  vgpu::DeviceMemory &memory() { return device.machine().memory(); }

  runtime::VirtualDevice &device;
  std::size_t bytes;
  void *start;
};

/// An array whose first axis has this step, if it has a second one; dense behind it.
struct FarArray {
  FarArray(const Device &device, const TensorType &type)
      : size(size_of(type.dtype)), rows(type.shape.size() > 1 ? type.shape[0] : 1),
        length(elementCount(type.shape) / std::max<std::int64_t>(rows, 1)),
        memory(device, static_cast<std::size_t>((rows - 1) * step + length) * size) {
    tensor.dtype = type.dtype;
    tensor.extents = type.shape;
    tensor.strides.resize(type.shape.size());
    std::int64_t stride = 1;
    for (std::size_t i = tensor.strides.size(); i-- > 0; stride *= type.shape[i])
      tensor.strides[i] = i == 0 && rows > 1 ? step : stride;
    tensor.address = reinterpret_cast<std::uint64_t>(memory.at(0));
  }
  template <class Move> void eachRow(Move &&move) const {
    const std::size_t bytes = static_cast<std::size_t>(length) * size;
    for (std::int64_t row = 0; row < rows; ++row)
      move(memory.at(static_cast<std::size_t>(row * step) * size),
           static_cast<std::size_t>(row) * bytes, bytes);
  }

  static constexpr std::int64_t step = (std::int64_t(1) << 31) + 8;
  std::size_t size;
  std::int64_t rows, length;
  SparseMemory memory;
  AnyTensor tensor;
};

void expectRightFarApart(const Device &device, const Invocation &call) {
  const std::vector<HostArray> inputs = sampleInputs(call, 1);
  std::vector<std::unique_ptr<FarArray>> arrays(call.tensors.size());
  NamedTensors given, results;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (!call.tensors[i].present)
      continue;
    arrays[i] = std::make_unique<FarArray>(device, call.tensors[i]);
    const ArgumentSpec &spec = call.kernel->arguments[i];
    (spec.output ? results : given)[spec.name] = arrays[i]->tensor;
    arrays[i]->eachRow([&](std::byte *row, std::size_t from, std::size_t bytes) {
      if (i < inputs.size())
        std::memcpy(row, inputs[i].data.data() + from, bytes);
      else
        std::memset(row, 0xff, bytes);
    });
  }
  KernelOptions options;
  for (const auto &[name, value] : call.options.values)
    if (!value.empty())
      options[name] = value;
  run_kernel(device.stream(), call.kernel->name, given, options, results);
  device.synchronize();
  std::vector<HostArray> outputs;
  for (std::size_t i = inputs.size(); i < arrays.size(); ++i) {
    HostArray &output = outputs.emplace_back();
    if (!arrays[i])
      continue;
    output = HostArray(call.tensors[i].dtype, call.tensors[i].shape);
    arrays[i]->eachRow([&](const std::byte *row, std::size_t to, std::size_t bytes) {
      std::memcpy(output.data.data() + to, row, bytes);
    });
  }
  for (const Verdict &verdict : check(call, inputs, outputs))
    EXPECT_TRUE(verdict.accuracy.ok()) << verdict.output << ": " << verdict.accuracy.describe();
}

void expectRightFarApart(const Device &device, const KernelCase &test) {
  SCOPED_TRACE(device.name() + " far apart " + test.describe());
  expectRightFarApart(device, resolveCase(test));
}

class FarStrides : public OnDevice {
protected:
  void SetUp() override {
    if (!device.name().starts_with("virtual:"))
      GTEST_SKIP() << "only virtual GPUs take memory that nobody allocated";
  }
};
SECTILE_INSTANTIATE_ON(FarStrides, "virtual:sm_80,virtual:sm_90a,virtual:gfx942");

} // namespace

TEST_P(FarStrides, Rows) {
  const std::map<std::string, std::int64_t> rows{{"...", 3}, {"N", 72}};
  for (const char *kernel : {"softmax", "softmax_backward", "log_softmax", "log_softmax_backward"})
    expectRightFarApart(device, {kernel, rows, {}, {}, "f16"});
  for (const char *kernel : {"layer_norm", "layer_norm_backward"})
    expectRightFarApart(device, {kernel, rows, {}, {"w", "b"}, "f16"});
  expectRightFarApart(device, {"rms_norm", rows, {}, {"w", "residual"}, "f16"});
  expectRightFarApart(device, {"rms_norm_backward", rows, {}, {"w", "h", "dh"}, "f16"});
  for (const char *kernel : {"cross_entropy", "cross_entropy_backward"})
    expectRightFarApart(device, {kernel, {{"...", 3}, {"V", 72}}, {}, {}, "f16"});
  for (const char *kernel : {"reduce", "scan", "sort", "argsort", "topk"})
    expectRightFarApart(device, {kernel, rows, {}, {}, "f16"});
}

// Rows beyond a block go through other loops.
TEST_P(FarStrides, LongRows) {
  const std::map<std::string, std::int64_t> rows{{"...", 2}, {"N", 9000}};
  for (const char *kernel : {"softmax", "softmax_backward"})
    expectRightFarApart(device, {kernel, rows, {}, {}, "f16", {{"block", 4096}}});
  for (const char *kernel : {"layer_norm", "layer_norm_backward"})
    expectRightFarApart(device, {kernel, rows, {}, {"w", "b"}, "f16", {{"block", 4096}}});
}

TEST_P(FarStrides, Elements) {
  const GivenTensor x{{DType::float16, {3, 50}}, ""};
  for (const char *kernel : {"activation", "dropout"}) {
    SCOPED_TRACE(device.name() + " " + kernel);
    expectRightFarApart(device, resolve(findKernel(kernel), {{"x", x}}, {}));
  }
  SCOPED_TRACE(device.name() + " swiglu_backward");
  expectRightFarApart(
      device, resolve(findKernel("swiglu_backward"), {{"gate", x}, {"up", x}, {"dy", x}}, {}));
}

TEST_P(FarStrides, Products) {
  const std::map<std::string, std::int64_t> extents{{"M", 5}, {"K", 24}, {"N", 40}};
  expectRightFarApart(device, {"matmul", extents, {}, {}, "f16"});
  expectRightFarApart(device, {"matmul", extents, {{"trans_b", "true"}}, {"residual"}, "f16"});
}

TEST_P(FarStrides, PositionsAndPools) {
  for (const char *kernel : {"rope", "add_positions", "sinusoidal", "mean_pool", "group_norm"})
    expectRightFarApart(device, {kernel, {}, {}, {}, "f16"});
}
