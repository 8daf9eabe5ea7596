// Random loops whose bounds are computed: nests of loops and branches around products, with steps
// and conditions of any arithmetic, and loops whose bounds are far apart or at the ends of their
// type.
#include "mlir/Dialect/Math/IR/Math.h"
#include "tests/fuzz/programs/Generator.h"

using namespace mlir;

namespace sectile::fuzz {

//===-- Arithmetic ----------------------------------------------------------------------------===//

/// An i32 by arithmetic of every kind on the numbers that are visible; it may be any and may have
/// wrapped.
Value Generator::arithmetic(unsigned depth) {
  if (depth == 0 || pick(4) == 0) {
    if (pick(4) == 0)
      return lateNumber();
    return pick(4) ? oneOf(scalars) : number(pick(8));
  }
  Value a = arithmetic(depth - 1);
  switch (pick(9)) {
  case 0:
    return op<math::AbsIOp>(a);
  case 1:
    return op<math::CtPopOp>(a);
  case 2: {
    // To a float and back, of numbers that a float holds.
    static constexpr double factors[] = {0.5, 1.5, -1, 3};
    Type f32 = builder.getF32Type();
    Value cut = op<arith::AndIOp>(a, number(1023));
    Value scaled = op<arith::SIToFPOp>(f32, cut);
    scaled = op<arith::MulFOp>(scaled, constant({}, f32, oneOf(factors)));
    return op<arith::FPToSIOp>(i32(), scaled);
  }
  case 3: {
    Value b = arithmetic(depth - 1), x = arithmetic(depth - 1);
    auto predicate = static_cast<arith::CmpIPredicate>(pick(10));
    Value condition = op<arith::CmpIOp>(predicate, a, b);
    return op<arith::SelectOp>(condition, x, coin() ? a : b);
  }
  case 4: {
    // Through another width.
    Type widths[] = {builder.getI8Type(), builder.getI16Type(), builder.getI64Type()};
    Type other = oneOf(widths);
    return cast(cast(a, other), i32());
  }
  case 5: {
    static constexpr int64_t divisors[] = {2, 3, 4, 5, 8};
    Value by = number(oneOf(divisors));
    switch (pick(4)) {
    case 0:
      return op<arith::DivSIOp>(a, by);
    case 1:
      return op<arith::DivUIOp>(a, by);
    case 2:
      return op<arith::RemSIOp>(a, by);
    default:
      return op<arith::RemUIOp>(a, by);
    }
  }
  default:
    return combineIntegers(a, arithmetic(depth - 1));
  }
}

/// A bound of a loop: a small number, whichever way it became that.
Value Generator::someBound() {
  Value x = arithmetic(1 + pick(3));
  switch (pick(10)) {
  case 0:
    return op<arith::AndIOp>(x, number(7));
  case 1: {
    Value positive = op<math::AbsIOp>(x);
    return op<arith::RemSIOp>(positive, number(6));
  }
  case 2:
    return op<arith::RemUIOp>(x, number(6));
  case 3: {
    Value least = op<arith::MaxSIOp>(x, number(-1));
    return op<arith::MinSIOp>(least, number(5));
  }
  case 4:
    return op<arith::RemSIOp>(x, number(5));
  case 5: {
    Value few = op<arith::AndIOp>(x, number(3));
    return op<arith::XOrIOp>(few, number(pick(8)));
  }
  case 6: {
    Value few = op<arith::AndIOp>(x, number(6));
    return op<arith::OrIOp>(few, number(1));
  }
  case 7:
    return op<arith::ShRUIOp>(x, number(29));
  case 8: {
    Value bits = op<math::CtPopOp>(x);
    return op<arith::ShRUIOp>(bits, number(2));
  }
  default: {
    // What a program number and others become at once.
    Value by = number(1 + pick(3));
    Value known = coin() ? scalars[2] : scalars[pick(2)]; // the program's, or of the launch
    switch (pick(5)) {
    case 0:
      return op<arith::AndIOp>(known, by);
    case 1:
      return op<arith::OrIOp>(scalars[2], by);
    case 2:
      return op<arith::XOrIOp>(scalars[2], by);
    case 3:
      return op<arith::ShLIOp>(scalars[2], by);
    default:
      return op<arith::ShRSIOp>(known, number(3 + pick(3)));
    }
  }
  }
}

/// Positive.
Value Generator::someStep() {
  if (pick(3) == 0)
    return number(1);
  Value x = arithmetic(2);
  switch (pick(5)) {
  case 0: {
    Value bit = op<arith::AndIOp>(x, number(1));
    return op<arith::AddIOp>(bit, number(1));
  }
  case 1: {
    Value few = op<arith::AndIOp>(x, number(3));
    return op<arith::OrIOp>(few, number(1));
  }
  case 2: {
    Value bit = op<arith::AndIOp>(x, number(1));
    return op<arith::ShLIOp>(number(1), bit);
  }
  case 3: {
    Value rest = op<arith::RemSIOp>(x, number(3));
    return op<arith::MaxSIOp>(rest, number(1));
  }
  default: {
    Value positive = op<math::AbsIOp>(x);
    Value rest = op<arith::RemUIOp>(positive, number(2));
    return op<arith::AddIOp>(rest, number(1));
  }
  }
}

Value Generator::someCondition() {
  Value a = arithmetic(2), b = coin() ? arithmetic(1) : number(pick(8));
  return op<arith::CmpIOp>(static_cast<arith::CmpIPredicate>(pick(10)), a, b);
}

//===-- Nests around products -----------------------------------------------------------------===//

/// One product of the block at `at`.
Value Generator::product(const Factors &of, Value at, Value sums) {
  Value start = op<arith::MulIOp>(at, number(of.k));
  Value left = load(of.left, of.rowOfLeft, start, of.m, of.k);
  Value right = of.turnedRight ? turned(load(of.right, of.columnOfRight, start, of.n, of.k))
                               : load(of.right, start, of.columnOfRight, of.k, of.n);
  return op<tile::DotOp>(sums.getType(), left, right, sums, tile::Precision::TF32);
}

/// What leaves sums whole numbers, if they are to be.
Value Generator::changedSums(Value sums) {
  Value zero = constant(shapeOf(sums), elementOf(sums), 0);
  if (elementOf(sums).isInteger(32))
    return coin() ? op<arith::SubIOp>(zero, sums) : op<arith::MaxSIOp>(zero, sums);
  if (!options.exact && coin())
    return op<arith::MulFOp>(sums, constant(shapeOf(sums), elementOf(sums), 0.5));
  return coin() ? op<arith::NegFOp>(sums) : op<arith::MaximumFOp>(sums, zero);
}

void Generator::hintAtProducts(Operation *loop) {
  hintAt(loop);
  if (pick(3))
    loop->setAttr("cta.warp_specialize", builder.getBoolAttr(pick(4) != 0));
}

/// A loop of products, which may carry a number as well that says which block is next.
Value Generator::productLoop(const Factors &of, Value sums) {
  Value first = coin() ? number(0) : someBound();
  Value last = coin() ? number(of.blocks) : someBound();
  Value step = coin() ? number(1) : someStep();
  const bool moves = pick(4) == 0;
  SmallVector<Value> inits = {sums};
  if (moves)
    inits.push_back(arithmetic(1));
  auto loop = scf::ForOp::create(builder, loc, first, last, step, inits);
  hintAtProducts(loop);
  std::vector<Value> outerScalars = scalars;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  scalars.push_back(loop.getInductionVar());
  Value at = loop.getInductionVar();
  if (moves)
    at = loop.getRegionIterArg(1);
  else if (pick(6) == 0)
    at = arithmetic(2);
  // Blocks beyond the last one are zeros.
  if (moves || at != loop.getInductionVar() || coin())
    at = pick(3) ? op<arith::AndIOp>(at, number(of.blocks - 1))
                 : op<arith::RemSIOp>(at, number(of.blocks + 1));
  Value next = loop.getRegionIterArg(0);
  if (pick(6) == 0)
    next = changedSums(next);
  next = product(of, at, next);
  if (pick(8) == 0) {
    Value other = op<arith::XOrIOp>(at, number(1));
    next = product(of, other, next);
  }
  SmallVector<Value> yields = {next};
  if (moves) {
    Value moved = loop.getRegionIterArg(1);
    yields.push_back(coin() ? op<arith::AddIOp>(moved, number(2))
                            : combineIntegers(moved, loop.getInductionVar()));
  }
  scf::YieldOp::create(builder, loc, yields);
  scalars = outerScalars;
  return loop.getResult(0);
}

/// One or two loops or branches with products inside, one in the other.
Value Generator::nest(const Factors &of, unsigned depth, Value sums) {
  for (unsigned i = 1 + pick(2); i-- > 0;) {
    const unsigned what = pick(depth == 0 ? 2 : 5);
    if (what < 2) {
      sums = productLoop(of, sums);
      continue;
    }
    std::vector<Value> outerScalars = scalars;
    if (what < 4) {
      Value first = coin() ? number(0) : someBound(), last = someBound(), step = someStep();
      auto loop = scf::ForOp::create(builder, loc, first, last, step, ValueRange{sums});
      if (pick(4) == 0)
        hintAt(loop);
      if (pick(4) == 0)
        loop->setAttr("cta.flatten", builder.getUnitAttr());
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(loop.getBody());
      scalars.push_back(loop.getInductionVar());
      // As in a loop over tiles, each of which begins anew, or on.
      const bool isTile = pick(4) == 0;
      Value inner = loop.getRegionIterArg(0);
      Value begin = isTile ? constant(shapeOf(sums), elementOf(sums), 0) : inner;
      Value next = nest(of, depth - 1, begin);
      if (isTile) {
        store(next);
        next = elementOf(sums).isInteger(32) ? op<arith::XOrIOp>(next, inner)
                                             : op<arith::MaximumFOp>(next, inner);
      }
      scf::YieldOp::create(builder, loc, next);
      sums = loop.getResult(0);
    } else {
      Value condition = someCondition();
      auto branch = scf::IfOp::create(builder, loc, TypeRange{sums.getType()}, condition,
                                      /*withElseRegion=*/true);
      for (Block *block : {branch.thenBlock(), branch.elseBlock()}) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToEnd(block);
        const bool isEmpty = block == branch.elseBlock() && pick(3);
        scf::YieldOp::create(builder, loc, isEmpty ? sums : nest(of, depth - 1, sums));
        scalars = outerScalars;
      }
      sums = branch.getResult(0);
    }
    scalars = outerScalars;
  }
  return sums;
}

