// What each operation does to contiguity, constancy and divisibility. Notation in comments: a run
// of a tile's values along one dimension is s, s+1, … (contiguous) or s, s, … (constant).
#include "ir/cta/Cta.h"
#include "ir/tile/Overflow.h"
#include "passes/analysis/Contiguity.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numeric>

using namespace mlir;

namespace sectile {

namespace {

/// Greater divisors are of no use, and products of two of these do not overflow.
constexpr int64_t maxDivisor = int64_t(1) << 30;

/// Numbers farther apart than this are no neighbours.
constexpr int64_t mostGap = 16;

/// The greatest power of two that divides a number; everything divides zero.
int64_t powerOfTwoIn(int64_t n) {
  if (n == 0)
    return maxDivisor;
  const uint64_t power = uint64_t(1) << llvm::countr_zero(uint64_t(n));
  return int64_t(std::min(power, uint64_t(maxDivisor)));
}

bool isPowerOfTwo(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

/// Whether a division's quotients and remainders are places if its dividends are.
bool dividesPlaces(Operation &op, const Contiguity &dividends) {
  return tile::isMarkedToFit(op) && dividends.isNear();
}

/// One rule's view of its operation: its operands' knowledge and the shape of the result.
class Rules {
public:
  Rules(Operation &op, ArrayRef<const Contiguity *> operands, Certainty certainty)
      : op(op), operands(operands), certainty(certainty), type(op.getResult(0).getType()),
        step(stepOf(type)) {
    shape.assign(tile::shapeOf(type));
    if (!isa<RankedTensorType>(type))
      shape.push_back(1);
  }

  Contiguity infer();

private:
  const Contiguity &lhs() const { return *operands[0]; }
  const Contiguity &rhs() const { return *operands[1]; }
  /// The power of two that divides every element, seen along a dimension.
  int64_t everyLhs(unsigned d) const {
    return divisibilityOfRuns(lhs()[d], 1, stepOf(op.getOperand(0).getType()));
  }
  int64_t everyRhs(unsigned d) const {
    return divisibilityOfRuns(rhs()[d], 1, stepOf(op.getOperand(1).getType()));
  }
  /// A result of runs that the function gives for each dimension.
  template <typename F> Contiguity perDim(F rule) const {
    Contiguity result;
    for (unsigned d = 0; d < shape.size(); ++d)
      result.dims.push_back(rule(d));
    return result;
  }
  /// Every element has this value.
  Contiguity same(int64_t divisibility) const {
    return perDim([&](unsigned d) { return Run{1, shape[d], divisibility}; });
  }
  Contiguity constant(int64_t value) const {
    Contiguity result = same(powerOfTwoIn(value));
    result.interval = result.place = {value, value};
    return result;
  }

  Contiguity add() const;
  Contiguity subtract() const;
  Contiguity multiply(const Contiguity &by) const;
  Contiguity divide(const Contiguity &by, bool roundsDown) const;
  Contiguity remainder(const Contiguity &by, bool roundsDown) const;
  Contiguity bitAnd() const;
  Contiguity compare(arith::CmpIPredicate predicate) const;
  Contiguity select() const;
  Contiguity eitherOf() const;
  Contiguity extendUnsigned() const;
  Contiguity load() const;
  Contiguity expandDims(unsigned axis) const;
  Contiguity broadcast() const;
  Contiguity permute(ArrayRef<int32_t> order) const;
  Contiguity reshape(ArrayRef<int64_t> from) const;
  Contiguity promised(tile::HintOp hint) const;
  /// Two to a power, in the shape of the right operand; for shifts by a constant.
  Contiguity powerOfTwo(int64_t exponent) const { return constant(int64_t(1) << exponent); }
  /// The right operand as a constant amount of a shift.
  std::optional<int64_t> shiftAmount() const {
    std::optional<int64_t> amount = rhs().constant();
    return amount && *amount >= 0 && *amount < 31 ? amount : std::nullopt;
  }

  /// Whether few multiples of a divisor are expected within a run: it is no constant.
  bool isSeldomMet(const Contiguity &divisor) const {
    return certainty == Certainty::mostly && !divisor.constant();
  }

  /// Whether numbers are expected not to be negative, as sizes and places of elements are not.
  bool isCount(const Contiguity &numbers) const {
    return (dividesPlaces(op, numbers) ? numbers.place : numbers.interval).isNonNegative() ||
           certainty == Certainty::mostly;
  }

  /// Whether numbers that far apart still count as neighbours.
  bool isSmallStep(const Contiguity &step) const {
    return certainty == Certainty::mostly && step.constant() && *step.constant() > 1 &&
           *step.constant() <= mostGap;
  }

  Operation &op;
  ArrayRef<const Contiguity *> operands;
  Certainty certainty;
  Type type;
  int64_t step;
  SmallVector<int64_t, 3> shape;
};

// Integers, or a pointer and integers that count its elements.
Contiguity Rules::add() const {
  return perDim([&](unsigned d) {
    const Run &a = lhs()[d], &b = rhs()[d];
    Run run;
    const int64_t ofA = std::gcd(a.contiguity, b.constancy),
                  ofB = std::gcd(a.constancy, b.contiguity);
    run.contiguity = std::max(ofA, ofB);
    run.gap = ofA >= ofB ? a.gap : b.gap;
    run.constancy = std::gcd(a.constancy, b.constancy);
    // `step` is 1 unless the result is a pointer, whose offset counts elements.
    int64_t offset =
        std::min(divisibilityOfRuns(b, run.contiguity, 1) * (step & -step), maxDivisor);
    run.divisibility = std::min(divisibilityOfRuns(a, run.contiguity, step), offset);
    return run;
  });
}

Contiguity Rules::subtract() const {
  return perDim([&](unsigned d) {
    const Run &a = lhs()[d], &b = rhs()[d];
    Run run;
    run.contiguity = std::gcd(a.contiguity, b.constancy);
    run.constancy = std::gcd(a.constancy, b.constancy);
    run.divisibility = std::min(divisibilityOfRuns(a, run.contiguity, 1),
                                divisibilityOfRuns(b, run.contiguity, 1));
    run.gap = a.gap;
    return run;
  });
}

Contiguity Rules::multiply(const Contiguity &by) const {
  if (by.constant() == 1)
    return lhs();
  if (lhs().constant() == 1)
    return by;
  return perDim([&](unsigned d) {
    int64_t divisor = everyLhs(d) * divisibilityOfRuns(by[d], 1, 1);
    // Bounded, so that what a loop multiplies again and again comes to an end.
    const bool close = isSmallStep(by) && lhs()[d].gap * *by.constant() <= mostGap;
    return Run{close ? lhs()[d].contiguity : 1, std::gcd(lhs()[d].constancy, by[d].constancy),
               std::min(divisor, maxDivisor), close ? lhs()[d].gap * *by.constant() : 1};
  });
}

// s, …, s+g-1 all have one quotient by n where g divides s and n, since no multiple of n lies after
// s. Division that rounds towards zero does that for numbers from zero on only.
Contiguity Rules::divide(const Contiguity &by, bool roundsDown) const {
  if (by.constant() == 1)
    return lhs();
  return perDim([&](unsigned d) {
    const Run &a = lhs()[d], &n = by[d];
    Run run;
    run.constancy = std::gcd(a.constancy, n.constancy);
    int64_t divisor = divisibilityOfRuns(n, 1, 1);
    if (isSeldomMet(by))
      run.constancy = std::max(run.constancy, std::gcd(a.contiguity, n.constancy));
    else if (roundsDown || isCount(lhs()))
      run.constancy = std::max(run.constancy, std::gcd(std::gcd(a.contiguity, n.constancy),
                                                       std::min(a.divisibility, divisor)));
    if (by.constant() && isPowerOfTwo(*by.constant()))
      run.divisibility = std::max<int64_t>(everyLhs(d) / *by.constant(), 1);
    return run;
  });
}

// s, …, s+g-1 modulo n stay a run where g divides s and n.
Contiguity Rules::remainder(const Contiguity &by, bool roundsDown) const {
  return perDim([&](unsigned d) {
    const Run &a = lhs()[d], &n = by[d];
    int64_t divisor = divisibilityOfRuns(n, 1, 1);
    Run run;
    run.constancy = std::gcd(a.constancy, n.constancy);
    if (isSeldomMet(by))
      run.contiguity = std::gcd(a.contiguity, n.constancy);
    else if (roundsDown || isCount(lhs()))
      run.contiguity =
          std::gcd(std::gcd(a.contiguity, n.constancy), std::min(a.divisibility, divisor));
    run.divisibility = std::min(divisibilityOfRuns(a, run.contiguity, 1), divisor);
    run.gap = a.gap;
    return run;
  });
}

Contiguity Rules::bitAnd() const {
  if (std::optional<int64_t> mask = rhs().constant();
      mask && *mask < maxDivisor && isPowerOfTwo(*mask + 1))
    return remainder(constant(*mask + 1), /*roundsDown=*/true);
  return perDim([&](unsigned d) {
    return Run{1, std::gcd(lhs()[d].constancy, rhs()[d].constancy),
               std::max(everyLhs(d), everyRhs(d))};
  });
}

// Where g divides s and n, all of s, …, s+g-1 are below n or none is.
Contiguity Rules::compare(arith::CmpIPredicate predicate) const {
  using enum arith::CmpIPredicate;
  bool splitsBeforeRhs =
      predicate == slt || predicate == sge || predicate == ult || predicate == uge;
  bool splitsBeforeLhs =
      predicate == sgt || predicate == sle || predicate == ugt || predicate == ule;
  auto constantRuns = [](const Run &run, const Run &bound) {
    return std::gcd(std::gcd(run.contiguity, bound.constancy),
                    std::min(run.divisibility, divisibilityOfRuns(bound, 1, 1)));
  };
  return perDim([&](unsigned d) {
    const Run &a = lhs()[d], &b = rhs()[d];
    Run run;
    run.constancy = std::gcd(a.constancy, b.constancy);
    if (splitsBeforeRhs)
      run.constancy = std::max(run.constancy, constantRuns(a, b));
    if (splitsBeforeLhs)
      run.constancy = std::max(run.constancy, constantRuns(b, a));
    return run;
  });
}

Contiguity Rules::select() const {
  const Contiguity &condition = lhs(), &a = *operands[1], &b = *operands[2];
  bool oneForAll = !isa<RankedTensorType>(op.getOperand(0).getType());
  Contiguity result = joined(a, b, step);
  if (!oneForAll) {
    result = perDim([&](unsigned d) {
      Run run;
      run.contiguity = std::gcd(result[d].contiguity, condition[d].constancy);
      run.constancy = std::gcd(result[d].constancy, condition[d].constancy);
      run.gap = result[d].gap;
      run.divisibility = std::min(divisibilityOfRuns(a[d], run.contiguity, step),
                                  divisibilityOfRuns(b[d], run.contiguity, step));
      return run;
    });
  }
  return result;
}

Contiguity Rules::eitherOf() const {
  return perDim([&](unsigned d) {
    return Run{1, std::gcd(lhs()[d].constancy, rhs()[d].constancy),
               std::min(everyLhs(d), everyRhs(d))};
  });
}

// A run that passes from -1 to 0 would be torn apart; one whose length divides its first value does
// not.
Contiguity Rules::extendUnsigned() const {
  Contiguity result = lhs();
  if (!lhs().interval.isNonNegative()) {
    for (Run &run : result.dims) {
      int64_t length = std::gcd(run.contiguity, run.divisibility);
      run = {length, run.constancy, divisibilityOfRuns(run, length, 1), run.gap};
    }
  }
  return result;
}

// Where all pointers are one pointer, all values are one value.
Contiguity Rules::load() const {
  Contiguity result = Contiguity::unknown(type);
  for (unsigned d = 0; d < shape.size(); ++d) {
    int64_t constancy = lhs()[d].constancy;
    for (const Contiguity *operand : operands)
      constancy = std::gcd(constancy, (*operand)[d].constancy);
    result.dims[d].constancy = constancy;
  }
  return result;
}

Contiguity Rules::expandDims(unsigned axis) const {
  Contiguity result = lhs();
  // Along the new dimension every element begins a run of its own.
  int64_t every = 1;
  for (unsigned d = 0; d < lhs().dims.size(); ++d)
    every = std::max(every, everyLhs(d));
  result.dims.insert(result.dims.begin() + axis, Run{1, 1, every});
  return result;
}

Contiguity Rules::broadcast() const {
  Contiguity result = lhs();
  ArrayRef<int64_t> from = tile::shapeOf(op.getOperand(0).getType());
  for (unsigned d = 0; d < shape.size(); ++d)
    if (from[d] != shape[d])
      result.dims[d].constancy = shape[d];
  return result;
}

Contiguity Rules::permute(ArrayRef<int32_t> order) const {
  Contiguity result = lhs();
  for (auto [d, axis] : llvm::enumerate(order))
    result.dims[d] = lhs()[axis];
  return result;
}

// Dimensions fall into groups of equal products of extents. What is known along the last dimension
// of a group on the left is known along the last one of it on the right, in runs that fit both;
// elsewhere, of single elements.
Contiguity Rules::reshape(ArrayRef<int64_t> from) const {
  int64_t every = 1;
  for (unsigned d = 0; d < from.size(); ++d)
    every = std::max(every, everyLhs(d));
  Contiguity result = perDim([&](unsigned) { return Run{1, 1, every}; });
  int i = from.size() - 1, j = shape.size() - 1;
  while (i >= 0 && j >= 0) {
    // Extents of 1 carry nothing, and would hide the dimension that does.
    if (from[i] == 1 || shape[j] == 1) {
      i -= from[i] == 1;
      j -= shape[j] == 1;
      continue;
    }
    const Run &a = lhs()[i];
    Run &b = result.dims[j];
    b.contiguity = std::gcd(a.contiguity, shape[j]);
    b.constancy = std::gcd(a.constancy, shape[j]);
    b.divisibility = divisibilityOfRuns(a, b.contiguity, step);
    b.gap = a.gap;
    int64_t left = from[i], right = shape[j], last = shape[j];
    int64_t constancy = a.constancy; // of the group's elements in row-major order
    while (left != right)
      if (left < right) {
        --i;
        if (constancy == left) {
          constancy *= lhs()[i].constancy;
          b.constancy = std::gcd(constancy, last);
        }
        left *= from[i];
      } else {
        --j;
        if (constancy % right == 0)
          result.dims[j].constancy = std::gcd(constancy / right, shape[j]);
        right *= shape[j];
      }
    --i;
    --j;
  }
  return result;
}

// Runs start at multiples of their length: what is promised of every n-th element holds of them
// where n divides that.
Contiguity Rules::promised(tile::HintOp hint) const {
  auto numberOf = [](std::optional<ArrayRef<int64_t>> numbers, unsigned d) {
    return numbers ? (*numbers)[d] : 1;
  };
  Contiguity result = lhs();
  for (unsigned d = 0; d < shape.size(); ++d) {
    Run &run = result.dims[d];
    int64_t contiguous = numberOf(hint.getContiguous(), d);
    int64_t constant = numberOf(hint.getConstant(), d);
    int64_t divisor = numberOf(hint.getDivisible(), d);
    if (contiguous > run.contiguity && shape[d] % contiguous == 0) {
      run.divisibility = divisibilityOfRuns(run, contiguous, step);
      run.contiguity = contiguous;
    }
    if (constant > run.constancy && shape[d] % constant == 0)
      run.constancy = constant;
    if (shape[d] == 1 || run.contiguity % divisor == 0)
      run.divisibility =
          std::max(run.divisibility, std::min(powerOfTwoIn(divisor) * (step & -step), maxDivisor));
  }
  return result;
}

Contiguity Rules::infer() {
  return llvm::TypeSwitch<Operation *, Contiguity>(&op)
      .Case<arith::ConstantOp>([&](arith::ConstantOp c) {
        Attribute value = c.getValue();
        if (auto splat = dyn_cast<SplatElementsAttr>(value))
          value = splat.getSplatValue<Attribute>();
        if (auto integer = dyn_cast<IntegerAttr>(value);
            integer && integer.getValue().getBitWidth() <= 64)
          return constant(integer.getValue().getSExtValue());
        if (isa<FloatAttr>(value))
          return same(1);
        return Contiguity::unknown(type);
      })
      .Case<tile::ProgramIdOp, tile::NumProgramsOp>([&](auto) { return same(1); })
      .Case<tile::ArangeOp>([&](tile::ArangeOp range) {
        int64_t start = static_cast<int32_t>(range.getStart());
        Contiguity result =
            perDim([&](unsigned d) { return Run{shape[d], 1, powerOfTwoIn(start)}; });
        return result;
      })
      .Case<tile::SplatOp>([&](auto) { return same(lhs()[0].divisibility); })
      .Case<tile::ExpandDimsOp>([&](tile::ExpandDimsOp o) { return expandDims(o.getAxis()); })
      .Case<tile::BroadcastOp>([&](auto) { return broadcast(); })
      .Case<tile::PermuteOp>([&](tile::PermuteOp o) { return permute(o.getOrder()); })
      .Case<tile::ReshapeOp>(
          [&](tile::ReshapeOp o) { return reshape(o.getSource().getType().getShape()); })
      .Case<tile::HintOp>([&](tile::HintOp hint) { return promised(hint); })
      .Case<cta::OfBlockOp>([&](auto) { return lhs(); })
      .Case<tile::LoadOp>([&](auto) { return load(); })
      .Case<tile::AddPtrOp, arith::AddIOp>([&](auto) { return add(); })
      .Case<arith::SubIOp>([&](auto) { return subtract(); })
      .Case<arith::MulIOp>([&](auto) { return multiply(rhs()); })
      .Case<arith::DivSIOp>([&](auto) { return divide(rhs(), false); })
      .Case<arith::DivUIOp, arith::FloorDivSIOp>([&](auto) { return divide(rhs(), true); })
      .Case<arith::RemSIOp>([&](auto) { return remainder(rhs(), false); })
      .Case<arith::RemUIOp>([&](auto) { return remainder(rhs(), true); })
      .Case<arith::AndIOp>([&](auto) { return bitAnd(); })
      .Case<arith::OrIOp, arith::XOrIOp, arith::MinSIOp, arith::MaxSIOp, arith::MinUIOp,
            arith::MaxUIOp>([&](auto) { return eitherOf(); })
      .Case<arith::ShLIOp>([&](auto) {
        if (std::optional<int64_t> amount = shiftAmount())
          return multiply(powerOfTwo(*amount));
        return Contiguity::unknown(type);
      })
      .Case<arith::ShRSIOp, arith::ShRUIOp>([&](auto) {
        if (std::optional<int64_t> amount = shiftAmount())
          return divide(powerOfTwo(*amount), true);
        return Contiguity::unknown(type);
      })
      .Case<arith::CmpIOp>([&](arith::CmpIOp o) { return compare(o.getPredicate()); })
      .Case<arith::SelectOp>([&](auto) { return select(); })
      .Case<arith::ExtSIOp, arith::IndexCastOp, arith::TruncIOp, cta::ConvertLayoutOp>(
          [&](auto) { return lhs(); })
      .Case<arith::ExtUIOp>([&](auto) { return extendUnsigned(); })
      .Default([&](Operation *) { return Contiguity::unknown(type); });
}

} // namespace

// A number that may not fit may wrap to any other.
static Interval wrapped(const Interval &exact, const Interval &all) {
  return exact.low >= all.low && exact.high <= all.high ? exact : all;
}

static Interval clipped(const Interval &exact, const Interval &all) {
  return {std::clamp(exact.low, all.low, all.high), std::clamp(exact.high, all.low, all.high)};
}

/// Whether the elements of the result are places if those of an operand are. What compares numbers
/// or splits them into bits takes them as they have wrapped. So do divisions of hashes, and the
/// greater of two, which makes a place of any number.
static bool keepsPlaces(Operation &op, unsigned operand, const Contiguity &known) {
  if (tile::isDivision(op))
    return operand == 1 || dividesPlaces(op, known);
  if (isa<arith::MaxSIOp>(op))
    return known.isNear();
  return isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::ShLIOp, arith::ExtSIOp,
             arith::ExtUIOp, arith::TruncIOp, arith::IndexCastOp, arith::SelectOp, arith::MinSIOp,
             cta::ConvertLayoutOp>(op) ||
         isa<tile::TileDialect>(op.getDialect());
}

/// Whether the operation is arithmetic that is marked to fit, or combines by such arithmetic.
static bool hasToFit(Operation &op) {
  if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
    Operation *by = onlyCombination(reduce.getCombiner());
    return by && tile::isMarkedToFit(*by);
  }
  if (auto scan = dyn_cast<tile::ScanOp>(op)) {
    Operation *by = onlyCombination(scan.getCombiner());
    return by && tile::isMarkedToFit(*by);
  }
  return tile::isMarkedToFit(op);
}

/// Where a run's numbers wrap within it, it is torn there; runs that begin at a multiple of their
/// length are not. An address is computed in 64 bits and wraps with them.
static void tearRuns(Contiguity &result, unsigned bits) {
  for (Run &run : result.dims) {
    const int64_t whole =
        std::gcd(std::gcd(run.contiguity, run.divisibility), int64_t(1) << (bits - 1));
    run.divisibility = divisibilityOfRuns(run, whole, 1);
    run.contiguity = whole;
  }
}

Contiguity inferContiguity(Operation &op, ArrayRef<const Contiguity *> operands,
                           Certainty certainty) {
  Contiguity result = Rules(op, operands, certainty).infer();
  SmallVector<Interval, 4> intervals, places;
  unsigned most = 0, sum = 0;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    const bool isPlace = keepsPlaces(op, i, *operand);
    intervals.push_back(operand->interval);
    places.push_back(isPlace ? operand->place : operand->interval);
    // A divisor makes nothing larger.
    if (isPlace && !(tile::isDivision(op) && i == 1)) {
      most = std::max(most, operand->excess);
      sum += operand->excess;
    }
  }
  const Interval all = Interval::ofType(op.getResult(0).getType()),
                 exact = exactInterval(op, intervals), exactPlace = exactInterval(op, places);
  auto add = dyn_cast<arith::AddIOp>(op);
  const bool neverWraps =
      add && bitEnumContainsAny(add.getOverflowFlags(), arith::IntegerOverflowFlags::nsw);
  result.interval = neverWraps ? clipped(exact, all) : wrapped(exact, all);
  result.place = neverWraps || hasToFit(op) ? clipped(exactPlace, all) : wrapped(exactPlace, all);
  const Type element = tile::elementType(op.getResult(0).getType());
  const unsigned bits = element.isInteger() ? element.getIntOrFloatBitWidth() : 64;
  unsigned beyond = 0;
  while (beyond < Contiguity::farBits && !exactPlace.fits(bits + beyond))
    ++beyond;
  result.excess =
      std::min(isa<arith::MulIOp, arith::ShLIOp>(op) ? sum + beyond : std::max(most, beyond),
               Contiguity::farBits);
  if (bits > 1 && bits < 64 && certainty != Certainty::mostly && !tile::isMarkedToFit(op) &&
      isa<arith::AddIOp, arith::SubIOp, arith::TruncIOp>(op) && !exact.fits(bits))
    tearRuns(result, bits);
  return result;
}

