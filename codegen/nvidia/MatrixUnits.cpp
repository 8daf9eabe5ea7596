// mma.sync and ldmatrix as NVVM intrinsics.
#include "codegen/nvidia/MatrixUnits.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;

namespace sectile::nvidia {

SmallVector<Value *, 4> matrixLoad(IRBuilder<> &b, Value *row, unsigned count, bool transposed) {
  static constexpr Intrinsic::ID ids[2][3] = {
      {Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x1_b16,
       Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x2_b16,
       Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16},
      {Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x1_trans_b16,
       Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x2_trans_b16,
       Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16}};
  Value *loaded = b.CreateIntrinsic(ids[transposed][Log2_32(count)], {row->getType()}, {row});
  SmallVector<Value *, 4> matrices;
  for (unsigned i = 0; i < count; ++i)
    matrices.push_back(count == 1 ? loaded : b.CreateExtractValue(loaded, i));
  return matrices;
}

static Intrinsic::ID intrinsicFor(const MmaInstruction &instruction) {
  bool halfSum = instruction.sum == MmaElement::F16;
  bool otherIsE5 = instruction.b == MmaElement::F8E5M2;
  switch (instruction.a) {
  case MmaElement::F16:
    return halfSum ? Intrinsic::nvvm_mma_m16n8k16_row_col_f16_f16
                   : Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32;
  case MmaElement::BF16:
    return Intrinsic::nvvm_mma_m16n8k16_row_col_bf16;
  case MmaElement::TF32:
    return Intrinsic::nvvm_mma_m16n8k8_row_col_tf32;
  case MmaElement::I8:
    return Intrinsic::nvvm_mma_m16n8k32_row_col_s8;
  case MmaElement::F64:
    return Intrinsic::nvvm_mma_m8n8k4_row_col_f64;
  case MmaElement::F8E4M3:
    return otherIsE5 ? Intrinsic::nvvm_mma_m16n8k32_row_col_f32_e4m3_e5m2_f32
                     : Intrinsic::nvvm_mma_m16n8k32_row_col_f32_e4m3_e4m3_f32;
  case MmaElement::F8E5M2:
    return otherIsE5 ? Intrinsic::nvvm_mma_m16n8k32_row_col_f32_e5m2_e5m2_f32
                     : Intrinsic::nvvm_mma_m16n8k32_row_col_f32_e5m2_e4m3_f32;
  default:
    llvm_unreachable("an element that mma.sync does not take");
  }
}

void mma(IRBuilder<> &b, const MmaInstruction &instruction, ArrayRef<Value *> a,
         ArrayRef<Value *> bRegisters, MutableArrayRef<Value *> acc) {
  // The intrinsics take f16 operands and sums in pairs, everything else as words.
  auto *pair = FixedVectorType::get(b.getHalfTy(), 2);
  bool halfSum = instruction.sum == MmaElement::F16;
  SmallVector<Value *, 16> arguments;
  for (ArrayRef<Value *> operand : {a, bRegisters})
    for (Value *value : operand)
      arguments.push_back(instruction.a == MmaElement::F16 ? b.CreateBitCast(value, pair) : value);
  if (halfSum)
    for (unsigned i = 0; i < acc.size(); i += 2) {
      Value *both = b.CreateInsertElement(PoisonValue::get(pair), acc[i], uint64_t(0));
      arguments.push_back(b.CreateInsertElement(both, acc[i + 1], 1));
    }
  else
    arguments.append(acc.begin(), acc.end());
  Value *sums = b.CreateIntrinsic(intrinsicFor(instruction), arguments);
  for (auto [i, sum] : enumerate(acc))
    sum = halfSum ? b.CreateExtractElement(b.CreateExtractValue(sums, i / 2), i % 2)
                  : b.CreateExtractValue(sums, i);
}

} // namespace sectile::nvidia
