// Random integers at the ends of their types: numbers that wrap, are unsigned and above half, or
// are extended by shifts; and what depends on them: masks, places in memory, blocks of views and
// bounds of loops.
#include "mlir/Dialect/Math/IR/Math.h"
#include "tests/fuzz/programs/Generator.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace sectile::fuzz {

/// A number close to an end of a type, signed or unsigned, or one that hashes well.
uint64_t Generator::extremeBits(Type element) {
  const unsigned bits = element.getIntOrFloatBitWidth();
  const uint64_t half = uint64_t(1) << (bits - 1), near = pick(4) ? pick(3) : pick(100);
  switch (pick(6)) {
  case 0:
    return half - 1 - near;
  case 1:
    return half + near;
  case 2:
    return -near;
  case 3:
    return near;
  case 4:
    return 1103515245 * uint64_t(bits > 16 ? 1 : 3) + near;
  default:
    return random();
  }
}

/// One step of a hash, or of other arithmetic that may wrap.
Value Generator::scrambled(Value x) {
  Shape shape(shapeOf(x));
  Type element = elementOf(x);
  const unsigned bits = element.getIntOrFloatBitWidth();
  auto constantOf = [&](uint64_t value) { return constantBits(shape, element, value); };
  auto amount = [&] { return constantOf(1 + pick(bits - 1)); };
  switch (pick(15)) {
  case 0:
  case 1: {
    Value product = op<arith::MulIOp>(x, constantOf(extremeBits(element) | 1));
    return coin() ? product : op<arith::AddIOp>(product, constantOf(extremeBits(element)));
  }
  case 2:
    return op<arith::AddIOp>(x, constantOf(extremeBits(element)));
  case 3:
    return op<arith::SubIOp>(constantOf(extremeBits(element)), x);
  case 4: {
    Value shifted = pick(3) == 0 ? op<arith::ShLIOp>(x, amount())
                    : coin()     ? Value(op<arith::ShRUIOp>(x, amount()))
                                 : Value(op<arith::ShRSIOp>(x, amount()));
    return op<arith::XOrIOp>(x, shifted);
  }
  case 5:
  case 6: {
    // The sign of a number of fewer bits, or none.
    const uint64_t by = bits / 2 + pick(bits / 2);
    Value up = op<arith::ShLIOp>(x, constantOf(by)), down = constantOf(by);
    return pick(3) ? op<arith::ShRSIOp>(up, down) : Value(op<arith::ShRUIOp>(up, down));
  }
  case 7: {
    static constexpr uint64_t divisors[] = {2, 3, 7, 8, 10, 16, 100};
    Value by = constantOf(oneOf(divisors));
    switch (pick(4)) {
    case 0:
      return op<arith::DivSIOp>(x, by);
    case 1:
      return op<arith::DivUIOp>(x, by);
    case 2:
      return op<arith::RemSIOp>(x, by);
    default:
      return op<arith::RemUIOp>(x, by);
    }
  }
  case 8: {
    Value limit = constantOf(extremeBits(element));
    switch (pick(4)) {
    case 0:
      return op<arith::MinSIOp>(x, limit);
    case 1:
      return op<arith::MaxSIOp>(x, limit);
    case 2:
      return op<arith::MinUIOp>(x, limit);
    default:
      return op<arith::MaxUIOp>(x, limit);
    }
  }
  case 9: {
    Value mask = constantOf(coin() ? (uint64_t(1) << pick(bits)) - 1 : random());
    return coin() ? op<arith::AndIOp>(x, mask) : Value(op<arith::OrIOp>(x, mask));
  }
  case 10:
    return bits < 32 ? op<arith::MulIOp>(x, x) : Value(op<math::AbsIOp>(x));
  case 11: {
    Type other = someInteger();
    return cast(cast(x, other), element);
  }
  case 12: {
    // Doubled until it wraps.
    const int64_t times = 1 + pick(bits);
    Value first = number(0), last = number(times), one = number(1);
    auto loop = scf::ForOp::create(builder, loc, first, last, one, ValueRange{x});
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value carried = loop.getRegionIterArg(0);
    Value next = op<arith::AddIOp>(carried, carried);
    if (coin())
      next = op<arith::AddIOp>(next, constantOf(pick(4)));
    scf::YieldOp::create(builder, loc, next);
    return loop.getResult(0);
  }
  case 13: {
    if (shape.empty())
      return op<arith::XOrIOp>(x, constantOf(extremeBits(element)));
    // A prefix sum, or that of the elements before.
    auto scan = tile::ScanOp::create(builder, loc, TypeRange{x.getType()}, ValueRange{x},
                                     pick(shape.size()), /*reverse=*/coin(), IntegerAttr());
    addCombiner(scan.getCombiner(), ValueRange{x}, 0);
    return coin() ? scan.getResult(0) : Value(op<arith::SubIOp>(scan.getResult(0), x));
  }
  default: {
    Value program = cast(scalars[2], element);
    if (!shape.empty())
      program = splat(program, shape);
    Value far = op<arith::MulIOp>(program, constantOf(extremeBits(element)));
    return op<arith::AddIOp>(x, far);
  }
  }
}

