// The checked mode: 32-bit arithmetic that feeds an address and could overflow is done again in 64
// bits and compared, and promises about values become assertions.
//
// What feeds addresses is found backwards, from the offsets of pointers and views through
// arithmetic, shapes, branches and loops. Arithmetic whose operands are known to be small enough is
// left alone. In a checked kernel promises are verified and not used: they are gone afterwards.
#include "ir/DebugLog.h"
#include "mlir/IR/Matchers.h"
#include "passes/Check.h"
#include "passes/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sectile {
#define GEN_PASS_DEF_CHECKOFFSETS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// Numbers from `low` to `high`. Wide enough for whatever 64 bits hold.
struct Interval {
  __int128 low, high;

  bool fits(unsigned bits) const {
    __int128 limit = __int128(1) << (bits - 1);
    return low >= -limit && high < limit;
  }
  static Interval ofBits(unsigned bits) {
    __int128 limit = __int128(1) << (bits - 1);
    return {-limit, limit - 1};
  }
};

/// What an integer can be, as a signed number.
class Intervals {
public:
  Interval of(Value value) {
    auto [known, isNew] = intervals.try_emplace(value, widest(value));
    if (!isNew) // a value carried by a loop depends on itself
      return known->second;
    Interval found = infer(value);
    if (!found.fits(bitsOf(value)))
      found = widest(value);
    return intervals[value] = found;
  }

private:
  static unsigned bitsOf(Value value) {
    Type element = tile::elementType(value.getType());
    return element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
  }
  static Interval widest(Value value) { return Interval::ofBits(bitsOf(value)); }

