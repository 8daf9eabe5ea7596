// Sorting and counting. A sort is a bitonic network on integers whose unsigned order is that of the
// elements; partners exchange values through a reduction by xor, which layouts make shuffles of.
#include "dsl/Axes.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"
#include <sectile/sort.h>

using namespace mlir;

namespace sectile::detail {

namespace {

/// Builds operations on tiles of one shape, of which one axis is sorted.
class Sorter {
public:
  Sorter(Trace &trace, mlir::Location loc, ArrayRef<int64_t> shape, unsigned axis)
      : trace(trace), builder(trace.builder), loc(loc), shape(shape), axis(axis),
        extent(shape[axis]) {}

  mlir::Value constant(mlir::Value like, uint64_t value) {
    return constantOf(trace, loc, like.getType(), static_cast<int64_t>(value));
  }
  template <class Op> mlir::Value make(mlir::Value a, mlir::Value b) {
    return builder.createOrFold<Op>(loc, a, b);
  }
  mlir::Value compare(arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b) {
    return builder.createOrFold<arith::CmpIOp>(loc, predicate, a, b);
  }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return builder.createOrFold<arith::SelectOp>(loc, condition, a, b);
  }
  mlir::Type withBits(mlir::Value like, unsigned bits) {
    return tile::withElementType(like.getType(), builder.getIntegerType(bits));
  }
  mlir::Value extended(mlir::Value x, unsigned bits) {
    return bitsOf(x) == bits ? x : builder.createOrFold<arith::ExtUIOp>(loc, withBits(x, bits), x);
  }
  mlir::Value truncated(mlir::Value x, unsigned bits) {
    return bitsOf(x) == bits ? x : builder.createOrFold<arith::TruncIOp>(loc, withBits(x, bits), x);
  }
  static unsigned bitsOf(mlir::Value x) {
    return getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth();
  }

  /// Formats without it use its code for their only NaN.
  static bool hasMinusZeroIn(FloatType type) {
    return !APFloat::getNaN(type.getFloatSemantics()).bitcastToAPInt().isSignMask();
  }

  /// Integers in whose unsigned order the elements are to be.
  mlir::Value codesOf(mlir::Value x, Kind kind, bool descending) {
    if (isBool(kind))
      x = extended(x, 8);
    unsigned bits = bitsOf(x);
    uint64_t sign = uint64_t(1) << (bits - 1);
    if (isFloat(kind)) {
      auto type = cast<FloatType>(getElementTypeOrSelf(x.getType()));
      bool hasMinusZero = hasMinusZeroIn(type);
      x = builder.createOrFold<arith::BitcastOp>(loc, withBits(x, bits), x);
      // One NaN for all, with every bit but the sign set.
      APFloat top = APFloat::getLargest(type.getFloatSemantics());
      if (APFloat infinity = APFloat::getInf(type.getFloatSemantics()); infinity.isInfinity())
        top = infinity;
      if (hasMinusZero) {
        mlir::Value magnitude = make<arith::AndIOp>(x, constant(x, sign - 1));
        mlir::Value isNan = compare(arith::CmpIPredicate::ugt, magnitude,
                                    constant(x, top.bitcastToAPInt().getZExtValue()));
        x = select(isNan, constant(x, sign - 1), x);
      }
      // Of negative numbers all bits turn, of others the sign.
      mlir::Value spread = make<arith::ShRSIOp>(x, constant(x, bits - 1));
      x = make<arith::XOrIOp>(x, make<arith::OrIOp>(spread, constant(x, sign)));
      // The code of minus zero, right below zero's, is that of NaN: it goes to the top.
      if (!hasMinusZero) {
        mlir::Value isNan = compare(arith::CmpIPredicate::eq, x, constant(x, sign - 1));
        mlir::Value isAbove = compare(arith::CmpIPredicate::uge, x, constant(x, sign));
        mlir::Value number = select(isAbove, make<arith::SubIOp>(x, constant(x, 1)), x);
        x = select(isNan, constant(x, ~uint64_t(0)), number);
      }
    } else if (isInteger(kind) && !isUnsigned(kind)) {
      x = make<arith::XOrIOp>(x, constant(x, sign));
    }
    return descending ? inverted(x) : x;
  }

