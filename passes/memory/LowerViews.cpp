// Gives block loads, stores, atomics and copies of views the form in which they are carried out, in
// the layout that the tile has by now: pointers and a mask, or, where the target has it and strides
// are known to be small, one address with 32-bit offsets and a mask.
//
// A block's address is a scalar part, base + offset · stride per dimension, plus a part within the
// block, 0 … n-1 times stride. The scalar part goes into the pointer first: what is left per
// element is then the same in every iteration of a loop over blocks, and is hoisted. Likewise the
// mask compares 0 … n-1 with what is left of the extent.
#include "ir/cta/TensorMap.h"
#include "ir/layout/TensorBoxes.h"
#include "ir/tile/Build.h"
#include "ir/tile/Overflow.h"
#include "mlir/IR/Matchers.h"
#include "passes/DeadCode.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/Blocks.h"
#include "passes/analysis/LayoutRules.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/checks/Check.h"
#include "passes/memory/EngineFences.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sectile {
#define GEN_PASS_DEF_LOWERVIEWS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// Gives a tile that was just made a layout, and what it is made of those that follow.
void setLayout(Value tile, const Layout &layout) {
  tile.setType(cta::withLayout(cast<RankedTensorType>(tile.getType()), layout));
  for (OpOperand &operand : tile.getDefiningOp()->getOpOperands())
    if (isa<RankedTensorType>(operand.get().getType()))
      setLayout(operand.get(), *operandLayout(operand, layout));
}

/// Makes the pointers and the mask of a block.
class Addressing {
public:
  Addressing(OpBuilder &builder, Location loc, const ViewBlock &block, const BlockContiguity &known)
      : builder(builder), loc(loc), block(block), view(block.view), known(known),
        shape(block.shape()) {}

  Value pointers() {
    Value ptr = start();
    // Dimension by dimension, so that elements which differ in the last one alone share the rest.
    SmallVector<int64_t> extents(shape.size(), 1);
    ptr = tile::SplatOp::create(builder, loc, RankedTensorType::get(extents, ptr.getType()), ptr);
    for (unsigned d = 0; d < shape.size(); ++d) {
      extents[d] = shape[d];
      ptr = broadcast(ptr, extents);
      Value steps = along(d, within(d, view.getStrides()[d]), extents);
      ptr = tile::AddPtrOp::create(builder, loc, ptr.getType(), ptr, steps);
    }
    setLayout(ptr, *cta::layoutOf(block.tile));
    return ptr;
  }

  /// The address of the block's first element.
  Value start() {
    Value ptr = view.getPtr();
    for (auto [offset, stride] : llvm::zip_equal(block.offsets, view.getStrides())) {
      Value steps = wide(offset), length = wide(stride);
      ptr = tile::AddPtrOp::create(builder, loc, ptr.getType(), ptr,
                                   arith::MulIOp::create(builder, loc, steps, length));
    }
    return ptr;
  }

  /// How many elements from there each one is, in 32 bits.
  Value offsets() {
    Value sum;
    SmallVector<int64_t> extents(shape.size(), 1);
    for (unsigned d = 0; d < shape.size(); ++d) {
      extents[d] = shape[d];
      Value steps = range(d);
      if (Value stride = view.getStrides()[d]; !matchPattern(stride, m_One()))
        steps = tile::createToFit<arith::MulIOp>(
            builder, loc, steps,
            tile::SplatOp::create(builder, loc, steps.getType(), narrow(stride)));
      steps = along(d, steps, extents);
      sum = sum ? tile::createToFit<arith::AddIOp>(builder, loc, broadcast(sum, extents), steps)
                : steps;
    }
    setLayout(sum, *cta::layoutOf(block.tile));
    return sum;
  }

