// The kernels of this family, in the order in which they are listed.
#include "kernels/recurrent/Family.h"

std::vector<sectile::KernelSpec> sectile::recurrentKernels() {
  return {linearRecurrenceSpec(),
          linearRecurrenceBackwardSpec(),
          deltaRuleSpec(),
          deltaRuleBackwardSpec(),
          kdaSpec(),
          kdaBackwardSpec(),
          rwkv7Spec(),
          rwkv7BackwardSpec(),
          deltaStepSpec(),
          rwkv7StepSpec(),
          rnnSpec(),
          rnnBackwardSpec(),
          gruSpec(),
          gruBackwardSpec(),
          lstmSpec(),
          lstmBackwardSpec()};
}
