// Conversions of small integers to floats by arithmetic; SmallIntegers.h says why.
#include "codegen/nvidia/SmallIntegers.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/IR/ValueHandle.h"
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

Value *both(IRBuilder<> &b, Value *low, Value *high, FixedVectorType *pair) {
  return b.CreateInsertElement(b.CreateInsertElement(PoisonValue::get(pair), low, uint64_t(0)),
                               high, uint64_t(1));
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

/// Both integers, scaled.
Value *scaledIntegers(IRBuilder<> &b, Value *low, Value *high, FixedVectorType *pair) {
  Type *type = pair->getElementType();
  const auto first = scaled(low, type), second = scaled(high, type);
  if (!first || !second)
    return nullptr;
  const Ones ones = onesOf(type);
  const auto zero = [&](const Scaled &of) {
    return ConstantFP::get(type, double(int64_t(ones.room) - of.integer.offset));
  };
  Value *bits = b.CreateOr(inHalves(b, first->integer, second->integer),
                           b.getInt32(uint32_t(ones.bits << 16 | ones.bits)));
  return b.CreateFMul(
      b.CreateFSub(b.CreateBitCast(bits, pair), ConstantVector::get({zero(*first), zero(*second)})),
      both(b, first->by, second->by, pair));
}

/// Whether an f32 number is one of bf16, too.
bool isBfloat(Value *value) {
  if (auto *constant = dyn_cast<ConstantFP>(value)) {
    APFloat number = constant->getValueAPF();
    bool loses = false;
    number.convert(APFloat::BFloat(), APFloat::rmNearestTiesToEven, &loses);
    return number.isNaN() || !loses;
  }
  Value *one = nullptr, *other = nullptr, *from = nullptr;
  if (match(value, m_Select(m_Value(), m_Value(one), m_Value(other))))
    return isBfloat(one) && isBfloat(other);
  if (match(value, m_FPExt(m_Value(from))))
    return from->getType()->isBFloatTy();
  return match(value, m_BitCast(m_Value(from))) && from->getType()->isIntegerTy(32) &&
         computeKnownBits(from, cast<Instruction>(value)->getModule()->getDataLayout())
                 .countMinTrailingZeros() >= 16;
}

/// A code of e2m1 in the lowest bits of a number up to 255, times a number of bf16.
struct ScaledCode {
  Value *code, *by;
};
std::optional<ScaledCode> scaledCode(Value *value) {
  Value *by = nullptr, *bits = nullptr, *code = nullptr;
  // As f16, whose exponents begin 14 lower.
  if (!match(value,
             m_OneUse(m_FPTrunc(m_c_FMul(
                 m_FMul(m_FPExt(m_BitCast(m_Value(bits))), m_SpecificFP(0x1p14)), m_Value(by))))) ||
      !bits->getType()->isIntegerTy(16) ||
      !match(bits, m_c_Or(m_And(m_Shl(m_Value(code), m_SpecificInt(12)), m_SpecificInt(0x8000)),
                          m_And(m_Shl(m_Deferred(code), m_SpecificInt(9)), m_SpecificInt(0xe00)))))
    return std::nullopt;
  const DataLayout &layout = cast<Instruction>(value)->getModule()->getDataLayout();
  if (computeKnownBits(code, layout).countMaxActiveBits() > 8 || !isBfloat(by))
    return std::nullopt;
  return ScaledCode{code, by};
}

/// Both codes, scaled. The products of f32 are exact, and so is the first one here.
Value *scaledCodes(IRBuilder<> &b, Value *low, Value *high, FixedVectorType *pair) {
  if (!pair->getElementType()->isBFloatTy())
    return nullptr;
  const auto first = scaledCode(low), second = scaledCode(high);
  if (!first || !second)
    return nullptr;
  Value *wide = b.CreateZExt(first->code, b.getInt32Ty());
  Value *codes =
      b.CreateOr(wide, match(second->code, m_LShr(m_Specific(first->code), m_SpecificInt(4)))
                           ? b.CreateShl(wide, 12)
                           : b.CreateShl(b.CreateZExt(second->code, b.getInt32Ty()), 16));
  Value *bits = b.CreateOr(b.CreateAnd(b.CreateShl(codes, 12), b.getInt32(0x80008000)),
                           b.CreateAnd(b.CreateShl(codes, 6), b.getInt32(0x01c001c0)));
  const auto narrow = [&](Value *by) { return b.CreateFPTrunc(by, pair->getElementType()); };
  // The exponents of bf16 begin 126 lower.
  return b.CreateFMul(b.CreateFMul(b.CreateBitCast(bits, pair), ConstantFP::get(pair, 0x1p126)),
                      both(b, narrow(first->by), narrow(second->by), pair));
}

/// Computes two neighbours in a vector as a pair where they are scaled codes.
void pairUp(InsertElementInst &last, bool hasBfloatPairs) {
  auto *vector = cast<FixedVectorType>(last.getType());
  Type *type = vector->getElementType();
  auto *before = dyn_cast<InsertElementInst>(last.getOperand(0));
  auto *lane = dyn_cast<ConstantInt>(last.getOperand(2));
  if (!(type->isHalfTy() || (hasBfloatPairs && type->isBFloatTy())) || !before ||
      !before->hasOneUse() || !lane || lane->getZExtValue() % 2 == 0 ||
      !match(before->getOperand(2), m_SpecificInt(lane->getZExtValue() - 1)))
    return;
  IRBuilder<> b(&last);
  auto *pair = FixedVectorType::get(type, 2);
  Value *low = before->getOperand(1), *high = last.getOperand(1);
  Value *result = scaledIntegers(b, low, high, pair);
  if (!result)
    result = scaledCodes(b, low, high, pair);
  if (!result)
    return;
  before->setOperand(1, b.CreateExtractElement(result, uint64_t(0)));
  last.setOperand(1, b.CreateExtractElement(result, uint64_t(1)));
  before->moveBefore(last.getIterator());
  for (Value *replaced : {low, high})
    RecursivelyDeleteTriviallyDeadInstructions(replaced);
}

} // namespace

void convertSmallIntegers(Module &module, bool hasBfloatPairs) {
  // What is replaced takes its operands with it, which may stand anywhere.
  const auto all = [](Function &function) {
    SmallVector<WeakVH> handles;
    for (Instruction &instruction : instructions(function))
      handles.emplace_back(&instruction);
    return handles;
  };
  for (Function &function : module) {
    for (const WeakVH &each : all(function))
      if (auto *last = dyn_cast_or_null<InsertElementInst>(each);
          last && isa<FixedVectorType>(last->getType()))
        pairUp(*last, hasBfloatPairs);
    for (const WeakVH &each : all(function))
      if (auto *cast = dyn_cast_or_null<CastInst>(each); cast && isa<UIToFPInst, SIToFPInst>(cast))
        if (Value *result = converted(*cast)) {
          cast->replaceAllUsesWith(result);
          RecursivelyDeleteTriviallyDeadInstructions(cast);
        }
  }
}

} // namespace sectile