  /// Where `0 <= index < extent` in every dimension, and `when` holds; null where that is known.
  Value mask() {
    Value all;
    auto require = [&](Value condition) {
      all = all ? Value(arith::AndIOp::create(builder, loc, all, condition)) : condition;
    };
    for (unsigned d = 0; d < shape.size(); ++d) {
      Value offset = wide(block.offsets[d]), inside;
      const Interval offsets = known.offsets[d]->place;
      if (known.mayBeBeyond(d)) {
        Value extent = wide(view.getExtents()[d]);
        Value left = arith::SubIOp::create(builder, loc, extent, offset);
        const Interval extents = known.extents[d]->place;
        inside = compare(arith::CmpIPredicate::slt, d, left,
                         {extents.low - offsets.high, extents.high - offsets.low});
      }
      if (known.mayBeBelow(d)) {
        Value before = arith::SubIOp::create(builder, loc, number(0), offset);
        Value notBelow =
            compare(arith::CmpIPredicate::sge, d, before, {-offsets.high, -offsets.low});
        inside = inside ? Value(arith::AndIOp::create(builder, loc, inside, notBelow)) : notBelow;
      }
      if (inside)
        require(along(d, inside, shape));
    }
    if (block.when)
      require(tile::SplatOp::create(builder, loc, RankedTensorType::get(shape, builder.getI1Type()),
                                    block.when));
    if (all)
      setLayout(all, *cta::layoutOf(block.tile));
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

  /// As 32 bits, which are enough.
  Value narrow(Value scalar) {
    return scalar.getType().isInteger(64)
               ? Value(arith::TruncIOp::create(builder, loc, builder.getI32Type(), scalar))
           : scalar.getType().isInteger(32)
               ? scalar
               : Value(arith::ExtSIOp::create(builder, loc, builder.getI32Type(), scalar));
  }

  /// What is said along a dimension, of all elements of a shape.
  Value along(unsigned d, Value line, ArrayRef<int64_t> extents) {
    return broadcast(tile::alongDim(builder, loc, line, d, shape.size()), extents);
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

  /// Compares 0 … n-1 with a number in 32 bits. Where the number may have more, it is first
  /// clamped to 0 … n.
  Value compare(arith::CmpIPredicate predicate, unsigned d, Value bound, Interval interval) {
    if (!interval.fits(32)) {
      bound = arith::MaxSIOp::create(builder, loc, bound, number(0));
      bound = arith::MinSIOp::create(builder, loc, bound, number(shape[d]));
    }
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
  const ViewBlock &block;
  tile::MakeViewOp view;
  const BlockContiguity &known;
  ArrayRef<int64_t> shape;
};

/// Offsets in a buffer are less than this, in bytes.
constexpr Interval::Number bufferBytes = Interval::Number(1) << 31;

/// Why a block is not accessed at 32-bit offsets from its first element; empty when it can be.
std::string whyNotBuffer(Operation *op, const ViewBlock &block, const BlockContiguity &known) {
  auto isPlain = [](auto access) { return access.getCache() != tile::Cache::Volatile; };
  if (!llvm::TypeSwitch<Operation *, bool>(op)
           .Case<tile::LoadBlockOp, tile::StoreBlockOp>(isPlain)
           .Default([](Operation *) { return false; }))
    return "it is atomic or volatile";
  const int64_t bytes = cta::elementBytes(block.tile);
  Interval::Number reach = bytes;
  for (auto [extent, stride] : llvm::zip_equal(block.shape(), known.strides)) {
    if (extent > 1 && !stride->place.isNonNegative())
      return "a stride may be negative";
    reach += (extent - 1) * stride->place.high * bytes;
  }
  return reach > bufferBytes ? "strides are not known to be so small that offsets fit 31 bits" : "";
}

struct LowerViews : sectile::impl::LowerViewsBase<LowerViews> {
  void runOnOperation() override {
    FailureOr<Target> found = targetOf(getOperation());
    if (failed(found) || failed(checkLayouts(getOperation(), *found)))
      return signalPassFailure();
    target = *found;
    said.clear();
    const auto &contiguity = getAnalysis<ContiguityAnalysis>();
    SmallVector<Operation *> accesses;
    getOperation().walk([&](Operation *op) {
      if (blockOf(op))
        accesses.push_back(op);
    });
    for (Operation *op : accesses)
      if (auto copy = dyn_cast<cta::TensorCopyBlockOp>(op); copy && !copy.getBarriers()) {
        copy.emitOpError("signals nobody yet: channels have to be lowered before");
        return signalPassFailure();
      }
    fenceEngine(getOperation());
    for (Operation *op : accesses)
      lower(op, *blockOf(op), contiguity);
    eraseDeadCode(getOperation());
  }

  void lower(Operation *op, const ViewBlock &block, const ContiguityAnalysis &contiguity) {
    if (auto copy = dyn_cast<cta::TensorCopyBlockOp>(op))
      return lower(copy, block);
    if (auto store = dyn_cast<cta::TensorStoreBlockOp>(op))
      return lower(store, block);
    OpBuilder builder(op);
    const BlockContiguity known = block.contiguity(contiguity);
    Addressing addressing(builder, op->getLoc(), block, known);
    if (target.bufferAccess) {
      std::string why = whyNotBuffer(op, block, known);
      if (why.empty()) {
        Value base = addressing.start();
        Value offsets = ofBlock(builder, block, addressing.offsets());
        replaceByBuffer(builder, op, base, offsets, addressing.mask());
        op->erase();
        return;
      }
      // Once for all that a loop was made of.
      if (said.insert(op->getLoc()).second)
        op->emitRemark("this access goes by pointers, not by offsets in a buffer: ") << why;
    }
    // In this order whatever the host compiler: the order of arguments is not the language's to
    // say.
    Value pointers = ofBlock(builder, block, addressing.pointers());
    Value mask = addressing.mask();
    llvm::TypeSwitch<Operation *>(op)
        .Case<tile::LoadBlockOp, tile::StoreBlockOp, tile::AtomicBlockOp, cta::AsyncCopyBlockOp>(
            [&](auto access) { replace(builder, access, pointers, mask); });
    op->erase();
  }

  /// What an access goes by, with its block where barriers may follow from that.
  static Value ofBlock(OpBuilder &builder, const ViewBlock &block, Value tile) {
    tile::MakeViewOp view = block.view;
    if (!hasDistinctElements(view))
      return tile;
    return cta::OfBlockOp::create(builder, tile.getLoc(), tile.getType(), tile, view.getPtr(),
                                  view.getExtents(), view.getStrides(), block.offsets);
  }

  void lower(cta::TensorCopyBlockOp copy, const ViewBlock &block) {
    OpBuilder builder(copy);
    auto [map, coordinates] = placeOf(copy, block);
    cta::TensorCopyOp::create(builder, copy.getLoc(), map, coordinates, copy.getBuffer(),
                              copy.getBarriers(), copy.getIndex(), copy.getWhen(), copy.getFilled(),
                              copy.getExpects(), copy.getShared());
    copy.erase();
  }

  void lower(cta::TensorStoreBlockOp store, const ViewBlock &block) {
    OpBuilder builder(store);
    auto [map, coordinates] = placeOf(store, block);
    cta::TensorStoreOp::create(builder, store.getLoc(), map, coordinates, store.getBuffer(),
                               store.getAdds());
    store.erase();
  }

  /// The tensor map of a block that the copy engine moves, and the block's coordinates there.
  template <class Op>
  std::pair<Value, SmallVector<Value>> placeOf(Op access, const ViewBlock &block) {
    const cta::BufferType buffer = access.getBuffer().getType();
    TensorBoxes boxes = *planTensorBoxes(buffer.getLayout().getLayout(), cta::elementBits(buffer));
    if constexpr (std::is_same_v<Op, cta::TensorCopyBlockOp>)
      if (access.getShared())
        boxes = boxes.half()->first;
    // The view's dimensions in the order of the map's, and what a box has of each.
    SmallVector<unsigned> order;
    SmallVector<int64_t> extents{boxes.line};
    unsigned leading = access.getOffsets().size();
    if (std::optional<ArrayRef<int64_t>> lines = access.getLines()) {
      order.push_back(--leading);
      for (int64_t extent : llvm::reverse(*lines)) {
        order.push_back(--leading);
        extents.push_back(extent);
      }
    } else if (buffer.getShape().size() == 1) {
      order.push_back(--leading);
    } else {
      leading -= 2;
      llvm::append_values(order, leading + boxes.fastest, leading + 1 - boxes.fastest);
      extents.push_back(boxes.rows);
    }
    while (leading-- > 0)
      order.push_back(leading);
    extents.resize(order.size(), 1);
    SmallVector<Value> coordinates;
    for (unsigned d : order)
      coordinates.push_back(access.getOffsets()[d]);
    auto number = TensorNumber::Bits;
    constexpr bool isWritten = std::is_same_v<Op, cta::TensorStoreBlockOp>;
    if constexpr (isWritten)
      if (access.getAdds())
        number = *cta::addedAs(buffer.getElement());
    return {mapOf(block, boxes.swizzle, order, extents, number, isWritten), coordinates};
  }

  /// The argument that is the tensor map of a view.
  Value mapOf(const ViewBlock &block, unsigned swizzle, ArrayRef<unsigned> order,
              ArrayRef<int64_t> box, TensorNumber number, bool isWritten) {
    func::FuncOp kernel = getOperation();
    tile::MakeViewOp view = block.view;
    cta::TensorMap map;
    map.pointer = cast<BlockArgument>(view.getPtr()).getArgNumber();
    map.elementBytes = cta::elementBytes(block.tile);
    map.number = number;
    map.swizzle = swizzle;
    map.isWritten = isWritten;
    for (unsigned d : order)
      map.extents.push_back(*cta::givenToLaunch(view.getExtents()[d]));
    for (unsigned d : order.drop_front())
      map.strides.push_back(*cta::givenToLaunch(view.getStrides()[d]));
    map.box.assign(box.begin(), box.end());
    Attribute attribute = map.toAttribute(&getContext());
    for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
      if (kernel.getArgAttr(i, cta::tensorMapAttr) == attribute)
        return kernel.getArgument(i);
    const unsigned added = kernel.getNumArguments();
    (void)kernel.insertArgument(added, cta::TensorMapType::get(&getContext()), DictionaryAttr(),
                                view.getLoc());
    kernel.setArgAttr(added, cta::tensorMapAttr, attribute);
    return kernel.getArgument(added);
  }

  static Value paddingOf(OpBuilder &builder, tile::LoadBlockOp op, Value mask) {
    auto padding = op.getPaddingAttr();
    if (!padding || !mask)
      return {};
    return arith::ConstantOp::create(builder, op.getLoc(),
                                     DenseElementsAttr::get(op.getType(), Attribute(padding)));
  }

  static void replaceByBuffer(OpBuilder &builder, Operation *op, Value base, Value offsets,
                              Value mask) {
    if (auto store = dyn_cast<tile::StoreBlockOp>(op)) {
      cta::BufferStoreOp::create(builder, op->getLoc(), base, offsets, store.getValue(), mask,
                                 store.getCache(), store.getEviction(), /*vector=*/IntegerAttr());
      return;
    }
    auto load = cast<tile::LoadBlockOp>(op);
    Value other = paddingOf(builder, load, mask);
    auto made = cta::BufferLoadOp::create(builder, op->getLoc(), load.getType(), base, offsets,
                                          mask, other, load.getCache(), load.getEviction(),
                                          /*vector=*/IntegerAttr());
    load.replaceAllUsesWith(made.getResult());
  }

  void replace(OpBuilder &builder, tile::LoadBlockOp op, Value ptr, Value mask) {
    Value other = paddingOf(builder, op, mask);
    auto load = tile::LoadOp::create(builder, op.getLoc(), op.getType(), ptr, mask, other,
                                     op.getCache(), op.getEviction(),
                                     /*isVolatile=*/isVolatileLoad(op),
                                     /*vector=*/IntegerAttr());
    op.replaceAllUsesWith(load.getResult());
  }

  void replace(OpBuilder &builder, tile::AtomicBlockOp op, Value ptr, Value mask) {
    auto atomic = tile::AtomicRMWOp::create(builder, op.getLoc(), op.getType(), op.getKind(), ptr,
                                            op.getValue(), mask, op.getOrder(), op.getScope(),
                                            /*vector=*/IntegerAttr());
    op.replaceAllUsesWith(atomic.getResult());
  }

  void replace(OpBuilder &builder, tile::StoreBlockOp op, Value ptr, Value mask) {
    tile::StoreOp::create(builder, op.getLoc(), ptr, op.getValue(), mask, op.getCache(),
                          op.getEviction(),
                          /*vector=*/IntegerAttr());
  }

  void replace(OpBuilder &builder, cta::AsyncCopyBlockOp op, Value ptr, Value mask) {
    cta::AsyncCopyOp::create(builder, op.getLoc(), ptr, op.getBuffer(), mask, op.getFilled(),
                             op.getCache(), op.getEviction(), op.getVectorAttr());
  }

  Target target;
  DenseSet<Location> said; ///< where a remark was made
};

} // namespace
