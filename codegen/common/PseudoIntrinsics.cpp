// The vendors' pseudo-intrinsics together.
#include "codegen/common/PseudoIntrinsics.h"

namespace sectile {

void lowerPseudoIntrinsics(llvm::Module &module) {
  lowerNvidiaPseudoIntrinsics(module);
  lowerAmdPseudoIntrinsics(module);
}

} // namespace sectile
