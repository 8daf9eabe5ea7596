// Random kernels in tile IR.
#include "Generator.h"

using namespace mlir;

namespace sectile::test {

Generator::Generator(MLIRContext *context, unsigned seed)
    : random(seed), builder(context), loc(builder.getUnknownLoc()) {
  static constexpr int64_t all[] = {1, 2, 4, 8, 16, 32, 64, 128, 24, 48, 80, 96};
  for (unsigned i = 0; i < 3; ++i)
    extents.push_back(all[pick(std::size(all))]);
}

Generator::Shape Generator::someShape() {
  Shape shape;
  do {
    shape.clear();
    for (unsigned rank = 1 + pick(3); rank-- > 0;)
      shape.push_back(extents[pick(extents.size())]);
  } while (llvm::product_of(shape) > 8192);
  return shape;
}

Value Generator::number(int64_t value) {
  return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
}

/// The places of a tile's elements in row-major order, from a start on.
Value Generator::rowMajor(ArrayRef<int64_t> shape, int64_t start) {
  Value index = splat(number(start), shape);
  int64_t stride = llvm::product_of(shape);
  for (auto [axis, extent] : llvm::enumerate(shape)) {
    stride /= extent;
    Value along =
        arith::MulIOp::create(builder, loc, range(shape, axis, 0), splat(number(stride), shape));
    index = arith::AddIOp::create(builder, loc, index, along);
  }
  return index;
}

/// start, start + 1, … along one axis of a tile.
Value Generator::range(ArrayRef<int64_t> shape, unsigned along, int64_t start) {
  Value tile = tile::ArangeOp::create(builder, loc, tileOf({shape[along]}, i32()), start);
  for (unsigned axis = 0; axis < shape.size(); ++axis) {
    if (axis == along)
      continue;
    SmallVector<int64_t> extents(tile::shapeOf(tile.getType()));
    extents.insert(extents.begin() + axis, 1);
    tile = tile::ExpandDimsOp::create(builder, loc, tileOf(extents, i32()), tile, axis);
  }
  return tile::shapeOf(tile.getType()) == shape
             ? tile
             : Value(tile::BroadcastOp::create(builder, loc, tileOf(shape, i32()), tile));
}

Value Generator::splat(Value scalar, ArrayRef<int64_t> shape) {
  return tile::SplatOp::create(builder, loc, tileOf(shape, scalar.getType()), scalar);
}

/// Cuts to so many bits, so that numbers stay exact as floats.
Value Generator::small(Value tile, int64_t bits) {
  auto type = cast<ShapedType>(tile.getType());
  Value mask = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, builder.getI32IntegerAttr((1 << bits) - 1)));
  Value half = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, builder.getI32IntegerAttr(1 << (bits - 1))));
  return arith::SubIOp::create(builder, loc, arith::AndIOp::create(builder, loc, tile, mask), half);
}

Value Generator::someScalar() {
  if (pick(3) == 0)
    return number(int64_t(pick(40)) - 8);
  return scalars[pick(scalars.size())];
}

Value Generator::someTile() { return tiles[pick(tiles.size())]; }

Value Generator::someTileOf(ArrayRef<int64_t> shape) {
  std::vector<Value> fitting;
  for (Value tile : tiles)
    if (tile::shapeOf(tile.getType()) == shape)
      fitting.push_back(tile);
  if (fitting.empty() || pick(4) == 0)
    return makeTile(shape);
  return fitting[pick(fitting.size())];
}

Value Generator::someMask(ArrayRef<int64_t> shape) {
  using enum arith::CmpIPredicate;
  arith::CmpIPredicate predicates[] = {eq, ne, slt, sle, sgt, sge};
  Value a = someTileOf(shape), b = coin() ? splat(someScalar(), shape) : someTileOf(shape);
  return arith::CmpIOp::create(builder, loc, predicates[pick(6)], a, b);
}

/// A tile of a shape out of nothing else.
Value Generator::makeTile(ArrayRef<int64_t> shape) {
  switch (pick(4)) {
  case 0:
    return splat(someScalar(), shape);
  case 1:
    return range(shape, pick(shape.size()), int(pick(9)) - 4);
  case 2:
    return gather(shape);
  default:
    return block(shape);
  }
}

