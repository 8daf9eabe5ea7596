// Checks of integer inputs that several kernels have.
#include "kernels/Contents.h"
#include "kernels/HostArray.h"
#include <sectile/error.h>

using namespace sectile;

void sectile::checkBoundaries(const Invocation &call, std::span<const HostArray> inputs,
                              std::string_view argument, std::int64_t end) {
  if (!call.has(argument))
    return;
  const auto bounds = inputs[call.index(argument)].as<std::int32_t>();
  const std::string name = call.kernel->name + ": " + std::string(argument);
  if (bounds.front() != 0 || bounds.back() != end)
    throw InputError(name + " is from " + std::to_string(bounds.front()) + " to " +
                     std::to_string(bounds.back()) + ", but must begin with 0 and end with " +
                     std::to_string(end));
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s)
    if (bounds[s + 1] < bounds[s])
      throw InputError(name + " falls from " + std::to_string(bounds[s]) + " to " +
                       std::to_string(bounds[s + 1]) + " at sequence " + std::to_string(s));
}
