// Reductions, scans, histograms and maps. A combiner that is arithmetic alone works on whole slices
// of tiles at once, one that branches on one element at a time.
#include "ir/tile/Tile.h"
#include "jit/interpreter/Bounds.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cmath>

using namespace mlir;

namespace sectile::interpreter {
namespace {

using Values = SmallVector<ElementsRef>;

/// Whether all elements can go through a block at once.
bool isStraight(Block &block) {
  return llvm::none_of(block, [](Operation &op) {
    return op.getNumRegions() || op.getName().getStringRef() == "func.call";
  });
}

/// One call of a block for every element of the arguments, which have one shape. The shape is kept
/// where the block made its result of constants alone, too.
Values apply(Run &run, Block &block, ArrayRef<ElementsRef> arguments) {
  const Shape &shape = arguments[0]->shape;
  auto whole = [&](const ElementsRef &result) {
    return result->shape == shape ? result
                                  : std::make_shared<const Elements>(result->repeated(shape));
  };
  if (isStraight(block)) {
    Values results = run.call(block, arguments);
    for (ElementsRef &result : results)
      result = whole(result);
    return results;
  }
  SmallVector<Elements> results;
  for (size_t i = 0; i < arguments[0]->size(); ++i) {
    Values one;
    for (const ElementsRef &argument : arguments)
      one.push_back(std::make_shared<const Elements>(argument->pick({}, {{i}})));
    Values combined = run.call(block, one);
    for (auto [r, value] : llvm::enumerate(combined)) {
      if (i == 0)
        results.push_back(Elements(value->type, shape));
      results[r].words[i] = (*value)[0];
      if (!value->bounds.empty()) {
        results[r].bounds.resize(shape.empty() ? 1 : countOf(shape));
        results[r].bounds[i] = value->bounds[0];
      }
    }
  }
  return llvm::map_to_vector(results, [](Elements &result) -> ElementsRef {
    return std::make_shared<const Elements>(std::move(result));
  });
}

/// A tile as its slices along an axis.
class Slices {
public:
  Slices(ArrayRef<int64_t> shape, size_t axis) : outer(shape), length(size_t(shape[axis])) {
    outer.erase(outer.begin() + std::ptrdiff_t(axis));
    inner = countOf(shape.drop_front(axis + 1));
  }

  /// Where in the tile the elements of a slice are.
  std::vector<size_t> places(size_t slice) const {
    std::vector<size_t> result(countOf(outer));
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = (i / inner * length + slice) * inner + i % inner;
    return result;
  }
  Values of(ArrayRef<ElementsRef> tiles, size_t slice) const {
    const std::vector<size_t> from = places(slice);
    return llvm::map_to_vector(tiles, [&](const ElementsRef &tile) -> ElementsRef {
      return std::make_shared<const Elements>(tile->pick(outer, from));
    });
  }

  Shape outer; ///< without the axis
  size_t length;

private:
  size_t inner;
};

Values combine(Run &run, Block &combiner, Values left, ArrayRef<ElementsRef> right) {
  left.append(right.begin(), right.end());
  return apply(run, combiner, left);
}

/// With bounds: what results may be when elements are combined in another order.
class OrderBounds {
public:
  OrderBounds(Run &run, Block &combiner, ArrayRef<ElementsRef> sources)
      : on(run.bounds() != nullptr) {
    if (!on)
      return;
    const unsigned n = unsigned(sources.size());
    for (unsigned i = 0; i < n; ++i) {
      Value yielded = combiner.getTerminator()->getOperand(i);
      Operation *last = yielded.getDefiningOp();
      const bool ofBoth = last && last->getNumOperands() == 2 &&
                          ((last->getOperand(0) == combiner.getArgument(i) &&
                            last->getOperand(1) == combiner.getArgument(n + i)) ||
                           (last->getOperand(1) == combiner.getArgument(i) &&
                            last->getOperand(0) == combiner.getArgument(n + i)));
      if (ofBoth && isa<arith::AddFOp>(last))
        kinds.push_back(Kind::Sum);
      else if (ofBoth && isa<arith::MulFOp>(last))
        kinds.push_back(Kind::Product);
      else
        kinds.push_back(roundsIn(combiner) ? Kind::Unknown : Kind::Exact);
      sums.push_back({});
    }
  }

  void add(ArrayRef<ElementsRef> slice) {
    for (size_t i = 0; i < kinds.size(); ++i)
      if (kinds[i] == Kind::Sum) {
        if (sums[i].empty())
          sums[i].assign(slice[i]->size(), SumBound(*slice[i]->type.format));
        for (size_t e = 0; e < slice[i]->size(); ++e)
          sums[i][e].add(slice[i]->asDouble(e), slice[i]->boundAt(e));
      }
    ++count;
  }

