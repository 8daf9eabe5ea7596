// Counts the slots of rings whose number is no power of two, in place of dividing the number of a
// use by it:
//
//   for … iter_args(use = u)                    for … iter_args(slot = u % 5, parity = u / 5 & 1)
//     wait for slot use % 5,           ->         wait for slot, parity
//              parity use / 5 & 1                 next = slot + 1
//     yield use + 1                               yield next == 5 ? 0 : next,
//                                                       next == 5 ? parity ^ 1 : parity
//
// A division is a multiplication of twice the width and more: a thread that waits for a slot, asks
// for copies and releases slots does several in each iteration, one after the other.
#include "ir/cta/Cta.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Passes.h"
#include "passes/analysis/SharedMemory.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace sectile {
#define GEN_PASS_DEF_COUNTSLOTS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// Of the number of a use, and of a number of slots.
struct Counted {
  Value slot;   ///< the remainder
  Value parity; ///< whether the quotient is odd: 0 or 1
};

constexpr unsigned mostSlots = 64;

/// A sum of a value and a constant.
struct Offset {
  Value base;
  int64_t by;
};
std::optional<Offset> offsetOf(Value value) {
  if (auto sum = value.getDefiningOp<arith::AddIOp>()) {
    if (auto by = constantInt(sum.getRhs()))
      return Offset{sum.getLhs(), *by};
    if (auto by = constantInt(sum.getLhs()))
      return Offset{sum.getRhs(), *by};
  }
  if (auto difference = value.getDefiningOp<arith::SubIOp>())
    if (auto by = constantInt(difference.getRhs()))
      return Offset{difference.getLhs(), -*by};
  return std::nullopt;
}

/// The loop that carries a value, and its place among what that carries.
std::pair<scf::ForOp, unsigned> carriedBy(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (loop && argument != loop.getInductionVar())
      return {loop, argument.getArgNumber() - 1};
    return {nullptr, 0};
  }
  auto result = cast<OpResult>(value);
  return {dyn_cast<scf::ForOp>(result.getOwner()), result.getResultNumber()};
}

/// Whether each loop on the way to a value adds constants to it alone. What loops begin with is
/// divided for once, ahead of them.
bool isCountable(Value value, DenseSet<Value> &visited) {
  if (constantInt(value))
    return true;
  if (auto offset = offsetOf(value))
    return isCountable(offset->base, visited);
  auto [loop, at] = carriedBy(value);
  if (!loop)
    return false;
  return !visited.insert(loop.getRegionIterArgs()[at]).second ||
         isCountable(loop.getYieldedValues()[at], visited);
}

class Counter {
public:
  Counter(unsigned slots, Location loc) : slots(slots), loc(loc) {}

  Counted of(Value use) {
    if (auto found = known.find(use); found != known.end())
      return found->second;
    OpBuilder builder(use.getContext());
    builder.setInsertionPointAfterValue(use);
    if (auto number = constantInt(use)) {
      const auto count = static_cast<uint32_t>(*number);
      return known[use] = {constant(builder, count % slots), constant(builder, count / slots & 1)};
    }
    if (auto offset = offsetOf(use)) {
      const Counted base = of(offset->base);
      return known[use] = moved(builder, base, offset->by);
    }
    if (auto [loop, at] = carriedBy(use); loop) {
      const bool isResult = isa<OpResult>(use);
      const BlockArgument argument = loop.getRegionIterArgs()[at];
      carry(loop, at);
      loop = cast<scf::ForOp>(argument.getOwner()->getParentOp()); // another one now
      return known.lookup(isResult ? Value(loop.getResult(at)) : Value(argument));
    }
    Value count = constant(builder, slots);
    return known[use] = {arith::RemUIOp::create(builder, loc, use, count),
                         arith::AndIOp::create(builder, loc,
                                               arith::DivUIOp::create(builder, loc, use, count),
                                               constant(builder, 1))};
  }

private:
  Value constant(OpBuilder &builder, int64_t value) {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  }

