// What a plan costs: shared memory for rings, and registers for dots beside other work.
#include "passes/loops/LoopResources.h"
#include "passes/Kernel.h"
#include "passes/analysis/Registers.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/Warps.h"
#include "passes/loops/EngineStores.h"
#include "passes/loops/LoopHints.h"

using namespace mlir;

namespace sectile {

static int64_t bytesOf(Value tile) {
  auto type = cast<RankedTensorType>(tile.getType());
  return type.getNumElements() * cta::elementBytes(type);
}

unsigned LoopResources::depthThatFits(ArrayRef<FetchedLoad> loads, unsigned most,
                                      Operation *around) {
  return depthThatFits(loads, most, scratchIn(around, conversionsOfReads(loads)));
}

bool LoopResources::haveRoomAlone(ArrayRef<FetchedLoad> loads, unsigned depth) const {
  int64_t bytes = 0;
  for (const FetchedLoad &load : loads)
    bytes += load.slots(depth) * llvm::alignTo(load.buffer.getBytes(), 16);
  return bytes <= target.maxSharedBytes;
}

unsigned LoopResources::depthBesideProducer(ArrayRef<FetchedLoad> loads, unsigned most,
                                            scf::ForOp loop) {
  return depthThatFits(
      loads, most,
      EngineStores(kernel, target).bytesBeside(outermostAround(loop), conversionsOfReads(loads)));
}

unsigned LoopResources::depthThatFits(ArrayRef<FetchedLoad> loads, unsigned most, int64_t beside) {
  while (most > 0 && bytesWith(loads, most) + beside > target.maxSharedBytes)
    --most;
  return most;
}

bool LoopResources::canShareMultiprocessor(const DelayedDot &delayed, ArrayRef<FetchedLoad> loads,
                                           unsigned depth, scf::ForOp loop) {
  cta::DotOp dot = delayed.dot, after = delayed.after;
  const unsigned registers =
      warpsOf(loop) * target.warpSize *
      (registersOf(after.getType()) + registersOf(dot.getType()) + besideTiles::least);
  return 2 * registers <= target.registersPerUnit &&
         2 * (bytesWith(loads, depth) + scratchIn(loop, conversionsOfReads(loads))) <=
             target.maxSharedBytes;
}

unsigned LoopResources::blocksWith(ArrayRef<FetchedLoad> loads, unsigned depth, unsigned registers,
                                   scf::ForOp loop) {
  const int64_t bytes = bytesWith(loads, depth) + scratchIn(loop, conversionsOfReads(loads));
  return std::min<int64_t>(target.maxSharedBytes / std::max<int64_t>(bytes, 1),
                           target.registersPerUnit / (warpsOf(loop) * target.warpSize * registers));
}

/// Bytes of shared memory with so many slots for each load: a ring shares its place with nothing.
int64_t LoopResources::bytesWith(ArrayRef<FetchedLoad> loads, unsigned depth) {
  int64_t bytes = 0;
  for (const FetchedLoad &load : loads)
    bytes += load.slots(depth) * llvm::alignTo(load.buffer.getBytes(), 16) -
             (tiles.contains(load.tile) ? bytesOf(load.tile) : 0);
  for (const auto &[root, tile] : tiles)
    if (!isContinued(root, loads))
      bytes += bytesOf(root);
  kernel.walk([&](cta::ChannelOp channel) { bytes += channel.getType().getBytes(); });
  return bytes;
}

/// Whether the only load of a later loop goes on with the ring of one of these loads.
bool LoopResources::isContinued(Value tile, ArrayRef<FetchedLoad> loads) {
  auto later = tile.getDefiningOp<tile::LoadBlockOp>();
  auto loop = later ? dyn_cast<scf::ForOp>(later->getParentOp()) : scf::ForOp();
  if (!loop || !hints::asksForProducer(loop) ||
      llvm::range_size(loop.getOps<tile::LoadBlockOp>()) != 1)
    return false;
  return llvm::any_of(loads, [&](const FetchedLoad &load) {
    auto first = dyn_cast<tile::LoadBlockOp>(load.load);
    auto before = dyn_cast<scf::ForOp>(load.load->getParentOp());
    return hints::asksForProducer(before) && first && first.getView() == later.getView() &&
           first.getType() == later.getType() && before->getBlock() == loop->getBlock() &&
           before->isBeforeInBlock(loop);
  });
}

/// Conversions of what will be read from shared memory, by dots, or into the other layout: they
/// need no scratch.
DenseSet<Operation *> LoopResources::conversionsOfReads(ArrayRef<FetchedLoad> loads) {
  DenseSet<Operation *> found;
  for (const FetchedLoad &load : loads)
    for (Operation *user : load.load->getUsers())
      if (isa<cta::ConvertLayoutOp>(user))
        found.insert(user);
  for (const auto &[root, tile] : tiles)
    for (const BufferUse &use : tile.uses)
      for (Operation *op = use.operand->get().getDefiningOp(); op && op->hasOneUse();
           op = op->getOperand(0).getDefiningOp()) {
        if (!isa<cta::ConvertLayoutOp, tile::PermuteOp>(op))
          break;
        found.insert(op);
      }
  return found;
}

bool registersHold(const DelayedPromotion &promotion, const Target &target) {
  cta::DotOp dot = promotion.dot;
  const Type sums = dot.getType();
  return registersHold(dot, {sums, sums, sums}, besideTiles::promoting, target);
}

bool registersHold(const DelayedDot &delayed, const Target &target) {
  cta::DotOp dot = delayed.dot, after = delayed.after;
  return registersHold(dot, {after.getType(), dot.getA().getType(), dot.getType()},
                       besideTiles::rows, target);
}

bool registersHold(cta::DotOp dot, Value computed, const Target &target) {
  return registersHold(dot, {dot.getType(), dot.getA().getType(), computed.getType()},
                       besideTiles::copying, target);
}

} // namespace sectile
