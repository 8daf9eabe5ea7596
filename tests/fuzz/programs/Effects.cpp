// Random atomic operations whose outcome does not depend on their order, and calls.
#include "tests/fuzz/programs/Generator.h"

using namespace mlir;

namespace sectile::fuzz {

/// On places of their own the result is kept; where elements meet, or programs, what is left in
/// memory is the same in every order.
void Generator::atomic() {
  Type element = coin() ? i32() : Type(builder.getI64Type());
  Value value = someTile();
  ArrayRef<int64_t> shape = shapeOf(value);
  value = cast(value, element);
  bool apart = coin();
  int64_t places = apart ? llvm::product_of(shape) * options.programs : 64;
  int64_t first = stored[element];
  if (first + places > outputElements)
    return;
  stored[element] += places;
  Value index;
  if (apart) {
    Value id = op<tile::ProgramIdOp>(i32(), 0);
    Value start = op<arith::MulIOp>(id, number(llvm::product_of(shape)));
    index = rowMajor(shape);
    start = splat(start, shape);
    index = op<arith::AddIOp>(index, start);
  } else {
    index = someTileOf(shape, i32());
    index = op<arith::AndIOp>(index, constant(shape, i32(), places - 1));
  }
  index = op<arith::AddIOp>(index, constant(shape, i32(), first));
  Value ptr = splat(output(element), shape);
  ptr = op<tile::AddPtrOp>(ptr.getType(), ptr, index);
  using enum tile::AtomicKind;
  static constexpr tile::AtomicKind kinds[] = {Add, Max, Min, UMax, UMin, And, Or, Xor};
  // Of one kind, as different ones do not commute.
  tile::AtomicKind kind = apart && pick(4) == 0 ? Exchange : oneOf(kinds);
  static constexpr tile::Order orders[] = {tile::Order::Relaxed, tile::Order::Acquire,
                                           tile::Order::Release, tile::Order::AcquireRelease};
  static constexpr tile::Scope scopes[] = {tile::Scope::Device, tile::Scope::System};
  Value mask = coin() ? someMask(shape) : Value();
  tile::Order order = oneOf(orders);
  tile::Scope scope = oneOf(scopes);
  Value before =
      op<tile::AtomicRMWOp>(value.getType(), kind, ptr, value, mask, order, scope, IntegerAttr());
  // The interpreter does not know that no other program meets it.
  if (apart && pick(4) == 0)
    keep(before);
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
