// Random kernels: making tiles, memory, control flow, and the kernel around them.
#include "tests/fuzz/programs/Generator.h"
#include "ir/tile/Overflow.h"

using namespace mlir;

namespace sectile::fuzz {

SmallVector<Type> elementTypes(MLIRContext *context) {
  Builder b(context);
  return {b.getI1Type(),
          b.getI8Type(),
          b.getI16Type(),
          b.getI32Type(),
          b.getI64Type(),
          b.getF16Type(),
          b.getBF16Type(),
          b.getF32Type(),
          b.getF64Type(),
          Float8E4M3FNType::get(context),
          Float8E5M2Type::get(context),
          Float8E4M3FNUZType::get(context),
          Float8E5M2FNUZType::get(context),
          Float8E4M3B11FNUZType::get(context)};
}

unsigned bytesOf(Type element) { return (element.getIntOrFloatBitWidth() + 7) / 8; }

uint64_t bitsOf(FloatType type, double value) {
  llvm::APFloat number(value);
  bool lossy;
  number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return number.bitcastToAPInt().getZExtValue();
}

uint64_t bitsBefore(Type element) {
  if (auto type = dyn_cast<FloatType>(element))
    return bitsOf(type, 20);
  return 0x5a5a5a5a5a5a5a5a;
}

bool isSmallFloat(Type element) { return isa<FloatType>(element) && bytesOf(element) == 1; }

Generator::Generator(MLIRContext *context, uint64_t seed, const GeneratorOptions &options)
    : options(options), random(seed * 0x9e3779b97f4a7c15u + 5), builder(context),
      loc(builder.getUnknownLoc()), elements(elementTypes(context)) {
  static constexpr int64_t all[] = {1, 2, 4, 8, 16, 32, 64, 128, 24, 48, 80, 96, 160, 176};
  for (unsigned i = 0; i < 3; ++i)
    extents.push_back(oneOf(all));
  for (unsigned i = 0; i < 3; ++i)
    favourites.push_back(oneOf(elements));
}

//===-- Choosing ------------------------------------------------------------------------------===//

Generator::Shape Generator::someShape() {
  Shape shape;
  do {
    shape.clear();
    for (unsigned rank = 1 + pick(3); rank-- > 0;)
      shape.push_back(oneOf(extents));
  } while (llvm::product_of(shape) > (options.memory ? mostElements / 4 : mostElements));
  return shape;
}

Type Generator::someElement() { return pick(4) ? oneOf(favourites) : oneOf(elements); }

Type Generator::someInteger() {
  Type integers[] = {builder.getI8Type(), builder.getI16Type(), i32(), i32(), builder.getI64Type()};
  return oneOf(integers);
}

Type Generator::someFloat() {
  Type floats[] = {builder.getF16Type(), builder.getBF16Type(), builder.getF32Type(),
                   builder.getF32Type(), builder.getF64Type()};
  return oneOf(floats);
}

Value Generator::someScalar() {
  return pick(3) == 0 ? number(int64_t(pick(40)) - 8) : oneOf(scalars);
}

Value Generator::someTile() { return oneOf(tiles); }

/// One that there is, one of the shape converted, or a new one.
Value Generator::someTileOf(ArrayRef<int64_t> shape, Type element) {
  std::vector<Value> same, fitting;
  for (Value tile : tiles)
    if (shapeOf(tile) == shape)
      (elementOf(tile) == element ? same : fitting).push_back(tile);
  if (!same.empty() && pick(4))
    return oneOf(same);
  if (!fitting.empty() && pick(4))
    return cast(oneOf(fitting), element);
  return makeTile(shape, element);
}

Value Generator::someMask(ArrayRef<int64_t> shape) {
  Type element = coin() ? i32() : someElement();
  Value a = someTileOf(shape, element);
  return element.isInteger(1) ? a : compare(a, someTileOf(shape, element));
}

//===-- Constants -----------------------------------------------------------------------------===//

Value Generator::number(int64_t value, Type type) {
  return op<arith::ConstantOp>(builder.getIntegerAttr(type ? type : i32(), value));
}

/// Without a shape a scalar.
Value Generator::constant(ArrayRef<int64_t> shape, Type element, double value) {
  TypedAttr attr = isa<FloatType>(element)
                       ? TypedAttr(builder.getFloatAttr(element, value))
                       : builder.getIntegerAttr(element, static_cast<int64_t>(value));
  if (shape.empty())
    return op<arith::ConstantOp>(attr);
  return op<arith::ConstantOp>(DenseElementsAttr::get(tileOf(shape, element), Attribute(attr)));
}

Value Generator::constantBits(ArrayRef<int64_t> shape, Type element, uint64_t bits) {
  llvm::APInt word = llvm::APInt(64, bits).trunc(element.getIntOrFloatBitWidth());
  TypedAttr attr = builder.getIntegerAttr(builder.getIntegerType(word.getBitWidth()), word);
  if (auto type = dyn_cast<FloatType>(element))
    attr = builder.getFloatAttr(element, llvm::APFloat(type.getFloatSemantics(), word));
  if (shape.empty())
    return op<arith::ConstantOp>(attr);
  return op<arith::ConstantOp>(DenseElementsAttr::get(tileOf(shape, element), Attribute(attr)));
}

Value Generator::splat(Value scalar, ArrayRef<int64_t> shape) {
  return op<tile::SplatOp>(tileOf(shape, scalar.getType()), scalar);
}

//===-- Making tiles --------------------------------------------------------------------------===//

/// start, start + 1, … along one axis of a tile.
Value Generator::range(ArrayRef<int64_t> shape, unsigned along, int64_t start) {
  Value tile = op<tile::ArangeOp>(tileOf({shape[along]}, i32()), start);
  for (unsigned axis = 0; axis < shape.size(); ++axis) {
    if (axis == along)
      continue;
    SmallVector<int64_t> expanded(shapeOf(tile));
    expanded.insert(expanded.begin() + axis, 1);
    tile = op<tile::ExpandDimsOp>(tileOf(expanded, i32()), tile, axis);
  }
  return shapeOf(tile) == shape ? tile : op<tile::BroadcastOp>(tileOf(shape, i32()), tile);
}

/// The places of a tile's elements in row-major order.
Value Generator::rowMajor(ArrayRef<int64_t> shape) {
  Value index = constant(shape, i32(), 0);
  int64_t stride = llvm::product_of(shape);
  for (auto [axis, extent] : llvm::enumerate(shape)) {
    stride /= extent;
    Value along = range(shape, axis, 0), factor = constant(shape, i32(), stride);
    along = op<arith::MulIOp>(along, factor);
    index = op<arith::AddIOp>(index, along);
  }
  return index;
}

Value Generator::makeTile(ArrayRef<int64_t> shape, Type element) {
  if (shape.empty())
    return cast(someScalar(), element);
  switch (pick(5)) {
  case 0:
    return cast(splat(someScalar(), shape), element);
  case 1:
    return cast(range(shape, pick(shape.size()), int(pick(9)) - 4), element);
  case 2:
    return block(shape, element);
  default:
    return gather(shape, element);
  }
}

Value Generator::input(Type element) {
  return kernel.getArgument(llvm::find(elements, element) - elements.begin());
}

/// Of a pointer: it is a multiple of 16 bytes.
void Generator::promiseWholePieces(Value argument) {
  kernel.setArgAttr(mlir::cast<BlockArgument>(argument).getArgNumber(), tile::divisibleAttr,
                    builder.getI64IntegerAttr(16));
}

Value Generator::output(Type element) {
  return kernel.getArgument(elements.size() + (llvm::find(elements, element) - elements.begin()));
}

/// A load through pointers that stay within the buffer.
Value Generator::gather(ArrayRef<int64_t> shape, Type element) {
  Value index;
  if (pick(3) && llvm::product_of(shape) <= mostElements) {
    index = rowMajor(shape);
    index = op<arith::AddIOp>(index, constant(shape, i32(), 4 * pick(8)));
  } else {
    index = someTileOf(shape, i32());
    index = op<arith::AndIOp>(index, constant(shape, i32(), inputElements - 1));
  }
  Value ptr = splat(input(element), shape);
  Type width = pick(4) ? i32() : builder.getI64Type();
  ptr = op<tile::AddPtrOp>(ptr.getType(), ptr, cast(index, width));
  Value mask, other;
  if (coin()) {
    mask = coin() ? someMask(shape)
                  : Value(op<arith::CmpIOp>(arith::CmpIPredicate::slt, index,
                                            splat(someScalar(), shape)));
    if (coin())
      other = cast(splat(someScalar(), shape), element);
  }
  return op<tile::LoadOp>(ptr, mask, other);
}

/// A block of a view of a buffer, which it may leave on every side.
Value Generator::block(ArrayRef<int64_t> shape, Type element) {
  SmallVector<Value> sizes, strides, offsets;
  // At most 16 elements along each axis, 16³ in all; strides so that none overlaps.
  static constexpr int64_t steps[] = {1, 16, 256};
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  std::shuffle(order.begin(), order.end(), random);
  for (unsigned d = 0; d < shape.size(); ++d) {
    sizes.push_back(coin() ? kernel.getArgument(2 * elements.size()) : number(pick(17)));
    strides.push_back(number(steps[order[d]], pick(4) ? i32() : builder.getI64Type()));
    offsets.push_back(someScalar());
  }
  auto type = tile::ViewType::get(shape.size(), element);
  Value view = op<tile::MakeViewOp>(type, input(element), sizes, strides);
  TypedAttr padding;
  if (coin() && !element.isInteger(1)) {
    if (isa<FloatType>(element))
      padding = builder.getFloatAttr(element, pick(14));
    else
      padding = builder.getIntegerAttr(element, pick(100));
  }
  return op<tile::LoadBlockOp>(tileOf(shape, element), view, offsets, padding, tile::Cache::Default,
                               tile::Eviction::Normal);
}

/// A view of n elements of an output that a program has for itself; some may lie outside.
Value Generator::ownBlock(ArrayRef<int64_t> shape, Type element, int64_t n, int64_t first) {
  Value id = op<tile::ProgramIdOp>(i32(), 0);
  Value start = op<arith::MulIOp>(id, number(n));
  start = op<arith::AddIOp>(start, number(first));
  Value base = op<tile::AddPtrOp>(output(element).getType(), output(element), start);
  SmallVector<Value> sizes, strides;
  int64_t stride = n;
  for (int64_t extent : shape) {
    stride /= extent;
    sizes.push_back(number(extent - (coin() ? pick(extent) : 0)));
    strides.push_back(number(stride));
  }
  return op<tile::MakeViewOp>(tile::ViewType::get(shape.size(), element), base, sizes, strides);
}

/// Each program of the grid has its own part of what is stored.
void Generator::store(Value tile) {
  ArrayRef<int64_t> shape = shapeOf(tile);
  Type element = elementOf(tile);
  int64_t n = llvm::product_of(shape), first = stored[element];
  if (first + n * options.programs > outputElements)
    return;
  stored[element] += n * options.programs;
  if (pick(3) == 0) {
    Value view = ownBlock(shape, element, n, first);
    SmallVector<Value> offsets;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      offsets.push_back(number(0));
    tile::StoreBlockOp::create(builder, loc, view, offsets, tile, tile::Cache::Default,
                               tile::Eviction::Normal);
    return;
  }
  if (shape.size() == 2 && first == 0 && coin())
    return storeRows(tile);
  Value id = op<tile::ProgramIdOp>(i32(), 0);
  Value start = op<arith::MulIOp>(id, number(n));
  start = op<arith::AddIOp>(start, number(first));
  Value ptr = splat(output(element), shape);
  Value index = rowMajor(shape), from = splat(start, shape);
  index = op<arith::AddIOp>(index, from);
  ptr = op<tile::AddPtrOp>(ptr.getType(), ptr, index);
  tile::StoreOp::create(builder, loc, ptr, tile, coin() ? someMask(shape) : Value());
}

/// Into a view of all programs' rows, whose last ones may lie outside. Copy engines store such.
void Generator::storeRows(Value tile) {
  const int64_t rows = shapeOf(tile)[0], columns = shapeOf(tile)[1];
  Value to = output(elementOf(tile)), one = number(1), pitch = number(columns);
  if (coin())
    promiseWholePieces(to);
  Value height = number(rows * options.programs - (coin() ? pick(rows) : 0));
  Value width = number(columns - (columns > 8 && coin() ? int64_t(4 << pick(2)) : 0));
  Value view = op<tile::MakeViewOp>(tile::ViewType::get(2, elementOf(tile)), to,
                                    ValueRange{height, width}, ValueRange{pitch, one});
  Value at = op<arith::MulIOp>(op<tile::ProgramIdOp>(i32(), 0), number(rows));
  tile::StoreBlockOp::create(builder, loc, view, ValueRange{at, number(0)}, tile,
                             tile::Cache::Default, tile::Eviction::Normal);
}

//===-- Control flow --------------------------------------------------------------------------===//

void Generator::keep(Value value) {
  if (isa<RankedTensorType>(value.getType())) {
    tiles.push_back(value);
    return;
  }
  // Addresses are computed from scalars, and must not overflow.
  value = cast(value, i32());
  value = op<arith::AndIOp>(value, number(127));
  scalars.push_back(op<arith::SubIOp>(value, number(32)));
}

/// Counts up to a scalar, changing a tile on the way.
void Generator::whileLoop() {
  Value init = someTile(), end = someScalar();
  end = op<arith::AndIOp>(end, number(3));
  SmallVector<Type> types = {i32(), init.getType()};
  SmallVector<Location> locs = {loc, loc};
  auto loop = scf::WhileOp::create(builder, loc, types, ValueRange{number(0), init});
  OpBuilder::InsertionGuard guard(builder);
  Block *before = builder.createBlock(&loop.getBefore(), {}, types, locs);
  Value on = op<arith::CmpIOp>(arith::CmpIPredicate::slt, before->getArgument(0), end);
  scf::ConditionOp::create(builder, loc, on, before->getArguments());
  Block *after = builder.createBlock(&loop.getAfter(), {}, types, locs);
  std::vector<Value> outerTiles = tiles, outerScalars = scalars;
  std::vector<Arena> outerArenas = arenas;
  if (options.memory && coin())
    memoryStep(2);
  Value counted = op<arith::AddIOp>(after->getArgument(0), number(1));
  if (coin()) // a range's counter then
    counted.getDefiningOp()->setDiscardableAttr(tile::fitsAttr, builder.getUnitAttr());
  Value other = someTileOf(shapeOf(init), elementOf(init));
  scf::YieldOp::create(builder, loc, ValueRange{counted, combine(after->getArgument(1), other)});
  tiles = outerTiles;
  scalars = outerScalars;
  arenas = outerArenas;
  tiles.push_back(loop.getResult(1));
  scalars.push_back(loop.getResult(0));
}

void Generator::loop(unsigned depth) {
  // A few tiles are carried; what is made inside is not seen outside.
  SmallVector<Value> inits;
  for (unsigned i = 1 + pick(3); i-- > 0;)
    inits.push_back(someTile());
  Value trips = someScalar();
  trips = op<arith::AndIOp>(trips, number(3));
  Value first = coin() ? number(0) : number(-int64_t(pick(5))), step = number(1 + pick(2));
  auto loop = scf::ForOp::create(builder, loc, first, trips, step, inits);
  if (pick(3) == 0)
    loop->setAttr("cta.unroll", builder.getI32IntegerAttr(1 + pick(4)));
  std::vector<Value> outerTiles = tiles, outerScalars = scalars;
  std::vector<Arena> outerArenas = arenas;
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
      yields.push_back(combine(carried, someTileOf(shapeOf(carried), elementOf(carried))));
    scf::YieldOp::create(builder, loc, yields);
  }
  tiles = outerTiles;
  scalars = outerScalars;
  arenas = outerArenas;
  for (Value result : loop.getResults())
    tiles.push_back(result);
}