/// A load through pointers that stay within the first buffer.
Value Generator::gather(ArrayRef<int64_t> shape) {
  Value base = kernel.getArgument(0);
  Value index;
  if (coin()) {
    index = rowMajor(shape, 4 * pick(8));
  } else {
    std::vector<Value> fitting;
    for (Value tile : tiles)
      if (tile::shapeOf(tile.getType()) == shape)
        fitting.push_back(tile);
    index = fitting.empty() ? splat(someScalar(), shape) : fitting[pick(fitting.size())];
    Value mask = arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(tileOf(shape, i32()),
                               builder.getI32IntegerAttr(inputElements / 2 - 1)));
    index = arith::AndIOp::create(builder, loc, index, mask);
  }
  Value ptr = splat(base, shape);
  ptr = tile::AddPtrOp::create(builder, loc, ptr.getType(), ptr, index);
  Value mask, other;
  if (coin()) {
    mask = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, index,
                                 splat(someScalar(), shape));
    if (coin())
      other = splat(someScalar(), shape);
  }
  return tile::LoadOp::create(builder, loc, ptr, mask, other);
}

/// A block of a view of the first buffer, which it may leave on every side.
Value Generator::block(ArrayRef<int64_t> shape) {
  SmallVector<Value> extents, strides, offsets;
  // At most 16 elements along each axis, 16³ in all; strides so that none overlaps.
  static constexpr int64_t steps[] = {1, 16, 256};
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  std::shuffle(order.begin(), order.end(), random);
  for (unsigned d = 0; d < shape.size(); ++d) {
    extents.push_back(coin() ? kernel.getArgument(4) : number(pick(17)));
    strides.push_back(number(steps[order[d]]));
    offsets.push_back(someScalar());
  }
  auto type = tile::ViewType::get(shape.size(), i32());
  Value view =
      tile::MakeViewOp::create(builder, loc, type, kernel.getArgument(0), extents, strides);
  TypedAttr padding = coin() ? builder.getI32IntegerAttr(pick(100)) : IntegerAttr();
  return tile::LoadBlockOp::create(builder, loc, tileOf(shape, i32()), view, offsets, padding,
                                   tile::Cache::Default, tile::Eviction::Normal);
}

Value Generator::binary(Value a, Value b) {
  auto make = [&](auto op) -> Value { return decltype(op)::create(builder, loc, a, b); };
  switch (pick(8)) {
  case 0:
    return make(arith::AddIOp());
  case 1:
    return make(arith::SubIOp());
  case 2:
    return make(arith::MulIOp());
  case 3:
    return make(arith::XOrIOp());
  case 4:
    return make(arith::MinSIOp());
  case 5:
    return make(arith::MaxSIOp());
  case 6: {
    // A divisor that is not zero.
    ArrayRef<int64_t> shape = tile::shapeOf(a.getType());
    b = splat(number(1 + pick(20)), shape);
    return coin() ? make(arith::DivSIOp()) : make(arith::RemSIOp());
  }
  default: {
    Value mask = someMask(tile::shapeOf(a.getType()));
    return arith::SelectOp::create(builder, loc, mask, a, b);
  }
  }
}

Value Generator::reshaped(Value tile) {
  Shape shape(tile::shapeOf(tile.getType()));
  switch (pick(4)) {
  case 0: {
    SmallVector<int32_t> order = llvm::to_vector(llvm::seq<int32_t>(0, shape.size()));
    std::shuffle(order.begin(), order.end(), random);
    Shape to;
    for (int32_t axis : order)
      to.push_back(shape[axis]);
    return tile::PermuteOp::create(builder, loc, tileOf(to, i32()), tile, order);
  }
  case 1: {
    if (shape.size() == 3)
      return reduced(tile);
    unsigned axis = pick(shape.size() + 1);
    shape.insert(shape.begin() + axis, 1);
    Value expanded = tile::ExpandDimsOp::create(builder, loc, tileOf(shape, i32()), tile, axis);
    shape[axis] = extents[pick(extents.size())];
    if (llvm::product_of(shape) > 8192)
      return expanded;
    return tile::BroadcastOp::create(builder, loc, tileOf(shape, i32()), expanded);
  }
  case 2:
    return tile::ReshapeOp::create(builder, loc, tileOf({llvm::product_of(shape)}, i32()), tile);
  default: {
    // Along other extents of the same product.
    std::shuffle(shape.begin(), shape.end(), random);
    if (shape.size() > 1 && coin()) {
      shape[0] *= shape.back();
      shape.pop_back();
    }
    return tile::ReshapeOp::create(builder, loc, tileOf(shape, i32()), tile);
  }
  }
}

