// How NVIDIA's chips do what the emitter asks, in NVVM intrinsics and pseudo-intrinsics.
#include "codegen/common/PseudoIntrinsics.h"
#include "codegen/common/TargetHooks.h"
#include "codegen/nvidia/MatrixUnits.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;

namespace sectile {
namespace {

std::string typeName(Type *type) {
  auto *vector = dyn_cast<FixedVectorType>(type);
  std::string name = vector ? "v" + std::to_string(vector->getNumElements()) : "";
  return name + "i" + std::to_string(type->getScalarSizeInBits());
}

class NvidiaHooks : public TargetHooks {
public:
  using TargetHooks::TargetHooks;

  void setUpKernel(Function &kernel, unsigned threads, unsigned cluster,
                   bool movesRegisters) const override {
    kernel.setCallingConv(CallingConv::PTX_Kernel);
    kernel.addFnAttr("nvvm.reqntid", std::to_string(threads));
    // The assembler has to know how many registers there are to move.
    if (movesRegisters)
      kernel.addFnAttr("nvvm.minctasm", "1");
    if (cluster > 1)
      kernel.addFnAttr("nvvm.cluster_dim", std::to_string(cluster) + ",1,1");
  }

  void limitRegisters(Function &kernel, unsigned, unsigned maxRegisters,
                      unsigned minBlocks) const override {
    if (maxRegisters)
      kernel.addFnAttr("nvvm.maxnreg", std::to_string(maxRegisters));
    if (minBlocks)
      kernel.addFnAttr("nvvm.minctasm", std::to_string(minBlocks));
  }

  /// `.loc` alone: debug sections would make the assembler compile for a debugger.
  DICompileUnit::DebugEmissionKind lineTables() const override {
    return DICompileUnit::DebugDirectivesOnly;
  }

  Value *threadIndex(IRBuilder<> &b) const override {
    return b.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_tid_x, {});
  }

  Value *programId(IRBuilder<> &b, unsigned axis) const override {
    static constexpr Intrinsic::ID ids[] = {Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
                                            Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
                                            Intrinsic::nvvm_read_ptx_sreg_ctaid_z};
    return b.CreateIntrinsic(ids[axis], {});
  }

  Value *numPrograms(IRBuilder<> &b, unsigned axis) const override {
    static constexpr Intrinsic::ID ids[] = {Intrinsic::nvvm_read_ptx_sreg_nctaid_x,
                                            Intrinsic::nvvm_read_ptx_sreg_nctaid_y,
                                            Intrinsic::nvvm_read_ptx_sreg_nctaid_z};
    return b.CreateIntrinsic(ids[axis], {});
  }

  void barrier(IRBuilder<> &b, unsigned threads, Value *number) const override {
    if (threads)
      b.CreateIntrinsic(Intrinsic::nvvm_barrier_cta_sync_aligned_count,
                        {number, b.getInt32(threads)});
    else
      b.CreateIntrinsic(Intrinsic::nvvm_barrier_cta_sync_aligned_all, {b.getInt32(0)});
  }

  // `bar.sync` orders global memory as well.
  void memoryBarrier(IRBuilder<> &b, unsigned threads, Value *number) const override {
    barrier(b, threads, number);
  }