void Generator::branch(unsigned depth) {
  Value like = someTile(), a = someScalar(), b = someScalar();
  Value condition = op<arith::CmpIOp>(arith::CmpIPredicate::slt, a, b);
  auto branch = scf::IfOp::create(builder, loc, TypeRange{like.getType()}, condition,
                                  /*withElseRegion=*/true);
  for (Block *block : {branch.thenBlock(), branch.elseBlock()}) {
    OpBuilder::InsertionGuard guard(builder);
    std::vector<Value> outerTiles = tiles, outerScalars = scalars;
    std::vector<Arena> outerArenas = arenas;
    builder.setInsertionPointToEnd(block);
    for (unsigned i = pick(3); i-- > 0;)
      statement(depth + 1);
    Value result = combine(like, someTileOf(shapeOf(like), elementOf(like)));
    scf::YieldOp::create(builder, loc, result);
    tiles = outerTiles;
    scalars = outerScalars;
    arenas = outerArenas;
  }
  tiles.push_back(branch.getResult(0));
}

void Generator::focusedStep() {
  switch (options.focus) {
  case Focus::None:
    return;
  case Focus::Nests:
    return pick(4) ? keep(nestOfProducts()) : farLoop();
  case Focus::Products:
    return keep(pick(3) ? attention() : matmul());
  case Focus::Chains:
    return chainsOfProducts();
  case Focus::HandOvers:
    return options.programs > 1 && pick(3) ? handOverAlong() : handOverWithin();
  case Focus::Integers:
    return integerStep();
  case Focus::Constants:
    return constantsBesideMemory();
  }
}

