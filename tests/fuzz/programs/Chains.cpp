// Random loops of several products of unlike shapes that feed each other: results become operands,
// operands and sums are carried, some of it under conditions and in loops within, and loops follow
// each other over the same operands.
#include "tests/fuzz/programs/Generator.h"

using namespace mlir;

namespace sectile::fuzz {

/// A loop over blocks around some products, between what is loaded before and what is kept.
void Generator::chainsOfProducts() {
  Type operands[] = {builder.getF16Type(), builder.getBF16Type(), builder.getF16Type(),
                     builder.getI8Type(),  builder.getF32Type(),  elements[9]};
  static constexpr int64_t sizes[] = {16, 32, 64, 64, 48, 80, 96};
  Chain chain;
  chain.element = oneOf(operands);
  chain.sum = chain.element.isInteger(8) ? i32() : Type(builder.getF32Type());
  const bool isGiven = pick(3); // as in matmul()
  chain.extents = {isGiven ? 64 : oneOf(sizes), oneOf(sizes), oneOf(sizes)};
  if (isGiven)
    promiseWholePieces(input(chain.element));
  // Beyond 128 rows and 64 columns there are zeros.
  Value rows = isGiven ? number(128) : kernel.getArgument(2 * elements.size() + 1);
  Value columns = number(64), pitch = number(64);
  for (unsigned i = 1 + pick(3); i-- > 0;)
    chain.views.push_back(matrix(chain.element, 0, rows, columns, pitch, pick(4) == 0));
  for (unsigned i = 1 + pick(2); i-- > 0;) {
    const int64_t height = oneOf(chain.extents), width = oneOf(chain.extents);
    chain.operands.push_back(chainLoad(chain, number(0), height, width));
  }
  for (unsigned i = 1 + pick(2); i-- > 0;)
    chainLoop(chain);
  for (Value sums : chain.sums) {
    if (llvm::product_of(shapeOf(sums)) <= mostElements)
      keep(sums);
    else
      store(sums);
  }
}

/// A block of one of the views; which one depends on `at`.
Value Generator::chainLoad(const Chain &chain, Value at, int64_t height, int64_t width) {
  Value view = oneOf(chain.views);
  const bool alongRows = pick(3) != 0;
  Value step = number(oneOf(chain.extents)), place = op<arith::MulIOp>(at, step);
  Value other = pick(3) ? number(0) : number(int64_t(8 * pick(4)));
  return alongRows ? load(view, place, other, height, width)
                   : load(view, other, place, height, width);
}

/// An operand of this shape: one that there is, as it is or turned, or made of sums, or loaded.
Value Generator::chainOperand(Chain &chain, Value at, int64_t height, int64_t width) {
  SmallVector<Value> same, turnedOnes, sums;
  for (Value operand : chain.operands) {
    if (shapeOf(operand)[0] == height && shapeOf(operand)[1] == width)
      same.push_back(operand);
    if (shapeOf(operand)[0] == width && shapeOf(operand)[1] == height)
      turnedOnes.push_back(operand);
  }
  for (Value sum : chain.sums)
    if (shapeOf(sum)[0] == height && shapeOf(sum)[1] == width)
      sums.push_back(sum);
  if (!same.empty() && pick(4))
    return oneOf(same);
  if (!turnedOnes.empty() && pick(4))
    return turned(oneOf(turnedOnes));
  Value made;
  if (!sums.empty() && pick(4)) {
    made = whole(cast(oneOf(sums), i32()), 3, chain.element);
  } else if (pick(4) == 0) {
    made = chainLoad(chain, at, width, height);
    chain.operands.push_back(made);
    return turned(made);
  } else {
    made = chainLoad(chain, at, height, width);
  }
  chain.operands.push_back(made);
  return made;
}

/// The product of two operands, added to sums.
Value Generator::chainProduct(Chain &chain, Value at, Value sums) {
  const int64_t k = oneOf(chain.extents);
  Value a = chainOperand(chain, at, shapeOf(sums)[0], k);
  Value b = chainOperand(chain, at, k, shapeOf(sums)[1]);
  return op<tile::DotOp>(sums.getType(), a, b, sums, tile::Precision::TF32);
}

/// Sums changed by a product, perhaps under a condition or in a loop of its own.
Value Generator::chainStep(Chain &chain, Value at, Value sums) {
  if (pick(4) == 0)
    sums = changedSums(sums);
  const unsigned what = pick(8);
  const Chain outer = chain;
  const std::vector<Value> outerScalars = scalars;
  Value result;
  if (what == 0) {
    Value condition = someCondition();
    auto branch = scf::IfOp::create(builder, loc, TypeRange{sums.getType()}, condition,
                                    /*withElseRegion=*/true);
    for (Block *block : {branch.thenBlock(), branch.elseBlock()}) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(block);
      const bool isEmpty = block == branch.elseBlock() && pick(3);
      Value next = isEmpty ? (coin() ? sums : changedSums(sums)) : chainProduct(chain, at, sums);
      scf::YieldOp::create(builder, loc, next);
      chain = outer;
    }
    result = branch.getResult(0);
  } else if (what == 1) {
    Value first = number(0), last = coin() ? number(2) : someBound(), step = number(1);
    auto loop = scf::ForOp::create(builder, loc, first, last, step, ValueRange{sums});
    hintAtProducts(loop);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value within =
        coin() ? Value(loop.getInductionVar()) : op<arith::AddIOp>(at, loop.getInductionVar());
    Value next = loop.getRegionIterArg(0);
    for (unsigned i = 1 + pick(2); i-- > 0;)
      next = chainProduct(chain, within, next);
    scf::YieldOp::create(builder, loc, next);
    result = loop.getResult(0);
  } else {
    return chainProduct(chain, at, sums);
  }
  chain = outer;
  scalars = outerScalars;
  return result;
}

