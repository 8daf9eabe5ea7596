// cta.dot: matrix instructions or fused multiply-adds.
#include "codegen/common/Dots.h"
#include "codegen/common/SharedTile.h"
#include "codegen/common/SmallFloats.h"
#include "codegen/common/Words.h"
#include "passes/LayoutRules.h"

using namespace mlir;

namespace sectile {

namespace {

Type elementOf(Value operand) {
  if (auto buffer = dyn_cast<cta::BufferType>(operand.getType()))
    return buffer.getElement();
  return tile::elementType(operand.getType());
}

//===-- Matrix instructions -------------------------------------------------------------------===//

/// Registers of an operand as the words that a matrix instruction takes, from a tile in registers
/// or read from a buffer when they are first asked for.
class Fragments {
public:
  Fragments(KernelEmitter &emitter, Value operand, const Layout &layout, bool asTF32)
      : emitter(emitter), inverse(layout), asTF32(asTF32) {
    Type element = elementOf(operand);
    unsigned bits = emitter.memoryTypeOf(element)->getPrimitiveSizeInBits();
    perWord = std::max(1u, 32 / bits);
    words.resize(layout.numRegisters() / perWord);
    if (auto buffer = dyn_cast<cta::BufferType>(operand.getType()))
      reader.emplace(emitter, layout, buffer.getLayout().getLayout(), element,
                     emitter.scalar(operand));
    else
      values = &emitter.registers(operand);
  }

  /// The `count` registers of the instruction's tile at these coordinates. They are consecutive.
  SmallVector<llvm::Value *, 4> at(int64_t row, int64_t column, unsigned count) {
    unsigned first = inverse({row, column})[In::Register];
    SmallVector<llvm::Value *, 4> result;
    for (unsigned reg = first; reg < first + count; reg += perWord)
      result.push_back(word(reg));
    return result;
  }

private:
  llvm::Value *word(unsigned reg) {
    llvm::Value *&known = words[reg / perWord];
    if (known)
      return known;
    llvm::IRBuilder<> &b = emitter.b;
    if (asTF32) {
      llvm::Value *word = reader ? reader->word(reg) : (*values)[reg];
      return known = emitter.hooks.roundToTF32(b, b.CreateBitCast(word, b.getFloatTy()));
    }
    if (reader)
      return known = reader->word(reg);
    if ((*values)[reg]->getType()->isDoubleTy())
      return known = (*values)[reg];
    return known = packWords(b, ArrayRef(*values).slice(reg, perWord), b.getInt32Ty());
  }