  mlir::Value elementsOf(mlir::Value codes, Kind kind, mlir::Type element, bool descending) {
    mlir::Value x = descending ? inverted(codes) : codes;
    unsigned bits = bitsOf(x);
    uint64_t sign = uint64_t(1) << (bits - 1);
    if (isFloat(kind)) {
      if (!hasMinusZeroIn(cast<FloatType>(element))) {
        mlir::Value isNan = compare(arith::CmpIPredicate::eq, x, constant(x, ~uint64_t(0)));
        mlir::Value isAbove = compare(arith::CmpIPredicate::uge, x, constant(x, sign - 1));
        mlir::Value number = select(isAbove, make<arith::AddIOp>(x, constant(x, 1)), x);
        x = select(isNan, constant(x, sign - 1), number);
      }
      mlir::Value spread = inverted(make<arith::ShRSIOp>(x, constant(x, bits - 1)));
      x = make<arith::XOrIOp>(x, make<arith::OrIOp>(spread, constant(x, sign)));
      return builder.createOrFold<arith::BitcastOp>(loc,
                                                    tile::withElementType(x.getType(), element), x);
    }
    if (isBool(kind))
      return compare(arith::CmpIPredicate::ne, x, constant(x, 0));
    return isUnsigned(kind) ? x : make<arith::XOrIOp>(x, constant(x, sign));
  }

  /// Elements at other positions along the axis; beyond the last comes the last.
  mlir::Value resized(mlir::Value x, int64_t to) {
    SmallVector<int64_t> result(shape);
    result[axis] = to;
    mlir::Value at = positionsAlong(trace, loc, result, axis);
    int64_t from = tile::shapeOf(x.getType())[axis];
    if (from == to)
      return x;
    if (from < to)
      at = make<arith::MinSIOp>(at, constant(at, from - 1));
    auto type = RankedTensorType::get(result, getElementTypeOrSelf(x.getType()));
    return tile::GatherOp::create(builder, loc, type, x, at, axis, nullptr);
  }

  /// Sorts tiles of unsigned integers, the later ones for where the earlier are equal. An extent
  /// that is no power of two is filled up with the largest.
  void sort(SmallVectorImpl<mlir::Value> &tiles) {
    fill(tiles);
    sortRuns(tiles, shape[axis]);
  }

  /// The smallest `count` of unsigned integers in order, up to the next power of two.
  mlir::Value smallest(mlir::Value x, int64_t count) {
    SmallVector<mlir::Value> tiles = {x};
    fill(tiles);
    const auto run = static_cast<int64_t>(llvm::PowerOf2Ceil(count));
    sortRuns(tiles, run);
    // Of a run upwards and the next one downwards, the smaller one at each place: the smallest of
    // both, which rise and fall at most once, so that one merge has them in order.
    while (shape[axis] > run) {
      tiles[0] = smallerOfPairs(tiles[0], run);
      shape[axis] /= 2;
      merge(tiles, run);
    }
    return tiles[0];
  }

private:
  mlir::Value inverted(mlir::Value x) { return make<arith::XOrIOp>(x, constant(x, ~uint64_t(0))); }

  void fill(SmallVectorImpl<mlir::Value> &tiles) {
    int64_t whole = llvm::PowerOf2Ceil(extent);
    if (whole == extent)
      return;
    for (mlir::Value &tile : tiles)
      tile = resized(tile, whole);
    shape[axis] = whole;
    mlir::Value at = positionsAlong(trace, loc, shape, axis);
    mlir::Value isReal = compare(arith::CmpIPredicate::slt, at, constant(at, extent));
    for (mlir::Value &tile : tiles)
      tile = select(isReal, tile, constant(tile, ~uint64_t(0)));
  }

