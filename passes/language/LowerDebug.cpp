// Assertions and prints become entries of a log, whose address and whose number for the launch are
// two more arguments of the kernel. What they say stays behind as an attribute; the device writes
// the number of the site and the values.
//
// A tile's condition is reduced to the number of its first element that does not hold. A printed
// tile is stored to the place that a record was given, element by element in row-major order.
#include "passes/Passes.h"
#include "passes/checks/Check.h"
#include "runtime/DebugLog.h"

namespace sectile {
#define GEN_PASS_DEF_LOWERDEBUG
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// An element as the log holds it.
Type storedType(Type element) {
  return element.isInteger(1) ? IntegerType::get(element.getContext(), 8) : element;
}

int64_t bytesOf(Type type) {
  return llvm::product_of(tile::shapeOf(type)) * cta::elementBytes(type);
}

class Lowering {
public:
  Lowering(Operation *op, unsigned site, Value log, Value launch)
      : builder(op), loc(op->getLoc()), site(site), log(log), launch(launch) {}

  void lower(tile::AssertOp op) {
    Value condition = op.getCondition(), index;
    if (isa<RankedTensorType>(condition.getType())) {
      index = firstFailure(condition);
      condition = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, index,
                                        number(builder.getI32Type(), none));
    }
    cta::AssertOp::create(builder, loc, condition, log, launch, site, index);
  }

  void lower(tile::PrintOp op) {
    SmallVector<int32_t> starts;
    SmallVector<Type> types;
    int64_t bytes = 0;
    for (Value value : op.getValues()) {
      starts.push_back(bytes);
      types.push_back(tile::PtrType::get(storedType(tile::elementType(value.getType()))));
      bytes += debuglog::aligned(bytesOf(value.getType()));
    }
    auto record = cta::RecordOp::create(builder, loc, builder.getI1Type(), types, log, launch, site,
                                        bytes + sizeof(debuglog::Record), starts, IntegerAttr());
    for (auto [value, place] : llvm::zip_equal(op.getValues(), record.getValues()))
      store(value, place, record.getFits());
  }

private:
  static constexpr int64_t none = std::numeric_limits<int32_t>::max();

  Value number(Type type, int64_t value) {
    TypedAttr attr = builder.getIntegerAttr(tile::elementType(type), value);
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      attr = DenseElementsAttr::get(tensor, Attribute(attr));
    return arith::ConstantOp::create(builder, loc, attr);
  }

  /// The number of each element of a tile, in row-major order.
  Value numbering(ArrayRef<int64_t> shape) {
    Type i32 = builder.getI32Type();
    auto whole = RankedTensorType::get(shape, i32);
    Value sum;
    int64_t stride = 1;
    for (int64_t d = std::ssize(shape) - 1; d >= 0; stride *= shape[d--]) {
      SmallVector<int64_t> extents = {shape[d]};
      Value along = tile::ArangeOp::create(builder, loc, RankedTensorType::get(extents, i32), 0);
      if (stride > 1) {
        Value factor = number(along.getType(), stride);
        along = arith::MulIOp::create(builder, loc, along, factor);
      }
      for (int64_t axis = 0; axis < std::ssize(shape); ++axis) {
        if (axis == d)
          continue;
        extents.insert(extents.begin() + axis, 1);
        along = tile::ExpandDimsOp::create(builder, loc, RankedTensorType::get(extents, i32), along,
                                           axis);
      }
      if (along.getType() != whole)
        along = tile::BroadcastOp::create(builder, loc, whole, along);
      sum = sum ? Value(arith::AddIOp::create(builder, loc, sum, along)) : along;
    }
    return sum;
  }

