// Random matrix products: single ones, loops of them, and two in one loop as attention has them.
#include "tests/fuzz/programs/Generator.h"

using namespace mlir;

namespace sectile::fuzz {

/// With the last two axes swapped.
Value Generator::turned(Value tile) {
  Shape shape(shapeOf(tile));
  unsigned rank = shape.size();
  SmallVector<int32_t> order = llvm::to_vector(llvm::seq<int32_t>(0, rank));
  std::swap(order[rank - 1], order[rank - 2]);
  std::swap(shape[rank - 1], shape[rank - 2]);
  return op<tile::PermuteOp>(tileOf(shape, elementOf(tile)), tile, ArrayRef<int32_t>(order));
}

/// A dot of tiles that there are, which is as exact as it has to be: its operands are small whole
/// numbers then. Of rank 3 it is one of several matrices.
Value Generator::dot(Value like) {
  Type operands[] = {builder.getF16Type(), builder.getBF16Type(), builder.getF32Type(),
                     builder.getI8Type(),  builder.getF64Type(),  elements[9],
                     elements[10]};
  Type element = oneOf(operands);
  Shape matrices(shapeOf(like).drop_back(2));
  int64_t m = shapeOf(like).drop_back().back(), k = shapeOf(like).back(), n = oneOf(extents);
  if (llvm::product_of(matrices) * std::max(m, k) * n > 4096)
    n = 16;
  if (llvm::product_of(matrices) * std::max(m, k) * n > 16384)
    return like;
  auto shaped = [&](int64_t rows, int64_t columns) {
    Shape shape = matrices;
    shape.append({rows, columns});
    return shape;
  };
  auto operand = [&](int64_t rows, int64_t columns) -> Value {
    Shape shape = shaped(rows, columns);
    if (!options.exact)
      return someTileOf(shape, element);
    return whole(someTileOf(shape, i32()), 3, element);
  };
  Value a = coin() ? operand(m, k) : turned(operand(k, m));
  Value b = coin() ? operand(k, n) : turned(operand(n, k));
  Type sum = element.isInteger(8)              ? i32()
             : element.isF64()                 ? element
             : element.isF16() && pick(3) == 0 ? element
                                               : builder.getF32Type();
  Shape shape = shaped(m, n);
  Value acc = options.exact ? whole(someTileOf(shape, i32()), 6, sum) : someTileOf(shape, sum);
  using enum tile::Precision;
  static constexpr tile::Precision precisions[] = {TF32, TF32, IEEE, TF32x3, BF16x3, BF16x6};
  return op<tile::DotOp>(acc.getType(), a, b, acc, oneOf(precisions));
}

/// Codes of powers of two for each 32 elements of K.
Value Generator::scales(int64_t rows, int64_t k) {
  Type i8 = builder.getI8Type();
  Value codes = someTileOf({rows, k / 32}, i8);
  if (!options.exact && pick(4) == 0)
    return codes; // any at all
  codes = op<arith::AndIOp>(codes, constant(shapeOf(codes), i8, 3));
  return op<arith::AddIOp>(codes, constant(shapeOf(codes), i8, 125));
}

/// A product of the microscaling formats.
Value Generator::scaledDot() {
  static constexpr int64_t rows[] = {1, 8, 16, 32, 24, 48}, depths[] = {32, 64, 96, 128};
  Type operands[] = {elements[9], elements[10], builder.getF16Type(), builder.getBF16Type(),
                     builder.getI8Type()};
  int64_t m = oneOf(rows), n = oneOf(rows), k = oneOf(depths);
  Type left = oneOf(operands), right = oneOf(operands), f32 = builder.getF32Type();
  auto operand = [&](Type element, int64_t height, int64_t width) -> Value {
    if (element.isInteger(8) || !options.exact)
      return someTileOf({height, width}, element);
    return whole(someTileOf({height, width}, i32()), 3, element);
  };
  Value a = operand(left, m, left.isInteger(8) ? k / 2 : k);
  Value b = operand(right, right.isInteger(8) ? k / 2 : k, n);
  Value aScale = pick(4) ? scales(m, k) : Value(), bScale = pick(4) ? scales(n, k) : Value();
  Value acc = options.exact ? whole(someTileOf({m, n}, i32()), 6, f32) : someTileOf({m, n}, f32);
  return op<tile::DotScaledOp>(acc.getType(), a, aScale, b, bScale, acc);
}

/// A view of an input of 64 by 64 elements, one row after the other or one column after the other.
Value Generator::matrix(Type element, unsigned part, Value rows, Value columns, Value pitch,
                        bool byColumns) {
  Value base = op<tile::AddPtrOp>(input(element).getType(), input(element),
                                  number(part * (inputElements - 72 * 64)));
  Value one = number(1);
  SmallVector<Value> strides = {byColumns ? one : pitch, byColumns ? pitch : one};
  return op<tile::MakeViewOp>(tile::ViewType::get(2, element), base, ValueRange{rows, columns},
                              ValueRange(strides));
}

Value Generator::load(Value view, Value row, Value column, int64_t rows, int64_t columns) {
  Type element = mlir::cast<tile::ViewType>(view.getType()).getElement();
  return op<tile::LoadBlockOp>(tileOf({rows, columns}, element), view, ValueRange{row, column},
                               TypedAttr(), tile::Cache::Default, tile::Eviction::Normal);
}

/// Has a loop skip iterations, as what causal order or a mask hides: all that it does is in a
/// branch.
void Generator::skipSome(scf::ForOp loop, Value phase) {
  OpBuilder::InsertionGuard guard(builder);
  Block *body = loop.getBody();
  Operation *end = body->getTerminator();
  builder.setInsertionPointToStart(body);
  Value count = op<arith::DivSIOp>(loop.getInductionVar(), loop.getStep());
  Value odd = op<arith::AndIOp>(op<arith::AddIOp>(count, phase), number(1));
  Value taken = op<arith::CmpIOp>(arith::CmpIPredicate::ne, odd, number(0));
  auto branch = scf::IfOp::create(builder, loc, loop.getResultTypes(), taken, true, true);
  Block *then = branch.thenBlock();
  then->getOperations().splice(then->end(), body->getOperations(), std::next(branch->getIterator()),
                               end->getIterator());
  builder.setInsertionPointToEnd(then);
  scf::YieldOp::create(builder, loc, end->getOperands());
  builder.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(builder, loc, ValueRange(loop.getRegionIterArgs()));
  end->setOperands(branch.getResults());
}

/// A loop over blocks of two inputs: what pipelines are for.
Value Generator::matmul() {
  static constexpr int64_t heights[] = {16, 32, 64, 48, 8}, widths[] = {16, 32, 64, 48, 8, 24},
                           depths[] = {16, 32, 64, 48};
  // Copy engines fill the operands of instructions that take 64 rows, from views of arguments with
  // extents that a launch knows, in whole pieces.
  const bool isGiven = coin();
  int64_t m = isGiven ? 64 : oneOf(heights), n = oneOf(widths), k = oneOf(depths);
  Type operands[] = {builder.getF16Type(), builder.getBF16Type(), builder.getF16Type(),
                     builder.getI8Type(),  builder.getF32Type(),  elements[9]};
  Type element = operands[pick(isGiven ? 4 : 6)];
  Type sum = element.isInteger(8) ? i32() : builder.getF32Type();
  Value rows = kernel.getArgument(2 * elements.size() + 1);
  Value asked = someScalar(), most = number(64), depth = op<arith::MinSIOp>(asked, most);
  bool permuteB = coin();
  if (isGiven)
    promiseWholePieces(input(element));
  Value pitch = number(isGiven || coin() ? 64 : 65), width = isGiven ? most : depth;
  const unsigned part = isGiven ? 0 : 1;
  Value a = matrix(element, 0, rows, width, pitch, coin());
  Value b = permuteB ? matrix(element, part, rows, width, pitch, coin())
                     : matrix(element, part, width, rows, pitch, coin());
  auto corner = [&]() -> Value {
    if (coin())
      return number(0);
    Value at = someScalar();
    return coin() ? at : op<arith::MulIOp>(at, number(8));
  };
  Value i = corner(), j = corner();
  Value zero = constant({m, n}, sum, 0), first = number(0), step = number(k);
  Value skipped = pick(3) == 0 ? someScalar() : Value();
  // It may compute with what its dot reads, too.
  const bool isAlsoUsed = pick(3) == 0;
  SmallVector<Value> inits{zero};
  if (isAlsoUsed)
    inits.push_back(constant({m, k}, sum, 0));
  auto loop = scf::ForOp::create(builder, loc, first, depth, step, inits);
  if (coin())
    loop->setAttr("cta.warp_specialize", builder.getBoolAttr(true));
  if (pick(3) == 0)
    loop->setAttr("cta.stages", builder.getI32IntegerAttr(1 + pick(4)));
  if (pick(4) == 0)
    loop->setAttr("cta.unroll", builder.getI32IntegerAttr(1 + pick(4)));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value at = loop.getInductionVar();
  Value left = load(a, i, at, m, k);
  Value right = permuteB ? turned(load(b, j, at, n, k)) : load(b, at, j, k, n);
  if (element.isF16() && pick(4) == 0) {
    // Scaled by a row that is too narrow for copies by all threads.
    Value scales = matrix(element, 0, rows, number(64), pitch, false);
    Value row = load(scales, op<arith::DivSIOp>(at, step), j, 1, n);
    right = op<arith::MulFOp>(right, op<tile::BroadcastOp>(right.getType(), row));
  }
  const bool isPromoted = pick(3) == 0;
  Value sums = loop.getRegionIterArg(0);
  Value next =
      op<tile::DotOp>(zero.getType(), left, right, isPromoted ? zero : sums, tile::Precision::TF32);
  if (isPromoted) {
    if (!sum.isInteger() && coin()) {
      // A whole number for each row, which lies beside the blocks of this iteration.
      Value scales = matrix(sum, 0, rows, number(64), pitch, false);
      Value column = load(scales, i, op<arith::DivSIOp>(at, step), m, 1);
      next = op<arith::MulFOp>(next, op<tile::BroadcastOp>(zero.getType(), column));
    }
    next = sum.isInteger() ? op<arith::AddIOp>(sums, next) : op<arith::AddFOp>(sums, next);
  }
  SmallVector<Value> yielded{next};
  if (isAlsoUsed) {
    Value before = loop.getRegionIterArg(1), more = cast(left, sum);
    yielded.push_back(sum.isInteger() ? op<arith::AddIOp>(before, more)
                                      : op<arith::AddFOp>(before, more));
  }
  scf::YieldOp::create(builder, loc, yielded);
  if (skipped)
    skipSome(loop, skipped);
  if (isGiven && coin()) {
    builder.setInsertionPointAfter(loop);
    promiseWholePieces(output(element));
    store(cast(loop.getResult(0), element));
  }
  return loop.getResult(isAlsoUsed && coin() ? 1 : 0);
}

/// The greatest of each row.
Value Generator::rowMaxima(Value tile) {
  Type element = elementOf(tile);
  auto reduce = tile::ReduceOp::create(
      builder, loc, TypeRange{tileOf(shapeOf(tile).front(), element)}, ValueRange{tile}, 1);
  OpBuilder::InsertionGuard inner(builder);
  Block *block = builder.createBlock(&reduce.getCombiner());
  block->addArguments({element, element}, {loc, loc});
  Value larger = op<arith::MaximumFOp>(block->getArgument(0), block->getArgument(1));
  tile::YieldOp::create(builder, loc, larger);
  return reduce.getResult(0);
}

/// A column as a tile of equal columns.
Value Generator::widened(Value column, int64_t columns) {
  const int64_t rows = shapeOf(column).front();
  Value narrow = op<tile::ExpandDimsOp>(tileOf({rows, 1}, elementOf(column)), column, 1);
  return op<tile::BroadcastOp>(tileOf({rows, columns}, elementOf(column)), narrow);
}

/// Attention's loop: products, or sums of two, and then a product of what is made of them, whose
/// sums may be changed row by row first.
Value Generator::attention() {
  static constexpr int64_t blocks[] = {16, 32, 64, 48};
  const bool isGiven = pick(4); // as in matmul()
  int64_t m = isGiven ? 64 : oneOf(blocks), n = oneOf(blocks), d = oneOf(blocks);
  Type half = coin() ? builder.getF16Type() : Type(builder.getBF16Type()),
       f32 = builder.getF32Type();
  Value asked = someScalar(), depth = number(64), keys = op<arith::MinSIOp>(asked, depth);
  Value pitch = number(coin() ? 64 : 72), zero = number(0);
  Value queries = matrix(half, 0, kernel.getArgument(2 * elements.size() + 1), depth, pitch, false);
  Value q = load(queries, someScalar(), zero, m, d);
  if (isGiven)
    promiseWholePieces(input(half));
  Value rows = isGiven ? depth : keys;
  Value k = matrix(half, 0, rows, depth, pitch, false);
  Value v = matrix(half, isGiven ? 0 : 1, rows, depth, pitch, coin());
  const bool inTwoParts = pick(3) == 0, rescales = coin(), isSquared = pick(4) == 0;
  Value others = inTwoParts ? load(queries, someScalar(), zero, m, 16) : Value();
  Value noScores = constant({m, n}, f32, 0), noMaxima = constant({m}, f32, 0);
  Value noSums = constant({m, d}, f32, 0), step = number(n);
  Value skipped = pick(4) == 0 ? someScalar() : Value();
  auto loop = scf::ForOp::create(builder, loc, zero, keys, step, ValueRange{noSums, noMaxima});
  if (pick(3))
    loop->setAttr("cta.warp_specialize", builder.getBoolAttr(pick(4) != 0));
  if (pick(3) == 0)
    loop->setAttr("cta.stages", builder.getI32IntegerAttr(1 + pick(4)));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value at = loop.getInductionVar(), sum = loop.getRegionIterArg(0),
        before = loop.getRegionIterArg(1);
  Value turnedKeys = turned(load(k, at, zero, n, d));
  Value scores =
      op<tile::DotOp>(noScores.getType(), q, turnedKeys, noScores, tile::Precision::TF32);
  if (inTwoParts) {
    Value more = turned(load(k, at, number(16), n, 16));
    scores = op<tile::DotOp>(scores.getType(), others, more, scores, tile::Precision::TF32);
  }
  Value greatest = op<arith::MaximumFOp>(before, rowMaxima(scores));
  Value below = op<arith::SubFOp>(scores, widened(greatest, n));
  Value weights = options.exact ? whole(cast(below, i32()), 3, half) : cast(below, half);
  if (isSquared)
    weights = op<arith::MulFOp>(weights, weights);
  if (rescales) {
    Value grew = op<arith::CmpFOp>(arith::CmpFPredicate::OGT, greatest, before);
    Value factor = op<arith::SelectOp>(grew, constant({m}, f32, -1), constant({m}, f32, 1));
    sum = op<arith::MulFOp>(sum, widened(factor, d));
  }
  Value values = load(v, at, zero, n, d);
  Value next = op<tile::DotOp>(sum.getType(), weights, values, sum, tile::Precision::TF32);
  scf::YieldOp::create(builder, loc, ValueRange{next, greatest});
  if (skipped)
    skipSome(loop, skipped);
  return loop.getResult(pick(6) ? 0 : 1);
}

} // namespace sectile::fuzz
