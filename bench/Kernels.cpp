// Times the library's kernels as they are launched for a user.
#include "bench/Kernels.h"
#include "kernels/Use.h"

namespace sectile::bench {

double leastBytes(const Invocation &call) {
  double bytes = 0;
  for (const TensorType &type : call.tensors)
    if (type.present)
      bytes += double(elementCount(type.shape)) * double(size_of(type.dtype));
  return bytes;
}

Timing timeKernel(const Device &device, const Invocation &call, const Config &config,
                  std::span<const HostArray> inputs) {
  std::vector<detail::Memory> memory;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const TensorType &type = call.tensors[i];
    if (!type.present) {
      memory.emplace_back();
    } else {
      memory.emplace_back(device, std::size_t(elementCount(type.shape)) * size_of(type.dtype));
      if (i < inputs.size())
        memory.back().upload(inputs[i].data.data());
    }
  }
  return time(device.stream(), [&] { launchKernel(call, config, memory, device.stream()); });
}

} // namespace sectile::bench