Value Generator::reduced(Value tile) {
  Shape shape(tile::shapeOf(tile.getType()));
  unsigned axis = pick(shape.size()), kind = pick(4);
  shape.erase(shape.begin() + axis);
  Type result = shape.empty() ? i32() : Type(tileOf(shape, i32()));
  // Together with its index: the last kind is the place of the greatest.
  SmallVector<Value> sources = {tile};
  SmallVector<Type> results = {result};
  if (kind == 3) {
    sources.push_back(someTileOf(tile::shapeOf(tile.getType())));
    results.push_back(result);
  }
  auto reduce = tile::ReduceOp::create(builder, loc, results, sources, axis);
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(&reduce.getCombiner());
  for (unsigned i = 0; i < 2 * sources.size(); ++i)
    block->addArgument(i32(), loc);
  Value x = block->getArgument(0), y = block->getArgument(kind == 3 ? 2 : 1);
  SmallVector<Value> yields;
  if (kind == 0)
    yields.push_back(arith::AddIOp::create(builder, loc, x, y));
  else if (kind == 1)
    yields.push_back(arith::MaxSIOp::create(builder, loc, x, y));
  else if (kind == 2)
    yields.push_back(arith::XOrIOp::create(builder, loc, x, y));
  else {
    // The greatest, and among equals the least companion: the same in every order.
    Value xi = block->getArgument(1), yi = block->getArgument(3);
    Value more = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, x, y);
    Value same = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, x, y);
    Value less = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, xi, yi);
    Value take =
        arith::OrIOp::create(builder, loc, more, arith::AndIOp::create(builder, loc, same, less));
    yields.push_back(arith::SelectOp::create(builder, loc, take, x, y));
    yields.push_back(arith::SelectOp::create(builder, loc, take, xi, yi));
  }
  tile::YieldOp::create(builder, loc, yields);
  return reduce.getResult(kind == 3 ? pick(2) : 0);
}

Value Generator::convert(Value tile, Type element) {
  auto type = tileOf(tile::shapeOf(tile.getType()), element);
  if (element.isInteger(8))
    return arith::TruncIOp::create(builder, loc, type, tile);
  return arith::SIToFPOp::create(builder, loc, type, tile);
}

Value Generator::wholeNumbers(Value tile) {
  auto type = cast<RankedTensorType>(tile.getType());
  if (type.getElementType() == i32())
    return tile;
  return arith::FPToSIOp::create(builder, loc, tileOf(type.getShape(), i32()), tile);
}

Value Generator::turned(Value tile) {
  auto type = cast<RankedTensorType>(tile.getType());
  return tile::PermuteOp::create(
      builder, loc, tileOf({type.getDimSize(1), type.getDimSize(0)}, type.getElementType()), tile,
      ArrayRef<int32_t>{1, 0});
}

/// Arithmetic in floats of some width.
Value Generator::floating(Value a, Value b) {
  Type elements[] = {builder.getF16Type(), builder.getBF16Type(), builder.getF32Type(),
                     builder.getF64Type()};
  Type element = elements[pick(4)];
  Value x = convert(small(a, 4), element), y = convert(small(b, 4), element);
  for (unsigned i = 1 + pick(2); i-- > 0;)
    switch (pick(5)) {
    case 0:
      x = arith::AddFOp::create(builder, loc, x, y);
      break;
    case 1:
      x = arith::SubFOp::create(builder, loc, x, y);
      break;
    case 2:
      x = arith::MulFOp::create(builder, loc, x, y);
      break;
    case 3:
      x = arith::MaximumFOp::create(builder, loc, x, y);
      break;
    default:
      x = arith::MinimumFOp::create(builder, loc, x, y);
    }
  return wholeNumbers(x);
}

