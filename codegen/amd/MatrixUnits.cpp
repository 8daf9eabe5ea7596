// MFMA and WMMA as amdgcn intrinsics.
#include "codegen/amd/MatrixUnits.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace sectile::amd {
namespace {

using Element = MmaElement;

/// The waves of 64 lanes have MFMA, those of 32 have WMMA.
struct Row {
  unsigned lanes;
  Element a, b;
  unsigned m, k;
  Intrinsic::ID id;
};

constexpr Row rows[] = {
    {64, Element::F16, Element::F16, 16, 16, Intrinsic::amdgcn_mfma_f32_16x16x16f16},
    {64, Element::F16, Element::F16, 32, 8, Intrinsic::amdgcn_mfma_f32_32x32x8f16},
    {64, Element::F16, Element::F16, 16, 32, Intrinsic::amdgcn_mfma_f32_16x16x32_f16},
    {64, Element::F16, Element::F16, 32, 16, Intrinsic::amdgcn_mfma_f32_32x32x16_f16},
    {64, Element::BF16, Element::BF16, 16, 16, Intrinsic::amdgcn_mfma_f32_16x16x16bf16_1k},
    {64, Element::BF16, Element::BF16, 32, 8, Intrinsic::amdgcn_mfma_f32_32x32x8bf16_1k},
    {64, Element::BF16, Element::BF16, 16, 32, Intrinsic::amdgcn_mfma_f32_16x16x32_bf16},
    {64, Element::BF16, Element::BF16, 32, 16, Intrinsic::amdgcn_mfma_f32_32x32x16_bf16},
    {64, Element::TF32, Element::TF32, 16, 8, Intrinsic::amdgcn_mfma_f32_16x16x8_xf32},
    {64, Element::TF32, Element::TF32, 32, 4, Intrinsic::amdgcn_mfma_f32_32x32x4_xf32},
    {64, Element::F32, Element::F32, 16, 4, Intrinsic::amdgcn_mfma_f32_16x16x4f32},
    {64, Element::F32, Element::F32, 32, 2, Intrinsic::amdgcn_mfma_f32_32x32x2f32},
    {64, Element::I8, Element::I8, 16, 16, Intrinsic::amdgcn_mfma_i32_16x16x16i8},
    {64, Element::I8, Element::I8, 32, 8, Intrinsic::amdgcn_mfma_i32_32x32x8i8},
    {64, Element::I8, Element::I8, 16, 32, Intrinsic::amdgcn_mfma_i32_16x16x32_i8},
    {64, Element::I8, Element::I8, 32, 16, Intrinsic::amdgcn_mfma_i32_32x32x16_i8},
    {64, Element::I8, Element::I8, 16, 64, Intrinsic::amdgcn_mfma_i32_16x16x64_i8},
    {64, Element::I8, Element::I8, 32, 32, Intrinsic::amdgcn_mfma_i32_32x32x32_i8},
    {64, Element::F64, Element::F64, 16, 4, Intrinsic::amdgcn_mfma_f64_16x16x4f64},
    {64, Element::F8E4M3, Element::F8E4M3, 16, 32, Intrinsic::amdgcn_mfma_f32_16x16x32_fp8_fp8},
    {64, Element::F8E4M3, Element::F8E5M2, 16, 32, Intrinsic::amdgcn_mfma_f32_16x16x32_fp8_bf8},
    {64, Element::F8E5M2, Element::F8E4M3, 16, 32, Intrinsic::amdgcn_mfma_f32_16x16x32_bf8_fp8},
    {64, Element::F8E5M2, Element::F8E5M2, 16, 32, Intrinsic::amdgcn_mfma_f32_16x16x32_bf8_bf8},
    {64, Element::F8E4M3, Element::F8E4M3, 32, 16, Intrinsic::amdgcn_mfma_f32_32x32x16_fp8_fp8},
    {64, Element::F8E4M3, Element::F8E5M2, 32, 16, Intrinsic::amdgcn_mfma_f32_32x32x16_fp8_bf8},
    {64, Element::F8E5M2, Element::F8E4M3, 32, 16, Intrinsic::amdgcn_mfma_f32_32x32x16_bf8_fp8},
    {64, Element::F8E5M2, Element::F8E5M2, 32, 16, Intrinsic::amdgcn_mfma_f32_32x32x16_bf8_bf8},
    {32, Element::F16, Element::F16, 16, 16, Intrinsic::amdgcn_wmma_f32_16x16x16_f16},
    {32, Element::BF16, Element::BF16, 16, 16, Intrinsic::amdgcn_wmma_f32_16x16x16_bf16},
    {32, Element::I8, Element::I8, 16, 16, Intrinsic::amdgcn_wmma_i32_16x16x16_iu8},
    {32, Element::F8E4M3, Element::F8E4M3, 16, 16, Intrinsic::amdgcn_wmma_f32_16x16x16_fp8_fp8},
    {32, Element::F8E4M3, Element::F8E5M2, 16, 16, Intrinsic::amdgcn_wmma_f32_16x16x16_fp8_bf8},
    {32, Element::F8E5M2, Element::F8E4M3, 16, 16, Intrinsic::amdgcn_wmma_f32_16x16x16_bf8_fp8},
    {32, Element::F8E5M2, Element::F8E5M2, 16, 16, Intrinsic::amdgcn_wmma_f32_16x16x16_bf8_bf8},
};

/// The instructions for 8-bit floats take the formats of their chip, and are called the same.
Element withoutBias(Element element) {
  return element == Element::F8E4M3FNUZ   ? Element::F8E4M3
         : element == Element::F8E5M2FNUZ ? Element::F8E5M2
                                          : element;
}

Intrinsic::ID intrinsicFor(const MmaInstruction &instruction) {
  for (const Row &row : rows)
    if (row.lanes == instruction.sumFragment.numLanes() && row.a == withoutBias(instruction.a) &&
        row.b == withoutBias(instruction.b) && row.m == instruction.m && row.k == instruction.k)
      return row.id;
  llvm_unreachable("a matrix instruction without an intrinsic");
}

Value *vectorOf(IRBuilder<> &b, ArrayRef<Value *> values) {
  Value *vector = PoisonValue::get(FixedVectorType::get(values.front()->getType(), values.size()));
  for (auto [i, value] : enumerate(values))
    vector = b.CreateInsertElement(vector, value, i);
  return vector;
}

} // namespace

