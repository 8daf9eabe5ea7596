// Registers of threads: what tiles take, and how many there are.
#include "passes/analysis/Registers.h"
#include "ir/cta/Cta.h"
#include "passes/analysis/Warps.h"

using namespace mlir;

namespace sectile {

unsigned registersOf(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile ? std::max(1u, cta::layoutOf(tile)->numRegisters() * cta::elementBits(tile) / 32) : 1;
}

/// What a thread of a block of so many warps can have.
static unsigned registersOfThread(unsigned warps, const Target &target) {
  return std::min(target.maxRegistersPerThread,
                  target.registersPerUnit / (warps * target.warpSize));
}

bool registersHold(Operation *op, ArrayRef<Type> tiles, unsigned beside, const Target &target) {
  for (Type tile : tiles)
    beside += registersOf(tile);
  return beside <= registersOfThread(warpsOf(op), target);
}

unsigned launchedRegistersOf(unsigned warps, const Target &target) {
  return registersOfThread(warps, target) / movedRegisters::step * movedRegisters::step;
}

unsigned registersLeftFor(unsigned warps, unsigned others, unsigned kept, const Target &target) {
  const unsigned all = launchedRegistersOf(warps + others, target) * (warps + others);
  if (kept >= all)
    return 0;
  return std::min(movedRegisters::most,
                  (all - kept) / warps / movedRegisters::step * movedRegisters::step);
}

} // namespace sectile
