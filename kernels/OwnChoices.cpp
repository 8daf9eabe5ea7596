// Configurations in a sealed program, which has no database of measurements: the kernels' own.
#include "kernels/Choices.h"

using namespace sectile;

Config sectile::configFor(const Invocation &call, const Device &device) {
  return ownChoice(call, device.target());
}

std::uint64_t sectile::choicesRecorded() { return 0; }
