// Random changes of shapes and combinations of elements.
#include "tests/fuzz/programs/Generator.h"

using namespace mlir;

namespace sectile::fuzz {

Value Generator::reshaped(Value tile) {
  Shape shape(shapeOf(tile));
  Type element = elementOf(tile);
  switch (pick(4)) {
  case 0: {
    SmallVector<int32_t> order = llvm::to_vector(llvm::seq<int32_t>(0, shape.size()));
    std::shuffle(order.begin(), order.end(), random);
    Shape to;
    for (int32_t axis : order)
      to.push_back(shape[axis]);
    return op<tile::PermuteOp>(tileOf(to, element), tile, ArrayRef<int32_t>(order));
  }
  case 1: {
    if (shape.size() == 3)
      return reduced(tile);
    unsigned axis = pick(shape.size() + 1);
    shape.insert(shape.begin() + axis, 1);
    Value expanded = op<tile::ExpandDimsOp>(tileOf(shape, element), tile, axis);
    shape[axis] = oneOf(extents);
    if (llvm::product_of(shape) > 4096)
      return expanded;
    return op<tile::BroadcastOp>(tileOf(shape, element), expanded);
  }
  case 2:
    return op<tile::ReshapeOp>(tileOf({llvm::product_of(shape)}, element), tile);
  default: {
    // Along other extents of the same product.
    std::shuffle(shape.begin(), shape.end(), random);
    if (shape.size() > 1 && coin()) {
      shape[0] *= shape.back();
      shape.pop_back();
    }
    return op<tile::ReshapeOp>(tileOf(shape, element), tile);
  }
  }
}

/// What combines the elements of a kind: associative, and commutative but for floats' sums. The
/// last kind takes the greatest of the first tile, and what the second has there.
SmallVector<Value> Generator::combiner(Block &block, Type element, unsigned kind) {
  Value x = block.getArgument(0), y = block.getArgument(block.getNumArguments() / 2);
  if (isa<FloatType>(element)) {
    if (kind == 0 && !options.exact)
      return {op<arith::AddFOp>(x, y)};
    if (kind % 2)
      return {op<arith::MaximumFOp>(x, y)};
    return {op<tile::MinimumNumberOp>(x, y)};
  }
  switch (kind) {
  case 0:
    return {element.isInteger(1) ? op<arith::OrIOp>(x, y) : op<arith::AddIOp>(x, y)};
  case 1:
    return {op<arith::MaxSIOp>(x, y)};
  case 2:
    return {op<arith::XOrIOp>(x, y)};
  case 3:
    return {op<arith::MinUIOp>(x, y)};
  case 4:
    return {op<arith::AndIOp>(x, y)};
  default: {
    // The greatest, and among equals the least companion: the same in every order.
    Value xi = block.getArgument(1), yi = block.getArgument(3);
    Value more = op<arith::CmpIOp>(arith::CmpIPredicate::sgt, x, y);
    Value same = op<arith::CmpIOp>(arith::CmpIPredicate::eq, x, y);
    Value less = op<arith::CmpIOp>(arith::CmpIPredicate::slt, xi, yi);
    Value first = op<arith::AndIOp>(same, less);
    Value take = op<arith::OrIOp>(more, first);
    Value greatest = op<arith::SelectOp>(take, x, y);
    Value companion = op<arith::SelectOp>(take, xi, yi);
    return {greatest, companion};
  }
  }
}

void Generator::addCombiner(Region &region, ValueRange sources, unsigned kind) {
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(&region);
  for (unsigned side = 0; side < 2; ++side)
    for (Value source : sources)
      block->addArgument(elementOf(source), loc);
  SmallVector<Value> yields = combiner(*block, elementOf(sources[0]), kind);
  tile::YieldOp::create(builder, loc, yields);
}

/// A tile to combine along an axis, or two for the last kinds.
static bool takesTwo(unsigned kind, Type element) { return kind > 4 && isa<IntegerType>(element); }

Value Generator::reduced(Value tile) {
  if (isSmallFloat(elementOf(tile)))
    tile = cast(tile, someFloat());
  Shape shape(shapeOf(tile));
  unsigned axis = pick(shape.size()), kind = pick(7);
  SmallVector<Value> sources = {tile};
  if (takesTwo(kind, elementOf(tile))) {
    Type companion = someInteger();
    sources.push_back(someTileOf(shape, companion));
  }
  shape.erase(shape.begin() + axis);
  SmallVector<Type> results;
  for (Value source : sources)
    results.push_back(shape.empty() ? elementOf(source) : Type(tileOf(shape, elementOf(source))));
  auto reduce = tile::ReduceOp::create(builder, loc, results, sources, axis);
  addCombiner(reduce.getCombiner(), sources, kind);
  Value result = reduce.getResult(pick(sources.size()));
  // A single number becomes one of the scalars, or a tile of them.
  if (!shape.empty())
    return result;
  Value scalar = cast(result, i32());
  if (coin())
    return scalar;
  return splat(result, someShape());
}

Value Generator::scanned(Value tile) {
  if (isSmallFloat(elementOf(tile)))
    tile = cast(tile, someFloat());
  ArrayRef<int64_t> shape = shapeOf(tile);
  unsigned axis = pick(shape.size()), kind = pick(7);
  SmallVector<Value> sources = {tile};
  if (takesTwo(kind, elementOf(tile))) {
    Type companion = someInteger();
    sources.push_back(someTileOf(shape, companion));
  }
  auto scan = tile::ScanOp::create(builder, loc, TypeRange(ValueRange(sources)), sources, axis,
                                   /*reverse=*/coin(), /*scratch=*/IntegerAttr());
  addCombiner(scan.getCombiner(), sources, kind);
  return scan.getResult(pick(sources.size()));
}

/// Joins, splits, and gathers along an axis.
Value Generator::moved(Value tile) {
  Shape shape(shapeOf(tile));
  Type element = elementOf(tile);
  bool even = shape.back() == 2;
  switch (pick(even ? 4 : 2)) {
  case 0: {
    if (shape.size() == 3)
      return reduced(tile);
    Value other = someTileOf(shape, element);
    shape.push_back(2);
    return op<tile::JoinOp>(tileOf(shape, element), tile, other);
  }
  case 1: {
    unsigned axis = pick(shape.size());
    int64_t from = shape[axis];
    if (coin()) {
      shape[axis] = oneOf(extents);
      if (llvm::product_of(shape) > 4096)
        shape[axis] = from;
    }
    // Remainders by a power of two within the axis.
    Value indices = someTileOf(shape, i32());
    indices =
        op<arith::AndIOp>(indices, constant(shape, i32(), llvm::bit_floor(uint64_t(from)) - 1));
    return op<tile::GatherOp>(tileOf(shape, element), tile, indices, axis, IntegerAttr());
  }
  default: {
    shape.pop_back();
    if (shape.empty())
      return reduced(tile);
    Type half = tileOf(shape, element);
    auto split = tile::SplitOp::create(builder, loc, half, half, tile);
    return split->getResult(pick(2));
  }
  }
}

Value Generator::histogram(Value tile) {
  ArrayRef<int64_t> shape = shapeOf(tile);
  Value numbers = cast(tile, i32());
  if (coin())
    numbers = op<arith::AndIOp>(numbers, constant(shape, i32(), 31));
  Value mask = coin() ? someMask(shape) : Value();
  static constexpr int64_t bins[] = {1, 2, 8, 16, 32, 48, 128};
  return op<tile::HistogramOp>(tileOf({oneOf(bins)}, i32()), numbers, Value(), mask, IntegerAttr());
}

} // namespace sectile::fuzz
