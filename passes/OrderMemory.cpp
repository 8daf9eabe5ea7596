// Inserts the barriers that keep a program's loads and stores through one argument in order.
//
// A thread's own accesses are in order. But a tile may be loaded by several threads and stored by
// one of them, or be stored by other threads than those that load it next: then a thread that is
// ahead writes what another has not read yet, or reads what another has not written yet. A forward
// dataflow carries the accesses since the threads last met; one that other threads do to the same
// argument needs a barrier in between. Arguments are taken not to overlap.
#include "passes/Check.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/SharedMemory.h"
#include "llvm/ADT/SetVector.h"
#include <set>

namespace sectile {
#define GEN_PASS_DEF_ORDERMEMORY
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// The kernel's argument that a pointer is made from; nothing where that cannot be told.
Value argumentBehind(Value pointer) {
  for (;;) {
    if (auto argument = dyn_cast<BlockArgument>(pointer)) {
      Operation *parent = argument.getOwner()->getParentOp();
      if (isa<func::FuncOp>(parent))
        return argument;
      auto loop = dyn_cast<scf::ForOp>(parent);
      if (!loop || argument.getArgNumber() == 0)
        return nullptr;
      pointer = loop.getInitArgs()[argument.getArgNumber() - 1];
      continue;
    }
    Operation *op = pointer.getDefiningOp();
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      pointer = loop.getInitArgs()[cast<OpResult>(pointer).getResultNumber()];
      continue;
    }
    Value from;
    for (Value operand : op->getOperands())
      if (isa<tile::PtrType>(getElementTypeOrSelf(operand.getType()))) {
        if (from)
          return nullptr;
        from = operand;
      }
    if (!from)
      return nullptr;
    pointer = from;
  }
}

/// Accesses of one kind to one argument.
struct Access {
  Value argument; ///< none: what cannot be told
  const Layout *layout = nullptr;
  bool writes = false;

  friend bool operator<(const Access &a, const Access &b) {
    return std::tuple(a.argument.getAsOpaquePointer(), a.layout, a.writes) <
           std::tuple(b.argument.getAsOpaquePointer(), b.layout, b.writes);
  }
};
using State = std::set<Access>;

/// Whether each element is accessed by one thread, and the same one in both.
bool inTheSameThreads(const Access &a, const Access &b) {
  if (!a.layout || !b.layout)
    return false; // scalars are every thread's
  return (a.layout == b.layout || *a.layout == *b.layout) && a.layout->freeBits(In::Lane) == 0 &&
         a.layout->freeBits(In::Warp) == 0;
}

class Flow {
public:
  Flow(func::FuncOp kernel, bool scratchOrders) : scratchOrders(scratchOrders) {
    State state;
    visit(kernel.getBody().front(), state);
  }

  llvm::SetVector<Operation *> barriers;

private:
  void visit(Block &block, State &state) {
    for (Operation &op : block) {
      if (barriers.contains(&op))
        state.clear();
      if (auto load = dyn_cast<tile::LoadOp>(op))
        add(&op, load.getPtr(), false, state);
      else if (auto store = dyn_cast<tile::StoreOp>(op))
        add(&op, store.getPtr(), true, state);
      else if (meets(&op))
        state.clear();
      else if (auto loop = dyn_cast<scf::ForOp>(op))
        visitLoop(state, [&](State in) {
          visit(*loop.getBody(), in);
          return in;
        });
      else if (auto loop = dyn_cast<scf::WhileOp>(op))
        visitWhile(loop, state);
      else if (op.getNumRegions() && !isa<tile::ReduceOp, tile::ScanOp>(op))
        visitBranches(&op, state);
    }
  }

  void add(Operation *op, Value pointer, bool writes, State &state) {
    const Access access{argumentBehind(pointer), cta::layoutOf(pointer.getType()), writes};
    for (const Access &before : state)
      if (before.argument == access.argument && (before.writes || writes) &&
          !inTheSameThreads(before, access)) {
        barriers.insert(op);
        state.clear();
        break;
      }
    state.insert(access);
  }

  bool meets(Operation *op) const {
    if (isa<tile::BarrierOp>(op))
      return true;
    if (auto atomic = dyn_cast<tile::AtomicRMWOp>(op))
      return atomic.getOrder() == tile::Order::AcquireRelease;
    if (auto atomic = dyn_cast<tile::AtomicCasOp>(op))
      return atomic.getOrder() == tile::Order::AcquireRelease;
    return scratchOrders && scratchOf(op).acrossWarps;
  }

  template <class Body> static void visitLoop(State &state, Body body) {
    for (;;) {
      const size_t before = state.size();
      State end = body(state);
      state.merge(end);
      if (state.size() == before)
        return;
    }
  }

  void visitWhile(scf::WhileOp loop, State &state) {
    State exit;
    visitLoop(state, [&](State in) {
      visit(*loop.getBeforeBody(), in);
      exit = in;
      visit(*loop.getAfterBody(), in);
      return in;
    });
    state = std::move(exit);
  }

  void visitBranches(Operation *op, State &state) {
    State merged = isa<scf::IfOp>(op) && op->getRegion(1).empty() ? state : State();
    for (Region &region : op->getRegions()) {
      State branch = state;
      if (!region.empty()) {
        visit(region.front(), branch);
        merged.merge(branch);
      }
    }
    state = std::move(merged);
  }

  /// Whether the barrier within an operation that passes data between warps orders memory too.
  const bool scratchOrders;
};

struct OrderMemory : sectile::impl::OrderMemoryBase<OrderMemory> {
  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    FailureOr<Target> target = targetOf(kernel);
    if (failed(target) || failed(checkLayouts(kernel, *target)))
      return signalPassFailure();
    const Flow flow(kernel, target->vendor == Vendor::Nvidia);
    for (Operation *op : flow.barriers) {
      OpBuilder builder(op);
      tile::BarrierOp::create(builder, op->getLoc());
    }
  }
};

} // namespace