  /// The number of the first element that does not hold, or `none`.
  Value firstFailure(Value condition) {
    ArrayRef<int64_t> shape = tile::shapeOf(condition.getType());
    Type i32 = builder.getI32Type();
    Value numbers = numbering(shape);
    Value fine = number(numbers.getType(), none);
    Value first = arith::SelectOp::create(builder, loc, condition, fine, numbers);
    for (int64_t axis = std::ssize(shape) - 1; axis >= 0; --axis) {
      Type type = axis ? Type(RankedTensorType::get(shape.take_front(axis), i32)) : i32;
      auto reduce = tile::ReduceOp::create(builder, loc, type, first, axis);
      OpBuilder::InsertionGuard guard(builder);
      Block *body = builder.createBlock(&reduce.getCombiner());
      Value left = body->addArgument(i32, loc), right = body->addArgument(i32, loc);
      Value least = arith::MinSIOp::create(builder, loc, left, right);
      tile::YieldOp::create(builder, loc, least);
      first = reduce.getResult(0);
    }
    return first;
  }

  void store(Value value, Value place, Value fits) {
    ArrayRef<int64_t> shape = tile::shapeOf(value.getType());
    Type type =
        tile::withElementType(value.getType(), storedType(tile::elementType(value.getType())));
    if (type != value.getType())
      value = arith::ExtUIOp::create(builder, loc, type, value);
    if (!shape.empty()) {
      Value numbers = numbering(shape);
      place =
          tile::SplatOp::create(builder, loc, RankedTensorType::get(shape, place.getType()), place);
      place = tile::AddPtrOp::create(builder, loc, place.getType(), place, numbers);
      fits =
          tile::SplatOp::create(builder, loc, RankedTensorType::get(shape, fits.getType()), fits);
    }
    tile::StoreOp::create(builder, loc, place, value, fits, tile::Cache::Default,
                          tile::Eviction::Normal, /*vector=*/IntegerAttr());
  }

  OpBuilder builder;
  Location loc;
  unsigned site;
  Value log, launch;
};

DictionaryAttr describe(Operation *op) {
  Builder builder(op->getContext());
  NamedAttrList site;
  site.set("loc", LocationAttr(op->getLoc()));
  if (auto check = dyn_cast<tile::AssertOp>(op)) {
    site.set("text", check.getMessageAttr());
    site.set("shape", builder.getDenseI64ArrayAttr(tile::shapeOf(check.getCondition().getType())));
    return site.getDictionary(op->getContext());
  }
  auto print = cast<tile::PrintOp>(op);
  site.set("text", print.getPrefixAttr());
  if (print.getHex())
    site.set("hex", builder.getUnitAttr());
  if (print.getIsUnsignedAttr())
    site.set("unsigned", print.getIsUnsignedAttr());
  site.set("values", builder.getTypeArrayAttr(SmallVector<Type>(print.getValues().getTypes())));
  return site.getDictionary(op->getContext());
}

struct LowerDebug : sectile::impl::LowerDebugBase<LowerDebug> {
  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    if (failed(checkBare(kernel)))
      return signalPassFailure();
    SmallVector<Operation *> ops;
    kernel.walk([&](Operation *op) {
      if (isa<tile::AssertOp, tile::PrintOp>(op))
        ops.push_back(op);
    });
    if (ops.empty())
      return;
    if (kernel->hasAttr(StringRef(debuglog::withoutAttr))) {
      for (Operation *op : ops)
        op->erase();
      return;
    }

    Builder builder(&getContext());
    Type types[] = {tile::PtrType::get(builder.getI8Type()), builder.getI64Type()};
    for (Type type : types)
      if (failed(kernel.insertArgument(kernel.getNumArguments(), type, {}, kernel.getLoc())))
        return signalPassFailure();
    Value log = kernel.getArguments().end()[-2], launch = kernel.getArguments().back();
    SmallVector<Attribute> sites;
    for (Operation *op : ops) {
      Lowering lowering(op, sites.size(), log, launch);
      sites.push_back(describe(op));
      if (auto check = dyn_cast<tile::AssertOp>(op))
        lowering.lower(check);
      else
        lowering.lower(cast<tile::PrintOp>(op));
      op->erase();
    }
    kernel->setAttr(StringRef(debuglog::sitesAttr), builder.getArrayAttr(sites));
  }
};

} // namespace
