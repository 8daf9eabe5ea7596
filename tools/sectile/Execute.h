// Running one resolved kernel on arrays and judging what came back: what `run` and `demo` share.
#pragma once
#include "kernels/Accuracy.h"
#include "kernels/Registry.h"

namespace sectile::tool {

// --device, or the best one. A name that cannot be opened is an InputError.
Device openDevice(const std::optional<std::string> &name);

// What a launch takes: the configuration given, with the kernel's own choice for the fields that
// are not; without any the best that is known for such shapes, unless SECTILE_AUTOTUNE is off.
Config configFor(const Invocation &call, const Device &device, const Config &given);

struct Execution {
  std::vector<HostArray> outputs;
  std::vector<double> milliseconds; // of each repetition: launch and wait, the first compiles too
};

// Outputs are poisoned before each run. Throws Error where the kernel changed an input.
Execution execute(const Device &device, const Invocation &call, const Config &config,
                  std::span<const HostArray> inputs, long repetitions);

struct Verdict {
  std::string output;
  Accuracy accuracy;
};
// Each output against the float64 reference.
std::vector<Verdict> check(const Invocation &call, std::span<const HostArray> inputs,
                           std::span<const HostArray> outputs);

std::string describe(const Config &config); // "m=128 n=64"
std::string milliseconds(double value);

} // namespace sectile::tool
