// Channels, partitions and dots in flight, one after the other: a partition runs to its end where
// it stands, so that a channel holds as many uses as it commits. Dots are done where they begin,
// and nobody waits at a barrier.
#include "ir/tile/Tile.h"
#include "jit/interpreter/Run.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace sectile::interpreter {
namespace {

/// A slot's number: of its channel, the use, and the tile.
constexpr unsigned bitsOfTile = 4, bitsOfUse = 32;

void channel(Run &run, Operation &op) {
  // By its place in the kernel, which is its name.
  uint64_t number = 0;
  for (Operation *before = op.getPrevNode(); before; before = before->getPrevNode())
    number += isa<tile::ChannelOp>(before);
  run.set(op.getResult(0), Elements::scalar({64}, number << (bitsOfUse + bitsOfTile)));
}

uint64_t slotOf(Run &run, Operation &op, uint64_t use, size_t tile = 0) {
  return run.word(op.getOperand(0)) | use << bitsOfTile | tile;
}
uint64_t useOf(Run &run, Operation &op) { return run.word(op.getOperand(1)); }

void setSlots(Run &run, Operation &op) {
  for (auto [tile, slot] : llvm::enumerate(op.getResults()))
    run.set(slot, Elements::scalar({64}, slotOf(run, op, useOf(run, op), tile)));
}

void acquire(Run &run, Operation &op) {
  const uint64_t use = useOf(run, op),
                 depth = cast<tile::AcquireOp>(op).getChannel().getType().getDepth();
  // While a partition runs, the others may release it.
  if (!op.getParentOfType<tile::PartitionOp>() && use >= depth &&
      run.committed.contains(slotOf(run, op, use - depth)))
    run.fail(vgpu::FindingKind::Trap, op,
             "acquires a slot while all " + std::to_string(depth) + " are in use");
  setSlots(run, op);
}

void commit(Run &run, Operation &op) { run.committed.insert(slotOf(run, op, useOf(run, op))); }

void wait(Run &run, Operation &op) {
  if (!run.committed.contains(slotOf(run, op, useOf(run, op))))
    run.fail(vgpu::FindingKind::Trap, op,
             "waits for use " + std::to_string(useOf(run, op)) +
                 " of a channel, which nobody commits: a chip would wait for ever");
  setSlots(run, op);
}

/// How many partitions of the kernel read a channel, the main one included.
unsigned readersOf(Value channel) {
  llvm::SmallPtrSet<Operation *, 4> partitions;
  for (Operation *user : channel.getUsers())
    if (isa<tile::WaitOp, tile::ReleaseOp>(user))
      partitions.insert(user->getParentOfType<tile::PartitionOp>());
  return partitions.size();
}

void release(Run &run, Operation &op) {
  const uint64_t use = useOf(run, op), slot = slotOf(run, op, use);
  if (!run.committed.contains(slot))
    run.fail(vgpu::FindingKind::Trap, op, "releases a use that is not there");
  if (++run.released[slot] < readersOf(op.getOperand(0)))
    return;
  run.released.erase(slot);
  run.committed.erase(slot);
  const size_t tiles = cast<tile::ReleaseOp>(op).getChannel().getType().getTiles().size();
  for (size_t tile = 0; tile < tiles; ++tile)
    run.slots.erase(slotOf(run, op, use, tile));
}

void fill(Run &run, Operation &op) {
  run.slots[run.word(op.getOperand(1))] = run.share(op.getOperand(0));
}

void readSlot(Run &run, Operation &op) {
  auto found = run.slots.find(run.word(op.getOperand(0)));
  if (found == run.slots.end())
    run.fail(vgpu::FindingKind::Trap, op, "reads a slot that holds nothing");
  run.set(op.getResult(0), found->second);
}

void dotWait(Run &run, Operation &op) { run.set(op.getResult(0), run.share(op.getOperand(0))); }

void nothing(Run &, Operation &) {}

/// Partitions run one after the other, so that nobody waits.
void mbarriers(Run &run, Operation &op) { run.set(op.getResult(0), Elements::scalar({64}, 0)); }

void partition(Run &run, Operation &op) { run.runAll(op.getRegion(0).front()); }

} // namespace

void addChannels(Table &table) {
  table["tile.channel"] = channel;
  table["tile.acquire"] = acquire;
  table["tile.commit"] = commit;
  table["tile.wait"] = wait;
  table["tile.release"] = release;
  table["tile.fill"] = fill;
  table["tile.read_slot"] = readSlot;
  table["tile.dot_wait"] = dotWait;
  table["tile.dots_wait"] = nothing;
  table["tile.partition"] = partition;
  table["tile.named_barrier"] = nothing;
  table["tile.mbarriers"] = mbarriers;
  table["tile.mbarrier_arrive"] = nothing;
  table["tile.mbarrier_wait"] = nothing;
}

} // namespace sectile::interpreter
