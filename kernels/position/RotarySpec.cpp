// Options of rotations, and what they must be.
#include "kernels/position/RotarySpec.h"

using namespace sectile;

std::vector<OptionRow> sectile::rotationOptions() {
  return {{"style: half|interleaved = half", "pairs are (i, i + r/2), or (2i, 2i + 1)"},
          {"theta: number = 10000 e.g. 100", "base of the frequencies, at least 1"},
          {"rotary: integer e.g. 2, 16",
           "r: how many of the dims turn, the first of them; D if not given"}};
}

void sectile::checkRotation(const Invocation &call) {
  const RopeOptions options = ropeOptions(call);
  const std::int64_t dims = call.extent("D");
  if (options.rotary < 2 || options.rotary > dims || options.rotary % 2)
    refuse(call, "rotary is " + std::to_string(options.rotary) +
                     ", but must be even and from 2 to D (" + std::to_string(dims) + ")");
  if (options.theta < 1)
    refuse(call, "option 'theta' must be at least 1");
}

RopeOptions sectile::ropeOptions(const Invocation &call) {
  return {.interleaved = call.options.choice("style") == "interleaved",
          .theta = call.options.number("theta"),
          .rotary =
              call.options.given("rotary") ? call.options.integer("rotary") : call.extent("D")};
}
