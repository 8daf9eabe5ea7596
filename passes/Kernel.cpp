// What passes ask of the kernel they work on: its target, its warps, its stages.
#include "passes/Kernel.h"
#include "ir/cta/Cta.h"

using namespace mlir;

namespace sectile {

FailureOr<Target> targetOf(Operation *op) {
  Operation *module = op;
  while (module && !isa<ModuleOp>(module))
    module = module->getParentOp();
  auto name = module ? module->getAttrOfType<StringAttr>(cta::targetAttr) : StringAttr();
  if (!name)
    return op->emitError() << "the module says no target: it needs the string attribute "
                           << cta::targetAttr;
  llvm::Expected<Target> target = Target::get(name.getValue());
  if (!target)
    return op->emitError() << llvm::toString(target.takeError());
  return std::move(*target);
}

static unsigned numberOf(func::FuncOp kernel, StringRef name, unsigned otherwise) {
  auto attr = kernel->getAttrOfType<IntegerAttr>(name);
  return attr ? attr.getInt() : otherwise;
}

unsigned warpsOf(func::FuncOp kernel) { return numberOf(kernel, cta::warpsAttr, 4); }
unsigned stagesOf(func::FuncOp kernel) { return numberOf(kernel, cta::stagesAttr, 3); }

} // namespace sectile
