// Measures the virtual GPU.
#include "bench/Virtual.h"
#include "kernels/calls/Use.h"
#include "vgpu/VirtualDevice.h"
#include <chrono>
#include <sectile/error.h>

namespace sectile::bench {

static VirtualSpeed measure(const Device &device, runtime::VirtualDevice &machine, const char *name,
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
  for (int i = 0; i < 4; ++i) { // the first one compiles
    const auto start = std::chrono::steady_clock::now();
    launchKernel(call, config, memory, device.stream());
    device.synchronize();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (i)
      speed.seconds = std::min(speed.seconds, took.count());
  }
  const vgpu::Counters counters = machine.lastCounters();
  speed.blocks = counters.blocks;
  speed.mma = counters.mma;
  return speed;
}

std::vector<VirtualSpeed> measureVirtual(const Device &device) {
  auto *machine = dynamic_cast<runtime::VirtualDevice *>(device.impl().get());
  if (!machine)
    throw InputError("--device: " + device.name() + " is not a virtual device");
  return {measure(device, *machine, "matmul", {{"M", 512}, {"N", 512}, {"K", 512}}),
          measure(device, *machine, "attention",
                  {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 1024}, {"Sk", 1024}, {"D", 64}})};
}

} // namespace sectile::bench
