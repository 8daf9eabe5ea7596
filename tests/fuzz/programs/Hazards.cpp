// Random work in memory that takes more than one step: pointers that are chosen and exchanged,
// loops whose iterations meet in memory, scratch memory of pipelined loops, and promises about
// numbers that change.
#include "tests/fuzz/programs/Generator.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace sectile::fuzz {

/// How a loop is compiled.
void Generator::hintAt(Operation *loop) {
  if (pick(2) == 0)
    loop->setAttr("cta.stages", builder.getI32IntegerAttr(1 + pick(4)));
  if (pick(4) == 0)
    loop->setAttr("cta.unroll", builder.getI32IntegerAttr(1 + pick(4)));
}

//===-- Pointers ------------------------------------------------------------------------------===//

/// Pointers of one arena or another, and work through what came of it and through both.
void Generator::choosePointers(const Arena &arena) {
  const Arena other = siblingOf(arena);
  Value a = someScalar(), b = lateNumber();
  Value first = op<arith::CmpIOp>(arith::CmpIPredicate::slt, a, b);
  Arena chosen = arena;
  switch (pick(3)) {
  case 0:
    chosen.base = op<arith::SelectOp>(first, arena.base, other.base);
    break;
  case 1: {
    auto branch = scf::IfOp::create(builder, loc, TypeRange{arena.base.getType()}, first,
                                    /*withElseRegion=*/true);
    for (auto [block, side] :
         {std::pair(branch.thenBlock(), &arena), std::pair(branch.elseBlock(), &other)}) {
      OpBuilder::InsertionGuard guard(builder);
      std::vector<Value> outerTiles = tiles, outerScalars = scalars;
      std::vector<Arena> outerArenas = arenas;
      builder.setInsertionPointToEnd(block);
      if (coin())
        memoryStep(2);
      scf::YieldOp::create(builder, loc, side->base);
      tiles = outerTiles;
      scalars = outerScalars;
      arenas = outerArenas;
    }
    chosen.base = branch.getResult(0);
    break;
  }
  default: {
    // Element by element.
    Shape shape = shapeWithin(arena);
    Places places = distinct(shape, arena.elements);
    Value left = pointers(arena, places.index), right = pointers(other, places.index);
    Value which = someMask(shape);
    Value ptr = op<arith::SelectOp>(which, left, right);
    Value loaded = op<tile::LoadOp>(ptr, places.mask);
    Value value = combine(loaded, someTileOf(shape, arena.element));
    tile::StoreOp::create(builder, loc, ptr, value, places.mask);
    return observe(read(coin() ? arena : other, shape));
  }
  }
  Shape shape = shapeWithin(arena);
  write(chosen, someTileOf(shape, arena.element));
  observe(read(coin() ? arena : other, shape));
  if (coin())
    moveStep(chosen);
  arenas.push_back(chosen);
}

/// Two pointers, or tiles of them, that each iteration exchanges.
void Generator::swapInLoop(const Arena &arena) {
  const Arena other = siblingOf(arena);
  Shape shape = shapeWithin(arena);
  Value first = number(0), last = lateNumber(), step = number(1);
  if (coin())
    last = number(1 + pick(7));
  else
    last = op<arith::AndIOp>(last, number(7));
  const bool ofTiles = pick(3) == 0;
  Value left = arena.base, right = other.base, mask;
  if (ofTiles) {
    Places places = distinct(shape, arena.elements), more = distinct(shape, arena.elements);
    left = pointers(arena, places.index);
    right = pointers(other, more.index);
    mask = places.mask && more.mask ? Value(op<arith::AndIOp>(places.mask, more.mask))
           : places.mask            ? places.mask
                                    : more.mask;
  }
  auto loop = scf::ForOp::create(builder, loc, first, last, step, ValueRange{left, right});
  hintAt(loop);
  std::vector<Value> outerTiles = tiles, outerScalars = scalars;
  std::vector<Arena> outerArenas = arenas;
  Arena from = arena, to = arena;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    scalars.push_back(loop.getInductionVar());
    from.base = loop.getRegionIterArg(0);
    to.base = loop.getRegionIterArg(1);
    if (ofTiles) {
      Value loaded = op<tile::LoadOp>(from.base, mask);
      Value value = combine(loaded, someTileOf(shape, arena.element));
      tile::StoreOp::create(builder, loc, to.base, value, mask);
    } else {
      Value value = read(from, shape);
      if (coin())
        value = combine(value, read(coin() ? from : to, shape));
      write(to, value);
    }
    scf::YieldOp::create(builder, loc, ValueRange{to.base, from.base});
  }
  tiles = outerTiles;
  scalars = outerScalars;
  arenas = outerArenas;
  if (ofTiles) {
    observe(op<tile::LoadOp>(loop.getResult(pick(2)), mask));
  } else {
    from.base = loop.getResult(0);
    to.base = loop.getResult(1);
    arenas.push_back(from);
    arenas.push_back(to);
    observe(read(coin() ? from : to, shape));
  }
  observe(read(coin() ? arena : other, shape));
}