/// Integers that have wrapped, or may have: in runs along the last axis, or of memory.
Value Generator::wild(ArrayRef<int64_t> shape, Type element) {
  Value x;
  if (shape.empty()) {
    x = cast(coin() ? lateNumber() : scalars[pick(3)], element);
  } else if (pick(4) == 0) {
    x = makeTile(shape, element);
  } else {
    x = cast(rowMajor(shape), element);
    if (coin()) {
      Value program = splat(cast(scalars[2], element), shape);
      program = op<arith::MulIOp>(program, constantBits(shape, element, extremeBits(element)));
      x = op<arith::AddIOp>(program, x);
    } else {
      x = op<arith::AddIOp>(x, constantBits(shape, element, extremeBits(element)));
    }
  }
  for (unsigned i = pick(4); i-- > 0;)
    x = scrambled(x);
  return x;
}

/// What a hash decides.
Value Generator::decided(Value x) {
  Shape shape(shapeOf(x));
  Type element = elementOf(x);
  const unsigned bits = element.getIntOrFloatBitWidth();
  static constexpr uint64_t units[] = {1, 2, 4, 8, 16, 32, 3, 12};
  auto constantOf = [&](uint64_t value) { return constantBits(shape, element, value); };
  auto predicate = static_cast<arith::CmpIPredicate>(pick(10));
  switch (pick(4)) {
  case 0:
  case 1: {
    // The same in runs of so many from zero on.
    Value unit = constantOf(oneOf(units)), two = constantOf(2 + pick(2));
    x = coin() ? op<arith::DivSIOp>(x, unit) : Value(op<arith::DivUIOp>(x, unit));
    x = coin() ? op<arith::RemSIOp>(x, two) : Value(op<arith::RemUIOp>(x, two));
    auto equal = coin() ? arith::CmpIPredicate::eq : arith::CmpIPredicate::ne;
    return op<arith::CmpIOp>(equal, x, constantOf(coin() ? 0 : 1));
  }
  case 2: {
    const uint64_t bit = uint64_t(1) << pick(bits);
    Value cut = op<arith::AndIOp>(x, constantOf(coin() ? bit : -bit));
    return op<arith::CmpIOp>(arith::CmpIPredicate::ne, cut, constantOf(0));
  }
  default:
    return op<arith::CmpIOp>(predicate, x, constantOf(extremeBits(element)));
  }
}

/// From 0 on and below a power of two, as an i32.
Value Generator::within(Value x, int64_t below) {
  Shape shape(shapeOf(x));
  Type element = elementOf(x);
  const unsigned bits = element.getIntOrFloatBitWidth(), log = llvm::Log2_64(below);
  if (bits <= log)
    return op<arith::ExtUIOp>(tile::withElementType(x.getType(), i32()), x);
  auto constantOf = [&](uint64_t value) { return constantBits(shape, element, value); };
  switch (pick(4)) {
  case 0:
    x = op<arith::AndIOp>(x, constantOf(below - 1));
    break;
  case 1:
    x = op<arith::RemUIOp>(x, constantOf(below - pick(below / 2)));
    break;
  case 2:
    x = op<arith::ShRUIOp>(x, constantOf(bits - log));
    break;
  default:
    // A remainder has the sign of what is divided.
    x = op<arith::RemSIOp>(x, constantOf(below / 2));
    x = op<arith::AddIOp>(x, constantOf(below / 2));
  }
  if (bits == 32)
    return x;
  Type type = tile::withElementType(x.getType(), i32());
  return bits > 32 ? op<arith::TruncIOp>(type, x) : Value(op<arith::ExtUIOp>(type, x));
}

