// Gives every tile a layout. Each value gets the layout its own shape asks for: the matrix
// instructions' for what dots accumulate, else a blocked one whose vectors are as wide as memory
// accesses; conversions stand where producer and consumer differ.
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "passes/Kernel.h"
#include "passes/LayoutRules.h"
#include "passes/Passes.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

namespace sectile {
#define GEN_PASS_DEF_ASSIGNLAYOUTS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

bool isTile(Value value) { return isa<RankedTensorType>(value.getType()); }

struct AssignLayouts : sectile::impl::AssignLayoutsBase<AssignLayouts> {
  void runOnOperation() override {
    auto found = targetOf(getOperation());
    if (failed(found))
      return signalPassFailure();
    target = *found;
    warps = warpsOf(getOperation());
    chooseVectorBits();
    uniteCarriedValues();
    choose();
    apply();
  }

  // The narrowest element that memory accesses move decides how many a thread holds side by side.
  void chooseVectorBits() {
    unsigned narrowest = 64;
    getOperation().walk([&](Operation *op) {
      if (!isa<tile::LoadOp, tile::StoreOp>(op))
        return;
      auto ptr = cast<tile::PtrType>(tile::elementType(op->getOperand(0).getType()));
      narrowest = std::min(narrowest, std::max(8u, ptr.getElement().getIntOrFloatBitWidth()));
    });
    vector = std::max(1u, target.maxVectorBits / narrowest);
  }

  // A value that a loop or a branch carries has one layout all the way.
  void uniteCarriedValues() {
    auto unite = [&](Value a, Value b) {
      if (isTile(a))
        carried.unionSets(a.getAsOpaquePointer(), b.getAsOpaquePointer());
    };
    getOperation().walk([&](Operation *op) {
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        for (auto [init, argument, yielded, result] :
             llvm::zip(loop.getInitArgs(), loop.getRegionIterArgs(), loop.getYieldedValues(),
                       loop.getResults()))
          unite(argument, result);
      } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
        for (auto [argument, yielded] :
             llvm::zip(loop.getBeforeArguments(), loop.getYieldedValues()))
          unite(argument, argument);
        for (auto [argument, result] : llvm::zip(loop.getAfterArguments(), loop.getResults()))
          unite(argument, result);
      }
    });
  }

  Layout accumulatorLayout(cta::DotOp dot) {
    ArrayRef<int64_t> shape = dot.getType().getShape();
    ArrayRef<int32_t> instruction = *dot.getInstruction();
    MmaTiling tiling;
    // Split the longer side of a warp's share, rows first: sums along rows then stay within warps.
    for (unsigned w = 1; w < warps; w *= 2) {
      int64_t m = shape[0] / tiling.warpsM, n = shape[1] / tiling.warpsN;
      bool canM = m % (2 * instruction[0]) == 0, canN = n % (2 * instruction[1]) == 0;
      if (canM && (m >= n || !canN))
        tiling.warpsM *= 2;
      else
        tiling.warpsN *= 2;
    }
    return mmaAccumulator(shape, instruction[0], tiling);
  }

  Layout plainLayout(RankedTensorType type) {
    SmallVector<unsigned> order;
    for (unsigned i = type.getRank(); i-- > 0;)
      order.push_back(i);
    return blockedForAccess(type.getShape(), vector, target.warpSize, warps, order);
  }

  void choose() {
    // Dots first: what they accumulate keeps their layout through loops.
    getOperation().walk([&](cta::DotOp dot) {
      if (!dot.getInstruction())
        return;
      Layout layout = accumulatorLayout(dot);
      set(dot.getResult(), layout);
      for (OpOperand &use : dot.getResult().getUses())
        if (auto yield = dyn_cast<scf::YieldOp>(use.getOwner()))
          if (auto loop = dyn_cast<scf::ForOp>(yield->getParentOp()))
            set(loop.getRegionIterArg(use.getOperandNumber()), layout);
    });
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            if (isTile(argument) && !get(argument))
              set(argument, plainLayout(cast<RankedTensorType>(argument.getType())));
      for (Value result : op->getResults()) {
        if (!isTile(result) || get(result))
          continue;
        auto reduce = dyn_cast<tile::ReduceOp>(op);
        const Layout *source = reduce ? get(reduce.getSources()[0]) : nullptr;
        if (source)
          set(result, source->squeeze(reduce.getAxis()).withoutDuplicateRegisters());
        else
          set(result, plainLayout(cast<RankedTensorType>(result.getType())));
      }
    });
  }

  const Layout *get(Value value) {
    auto it = layouts.find(representative(value));
    return it == layouts.end() ? nullptr : &it->second;
  }
  void set(Value value, const Layout &layout) {
    layouts.insert_or_assign(representative(value), layout);
  }
  void *representative(Value value) {
    void *key = value.getAsOpaquePointer();
    auto leader = carried.findLeader(key);
    return leader == carried.member_end() ? key : *leader;
  }

  void apply() {
    SmallVector<Operation *> ops;
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) { ops.push_back(op); });
    auto retype = [&](Value value) {
      if (isTile(value))
        value.setType(cta::withLayout(cast<RankedTensorType>(value.getType()), *get(value)));
    };
    for (Operation *op : ops) {
      for (Value result : op->getResults())
        retype(result);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            retype(argument);
      if (auto constant = dyn_cast<arith::ConstantOp>(op); constant && isTile(constant))
        if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
          constant.setValueAttr(SplatElementsAttr::get(cast<ShapedType>(constant.getType()),
                                                       splat.getSplatValue<Attribute>()));
    }
    for (Operation *op : ops)
      convertOperands(op);
  }

  // The layout an operand must have, now that types carry layouts.
  std::optional<Layout> required(OpOperand &operand) {
    Operation *op = operand.getOwner();
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return *cta::layoutOf(loop.getTiedLoopRegionIterArg(&operand).getType());
    if (auto loop = dyn_cast<scf::WhileOp>(op))
      return *cta::layoutOf(loop.getBeforeArguments()[operand.getOperandNumber()].getType());
    if (auto condition = dyn_cast<scf::ConditionOp>(op))
      return *cta::layoutOf(op->getParentOp()->getResult(operand.getOperandNumber() - 1).getType());
    if (isa<scf::YieldOp>(op)) {
      Operation *parent = op->getParentOp();
      if (auto loop = dyn_cast<scf::WhileOp>(parent))
        return *cta::layoutOf(loop.getBeforeArguments()[operand.getOperandNumber()].getType());
      return *cta::layoutOf(parent->getResult(operand.getOperandNumber()).getType());
    }
    if (op->getNumResults() > 0 && isTile(op->getResult(0)))
      return operandLayout(operand, *cta::layoutOf(op->getResult(0).getType()));
    // Stores: everything as the value that is stored.
    if (auto store = dyn_cast<tile::StoreOp>(op))
      return *cta::layoutOf(store.getPtr().getType());
    return std::nullopt;
  }

  void convertOperands(Operation *op) {
    OpBuilder builder(op);
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isTile(operand.get()))
        continue;
      std::optional<Layout> layout = required(operand);
      if (!layout || *layout == *cta::layoutOf(operand.get().getType()))
        continue;
      auto type = cta::withLayout(cast<RankedTensorType>(operand.get().getType()), *layout);
      operand.set(
          cta::ConvertLayoutOp::create(builder, op->getLoc(), type, operand.get(), IntegerAttr()));
    }
  }

  Target target;
  unsigned warps = 4, vector = 4;
  llvm::EquivalenceClasses<void *> carried;
  llvm::MapVector<void *, Layout> layouts;
};

} // namespace
