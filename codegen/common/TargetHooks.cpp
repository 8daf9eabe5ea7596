// What the vendors' hooks share.
#include "codegen/common/TargetHooks.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace sectile {

TargetHooks::~TargetHooks() = default;

std::unique_ptr<TargetHooks> TargetHooks::create(const Target &target) {
  switch (target.vendor) {
  case Vendor::Nvidia:
    return createNvidiaHooks(target);
  case Vendor::Amd:
    return createAmdHooks(target);
  }
  llvm_unreachable("a vendor without hooks");
}

void TargetHooks::asyncCopy(IRBuilder<> &, const ThreadAccess &, Value *, unsigned) const {
  llvm_unreachable("asynchronous copies on a target that has none");
}
void TargetHooks::asyncCommit(IRBuilder<> &) const {
  llvm_unreachable("asynchronous copies on a target that has none");
}
void TargetHooks::asyncWait(IRBuilder<> &, unsigned) const {
  llvm_unreachable("asynchronous copies on a target that has none");
}
SmallVector<Value *, 4> TargetHooks::matrixLoad(IRBuilder<> &, Value *, unsigned, bool) const {
  llvm_unreachable("matrix loads on a target that has none");
}
void TargetHooks::matrixStore(IRBuilder<> &, Value *, ArrayRef<Value *>, bool) const {
  llvm_unreachable("matrix stores on a target that has none");
}
void TargetHooks::proxyFence(IRBuilder<> &) const {
  llvm_unreachable("a fence on a target whose instructions read registers");
}
void TargetHooks::globalProxyFence(IRBuilder<> &) const {
  llvm_unreachable("a fence on a target without a copy engine");
}
void TargetHooks::mbarrierInit(IRBuilder<> &, Value *, unsigned) const {
  llvm_unreachable("mbarriers on a target that has none");
}
void TargetHooks::mbarrierExpect(IRBuilder<> &, Value *, Value *) const {
  llvm_unreachable("mbarriers on a target that has none");
}
void TargetHooks::mbarrierWait(IRBuilder<> &, Value *, Value *) const {
  llvm_unreachable("mbarriers on a target that has none");
}
void TargetHooks::mbarriersFence(IRBuilder<> &) const {
  llvm_unreachable("clusters on a target that has none");
}
Value *TargetHooks::clusterRank(IRBuilder<> &) const {
  llvm_unreachable("clusters on a target that has none");
}
void TargetHooks::clusterBarrier(IRBuilder<> &) const {
  llvm_unreachable("clusters on a target that has none");
}
void TargetHooks::mbarrierArriveAt(IRBuilder<> &, Value *, Value *) const {
  llvm_unreachable("clusters on a target that has none");
}
void TargetHooks::tensorCopy(IRBuilder<> &, Value *, ArrayRef<Value *>, Value *, Value *,
                             bool) const {
  llvm_unreachable("a copy engine on a target that has none");
}
void TargetHooks::mbarrierArrive(IRBuilder<> &, Value *) const {
  llvm_unreachable("the target has no mbarriers");
}
void TargetHooks::barrierArrive(IRBuilder<> &, unsigned, Value *) const {
  llvm_unreachable("a barrier to arrive at on a target that has none");
}
void TargetHooks::setRegisters(IRBuilder<> &, unsigned, bool) const {
  llvm_unreachable("the target's registers are fixed");
}
void TargetHooks::tensorStore(IRBuilder<> &, Value *, ArrayRef<Value *>, Value *, bool) const {
  llvm_unreachable("a copy engine on a target that has none");
}
void TargetHooks::tensorStoresCommit(IRBuilder<> &) const {
  llvm_unreachable("a copy engine on a target that has none");
}
void TargetHooks::tensorStoresWait(IRBuilder<> &, unsigned, bool) const {
  llvm_unreachable("a copy engine on a target that has none");
}
void TargetHooks::warpgroupBegin(IRBuilder<> &) const {
  llvm_unreachable("warpgroups on a target that has none");
}
void TargetHooks::warpgroupMma(IRBuilder<> &, const MmaInstruction &,
                               const std::variant<SharedOperand, ArrayRef<Value *>> &,
                               const SharedOperand &, MutableArrayRef<Value *>) const {
  llvm_unreachable("warpgroups on a target that has none");
}
void TargetHooks::warpgroupCommit(IRBuilder<> &) const {
  llvm_unreachable("warpgroups on a target that has none");
}
void TargetHooks::warpgroupWait(IRBuilder<> &, unsigned, MutableArrayRef<Value *>) const {
  llvm_unreachable("warpgroups on a target that has none");
}
void TargetHooks::warpgroupSums(IRBuilder<> &, MutableArrayRef<Value *>) const {
  llvm_unreachable("warpgroups on a target that has none");
}
void TargetHooks::warpgroupOperand(IRBuilder<> &, MutableArrayRef<Value *>) const {
  llvm_unreachable("warpgroups on a target that has none");
}
Value *TargetHooks::roundToTF32(IRBuilder<> &, Value *) const {
  llvm_unreachable("tf32 on a target that has none");
}

