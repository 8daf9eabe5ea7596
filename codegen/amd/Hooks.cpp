// How AMD's chips do what the emitter asks.
#include "codegen/amd/MatrixUnits.h"
#include "codegen/common/PseudoIntrinsics.h"
#include "codegen/common/TargetHooks.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/IR/Metadata.h"

using namespace llvm;

namespace sectile {
namespace {

class AmdHooks : public TargetHooks {
public:
  using TargetHooks::TargetHooks;

  void setUpKernel(Function &kernel, unsigned threads, unsigned, bool) const override {
    kernel.setCallingConv(CallingConv::AMDGPU_KERNEL);
    std::string size = std::to_string(threads);
    kernel.addFnAttr("amdgpu-flat-work-group-size", size + "," + size);
    kernel.addFnAttr("uniform-work-group-size", "true");
    Type *i32 = Type::getInt32Ty(kernel.getContext());
    auto constant = [&](unsigned value) {
      return ConstantAsMetadata::get(ConstantInt::get(i32, value));
    };
    kernel.setMetadata(
        "reqd_work_group_size",
        MDNode::get(kernel.getContext(), {constant(threads), constant(1), constant(1)}));
    Module &module = *kernel.getParent();
    if (!module.getModuleFlag("amdhsa_code_object_version"))
      module.addModuleFlag(Module::Error, "amdhsa_code_object_version", 500);
  }

  void limitRegisters(Function &kernel, unsigned threads, unsigned maxRegisters,
                      unsigned minBlocks) const override {
    if (maxRegisters)
      kernel.addFnAttr("amdgpu-num-vgpr", std::to_string(maxRegisters));
    // A block's waves are spread over the SIMDs of its compute unit.
    const unsigned simds = target.warpSize == 64 ? 4 : 2, waves = threads / target.warpSize;
    if (minBlocks)
      kernel.addFnAttr("amdgpu-waves-per-eu",
                       std::to_string(std::max(1u, (minBlocks * waves + simds - 1) / simds)));
  }

  Value *threadIndex(IRBuilder<> &b) const override {
    return b.CreateIntrinsic(Intrinsic::amdgcn_workitem_id_x, {});
  }

  Value *programId(IRBuilder<> &b, unsigned axis) const override {
    static constexpr Intrinsic::ID ids[] = {Intrinsic::amdgcn_workgroup_id_x,
                                            Intrinsic::amdgcn_workgroup_id_y,
                                            Intrinsic::amdgcn_workgroup_id_z};
    return b.CreateIntrinsic(ids[axis], {});
  }

  Value *numPrograms(IRBuilder<> &b, unsigned axis) const override {
    // The hidden arguments of code object version 5 begin with the grid's three extents in blocks.
    Value *hidden = b.CreateIntrinsic(Intrinsic::amdgcn_implicitarg_ptr, {});
    Value *address = b.CreateConstInBoundsGEP1_32(b.getInt32Ty(), hidden, axis);
    LoadInst *load = b.CreateAlignedLoad(b.getInt32Ty(), address, Align(4));
    load->setMetadata(LLVMContext::MD_invariant_load, MDNode::get(b.getContext(), {}));
    return load;
  }

  void barrier(IRBuilder<> &b, unsigned, Value *) const override {
    meet(b, "workgroup", Intrinsic::amdgcn_s_barrier, sharedOnly(b));
  }

  void memoryBarrier(IRBuilder<> &b, unsigned, Value *) const override {
    meet(b, "workgroup", Intrinsic::amdgcn_s_barrier, nullptr);
  }

  void warpBarrier(IRBuilder<> &b) const override {
    meet(b, "wavefront", Intrinsic::amdgcn_wave_barrier, sharedOnly(b));
  }

  Value *shuffleXor(IRBuilder<> &b, Value *value, unsigned mask) const override {
    Value *lane = b.CreateXor(laneIndex(b), b.getInt32(mask));
    return shuffle(b, value, lane);
  }