void mma(IRBuilder<> &b, const MmaInstruction &instruction, ArrayRef<Value *> a,
         ArrayRef<Value *> bRegisters, MutableArrayRef<Value *> acc) {
  Intrinsic::ID id = intrinsicFor(instruction);
  Value *sums = vectorOf(b, acc);
  SmallVector<Type *> overloads;
  SmallVector<Value *> arguments;
  bool isWave32 = instruction.sumFragment.numLanes() == 32;
  if (isWave32) {
    unsigned words = a.size();
    Type *operand = instruction.a == Element::F16 ? FixedVectorType::get(b.getHalfTy(), 2 * words)
                    : instruction.a == Element::BF16
                        ? FixedVectorType::get(b.getInt16Ty(), 2 * words)
                        : FixedVectorType::get(b.getInt32Ty(), words);
    overloads = {sums->getType(), operand};
  }
  Module &module = *b.GetInsertBlock()->getModule();
  Function *callee = Intrinsic::getOrInsertDeclaration(&module, id, overloads);
  bool isInteger = isWave32 && instruction.a == Element::I8;
  for (ArrayRef<Value *> words : {a, bRegisters}) {
    if (isInteger)
      arguments.push_back(b.getTrue()); // signed
    Type *type = callee->getFunctionType()->getParamType(arguments.size());
    Value *whole = words.size() == 1 ? words.front() : vectorOf(b, words);
    arguments.push_back(b.CreateBitCast(whole, type));
  }
  arguments.push_back(sums);
  if (isInteger)
    arguments.push_back(b.getFalse()); // wraps
  if (!isWave32)
    arguments.append(3, b.getInt32(0)); // no blocks to broadcast
  Value *result = b.CreateCall(callee, arguments);
  for (auto [i, sum] : enumerate(acc))
    sum = b.CreateExtractElement(result, i);
}

} // namespace sectile::amd