  void barrierArrive(IRBuilder<> &b, unsigned threads, Value *number) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_barrier_cta_arrive_aligned_count,
                      {number, b.getInt32(threads)});
  }

  void warpBarrier(IRBuilder<> &b) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_bar_warp_sync, {b.getInt32(~0u)});
  }

  Value *shuffleXor(IRBuilder<> &b, Value *value, unsigned mask) const override {
    return b.CreateIntrinsic(Intrinsic::nvvm_shfl_sync_bfly_i32,
                             {b.getInt32(~0u), value, b.getInt32(mask), b.getInt32(31)});
  }

  Value *shuffle(IRBuilder<> &b, Value *value, Value *from) const override {
    return b.CreateIntrinsic(Intrinsic::nvvm_shfl_sync_idx_i32,
                             {b.getInt32(~0u), value, from, b.getInt32(31)});
  }

  // Predicated instructions instead of branches: a tile has many accesses, each with a mask of its
  // own, and as many branches would take the compiler's freedom to move what is between them.
  Value *load(IRBuilder<> &b, const ThreadAccess &access, Type *type, Value *other) const override {
    if (!access.predicate && access.isPlain())
      return loadUnderBranch(b, access, type, other);
    return pseudo(b, pseudo::nvLoad + typeName(type) + "." + Twine(hintsOf(access)), type,
                  {access.pointer, predicateOf(b, access.predicate),
                   other ? other : Constant::getNullValue(type)},
                  /*writes=*/access.isVolatile);
  }

  void store(IRBuilder<> &b, const ThreadAccess &access, Value *value) const override {
    if (!access.predicate && access.isPlain())
      return storeUnderBranch(b, access, value);
    pseudo(b, pseudo::nvStore + typeName(value->getType()) + "." + Twine(hintsOf(access)),
           b.getVoidTy(), {access.pointer, value, predicateOf(b, access.predicate)});
  }

  Value *atomicUpdate(IRBuilder<> &b, const AtomicAccess &access, tile::AtomicKind kind,
                      Value *value) const override {
    Type *type = value->getType();
    // An exchange is one of bits.
    Type *given = kind == tile::AtomicKind::Exchange
                      ? b.getIntNTy(type->getPrimitiveSizeInBits().getFixedValue())
                      : type;
    if (std::string operation = atomicName(kind, type); !operation.empty())
      return b.CreateBitCast(
          pseudo(b, pseudo::nvAtomic + ptxScope(access.scope) + "." + operation, given,
                 {access.pointer, b.CreateBitCast(value, given), predicateOf(b, access.predicate)}),
          type);
    return valueUnderBranch(
        b, access.predicate, [&] { return updateInLoop(b, access, kind, value); },
        Constant::getNullValue(type));
  }

  Value *atomicExchange(IRBuilder<> &b, const AtomicAccess &access, Value *expected,
                        Value *value) const override {
    unsigned bits = value->getType()->getIntegerBitWidth();
    return pseudo(b, pseudo::nvCas + ptxScope(access.scope) + ".b" + Twine(bits), value->getType(),
                  {access.pointer, expected, value, predicateOf(b, access.predicate)});
  }

  void waitDependencies(IRBuilder<> &b) const override {
    if (target.dependentLaunch)
      control(b, pseudo::nvWaitDependencies);
  }
  void launchDependents(IRBuilder<> &b, bool inAnyGrid) const override {
    if (target.dependentLaunch)
      control(b, inAnyGrid ? pseudo::nvLaunchDependents : pseudo::nvLaunchDependentsOfFew);
  }

  void asyncCopy(IRBuilder<> &b, const ThreadAccess &from, Value *to,
                 unsigned bytes) const override {
    bool throughL1 = from.cache == tile::Cache::AllLevels;
    Intrinsic::ID id = bytes == 4   ? Intrinsic::nvvm_cp_async_ca_shared_global_4_s
                       : bytes == 8 ? Intrinsic::nvvm_cp_async_ca_shared_global_8_s
                       : throughL1  ? Intrinsic::nvvm_cp_async_ca_shared_global_16_s
                                    : Intrinsic::nvvm_cp_async_cg_shared_global_16_s;
    // The bytes that are not read are filled with zeros.
    Value *read = from.predicate ? b.CreateSelect(from.predicate, b.getInt32(bytes), b.getInt32(0))
                                 : b.getInt32(bytes);
    if (from.eviction == tile::Eviction::Normal)
      b.CreateIntrinsic(id, {to, from.pointer, read});
    else
      pseudo(b, pseudo::nvCopy + Twine(bytes) + "." + Twine(hintsOf(from)), b.getVoidTy(),
             {to, from.pointer, read});
  }

  void asyncCommit(IRBuilder<> &b) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_cp_async_commit_group, {});
  }

  void asyncWait(IRBuilder<> &b, unsigned pending) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_cp_async_wait_group, {b.getInt32(pending)});
  }

  SmallVector<Value *, 4> matrixLoad(IRBuilder<> &b, Value *row, unsigned count,
                                     bool transposed) const override {
    return nvidia::matrixLoad(b, row, count, transposed);
  }
  void matrixStore(IRBuilder<> &b, Value *row, ArrayRef<Value *> matrices,
                   bool transposed) const override {
    nvidia::matrixStore(b, row, matrices, transposed);
  }

  void mma(IRBuilder<> &b, const MmaInstruction &instruction, ArrayRef<Value *> a,
           ArrayRef<Value *> bRegisters, MutableArrayRef<Value *> acc) const override {
    nvidia::mma(b, instruction, a, bRegisters, acc);
  }

  void proxyFence(IRBuilder<> &b) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_fence_proxy_async_shared_cta, {});
  }
  void globalProxyFence(IRBuilder<> &b) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_fence_proxy_async_global, {});
  }
  void mbarrierInit(IRBuilder<> &b, Value *barrier, unsigned arrivals) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_mbarrier_init_shared, {barrier, b.getInt32(arrivals)});
  }
  void mbarrierExpect(IRBuilder<> &b, Value *barrier, Value *bytes) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_mbarrier_arrive_expect_tx_scope_cta_space_cta,
                      {barrier, bytes});
  }
  void mbarrierWait(IRBuilder<> &b, Value *barrier, Value *parity) const override {
    control(b, pseudo::nvMbarrierWait, {barrier, parity})->setConvergent();
  }
  void mbarrierArrive(IRBuilder<> &b, Value *barrier) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_mbarrier_arrive_scope_cta_space_cta,
                      {barrier, b.getInt32(1)});
  }
  void setRegisters(IRBuilder<> &b, unsigned count, bool isMore) const override {
    b.CreateIntrinsic(isMore ? Intrinsic::nvvm_setmaxnreg_inc_sync_aligned_u32
                             : Intrinsic::nvvm_setmaxnreg_dec_sync_aligned_u32,
                      {b.getInt32(count)});
  }
  void mbarriersFence(IRBuilder<> &b) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_fence_mbarrier_init_release_cluster, {});
  }
  Value *clusterRank(IRBuilder<> &b) const override {
    return b.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank, {});
  }
  void clusterBarrier(IRBuilder<> &b) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_barrier_cluster_arrive_aligned, {});
    b.CreateIntrinsic(Intrinsic::nvvm_barrier_cluster_wait_aligned, {});
  }
  void mbarrierArriveAt(IRBuilder<> &b, Value *barrier, Value *rank) const override {
    Value *there = b.CreateIntrinsic(Intrinsic::nvvm_mapa_shared_cluster, {barrier, rank});
    // Nothing that this thread wrote is for the other block. A release for the whole cluster would
    // wait for all of the multiprocessor's stores.
    b.CreateIntrinsic(Intrinsic::nvvm_mbarrier_arrive_scope_cta_space_cluster,
                      {there, b.getInt32(1)});
  }
  void tensorCopy(IRBuilder<> &b, Value *map, ArrayRef<Value *> coordinates, Value *to,
                  Value *barrier, bool toBoth) const override {
    constexpr Intrinsic::ID ids[] = {Intrinsic::nvvm_cp_async_bulk_tensor_g2s_tile_1d,
                                     Intrinsic::nvvm_cp_async_bulk_tensor_g2s_tile_2d,
                                     Intrinsic::nvvm_cp_async_bulk_tensor_g2s_tile_3d,
                                     Intrinsic::nvvm_cp_async_bulk_tensor_g2s_tile_4d,
                                     Intrinsic::nvvm_cp_async_bulk_tensor_g2s_tile_5d};
    constexpr unsigned sharedOfCluster = 7;
    Value *inCluster = b.CreateAddrSpaceCast(to, PointerType::get(b.getContext(), sharedOfCluster));
    SmallVector<Value *> arguments{inCluster, barrier, map};
    append_range(arguments, coordinates);
    // To the blocks of the mask or to this one alone; without a policy for the cache; by one block.
    constexpr uint16_t bothRanks = 0b11;
    append_values(arguments, b.getInt16(toBoth ? bothRanks : 0), b.getInt64(0), b.getInt1(toBoth),
                  b.getFalse(), b.getInt32(0));
    b.CreateIntrinsic(ids[coordinates.size() - 1], arguments);
  }
  void tensorStore(IRBuilder<> &b, Value *map, ArrayRef<Value *> coordinates, Value *from,
                   bool adds) const override {
    const std::string name = std::string("llvm.nvvm.cp.async.bulk.tensor.") +
                             (adds ? "reduce.add" : "s2g") + ".tile." +
                             std::to_string(coordinates.size()) + "d";
    SmallVector<Value *> arguments{from, map};
    append_range(arguments, coordinates);
    append_values(arguments, b.getInt64(0), b.getFalse()); // without a policy for the cache
    b.CreateIntrinsic(Intrinsic::lookupIntrinsicID(name), arguments);
  }
  void tensorStoresCommit(IRBuilder<> &b) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_cp_async_bulk_commit_group, {});
  }
  void tensorStoresWait(IRBuilder<> &b, unsigned later, bool written) const override {
    b.CreateIntrinsic(written ? Intrinsic::nvvm_cp_async_bulk_wait_group
                              : Intrinsic::nvvm_cp_async_bulk_wait_group_read,
                      {b.getInt32(later)});
  }
  void warpgroupBegin(IRBuilder<> &b) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_wgmma_fence_sync_aligned, {});
  }
  void warpgroupMma(IRBuilder<> &b, const MmaInstruction &instruction,
                    const std::variant<SharedOperand, ArrayRef<Value *>> &a,
                    const SharedOperand &bOperand, MutableArrayRef<Value *> acc) const override {
    nvidia::warpgroupMma(b, instruction, a, bOperand, acc);
  }
  void warpgroupCommit(IRBuilder<> &b) const override {
    b.CreateIntrinsic(Intrinsic::nvvm_wgmma_commit_group_sync_aligned, {});
  }
  void warpgroupWait(IRBuilder<> &b, unsigned pending,
                     MutableArrayRef<Value *> sums) const override {
    nvidia::warpgroupWait(b, pending, sums);
  }
  void warpgroupSums(IRBuilder<> &b, MutableArrayRef<Value *> sums) const override {
    nvidia::warpgroupSums(b, sums);
  }
  void warpgroupOperand(IRBuilder<> &b, MutableArrayRef<Value *> words) const override {
    nvidia::warpgroupOperand(b, words);
  }

  Value *roundToTF32(IRBuilder<> &b, Value *value) const override {
    return b.CreateIntrinsic(Intrinsic::nvvm_f2tf32_rna, {value});
  }

  Value *exp2(IRBuilder<> &b, Value *x) const override {
    return b.CreateIntrinsic(Intrinsic::nvvm_ex2_approx_ftz, {x->getType()}, {x});
  }
  Value *rsqrt(IRBuilder<> &b, Value *x) const override {
    return b.CreateIntrinsic(Intrinsic::nvvm_rsqrt_approx_f, {x});
  }
  Value *reciprocalNormal(IRBuilder<> &b, Value *x) const override {
    return b.CreateIntrinsic(Intrinsic::nvvm_rcp_approx_ftz_f, {x});
  }

  // The conversions saturate. Only from f32 to 32 bits do they give zero for NaN.
  Value *toInteger(IRBuilder<> &b, Value *x, Type *type, bool isSigned) const override {
    static constexpr Intrinsic::ID ids[2][2][2] = {
        {{Intrinsic::nvvm_f2ui_rz, Intrinsic::nvvm_f2i_rz},
         {Intrinsic::nvvm_f2ull_rz, Intrinsic::nvvm_f2ll_rz}},
        {{Intrinsic::nvvm_d2ui_rz, Intrinsic::nvvm_d2i_rz},
         {Intrinsic::nvvm_d2ull_rz, Intrinsic::nvvm_d2ll_rz}}};
    const bool fromDouble = x->getType()->isDoubleTy(), toLong = type->isIntegerTy(64);
    Value *result = b.CreateIntrinsic(ids[fromDouble][toLong][isSigned], {x});
    if (fromDouble || toLong)
      result = b.CreateSelect(b.CreateFCmpUNO(x, x), ConstantInt::get(type, 0), result);
    return result;
  }

  // The chips that multiply 8-bit floats are those that convert them.
  bool convertsFp8() const override { return target.multiplies(MmaElement::F8E4M3); }

  Value *narrowFp8(IRBuilder<> &b, Value *low, Value *high, bool e5m2) const override {
    return b.CreateIntrinsic(
        e5m2 ? Intrinsic::nvvm_ff_to_e5m2x2_rn : Intrinsic::nvvm_ff_to_e4m3x2_rn, {high, low});
  }

  Value *widenFp8(IRBuilder<> &b, Value *pair, bool e5m2) const override {
    return b.CreateIntrinsic(
        e5m2 ? Intrinsic::nvvm_e5m2x2_to_f16x2_rn : Intrinsic::nvvm_e4m3x2_to_f16x2_rn, {pair});
  }