  Value *shuffle(IRBuilder<> &b, Value *value, Value *from) const override {
    // Lanes are addressed in bytes.
    return b.CreateIntrinsic(Intrinsic::amdgcn_ds_bpermute, {b.CreateShl(from, 2), value});
  }

  Value *load(IRBuilder<> &b, const ThreadAccess &access, Type *type, Value *other) const override {
    return access.offset ? bufferLoad(b, access, type, other)
                         : loadUnderBranch(b, access, type, other);
  }

  void store(IRBuilder<> &b, const ThreadAccess &access, Value *value) const override {
    if (access.offset)
      bufferStore(b, access, value);
    else
      storeUnderBranch(b, access, value);
  }

  Value *atomicUpdate(IRBuilder<> &b, const AtomicAccess &access, tile::AtomicKind kind,
                      Value *value) const override {
    Type *type = value->getType();
    return valueUnderBranch(
        b, access.predicate,
        [&] {
          AtomicRMWInst *update =
              b.CreateAtomicRMW(operationOf(kind), access.pointer, value, alignOf(type),
                                AtomicOrdering::Monotonic, scopeOf(b, access.scope));
          // Memory of the device itself, where the chip's own instructions are atomic.
          if (access.scope != tile::Scope::System) {
            MDNode *yes = MDNode::get(b.getContext(), {});
            update->setMetadata("amdgpu.no.fine.grained.memory", yes);
            update->setMetadata("amdgpu.no.remote.memory", yes);
            if (kind == tile::AtomicKind::FAdd && type->isFloatTy())
              update->setMetadata("amdgpu.ignore.denormal.mode", yes);
          }
          return update;
        },
        Constant::getNullValue(type));
  }

  Value *atomicExchange(IRBuilder<> &b, const AtomicAccess &access, Value *expected,
                        Value *value) const override {
    return valueUnderBranch(
        b, access.predicate,
        [&] {
          Value *both = b.CreateAtomicCmpXchg(access.pointer, expected, value,
                                              alignOf(value->getType()), AtomicOrdering::Monotonic,
                                              AtomicOrdering::Monotonic, scopeOf(b, access.scope));
          return b.CreateExtractValue(both, 0);
        },
        Constant::getNullValue(value->getType()));
  }

  void mma(IRBuilder<> &b, const MmaInstruction &instruction, ArrayRef<Value *> a,
           ArrayRef<Value *> bRegisters, MutableArrayRef<Value *> acc) const override {
    amd::mma(b, instruction, a, bRegisters, acc);
  }

  /// To nearest, ties away from zero, by integers: there is no instruction for it.
  Value *roundToTF32(IRBuilder<> &b, Value *value) const override {
    Value *bits = b.CreateBitCast(value, b.getInt32Ty());
    Value *rounded = b.CreateAnd(b.CreateAdd(bits, b.getInt32(0x1000)), b.getInt32(~0x1fffu));
    // A NaN must not be carried to zero, nor lose all of its bits.
    Value *isNaN = b.CreateFCmpUNO(value, value);
    return b.CreateSelect(isNaN, b.getInt32(0x7fc00000), rounded);
  }

  Value *exp2(IRBuilder<> &b, Value *x) const override {
    return b.CreateUnaryIntrinsic(Intrinsic::amdgcn_exp2, x);
  }
  Value *rsqrt(IRBuilder<> &b, Value *x) const override {
    return b.CreateIntrinsic(Intrinsic::amdgcn_rsq, {x->getType()}, {x});
  }
  Value *reciprocalNormal(IRBuilder<> &b, Value *x) const override {
    return b.CreateIntrinsic(Intrinsic::amdgcn_rcp, {x->getType()}, {x});
  }

