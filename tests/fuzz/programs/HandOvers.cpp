// Random memory that is handed over: within a program by barriers, between two names of the same
// memory, and from each program to the next by flags. Copies of a loop that comes afterwards must
// not run ahead of that.
#include "tests/fuzz/programs/Generator.h"

using namespace mlir;

namespace sectile::fuzz {

SmallVector<Type> renamedTypes(MLIRContext *context) {
  Builder b(context);
  return {b.getI8Type(), b.getF16Type(), b.getBF16Type(), b.getF32Type()};
}

/// The second name of what is written to.
Value Generator::secondName(Type element) {
  const SmallVector<Type> renamed = renamedTypes(builder.getContext());
  return kernel.getArgument(2 * elements.size() + 2 +
                            (llvm::find(renamed, element) - renamed.begin()));
}

static constexpr int64_t side = 64; ///< of every matrix that is handed over

/// So many matrices, or nothing where memory is full.
std::optional<Generator::Handed> Generator::newMatrices(int64_t count) {
  Handed handed{};
  handed.element = oneOf(renamedTypes(builder.getContext()));
  int64_t &next = stored[handed.element];
  const int64_t first = int64_t(llvm::alignTo(next, 256)), all = count * side * side;
  if (first + all > outputElements)
    return std::nullopt;
  next = first + all;
  handed.isLeft = coin();
  Factors &of = handed.of;
  of.m = of.n = side;
  of.k = coin() ? 32 : 16;
  of.blocks = side / of.k;
  of.turnedRight = coin();
  // Matrices lie one below the other, or one beside the other.
  handed.byColumns = !handed.isLeft && !of.turnedRight;
  const int64_t rows = handed.byColumns ? side : count * side,
                columns = handed.byColumns ? count * side : side;
  Value height = number(rows), width = number(columns), one = number(1);
  auto viewBy = [&](Value name) -> Value {
    if (pick(4))
      promiseWholePieces(name);
    Value base = first ? op<tile::AddPtrOp>(name.getType(), name, number(first)) : name;
    return op<tile::MakeViewOp>(tile::ViewType::get(2, handed.element), base,
                                ValueRange{height, width}, ValueRange{width, one});
  };
  handed.twoNames = pick(3) != 0;
  Value names[] = {output(handed.element), secondName(handed.element)};
  const unsigned which = pick(2);
  handed.writer = viewBy(names[which]);
  handed.reader = handed.twoNames ? viewBy(names[1 - which]) : handed.writer;
  promiseWholePieces(input(handed.element));
  Value extent = number(64);
  Value other = matrix(handed.element, 0, extent, extent, extent, coin());
  of.left = handed.isLeft ? handed.reader : other;
  of.right = handed.isLeft ? other : handed.reader;
  of.rowOfLeft = of.columnOfRight = number(0);
  return handed;
}

/// Where a matrix begins.
SmallVector<Value> Generator::placeOf(const Handed &handed, Value matrix) {
  Value start = op<arith::MulIOp>(matrix, number(side)), zero = number(0);
  return handed.byColumns ? SmallVector<Value>{zero, start} : SmallVector<Value>{start, zero};
}

/// Stores a whole matrix, or parts of it in a loop.
void Generator::storeMatrix(const Handed &handed, Value matrix, Value numbers) {
  SmallVector<Value> place = placeOf(handed, matrix);
  auto storeAt = [&](ArrayRef<Value> at, Value tile) {
    tile::StoreBlockOp::create(builder, loc, handed.writer, at, tile, tile::Cache::Default,
                               tile::Eviction::Normal);
  };
  if (numbers)
    return storeAt(place, numbers);
  constexpr int64_t part = 16;
  Value tile = whole(makeTile({part, side}, i32()), 3, i32());
  Value first = number(0), last = number(side / part), one = number(1);
  auto loop = scf::ForOp::create(builder, loc, first, last, one);
  hintAt(loop);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value at = op<arith::MulIOp>(loop.getInductionVar(), number(part));
  at = op<arith::AddIOp>(place[0], at);
  Value mixed = op<arith::XOrIOp>(tile, splat(at, shapeOf(tile)));
  mixed = op<arith::AddIOp>(mixed, splat(loop.getInductionVar(), shapeOf(tile)));
  SmallVector<Value> to = {at, place[1]};
  storeAt(to, whole(mixed, 3, handed.element));
}

/// Products from one of the matrices, or the matrix itself.
Value Generator::productsOf(const Handed &handed, Value matrix, Value sums) {
  Factors of = handed.of;
  SmallVector<Value> place = placeOf(handed, matrix);
  (handed.isLeft ? of.rowOfLeft : of.columnOfRight) = handed.byColumns ? place[1] : place[0];
  if (pick(6) == 0)
    return nest(of, 1, sums);
  return productLoop(of, sums);
}

Value Generator::noSums(Type element) {
  return constant({side, side}, element.isInteger(8) ? i32() : builder.getF32Type(), 0);
}

//===-- Within a program ----------------------------------------------------------------------===//

/// Stores a matrix by one name, meets, and multiplies from it by another: once or in rounds.
void Generator::handOverWithin() {
  std::optional<Handed> made = newMatrices(options.programs);
  if (!made)
    return;
  const Handed &handed = *made;
  Value program = scalars[2];
  auto round = [&](Value sums) {
    storeMatrix(handed, program,
                coin() ? Value() : whole(makeTile({side, side}, i32()), 3, handed.element));
    if (handed.twoNames || coin())
      tile::BarrierOp::create(builder, loc);
    if (pick(4) == 0) {
      SmallVector<Value> place = placeOf(handed, program);
      tiles.push_back(load(handed.reader, place[0], place[1], side, side));
    }
    return productsOf(handed, program, sums);
  };
  if (coin())
    return observe(round(noSums(handed.element)));
  Value none = noSums(handed.element);
  Value first = number(0), last = number(1 + pick(3)), one = number(1);
  auto loop = scf::ForOp::create(builder, loc, first, last, one, ValueRange{none});
  if (pick(4) == 0)
    loop->setAttr("cta.flatten", builder.getUnitAttr());
  std::vector<Value> outerTiles = tiles, outerScalars = scalars;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    scalars.push_back(loop.getInductionVar());
    Value next = round(loop.getRegionIterArg(0));
    // The next round's stores come after what this one has read.
    if (handed.twoNames || coin())
      tile::BarrierOp::create(builder, loc);
    scf::YieldOp::create(builder, loc, next);
  }
  tiles = outerTiles;
  scalars = outerScalars;
  observe(loop.getResult(0));
}