private:
  StringRef scopeName(tile::Scope scope) const override {
    switch (scope) {
    case tile::Scope::Program:
      return "block";
    case tile::Scope::Device:
      return "device";
    case tile::Scope::System:
      return "";
    }
    llvm_unreachable("all scopes are covered");
  }

  /// What PTX calls the operation, with its type; nothing where it has none.
  std::string atomicName(tile::AtomicKind kind, Type *type) const {
    using Kind = tile::AtomicKind;
    std::string bits = std::to_string(type->getPrimitiveSizeInBits().getFixedValue());
    if (type->isIntegerTy(16)) // of 16 bits there are a compare-and-swap and sums of floats
      return "";
    switch (kind) {
    case Kind::Add:
      return "add.u" + bits;
    case Kind::FAdd: {
      Type *element = type->getScalarType();
      if (element->getPrimitiveSizeInBits() > 16)
        return "add.f" + bits;
      if (element->isBFloatTy() && !target.bf16Atomics)
        return "";
      return std::string("add.noftz.") + (element->isHalfTy() ? "f16" : "bf16") +
             (type->isVectorTy() ? "x2" : "");
    }
    case Kind::Max:
      return "max.s" + bits;
    case Kind::Min:
      return "min.s" + bits;
    case Kind::UMax:
      return "max.u" + bits;
    case Kind::UMin:
      return "min.u" + bits;
    case Kind::FMax:
    case Kind::FMin:
      return "";
    case Kind::And:
      return "and.b" + bits;
    case Kind::Or:
      return "or.b" + bits;
    case Kind::Xor:
      return "xor.b" + bits;
    case Kind::Exchange:
      return bits == "16" ? "" : "exch.b" + bits;
    }
    llvm_unreachable("all kinds are covered");
  }

  /// An operation the chip has not: computed here, and written where memory is still the same.
  Value *updateInLoop(IRBuilder<> &b, const AtomicAccess &access, tile::AtomicKind kind,
                      Value *value) const {
    Type *type = value->getType(), *bits = b.getIntNTy(type->getPrimitiveSizeInBits());
    ThreadAccess guess;
    guess.pointer = access.pointer;
    guess.isVolatile = true;
    Value *first = load(b, guess, bits, nullptr);
    BasicBlock *before = b.GetInsertBlock();
    auto *loop = BasicBlock::Create(b.getContext(), "update", before->getParent());
    auto *after = BasicBlock::Create(b.getContext(), "updated", before->getParent());
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    PHINode *expected = b.CreatePHI(bits, 2);
    Value *updated = combined(b, kind, b.CreateBitCast(expected, type), value);
    AtomicAccess always = access;
    always.predicate = nullptr;
    Value *found = atomicExchange(b, always, expected, b.CreateBitCast(updated, bits));
    expected->addIncoming(first, before);
    expected->addIncoming(found, loop);
    b.CreateCondBr(b.CreateICmpEQ(found, expected), after, loop);
    b.SetInsertPoint(after);
    return b.CreateBitCast(found, type);
  }

  static Value *combined(IRBuilder<> &b, tile::AtomicKind kind, Value *before, Value *value) {
    switch (kind) {
    case tile::AtomicKind::FAdd:
      return b.CreateFAdd(before, value);
    case tile::AtomicKind::FMax:
      return b.CreateMaxNum(before, value);
    case tile::AtomicKind::FMin:
      return b.CreateMinNum(before, value);
    case tile::AtomicKind::Add:
      return b.CreateAdd(before, value);
    case tile::AtomicKind::Max:
      return b.CreateBinaryIntrinsic(Intrinsic::smax, before, value);
    case tile::AtomicKind::Min:
      return b.CreateBinaryIntrinsic(Intrinsic::smin, before, value);
    case tile::AtomicKind::UMax:
      return b.CreateBinaryIntrinsic(Intrinsic::umax, before, value);
    case tile::AtomicKind::UMin:
      return b.CreateBinaryIntrinsic(Intrinsic::umin, before, value);
    case tile::AtomicKind::And:
      return b.CreateAnd(before, value);
    case tile::AtomicKind::Or:
      return b.CreateOr(before, value);
    case tile::AtomicKind::Xor:
      return b.CreateXor(before, value);
    case tile::AtomicKind::Exchange:
      return value;
    }
    llvm_unreachable("all kinds are covered");
  }

  static Value *predicateOf(IRBuilder<> &b, Value *predicate) {
    return predicate ? predicate : b.getTrue();
  }

  static uint32_t hintsOf(const ThreadAccess &access) {
    return pseudo::packHints(uint32_t(access.cache), uint32_t(access.eviction), access.isVolatile);
  }

  static StringRef ptxScope(tile::Scope scope) {
    switch (scope) {
    case tile::Scope::Program:
      return "cta";
    case tile::Scope::Device:
      return "gpu";
    case tile::Scope::System:
      return "sys";
    }
    llvm_unreachable("all scopes are covered");
  }

  /// A call that all of memory is in order before and after.
  static Function *control(IRBuilder<> &b, StringRef name, ArrayRef<Value *> arguments = {}) {
    Module &module = *b.GetInsertBlock()->getModule();
    SmallVector<Type *> types;
    for (Value *argument : arguments)
      types.push_back(argument->getType());
    FunctionCallee callee =
        module.getOrInsertFunction(name, FunctionType::get(b.getVoidTy(), types, false));
    auto *function = cast<Function>(callee.getCallee());
    function->setDoesNotThrow();
    b.CreateCall(callee, arguments);
    return function;
  }

  static Value *pseudo(IRBuilder<> &b, const Twine &called, Type *result,
                       ArrayRef<Value *> arguments, bool writes = true) {
    Module &module = *b.GetInsertBlock()->getModule();
    std::string name = called.str();
    Function *callee = module.getFunction(name);
    if (!callee) {
      SmallVector<Type *> types;
      for (Value *argument : arguments)
        types.push_back(argument->getType());
      callee = Function::Create(FunctionType::get(result, types, false), Function::ExternalLinkage,
                                name, module);
      callee->setDoesNotThrow();
      callee->setWillReturn();
      callee->addFnAttr(Attribute::NoCallback);
    }
    CallInst *call = b.CreateCall(callee, arguments);
    call->setMemoryEffects(
        MemoryEffects::argMemOnly(writes ? ModRefInfo::ModRef : ModRefInfo::Ref));
    return call;
  }
};

} // namespace

std::unique_ptr<TargetHooks> createNvidiaHooks(const Target &target) {
  return std::make_unique<NvidiaHooks>(target);
}

} // namespace sectile