  Value *toInteger(IRBuilder<> &b, Value *x, Type *type, bool isSigned) const override {
    if (!type->isIntegerTy(32)) // takes many instructions anyway
      return TargetHooks::toInteger(b, x, type, isSigned);
    std::string name = (pseudo::amdConvert + (isSigned ? "i32" : "u32") +
                        (x->getType()->isDoubleTy() ? ".f64" : ".f32"))
                           .str();
    Module &module = *b.GetInsertBlock()->getModule();
    FunctionCallee callee = module.getOrInsertFunction(name, type, x->getType());
    auto *function = cast<Function>(callee.getCallee());
    function->setDoesNotAccessMemory();
    function->setDoesNotThrow();
    function->setWillReturn();
    return b.CreateCall(callee, {x});
  }

private:
  /// Whether all lanes have the same value, as far as that is easy to see. LLVM looks closer; what
  /// is missed costs an instruction.
  static bool isUniform(Value *value, SmallPtrSetImpl<Value *> &seen) {
    if (isa<Constant, Argument>(value) || !seen.insert(value).second)
      return true;
    auto all = [&](auto &&operands) {
      return llvm::all_of(operands, [&](Value *operand) { return isUniform(operand, seen); });
    };
    if (auto *call = dyn_cast<IntrinsicInst>(value))
      switch (call->getIntrinsicID()) {
      case Intrinsic::amdgcn_workgroup_id_x:
      case Intrinsic::amdgcn_workgroup_id_y:
      case Intrinsic::amdgcn_workgroup_id_z:
      case Intrinsic::amdgcn_implicitarg_ptr:
        return true;
      case Intrinsic::smin:
      case Intrinsic::smax:
      case Intrinsic::umin:
      case Intrinsic::umax:
        return all(call->args());
      default:
        return false;
      }
    if (auto *load = dyn_cast<LoadInst>(value))
      return !load->isVolatile() && all(load->operand_values());
    return isa<BinaryOperator, CastInst, CmpInst, SelectInst, GetElementPtrInst, PHINode>(value) &&
           all(cast<Instruction>(value)->operand_values());
  }

  /// The resource of 2^31 bytes from an access's pointer, in scalar registers. What the words
  /// beside address and size say: elements of 32 bits without a stride or swizzle; from RDNA on,
  /// that offsets are compared with the size as they are.
  Value *resourceOf(IRBuilder<> &b, Value *pointer) const {
    SmallPtrSet<Value *, 16> seen;
    if (!isUniform(pointer, seen)) {
      Value *number = b.CreatePtrToInt(pointer, b.getInt64Ty());
      number = b.CreateIntrinsic(Intrinsic::amdgcn_readfirstlane, {b.getInt64Ty()}, {number});
      pointer = b.CreateIntToPtr(number, pointer->getType());
    }
    const bool isCdna = StringRef(target.cpu).starts_with("gfx9");
    const uint32_t format = 7u << 12 | 4u << 15, rdna = 1u << 24 | 3u << 28;
    return b.CreateIntrinsic(Intrinsic::amdgcn_make_buffer_rsrc,
                             {PointerType::get(b.getContext(), 8), pointer->getType()},
                             {pointer, b.getInt16(0), b.getInt64(pseudo::amdBufferBytes),
                              b.getInt32(isCdna ? format : format | rdna)});
  }

  /// What is masked off goes beyond the buffer: it reads zero there, and writes nothing.
  static Value *offsetInBuffer(IRBuilder<> &b, const ThreadAccess &access) {
    Value *beyond = b.getInt32(uint32_t(pseudo::amdBufferBytes));
    return access.predicate ? b.CreateSelect(access.predicate, access.offset, beyond)
                            : access.offset;
  }

  /// The same bits as buffer instructions move them: nothing, or words.
  static Type *bufferTypeOf(Type *type) {
    const unsigned bits = type->getPrimitiveSizeInBits();
    Type *word = Type::getInt32Ty(type->getContext());
    return bits <= 32 ? type : FixedVectorType::get(word, bits / 32);
  }