/// A tile of pointers that moves on, by as much as it covers or less.
void Generator::movingPointers(const Arena &arena) {
  Shape shape = shapeWithin(arena);
  for (int64_t &extent : shape)
    if (llvm::product_of(shape) * 2 > arena.elements && extent % 2 == 0)
      extent /= 2;
  const int64_t n = llvm::product_of(shape), room = arena.elements - n;
  const int64_t trips = 2 + pick(6), step = pick(std::min(n, room / trips) + 1);
  Value index = someOrder(shape);
  Value ptr = pointers(arena, index);
  Value sum = someTileOf(shape, arena.element);
  Value first = number(0), last = number(trips), one = number(1);
  auto loop = scf::ForOp::create(builder, loc, first, last, one, ValueRange{ptr, sum});
  hintAt(loop);
  std::vector<Value> outerTiles = tiles;
  std::vector<Arena> outerArenas = arenas;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value at = loop.getRegionIterArg(0), carried = loop.getRegionIterArg(1);
    tiles.push_back(carried);
    if (coin())
      tile::StoreOp::create(builder, loc, at, combine(carried, carried), Value());
    Value loaded = coin() ? op<tile::LoadOp>(at) : read(arena, shape);
    if (coin())
      tile::StoreOp::create(builder, loc, at, combine(loaded, carried), Value());
    carried = combine(carried, loaded);
    at = op<tile::AddPtrOp>(at.getType(), at, constant(shape, i32(), step * arena.stride));
    scf::YieldOp::create(builder, loc, ValueRange{at, carried});
  }
  tiles = outerTiles;
  arenas = outerArenas;
  tiles.push_back(loop.getResult(1));
  observe(op<tile::LoadOp>(loop.getResult(0)));
}

/// Prefix sums, or what the like gives of other operations, in place along an axis.
void Generator::doublingLoop(const Arena &arena) {
  Shape shape = shapeWithin(arena);
  unsigned axis = llvm::max_element(shape) - shape.begin();
  int64_t stride = 1;
  for (unsigned i = axis + 1; i < shape.size(); ++i)
    stride *= shape[i];
  const int64_t steps = llvm::Log2_64_Ceil(shape[axis]);
  auto body = [&](Value distance) {
    Value index = rowMajor(shape), along = range(shape, axis, 0), by = splat(distance, shape);
    Value inside = op<arith::CmpIOp>(arith::CmpIPredicate::sge, along, by);
    Value scale = constant(shape, i32(), stride);
    Value back = op<arith::MulIOp>(by, scale);
    back = op<arith::SubIOp>(index, back);
    Value own = loadAt(arena, {index, {}}), before = loadAt(arena, {back, inside});
    Value sum = isa<FloatType>(arena.element) ? combine(own, before) : combineIntegers(own, before);
    storeAt(arena, {index, {}}, sum);
  };
  if (pick(3) == 0) {
    for (int64_t i = 0; i < steps; ++i)
      body(number(int64_t(1) << i));
  } else {
    Value first = number(0), last = number(steps), one = number(1);
    auto loop = scf::ForOp::create(builder, loc, first, last, one);
    hintAt(loop);
    std::vector<Value> outerTiles = tiles;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    body(op<arith::ShLIOp>(one, loop.getInductionVar()));
    tiles = outerTiles;
  }
  observe(read(arena, shape));
}

//===-- Promises ------------------------------------------------------------------------------===//

/// A number that the compiler cannot know, as it comes from memory.
Value Generator::hiddenNumber(int64_t value, Type type) {
  type = type ? type : i32();
  std::optional<Arena> hidden = newArena(type, 1, false);
  if (!hidden)
    return number(value, type);
  tile::StoreOp::create(builder, loc, hidden->base, number(value, type), Value());
  return op<tile::LoadOp>(hidden->base);
}