  Counted moved(OpBuilder &builder, const Counted &base, int64_t by) {
    const int64_t turns = llvm::divideFloorSigned(by, slots), ahead = by - turns * slots;
    Counted result = base;
    if (ahead) {
      Value sum = arith::AddIOp::create(builder, loc, base.slot, constant(builder, ahead));
      Value over = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, sum,
                                         constant(builder, slots));
      Value back = ahead == 1 ? constant(builder, 0)
                              : arith::SubIOp::create(builder, loc, sum, constant(builder, slots));
      result.slot = arith::SelectOp::create(builder, loc, over, back, sum);
      result.parity =
          arith::SelectOp::create(builder, loc, over, other(builder, base.parity), base.parity);
    }
    if (turns % 2)
      result.parity = other(builder, result.parity);
    return result;
  }

  Value other(OpBuilder &builder, Value parity) {
    return arith::XOrIOp::create(builder, loc, parity, constant(builder, 1));
  }

  /// Has a loop carry the slot and the parity of what it carries at `at`.
  void carry(scf::ForOp loop, unsigned at) {
    const BlockArgument argument = loop.getRegionIterArgs()[at];
    const Counted first = of(loop.getInitArgs()[at]);
    if (known.contains(argument)) // by a loop around both
      return;
    OpBuilder builder(loop);
    SmallVector<Value> inits(loop.getInitArgs());
    inits.append({first.slot, first.parity});
    auto counting =
        scf::ForOp::create(builder, loop.getLoc(), loop.getLowerBound(), loop.getUpperBound(),
                           loop.getStep(), inits, nullptr, loop.getUnsignedCmp());
    counting->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
    counting.getRegion().takeBody(loop.getRegion());
    Block *body = counting.getBody();
    Value slot = body->addArgument(builder.getI32Type(), loc),
          parity = body->addArgument(builder.getI32Type(), loc);
    const unsigned count = loop.getNumResults();
    for (unsigned i = 0; i < count; ++i)
      replace(loop.getResult(i), counting.getResult(i));
    loop.erase();
    known[argument] = {slot, parity};
    known[counting.getResult(at)] = {counting.getResult(count), counting.getResult(count + 1)};
    Operation *yield = body->getTerminator();
    const Counted next = of(yield->getOperand(at));
    yield->insertOperands(yield->getNumOperands(), {next.slot, next.parity});
  }

  void replace(Value old, Value by) {
    old.replaceAllUsesWith(by);
    if (auto found = known.find(old); found != known.end()) {
      const Counted counted = found->second;
      known.erase(found);
      known[by] = counted;
    }
    for (auto &[use, counted] : known) {
      if (counted.slot == old)
        counted.slot = by;
      if (counted.parity == old)
        counted.parity = by;
    }
  }

  unsigned slots;
  Location loc;
  llvm::MapVector<Value, Counted> known;
};

struct CountSlots : sectile::impl::CountSlotsBase<CountSlots> {
  void runOnOperation() override {
    // By the number of slots: what is divided by it, in loops.
    llvm::MapVector<unsigned, SmallVector<Operation *>> divisions;
    getOperation().walk([&](Operation *op) {
      if (!isa<arith::RemUIOp, arith::DivUIOp>(op) || !op->getParentOfType<scf::ForOp>() ||
          !op->getResult(0).getType().isInteger(32) || !isOfRing(op))
        return;
      auto slots = constantInt(op->getOperand(1));
      if (!slots || *slots < 3 || *slots > mostSlots || llvm::isPowerOf2_64(*slots))
        return;
      Value base = op->getOperand(0);
      while (auto offset = offsetOf(base))
        base = offset->base;
      DenseSet<Value> visited;
      if (carriedBy(base).first && isCountable(base, visited))
        divisions[*slots].push_back(op);
    });
    for (auto &[slots, ops] : divisions) {
      Counter counter(slots, ops.front()->getLoc());
      for (Operation *op : ops)
        replace(op, counter);
    }
  }

  /// Whether a result says which slot, or which phase of it, and nothing else. Uses are never so
  /// many that their number would not fit; a program's own numbers may be.
  static bool isOfRing(Operation *op) {
    return llvm::all_of(op->getUsers(), [](Operation *user) {
      return isa<cta::CtaDialect>(user->getDialect()) ||
             (isa<arith::AddIOp, arith::AndIOp>(user) && isOfRing(user));
    });
  }

  static void replace(Operation *op, Counter &counter) {
    if (isa<arith::RemUIOp>(op)) {
      op->getResult(0).replaceAllUsesWith(counter.of(op->getOperand(0)).slot);
      op->erase();
      return;
    }
    // Only whether a quotient is odd is counted.
    replaceParities(op->getResult(0), op->getOperand(0), /*isOther=*/false, counter);
    if (op->use_empty())
      op->erase();
  }

  static void replaceParities(Value quotient, Value use, bool isOther, Counter &counter) {
    for (Operation *user : llvm::to_vector(quotient.getUsers())) {
      if (auto sum = dyn_cast<arith::AddIOp>(user); sum && offsetOf(sum) && !isOther) {
        replaceParities(sum, use, offsetOf(sum)->by % 2, counter);
        if (sum->use_empty())
          sum.erase();
        continue;
      }
      auto odd = dyn_cast<arith::AndIOp>(user);
      if (!odd || constantInt(odd.getRhs()) != 1)
        continue;
      Value parity = counter.of(use).parity;
      if (isOther) {
        OpBuilder builder(odd);
        parity = arith::XOrIOp::create(builder, odd.getLoc(), parity,
                                       arith::ConstantIntOp::create(builder, odd.getLoc(), 1, 32));
      }
      odd.replaceAllUsesWith(parity);
      odd.erase();
    }
  }
};

} // namespace
