// Liveness of tiles, counted in registers.
#include "codegen/Registers.h"
#include "ir/cta/Cta.h"
#include "passes/analysis/SharedMemory.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace sectile {
namespace {

bool isDot(Operation *op) { return isa<cta::DotOp, cta::DotStartOp>(op); }

/// Whether a value is made of the kernel's arguments and places alone, by arithmetic.
class Cheap {
public:
  bool operator()(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return !cta::layoutOf(cta::tileOf(value.getType())); // what a loop carries
    auto [known, isNew] = cheap.try_emplace(op, false);
    if (!isNew)
      return known->second;
    const bool result = op->getNumRegions() == 0 && isMemoryEffectFree(op) && !isDot(op) &&
                        llvm::all_of(op->getOperands(), [&](Value v) { return (*this)(v); });
    return cheap[op] = result;
  }

private:
  DenseMap<Operation *, bool> cheap;
};

/// Of a value, in one thread. Small elements share registers, pointers take two.
unsigned registersOf(Type type) {
  type = cta::tileOf(type);
  const Layout *layout = cta::layoutOf(type);
  if (!layout)
    return 0;
  return (layout->numRegisters() * cta::elementBits(type) + 31) / 32;
}

/// What a tile's elements cannot get past one by one. Reductions and scans have regions; what takes
/// scratch meets in shared memory.
bool meets(Operation *op) { return op->getNumRegions() || isDot(op) || sharedBytes(op); }

class Count {
public:
  explicit Count(func::FuncOp kernel) { visit(kernel.getBody(), 0); }
  unsigned most = 0;

private:
  /// `around`: registers of what is alive outside all through the region.
  void visit(Region &region, unsigned around) {
    for (Block &block : region)
      visit(block, around);
  }

  void visit(Block &block, unsigned around) {
    // The operation of this block after which each value made here is not needed.
    DenseMap<Value, Operation *> lastUse;
    auto note = [&](Value value) {
      for (Operation *user : value.getUsers())
        if (Operation *here = block.findAncestorOpInBlock(*user)) {
          Operation *&last = lastUse[value];
          if (!last || last->isBeforeInBlock(here))
            last = here;
        }
    };
    for (Value argument : block.getArguments())
      note(argument);
    for (Operation &op : block)
      for (Value result : op.getResults())
        note(result);

    llvm::SmallSetVector<Value, 16> alive;
    for (Value argument : block.getArguments())
      if (lastUse.count(argument))
        alive.insert(argument);
    for (Operation &op : block) {
      unsigned through = around;
      for (Value value : alive)
        if (lastUse[value] != &op || isUsedInside(value, op))
          through += cheap(value) ? 0 : registersOf(value.getType());
      unsigned results = 0;
      for (Value result : op.getResults())
        if (lastUse.count(result) && !cheap(result))
          results += registersOf(result.getType());
      if (meets(&op))
        most = std::max(most, through + (isDot(&op) ? results : 0));
      for (Region &inner : op.getRegions())
        visit(inner, through);
      alive.remove_if([&](Value value) { return lastUse[value] == &op; });
      for (Value result : op.getResults())
        if (lastUse.count(result))
          alive.insert(result);
    }
  }

  /// A loop needs it again in its next iteration.
  static bool isUsedInside(Value value, Operation &op) {
    return op.getNumRegions() && llvm::any_of(value.getUsers(), [&](Operation *user) {
             return op.isProperAncestor(user);
           });
  }

  Cheap cheap;
};

} // namespace

unsigned fewestRegisters(func::FuncOp kernel) { return Count(kernel).most; }

unsigned usualRegisters(unsigned fewest) { return 20 + fewest * 17 / 10; }

} // namespace sectile