/// A dot of computed tiles, whose result is as one of i32 again.
Value Generator::dot(Value like) {
  MLIRContext *context = builder.getContext();
  Type elements[] = {builder.getF16Type(), builder.getBF16Type(),          builder.getF32Type(),
                     builder.getI8Type(),  Float8E4M3FNType::get(context), builder.getF64Type()};
  Type element = elements[pick(std::size(elements))];
  ArrayRef<int64_t> shape = tile::shapeOf(like.getType());
  int64_t k = shape[1], n = extents[pick(extents.size())];
  Value a = convert(small(like, 3), element);
  Value b = coin() ? convert(small(someTileOf({k, n}), 3), element)
                   : turned(convert(small(someTileOf({n, k}), 3), element));
  Value acc = small(someTileOf({shape[0], n}), 6);
  if (element.isF64() || (element.isF16() && pick(3) == 0))
    acc = convert(acc, element);
  else if (!element.isInteger(8))
    acc = convert(acc, builder.getF32Type());
  auto precision = coin() ? tile::Precision::TF32 : tile::Precision::IEEE;
  return wholeNumbers(tile::DotOp::create(builder, loc, acc.getType(), a, b, acc, precision));
}

/// A view of an f16 buffer, one row after the other or one column after the other.
Value Generator::matrix(Value base, Value rows, Value columns, Value pitch, bool byColumns) {
  Value one = number(1);
  SmallVector<Value> strides = {byColumns ? one : pitch, byColumns ? pitch : one};
  return tile::MakeViewOp::create(builder, loc, tile::ViewType::get(2, builder.getF16Type()), base,
                                  ValueRange{rows, columns}, strides);
}

Value Generator::load(Value view, Value row, Value column, int64_t rows, int64_t columns) {
  return tile::LoadBlockOp::create(builder, loc, tileOf({rows, columns}, builder.getF16Type()),
                                   view, ValueRange{row, column}, TypedAttr(), tile::Cache::Default,
                                   tile::Eviction::Normal);
}

/// A loop over blocks of the f16 buffers: what pipelines are for.
Value Generator::matmul() {
  static constexpr int64_t blocks[] = {16, 32, 64, 48, 8};
  int64_t m = blocks[pick(5)], n = blocks[pick(5)], k = blocks[pick(4)];
  Value rows = kernel.getArgument(5), depth = someScalar();
  // 64 by 64 elements at most.
  Value sixtyFour = number(64), pitch = coin() ? sixtyFour : number(65);
  depth = arith::MinSIOp::create(builder, loc, depth, sixtyFour);
  bool permuteB = coin();
  Value a = matrix(kernel.getArgument(1), rows, depth, pitch, coin());
  Value b = permuteB ? matrix(kernel.getArgument(2), rows, depth, pitch, coin())
                     : matrix(kernel.getArgument(2), depth, rows, pitch, coin());
  Value i = coin() ? number(0) : someScalar(), j = coin() ? number(0) : someScalar();
  Value zero = arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(tileOf({m, n}, builder.getF32Type()), builder.getF32FloatAttr(0)));
  auto loop = scf::ForOp::create(builder, loc, number(0), depth, number(k), ValueRange{zero});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value at = loop.getInductionVar();
    Value left = load(a, i, at, m, k);
    Value right = permuteB ? turned(load(b, j, at, n, k)) : load(b, at, j, k, n);
    Value sum = tile::DotOp::create(builder, loc, zero.getType(), left, right,
                                    loop.getRegionIterArg(0), tile::Precision::TF32);
    scf::YieldOp::create(builder, loc, sum);
  }
  return wholeNumbers(loop.getResult(0));
}

