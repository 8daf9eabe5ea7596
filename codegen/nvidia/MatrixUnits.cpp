// mma.sync, ldmatrix, stmatrix and wgmma as NVVM intrinsics and pseudo-intrinsics.
#include "codegen/nvidia/MatrixUnits.h"
#include "codegen/common/PseudoIntrinsics.h"
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

void matrixStore(IRBuilder<> &b, Value *row, ArrayRef<Value *> matrices, bool transposed) {
  static constexpr Intrinsic::ID ids[2][3] = {
      {Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x1_b16,
       Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x2_b16,
       Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x4_b16},
      {Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x1_trans_b16,
       Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x2_trans_b16,
       Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x4_trans_b16}};
  SmallVector<Value *, 5> arguments{row};
  append_range(arguments, matrices);
  b.CreateIntrinsic(ids[transposed][Log2_64(matrices.size())], {row->getType()}, arguments);
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
    return instruction.m == 8   ? Intrinsic::nvvm_mma_m8n8k4_row_col_f64
           : instruction.k == 4 ? Intrinsic::nvvm_mma_m16n8k4_row_col_f64
                                : Intrinsic::nvvm_mma_m16n8k8_row_col_f64;
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

static StringRef ptxName(MmaElement element) {
  switch (element) {
  case MmaElement::F16:
    return "f16";
  case MmaElement::BF16:
    return "bf16";
  case MmaElement::TF32:
    return "tf32";
  case MmaElement::F8E4M3:
    return "e4m3";
  case MmaElement::F8E5M2:
    return "e5m2";
  case MmaElement::I8:
    return "s8";
  case MmaElement::F32:
    return "f32";
  case MmaElement::I32:
    return "s32";
  default:
    llvm_unreachable("an element that wgmma does not take");
  }
}

/// PTX ISA, "Matrix descriptor format": units of 16 bytes, but the kind of swizzle.
static Value *descriptor(IRBuilder<> &b, const TargetHooks::SharedOperand &operand) {
  const MatrixDescriptor &place = operand.place;
  const uint64_t kind = place.swizzle == 128 ? 1 : place.swizzle == 64 ? 2 : 3;
  const uint32_t fixed = place.start / 16 | place.leading / 16 << 16;
  const uint64_t upper = uint64_t(place.stride / 16) << 32 | kind << 62;
  // In a cluster, addresses have the block's rank in their upper bits. What is left of one ends
  // before 256 KiB, so that the first field does not overflow.
  constexpr uint32_t addressMask = 0x3ffff;
  Value *lower =
      b.CreateAdd(b.CreateLShr(b.CreateAnd(operand.buffer, addressMask), 4), b.getInt32(fixed));
  // The upper half is the same for all: an addition of 64 bits would carry into it.
  return b.CreateOr(b.CreateZExt(lower, b.getInt64Ty()), upper);
}

/// A call that all threads of a warpgroup make together.
static CallInst *callTogether(IRBuilder<> &b, const Twine &name, Type *result,
                              ArrayRef<Value *> arguments) {
  SmallVector<Type *> types;
  for (Value *argument : arguments)
    types.push_back(argument->getType());
  Module &module = *b.GetInsertBlock()->getModule();
  FunctionCallee callee =
      module.getOrInsertFunction(name.str(), FunctionType::get(result, types, false));
  auto *function = cast<Function>(callee.getCallee());
  function->setDoesNotThrow();
  function->setConvergent();
  return b.CreateCall(callee, arguments);
}

static StructType *typesOf(IRBuilder<> &b, ArrayRef<Value *> values) {
  SmallVector<Type *> types;
  for (Value *value : values)
    types.push_back(value->getType());
  return StructType::get(b.getContext(), types);
}

void warpgroupMma(IRBuilder<> &b, const MmaInstruction &instruction,
                  const std::variant<TargetHooks::SharedOperand, ArrayRef<Value *>> &a,
                  const TargetHooks::SharedOperand &bOperand, MutableArrayRef<Value *> acc) {
  // Sums that start at zero need no registers that hold it.
  const bool starts = all_of(acc, [](Value *sum) {
    auto *constant = dyn_cast<Constant>(sum);
    return constant && constant->isNullValue();
  });
  SmallVector<Value *> arguments(acc.begin(), acc.end());
  if (starts)
    arguments.assign(acc.size(), PoisonValue::get(acc.front()->getType()));
  const auto *shared = std::get_if<TargetHooks::SharedOperand>(&a);
  if (shared)
    arguments.push_back(descriptor(b, *shared));
  else
    append_range(arguments, std::get<ArrayRef<Value *>>(a));
  arguments.push_back(descriptor(b, bOperand));
  arguments.push_back(b.getInt1(!starts));
  const bool turnsA = shared && !shared->place.alongK, turnsB = !bOperand.place.alongK;
  Value *sums = callTogether(
      b,
      pseudo::nvWgmma + "m" + Twine(instruction.m) + "n" + Twine(instruction.n) + "k" +
          Twine(instruction.k) + "." + ptxName(instruction.sum) + "." + ptxName(instruction.a) +
          "." + ptxName(instruction.b) + (shared ? ".ss." : ".rs.") + Twine(turnsA) + Twine(turnsB),
      typesOf(b, acc), arguments);
  for (auto [i, sum] : enumerate(acc))
    sum = b.CreateExtractValue(sums, i);
}

/// Replaces registers by what a function named for them makes of them.
static void replaceTogether(IRBuilder<> &b, const Twine &name, MutableArrayRef<Value *> sums) {
  const char *type = sums.front()->getType()->isFloatTy() ? "f32" : "b32";
  Value *values = callTogether(b, name + Twine(sums.size()) + type, typesOf(b, sums),
                               SmallVector<Value *>(sums));
  for (auto [i, sum] : enumerate(sums))
    sum = b.CreateExtractValue(values, i);
}

void warpgroupWait(IRBuilder<> &b, unsigned pending, MutableArrayRef<Value *> sums) {
  if (sums.empty())
    b.CreateIntrinsic(Intrinsic::nvvm_wgmma_wait_group_sync_aligned, {b.getInt64(pending)});
  else
    replaceTogether(b, pseudo::nvWgmmaWait + Twine(pending) + ".", sums);
}

void warpgroupSums(IRBuilder<> &b, MutableArrayRef<Value *> sums) {
  replaceTogether(b, pseudo::nvWgmmaSums, sums);
}

void warpgroupOperand(IRBuilder<> &b, MutableArrayRef<Value *> words) {
  replaceTogether(b, pseudo::nvWgmmaOperand, words);
}

} // namespace sectile::nvidia