/// What holds for a number with this divisor, and is not negative.
Value Generator::truthAbout(Value value, int64_t divisor) {
  Value zero = number(0), unit = number(divisor);
  Value rest = op<arith::RemSIOp>(value, unit);
  Value isMultiple = op<arith::CmpIOp>(arith::CmpIPredicate::eq, rest, zero);
  Value isNatural = op<arith::CmpIOp>(arith::CmpIPredicate::sge, value, zero);
  switch (pick(3)) {
  case 0:
    return isMultiple;
  case 1:
    return isNatural;
  default:
    return op<arith::AndIOp>(isMultiple, isNatural);
  }
}

/// A true promise about a number, which becomes one of the scalars.
void Generator::promise() {
  const int64_t divisor = int64_t(1) << pick(6), value = divisor * pick(96 / divisor);
  Value hidden = hiddenNumber(value);
  if (coin()) {
    tile::AssumeOp::create(builder, loc, truthAbout(hidden, divisor));
  } else {
    hidden = op<tile::HintOp>(hidden.getType(), hidden, builder.getDenseI64ArrayAttr({divisor}),
                              DenseI64ArrayAttr(), DenseI64ArrayAttr());
  }
  scalars.push_back(hidden);
}

/// A loop that promises something about a number that it changes, and moves memory by it.
void Generator::countDown(const Arena &arena) {
  const int64_t divisor = int64_t(1) << pick(5), trips = 1 + pick(8);
  const int64_t by = divisor * (1 + pick(4)), most = by * trips + divisor * pick(4);
  enum { Down, Up, Double, Half } way = static_cast<decltype(way)>(pick(4));
  const int64_t start = way == Up || way == Double ? divisor : most;
  Value left = coin() ? number(start) : hiddenNumber(start);
  Value first = number(0), last = coin() ? number(trips) : hiddenNumber(trips), one = number(1);
  Shape shape = shapeWithin(arena);
  Value carried = someTileOf(shape, arena.element);
  auto loop = scf::ForOp::create(builder, loc, first, last, one, ValueRange{left, carried});
  hintAt(loop);
  std::vector<Value> outerTiles = tiles, outerScalars = scalars;
  std::vector<Arena> outerArenas = arenas;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    left = loop.getRegionIterArg(0);
    carried = loop.getRegionIterArg(1);
    tile::AssumeOp::create(builder, loc, truthAbout(left, way == Half ? 1 : divisor));
    Value index = rowMajor(shape), moved = splat(left, shape);
    index = op<arith::AddIOp>(index, moved);
    index = op<arith::AndIOp>(index, constant(shape, i32(), arena.elements - 1));
    if (coin())
      storeAt(arena, {index, {}}, carried);
    Value loaded = coin() ? loadAt(arena, {index, {}}) : read(arena, shape);
    if (coin())
      write(arena, loaded);
    carried = combine(carried, loaded);
    Value change = number(way == Down || way == Up ? by : way == Double ? 1 + pick(3) : 1);
    left = way == Down   ? op<arith::SubIOp>(left, change)
           : way == Up   ? op<arith::AddIOp>(left, change)
           : way == Half ? op<arith::ShRSIOp>(left, change)
                         : op<arith::MulIOp>(left, change);
    scf::YieldOp::create(builder, loc, ValueRange{left, carried});
  }
  tiles = outerTiles;
  scalars = outerScalars;
  arenas = outerArenas;
  observe(loop.getResult(1));
}

//===-- Scratch memory ------------------------------------------------------------------------===//