/// Products of blocks of an input, which copy engines can fetch for instructions that take 64 rows.
Value Generator::nestOfProducts() {
  Type operands[] = {builder.getF16Type(), builder.getBF16Type(), builder.getF16Type(),
                     builder.getI8Type(), builder.getF32Type()};
  static constexpr int64_t widths[] = {16, 32, 64, 64}, depths[] = {16, 32, 32};
  Type element = oneOf(operands);
  Factors of{};
  of.m = pick(4) ? 64 : 32;
  of.n = oneOf(widths);
  of.k = oneOf(depths);
  of.turnedRight = coin();
  constexpr int64_t depth = 64;
  of.blocks = depth / of.k;
  promiseWholePieces(input(element));
  // The launch's own number of rows, or all.
  Value rows = coin() ? number(64) : kernel.getArgument(2 * elements.size() + 1);
  Value whole = number(depth), pitch = number(depth);
  of.left = matrix(element, 0, rows, whole, pitch, pick(4) == 0);
  of.right = matrix(element, 0, whole, whole, pitch, coin());
  of.rowOfLeft = number(0);
  of.columnOfRight = coin() ? number(0) : number(16);
  Type sum = element.isInteger(8) ? i32() : builder.getF32Type();
  return nest(of, pick(3), constant({of.m, of.n}, sum, 0));
}