Contiguity pointersAt(const Contiguity &base, const Contiguity &offsets, int64_t step) {
  Contiguity result = offsets;
  for (Run &run : result.dims)
    run.divisibility =
        std::min({run.divisibility * powerOfTwoIn(step), base.dims[0].divisibility, maxDivisor});
  result.interval = result.place = Interval::ofBits(64);
  return result;
}

// The sum of a scalar, to which every dimension adds a whole number of strides, and of 0 … n-1
// strides along each dimension.
Contiguity pointersOfBlock(const BlockContiguity &block, int64_t step, Certainty certainty) {
  const unsigned rank = block.shape.size();
  int64_t start = block.ptr->dims[0].divisibility;
  SmallVector<int64_t, 4> strideBytes; // powers of two that divide them
  for (unsigned d = 0; d < rank; ++d) {
    const int64_t stride = block.strides[d]->dims[0].divisibility;
    const int64_t offset =
        std::min(block.offsets[d]->dims[0].divisibility * stride, maxDivisor) * powerOfTwoIn(step);
    start = std::min({start, offset, maxDivisor});
    strideBytes.push_back(std::min(stride * powerOfTwoIn(step), maxDivisor));
  }
  Contiguity result;
  for (unsigned d = 0; d < rank; ++d) {
    const std::optional<int64_t> stride = block.strides[d]->constant();
    const int64_t extent = block.shape[d];
    Run run{1, 1, start};
    if (stride == 1) {
      run.contiguity = extent;
    } else if (stride == 0) {
      run.constancy = extent;
    } else if (certainty == Certainty::mostly && stride && *stride > 1 && *stride <= mostGap) {
      run.contiguity = extent;
      run.gap = *stride;
    }
    for (unsigned e = 0; e < rank; ++e)
      if (block.shape[e] > 1 && (e != d || stride != 1))
        run.divisibility = std::min(run.divisibility, strideBytes[e]);
    result.dims.push_back(run);
  }
  result.interval = result.place = Interval::ofBits(64);
  return result;
}

// An element is within the view if its place in the block is at least 0 - offset and less than
// extent - offset: where a number divides those, that many neighbours are on one side of them.
std::optional<Contiguity> maskOfBlock(const BlockContiguity &block) {
  Contiguity result;
  bool any = false;
  for (unsigned d = 0; d < block.shape.size(); ++d) {
    const int64_t extent = block.shape[d], offset = block.offsets[d]->dims[0].divisibility;
    Run run{1, extent, 1};
    if (block.mayBeBelow(d))
      run.constancy = std::gcd(run.constancy, offset);
    if (block.mayBeBeyond(d))
      run.constancy =
          std::gcd(run.constancy, std::min(offset, block.extents[d]->dims[0].divisibility));
    any |= block.mayBeBelow(d) || block.mayBeBeyond(d);
    result.dims.push_back(run);
  }
  if (!any)
    return std::nullopt;
  result.interval = result.place = Interval::ofBits(1);
  return result;
}

} // namespace sectile