  /// Runs of `length` in order, upwards and downwards in turn.
  void sortRuns(SmallVectorImpl<mlir::Value> &tiles, int64_t length) {
    for (int64_t size = 2; size <= length; size *= 2)
      merge(tiles, size);
  }

  /// The same of runs that rise and fall at most once.
  void merge(SmallVectorImpl<mlir::Value> &tiles, int64_t size) {
    mlir::Value at = positionsAlong(trace, loc, shape, axis);
    for (int64_t distance = size / 2; distance > 0; distance /= 2)
      exchange(tiles, at, size, distance);
  }

  /// A tile with the elements of axis `axis` in pairs of runs of this length: [… pairs, 2, run …].
  mlir::Value inPairs(mlir::Value x, int64_t run) {
    SmallVector<int64_t> pairs(shape.begin(), shape.begin() + axis);
    pairs.append({shape[axis] / (2 * run), 2, run});
    pairs.append(shape.begin() + axis + 1, shape.end());
    auto type = RankedTensorType::get(pairs, getElementTypeOrSelf(x.getType()));
    return tile::ReshapeOp::create(builder, loc, type, x);
  }

  /// Both of each pair as one, by an operation.
  template <class Op> mlir::Value joined(mlir::Value pairs) {
    mlir::Type element = getElementTypeOrSelf(pairs.getType());
    const unsigned pairAxis = axis + 1;
    SmallVector<int64_t> reduced(tile::shapeOf(pairs.getType()));
    reduced.erase(reduced.begin() + pairAxis);
    auto both = tile::ReduceOp::create(builder, loc, RankedTensorType::get(reduced, element), pairs,
                                       pairAxis);
    OpBuilder::InsertionGuard guard(builder);
    Block *body = builder.createBlock(&both.getCombiner(), {}, {element, element}, {loc, loc});
    mlir::Value one = Op::create(builder, loc, body->getArgument(0), body->getArgument(1));
    tile::YieldOp::create(builder, loc, one);
    return both.getResult(0);
  }

  mlir::Value smallerOfPairs(mlir::Value x, int64_t run) {
    SmallVector<int64_t> half(shape);
    half[axis] /= 2;
    auto type = RankedTensorType::get(half, getElementTypeOrSelf(x.getType()));
    return tile::ReshapeOp::create(builder, loc, type, joined<arith::MinUIOp>(inPairs(x, run)));
  }

  /// What the element at position i ^ distance along the axis has.
  mlir::Value partnerOf(mlir::Value x, int64_t distance) {
    mlir::Value split = inPairs(x, distance);
    auto type = cast<RankedTensorType>(split.getType());
    const unsigned pairAxis = axis + 1;
    SmallVector<int64_t> kept(type.getShape());
    kept[pairAxis] = 1;
    mlir::Value again =
        tile::ExpandDimsOp::create(builder, loc, RankedTensorType::get(kept, type.getElementType()),
                                   joined<arith::XOrIOp>(split), pairAxis);
    again = tile::BroadcastOp::create(builder, loc, type, again);
    mlir::Value other = arith::XOrIOp::create(builder, loc, again, split);
    return tile::ReshapeOp::create(builder, loc, x.getType(), other);
  }

