// Operands of matrix instructions, as the words that those take.
#include "codegen/common/Fragments.h"
#include "codegen/common/Words.h"

using namespace mlir;

namespace sectile {

SplitPrecision SplitPrecision::of(tile::Precision precision) {
  static constexpr std::pair<Part, Part> one[] = {{Whole, Whole}};
  static constexpr std::pair<Part, Part> three[] = {
      {Second, First}, {First, Second}, {Whole, Whole}};
  static constexpr std::pair<Part, Part> six[] = {{Third, First},  {Second, Second},
                                                  {First, Third},  {Second, First},
                                                  {First, Second}, {Whole, Whole}};
  switch (precision) {
  case tile::Precision::TF32x3:
    return {MmaElement::TF32, 2, three};
  case tile::Precision::BF16x3:
    return {MmaElement::BF16, 2, three};
  case tile::Precision::BF16x6:
    return {MmaElement::BF16, 3, six};
  case tile::Precision::TF32:
  case tile::Precision::IEEE:
    break;
  }
  return {MmaElement::TF32, 1, one};
}

Fragments::Fragments(KernelEmitter &emitter, Value operand, const Layout &layout,
                     const SplitPrecision *split, ThreadPart moving)
    : emitter(emitter), layout(layout), inverse(layout), split(split) {
  Type element = cta::elementOf(operand.getType());
  unsigned bits = emitter.memoryTypeOf(element)->getPrimitiveSizeInBits();
  if (split)
    bits = split->element == MmaElement::BF16 ? 16 : 32;
  perWord = std::max(1u, 32 / bits);
  if (split)
    splitWords.resize(layout.numRegisters() / perWord);
  else
    words.resize(layout.numRegisters() / perWord);
  if (auto buffer = dyn_cast<cta::BufferType>(operand.getType()))
    reader.emplace(emitter, layout, buffer.getLayout().getLayout(), element,
                   emitter.scalar(operand), moving);
  else
    values = emitter.registers(operand);
}

SmallVector<llvm::Value *, 4> Fragments::at(ArrayRef<int64_t> place, unsigned count,
                                            SplitPrecision::Part part) {
  unsigned first = inverse(Coordinates(place))[In::Register];
  SmallVector<llvm::Value *, 4> result;
  for (unsigned reg = first; reg < first + count; reg += perWord)
    result.push_back(split ? splitWord(reg)[part] : word(reg));
  return result;
}

Registers Fragments::carried() {
  if (split)
    return values;
  for (unsigned reg = 0; reg < values.size(); reg += perWord)
    word(reg);
  return words;
}

void Fragments::setCarried(ArrayRef<llvm::Value *> now) {
  (split ? values : words).assign(now.begin(), now.end());
}

Registers Fragments::movedOn(ArrayRef<llvm::Value *> now, unsigned dim, int64_t length) const {
  const unsigned each = split ? 1 : perWord;
  Registers next(now);
  for (unsigned i = 0; i < now.size(); ++i) {
    Coordinates place = layout.apply(i * each, 0, 0);
    place[dim] += length;
    if (place[dim] < layout.shape()[dim])
      next[i] = now[inverse(place)[In::Register] / each];
  }
  return next;
}

llvm::Value *Fragments::word(unsigned reg) {
  llvm::Value *&known = words[reg / perWord];
  if (known)
    return known;
  if (reader)
    return known = reader->word(reg);
  if (values[reg]->getType()->isDoubleTy())
    return known = values[reg];
  return known = packWords(emitter.b, ArrayRef(values).slice(reg, perWord), emitter.b.getInt32Ty());
}

llvm::Value *Fragments::number(unsigned reg) {
  llvm::IRBuilder<> &b = emitter.b;
  return b.CreateBitCast(reader ? reader->get(reg) : values[reg], b.getFloatTy());
}

Fragments::Parts Fragments::partsOf(llvm::Value *number) {
  llvm::IRBuilder<> &b = emitter.b;
  bool isTF32 = split->element == MmaElement::TF32;
  auto round = [&](llvm::Value *x) {
    return isTF32 ? emitter.hooks.roundToTF32(b, x) : b.CreateFPTrunc(x, b.getBFloatTy());
  };
  auto asFloat = [&](llvm::Value *rounded) {
    // What a tf32 number has below its mantissa is not said anywhere.
    return isTF32 ? b.CreateBitCast(b.CreateAnd(rounded, 0xffffe000u), b.getFloatTy())
                  : b.CreateFPExt(rounded, b.getFloatTy());
  };
  Parts parts{round(number)};
  if (split->parts == 1)
    return parts;
  llvm::Value *left = b.CreateFSub(number, asFloat(parts[SplitPrecision::Whole]));
  llvm::Value *size = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, left);
  llvm::Value *finite = b.CreateFCmpOLT(size, llvm::ConstantFP::getInfinity(b.getFloatTy()));
  llvm::Value *whole = parts[SplitPrecision::Whole];
  parts[SplitPrecision::First] =
      b.CreateSelect(finite, whole, llvm::Constant::getNullValue(whole->getType()));
  left = b.CreateSelect(finite, left, llvm::ConstantFP::getZero(b.getFloatTy()));
  parts[SplitPrecision::Second] = round(left);
  if (split->parts == 3)
    parts[SplitPrecision::Third] =
        round(b.CreateFSub(left, asFloat(parts[SplitPrecision::Second])));
  return parts;
}

const Fragments::Parts &Fragments::splitWord(unsigned reg) {
  Parts &known = splitWords[reg / perWord];
  if (known[0])
    return known;
  SmallVector<Parts, 2> numbers;
  for (unsigned i = 0; i < perWord; ++i)
    numbers.push_back(partsOf(number(reg + i)));
  for (unsigned part = 0; part < known.size(); ++part) {
    SmallVector<llvm::Value *, 2> elements;
    for (const Parts &parts : numbers)
      elements.push_back(parts[part]);
    if (elements[0])
      known[part] = packWords(emitter.b, elements, emitter.b.getInt32Ty());
  }
  return known;
}

} // namespace sectile
