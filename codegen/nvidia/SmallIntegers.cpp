// Conversions of small integers to floats by arithmetic; SmallIntegers.h says why.
#include "codegen/nvidia/SmallIntegers.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Support/KnownBits.h"
#include "llvm/Transforms/Utils/Local.h"
#include <optional>

using namespace llvm;
using namespace llvm::PatternMatch;

namespace sectile {

namespace {

/// An integer as the bits of another one, which is not negative and at most `most`, and an offset.
struct SmallInteger {
  Value *from;
  bool flipped; ///< the bits are those of `from` with another sign
  uint64_t most;
  int64_t offset;

  Value *bits(IRBuilder<> &b) const {
    Value *same = flipped
                      ? b.CreateXor(from, APInt::getSignMask(from->getType()->getIntegerBitWidth()))
                      : from;
    return b.CreateZExtOrTrunc(same, b.getInt32Ty());
  }
};

std::optional<SmallInteger> smallInteger(Value *cast) {
  if (!isa<UIToFPInst, SIToFPInst>(cast))
    return std::nullopt;
  auto &conversion = *llvm::cast<CastInst>(cast);
  Value *x = conversion.getOperand(0);
  if (!x->getType()->isIntegerTy() || isa<Constant>(x) || x->getType()->getIntegerBitWidth() > 64)
    return std::nullopt;
  const DataLayout &layout = conversion.getModule()->getDataLayout();
  const auto mostOf = [&](Value *y) {
    return computeKnownBits(y, layout).getMaxValue().getZExtValue();
  };
  const auto isNonNegative = [&](Value *y) { return computeKnownBits(y, layout).isNonNegative(); };
  if (isa<UIToFPInst>(conversion) || isNonNegative(x))
    return SmallInteger{x, false, mostOf(x), 0};
  // What the optimiser makes of the difference of an unsigned integer and a constant.
  Value *y = nullptr;
  const APInt *added = nullptr;
  if (match(x, m_Add(m_Value(y), m_APInt(added))) && !isa<Constant>(y) && added->isNegative() &&
      isNonNegative(y))
    return SmallInteger{y, false, mostOf(y), added->getSExtValue()};
  const unsigned width = x->getType()->getIntegerBitWidth();
  if (width > 16)
    return std::nullopt;
  return SmallInteger{x, true, APInt::getMaxValue(width).getZExtValue(),
                      APInt::getSignMask(width).getSExtValue()};
}

/// A float of this type whose last bit counts ones: its bits, and the integers that its mantissa
/// has room for.
struct Ones {
  uint64_t bits, room;
};
Ones onesOf(Type *type) {
  return type->isFloatTy()  ? Ones{0x4b000000, 1 << 23}
         : type->isHalfTy() ? Ones{0x6400, 1 << 10}
                            : Ones{0x4300, 1 << 7};
}

bool fits(const SmallInteger &integer, Type *type) {
  const int64_t room = int64_t(onesOf(type).room);
  return integer.most < uint64_t(room) && integer.offset >= -room;
}

/// Null where the integer may be too large.
Value *converted(CastInst &cast) {
  Type *type = cast.getType();
  if (!type->isFloatTy() && !type->isHalfTy())
    return nullptr;
  IRBuilder<> b(&cast);
  Type *word = b.getIntNTy(unsigned(type->getPrimitiveSizeInBits()));
  const auto distance = [&](Value *bits, double from) {
    return b.CreateFSub(b.CreateBitCast(bits, type), ConstantFP::get(type, from));
  };
  const Ones ones = onesOf(type);
  const std::optional<SmallInteger> integer = smallInteger(&cast);
  if (integer && fits(*integer, type))
    return distance(
        b.CreateOr(b.CreateZExtOrTrunc(integer->bits(b), word), ConstantInt::get(word, ones.bits)),
        double(int64_t(ones.room) - integer->offset));
  // With one bit more above, which a negative integer borrows from.
  Value *x = cast.getOperand(0);
  if (type->isFloatTy() && isa<SIToFPInst>(cast) && x->getType()->isIntegerTy() &&
      !isa<Constant>(x) && ComputeMaxSignificantBits(x, cast.getModule()->getDataLayout()) <= 23)
    return distance(b.CreateAdd(b.CreateSExtOrTrunc(x, word), b.getInt32(0x4b400000)), 0x1.8p23);
  return nullptr;
}

/// A small integer times a float of this type, rounded to it. Both have few enough bits that the
/// product of f32 is exact, so that one rounding gives the same.
struct Scaled {
  SmallInteger integer;
  Value *by;
};
std::optional<Scaled> scaled(Value *value, Type *type) {
  Value *one = nullptr, *other = nullptr;
  if (!match(value, m_OneUse(m_FPTrunc(m_FMul(m_Value(one), m_Value(other))))))
    return std::nullopt;
  for (int turn = 0; turn < 2; ++turn, std::swap(one, other)) {
    Value *by = nullptr;
    if (!match(other, m_FPExt(m_Value(by))) || by->getType() != type || !isa<CastInst>(one) ||
        !one->getType()->isFloatTy())
      continue;
    if (const auto integer = smallInteger(one); integer && fits(*integer, type))
      return Scaled{*integer, by};
  }
  return std::nullopt;
}

/// The bits of two integers in the halves of a word. Both ends of one number, as two codes of four
/// bits are of a byte, take a shift and a mask together.
Value *inHalves(IRBuilder<> &b, const SmallInteger &low, const SmallInteger &high) {
  Value *both = nullptr;
  const APInt *mask = nullptr, *shift = nullptr;
  if (!low.flipped && !high.flipped && match(low.from, m_And(m_Value(both), m_APInt(mask))) &&
      match(high.from, m_LShr(m_Specific(both), m_APInt(shift)))) {
    const unsigned width = both->getType()->getIntegerBitWidth();
    if (width <= 16 && shift->ult(width) && mask->getActiveBits() <= 16 - shift->getZExtValue()) {
      Value *wide = b.CreateZExtOrTrunc(both, b.getInt32Ty());
      const uint64_t highMask = ((uint64_t(1) << width) - 1) >> shift->getZExtValue();
      return b.CreateAnd(b.CreateOr(wide, b.CreateShl(wide, 16 - shift->getZExtValue())),
                         b.getInt32(uint32_t(mask->getZExtValue() | highMask << 16)));
    }
  }
  return b.CreateOr(low.bits(b), b.CreateShl(high.bits(b), 16));
}

/// Null where it is no pair of scaled integers.
Value *paired(InsertElementInst &last) {
  auto *vector = dyn_cast<FixedVectorType>(last.getType());
  Value *low = nullptr;
  if (!vector || vector->getNumElements() != 2 ||
      !match(&last, m_InsertElt(m_InsertElt(m_Poison(), m_Value(low), m_ZeroInt()), m_Value(),
                                m_SpecificInt(1))))
    return nullptr;
  Type *type = vector->getElementType();
  if (!type->isHalfTy() && !type->isBFloatTy())
    return nullptr;
  const auto first = scaled(low, type), second = scaled(last.getOperand(1), type);
  if (!first || !second)
    return nullptr;
  IRBuilder<> b(&last);
  const Ones ones = onesOf(type);
  const auto zero = [&](const Scaled &of) {
    return ConstantFP::get(type, double(int64_t(ones.room) - of.integer.offset));
  };
  Value *bits = b.CreateOr(inHalves(b, first->integer, second->integer),
                           b.getInt32(uint32_t(ones.bits << 16 | ones.bits)));
  Value *by =
      b.CreateInsertElement(b.CreateInsertElement(PoisonValue::get(vector), first->by, uint64_t(0)),
                            second->by, uint64_t(1));
  return b.CreateFMul(b.CreateFSub(b.CreateBitCast(bits, vector),
                                   ConstantVector::get({zero(*first), zero(*second)})),
                      by);
}

} // namespace

void convertSmallIntegers(Module &module, bool hasBfloatPairs) {
  const auto replaceAll = [&](Function &function, auto &&resultOf) {
    for (Instruction &instruction : make_early_inc_range(instructions(function)))
      if (Value *result = resultOf(instruction)) {
        instruction.replaceAllUsesWith(result);
        RecursivelyDeleteTriviallyDeadInstructions(&instruction);
      }
  };
  for (Function &function : module) {
    replaceAll(function, [&](Instruction &instruction) -> Value * {
      auto *last = dyn_cast<InsertElementInst>(&instruction);
      return last && (hasBfloatPairs || !last->getType()->getScalarType()->isBFloatTy())
                 ? paired(*last)
                 : nullptr;
    });
    replaceAll(function, [](Instruction &instruction) {
      return isa<UIToFPInst, SIToFPInst>(instruction) ? converted(cast<CastInst>(instruction))
                                                      : nullptr;
    });
  }
}

} // namespace sectile
