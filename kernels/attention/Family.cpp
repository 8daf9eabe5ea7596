// The kernels of this family, in the order in which they are listed.
#include "kernels/attention/Family.h"

namespace {

using namespace sectile;

// A caller may have results as f32 numbers: those of a part of the keys are added to others.
KernelSpec withFloats(KernelSpec spec) {
  for (ArgumentSpec &argument : spec.arguments)
    for (const char *name : {"o", "dq", "dk", "dv"})
      if (argument.output && argument.name == name)
        argument.also = {DType::float32};
  return spec;
}

} // namespace

std::vector<KernelSpec> sectile::attentionKernels() {
  return {withFloats(attentionSpec()), withFloats(attentionBackwardSpec()), attentionVarlenSpec(),
          attentionVarlenBackwardSpec()};
}