//===-- From program to program ---------------------------------------------------------------===//

/// Waits until a flag is raised, and sees then what was written before.
void Generator::waitForFlag(Value flag) {
  static constexpr tile::Order orders[] = {tile::Order::Acquire, tile::Order::AcquireRelease};
  static constexpr tile::Scope scopes[] = {tile::Scope::Device, tile::Scope::System};
  const tile::Order order = oneOf(orders);
  const tile::Scope scope = oneOf(scopes);
  const unsigned way = pick(3);
  Value raised = number(1), nothing = number(0);
  auto loop = scf::WhileOp::create(builder, loc, TypeRange{}, ValueRange{});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&loop.getBefore());
    Value seen;
    if (way == 0)
      seen = op<tile::AtomicRMWOp>(i32(), tile::AtomicKind::Add, flag, nothing, Value(), order,
                                   scope, IntegerAttr());
    else if (way == 1)
      seen = op<tile::AtomicCasOp>(i32(), flag, raised, raised, Value(), order, scope);
    else
      seen = op<tile::LoadOp>(i32(), flag, Value(), Value(), tile::Cache::Volatile,
                              tile::Eviction::Normal, /*isVolatile=*/true, IntegerAttr());
    Value waits = op<arith::CmpIOp>(arith::CmpIPredicate::ne, seen, raised);
    scf::ConditionOp::create(builder, loc, waits, ValueRange{});
    builder.createBlock(&loop.getAfter());
    scf::YieldOp::create(builder, loc);
  }
  if (way == 2)
    op<tile::AtomicRMWOp>(i32(), tile::AtomicKind::Add, flag, nothing, Value(), order, scope,
                          IntegerAttr());
}

void Generator::raiseFlag(Value flag) {
  const tile::Order order = coin() ? tile::Order::Release : tile::Order::AcquireRelease;
  const tile::Scope scope = coin() ? tile::Scope::Device : tile::Scope::System;
  op<tile::AtomicRMWOp>(i32(), tile::AtomicKind::Exchange, flag, number(1), Value(), order, scope,
                        IntegerAttr());
}

/// A chain of matrices: each program multiplies from what the one before has stored, and stores
/// what it gets for the next one. Programs wait for those with lower numbers alone.
void Generator::handOverAlong() {
  const int64_t programs = options.programs, links = programs + 1;
  const int64_t rounds = 1 + pick(2);
  std::optional<Handed> made = newMatrices(rounds * links);
  if (!made || stored[i32()] + rounds * links > outputElements)
    return;
  const Handed &handed = *made;
  Value flags = op<tile::AddPtrOp>(output(i32()).getType(), output(i32()), number(stored[i32()]));
  stored[i32()] += rounds * links;
  Value program = scalars[2], zero = number(0), one = number(1);
  auto flagOf = [&](Value link) -> Value {
    return op<tile::AddPtrOp>(flags.getType(), flags, link);
  };
  auto round = [&](Value start) {
    Value from = op<arith::AddIOp>(start, program), to = op<arith::AddIOp>(from, one);
    Value isFirst = op<arith::CmpIOp>(arith::CmpIPredicate::eq, program, zero);
    const bool waitsInBranch = coin();
    auto branch = scf::IfOp::create(builder, loc, TypeRange{}, isFirst, /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(branch.thenBlock());
      storeMatrix(handed, from, Value());
      if (waitsInBranch)
        tile::BarrierOp::create(builder, loc);
      else
        raiseFlag(flagOf(from));
      builder.setInsertionPointToStart(branch.elseBlock());
      if (waitsInBranch)
        waitForFlag(flagOf(from));
    }
    if (!waitsInBranch) {
      waitForFlag(flagOf(from));
      // The first program reads what it has written itself.
      if (handed.twoNames || coin())
        tile::BarrierOp::create(builder, loc);
    }
    Value sums = productsOf(handed, from, noSums(handed.element));
    storeMatrix(handed, to, whole(cast(sums, i32()), 3, handed.element));
    raiseFlag(flagOf(to));
    return sums;
  };
  if (rounds == 1)
    return observe(round(zero));
  Value last = number(rounds * links), step = number(links), none = noSums(handed.element);
  auto loop = scf::ForOp::create(builder, loc, zero, last, step, ValueRange{none});
  std::vector<Value> outerTiles = tiles, outerScalars = scalars;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value sums = round(loop.getInductionVar());
    scf::YieldOp::create(builder, loc, sums);
  }
  tiles = outerTiles;
  scalars = outerScalars;
  observe(loop.getResult(0));
}

} // namespace sectile::fuzz