  void exchange(SmallVectorImpl<mlir::Value> &tiles, mlir::Value at, int64_t size,
                int64_t distance) {
    SmallVector<mlir::Value> others;
    for (mlir::Value tile : tiles)
      others.push_back(partnerOf(tile, distance));
    // The lower of two takes the smaller, in blocks that are sorted upwards.
    auto isZero = [&](int64_t bit) {
      mlir::Value masked = make<arith::AndIOp>(at, constant(at, bit));
      return compare(arith::CmpIPredicate::eq, masked, constant(at, 0));
    };
    mlir::Value takesSmaller = isZero(distance);
    if (size < shape[axis]) {
      mlir::Value upwards = isZero(size);
      takesSmaller = compare(arith::CmpIPredicate::eq, takesSmaller, upwards);
    }
    if (tiles.size() == 1) {
      mlir::Value low = make<arith::MinUIOp>(tiles[0], others[0]);
      mlir::Value high = make<arith::MaxUIOp>(tiles[0], others[0]);
      tiles[0] = select(takesSmaller, low, high);
      return;
    }
    mlir::Value isSmaller = compare(arith::CmpIPredicate::ult, tiles.back(), others.back());
    for (size_t i = tiles.size() - 1; i-- > 0;) {
      mlir::Value equal = compare(arith::CmpIPredicate::eq, tiles[i], others[i]);
      mlir::Value less = compare(arith::CmpIPredicate::ult, tiles[i], others[i]);
      isSmaller = make<arith::OrIOp>(less, make<arith::AndIOp>(equal, isSmaller));
    }
    mlir::Value stays = compare(arith::CmpIPredicate::eq, isSmaller, takesSmaller);
    for (auto [tile, other] : llvm::zip_equal(tiles, others))
      tile = select(stays, tile, other);
  }

  Trace &trace;
  OpBuilder &builder;
  mlir::Location loc;
  SmallVector<int64_t> shape;
  unsigned axis;
  int64_t extent;
};

} // namespace

Value sort(Kind kind, const Value &x, const Extent &axis, bool descending) {
  Trace &trace = Trace::current(axis.where);
  mlir::Value value = trace.get(x, axis.where);
  ArrayRef<int64_t> shape = tile::shapeOf(value.getType());
  unsigned at = axisOf(axis, shape, "sc::sort");
  Sorter sorter(trace, trace.location(axis.where), shape, at);
  SmallVector<mlir::Value> codes = {sorter.codesOf(value, kind, descending)};
  sorter.sort(codes);
  mlir::Value sorted = sorter.resized(codes[0], shape[at]);
  return trace.wrap(
      sorter.elementsOf(sorted, kind, getElementTypeOrSelf(value.getType()), descending));
}

void sortWithPositions(Kind kind, const Value &x, const Extent &axis, bool descending,
                       std::int64_t k, Value &sorted, Value &positions) {
  Trace &trace = Trace::current(axis.where);
  mlir::Location loc = trace.location(axis.where);
  mlir::Value value = trace.get(x, axis.where);
  ArrayRef<int64_t> shape = tile::shapeOf(value.getType());
  unsigned at = axisOf(axis, shape, "a sort");
  if (k > shape[at])
    fail(axis.where, "sc::topk of " + Twine(k) + " among " + Twine(shape[at]) +
                         " elements along axis " + Twine(axis.number));
  int64_t count = k ? k : shape[at];
  Sorter sorter(trace, loc, shape, at);
  mlir::Value codes = sorter.codesOf(value, kind, descending);
  mlir::Value places = positionsAlong(trace, loc, shape, at);
  unsigned bits = Sorter::bitsOf(codes);
  // With its position behind it in one integer, no key equals another.
  unsigned whole = bits <= 16 && shape[at] <= 1 << 16 ? 32 : bits <= 32 ? 64 : 0;
  if (whole) {
    mlir::Value packed = sorter.extended(codes, whole);
    packed = sorter.make<arith::ShLIOp>(packed, sorter.constant(packed, whole / 2));
    packed = sorter.make<arith::OrIOp>(packed, sorter.extended(places, whole));
    packed = sorter.resized(sorter.smallest(packed, count), count);
    mlir::Value upper = sorter.make<arith::ShRUIOp>(packed, sorter.constant(packed, whole / 2));
    mlir::Value lower =
        sorter.make<arith::AndIOp>(packed, sorter.constant(packed, (uint64_t(1) << whole / 2) - 1));
    codes = sorter.truncated(upper, bits);
    places = sorter.truncated(lower, 32);
  } else {
    SmallVector<mlir::Value> tiles = {codes, places};
    sorter.sort(tiles);
    codes = sorter.resized(tiles[0], count);
    places = sorter.resized(tiles[1], count);
  }
  sorted =
      trace.wrap(sorter.elementsOf(codes, kind, getElementTypeOrSelf(value.getType()), descending));
  positions = trace.wrap(places);
}