/// Two dots in one loop, the second of what the first gave, with a reduction between them.
Value Generator::attention() {
  static constexpr int64_t blocks[] = {16, 32, 64, 48};
  int64_t m = blocks[pick(4)], n = blocks[pick(4)], d = blocks[pick(4)];
  Value keys = arith::MinSIOp::create(builder, loc, someScalar(), number(64)), depth = number(64);
  Value pitch = coin() ? number(64) : number(72), zero = number(0);
  Value q = load(matrix(kernel.getArgument(1), kernel.getArgument(5), depth, pitch, false),
                 someScalar(), zero, m, d);
  Value k = matrix(kernel.getArgument(1), keys, depth, pitch, false);
  Value v = matrix(kernel.getArgument(2), keys, depth, pitch, coin());
  Type f16 = builder.getF16Type(), f32 = builder.getF32Type();
  auto none = [&](ArrayRef<int64_t> shape) -> Value {
    return arith::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(tileOf(shape, f32), builder.getF32FloatAttr(0)));
  };
  Value noScores = none({m, n}), noMaxima = none({m});
  auto loop =
      scf::ForOp::create(builder, loc, zero, keys, number(n), ValueRange{none({m, d}), noMaxima});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value at = loop.getInductionVar(), sum = loop.getRegionIterArg(0),
          greatest = loop.getRegionIterArg(1);
    Value scores =
        tile::DotOp::create(builder, loc, noScores.getType(), q, turned(load(k, at, zero, n, d)),
                            noScores, tile::Precision::TF32);
    auto reduce =
        tile::ReduceOp::create(builder, loc, TypeRange{noMaxima.getType()}, ValueRange{scores}, 1);
    {
      OpBuilder::InsertionGuard inner(builder);
      Block *block = builder.createBlock(&reduce.getCombiner());
      block->addArguments({f32, f32}, {loc, loc});
      Value larger =
          arith::MaximumFOp::create(builder, loc, block->getArgument(0), block->getArgument(1));
      tile::YieldOp::create(builder, loc, larger);
    }
    greatest = arith::MaximumFOp::create(builder, loc, greatest, reduce.getResult(0));
    Value column = tile::ExpandDimsOp::create(builder, loc, tileOf({m, 1}, f32), greatest, 1);
    Value everywhere = tile::BroadcastOp::create(builder, loc, tileOf({m, n}, f32), column);
    Value below = arith::SubFOp::create(builder, loc, scores, everywhere);
    Value weights = convert(small(wholeNumbers(below), 3), f16);
    Value next = tile::DotOp::create(builder, loc, sum.getType(), weights, load(v, at, zero, n, d),
                                     sum, tile::Precision::TF32);
    scf::YieldOp::create(builder, loc, ValueRange{next, greatest});
  }
  if (pick(3) == 0)
    tiles.push_back(wholeNumbers(loop.getResult(1)));
  return wholeNumbers(loop.getResult(0));
}

/// Counts up to a scalar, changing a tile on the way.
void Generator::whileLoop() {
  Value init = someTile(), end = arith::AndIOp::create(builder, loc, someScalar(), number(3));
  SmallVector<Type> types = {i32(), init.getType()};
  SmallVector<Location> locs = {loc, loc};
  auto loop = scf::WhileOp::create(builder, loc, types, ValueRange{number(0), init});
  OpBuilder::InsertionGuard guard(builder);
  Block *before = builder.createBlock(&loop.getBefore(), {}, types, locs);
  Value on =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, before->getArgument(0), end);
  scf::ConditionOp::create(builder, loc, on, before->getArguments());
  Block *after = builder.createBlock(&loop.getAfter(), {}, types, locs);
  std::vector<Value> outerTiles = tiles;
  Value counted = arith::AddIOp::create(builder, loc, after->getArgument(0), number(1));
  Value changed = binary(after->getArgument(1), someTileOf(tile::shapeOf(init.getType())));
  scf::YieldOp::create(builder, loc, ValueRange{counted, changed});
  tiles = outerTiles;
  tiles.push_back(loop.getResult(1));
  scalars.push_back(loop.getResult(0));
}

void Generator::loop(unsigned depth) {
  // One or two tiles are carried; what is made inside is not seen outside.
  SmallVector<Value> inits = {someTile()};
  if (coin())
    inits.push_back(someTile());
  Value trips = arith::AndIOp::create(builder, loc, someScalar(), number(3));
  auto loop = scf::ForOp::create(builder, loc, number(0), trips, number(1), inits);
  std::vector<Value> outerTiles = tiles, outerScalars = scalars;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    for (Value carried : loop.getRegionIterArgs())
      tiles.push_back(carried);
    scalars.push_back(loop.getInductionVar());
    for (unsigned i = 1 + pick(4); i-- > 0;)
      statement(depth + 1);
    SmallVector<Value> yields;
    for (Value carried : loop.getRegionIterArgs())
      yields.push_back(binary(carried, someTileOf(tile::shapeOf(carried.getType()))));
    scf::YieldOp::create(builder, loc, yields);
  }
  tiles = outerTiles;
  scalars = outerScalars;
  for (Value result : loop.getResults())
    tiles.push_back(result);
}

