// Random atomic operations whose outcome does not depend on their order, and calls.
#include "tests/fuzz/programs/Generator.h"

using namespace mlir;

namespace sectile::fuzz {

/// What to add to memory: of sums that have to come out the same in every order, small whole
/// numbers.
Value Generator::addend(Value tile, Type element) {
  if (!options.exact || isa<IntegerType>(element))
    return cast(tile, element);
  return whole(cast(tile, i32()), 4, element);
}

static tile::AtomicKind kindFor(Type element, size_t choice) {
  using enum tile::AtomicKind;
  static constexpr tile::AtomicKind ofIntegers[] = {Add, Max, Min, UMax, UMin, And, Or, Xor},
                                    ofFloats[] = {FAdd, FMax, FMin};
  return isa<FloatType>(element) ? ofFloats[choice % 3] : ofIntegers[choice % 8];
}

static Type someAtomicElement(Builder &builder, size_t choice) {
  Type elements[] = {builder.getI32Type(), builder.getI32Type(),  builder.getI64Type(),
                     builder.getF16Type(), builder.getBF16Type(), builder.getF32Type(),
                     builder.getF32Type(), builder.getF64Type()};
  return elements[choice % 8];
}

/// Pointers to elements of an output that the program has for itself; nothing where there are no
/// more.
Value Generator::ownPlaces(ArrayRef<int64_t> shape, Type element) {
  int64_t n = llvm::product_of(shape), first = stored[element];
  if (first + n * options.programs > outputElements)
    return {};
  stored[element] += n * options.programs;
  Value id = op<tile::ProgramIdOp>(i32(), 0);
  Value start = op<arith::MulIOp>(id, number(n));
  Value index = rowMajor(shape);
  start = splat(start, shape);
  index = op<arith::AddIOp>(index, start);
  index = op<arith::AddIOp>(index, constant(shape, i32(), first));
  Value ptr = splat(output(element), shape);
  return op<tile::AddPtrOp>(ptr.getType(), ptr, index);
}

/// Pointers to a few elements of an output that other elements and programs have, too.
Value Generator::sharedPlaces(ArrayRef<int64_t> shape, Type element) {
  constexpr int64_t places = 64;
  int64_t first = stored[element];
  if (first + places > outputElements)
    return {};
  stored[element] += places;
  Value index = someTileOf(shape, i32());
  index = op<arith::AndIOp>(index, constant(shape, i32(), places - 1));
  index = op<arith::AddIOp>(index, constant(shape, i32(), first));
  Value ptr = splat(output(element), shape);
  return op<tile::AddPtrOp>(ptr.getType(), ptr, index);
}

static constexpr tile::Order orders[] = {tile::Order::Relaxed, tile::Order::Acquire,
                                         tile::Order::Release, tile::Order::AcquireRelease};
static constexpr tile::Scope scopes[] = {tile::Scope::Device, tile::Scope::System};

/// On places of their own the result is kept; where elements meet, or programs, what is left in
/// memory is the same in every order, but for the rounding of sums.
void Generator::atomic() {
  Type element = someAtomicElement(builder, pick(8));
  Value value = someTile();
  ArrayRef<int64_t> shape = shapeOf(value);
  value = addend(value, element);
  bool apart = coin();
  Value ptr = apart ? ownPlaces(shape, element) : sharedPlaces(shape, element);
  if (!ptr)
    return;
  // Of one kind, as different ones do not commute.
  tile::AtomicKind kind = kindFor(element, pick(24));
  if (apart && bytesOf(element) >= 4 && pick(4) == 0)
    kind = tile::AtomicKind::Exchange;
  Value mask = coin() ? someMask(shape) : Value();
  tile::Order order = oneOf(orders);
  tile::Scope scope = oneOf(scopes);
  Value before =
      op<tile::AtomicRMWOp>(value.getType(), kind, ptr, value, mask, order, scope, IntegerAttr());
  // The interpreter does not know that no other program meets it.
  if (apart && pick(4) == 0)
    keep(before);
}

/// Compares with what memory holds, or with something else.
void Generator::swap() {
  Type all[] = {builder.getI16Type(),  i32(),
                builder.getI64Type(),  builder.getF16Type(),
                builder.getBF16Type(), builder.getF32Type(),
                builder.getF64Type()};
  Type element = oneOf(all);
  Value value = someTile();
  Shape shape(shapeOf(value));
  value = cast(value, element);
  Value ptr = ownPlaces(shape, element);
  if (!ptr)
    return;
  Value held = constantBits(shape, element, bitsBefore(element));
  Value other = someTileOf(shape, element), holds = someMask(shape);
  Value expected = op<arith::SelectOp>(holds, held, other);
  Value mask = coin() ? someMask(shape) : Value();
  tile::Order order = oneOf(orders);
  tile::Scope scope = oneOf(scopes);
  op<tile::AtomicCasOp>(value.getType(), ptr, expected, value, mask, order, scope);
}

/// On a block of a view that the program has for itself, some of which may lie outside of it.
void Generator::atomicBlock() {
  Type element = someAtomicElement(builder, pick(8));
  Value value = someTile();
  ArrayRef<int64_t> shape = shapeOf(value);
  value = addend(value, element);
  int64_t n = llvm::product_of(shape), first = stored[element];
  if (first + n * options.programs > outputElements)
    return;
  stored[element] += n * options.programs;
  Value view = ownBlock(shape, element, n, first);
  SmallVector<Value> offsets;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    offsets.push_back(number(0));
  tile::AtomicKind kind = kindFor(element, pick(24));
  tile::Order order = oneOf(orders);
  tile::Scope scope = oneOf(scopes);
  op<tile::AtomicBlockOp>(value.getType(), kind, view, offsets, value, order, scope);
}

/// A function of two tiles, made now or before.
Value Generator::call(Value tile) {
  std::vector<func::FuncOp> fitting;
  for (func::FuncOp function : functions)
    if (function.getArgumentTypes()[0] == tile.getType())
      fitting.push_back(function);
  func::FuncOp function;
  if (!fitting.empty() && pick(3)) {
    function = oneOf(fitting);
  } else {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(kernel);
    std::string name = "function" + std::to_string(functions.size());
    Type type = tile.getType();
    function = func::FuncOp::create(builder, loc, name,
                                    builder.getFunctionType({type, type, i32()}, {type}));
    function.setPrivate();
    builder.setInsertionPointToEnd(function.addEntryBlock());
    // Nothing of the kernel's is seen in there, its buffers neither.
    Value x = function.getArgument(0), y = function.getArgument(1);
    Value both = isa<FloatType>(elementOf(x)) ? x : combineIntegers(x, y);
    Value less = compare(x, y);
    both = op<arith::SelectOp>(less, both, y);
    Value positive =
        op<arith::CmpIOp>(arith::CmpIPredicate::sgt, function.getArgument(2), number(3));
    Value result = op<arith::SelectOp>(positive, both, x);
    func::ReturnOp::create(builder, loc, result);
    functions.push_back(function);
  }
  Value other = someTileOf(shapeOf(tile), elementOf(tile)), scalar = someScalar();
  return func::CallOp::create(builder, loc, function, ValueRange{tile, other, scalar}).getResult(0);
}

} // namespace sectile::fuzz
