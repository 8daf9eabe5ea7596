// Fences between what orders global memory and the copy engine.
//
// An acquire, or a barrier, lets the program's threads see what was written before. The engine
// reads memory through a proxy of its own, which sees that once the thread that asks for the copy
// has fenced. What launches ahead wrote needs no fence: they are done.
#include "passes/memory/EngineFences.h"
#include "ir/cta/Cta.h"
#include "passes/analysis/Addresses.h"
#include "passes/analysis/MemoryOrder.h"
#include "passes/analysis/Warps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace sectile {

/// Whether the engine may meet bytes that threads accessed before the acquire. It only stores what
/// no other access of the kernel meets through the same argument, so that programs do not meet
/// there either; a barrier may be between accesses through two arguments.
static bool needsFence(Operation *access, Operation *acquire, AddressAnalysis &addresses) {
  if (partitionOf(access) != partitionOf(acquire))
    return false; // nothing orders them
  if (isa<cta::TensorCopyBlockOp>(access))
    return mustFollow(access, acquire, addresses);
  return !isAtomic(acquire) && isAhead(acquire, access) != IsAhead::Never;
}

void fenceEngine(func::FuncOp kernel) {
  SmallVector<Operation *> accesses, acquires;
  kernel.walk([&](Operation *op) {
    if (isa<cta::TensorCopyBlockOp, cta::TensorStoreBlockOp>(op))
      accesses.push_back(op);
    else if (memoryOrderOf(op).acquires)
      acquires.push_back(op);
  });
  if (accesses.empty() || acquires.empty())
    return;
  AddressAnalysis addresses(kernel);
  auto holdsAccess = [&](Operation *around) {
    return llvm::any_of(accesses,
                        [&](Operation *access) { return around->isProperAncestor(access); });
  };
  llvm::SetVector<Operation *> last;
  for (Operation *acquire : acquires) {
    if (llvm::none_of(accesses,
                      [&](Operation *access) { return needsFence(access, acquire, addresses); }))
      continue;
    // All ways to the engine leave what is around the acquire alone: a loop that waits for a flag
    // has one fence after it.
    Operation *place = acquire;
    for (Operation *around = place->getParentOp();
         !isa<func::FuncOp, cta::PartitionOp>(around) && !holdsAccess(around);
         around = around->getParentOp())
      place = around;
    last.insert(place);
  }
  for (Operation *place : last) {
    OpBuilder builder(kernel.getContext());
    builder.setInsertionPointAfter(place);
    cta::ProxyFenceOp::create(builder, place->getLoc())
        ->setAttr(globalFenceAttr, builder.getUnitAttr());
  }
}

} // namespace sectile