//===-- Bounds far apart ----------------------------------------------------------------------===//

/// A loop of a few iterations whose bounds are further apart than its type counts, or at its ends.
/// The last number plus the step fits, as the language asks.
void Generator::farLoop() {
  const bool isWide = pick(3) == 0;
  Type type = isWide ? builder.getI64Type() : i32();
  const int64_t least = isWide ? std::numeric_limits<int64_t>::min() : INT32_MIN,
                most = isWide ? std::numeric_limits<int64_t>::max() : INT32_MAX;
  const unsigned bits = isWide ? 64 : 32;
  int64_t first;
  switch (pick(5)) {
  case 0:
    first = least + int64_t(pick(3));
    break;
  case 1:
    first = least / 4 * 3;
    break;
  case 2:
    first = most - int64_t(pick(100));
    break;
  case 3:
    first = 0;
    break;
  default:
    first = int64_t(random()) >> (64 - bits);
  }
  const uint64_t room = uint64_t(most) - uint64_t(first);
  const uint64_t trips = room == 0 ? 0 : std::min<uint64_t>(pick(10), room);
  int64_t last = least + int64_t(pick(2)), step = 1;
  if (trips == 0) {
    // No iterations, though the difference wraps.
    last = std::min(first, coin() ? last : first);
    step = 1 + int64_t(pick(1000));
  } else {
    const uint64_t largest = std::min<uint64_t>(room / trips, most);
    step = int64_t(coin() ? largest : 1 + random() % largest);
    if (coin())
      step = int64_t(llvm::bit_floor(uint64_t(step)));
    last = int64_t(uint64_t(first) + (trips - 1) * uint64_t(step) + 1 + random() % uint64_t(step));
  }
  auto given = [&](int64_t value) {
    return pick(3) ? number(value, type) : hiddenNumber(value, type);
  };
  Value begin = given(first), end = given(last), by = given(step);
  Value tile = makeTile({oneOf(extents)}, i32()), zero = number(0);
  auto loop = scf::ForOp::create(builder, loc, begin, end, by, ValueRange{zero, tile});
  hintAt(loop);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value counted = op<arith::AddIOp>(loop.getRegionIterArg(0), number(1));
    Value at = loop.getInductionVar();
    at = op<arith::ShRSIOp>(at, number(bits - 8, type));
    if (isWide)
      at = op<arith::TruncIOp>(i32(), at);
    Value mixed = op<arith::MulIOp>(loop.getRegionIterArg(1), constant(shapeOf(tile), i32(), 31));
    mixed = op<arith::XOrIOp>(mixed, splat(at, shapeOf(tile)));
    scf::YieldOp::create(builder, loc, ValueRange{counted, mixed});
  }
  keep(loop.getResult(0));
  observe(splat(loop.getResult(0), {oneOf(extents)}));
  observe(loop.getResult(1));
}

} // namespace sectile::fuzz