void Generator::branch(unsigned depth) {
  Value like = someTile();
  Value condition =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, someScalar(), someScalar());
  auto branch = scf::IfOp::create(builder, loc, TypeRange{like.getType()}, condition,
                                  /*withElseRegion=*/true);
  for (Block *block : {branch.thenBlock(), branch.elseBlock()}) {
    OpBuilder::InsertionGuard guard(builder);
    std::vector<Value> outerTiles = tiles, outerScalars = scalars;
    builder.setInsertionPointToEnd(block);
    for (unsigned i = pick(3); i-- > 0;)
      statement(depth + 1);
    Value result = binary(like, someTileOf(tile::shapeOf(like.getType())));
    scf::YieldOp::create(builder, loc, result);
    tiles = outerTiles;
    scalars = outerScalars;
  }
  tiles.push_back(branch.getResult(0));
}

void Generator::statement(unsigned depth) {
  auto keep = [&](Value value) {
    (isa<RankedTensorType>(value.getType()) ? tiles : scalars).push_back(value);
  };
  Value tile = someTile();
  switch (pick(14)) {
  case 0:
    return keep(makeTile(someShape()));
  case 1:
  case 2:
    return keep(binary(tile, someTileOf(tile::shapeOf(tile.getType()))));
  case 3:
    return keep(floating(tile, someTileOf(tile::shapeOf(tile.getType()))));
  case 4:
  case 5:
  case 6:
    return keep(reshaped(tile));
  case 7:
  case 8:
    return keep(reduced(tile));
  case 9:
    if (tile::shapeOf(tile.getType()).size() == 2)
      keep(dot(tile));
    return;
  case 10:
    if (depth < 2)
      keep(matmul());
    return;
  case 11:
    if (depth < 2)
      keep(attention());
    return;
  case 12:
    if (depth < 2)
      pick(3) ? loop(depth) : whileLoop();
    return;
  default:
    if (depth < 2)
      branch(depth);
  }
}

void Generator::store(Value tile) {
  ArrayRef<int64_t> shape = tile::shapeOf(tile.getType());
  int64_t n = llvm::product_of(shape);
  if (pick(3) == 0) {
    // Through a view, of which some may lie outside.
    Value base = tile::AddPtrOp::create(builder, loc, kernel.getArgument(3).getType(),
                                        kernel.getArgument(3), number(stored));
    SmallVector<Value> extents, strides, offsets;
    int64_t stride = n;
    for (int64_t extent : shape) {
      stride /= extent;
      extents.push_back(number(extent - (coin() ? pick(extent) : 0)));
      strides.push_back(number(stride));
      offsets.push_back(number(0));
    }
    auto type = tile::ViewType::get(shape.size(), i32());
    Value view = tile::MakeViewOp::create(builder, loc, type, base, extents, strides);
    tile::StoreBlockOp::create(builder, loc, view, offsets, tile, tile::Cache::Default,
                               tile::Eviction::Normal);
    stored += n;
    return;
  }
  Value index = rowMajor(shape, stored);
  stored += n;
  Value ptr = splat(kernel.getArgument(3), shape);
  ptr = tile::AddPtrOp::create(builder, loc, ptr.getType(), ptr, index);
  tile::StoreOp::create(builder, loc, ptr, tile, coin() ? someMask(shape) : Value());
}

OwningOpRef<ModuleOp> Generator::make() {
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  Type ints = tile::PtrType::get(i32()), halves = tile::PtrType::get(builder.getF16Type());
  kernel =
      func::FuncOp::create(builder, loc, "random_program",
                           builder.getFunctionType({ints, halves, halves, ints, i32(), i32()}, {}));
  kernel->setAttr(tile::kernelAttr, builder.getUnitAttr());
  builder.setInsertionPointToEnd(kernel.addEntryBlock());
  for (unsigned i = 0; i < 4; ++i)
    if (coin())
      kernel.setArgAttr(i, tile::divisibleAttr, builder.getI64IntegerAttr(16));
  scalars = {kernel.getArgument(4), kernel.getArgument(5)};
  tiles.push_back(makeTile(someShape()));
  for (unsigned i = 4 + pick(12); i-- > 0;)
    statement(0);
  unsigned kept = 0;
  for (unsigned i = tiles.size(); i-- > 0 && kept < 4; ++kept)
    store(tiles[i]);
  func::ReturnOp::create(builder, loc);
  return module;
}

} // namespace sectile::test
