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

/// Bits of an integer: those of `from` behind the lowest `shift`, under a mask.
struct Field {
  Value *from;
  unsigned shift;
  uint64_t mask;
  bool isWhole = false; ///< `from` has no others

  unsigned width() const { return from->getType()->getIntegerBitWidth(); }
  Value *bits(IRBuilder<> &b, uint64_t flipped = 0) const;
};

uint64_t lowBits(unsigned count) { return count < 64 ? (uint64_t(1) << count) - 1 : ~uint64_t(0); }

/// As a number of 32 bits, some of them flipped.
Value *Field::bits(IRBuilder<> &b, uint64_t flipped) const {
  Value *x = shift ? b.CreateLShr(from, shift) : from;
  if (!isWhole && mask != lowBits(width() - shift))
    x = b.CreateAnd(x, mask);
  if (flipped)
    x = b.CreateXor(x, flipped);
  return b.CreateZExtOrTrunc(x, b.getInt32Ty());
}

/// The bits of a number that is not negative.
Field fieldOf(Value *x, const DataLayout &layout) {
  Value *from = nullptr;
  const APInt *shift = nullptr, *mask = nullptr;
  const unsigned width = x->getType()->getIntegerBitWidth();
  if (match(x, m_And(m_LShr(m_Value(from), m_APInt(shift)), m_APInt(mask))) && shift->ult(width))
    return {from, unsigned(shift->getZExtValue()),
            mask->getZExtValue() & lowBits(width - unsigned(shift->getZExtValue()))};
  if (match(x, m_And(m_Value(from), m_APInt(mask))))
    return {from, 0, mask->getZExtValue()};
  if (match(x, m_LShr(m_Value(from), m_APInt(shift))) && shift->ult(width))
    return {from, unsigned(shift->getZExtValue()),
            lowBits(width - unsigned(shift->getZExtValue()))};
  return {x, 0, computeKnownBits(x, layout).getMaxValue().getZExtValue(), true};
}

/// The upper bits of an integer, or lower ones of it, as a number with a sign.
std::optional<Field> signedField(Value *x) {
  Value *from = nullptr;
  const APInt *up = nullptr, *down = nullptr;
  const unsigned width = x->getType()->getIntegerBitWidth();
  if (!match(x, m_AShr(m_Value(from), m_APInt(down))) || !down->ult(width))
    return std::nullopt;
  const unsigned count = width - unsigned(down->getZExtValue());
  Value *inner = nullptr;
  if (match(from, m_Shl(m_Value(inner), m_APInt(up))) && up->ule(*down))
    return Field{inner, unsigned(down->getZExtValue() - up->getZExtValue()), lowBits(count)};
  return Field{from, unsigned(down->getZExtValue()), lowBits(count)};
}

/// An integer as a field, some of whose bits are flipped, and an offset.
struct SmallInteger {
  Field field;
  uint64_t flipped;
  int64_t offset;

  uint64_t most() const { return field.mask; }
  Value *bits(IRBuilder<> &b) const { return field.bits(b, flipped); }
};

