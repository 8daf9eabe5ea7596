// The option eps of the norms: what is added under the root.
#pragma once
#include "kernels/Registry.h"
#include <sectile/error.h>

namespace sectile {

inline OptionSpec epsOption(const char *initial, const char *doc) {
  return {.name = "eps",
          .kind = OptionSpec::number,
          .initial = initial,
          .samples = {"0.01"},
          .doc = doc};
}

inline void checkEps(const Invocation &call) {
  if (call.options.number("eps") < 0)
    throw InputError(call.kernel->name + ": option 'eps' cannot be negative");
}

} // namespace sectile
