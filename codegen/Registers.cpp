// Liveness of tiles, counted in registers.
#include "codegen/Registers.h"
#include "ir/cta/Cta.h"
#include "mlir/Analysis/Liveness.h"

using namespace mlir;

namespace sectile {

// Of a value, in one thread. Small elements share registers, pointers take two.
static unsigned registersOf(Type type) {
  Type element = getElementTypeOrSelf(type);
  unsigned bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
  const Layout *layout = cta::layoutOf(type);
  const unsigned count = layout ? layout->numRegisters() : 1;
  return (count * bits + 31) / 32;
}

unsigned countRegisters(func::FuncOp kernel) {
  Liveness liveness(kernel);
  unsigned most = 0;
  kernel.walk([&](Block *block) {
    const LivenessBlockInfo *info = liveness.getLiveness(block);
    for (Operation &op : *block) {
      unsigned now = 0;
      for (Value value : info->currentlyLiveValues(&op))
        if (cta::layoutOf(value.getType()))
          now += registersOf(value.getType());
      most = std::max(most, now);
    }
  });
  return most;
}

} // namespace sectile