  Interval infer(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
      if (!loop || argument != loop.getInductionVar())
        return widest(value);
      return {of(loop.getLowerBound()).low, of(loop.getUpperBound()).high - 1};
    }
    Operation *op = value.getDefiningOp();
    auto operand = [&](unsigned i) { return of(op->getOperand(i)); };
    return TypeSwitch<Operation *, Interval>(op)
        .Case([&](arith::ConstantOp constant) {
          APInt number;
          if (!matchPattern(constant.getResult(), m_ConstantInt(&number)))
            return widest(value);
          return Interval{number.getSExtValue(), number.getSExtValue()};
        })
        .Case([&](tile::ProgramIdOp id) {
          return Interval{0, id.getAxis() == 0 ? 0x7fff'fffe : 0xfffe};
        })
        .Case([&](tile::NumProgramsOp n) {
          return Interval{1, n.getAxis() == 0 ? 0x7fff'ffff : 0xffff};
        })
        .Case([&](tile::ArangeOp range) {
          int64_t start = int32_t(range.getStart());
          return Interval{start, start + range.getType().getShape()[0] - 1};
        })
        .Case<tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp,
              tile::PermuteOp, tile::HintOp, arith::ExtSIOp>([&](auto) { return operand(0); })
        .Case([&](arith::ExtUIOp extend) {
          Interval from = operand(0);
          return from.low >= 0 ? from : Interval{0, (__int128(1) << bitsOf(extend.getIn())) - 1};
        })
        .Case([&](arith::AddIOp) {
          return Interval{operand(0).low + operand(1).low, operand(0).high + operand(1).high};
        })
        .Case([&](arith::SubIOp) {
          return Interval{operand(0).low - operand(1).high, operand(0).high - operand(1).low};
        })
        .Case([&](arith::MulIOp) {
          Interval a = operand(0), b = operand(1);
          // Products of 64-bit numbers may leave even this.
          if (!a.fits(63) || !b.fits(63))
            return widest(value);
          __int128 products[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
          return Interval{*std::ranges::min_element(products), *std::ranges::max_element(products)};
        })
        .Case([&](arith::DivSIOp) {
          Interval a = operand(0), b = operand(1);
          if (b.low < 1)
            return widest(value);
          return Interval{a.low < 0 ? a.low : a.low / b.high,
                          a.high < 0 ? a.high / b.high : a.high / b.low};
        })
        .Case([&](arith::RemSIOp) {
          Interval a = operand(0), b = operand(1);
          if (b.low < 1)
            return widest(value);
          return Interval{a.low < 0 ? std::max(a.low, 1 - b.high) : 0,
                          a.high < 0 ? 0 : std::min(a.high, b.high - 1)};
        })
        .Case([&](arith::MinSIOp) {
          return Interval{std::min(operand(0).low, operand(1).low),
                          std::min(operand(0).high, operand(1).high)};
        })
        .Case([&](arith::MaxSIOp) {
          return Interval{std::max(operand(0).low, operand(1).low),
                          std::max(operand(0).high, operand(1).high)};
        })
        .Case([&](arith::SelectOp) {
          return Interval{std::min(operand(1).low, operand(2).low),
                          std::max(operand(1).high, operand(2).high)};
        })
        .Default([&](Operation *) { return widest(value); });
  }

  DenseMap<Value, Interval> intervals;
};

/// Whether an operation is in the program itself, where it can be followed by an assertion, and not
/// in a combiner.
bool isInProgram(Operation *op) {
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
    if (!isa<func::FuncOp, scf::ForOp, scf::IfOp, scf::WhileOp, ModuleOp>(parent))
      return false;
  return true;
}

/// Arithmetic that feeds addresses, and whether its numbers are unsigned.
class AddressArithmetic {
public:
  explicit AddressArithmetic(func::FuncOp kernel) {
    kernel.walk([&](Operation *op) {
      if (auto add = dyn_cast<tile::AddPtrOp>(op))
        need(add.getOffset(), false);
      // What counts elements of a view is an operand of an operation on views.
      else if (llvm::any_of(op->getOperandTypes(), llvm::IsaPred<tile::ViewType>))
        for (Value operand : op->getOperands())
          if (operand.getType().isInteger(32))
            need(operand, false);
    });
  }

  llvm::MapVector<Operation *, bool> found;

private:
  void need(Value value, bool isUnsigned) {
    if (!tile::elementType(value.getType()).isIntOrIndex() || !seen.insert(value).second)
      return;
    if (auto argument = dyn_cast<BlockArgument>(value))
      return needArgument(argument, isUnsigned);
    Operation *op = value.getDefiningOp();
    unsigned number = cast<OpResult>(value).getResultNumber();
    TypeSwitch<Operation *>(op)
        .Case<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::ShLIOp>([&](auto) {
          if (tile::elementType(value.getType()).isInteger(32))
            found.insert({op, isUnsigned});
          needAll(op->getOperands(), isUnsigned);
        })
        .Case([&](arith::ExtSIOp extend) { need(extend.getIn(), false); })
        .Case([&](arith::ExtUIOp extend) { need(extend.getIn(), true); })
        .Case([&](arith::SelectOp select) {
          needAll(select->getOperands().drop_front(), isUnsigned);
        })
        .Case<scf::ForOp>([&](scf::ForOp loop) {
          need(loop.getInitArgs()[number], isUnsigned);
          need(loop.getYieldedValues()[number], isUnsigned);
        })
        .Case<scf::IfOp>([&](scf::IfOp branch) {
          need(branch.thenYield().getOperand(number), isUnsigned);
          need(branch.elseYield().getOperand(number), isUnsigned);
        })
        .Case<scf::WhileOp>(
            [&](scf::WhileOp loop) { need(loop.getConditionOp().getArgs()[number], isUnsigned); })
        .Default([&](Operation *) {
          // Shapes, quotients, minima and what else computes on integers.
          bool computes = isa<arith::ArithDialect, tile::TileDialect>(op->getDialect()) &&
                          isMemoryEffectFree(op) && op->getNumRegions() == 0;
          if (computes && !isa<arith::TruncIOp, arith::CmpIOp, arith::CmpFOp>(op))
            needAll(op->getOperands(), isUnsigned);
        });
  }

  void needAll(OperandRange values, bool isUnsigned) {
    for (Value value : values)
      need(value, isUnsigned);
  }

  void needArgument(BlockArgument argument, bool isUnsigned) {
    Operation *parent = argument.getOwner()->getParentOp();
    if (auto loop = dyn_cast<scf::ForOp>(parent)) {
      if (argument == loop.getInductionVar()) {
        need(loop.getLowerBound(), false);
        need(loop.getUpperBound(), false);
      } else {
        need(loop.getTiedLoopInit(argument)->get(), isUnsigned);
        need(loop.getTiedLoopYieldedValue(argument)->get(), isUnsigned);
      }
    } else if (auto loop = dyn_cast<scf::WhileOp>(parent)) {
      unsigned number = argument.getArgNumber();
      if (argument.getOwner() == loop.getAfterBody()) {
        need(loop.getConditionOp().getArgs()[number], isUnsigned);
      } else {
        need(loop.getInits()[number], isUnsigned);
        need(loop.getYieldOp().getOperand(number), isUnsigned);
      }
    }
  }

  DenseSet<Value> seen;
};

/// Builds the checks at one place.
class Checks {
public:
  explicit Checks(Operation *op) : builder(op->getContext()), loc(op->getLoc()) {
    builder.setInsertionPointAfter(op);
  }

  void overflow(Operation *op, bool isUnsigned) {
    Value sum = op->getResult(0);
    Value a = widened(op->getOperand(0), isUnsigned), b = widened(op->getOperand(1), isUnsigned);
    Value exact = TypeSwitch<Operation *, Value>(op)
                      .Case([&](arith::AddIOp) { return make<arith::AddIOp>(a, b); })
                      .Case([&](arith::SubIOp) { return make<arith::SubIOp>(a, b); })
                      .Case([&](arith::MulIOp) { return make<arith::MulIOp>(a, b); })
                      .Case([&](arith::ShLIOp) { return make<arith::ShLIOp>(a, b); });
    StringRef what = isa<arith::AddIOp>(op)   ? "sum"
                     : isa<arith::SubIOp>(op) ? "difference"
                     : isa<arith::MulIOp>(op) ? "product"
                                              : "shift";
    assertEqual(exact, widened(sum, isUnsigned),
                "a " + what +
                    " of 32 bits that feeds an address overflows: widen an operand with "
                    "sc::cast<std::int64_t>, or use a View");
  }

  void assumption(tile::AssumeOp op) {
    tile::AssertOp::create(builder, loc, op.getCondition(),
                           "what sc::assume promises does not hold");
  }

  void promises(tile::HintOp op) {
    Value value = op.getSource();
    int64_t unit = 1;
    if (auto pointer = dyn_cast<tile::PtrType>(tile::elementType(value.getType()))) {
      Type element = pointer.getElement();
      unit = isa<tile::PtrType>(element) ? 8 : (element.getIntOrFloatBitWidth() + 7) / 8;
      value = cta::AddressOp::create(
          builder, loc, tile::withElementType(value.getType(), builder.getI64Type()), value);
    }
    auto each = [&](std::optional<ArrayRef<int64_t>> numbers, auto check) {
      for (auto [axis, number] : llvm::enumerate(numbers.value_or(ArrayRef<int64_t>())))
        if (number > 1)
          check(axis, number);
    };
    each(op.getDivisible(), [&](unsigned axis, int64_t n) { divisible(value, axis, n, n * unit); });
    each(op.getContiguous(), [&](unsigned axis, int64_t n) {
      if (isa<RankedTensorType>(value.getType()))
        runs(value, axis, n, unit, "what sc::contiguous promises does not hold");
    });
    each(op.getConstant(), [&](unsigned axis, int64_t n) {
      if (isa<RankedTensorType>(value.getType()))
        runs(value, axis, n, 0, "what sc::constant promises does not hold");
    });
  }

private:
  template <class Op> Value make(Value a, Value b) { return Op::create(builder, loc, a, b); }

  Value widened(Value value, bool isUnsigned) {
    Type type = tile::withElementType(value.getType(), builder.getI64Type());
    return isUnsigned ? Value(arith::ExtUIOp::create(builder, loc, type, value))
                      : Value(arith::ExtSIOp::create(builder, loc, type, value));
  }

  Value number(Type type, int64_t value) {
    TypedAttr attr = builder.getIntegerAttr(tile::elementType(type), value);
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      attr = DenseElementsAttr::get(tensor, Attribute(attr));
    return arith::ConstantOp::create(builder, loc, attr);
  }

  void assertEqual(Value a, Value b, const Twine &message) {
    Value equal = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, b);
    tile::AssertOp::create(builder, loc, equal, message.str());
  }

  /// Positions along an axis, in the shape and the integer type of `like`.
  Value positions(Value like, unsigned axis) {
    auto type = cast<RankedTensorType>(like.getType());
    SmallVector<int64_t> extents = {type.getShape()[axis]};
    auto narrow = [&] { return RankedTensorType::get(extents, builder.getI32Type()); };
    Value along = tile::ArangeOp::create(builder, loc, narrow(), 0);
    for (unsigned d = 0; d < type.getRank(); ++d)
      if (d != axis) {
        extents.insert(extents.begin() + d, 1);
        along = tile::ExpandDimsOp::create(builder, loc, narrow(), along, d);
      }
    extents.assign(type.getShape().begin(), type.getShape().end());
    if (along.getType() != narrow())
      along = tile::BroadcastOp::create(builder, loc, narrow(), along);
    unsigned bits = type.getElementTypeBitWidth();
    if (bits > 32)
      return arith::ExtSIOp::create(builder, loc, type, along);
    return bits < 32 ? Value(arith::TruncIOp::create(builder, loc, type, along)) : along;
  }

  /// Every n-th element along the axis is a multiple of `divisor`.
  void divisible(Value value, unsigned axis, int64_t n, int64_t divisor) {
    Type type = value.getType();
    Value zero = number(type, 0);
    Value rest = make<arith::RemSIOp>(value, number(type, divisor));
    if (isa<RankedTensorType>(type)) {
      Value place = make<arith::RemSIOp>(positions(value, axis), number(type, n));
      Value starts = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, place, zero);
      rest = arith::SelectOp::create(builder, loc, starts, rest, zero);
    }
    assertEqual(rest, zero, "what sc::multiple_of promises does not hold");
  }

