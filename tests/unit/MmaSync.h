// mma.sync by the width of its operands, for tests of layouts.
#pragma once
#include "ir/MmaInstruction.h"
#include "llvm/ADT/STLExtras.h"

namespace sectile {

/// The instruction for elements of 8, 16, 32 or 64 bits.
inline const MmaInstruction &mmaSync(unsigned bits) {
  MmaElement element = bits == 8    ? MmaElement::I8
                       : bits == 16 ? MmaElement::F16
                       : bits == 32 ? MmaElement::TF32
                                    : MmaElement::F64;
  return *llvm::find_if(mma::ampere(),
                        [&](const MmaInstruction &each) { return each.a == element; });
}

} // namespace sectile
