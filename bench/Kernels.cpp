// Times the library's kernels as a prepared call launches them.
#include "bench/Kernels.h"
#include "kernels/calls/Use.h"
#include "runtime/LaunchAccess.h"

namespace sectile::bench {

double leastBytes(const Invocation &call) {
  const auto bytesOf = [](const TensorType &type) {
    return double(elementCount(type.shape)) * double(size_of(type.dtype));
  };
  double bytes = 0;
  for (std::size_t i = 0; i < call.tensors.size(); ++i)
    if (call.tensors[i].present)
      bytes += bytesOf(call.tensors[i]);
  // How much of an array is updated its extents do not tell.
  for (std::size_t i = 0; i < call.tensors.size(); ++i)
    if (call.tensors[i].present && call.kernel->arguments[i].updates)
      bytes -= 2 * bytesOf(call.tensors[i]);
  return bytes;
}

Timing timeKernel(const Device &device, const Invocation &call, const Config &config,
                  std::span<const HostArray> inputs) {
  std::vector<detail::Memory> memory;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const TensorType &type = call.tensors[i];
    if (!type.present) {
      memory.emplace_back();
    } else if (const ArgumentSpec &spec = call.kernel->arguments[i]; spec.updates) {
      memory.push_back(memory[call.index(spec.over.front())]); // in place, as callers have it
    } else {
      memory.emplace_back(device, std::size_t(elementCount(type.shape)) * size_of(type.dtype));
      if (i < inputs.size())
        memory.back().upload(inputs[i].data.data());
    }
  }
  // What the host does for each call shows in kernels of few microseconds, of several launches
  // above all.
  BoundKernel bound = bindKernel(call, config, memory);
  std::vector<const runtime::LoadedKernel *> code;
  for (detail::BoundLaunch &launch : bound.launches)
    code.push_back(&runtime::LaunchAccess::prepare(launch, device));
  return time(device.stream(), [&] {
    const runtime::LaunchesOfCall one;
    for (std::size_t i = 0; i < code.size(); ++i)
      runtime::LaunchAccess::launch(bound.launches[i], *code[i], device.stream());
  });
}

} // namespace sectile::bench
