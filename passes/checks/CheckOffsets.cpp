// The checked mode: arithmetic below 64 bits that has to fit (ir/tile/Overflow.h), feeds an address
// and could overflow is done again in 64 bits and compared, and promises about values become
// assertions.
//
// What feeds addresses is found backwards, from the offsets of pointers and views through sums,
// products, shifts, divisors, conversions, shapes, branches and loops; what is divided, compared or
// taken apart by bits may wrap. Arithmetic whose operands are known to be small enough is left
// alone. From there whether it overflowed is followed forwards to the accesses, where a mask may
// hide it; where it goes through a loop, a branch or a view instead, it must not overflow at all.
// In a checked kernel promises are verified and not used: they are gone afterwards.
#include "ir/tile/Overflow.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Passes.h"
#include "passes/analysis/Contiguity.h"
#include "passes/checks/Check.h"
#include "runtime/DebugLog.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sectile {
#define GEN_PASS_DEF_CHECKOFFSETS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// Whether an operation is in the program itself, where it can be followed by an assertion, and not
/// in a combiner.
bool isInProgram(Operation *op) {
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
    if (!isa<func::FuncOp, scf::ForOp, scf::IfOp, scf::WhileOp, ModuleOp>(parent))
      return false;
  return true;
}

/// Arithmetic that is marked to fit and feeds addresses.
class AddressArithmetic {
public:
  AddressArithmetic(func::FuncOp kernel, const ContiguityAnalysis &proven) : proven(proven) {
    kernel.walk([&](Operation *op) {
      if (auto add = dyn_cast<tile::AddPtrOp>(op))
        need(add.getOffset());
      // What counts elements of a view is an operand of an operation on views.
      else if (llvm::any_of(op->getOperandTypes(), llvm::IsaPred<tile::ViewType>))
        for (Value operand : op->getOperands())
          if (operand.getType().isInteger())
            need(operand);
    });
  }

  llvm::SetVector<Operation *> found;

private:
  void need(Value value) {
    if (!tile::elementType(value.getType()).isIntOrIndex() || !seen.insert(value).second)
      return;
    if (auto argument = dyn_cast<BlockArgument>(value))
      return needArgument(argument);
    Operation *op = value.getDefiningOp();
    unsigned number = cast<OpResult>(value).getResultNumber();
    if (tile::isDivision(*op)) {
      need(op->getOperand(1));
      if (tile::isMarkedToFit(*op) && proven[op->getOperand(0)].isNear())
        need(op->getOperand(0));
      return;
    }
    if (isa<arith::MaxSIOp>(op)) {
      for (Value operand : op->getOperands())
        if (proven[operand].isNear())
          need(operand);
      return;
    }
    TypeSwitch<Operation *>(op)
        .Case<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::ShLIOp>([&](auto) {
          addArithmetic(op);
          needAll(op->getOperands());
        })
        .Case<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::MinSIOp>(
            [&](auto) { needAll(op->getOperands()); })
        .Case([&](arith::SelectOp select) { needAll(select->getOperands().drop_front()); })
        .Case<scf::ForOp>([&](scf::ForOp loop) {
          need(loop.getInitArgs()[number]);
          need(loop.getYieldedValues()[number]);
        })
        .Case<scf::IfOp>([&](scf::IfOp branch) {
          need(branch.thenYield().getOperand(number));
          need(branch.elseYield().getOperand(number));
        })
        .Case<scf::WhileOp>(
            [&](scf::WhileOp loop) { need(loop.getConditionOp().getArgs()[number]); })
        .Default([&](Operation *) {
          // What moves elements about.
          if (isa<tile::TileDialect>(op->getDialect()) && isMemoryEffectFree(op) &&
              op->getNumRegions() == 0)
            needAll(op->getOperands());
        });
  }