std::optional<SmallInteger> smallInteger(Value *cast) {
  if (!isa<UIToFPInst, SIToFPInst>(cast))
    return std::nullopt;
  auto &conversion = *llvm::cast<CastInst>(cast);
  Value *x = conversion.getOperand(0);
  if (!x->getType()->isIntegerTy() || isa<Constant>(x) || x->getType()->getIntegerBitWidth() > 64)
    return std::nullopt;
  const DataLayout &layout = conversion.getModule()->getDataLayout();
  const auto isNonNegative = [&](Value *y) { return computeKnownBits(y, layout).isNonNegative(); };
  if (isa<UIToFPInst>(conversion) || isNonNegative(x))
    return SmallInteger{fieldOf(x, layout), 0, 0};
  // What the optimiser makes of the difference of an unsigned integer and a constant.
  Value *y = nullptr;
  const APInt *added = nullptr;
  if (match(x, m_Add(m_Value(y), m_APInt(added))) && !isa<Constant>(y) && added->isNegative() &&
      isNonNegative(y))
    return SmallInteger{fieldOf(y, layout), 0, added->getSExtValue()};
  const unsigned width = x->getType()->getIntegerBitWidth();
  const auto withSign = [](const Field &field) {
    const uint64_t sign = field.mask / 2 + 1;
    return SmallInteger{field, sign, -int64_t(sign)};
  };
  if (const std::optional<Field> field = signedField(x))
    return withSign(*field);
  return width > 16 ? std::nullopt : std::optional(withSign({x, 0, lowBits(width), true}));
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
  return integer.most() < uint64_t(room) && integer.offset >= -room;
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

/// Two fields in the halves of a word. Ends of one number, as two codes of four bits are of a byte,
/// and bits of two numbers that have the same place, take a shift and a mask together.
Value *inHalves(IRBuilder<> &b, const Field &first, const Field &second) {
  const auto wide = [&](Value *from) { return b.CreateZExtOrTrunc(from, b.getInt32Ty()); };
  const auto isBelow = [](uint64_t mask, unsigned bits) { return mask <= lowBits(bits); };
  const bool isNarrow = first.width() <= 16 && second.width() <= 16;
  const auto masked = [&](Value *word) {
    return b.CreateAnd(word, first.mask | second.mask << 16);
  };
  if (isNarrow && first.from == second.from && first.shift == 0 && second.shift > 0 &&
      isBelow(first.mask, 16 - second.shift)) {
    Value *from = wide(first.from);
    return masked(b.CreateOr(from, b.CreateShl(from, 16 - second.shift)));
  }
  if (isNarrow && !first.isWhole && !second.isWhole && first.shift == second.shift &&
      isBelow(first.mask, 16 - first.shift)) {
    Value *from = b.CreateOr(wide(first.from), b.CreateShl(wide(second.from), 16));
    return masked(first.shift ? b.CreateLShr(from, first.shift) : from);
  }
  return b.CreateOr(first.bits(b), b.CreateShl(second.bits(b), 16));
}

/// The same bits in both halves of a word.
uint64_t twice(uint64_t half) { return half << 16 | half; }

/// Both integers as floats.
Value *floats(IRBuilder<> &b, const SmallInteger &low, const SmallInteger &high,
              FixedVectorType *pair) {
  Type *type = pair->getElementType();
  const Ones ones = onesOf(type);
  const auto zero = [&](const SmallInteger &of) {
    return ConstantFP::get(type, double(int64_t(ones.room) - of.offset));
  };
  Value *bits = b.CreateXor(inHalves(b, low.field, high.field),
                            low.flipped | high.flipped << 16 | twice(ones.bits));
  return b.CreateFSub(b.CreateBitCast(bits, pair), ConstantVector::get({zero(low), zero(high)}));
}

/// Integers whose sign is the first bit that a mantissa has no room for: with it the float is twice
/// as large, and that is what it takes away.
Value *floatsOfSigned(IRBuilder<> &b, const Field &low, const Field &high, FixedVectorType *pair) {
  const Ones ones = onesOf(pair->getElementType());
  Value *bits = inHalves(b, low, high);
  // Added: where the exponent is odd, the sign carries into it.
  const auto withBits = [&](uint64_t mask) {
    return b.CreateBitCast(
        b.CreateAdd(b.CreateAnd(bits, twice(mask)), b.getInt32(uint32_t(twice(ones.bits)))), pair);
  };
  return b.CreateFSub(withBits(ones.room - 1), withBits(ones.room));
}

Value *plainIntegers(IRBuilder<> &b, Value *low, Value *high, FixedVectorType *pair) {
  Type *type = pair->getElementType();
  const uint64_t room = onesOf(type).room;
  const auto plain = [](Value *value) {
    return value->hasOneUse() ? smallInteger(value) : std::nullopt;
  };
  const auto first = plain(low), second = plain(high);
  if (!first || !second)
    return nullptr;
  if (fits(*first, type) && fits(*second, type))
    return floats(b, *first, *second, pair);
  const auto isOneLonger = [&](const SmallInteger &integer) {
    return integer.flipped == room && integer.most() == 2 * room - 1;
  };
  return isOneLonger(*first) && isOneLonger(*second)
             ? floatsOfSigned(b, first->field, second->field, pair)
             : nullptr;
}

/// Both integers, scaled.
Value *scaledIntegers(IRBuilder<> &b, Value *low, Value *high, FixedVectorType *pair) {
  Type *type = pair->getElementType();
  const auto first = scaled(low, type), second = scaled(high, type);
  if (!first || !second)
    return nullptr;
  return b.CreateFMul(floats(b, first->integer, second->integer, pair),
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

/// Computes two neighbours in a vector as a pair where they are small integers or scaled codes.
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
  Value *result = plainIntegers(b, low, high, pair);
  if (!result)
    result = scaledIntegers(b, low, high, pair);
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
