// The kernels of this family, in the order in which they are listed.
#include "kernels/position/Family.h"

std::vector<sectile::KernelSpec> sectile::positionKernels() {
  return {ropeSpec(),
          ropeBackwardSpec(),
          addPositionsSpec(),
          addPositionsBackwardSpec(),
          sinusoidalSpec(),
          sinusoidalBackwardSpec(),
          ropeAttentionSpec(),
          ropeAttentionBackwardSpec(),
          reropeAttentionSpec(),
          reropeAttentionBackwardSpec(),
          exposbAttentionSpec(),
          exposbAttentionBackwardSpec(),
          stickBreakingSpec(),
          stickBreakingBackwardSpec()};
}