  /// What was combined up to here, with bounds.
  Values of(ArrayRef<ElementsRef> combined) const {
    Values results(combined);
    for (size_t i = 0; i < kinds.size(); ++i) {
      if (kinds[i] == Kind::Exact || count == 1)
        continue;
      Elements result = *combined[i];
      for (size_t e = 0; e < result.size(); ++e) {
        if (kinds[i] == Kind::Unknown) {
          setBound(result, e, anything);
        } else if (kinds[i] == Kind::Sum) {
          setBound(result, e, sums[i][e].of(result.asDouble(e)));
        } else {
          const double value = result.asDouble(e),
                       own = 4 * double(count) * result.type.format->halfUlp(value);
          setBound(result, e,
                   std::isfinite(value) && value != 0 ? result.boundAt(e) + own : anything);
        }
      }
      results[i] = std::make_shared<const Elements>(std::move(result));
    }
    return results;
  }

private:
  enum class Kind { Exact, Sum, Product, Unknown };

  static bool roundsIn(Block &block) {
    return block
        .walk([](Operation *op) {
          const bool exact = isa<arith::MaximumFOp, arith::MinimumFOp, tile::MaximumNumberOp,
                                 tile::MinimumNumberOp, arith::NegFOp, arith::SelectOp,
                                 arith::ConstantOp, arith::ExtFOp>(op);
          const bool isFloat = llvm::any_of(op->getResultTypes(), [](Type type) {
            return isa<FloatType>(tile::elementType(type));
          });
          return isFloat && !exact ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  bool on;
  size_t count = 0;
  SmallVector<Kind> kinds;
  SmallVector<std::vector<SumBound>> sums;
};

void reduce(Run &run, Operation &op) {
  auto reduce = cast<tile::ReduceOp>(op);
  const Values sources = run.passedBy(op.getOperands());
  const Slices slices(sources[0]->shape, reduce.getAxis());
  Block &combiner = reduce.getCombiner().front();
  OrderBounds bounds(run, combiner, sources);
  Values sum;
  for (size_t i = 0; i < slices.length; ++i) {
    const Values slice = slices.of(sources, i);
    sum = i ? combine(run, combiner, sum, slice) : slice;
    bounds.add(slice);
  }
  run.setResults(op, bounds.of(sum));
}

void scan(Run &run, Operation &op) {
  auto scan = cast<tile::ScanOp>(op);
  const Values sources = run.passedBy(op.getOperands());
  const Slices slices(sources[0]->shape, scan.getAxis());
  SmallVector<Elements> results;
  for (const ElementsRef &source : sources)
    results.push_back(Elements(source->type, source->shape));
  Block &combiner = scan.getCombiner().front();
  OrderBounds bounds(run, combiner, sources);
  Values sum;
  for (size_t i = 0; i < slices.length; ++i) {
    const size_t at = scan.getReverse() ? slices.length - 1 - i : i;
    Values slice = slices.of(sources, at);
    sum = i ? combine(run, combiner, sum, slice) : slice;
    bounds.add(slice);
    const std::vector<size_t> places = slices.places(at);
    for (auto [result, value] : llvm::zip_equal(results, bounds.of(sum)))
      for (size_t e = 0; e < places.size(); ++e) {
        result.words[places[e]] = (*value)[e];
        if (value->wrappedAt(e))
          result.setWrapped(places[e]);
        if (!value->bounds.empty()) {
          result.bounds.resize(result.size());
          result.bounds[places[e]] = value->bounds[e];
        }
      }
  }
  for (auto [result, value] : llvm::zip_equal(op.getResults(), results))
    run.set(result, std::move(value));
}

/// The region of a `map`, and the meaning of assembly.
void map(Run &run, Operation &op) {
  Block &function = op.getRegion(0).front();
  run.setResults(op, op.getNumOperands() ? apply(run, function, run.passedBy(op.getOperands()))
                                         : run.call(function, {}));
}

void histogram(Run &run, Operation &op) {
  auto histogram = cast<tile::HistogramOp>(op);
  const Elements &source = run.get(histogram.getSource());
  const Elements *mask = histogram.getMask() ? &run.get(histogram.getMask()) : nullptr;
  const Elements *weights = histogram.getWeights() ? &run.get(histogram.getWeights()) : nullptr;
  Elements result(weights ? weights->type : ElementType{32},
                  tile::shapeOf(op.getResult(0).getType()));
  std::vector<SumBound> sums;
  if (const FloatFormat *format = result.type.format; format && run.bounds())
    sums.assign(result.size(), SumBound(*format));
  for (size_t i = 0; i < source.size(); ++i) {
    const int64_t bin = source.asSigned(i);
    if (bin < 0 || bin >= result.shape[0] || (mask && !(*mask)[i]))
      continue;
    uint64_t &sum = result.words[size_t(bin)];
    if (!weights)
      ++sum;
    else if (!result.type.format)
      sum = (sum + (*weights)[i]) & result.type.mask();
    else
      sum = result.type.format->encode(result.asDouble(size_t(bin)) + weights->asDouble(i));
    if (!sums.empty())
      sums[size_t(bin)].add(weights->asDouble(i), weights->boundAt(i));
  }
  for (size_t bin = 0; bin < sums.size(); ++bin)
    result.bounds.push_back(sums[bin].of(result.asDouble(bin)));
  run.set(op.getResult(0), std::move(result));
}

} // namespace

void addCombining(Table &table) {
  table["tile.reduce"] = reduce;
  table["tile.scan"] = scan;
  table["tile.map"] = map;
  table["tile.inline_asm"] = map;
  table["tile.histogram"] = histogram;
}

} // namespace sectile::interpreter