  /// Runs of n elements along the axis grow by `step`: with that taken off they are equal, so that
  /// their least is their greatest.
  void runs(Value value, unsigned axis, int64_t n, int64_t step, StringRef message) {
    auto type = cast<RankedTensorType>(value.getType());
    if (step)
      value = make<arith::SubIOp>(value,
                                  make<arith::MulIOp>(positions(value, axis), number(type, step)));
    SmallVector<int64_t> shape(type.getShape());
    shape[axis] /= n;
    auto few = type.clone(shape);
    shape.insert(shape.begin() + axis + 1, n);
    value = tile::ReshapeOp::create(builder, loc, type.clone(shape), value);
    Value least = reduced<arith::MinSIOp>(value, axis + 1, few);
    Value greatest = reduced<arith::MaxSIOp>(value, axis + 1, few);
    assertEqual(least, greatest, message);
  }

  template <class Combine> Value reduced(Value value, unsigned axis, RankedTensorType type) {
    Type element = type.getElementType();
    auto reduce = tile::ReduceOp::create(builder, loc, Type(type), value, axis);
    OpBuilder::InsertionGuard guard(builder);
    Block *body = builder.createBlock(&reduce.getCombiner());
    Value left = body->addArgument(element, loc), right = body->addArgument(element, loc);
    Value combined = make<Combine>(left, right);
    tile::YieldOp::create(builder, loc, combined);
    return reduce.getResult(0);
  }

