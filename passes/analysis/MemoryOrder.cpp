// What orders accesses of global memory.
#include "passes/analysis/MemoryOrder.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "passes/Kernel.h"
#include "passes/analysis/Addresses.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace sectile {

namespace {

std::optional<tile::Order> orderOfAtomic(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<tile::Order>>(op)
      .Case<tile::AtomicRMWOp, tile::AtomicCasOp, tile::AtomicBlockOp>(
          [](auto atomic) { return atomic.getOrder(); })
      .Default([](Operation *) { return std::nullopt; });
}

/// Whether other launches, the host or other devices may write what an atomic operation acquires.
bool isOfSystem(Operation *op) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<tile::AtomicRMWOp, tile::AtomicCasOp, tile::AtomicBlockOp>(
          [](auto atomic) { return atomic.getScope() == tile::Scope::System; })
      .Default([](Operation *) { return false; });
}

/// Whether it writes global memory itself, or has another effect that it does not tell.
bool hasGlobalWrite(Operation *op) {
  if (op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() || isa<func::FuncOp>(op))
    return false; // each operation in it is asked itself
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  if (!effects)
    return !op->hasTrait<OpTrait::IsTerminator>();
  SmallVector<MemoryEffects::EffectInstance> found;
  effects.getEffects(found);
  return llvm::any_of(found, [](const MemoryEffects::EffectInstance &effect) {
    return isa<MemoryEffects::Write>(effect.getEffect()) &&
           effect.getResource() == SideEffects::DefaultResource::get();
  });
}

/// Operations whose effects as writes only keep them in their place. A volatile load reads what
/// others write meanwhile, and orders no other access.
bool writesNothing(Operation *op) {
  return isLoad(op) ||
         isa<tile::BarrierOp, tile::WaitDependenciesOp, tile::LaunchDependentsOp,
             tile::NamedBarrierOp, tile::MbarrierArriveOp, tile::MbarrierWaitOp, cta::AssertOp>(op);
}

} // namespace

bool isAtomic(Operation *op) { return orderOfAtomic(op).has_value(); }

OrderingEffects memoryOrderOf(Operation *op) {
  if (std::optional<tile::Order> order = orderOfAtomic(op)) {
    const bool both = order == tile::Order::AcquireRelease;
    return {.releases = both || order == tile::Order::Release,
            .acquires = both || order == tile::Order::Acquire};
  }
  if (isa<tile::BarrierOp>(op))
    return {.releases = true, .acquires = true};
  if (isa<tile::WaitDependenciesOp>(op))
    return {.awaitsLaunches = true};
  // Nothing orders what partitions do to global memory, so their barriers do not either.
  if (writesNothing(op) || isa<tile::StoreOp, tile::StoreBlockOp, cta::BufferStoreOp,
                               cta::TensorStoreOp, cta::TensorStoreBlockOp>(op))
    return {};
  // Code that nobody knows may fence.
  const bool unknown = hasGlobalWrite(op);
  return {.releases = unknown, .acquires = unknown};
}

std::pair<bool, bool> meetsAround(Operation *op) {
  if (!isa<tile::AtomicRMWOp, tile::AtomicCasOp>(op))
    return {false, false};
  const OrderingEffects order = memoryOrderOf(op);
  return {order.releases, order.acquires};
}

bool writesGlobalMemory(Operation *op) {
  return anyIn(op, [](Operation *inner) { return hasGlobalWrite(inner) && !writesNothing(inner); });
}

IsAhead isAhead(Operation *first, Operation *second) {
  for (Block *block = second->getBlock(); block; block = block->getParentOp()->getBlock()) {
    Operation *before = block->findAncestorOpInBlock(*first);
    if (!before)
      continue;
    Operation *after = block->findAncestorOpInBlock(*second);
    // What a loop tests comes before what it does.
    if (before == after ? isa<scf::WhileOp>(before) : before->isBeforeInBlock(after))
      return IsAhead::Always;
    const bool inLoop = isa<LoopLikeOpInterface>(block->getParentOp()) ||
                        block->getParentOp()->getParentOfType<LoopLikeOpInterface>();
    return inLoop ? IsAhead::InIterationsBefore : IsAhead::Never;
  }
  return IsAhead::Never;
}

bool mustFollow(Operation *access, Operation *acquire, AddressAnalysis &addresses) {
  const IsAhead ahead = isAhead(acquire, access);
  if (ahead != IsAhead::InIterationsBefore)
    return ahead == IsAhead::Always;
  return !isAtomic(acquire) || isOfSystem(acquire) || addresses.mayShareArgument(access);
}

} // namespace sectile
