// Measures launches. The fastest batch counts: the others were disturbed by something else on the
// machine.
#include "bench/Launch.h"
#include "bench/NullDevice.h"
#include "capi/Handles.h"
#include <algorithm>
#include <chrono>
#include <sectile/library.h>
#include <sectile/sectile.h>

namespace sectile::bench {
namespace {

struct Block {
  int size = 128;
};

const Kernel add{
    "add", [](Ptr<const float> x, Ptr<const float> y, Ptr<float> z, Int n, const Block &block) {
      auto i = program_id(0) * block.size + arange(0, block.size);
      store(z + i, load(x + i, i < n) + load(y + i, i < n), i < n);
    }};

// The arguments of an attention kernel.
using In = View<const float, 4>;
const Kernel attention{"attention", [](In q, In k, In v, View<float, 4> o, View<float, 3> lse,
                                       Tile<float> scale, const Block &) {
                         store(o.ptr(), load(q.ptr()) * load(k.ptr()) + load(v.ptr()) * scale);
                         store(lse.ptr(), scale);
                       }};

template <class F> double fastest(F &&launch) {
  using Clock = std::chrono::steady_clock;
  constexpr int batches = 500, perBatch = 200;
  double best = 1e9;
  for (int batch = 0; batch < batches; ++batch) {
    const auto start = Clock::now();
    for (int i = 0; i < perBatch; ++i)
      launch();
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count() /
                              perBatch);
  }
  return best;
}

// A dense tensor of the device, as C has them.
struct CTensor {
  CTensor(const Device &device, std::uint64_t address, DLDataType dtype,
          std::vector<std::int64_t> extents)
      : shape(std::move(extents)) {
    tensor.data = reinterpret_cast<void *>(address);
    tensor.device = {static_cast<DLDeviceType>(device.impl()->dlpackDevice),
                     device.impl()->dlpackIndex};
    tensor.ndim = static_cast<std::int32_t>(shape.size());
    tensor.dtype = dtype;
    tensor.shape = shape.data();
  }
  CTensor(const CTensor &) = delete;

  std::vector<std::int64_t> shape;
  DLTensor tensor{};
};

void check(sectile_status status) {
  if (status != SECTILE_OK)
    throw Error(sectile_error());
}

// The same calls by <sectile.h>.
void measureC(const Device &opened, std::vector<LaunchCost> &costs) {
  sectile_device device(opened);
  sectile_stream stream(opened.stream());
  const auto memory = opened.allocate<float>(3 * 64 * 64);
  const std::uint64_t address = memory.memory().address();
  const auto measure = [&](const std::string &name, DLDataType dtype,
                           const std::vector<std::vector<std::int64_t>> &shapes,
                           const std::vector<sectile_option> &options = {}) {
    std::vector<std::unique_ptr<CTensor>> tensors;
    std::vector<const DLTensor *> given;
    for (const auto &shape : shapes) {
      if (shape.empty()) { // left out
        given.push_back(nullptr);
        continue;
      }
      tensors.push_back(std::make_unique<CTensor>(
          opened, address + tensors.size() * 64 * 64 * sizeof(float), dtype, shape));
      given.push_back(&tensors.back()->tensor);
    }
    const sectile_op *op = nullptr;
    check(sectile_op_find(name.c_str(), &op));
    const auto count = static_cast<unsigned>(given.size());
    costs.push_back(
        {name + ", sectile_op_run", count, fastest([&] {
           check(sectile_op_run(op, &stream, given.data(), count, options.data(), options.size()));
         })});
    sectile_call *call = nullptr;
    check(sectile_call_prepare(op, &device, given.data(), count, options.data(), options.size(),
                               &call));
    const std::unique_ptr<sectile_call, void (*)(sectile_call *)> owner(call,
                                                                        &sectile_call_release);
    costs.push_back({name + ", sectile_call_run", count,
                     fastest([&] { check(sectile_call_run(call, &stream, nullptr)); })});
    costs.push_back({name + ", sectile_call_run on others", count,
                     fastest([&] { check(sectile_call_run(call, &stream, given.data())); })});
  };
  measure("matmul", {kDLFloat, 16, 1}, {{64, 64}, {64, 64}, {}, {}, {}, {}, {64, 64}});
  measure("rms_norm", {kDLFloat, 32, 1}, {{64, 64}, {64}, {}, {64, 64}, {}, {64}},
          {{"eps", SECTILE_DOUBLE, {.d = 1e-5}}});
}

} // namespace

std::vector<LaunchCost> measureLaunches() {
  const Device device = NullDevice::open("sm_90a");
  const auto x = device.allocate<float>(4096);
  const auto four = tensor(x, {2, 2, 16, 64});
  const auto three = tensor(x, {2, 2, 16});
  const auto operand = tensor(device.allocate<half>(64 * 64), {64, 64}),
             product = tensor(device.allocate<half>(64 * 64), {64, 64});
  const NamedTensors operands{{"a", operand}, {"b", operand}}, result{{"c", product}};
  const PreparedCall prepared = prepare_kernel(device, "matmul", operands, {}, result);
  std::vector<LaunchCost> costs{
      {"add", 4, fastest([&] { add.launch(device.stream(), 1, x, x, x, 4096, {.size = 128}); })},
      {"attention", 44, fastest([&] {
         attention.launch(device.stream(), 1, four, four, four, four, three, 0.125f);
       })},
      {"matmul, prepared", 3, fastest([&] { prepared.launch(device.stream()); })},
      {"matmul, by name", 3,
       fastest([&] { run_kernel(device.stream(), "matmul", operands, {}, result); })},
  };
  measureC(device, costs);
  return costs;
}

} // namespace sectile::bench
