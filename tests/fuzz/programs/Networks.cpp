// Random steps of sorting networks, and functions of single elements that branch and loop.
#include "tests/fuzz/programs/Generator.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace sectile::fuzz {

/// What the element at the position ^ distance along an axis has: both, combined by xor, less the
/// own.
Value Generator::partnerOf(Value tile, unsigned axis, int64_t distance) {
  ArrayRef<int64_t> shape = shapeOf(tile);
  Type element = elementOf(tile);
  SmallVector<int64_t> pairs(shape.take_front(axis));
  pairs.append({shape[axis] / (2 * distance), 2, distance});
  pairs.append(shape.begin() + axis + 1, shape.end());
  SmallVector<int64_t> reduced(pairs), kept(pairs);
  reduced.erase(reduced.begin() + axis + 1);
  kept[axis + 1] = 1;
  Value split = op<tile::ReshapeOp>(tileOf(pairs, element), tile);
  auto both = tile::ReduceOp::create(builder, loc, TypeRange{tileOf(reduced, element)},
                                     ValueRange{split}, axis + 1);
  {
    OpBuilder::InsertionGuard guard(builder);
    Block *block = builder.createBlock(&both.getCombiner(), {}, {element, element}, {loc, loc});
    Value sum = op<arith::XOrIOp>(block->getArgument(0), block->getArgument(1));
    tile::YieldOp::create(builder, loc, sum);
  }
  Value again = op<tile::ExpandDimsOp>(tileOf(kept, element), both.getResult(0), axis + 1);
  again = op<tile::BroadcastOp>(tileOf(pairs, element), again);
  Value other = op<arith::XOrIOp>(again, split);
  return op<tile::ReshapeOp>(tile.getType(), other);
}

/// Partners exchange elements as in a bitonic network: all of its steps, or only some.
Value Generator::sorted(Value tile) {
  Shape shape(shapeOf(tile));
  unsigned axis = pick(shape.size());
  int64_t extent = shape[axis], run = 1;
  while (extent % (2 * run) == 0 && run < 32)
    run *= 2;
  if (run == 1)
    return moved(tile);
  if (!isa<IntegerType>(elementOf(tile)) || elementOf(tile).isInteger(1))
    tile = cast(tile, someInteger());
  bool whole = coin(), withCompanion = coin();
  Value at = range(shape, axis, 0), companion = at;
  auto isZero = [&](int64_t bit) -> Value {
    Value masked = op<arith::AndIOp>(at, constant(shape, i32(), bit));
    Value zero = constant(shape, i32(), 0);
    return op<arith::CmpIOp>(arith::CmpIPredicate::eq, masked, zero);
  };
  for (int64_t size = 2; size <= run; size *= 2)
    for (int64_t distance = size / 2; distance > 0; distance /= 2) {
      if (!whole && pick(3))
        continue;
      Value other = partnerOf(tile, axis, distance);
      Value lower = isZero(distance), upwards = isZero(size);
      Value takesSmaller = op<arith::CmpIOp>(arith::CmpIPredicate::eq, lower, upwards);
      if (!withCompanion) {
        Value low = op<arith::MinUIOp>(tile, other), high = op<arith::MaxUIOp>(tile, other);
        tile = op<arith::SelectOp>(takesSmaller, low, high);
        continue;
      }
      Value place = partnerOf(companion, axis, distance);
      Value less = op<arith::CmpIOp>(arith::CmpIPredicate::ult, tile, other);
      Value equal = op<arith::CmpIOp>(arith::CmpIPredicate::eq, tile, other);
      Value before = op<arith::CmpIOp>(arith::CmpIPredicate::ult, companion, place);
      Value first = op<arith::AndIOp>(equal, before);
      Value smaller = op<arith::OrIOp>(less, first);
      Value stays = op<arith::CmpIOp>(arith::CmpIPredicate::eq, smaller, takesSmaller);
      tile = op<arith::SelectOp>(stays, tile, other);
      companion = op<arith::SelectOp>(stays, companion, place);
    }
  if (withCompanion && coin())
    tile = companion;
  // The first ones of each.
  if (int64_t first = oneOf(extents); first < extent && coin()) {
    shape[axis] = first;
    Value places = range(shape, axis, 0);
    return op<tile::GatherOp>(tileOf(shape, elementOf(tile)), tile, places, axis, IntegerAttr());
  }
  return tile;
}

/// Some arithmetic on the scalars that `tiles` has, the last of which is `first`'s type.
Value Generator::mapBody(Value first) {
  for (unsigned i = 1 + pick(3); i-- > 0;) {
    Value x = oneOf(tiles);
    Value y = coin() ? change(x) : combine(x, someTileOf({}, elementOf(x)));
    tiles.push_back(y);
  }
  return someTileOf({}, first.getType());
}

/// A function of one or two tiles' elements, each of which goes its own way.
Value Generator::mapped(Value tile) {
  if (llvm::product_of(shapeOf(tile)) > 1024)
    return change(tile);
  SmallVector<Value> sources = {tile};
  if (coin())
    sources.push_back(someTileOf(shapeOf(tile), someElement()));
  Type element = coin() ? elementOf(tile) : someElement();
  auto map = tile::MapOp::create(builder, loc, TypeRange{tileOf(shapeOf(tile), element)}, sources);
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(&map.getFunction());
  std::vector<Value> outerTiles, outerScalars = scalars;
  std::swap(tiles, outerTiles);
  for (Value source : sources)
    tiles.push_back(block->addArgument(elementOf(source), loc));
  Value result = mapBody(cast(tiles.front(), element));
  std::vector<Value> inFunction = tiles;
  if (coin()) {
    Value condition = someMask({});
    auto branch = scf::IfOp::create(builder, loc, TypeRange{element}, condition,
                                    /*withElseRegion=*/true);
    for (Block *side : {branch.thenBlock(), branch.elseBlock()}) {
      OpBuilder::InsertionGuard inner(builder);
      builder.setInsertionPointToEnd(side);
      Value yielded = mapBody(result);
      scf::YieldOp::create(builder, loc, yielded);
      tiles = inFunction;
    }
    result = branch.getResult(0);
  }
  if (coin()) {
    Value trips = cast(oneOf(tiles), i32());
    trips = op<arith::AndIOp>(trips, number(3));
    Value none = number(0), step = number(1);
    auto loop = scf::ForOp::create(builder, loc, none, trips, step, ValueRange{result});
    OpBuilder::InsertionGuard inner(builder);
    builder.setInsertionPointToStart(loop.getBody());
    tiles.push_back(loop.getRegionIterArg(0));
    Value yielded = mapBody(result);
    scf::YieldOp::create(builder, loc, yielded);
    tiles = inFunction;
    result = loop.getResult(0);
  }
  tile::YieldOp::create(builder, loc, result);
  tiles = outerTiles;
  scalars = outerScalars;
  return map.getResult(0);
}

} // namespace sectile::fuzz
