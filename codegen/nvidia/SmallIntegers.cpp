// Conversions of small integers to f32 by arithmetic; SmallIntegers.h says why.
#include "codegen/nvidia/SmallIntegers.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/KnownBits.h"

using namespace llvm;

namespace sectile {

// Null where the integer may be too large.
static Value *converted(CastInst &cast) {
  Value *x = cast.getOperand(0);
  const DataLayout &layout = cast.getModule()->getDataLayout();
  if (!cast.getType()->isFloatTy() || !x->getType()->isIntegerTy() || isa<Constant>(x))
    return nullptr;
  constexpr unsigned mantissa = 23;
  IRBuilder<> b(&cast);
  const auto distance = [&](Value *bits, float from) {
    return b.CreateFSub(b.CreateBitCast(bits, b.getFloatTy()),
                        ConstantFP::get(b.getFloatTy(), from));
  };
  const KnownBits known = computeKnownBits(x, layout);
  const bool isUnsigned = isa<UIToFPInst>(cast);
  if ((isUnsigned || known.isNonNegative()) && known.countMaxActiveBits() <= mantissa)
    return distance(b.CreateOr(b.CreateZExtOrTrunc(x, b.getInt32Ty()), b.getInt32(0x4b000000)),
                    0x1p23f);
  // With one bit more above, which a negative integer borrows from.
  if (!isUnsigned && ComputeMaxSignificantBits(x, layout) <= mantissa)
    return distance(b.CreateAdd(b.CreateSExtOrTrunc(x, b.getInt32Ty()), b.getInt32(0x4b400000)),
                    0x1.8p23f);
  return nullptr;
}

void convertSmallIntegers(Module &module) {
  for (Function &function : module)
    for (Instruction &instruction : make_early_inc_range(instructions(function)))
      if (isa<UIToFPInst, SIToFPInst>(instruction))
        if (Value *result = converted(cast<CastInst>(instruction))) {
          instruction.replaceAllUsesWith(result);
          instruction.eraseFromParent();
        }
}

} // namespace sectile