  OpBuilder builder;
  Location loc;
};

struct CheckOffsets : sectile::impl::CheckOffsetsBase<CheckOffsets> {
  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    if (!kernel->hasAttr(StringRef(debuglog::checkedAttr)))
      return;
    if (failed(checkTiles(kernel)))
      return signalPassFailure();
    AddressArithmetic arithmetic(kernel);
    Intervals intervals;
    // All are chosen before anything is added.
    SmallVector<std::pair<Operation *, bool>> unsafe;
    for (auto [op, isUnsigned] : arithmetic.found)
      if (isInProgram(op) && canOverflow(op, isUnsigned, intervals))
        unsafe.push_back({op, isUnsigned});
    SmallVector<Operation *> promises;
    kernel.walk([&](Operation *op) {
      if (isa<tile::AssumeOp, tile::HintOp>(op))
        promises.push_back(op);
    });
    for (auto [op, isUnsigned] : unsafe)
      Checks(op).overflow(op, isUnsigned);
    for (Operation *op : promises) {
      if (auto assumption = dyn_cast<tile::AssumeOp>(op)) {
        Checks(op).assumption(assumption);
      } else if (auto hint = cast<tile::HintOp>(op)) {
        Checks(op).promises(hint);
        hint.getResult().replaceAllUsesWith(hint.getSource());
      }
      op->erase();
    }
  }

  static bool canOverflow(Operation *op, bool isUnsigned, Intervals &intervals) {
    Interval a = intervals.of(op->getOperand(0)), b = intervals.of(op->getOperand(1));
    if (isUnsigned && (a.low < 0 || b.low < 0))
      return true;
    __int128 factors[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
    Interval exact =
        TypeSwitch<Operation *, Interval>(op)
            .Case([&](arith::AddIOp) { return Interval{a.low + b.low, a.high + b.high}; })
            .Case([&](arith::SubIOp) { return Interval{a.low - b.high, a.high - b.low}; })
            .Case([&](arith::MulIOp) {
              return Interval{*std::ranges::min_element(factors),
                              *std::ranges::max_element(factors)};
            })
            .Case([&](arith::ShLIOp) {
              if (b.low < 0 || b.high > 31)
                return Interval::ofBits(64);
              return Interval{a.low << b.high, a.high << b.high};
            });
    return isUnsigned && exact.low < 0 ? true : !exact.fits(isUnsigned ? 33 : 32);
  }
};

} // namespace