void checkSameShape(std::span<const Value *const> tiles, Location where) {
  std::span<const std::int64_t> first = shapeOf(*tiles[0], where);
  for (const Value *tile : tiles)
    if (std::span<const std::int64_t> shape = shapeOf(*tile, where); !llvm::equal(first, shape))
      fail(where, "sc::sort of several tiles needs one shape, not " +
                      shapeText({first.data(), first.size()}) + " and " +
                      shapeText({shape.data(), shape.size()}));
}

std::int64_t checkedCount(const Extent &k) {
  if (k.number < 1)
    fail(k.where, "sc::topk of " + Twine(k.number) + ": k is at least 1");
  return k.number;
}

Value histogram(Kind kind, const Value &x, const Extent &bins, const Value *weights,
                const Operand &mask) {
  Location where = bins.where;
  Trace &trace = Trace::current(where);
  OpBuilder &builder = trace.builder;
  mlir::Location loc = trace.location(where);
  if (bins.number < 1 || bins.number > 1 << 20)
    fail(where, "sc::histogram of " + Twine(bins.number) + " bins: there are 1 to 1048576");
  mlir::Value value = trace.get(x, where), counted;
  if (!isa<RankedTensorType>(value.getType()))
    value = broadcastTo(trace, loc, value, {1});
  SmallVector<int64_t> shape(tile::shapeOf(value.getType()));
  if (!mask.none) {
    if (!isBool(mask.kind) || !mask.value)
      fail(mask.where, "sc::histogram: a mask is bool, not " + std::string(nameOf(mask.kind)) +
                           ": compare first, as in x < n");
    counted = trace.get(*mask.value, mask.where);
    ArrayRef<int64_t> given = tile::shapeOf(counted.getType());
    if (broadcastShape({value, counted}, "sc::histogram and its mask", where) !=
        ArrayRef<int64_t>(shape))
      fail(where, "sc::histogram of " + shapeText(shape) + " with a mask of " + shapeText(given) +
                      ": the mask has the tile's shape, or repeats to it");
    counted = broadcastTo(trace, loc, counted, shape);
  }
  // What does not fit 32 bits is in no bin, and must not wrap into one.
  if (getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth() > 32) {
    mlir::Value end = constantOf(trace, loc, value.getType(), bins.number);
    mlir::Value inside = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, value, end);
    counted = counted ? builder.createOrFold<arith::AndIOp>(loc, counted, inside) : inside;
  }
  value = convert(trace, loc, value, kind, Kind::int32, builder.getI32Type());
  mlir::Type element = builder.getI32Type();
  mlir::Value added;
  if (weights) {
    added = trace.get(*weights, where);
    element = getElementTypeOrSelf(added.getType());
    ArrayRef<int64_t> given = tile::shapeOf(added.getType());
    if (broadcastShape({value, added}, "sc::histogram and its weights", where) !=
        ArrayRef<int64_t>(shape))
      fail(where, "sc::histogram of " + shapeText(shape) + " with weights of " + shapeText(given) +
                      ": weights have the tile's shape, or repeat to it");
    added = broadcastTo(trace, loc, added, shape);
  }
  auto type = RankedTensorType::get({bins.number}, element);
  return trace.wrap(tile::HistogramOp::create(builder, loc, type, value, added, counted, nullptr));
}

} // namespace sectile::detail
