// Accesses of blocks of views, and what is known of addresses and masks in any form.
#include "passes/analysis/Blocks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace sectile {

tile::MakeViewOp madeView(Value view) {
  while (true) {
    if (auto made = view.getDefiningOp<tile::MakeViewOp>())
      return made;
    scf::ForOp loop;
    unsigned index = 0;
    if (auto argument = dyn_cast<BlockArgument>(view)) {
      loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
      index = argument.getArgNumber() - 1;
    } else {
      loop = view.getDefiningOp<scf::ForOp>();
      index = cast<OpResult>(view).getResultNumber();
    }
    if (!loop || view == loop.getInductionVar() ||
        loop.getYieldedValues()[index] != loop.getRegionIterArgs()[index])
      return {};
    view = loop.getInitArgs()[index];
  }
}

/// The number of the kernel's argument that a value is, perhaps in more bits.
static std::optional<unsigned> argumentOf(Value value) {
  while (auto wider = value.getDefiningOp<arith::ExtSIOp>())
    value = wider.getIn();
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || !isa<func::FuncOp>(argument.getOwner()->getParentOp()))
    return std::nullopt;
  return argument.getArgNumber();
}

bool hasDistinctElements(tile::MakeViewOp view) {
  auto kernel = view->getParentOfType<func::FuncOp>();
  std::optional<unsigned> whole; // the address of the view whose axes these are
  SmallVector<unsigned, 4> axes;
  for (auto [extent, stride] : llvm::zip_equal(view.getExtents(), view.getStrides())) {
    APInt number;
    if (matchPattern(extent, m_ConstantInt(&number)) && number.isOne())
      continue; // whatever its stride
    const std::optional<unsigned> at = argumentOf(extent);
    if (!at)
      return false;
    DenseI64ArrayAttr strides;
    unsigned address = *at;
    while (!strides && address-- > 0)
      strides = kernel.getArgAttrOfType<DenseI64ArrayAttr>(address, tile::distinctAttr);
    if (!strides)
      return false;
    const unsigned axis = *at - address - 1;
    if (axis >= strides.size() || (whole && whole != address) || llvm::is_contained(axes, axis))
      return false;
    const bool isItsStride =
        strides[axis]
            ? matchPattern(stride, m_ConstantInt(&number)) && number.getSExtValue() == strides[axis]
            : argumentOf(stride) == address + 1 + strides.size() + axis;
    if (!isItsStride)
      return false;
    whole = address;
    axes.push_back(axis);
  }
  return true;
}

std::optional<ViewBlock> blockOf(Operation *op) {
  auto block = [](auto access, RankedTensorType tile, Value when) -> std::optional<ViewBlock> {
    tile::MakeViewOp view = madeView(access.getView());
    if (!view)
      return std::nullopt;
    return ViewBlock{view, access.getOffsets(), tile, when};
  };
  return llvm::TypeSwitch<Operation *, std::optional<ViewBlock>>(op)
      .Case([&](tile::LoadBlockOp load) { return block(load, load.getType(), load.getWhen()); })
      .Case([&](tile::StoreBlockOp store) { return block(store, store.getValue().getType(), {}); })
      .Case([&](tile::AtomicBlockOp atomic) { return block(atomic, atomic.getType(), {}); })
      .Case([&](cta::AsyncCopyBlockOp copy) {
        cta::BufferType buffer = copy.getBuffer().getType();
        auto tile = RankedTensorType::get(buffer.getShape(), buffer.getElement(), copy.getLayout());
        return block(copy, tile, copy.getWhen());
      })
      .Case<cta::TensorCopyBlockOp, cta::TensorStoreBlockOp>([&](auto access) {
        cta::BufferType buffer = access.getBuffer().getType();
        SmallVector<int64_t> last(buffer.getShape());
        if (std::optional<ArrayRef<int64_t>> lines = access.getLines()) {
          last.assign(lines->begin(), lines->end());
          last.push_back(buffer.getShape().back());
        }
        SmallVector<int64_t> shape(access.getOffsets().size() - last.size(), 1);
        llvm::append_range(shape, last);
        Value when;
        if constexpr (std::is_same_v<decltype(access), cta::TensorCopyBlockOp>)
          when = access.getWhen();
        return block(access, RankedTensorType::get(shape, buffer.getElement()), when);
      })
      .Default([](Operation *) { return std::nullopt; });
}

BlockContiguity ViewBlock::contiguity(const ContiguityAnalysis &analysis) const {
  BlockContiguity known;
  known.ptr = &analysis[tile::MakeViewOp(view).getPtr()];
  for (auto [offset, extent, stride] : llvm::zip_equal(offsets, tile::MakeViewOp(view).getExtents(),
                                                       tile::MakeViewOp(view).getStrides())) {
    known.offsets.push_back(&analysis[offset]);
    known.extents.push_back(&analysis[extent]);
    known.strides.push_back(&analysis[stride]);
  }
  known.shape = shape();
  return known;
}

bool isLoad(Operation *op) { return isa<tile::LoadOp, tile::LoadBlockOp>(op); }

bool isVolatileLoad(Operation *op) {
  if (auto load = dyn_cast<tile::LoadBlockOp>(op))
    return load.getCache() == tile::Cache::Volatile;
  auto load = dyn_cast<tile::LoadOp>(op);
  return load && load.getIsVolatile();
}

AccessContiguity contiguityOf(const ContiguityAnalysis &analysis, Operation *access) {
  if (std::optional<ViewBlock> block = blockOf(access)) {
    BlockContiguity known = block->contiguity(analysis);
    const int64_t bytes = cta::elementBytes(block->tile);
    return {pointersOfBlock(known, bytes, analysis.getCertainty()), maskOfBlock(known), bytes};
  }
  return llvm::TypeSwitch<Operation *, AccessContiguity>(access)
      .Case<tile::LoadOp, tile::StoreOp, tile::AtomicRMWOp, tile::AtomicCasOp, cta::AsyncCopyOp>(
          [&](auto op) {
            AccessContiguity known{analysis[op.getPtr()], std::nullopt,
                                   stepOf(op.getPtr().getType())};
            if (op.getMask())
              known.mask = analysis[op.getMask()];
            return known;
          })
      .Case<cta::BufferLoadOp, cta::BufferStoreOp>([&](auto op) {
        const int64_t step = stepOf(op.getBase().getType());
        AccessContiguity known{pointersAt(analysis[op.getBase()], analysis[op.getOffsets()], step),
                               std::nullopt, step};
        if (op.getMask())
          known.mask = analysis[op.getMask()];
        return known;
      });
}

} // namespace sectile
