// What the commands that run kernels share.
#pragma once
#include "kernels/calls/Execute.h"

namespace sectile::tool {

// --device, or the best one. A name that cannot be opened is an InputError.
Device openDevice(const std::optional<std::string> &name);

// What a launch takes: the configuration given, with the kernel's own choice for the fields that
// are not; without any the best that is known for such shapes, unless SECTILE_AUTOTUNE is off.
Config configFor(const Invocation &call, const Device &device, const Config &given);

std::string describe(const Config &config); // "m=128 n=64"
std::string milliseconds(double value);

// Whether times of this device are those of a program that acts a GPU.
bool isSimulated(std::string_view device);
// "M=4096 N=4096 K=4096 f16 causal=true with bias": what sets this call apart from others of the
// kernel.
std::string shapeText(const Invocation &call);
// The largest finite magnitude in an output: what an absolute error is large or small beside.
double largestValue(const Invocation &call, std::string_view output, const Execution &execution);

} // namespace sectile::tool
