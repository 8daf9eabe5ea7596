// What the attentions of this family change about the specification of attention's kernels.
#pragma once
#include "kernels/Registry.h"

namespace sectile {

// f32 products are exact where nothing is said, and values as wide as keys.
inline void asPositionAttention(KernelSpec &spec) {
  for (OptionSpec &option : spec.options)
    if (option.name == "precision")
      option.initial = "exact";
  spec.follow = [](Invocation &call) { call.extents["Dv"] = call.extent("D"); };
}

} // namespace sectile