  void addArithmetic(Operation *op) {
    const unsigned bits = tile::elementType(op->getResult(0).getType()).getIntOrFloatBitWidth();
    if (tile::isMarkedToFit(*op) && bits < 64)
      found.insert(op);
  }

  void needAll(OperandRange values) {
    for (Value value : values)
      need(value);
  }

  void needArgument(BlockArgument argument) {
    Operation *parent = argument.getOwner()->getParentOp();
    if (auto loop = dyn_cast<scf::ForOp>(parent)) {
      if (argument == loop.getInductionVar()) {
        need(loop.getLowerBound());
        need(loop.getUpperBound());
      } else {
        need(loop.getTiedLoopInit(argument)->get());
        need(loop.getTiedLoopYieldedValue(argument)->get());
      }
    } else if (auto loop = dyn_cast<scf::WhileOp>(parent)) {
      unsigned number = argument.getArgNumber();
      if (argument.getOwner() == loop.getAfterBody()) {
        need(loop.getConditionOp().getArgs()[number]);
      } else {
        need(loop.getInits()[number]);
        need(loop.getYieldOp().getOperand(number));
      }
    }
  }

  const ContiguityAnalysis &proven;
  DenseSet<Value> seen;
};

/// One operation's overflow, from where it happens to where it matters.
class Overflow {
public:
  explicit Overflow(Operation *op) : op(op), builder(op->getContext()), loc(op->getLoc()) {}

  static bool isPossible(Operation *op, const ContiguityAnalysis &proven) {
    SmallVector<Interval, 2> operands;
    for (Value operand : op->getOperands())
      operands.push_back(proven[operand].interval);
    Interval exact = exactInterval(*op, operands);
    return !exact.fits(bits(op->getResult(0)));
  }

  void check() {
    builder.setInsertionPointAfter(op);
    unsigned paths = 0;
    bool isFollowed = canFollow(op->getResult(0), paths);
    Value right = exact();
    Value wide = widened(op->getResult(0));
    Value overflowed = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, right, wide);
    if (isFollowed)
      follow(op->getResult(0), overflowed);
    else
      assertNot(overflowed);
  }

