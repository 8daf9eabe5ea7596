// Options of rotations, and what they must be.
#include "kernels/position/RotarySpec.h"
#include <sectile/error.h>

using namespace sectile;

std::vector<OptionSpec> sectile::rotationOptions() {
  return {{.name = "style",
           .kind = OptionSpec::choice,
           .initial = "half",
           .choices = {"half", "interleaved"},
           .doc = "pairs are (i, i + r/2), or (2i, 2i + 1)"},
          {.name = "theta",
           .kind = OptionSpec::number,
           .initial = "10000",
           .samples = {"100"},
           .doc = "base of the frequencies, at least 1"},
          {.name = "rotary",
           .kind = OptionSpec::integer,
           .initial = "",
           .samples = {"2", "16"},
           .doc = "r: how many of the dims turn, the first of them; D if not given"}};
}

void sectile::checkRotation(const Invocation &call) {
  const std::int64_t rotary = rotaryDims(call), dims = call.extent("D");
  if (rotary < 2 || rotary > dims || rotary % 2)
    throw InputError(call.kernel->name + ": rotary is " + std::to_string(rotary) +
                     ", but must be even and from 2 to D (" + std::to_string(dims) + ")");
  if (call.options.number("theta") < 1)
    throw InputError(call.kernel->name + ": option 'theta' must be at least 1");
}

std::int64_t sectile::rotaryDims(const Invocation &call) {
  return call.options.given("rotary") ? call.options.integer("rotary") : call.extent("D");
}
