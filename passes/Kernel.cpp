// What passes ask of the kernel they work on: its target, its warps, its stages.
#include "passes/Kernel.h"
#include "ir/cta/Cta.h"

using namespace mlir;

namespace sectile {

static StringAttr targetNameOf(Operation *op) {
  auto module = isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
  return module ? module->getAttrOfType<StringAttr>(cta::targetAttr) : StringAttr();
}

FailureOr<Target> targetOf(Operation *op) {
  StringAttr name = targetNameOf(op);
  if (!name)
    return op->emitError() << "the module says no target: it needs the string attribute "
                           << cta::targetAttr;
  llvm::Expected<Target> target = Target::get(name.getValue());
  if (!target)
    return op->emitError() << llvm::toString(target.takeError());
  return std::move(*target);
}

BankModel banksOf(const Target &target) {
  BankModel banks;
  banks.banks = target.sharedBanks;
  banks.maxVectorBytes = target.maxVectorBits / 8;
  banks.matrixLoads = target.matrixLoad;
  banks.matrixStores = target.matrixStore;
  return banks;
}

BankModel banksOf(Operation *op) {
  StringAttr name = targetNameOf(op);
  if (!name)
    return {};
  llvm::Expected<Target> target = Target::get(name.getValue());
  if (target)
    return banksOf(*target);
  llvm::consumeError(target.takeError());
  return {};
}

static unsigned numberOf(func::FuncOp kernel, StringRef name, unsigned otherwise) {
  auto attr = kernel->getAttrOfType<IntegerAttr>(name);
  return attr ? attr.getInt() : otherwise;
}

unsigned warpsOf(func::FuncOp kernel) { return numberOf(kernel, cta::warpsAttr, 4); }
unsigned launchedWarpsOf(func::FuncOp kernel) {
  unsigned warps = warpsOf(kernel);
  kernel.walk([&](cta::PartitionOp partition) { warps += partition.getWarps(); });
  return warps;
}
Operation *outermostAround(Operation *op) {
  while (!isa<func::FuncOp>(op->getParentOp()))
    op = op->getParentOp();
  return op;
}

bool isOfWarps(Value value) { return isa<RankedTensorType, cta::InFlightType>(value.getType()); }

bool hasChannelsByHand(func::FuncOp kernel) {
  return anyIn(kernel, [](Operation *op) {
    auto channel = dyn_cast<cta::ChannelOp>(op);
    auto barriers = dyn_cast<cta::MbarriersOp>(op);
    return isa<tile::NamedBarrierOp>(op) || (channel && channel.getByHand()) ||
           (barriers && barriers.getByHand());
  });
}

InFlightDiagnostic channelError(Operation *op) {
  if (hasChannelsByHand(op->getParentOfType<func::FuncOp>()))
    return op->emitError("this ");
  return op->emitOpError();
}

unsigned stagesOf(func::FuncOp kernel) { return numberOf(kernel, cta::stagesAttr, usualStages); }
unsigned stagesOf(LoopLikeOpInterface loop) {
  auto own = loop->getAttrOfType<IntegerAttr>(cta::stagesAttr);
  return own ? own.getInt() : stagesOf(loop->getParentOfType<func::FuncOp>());
}

} // namespace sectile