private:
  static unsigned bits(Value value) {
    return tile::elementType(value.getType()).getIntOrFloatBitWidth();
  }

  /// More ways to accesses than these are not worth a check each.
  static constexpr unsigned maxPaths = 16;

  static bool keepsPlaces(Operation *user) {
    return isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::ShLIOp, arith::ExtSIOp,
               arith::ExtUIOp, arith::TruncIOp, arith::MinSIOp, tile::AddPtrOp, tile::HintOp>(user);
  }
  static bool isShape(Operation *user) {
    return isa<tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp,
               tile::PermuteOp>(user);
  }
  static bool isAccess(Operation *user) {
    return isa<tile::LoadOp, tile::StoreOp, tile::AtomicRMWOp, tile::AtomicCasOp>(user);
  }

  /// Whether all ways of a value to an address are through operations that `follow` knows.
  static bool canFollow(Value value, unsigned &paths) {
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isAccess(user)) {
        if (use.getOperandNumber() == 0 && ++paths > maxPaths)
          return false;
      } else if (keepsPlaces(user) || isShape(user) || isa<arith::SelectOp>(user)) {
        if (!canFollow(user->getResult(0), paths))
          return false;
      } else if (isa<arith::MaxSIOp>(user)) {
        return false;
      } else if (tile::isDivision(*user)) {
        if (use.getOperandNumber() == 1 || tile::isMarkedToFit(*user))
          return false;
      } else if (!isa<arith::ArithDialect>(user->getDialect()) &&
                 !isa<tile::ReduceOp, tile::ScanOp, tile::AssertOp, tile::PrintOp>(user)) {
        return false;
      }
    }
    return true;
  }

  // `overflowed`: for each element of the value whether it comes of an overflow.
  void follow(Value value, Value overflowed) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : value.getUses())
      uses.push_back(&use);
    for (OpOperand *use : uses) {
      Operation *user = use->getOwner();
      builder.setInsertionPointAfter(user);
      if (isAccess(user)) {
        if (use->getOperandNumber() == 0)
          checkAccess(user, overflowed);
      } else if (keepsPlaces(user)) {
        follow(user->getResult(0), overflowed);
      } else if (isShape(user)) {
        IRMapping map;
        map.map(value, overflowed);
        Value moved = builder.clone(*user, map)->getResult(0);
        moved.setType(tile::withElementType(moved.getType(), builder.getI1Type()));
        follow(user->getResult(0), moved);
      } else if (auto select = dyn_cast<arith::SelectOp>(user)) {
        Value none = constant(overflowed.getType(), false);
        bool isFirst = use->getOperandNumber() == 1;
        Value chosen =
            arith::SelectOp::create(builder, loc, select.getCondition(),
                                    isFirst ? overflowed : none, isFirst ? none : overflowed);
        follow(select.getResult(), chosen);
      }
    }
  }

  void checkAccess(Operation *access, Value overflowed) {
    builder.setInsertionPoint(access);
    Value mask = TypeSwitch<Operation *, Value>(access)
                     .Case<tile::LoadOp, tile::StoreOp, tile::AtomicRMWOp, tile::AtomicCasOp>(
                         [](auto op) { return op.getMask(); });
    if (mask)
      overflowed = arith::AndIOp::create(builder, loc, overflowed, mask);
    assertNot(overflowed);
  }

  void assertNot(Value overflowed) {
    Value holds =
        arith::XOrIOp::create(builder, loc, overflowed, constant(overflowed.getType(), true));
    std::string width = std::to_string(bits(op->getResult(0)));
    std::string message = (isa<arith::AddIOp>(op)   ? "a sum of "
                           : isa<arith::SubIOp>(op) ? "a difference of "
                           : isa<arith::MulIOp>(op) ? "a product of "
                                                    : "a shift of ") +
                          width +
                          " bits that feeds an address overflows: widen an operand with "
                          "sc::cast<std::int64_t>, or use a View";
    tile::AssertOp::create(builder, loc, holds, message);
  }

  Value constant(Type type, bool value) {
    TypedAttr attr = builder.getBoolAttr(value);
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      attr = DenseElementsAttr::get(tensor, value);
    return arith::ConstantOp::create(builder, loc, attr);
  }

  Value widened(Value value) {
    Type type = tile::withElementType(value.getType(), builder.getI64Type());
    if (type == value.getType())
      return value;
    return arith::ExtSIOp::create(builder, loc, type, value);
  }

  Value exact() {
    Value a = widened(op->getOperand(0));
    Value b = widened(op->getOperand(1));
    return TypeSwitch<Operation *, Value>(op)
        .Case<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::ShLIOp>(
            [&](auto op) -> Value { return decltype(op)::create(builder, loc, a, b); });
  }

  Operation *op;
  OpBuilder builder;
  Location loc;
};

/// Builds the checks of promises at one place.
class Checks {
public:
  explicit Checks(Operation *op) : builder(op->getContext()), loc(op->getLoc()) {
    builder.setInsertionPointAfter(op);
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
      unit = cta::elementBytes(element);
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
    if (failed(checkBare(kernel)))
      return signalPassFailure();
    ContiguityAnalysis proven(kernel, Certainty::proven);
    AddressArithmetic arithmetic(kernel, proven);
    // All are chosen before anything is added.
    SmallVector<Operation *> unsafe;
    for (Operation *op : arithmetic.found)
      if (isInProgram(op) && Overflow::isPossible(op, proven))
        unsafe.push_back(op);
    SmallVector<Operation *> promises;
    kernel.walk([&](Operation *op) {
      if (isa<tile::AssumeOp, tile::HintOp>(op))
        promises.push_back(op);
    });
    for (Operation *op : unsafe)
      Overflow(op).check();
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
};

} // namespace