void Generator::statement(unsigned depth) {
  // Not in branches and loops: all programs take part in a hand-over, once.
  if (options.focus != Focus::None && depth == 0 && coin())
    return focusedStep();
  if (options.memory && pick(3))
    return memoryStep(depth);
  Value tile = someTile();
  switch (pick(28)) {
  case 0: {
    Shape shape = someShape();
    return keep(makeTile(shape, someElement()));
  }
  case 1:
  case 2:
  case 3:
    return keep(combine(tile, someTileOf(shapeOf(tile), elementOf(tile))));
  case 4:
    return keep(change(tile));
  case 5:
  case 6:
    return keep(cast(tile, someElement()));
  case 7:
  case 8:
  case 9:
    return keep(reshaped(tile));
  case 10:
  case 11:
    return keep(reduced(tile));
  case 14:
    return keep(scanned(tile));
  case 15:
  case 16:
    return keep(moved(tile));
  case 17:
    return keep(histogram(tile));
  case 18:
    return keep(sorted(tile));
  case 19:
    return keep(mapped(tile));
  case 12:
    if (shapeOf(tile).size() > 1)
      keep(dot(tile));
    return;
  case 13:
    return keep(call(tile));
  case 20:
    return integerStep();
  case 21:
    return constantsBesideMemory();
  default:
    break;
  }
  if (depth > 1)
    return;
  switch (pick(13)) {
  case 11:
    return keep(nestOfProducts());
  case 12:
    return farLoop();
  case 0:
  case 9:
  case 10:
    return keep(matmul());
  case 1:
    return keep(attention());
  case 2:
    return atomic();
  case 6:
    return atomicBlock();
  case 7:
    return keep(scaledDot());
  case 8:
    return swap();
  case 3:
    return pick(3) ? loop(depth) : whileLoop();
  default:
    return branch(depth);
  }
}

