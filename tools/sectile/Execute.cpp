// Opening devices, choosing configurations, and how results are written.
#include "tools/sectile/Execute.h"
#include "kernels/InputError.h"
#include "kernels/Tune.h"
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
