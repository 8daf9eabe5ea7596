// The check of the option eps of the norms, which is added under the root.
#pragma once
#include "kernels/registry/Registry.h"
#include <sectile/error.h>

namespace sectile {

inline void checkEps(const Invocation &call) {
  if (call.options.number("eps") < 0)
    refuse(call, "option 'eps' cannot be negative");
}

} // namespace sectile