/// A loop that carries sums, and perhaps an operand that the next iteration multiplies.
void Generator::chainLoop(Chain &chain) {
  SmallVector<Value> inits;
  const unsigned sums = 1 + pick(3);
  for (unsigned i = 0; i < sums; ++i) {
    SmallVector<int64_t, 2> shape = {oneOf(chain.extents), oneOf(chain.extents)};
    inits.push_back(constant(shape, chain.sum, 0));
  }
  if (coin())
    inits.push_back(oneOf(chain.operands));
  Value first = number(0), last = pick(4) ? number(int64_t(1 + pick(4))) : someBound(),
        step = number(1);
  auto loop = scf::ForOp::create(builder, loc, first, last, step, inits);
  hintAtProducts(loop);
  const Chain outer = chain;
  const std::vector<Value> outerScalars = scalars;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value at = loop.getInductionVar();
    scalars.push_back(at);
    SmallVector<Value> carried = llvm::to_vector_of<Value>(loop.getRegionIterArgs());
    if (carried.size() > sums)
      chain.operands.push_back(carried.back());
    // What the sums are before is an operand in one loop of two, as a state is.
    if (coin())
      chain.sums.append(carried.begin(), carried.begin() + sums);
    for (unsigned i = 0; i < sums; ++i) {
      if (pick(3) == 0) {
        SmallVector<int64_t, 2> shape = {oneOf(chain.extents), oneOf(chain.extents)};
        Value fresh = chainProduct(chain, at, constant(shape, chain.sum, 0));
        chain.sums.push_back(fresh);
      }
      carried[i] = chainStep(chain, at, carried[i]);
      chain.sums.push_back(carried[i]);
      if (pick(6) == 0)
        store(carried[i]);
    }
    if (carried.size() > sums)
      carried.back() =
          chainOperand(chain, at, shapeOf(carried.back())[0], shapeOf(carried.back())[1]);
    scf::YieldOp::create(builder, loc, carried);
  }
  chain = outer;
  scalars = outerScalars;
  for (unsigned i = 0; i < sums; ++i)
    chain.sums.push_back(loop.getResult(i));
  if (loop.getNumResults() > sums)
    chain.operands.push_back(loop.getResults().back());
}

} // namespace sectile::fuzz