//===-- What depends on them ------------------------------------------------------------------===//

Generator::Shape Generator::longShape() {
  static constexpr int64_t lengths[] = {64, 128, 256, 512, 1024, 96};
  if (pick(4))
    return {oneOf(lengths)};
  return {int64_t(1) << pick(4), int64_t(16) << pick(3)};
}

/// Neighbours in memory under a mask, which whole vectors may share or not.
void Generator::maskedByHash() {
  Shape shape = longShape();
  Value mask = decided(wild(shape, someInteger()));
  Type element = someElement();
  Value index = rowMajor(shape);
  if (coin())
    index = op<arith::AddIOp>(index, constant(shape, i32(), 4 * pick(16)));
  Value ptr = splat(input(element), shape);
  ptr = op<tile::AddPtrOp>(ptr.getType(), ptr, index);
  if (coin()) {
    Value other = coin() ? Value() : cast(constant(shape, i32(), 77), element);
    return observe(op<tile::LoadOp>(ptr, mask, other));
  }
  Value loaded = op<tile::LoadOp>(ptr, Value(), Value());
  const int64_t n = llvm::product_of(shape), first = stored[element];
  if (first + n * options.programs > outputElements)
    return;
  stored[element] += n * options.programs;
  Value start = op<arith::MulIOp>(scalars[2], number(n));
  start = op<arith::AddIOp>(start, number(first));
  Value place = rowMajor(shape);
  place = op<arith::AddIOp>(place, splat(start, shape));
  Value to = splat(output(element), shape);
  to = op<tile::AddPtrOp>(to.getType(), to, place);
  tile::StoreOp::create(builder, loc, to, loaded, mask);
}

/// Elements at hashed places, all of them within the buffer.
void Generator::gatherByHash() {
  Shape shape = coin() ? longShape() : someShape();
  Value index = within(wild(shape, someInteger()), int64_t(16) << pick(9));
  Type element = someElement();
  if (pick(3) == 0)
    index = op<arith::ExtSIOp>(tile::withElementType(index.getType(), builder.getI64Type()), index);
  Value ptr = splat(input(element), shape);
  ptr = op<tile::AddPtrOp>(ptr.getType(), ptr, index);
  observe(op<tile::LoadOp>(ptr, Value(), Value()));
}

/// A hashed offset, of which some lie before a view, some in it, and some beyond it.
Value Generator::hashedOffset(int64_t extent) {
  Type element = someInteger();
  Value x = wild({}, element);
  const unsigned bits = element.getIntOrFloatBitWidth();
  auto constantOf = [&](uint64_t value) { return constantBits({}, element, value); };
  switch (pick(5)) {
  case 0:
    x = op<arith::RemSIOp>(x, constantOf(std::min<int64_t>(2 * extent, 127)));
    break;
  case 1:
    x = op<arith::ShRSIOp>(x, constantOf(bits - std::min<unsigned>(bits, 7)));
    break;
  case 2: {
    const uint64_t by = bits - std::min<unsigned>(bits, 6);
    x = op<arith::ShLIOp>(x, constantOf(by));
    x = op<arith::ShRSIOp>(x, constantOf(by));
    break;
  }
  case 3:
    x = op<arith::RemUIOp>(x, constantOf(std::min<int64_t>(2 * extent, 127)));
    break;
  default: {
    Value half = op<arith::AndIOp>(x, constantOf(127));
    x = op<arith::AddIOp>(half, constantOf(pick(120)));
    if (bits == 8)
      return op<arith::ExtUIOp>(i32(), x);
  }
  }
  if (bits == 32)
    return x;
  if (bits > 32)
    return pick(3) ? op<arith::TruncIOp>(i32(), x) : x;
  return op<arith::ExtSIOp>(i32(), x);
}