OwningOpRef<ModuleOp> Generator::make() {
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> arguments;
  for (unsigned i = 0; i < 2; ++i)
    for (Type element : elements)
      arguments.push_back(tile::PtrType::get(element));
  arguments.append(2, i32());
  if (options.focus == Focus::HandOvers)
    for (Type element : renamedTypes(builder.getContext()))
      arguments.push_back(tile::PtrType::get(element));
  kernel =
      func::FuncOp::create(builder, loc, "random_program", builder.getFunctionType(arguments, {}));
  kernel->setAttr(tile::kernelAttr, builder.getUnitAttr());
  if (options.cluster > 1)
    kernel->setAttr(tile::clusterAttr, builder.getI32IntegerAttr(options.cluster));
  builder.setInsertionPointToEnd(kernel.addEntryBlock());
  for (unsigned i = 0; i < 2 * elements.size(); ++i)
    if (coin())
      promiseWholePieces(kernel.getArgument(i));
  scalars = {kernel.getArgument(2 * elements.size()), kernel.getArgument(2 * elements.size() + 1),
             op<tile::ProgramIdOp>(i32(), 0)};
  Shape first = someShape();
  tiles.push_back(makeTile(first, someElement()));
  if (options.memory)
    someArena();
  for (unsigned i = options.focus == Focus::None ? 4 + pick(12) : 3 + pick(5); i-- > 0;)
    statement(0);
  unsigned kept = 0;
  for (unsigned i = tiles.size(); i-- > 0 && kept < 4; ++kept)
    store(tiles[i]);
  func::ReturnOp::create(builder, loc);
  return module;
}

} // namespace sectile::fuzz
