// Block loads, stores and atomics of views become those of pointers with masks.
//
// A block's address is a scalar part, base + offset · stride per dimension, plus a part within the
// block, 0 … n-1 times stride. The scalar part goes into the pointer first: what is left per
// element is then the same in every iteration of a loop over blocks, and is hoisted. Likewise the
// mask compares 0 … n-1 with what is left of the extent.
#include "ir/tile/Build.h"
#include "mlir/IR/Matchers.h"
#include "passes/Check.h"
#include "passes/Passes.h"
#include "passes/analysis/Contiguity.h"

namespace sectile {
#define GEN_PASS_DEF_LOWERVIEWS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// Where a view was made, looking through loops that carry it unchanged.
tile::MakeViewOp findView(Value view) {
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

/// Pointers and mask of one block.
class Block {
public:
  Block(OpBuilder &builder, Location loc, tile::MakeViewOp view, ValueRange offsets,
        ArrayRef<int64_t> shape)
      : builder(builder), loc(loc), view(view), offsets(offsets), shape(shape) {}

  Value pointers() {
    Value ptr = view.getPtr();
    for (auto [offset, stride] : llvm::zip_equal(offsets, view.getStrides())) {
      Value steps = wide(offset), length = wide(stride);
      ptr = tile::AddPtrOp::create(builder, loc, ptr.getType(), ptr,
                                   arith::MulIOp::create(builder, loc, steps, length));
    }
    // Dimension by dimension, so that elements which differ in the last one alone share the rest.
    SmallVector<int64_t> extents(shape.size(), 1);
    ptr = tile::SplatOp::create(builder, loc, RankedTensorType::get(extents, ptr.getType()), ptr);
    for (unsigned d = 0; d < shape.size(); ++d) {
      extents[d] = shape[d];
      ptr = broadcast(ptr, extents);
      Value steps = within(d, view.getStrides()[d]);
      steps = broadcast(tile::alongDim(builder, loc, steps, d, shape.size()), extents);
      ptr = tile::AddPtrOp::create(builder, loc, ptr.getType(), ptr, steps);
    }
    return ptr;
  }

  /// Where `0 <= index < extent` in every dimension. The lower bound is left out where offsets are
  /// known not to be negative.
  Value mask(ArrayRef<bool> nonNegative) {
    Value all;
    for (unsigned d = 0; d < shape.size(); ++d) {
      Value offset = wide(offsets[d]), extent = wide(view.getExtents()[d]);
      Value left = arith::SubIOp::create(builder, loc, extent, offset);
      Value inside = compare(arith::CmpIPredicate::slt, d, left);
      if (!nonNegative[d]) {
        Value before = arith::SubIOp::create(builder, loc, number(0), offset);
        inside = arith::AndIOp::create(builder, loc, inside,
                                       compare(arith::CmpIPredicate::sge, d, before));
      }
      inside = broadcast(tile::alongDim(builder, loc, inside, d, shape.size()), shape);
      all = all ? Value(arith::AndIOp::create(builder, loc, all, inside)) : inside;
    }
    return all;
  }

private:
  Value number(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
  }

  /// As 64 bits, of which there is one per block and not one per element.
  Value wide(Value scalar) {
    return scalar.getType().isInteger(64)
               ? scalar
               : Value(arith::ExtSIOp::create(builder, loc, builder.getI64Type(), scalar));
  }

  Value range(unsigned d) {
    return tile::ArangeOp::create(builder, loc,
                                  RankedTensorType::get({shape[d]}, builder.getI32Type()), 0);
  }

  /// 0 … n-1 times a stride: in 64 bits, unless the stride is a constant for which 32 are enough.
  Value within(unsigned d, Value stride) {
    Value steps = range(d);
    APInt constant;
    if (matchPattern(stride, m_One()))
      return steps;
    bool narrow = matchPattern(stride, m_ConstantInt(&constant)) &&
                  llvm::isInt<32>(constant.getSExtValue()) &&
                  llvm::isInt<32>(constant.getSExtValue() * shape[d]);
    if (narrow) {
      stride = arith::ConstantOp::create(builder, loc,
                                         builder.getI32IntegerAttr(constant.getSExtValue()));
    } else {
      stride = wide(stride);
      steps = arith::ExtSIOp::create(
          builder, loc, RankedTensorType::get({shape[d]}, builder.getI64Type()), steps);
    }
    return arith::MulIOp::create(builder, loc, steps,
                                 tile::SplatOp::create(builder, loc, steps.getType(), stride));
  }

  /// Compares 0 … n-1 with a number that is first cut to 0 … n, so that 32 bits do.
  Value compare(arith::CmpIPredicate predicate, unsigned d, Value bound) {
    bound = arith::MaxSIOp::create(builder, loc, bound, number(0));
    bound = arith::MinSIOp::create(builder, loc, bound, number(shape[d]));
    bound = arith::TruncIOp::create(builder, loc, builder.getI32Type(), bound);
    Value steps = range(d);
    return arith::CmpIOp::create(builder, loc, predicate, steps,
                                 tile::SplatOp::create(builder, loc, steps.getType(), bound));
  }

  Value broadcast(Value tile, ArrayRef<int64_t> extents) {
    auto type = cast<RankedTensorType>(tile.getType());
    return type.getShape() == extents
               ? tile
               : Value(tile::BroadcastOp::create(builder, loc, type.clone(extents), tile));
  }

  OpBuilder &builder;
  Location loc;
  tile::MakeViewOp view;
  ValueRange offsets;
  ArrayRef<int64_t> shape;
};

struct LowerViews : sectile::impl::LowerViewsBase<LowerViews> {
  void runOnOperation() override {
    if (failed(checkBare(getOperation())))
      return signalPassFailure();
    const auto &contiguity = getAnalysis<ContiguityAnalysis>();
    SmallVector<Operation *> views;
    WalkResult result = getOperation().walk([&](Operation *op) {
      if (auto load = dyn_cast<tile::LoadBlockOp>(op))
        return lower(load, load.getType(), contiguity);
      if (auto store = dyn_cast<tile::StoreBlockOp>(op))
        return lower(store, store.getValue().getType(), contiguity);
      if (auto atomic = dyn_cast<tile::AtomicBlockOp>(op))
        return lower(atomic, atomic.getValue().getType(), contiguity);
      if (isa<tile::MakeViewOp>(op))
        views.push_back(op);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    for (Operation *view : views)
      if (view->use_empty())
        view->erase();
  }

  template <typename Op>
  WalkResult lower(Op op, RankedTensorType type, const ContiguityAnalysis &contiguity) {
    tile::MakeViewOp view = findView(op.getView());
    if (!view) {
      op.emitError("the view of this block is chosen by a branch or carried by a loop that changes "
                   "it; choose its "
                   "address, extents and strides there and make the view afterwards");
      return WalkResult::interrupt();
    }
    SmallVector<bool> nonNegative;
    for (Value offset : op.getOffsets())
      nonNegative.push_back(contiguity[offset].isNonNegative());
    OpBuilder builder(op);
    Block block(builder, op.getLoc(), view, op.getOffsets(), type.getShape());
    // In this order whatever the host compiler: the order of arguments is not the language's to
    // say.
    Value pointers = block.pointers();
    Value mask = block.mask(nonNegative);
    replace(builder, op, pointers, mask);
    return WalkResult::advance();
  }

  void replace(OpBuilder &builder, tile::LoadBlockOp op, Value ptr, Value mask) {
    Value other;
    if (auto padding = op.getPaddingAttr())
      other = arith::ConstantOp::create(builder, op.getLoc(),
                                        DenseElementsAttr::get(op.getType(), Attribute(padding)));
    auto load = tile::LoadOp::create(builder, op.getLoc(), op.getType(), ptr, mask, other,
                                     op.getCache(), op.getEviction(),
                                     /*isVolatile=*/op.getCache() == tile::Cache::Volatile,
                                     /*vector=*/IntegerAttr());
    op.replaceAllUsesWith(load.getResult());
    op.erase();
  }

  void replace(OpBuilder &builder, tile::AtomicBlockOp op, Value ptr, Value mask) {
    auto atomic = tile::AtomicRMWOp::create(builder, op.getLoc(), op.getType(), op.getKind(), ptr,
                                            op.getValue(), mask, op.getOrder(), op.getScope(),
                                            /*vector=*/IntegerAttr());
    op.replaceAllUsesWith(atomic.getResult());
    op.erase();
  }

  void replace(OpBuilder &builder, tile::StoreBlockOp op, Value ptr, Value mask) {
    tile::StoreOp::create(builder, op.getLoc(), ptr, op.getValue(), mask, op.getCache(),
                          op.getEviction(),
                          /*vector=*/IntegerAttr());
    op.erase();
  }
};

} // namespace