Value *TargetHooks::toInteger(IRBuilder<> &b, Value *x, Type *type, bool isSigned) const {
  return b.CreateIntrinsic(isSigned ? Intrinsic::fptosi_sat : Intrinsic::fptoui_sat,
                           {type, x->getType()}, {x});
}

Value *TargetHooks::narrowFp8(IRBuilder<> &, Value *, Value *, bool) const {
  llvm_unreachable("conversions of 8-bit floats on a target that has none");
}
Value *TargetHooks::widenFp8(IRBuilder<> &, Value *, bool) const {
  llvm_unreachable("conversions of 8-bit floats on a target that has none");
}

/// Splits the block after the builder's place and runs `then` under the predicate. Returns the
/// block before and the one in which `then` ended; the builder is behind both.
static std::pair<BasicBlock *, BasicBlock *> underBranch(IRBuilder<> &b, Value *predicate,
                                                         function_ref<void()> then) {
  BasicBlock *before = b.GetInsertBlock();
  Function *function = before->getParent();
  auto *inside = BasicBlock::Create(b.getContext(), "access", function);
  auto *after = BasicBlock::Create(b.getContext(), "done", function);
  b.CreateCondBr(predicate, inside, after);
  b.SetInsertPoint(inside);
  then();
  inside = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(after);
  return {before, inside};
}

SyncScope::ID TargetHooks::scopeOf(IRBuilder<> &b, tile::Scope scope) const {
  return b.getContext().getOrInsertSyncScopeID(scopeName(scope));
}

void TargetHooks::fence(IRBuilder<> &b, AtomicOrdering order, tile::Scope scope) const {
  b.CreateFence(order, scopeOf(b, scope));
}

Value *TargetHooks::valueUnderBranch(IRBuilder<> &b, Value *predicate, function_ref<Value *()> then,
                                     Value *otherwise) {
  if (!predicate)
    return then();
  Value *value = nullptr;
  auto [before, inside] = underBranch(b, predicate, [&] { value = then(); });
  PHINode *result = b.CreatePHI(value->getType(), 2);
  result->addIncoming(value, inside);
  result->addIncoming(otherwise, before);
  return result;
}

Instruction *TargetHooks::hinted(IRBuilder<> &b, const ThreadAccess &access,
                                 Instruction *instruction) {
  if (access.cache == tile::Cache::Streaming || access.eviction == tile::Eviction::First)
    instruction->setMetadata(LLVMContext::MD_nontemporal,
                             MDNode::get(b.getContext(), {ConstantAsMetadata::get(b.getInt32(1))}));
  return instruction;
}

Value *TargetHooks::loadUnderBranch(IRBuilder<> &b, const ThreadAccess &access, Type *type,
                                    Value *other) {
  return valueUnderBranch(
      b, access.predicate,
      [&] {
        LoadInst *load = b.CreateAlignedLoad(type, access.pointer, access.align, access.isVolatile);
        return hinted(b, access, load);
      },
      other);
}

void TargetHooks::storeUnderBranch(IRBuilder<> &b, const ThreadAccess &access, Value *value) {
  auto store = [&] {
    hinted(b, access, b.CreateAlignedStore(value, access.pointer, access.align, access.isVolatile));
  };
  if (access.predicate)
    underBranch(b, access.predicate, store);
  else
    store();
}

} // namespace sectile
