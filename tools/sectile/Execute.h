// What the commands that run kernels share.
#pragma once
#include "kernels/Execute.h"

namespace sectile::tool {

// --device, or the best one. A name that cannot be opened is an InputError.
Device openDevice(const std::optional<std::string> &name);

// What a launch takes: the configuration given, with the kernel's own choice for the fields that
// are not; without any the best that is known for such shapes, unless SECTILE_AUTOTUNE is off.
Config configFor(const Invocation &call, const Device &device, const Config &given);

std::string describe(const Config &config); // "m=128 n=64"
std::string milliseconds(double value);

} // namespace sectile::tool