  Value *bufferLoad(IRBuilder<> &b, const ThreadAccess &access, Type *type, Value *other) const {
    Value *zero = b.getInt32(0);
    auto *load = cast<Instruction>(
        b.CreateIntrinsic(Intrinsic::amdgcn_raw_ptr_buffer_load, {bufferTypeOf(type)},
                          {resourceOf(b, access.pointer), offsetInBuffer(b, access), zero, zero}));
    Value *value = b.CreateBitCast(hinted(b, access, load), type);
    auto *constant = dyn_cast_or_null<Constant>(other);
    if (!access.predicate || !other || (constant && constant->isNullValue()))
      return value;
    return b.CreateSelect(access.predicate, value, other);
  }

  void bufferStore(IRBuilder<> &b, const ThreadAccess &access, Value *value) const {
    Type *type = bufferTypeOf(value->getType());
    Value *zero = b.getInt32(0);
    auto *store = cast<Instruction>(
        b.CreateIntrinsic(Intrinsic::amdgcn_raw_ptr_buffer_store, {type},
                          {b.CreateBitCast(value, type), resourceOf(b, access.pointer),
                           offsetInBuffer(b, access), zero, zero}));
    hinted(b, access, store);
  }

  /// What makes a fence one of shared memory alone: loads from global memory stay in flight.
  static MDNode *sharedOnly(IRBuilder<> &b) {
    LLVMContext &context = b.getContext();
    return MDNode::get(context, {MDString::get(context, "amdgpu-synchronize-as"),
                                 MDString::get(context, "local")});
  }

  /// A barrier with memory in order before and after.
  static void meet(IRBuilder<> &b, StringRef scope, Intrinsic::ID barrier, MDNode *memory) {
    SyncScope::ID id = b.getContext().getOrInsertSyncScopeID(scope);
    b.CreateFence(AtomicOrdering::Release, id)->setMetadata(LLVMContext::MD_mmra, memory);
    b.CreateIntrinsic(barrier, {});
    b.CreateFence(AtomicOrdering::Acquire, id)->setMetadata(LLVMContext::MD_mmra, memory);
  }

  StringRef scopeName(tile::Scope scope) const override {
    switch (scope) {
    case tile::Scope::Program:
      return "workgroup";
    case tile::Scope::Device:
      return "agent";
    case tile::Scope::System:
      return "";
    }
    llvm_unreachable("all scopes are covered");
  }

  static AtomicRMWInst::BinOp operationOf(tile::AtomicKind kind) {
    using Kind = tile::AtomicKind;
    switch (kind) {
    case Kind::Add:
      return AtomicRMWInst::Add;
    case Kind::FAdd:
      return AtomicRMWInst::FAdd;
    case Kind::Max:
      return AtomicRMWInst::Max;
    case Kind::Min:
      return AtomicRMWInst::Min;
    case Kind::UMax:
      return AtomicRMWInst::UMax;
    case Kind::UMin:
      return AtomicRMWInst::UMin;
    case Kind::FMax:
      return AtomicRMWInst::FMax;
    case Kind::FMin:
      return AtomicRMWInst::FMin;
    case Kind::And:
      return AtomicRMWInst::And;
    case Kind::Or:
      return AtomicRMWInst::Or;
    case Kind::Xor:
      return AtomicRMWInst::Xor;
    case Kind::Exchange:
      return AtomicRMWInst::Xchg;
    }
    llvm_unreachable("all kinds are covered");
  }

  static Align alignOf(Type *type) { return Align(type->getPrimitiveSizeInBits() / 8); }

  Value *laneIndex(IRBuilder<> &b) const {
    Value *all = b.getInt32(~0u);
    Value *low = b.CreateIntrinsic(Intrinsic::amdgcn_mbcnt_lo, {all, b.getInt32(0)});
    return target.warpSize == 64 ? b.CreateIntrinsic(Intrinsic::amdgcn_mbcnt_hi, {all, low}) : low;
  }
};

} // namespace

std::unique_ptr<TargetHooks> createAmdHooks(const Target &target) {
  return std::make_unique<AmdHooks>(target);
}

} // namespace sectile
