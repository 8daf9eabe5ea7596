// Opening devices, choosing configurations, and how results are written.
#include "tools/sectile/Execute.h"
#include "kernels/tuning/Tune.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sectile/error.h>

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

bool isSimulated(std::string_view device) {
  return device.starts_with("virtual:") || device == "interpreter";
}

std::string shapeText(const Invocation &call) {
  std::string text;
  const auto add = [&](const std::string &word) { text += (text.empty() ? "" : " ") + word; };
  for (const auto &[axis, extent] : call.extents)
    add(axis + "=" + std::to_string(extent));
  if (!call.leading.empty())
    add("...=" + std::to_string(elementCount(call.leading)));
  add(std::string(name_of(call.tensors.front().dtype)));
  for (const OptionSpec &spec : call.kernel->options)
    if (const std::string &value = call.options.values.at(spec.name);
        value != (spec.initial_by ? spec.initial_by(call) : spec.initial))
      add(spec.name + "=" + value);
  std::string with;
  for (const ArgumentSpec &spec : call.kernel->arguments)
    if (spec.optional && call.has(spec.name))
      with += (with.empty() ? "with " : ",") + spec.name;
  if (!with.empty())
    add(with);
  return text;
}

double largestValue(const Invocation &call, std::string_view output, const Execution &execution) {
  const std::size_t inputs = call.tensors.size() - execution.outputs.size();
  double most = 0;
  for (const double value : execution.outputs[call.index(output) - inputs].to_double())
    if (std::isfinite(value))
      most = std::max(most, std::abs(value));
  return most;
}

} // namespace sectile::tool
