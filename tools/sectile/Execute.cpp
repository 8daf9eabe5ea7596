// Arrays to the device, the launch, arrays back, and the comparison with the reference.
#include "tools/sectile/Execute.h"
#include "kernels/InputError.h"
#include "kernels/Tune.h"
#include "kernels/Use.h"
#include <chrono>
#include <cstdio>

namespace sectile::tool {

Device openDevice(const std::optional<std::string> &name) {
  if (!name)
    return Device::best();
  try {
    return Device::open(*name);
  } catch (const DeviceError &error) {
    throw InputError("--device: " + std::string(error.what()));
  }
}

Config configFor(const Invocation &call, const Device &device, const Config &given) {
  if (given.empty() && device.name() != "interpreter" && autotune_mode() != AutotuneMode::off)
    if (std::optional<Config> best = bestKnown(call, device))
      return *best;
  return completeConfig(call, device.target(), given);
}

Execution execute(const Device &device, const Invocation &call, const Config &config,
                  std::span<const HostArray> inputs, long repetitions) {
  std::vector<detail::Memory> memory;
  std::vector<HostArray> outputs;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const TensorType &type = call.tensors[i];
    if (!call.kernel->arguments[i].output) {
      memory.emplace_back(device, inputs[i].data.size());
      memory.back().upload(inputs[i].data.data());
      continue;
    }
    outputs.emplace_back(type.dtype, type.shape);
    memory.emplace_back(device, outputs.back().data.size());
  }

  Execution result;
  for (long i = 0; i < repetitions; ++i) {
    const unsigned char poison = 0xff; // NaN in every floating-point type
    for (std::size_t j = inputs.size(); j < memory.size(); ++j)
      memory[j].fill(&poison, 1, nullptr);
    device.synchronize();
    const auto start = std::chrono::steady_clock::now();
    Use launch{.stream = &device.stream()};
    call.kernel->apply(call, config, memory, launch);
    device.synchronize();
    result.milliseconds.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }

  for (std::size_t i = 0; i < inputs.size(); ++i) {
    HostArray after(inputs[i].dtype, inputs[i].shape);
    memory[i].download(after.data.data());
    if (after.data != inputs[i].data)
      throw Error(call.kernel->name + " changed its input '" + call.kernel->arguments[i].name +
                  "': this is an error in the kernel or in the compiler");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    memory[inputs.size() + i].download(outputs[i].data.data());
  result.outputs = std::move(outputs);
  return result;
}

std::vector<Verdict> check(const Invocation &call, std::span<const HostArray> inputs,
                           std::span<const HostArray> outputs) {
  const auto exact = call.kernel->reference(call, inputs, Arithmetic::exact);
  const auto base = call.kernel->reference(call, inputs, Arithmetic::own);
  std::vector<Verdict> verdicts;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    verdicts.push_back(
        {call.kernel->arguments[inputs.size() + i].name, judge(outputs[i], exact[i], base[i])});
  return verdicts;
}

std::string describe(const Config &config) {
  std::string text;
  for (const auto &[name, value] : config)
    text += (text.empty() ? "" : " ") + name + "=" + std::to_string(value);
  return text;
}

std::string milliseconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.3f ms" : "%.1f ms", value);
  return text;
}

} // namespace sectile::tool