/// A matrix that the program writes and a loop of dots reads, which may be pipelined; it may be
/// written in the loop and after it, too.
void Generator::scratchMatmul() {
  static constexpr int64_t extents[] = {16, 32, 64}, depths[] = {16, 32, 64};
  Type operands[] = {builder.getF16Type(), builder.getF16Type(), builder.getBF16Type(),
                     builder.getI8Type(),  builder.getF32Type(), elements[9]};
  Type element = oneOf(operands);
  const int64_t m = oneOf(extents), n = oneOf(extents), k = oneOf(depths);
  const bool isLeft = coin();
  const int64_t across = isLeft ? m : n;
  int64_t trips = 2 + pick(4);
  while (across * k * trips > mostElements)
    trips /= 2;
  const int64_t depth = k * trips;
  std::optional<Arena> made = newArena(element, across * depth, false);
  if (!made)
    return;
  const Arena scratch = *made;
  arenas.push_back(scratch);
  auto someNumbers = [&](ArrayRef<int64_t> shape) -> Value {
    Value tile = someTileOf(shape, i32());
    return isa<FloatType>(element) ? whole(tile, 3, element) : cast(tile, element);
  };
  // The axis that is summed along, and the axis whose elements are neighbours.
  const unsigned summed = isLeft ? 1 : 0, dense = pick(2);
  auto matrixShape = [&](int64_t along) {
    return isLeft ? Shape{across, along} : Shape{along, across};
  };
  const Shape all = matrixShape(depth), part = matrixShape(k);
  int64_t strides[2];
  strides[dense] = 1;
  strides[1 - dense] = all[dense];
  Value sizes[] = {number(all[0]), number(all[1])};
  Value steps[] = {number(strides[0]), number(strides[1])};
  Value view = op<tile::MakeViewOp>(tile::ViewType::get(2, element), scratch.base,
                                    ValueRange(sizes), ValueRange(steps));
  Value zero = number(0), one = number(1), end = number(trips), width = number(k);
  auto partAt = [&](Value at) {
    return isLeft ? SmallVector<Value>{zero, at} : SmallVector<Value>{at, zero};
  };
  auto storePart = [&](Value at, Value tile) {
    tile::StoreBlockOp::create(builder, loc, view, partAt(at), tile, tile::Cache::Default,
                               tile::Eviction::Normal);
  };
  switch (pick(3)) {
  case 0:
    storePart(zero, someNumbers(all));
    break;
  case 1: {
    Places places{rowMajor(all), {}};
    storeAt(scratch, places, someNumbers(all));
    break;
  }
  default: {
    Value numbers = someNumbers(part);
    auto loop = scf::ForOp::create(builder, loc, zero, end, one);
    hintAt(loop);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value at = op<arith::MulIOp>(loop.getInductionVar(), width);
    storePart(at, numbers);
  }
  }
  if (pick(4) == 0)
    tile::BarrierOp::create(builder, loc);

  // The other operand is an input's.
  Value rows = number(64);
  Value others = matrix(element, 1, rows, rows, rows, coin());
  Type sum = element.isInteger(8) ? i32() : builder.getF32Type();
  Value none = constant({m, n}, sum, 0);
  // By pointers that move on, or by the view.
  const bool byPointers = pick(3) == 0;
  SmallVector<Value> inits = {none};
  if (byPointers) {
    Value index = constant(part, i32(), 0);
    for (unsigned axis = 0; axis < 2; ++axis) {
      Value along = range(part, axis, 0), stride = constant(part, i32(), strides[axis]);
      along = op<arith::MulIOp>(along, stride);
      index = op<arith::AddIOp>(index, along);
    }
    inits.push_back(pointers(scratch, index));
  }
  auto loop = scf::ForOp::create(builder, loc, zero, end, one, inits);
  hintAt(loop);
  {
    std::vector<Value> outerTiles = tiles;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value iteration = loop.getInductionVar();
    Value at = op<arith::MulIOp>(iteration, width);
    if (pick(6) == 0)
      storePart(at, someNumbers(part));
    Value own =
        byPointers
            ? Value(op<tile::LoadOp>(loop.getRegionIterArg(1)))
            : Value(op<tile::LoadBlockOp>(tileOf(part, element), view, partAt(at), TypedAttr(),
                                          tile::Cache::Default, tile::Eviction::Normal));
    Value other = isLeft ? load(others, at, zero, k, n) : load(others, zero, at, m, k);
    Value left = isLeft ? own : other, right = isLeft ? other : own;
    Value next = op<tile::DotOp>(none.getType(), left, right, loop.getRegionIterArg(0),
                                 tile::Precision::TF32);
    // What this iteration has read, or another reads; beyond the edges nothing is stored.
    if (pick(4) == 0) {
      Value to = number((int64_t(pick(4)) - 1) * k);
      to = op<arith::AddIOp>(at, to);
      storePart(to, coin() ? own : someNumbers(part));
    }
    SmallVector<Value> yields = {next};
    if (byPointers) {
      Value ptr = loop.getRegionIterArg(1), by = constant(part, i32(), k * strides[summed]);
      yields.push_back(op<tile::AddPtrOp>(ptr.getType(), ptr, by));
    }
    scf::YieldOp::create(builder, loc, yields);
    tiles = outerTiles;
  }
  if (coin())
    write(scratch, someTileOf(part, element));
  observe(loop.getResult(0));
}

} // namespace sectile::fuzz