/// Blocks of a view within a buffer that a hash puts anywhere: padding is loaded from outside of
/// the view, and nothing is stored there.
void Generator::blockByHash() {
  const bool stores = pick(3) == 0;
  Type element = someElement();
  static constexpr int64_t lengths[] = {8, 16, 32, 64};
  const int64_t length = oneOf(lengths), extent = 40 + pick(30), before = 256;
  // As much memory on either side as an offset may reach, of the program's own where it stores.
  Value buffer = input(element), start = number(before);
  constexpr int64_t room = 1024;
  if (stores) {
    const int64_t first = stored[element];
    if (first + room * options.programs > outputElements)
      return;
    stored[element] += room * options.programs;
    buffer = output(element);
    start = op<arith::MulIOp>(scalars[2], number(room));
    start = op<arith::AddIOp>(start, number(first + before));
  }
  const unsigned rank = 1 + pick(2);
  Shape shape = rank == 1 ? Shape{length} : Shape{4, length};
  Value base = op<tile::AddPtrOp>(buffer.getType(), buffer, start);
  SmallVector<Value> sizes, strides, offsets;
  if (rank == 2) {
    sizes.push_back(number(4));
    strides.push_back(number(72));
    offsets.push_back(pick(3) ? number(0) : hashedOffset(4));
  }
  sizes.push_back(coin() ? number(extent) : kernel.getArgument(2 * elements.size() + 1));
  strides.push_back(number(1));
  offsets.push_back(hashedOffset(extent));
  if (coin() && length < 64) // by index of blocks
    if (offsets.back().getType() == i32()) {
      Value few = op<arith::RemSIOp>(offsets.back(), number(8));
      offsets.back() = op<arith::MulIOp>(few, number(length));
    }
  Value view = op<tile::MakeViewOp>(tile::ViewType::get(rank, element), base, sizes, strides);
  if (stores) {
    Value tile = makeTile(shape, element);
    tile::StoreBlockOp::create(builder, loc, view, offsets, tile, tile::Cache::Default,
                               tile::Eviction::Normal);
    return;
  }
  observe(op<tile::LoadBlockOp>(tileOf(shape, element), view, offsets, TypedAttr(),
                                tile::Cache::Default, tile::Eviction::Normal));
}

/// A loop from one hashed number to another.
void Generator::loopByHash() {
  auto few = [&] {
    Type element = someInteger();
    Value x = wild({}, element);
    const unsigned bits = element.getIntOrFloatBitWidth();
    x = coin() ? op<arith::RemSIOp>(x, constantBits({}, element, 6))
               : Value(op<arith::ShRSIOp>(x, constantBits({}, element, bits - 3)));
    // Zeros ahead of a negative number would make it thousands.
    return bits < 32 ? Value(op<arith::ExtSIOp>(i32(), x)) : cast(x, i32());
  };
  Value first = few(), last = few(), step = someStep();
  Shape shape = longShape();
  Value tile = makeTile(shape, i32());
  auto loop = scf::ForOp::create(builder, loc, first, last, step, ValueRange{tile});
  hintAt(loop);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value at = splat(loop.getInductionVar(), shape);
    Value carried = loop.getRegionIterArg(0);
    Value mixed = op<arith::AddIOp>(carried, at);
    Value taken = decided(scrambled(at));
    Value next = op<arith::SelectOp>(taken, mixed, carried);
    scf::YieldOp::create(builder, loc, scrambled(next));
  }
  observe(loop.getResult(0));
}

void Generator::integerStep() {
  switch (pick(8)) {
  case 0:
  case 1:
    return maskedByHash();
  case 2:
  case 3:
    return gatherByHash();
  case 4:
  case 5:
    return blockByHash();
  case 6:
    return loopByHash();
  default:
    return observe(wild(longShape(), someInteger()));
  }
}

} // namespace sectile::fuzz
