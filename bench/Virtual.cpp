// Measures the virtual GPU.
#include "bench/Virtual.h"
#include "kernels/calls/Use.h"
#include "vgpu/VirtualDevice.h"
#include <chrono>
#include <sectile/error.h>

namespace sectile::bench {

static VirtualSpeed measure(const Device &device, const char *name,
                            const std::map<std::string, std::int64_t> &extents) {
  const Invocation call = resolveTypical(findKernel(name), "f16", extents, {});
  const Config config = completeConfig(call, device.target(), {});
  std::vector<detail::Memory> memory;
  VirtualSpeed speed{call, 1e9, 0, 0};
  for (const TensorType &type : call.tensors) {
    const HostArray zeros(type.dtype, type.shape);
    memory.emplace_back(device, zeros.data.size());
    memory.back().upload(zeros.data.data());
  }
  {
    runtime::VirtualDevice::WatchLaunches watch(
        [&](const runtime::LoadedKernel &, const vgpu::Counters &counters) {
          speed.blocks += counters.blocks;
          speed.mma += counters.mma;
        });
    launchKernel(call, config, memory, device.stream());
    device.synchronize();
  }
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    launchKernel(call, config, memory, device.stream());
    device.synchronize();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    speed.seconds = std::min(speed.seconds, took.count());
  }
  return speed;
}

std::vector<VirtualSpeed> measureVirtual(const Device &device) {
  if (!dynamic_cast<runtime::VirtualDevice *>(device.impl().get()))
    throw InputError("--device: " + device.name() + " is not a virtual device");
  return {measure(device, "matmul", {{"M", 512}, {"N", 512}, {"K", 512}}),
          measure(device, "attention",
                  {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 1024}, {"Sk", 1024}, {"D", 64}})};
}

} // namespace sectile::bench