  KernelEmitter &emitter;
  LayoutInverse inverse;
  bool asTF32;
  unsigned perWord;
  std::optional<SharedReader> reader;
  const Registers *values = nullptr;
  SmallVector<llvm::Value *, 0> words;
};

std::optional<MmaElement> mmaElementOf(Type type) {
  if (type.isF16())
    return MmaElement::F16;
  if (type.isBF16())
    return MmaElement::BF16;
  if (type.isF32())
    return MmaElement::TF32;
  if (type.isF64())
    return MmaElement::F64;
  if (type.isInteger(8))
    return MmaElement::I8;
  if (isa<Float8E4M3FNType>(type))
    return MmaElement::F8E4M3;
  if (isa<Float8E5M2Type>(type))
    return MmaElement::F8E5M2;
  return std::nullopt;
}

LogicalResult emitMatrixDot(KernelEmitter &emitter, cta::DotOp op) {
  const Layout &sums = *cta::layoutOf(op.getType());
  auto aElement = mmaElementOf(elementOf(op.getA())), bElement = mmaElementOf(elementOf(op.getB()));
  if (!aElement || !bElement)
    return op.emitError("no matrix instruction multiplies ")
           << elementOf(op.getA()) << " and " << elementOf(op.getB());
  ArrayRef<int32_t> extents = *op.getInstruction();
  MmaShape shape{*aElement, unsigned(extents[0]), unsigned(extents[1]), unsigned(extents[2])};
  Layout aLayout = dotOperandLayout(op, sums, 0), bLayout = dotOperandLayout(op, sums, 1);
  for (auto [operand, layout] : {std::pair(op.getA(), &aLayout), std::pair(op.getB(), &bLayout)})
    if (const Layout *own = cta::layoutOf(operand.getType()); own && *own != *layout)
      return op.emitError("an operand has the layout ")
             << own->text() << " where the instruction needs " << layout->text();
  bool isTF32 = shape.element == MmaElement::TF32;
  Fragments a(emitter, op.getA(), aLayout, isTF32), bFragments(emitter, op.getB(), bLayout, isTF32);

  unsigned perWarp = emitter.target.warpSize;
  unsigned sumsEach = shape.m * shape.n / perWarp;
  unsigned aEach = shape.m * shape.k / perWarp, bEach = shape.k * shape.n / perWarp;
  SmallVector<Coordinates> places;
  for (unsigned reg = 0; reg < sums.numRegisters(); reg += sumsEach)
    places.push_back(sums.apply(reg, 0, 0));
  Registers values = emitter.registers(op.getAcc());
  for (int64_t k = 0; k < aLayout.shape()[1]; k += shape.k)
    for (auto [i, place] : llvm::enumerate(places))
      emitter.hooks.mma(emitter.b, shape, *bElement, a.at(place[0], k, aEach),
                        bFragments.at(k, place[1], bEach),
                        MutableArrayRef(values).slice(i * sumsEach, sumsEach));
  emitter.define(op, std::move(values));
  return success();
}

//===-- Fused multiply-adds -------------------------------------------------------------------===//

/// Numbers of an operand in the type of the sums, converted when they are first asked for.
class Numbers {
public:
  Numbers(KernelEmitter &emitter, Value operand, const Layout &sums, unsigned kept)
      : emitter(emitter), element(elementOf(operand)),
        layout(multiplyAddOperandLayout(sums, cast<cta::BufferType>(operand.getType()).getShape(),
                                        kept)),
        inverse(layout),
        reader(emitter, layout, cast<cta::BufferType>(operand.getType()).getLayout().getLayout(),
               element, emitter.scalar(operand)),
        known(layout.numRegisters()) {}

  llvm::Value *at(int64_t row, int64_t column, llvm::Type *type) {
    unsigned reg = inverse({row, column})[In::Register];
    llvm::Value *&number = known[reg];
    if (!number) {
      llvm::IRBuilder<> &b = emitter.b;
      llvm::Value *value = reader.get(reg);
      if (isa<Float8E4M3FNType, Float8E5M2Type>(element))
        value = widen(b, value, SmallFloat::of(element));
      number = type->isIntegerTy() ? b.CreateSExt(value, type) : b.CreateFPCast(value, type);
    }
    return number;
  }

private:
  KernelEmitter &emitter;
  Type element;
  Layout layout;
  LayoutInverse inverse;
  SharedReader reader;
  Registers known;
};

LogicalResult emitMultiplyAdds(KernelEmitter &emitter, cta::DotOp op) {
  auto aBuffer = dyn_cast<cta::BufferType>(op.getA().getType());
  if (!aBuffer || !isa<cta::BufferType>(op.getB().getType()))
    return op.emitError("by multiply-adds needs both operands in shared buffers");
  const Layout &sums = *cta::layoutOf(op.getType());
  llvm::IRBuilder<> &b = emitter.b;
  Numbers a(emitter, op.getA(), sums, 0), bNumbers(emitter, op.getB(), sums, 1);
  SmallVector<Coordinates> places;
  for (unsigned reg = 0; reg < sums.numRegisters(); ++reg)
    places.push_back(sums.apply(reg, 0, 0));
  ArrayRef<unsigned> first = emitter.firstCopies(sums);
  Registers values = emitter.registers(op.getAcc());
  llvm::Type *type = values.front()->getType();
  for (int64_t k = 0; k < aBuffer.getShape()[1]; ++k)
    for (auto [reg, place] : llvm::enumerate(places)) {
      if (!first.empty() && first[reg] < reg) {
        values[reg] = values[first[reg]];
        continue;
      }
      llvm::Value *x = a.at(place[0], k, type), *y = bNumbers.at(k, place[1], type);
      values[reg] = type->isIntegerTy()
                        ? b.CreateAdd(values[reg], b.CreateMul(x, y))
                        : b.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {x, y, values[reg]});
    }
  emitter.define(op, std::move(values));
  return success();
}

} // namespace

LogicalResult emitDot(KernelEmitter &emitter, cta::DotOp op) {
  return op.getInstruction() ? emitMatrixDot(emitter, op) : emitMultiplyAdds(emitter, op);
}

} // namespace sectile
