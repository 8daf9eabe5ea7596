// Loops and branches: the body is traced into a block of its own, with an argument for every live
// variable; those that it leaves unchanged are folded away when it ends.
#include "dsl/SameCode.h"
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"
#include <sectile/control.h>

using namespace mlir;

namespace sectile::detail {

namespace {

/// Gives a frame up when tracing its body ends with an exception.
class Abandoning {
public:
  Abandoning(Trace &trace, Trace::Frame &frame) : trace(trace), frame(&frame) {}
  ~Abandoning() {
    if (frame)
      trace.abandon(*frame);
  }
  void done() { frame = nullptr; }

private:
  Trace &trace;
  Trace::Frame *frame;
};

std::string shapeOrNumber(mlir::Type type) {
  if (!isa<RankedTensorType>(type))
    return "one number";
  return "a tile of " + shapeText(tile::shapeOf(type));
}

std::string lineText(Location where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

/// Blames the line that made a value.
[[noreturn]] void failAt(mlir::Value culprit, Location otherwise, const Twine &message) {
  if (auto file = culprit.getLoc()->findInstanceOf<FileLineColLoc>())
    throw CompileError(file.getFilename().str(), file.getLine(), message.str());
  fail(otherwise, message);
}

/// A variable keeps its type through a loop and from a branch.
void checkSame(mlir::Type before, mlir::Value after, StringRef what, Location where) {
  if (before == after.getType())
    return;
  if (tile::shapeOf(before) != tile::shapeOf(after.getType()))
    failAt(after, where,
           "the " + what + " at " + lineText(where) + " changes the shape of a variable from " +
               shapeOrNumber(before) + " to " + shapeOrNumber(after.getType()) +
               ": give it its final shape before, as in sc::zeros<float>(64)");
  failAt(
      after, where,
      "the " + what + " at " + lineText(where) +
          " changes the width of an Int: make it as wide before, as in sc::cast<std::int64_t>(x)");
}

/// The variables of a loop: what each is after the body, beside the block argument it was before.
struct LoopVariable {
  Trace::Frame::Entry *entry;
  mlir::Value argument; ///< of the block that the loop's condition and body share
  mlir::Value next;     ///< null where the variable lost its value
};

SmallVector<mlir::Value> valuesNow(Trace &trace, Trace::Frame &frame) {
  SmallVector<mlir::Value> values;
  for (Trace::Frame::Entry &entry : frame.entries)
    values.push_back(trace.valueOf(entry));
  return values;
}

/// Moves a traced body into the block of the loop's operation.
void moveBody(Block &from, Block *to, ArrayRef<std::pair<mlir::Value, mlir::Value>> arguments) {
  for (auto [old, replacement] : arguments)
    old.replaceAllUsesWith(replacement);
  to->getOperations().splice(to->end(), from.getOperations());
}

/// What a value made in a frame is outside it: an argument that was folded away is what it stood
/// for, the rest is lost.
class OutsideOf {
public:
  void folded(mlir::Value argument, mlir::Value outside) { map[argument] = outside; }
  void inside(Block *block) { blocks.push_back(block); }
  mlir::Value operator()(mlir::Value value) const {
    if (auto found = map.find(value); found != map.end())
      return found->second;
    return llvm::is_contained(blocks, value.getParentBlock()) ? mlir::Value() : value;
  }

private:
  llvm::SmallDenseMap<mlir::Value, mlir::Value> map;
  SmallVector<Block *> blocks;
};

TracedBranch::Outcome outcomeOf(mlir::Value value, const Trace::Frame &frame) {
  using Kind = TracedBranch::Outcome::Kind;
  for (auto [number, entry] : llvm::enumerate(frame.entries))
    if (entry.before == value)
      return {Kind::Same, number};
  return {Kind::Unknown};
}

/// Goes past a branch whose bodies an earlier trace has seen.
void leaveOut(Trace &trace, Trace::Frame &frame, mlir::Value holds) {
  using Kind = TracedBranch::Outcome::Kind;
  TracedFunctions &functions = *trace.functions;
  if (functions.nextBranch >= functions.branches.size())
    throw CannotLeaveOut();
  const TracedBranch &known = functions.branches[functions.nextBranch];
  if (known.outcomes.size() != frame.entries.size() ||
      trace.location(known.where) != trace.location(frame.where))
    throw CannotLeaveOut();
  functions.nextBranch = known.next;
  OpBuilder &builder = trace.builder;
  builder.restoreInsertionPoint(frame.outside);
  auto branch = scf::IfOp::create(builder, trace.location(frame.where),
                                  TypeRange(ArrayRef(known.results)), holds,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  branch->setAttr(bodyLeftOut, builder.getUnitAttr());
  for (auto [entry, outcome] : llvm::zip_equal(frame.entries, known.outcomes)) {
    if (!entry.handle)
      continue;
    switch (outcome.kind) {
    case Kind::Unchanged:
      break;
    case Kind::Unknown:
      if (trace.valueOf(entry))
        throw CannotLeaveOut();
      break;
    case Kind::Escaped:
      trace.escape(entry, frame.where);
      break;
    case Kind::Result:
      trace.assign(entry, branch.getResult(outcome.number));
      break;
    case Kind::Same:
      trace.assign(entry, frame.entries[outcome.number].before);
      break;
    }
  }
  frame.outside = builder.saveInsertionPoint();
}

} // namespace

//===-- when
//--------------------------------------------------------------------------------------===//

void branch(const Operand &condition, const Callback &then, const Callback *otherwise,
            Location where) {
  if (!condition.value) { // known while tracing
    if (literalAttr(condition.literal, Kind::boolean, Trace::current(where).builder.getI1Type(),
                    where) == Trace::current(where).builder.getBoolAttr(true))
      then();
    else if (otherwise)
      (*otherwise)();
    return;
  }
  Trace &trace = Trace::current(where);
  if (!isBool(condition.kind))
    fail(where, "sc::when takes a bool, not " + Twine(std::string(nameOf(condition.kind))) +
                    ": compare first, as in x != 0");
  mlir::Value holds = trace.get(*condition.value, where);
  if (isa<RankedTensorType>(holds.getType()))
    fail(where,
         "sc::when takes one bool, not a tile of " + shapeText(tile::shapeOf(holds.getType())) +
             ": sc::where chooses element by element, sc::any and sc::all make one bool of a tile");

  OpBuilder &builder = trace.builder;
  mlir::Location loc = trace.location(where);
  Trace::Frame frame;
  trace.open(frame, where);
  Abandoning abandoning(trace, frame);
  if (trace.leavesOutBranches()) {
    leaveOut(trace, frame, holds);
    abandoning.done();
    return trace.close(frame, [](mlir::Value value) { return value; });
  }
  const bool isNoted = trace.notesBranches();
  const size_t number = isNoted ? trace.functions->branches.size() : 0;
  if (isNoted)
    trace.functions->branches.push_back({where, {}, {}, 0});
  then();
  trace.rethrowPoison();
  SmallVector<mlir::Value> afterThen = valuesNow(trace, frame);
  trace.restore(frame);
  Block &thenBlock = frame.region->front(), &elseBlock = frame.region->emplaceBlock();
  OutsideOf outside;
  outside.inside(&thenBlock);
  outside.inside(&elseBlock);
  trace.sweep(frame, [&](mlir::Value value) { return outside(value); });
  builder.setInsertionPointToEnd(&elseBlock);
  if (otherwise)
    (*otherwise)();
  trace.rethrowPoison();
  SmallVector<mlir::Value> afterElse = valuesNow(trace, frame);

  SmallVector<mlir::Value> thenYields, elseYields;
  SmallVector<mlir::Type> types;
  SmallVector<Trace::Frame::Entry *> carried;
  std::vector<TracedBranch::Outcome> outcomes(frame.entries.size());
  using Outcome = TracedBranch::Outcome::Kind;
  for (auto [entry, a, b, outcome] : llvm::zip(frame.entries, afterThen, afterElse, outcomes)) {
    if (!entry.handle || (!a && !b)) {
      outcome.kind = Outcome::Unknown;
      continue;
    }
    if (!a || !b) {
      trace.escape(entry, where);
      outcome.kind = Outcome::Escaped;
      continue;
    }
    if (a == b) {
      trace.assign(entry, a);
      if (a != entry.before)
        outcome = outcomeOf(a, frame);
      continue;
    }
    outcome = {Outcome::Result, carried.size()};
    if (entry.before) {
      checkSame(entry.before.getType(), a, "branch", where);
      checkSame(entry.before.getType(), b, "branch", where);
    }
    checkSame(a.getType(), b, "branch", where);
    thenYields.push_back(a);
    elseYields.push_back(b);
    types.push_back(a.getType());
    carried.push_back(&entry);
  }
  builder.setInsertionPointToEnd(&thenBlock);
  scf::YieldOp::create(builder, loc, thenYields);
  builder.setInsertionPointToEnd(&elseBlock);
  scf::YieldOp::create(builder, loc, elseYields);

  builder.restoreInsertionPoint(frame.outside);
  bool withElse = otherwise || !types.empty();
  auto branch = scf::IfOp::create(builder, loc, types, holds, /*addThenBlock=*/true,
                                  /*addElseBlock=*/withElse);
  outside.inside(branch.thenBlock());
  branch.thenBlock()->clear();
  moveBody(thenBlock, branch.thenBlock(), {});
  if (withElse) {
    outside.inside(branch.elseBlock());
    branch.elseBlock()->clear();
    moveBody(elseBlock, branch.elseBlock(), {});
  }
  for (auto [entry, result] : llvm::zip(carried, branch.getResults()))
    trace.assign(*entry, result);
  if (isNoted) {
    TracedFunctions &functions = *trace.functions;
    functions.branches[number] = {
        where, {types.begin(), types.end()}, std::move(outcomes), functions.branches.size()};
  }
  abandoning.done();
  trace.close(frame, [&](mlir::Value value) { return outside(value); });
}

/// The condition and the body of a loop, and what variables are after each.
namespace {
struct WhileBodies {
  Block *before, *after;
  mlir::Value holds;
  SmallVector<mlir::Value> afterCondition, afterBody;
};
} // namespace

//===-- loop_while
//--------------------------------------------------------------------------------===//

void whileLoop(const Callback &condition, const Value &holds, const Callback &body,
               Location where) {
  Trace &trace = Trace::current(where);
  OpBuilder &builder = trace.builder;
  mlir::Location loc = trace.location(where);
  Trace::Frame frame;
  trace.open(frame, where);
  Abandoning abandoning(trace, frame);
  OutsideOf outside;
  const auto traceLoop = [&](Block *before) {
    WhileBodies traced{before, nullptr, {}, {}, {}};
    builder.setInsertionPointToEnd(before);
    outside.inside(before);
    trace.enterLoopBlock(frame, before);
    condition();
    trace.rethrowPoison();
    traced.holds = trace.get(holds, where);
    if (isa<RankedTensorType>(traced.holds.getType()))
      fail(where, "the condition of sc::loop_while is one bool, not a tile of " +
                      shapeText(tile::shapeOf(traced.holds.getType())) +
                      ": sc::any and sc::all make one");
    traced.afterCondition = valuesNow(trace, frame);
    trace.sweep(frame, [&](mlir::Value value) { return outside(value); });
    traced.after = &frame.region->emplaceBlock();
    outside.inside(traced.after);
    builder.setInsertionPointToEnd(traced.after);
    trace.enterLoopBlock(frame, traced.after);
    body();
    trace.rethrowPoison();
    traced.afterBody = valuesNow(trace, frame);
    return traced;
  };
  WhileBodies traced = traceLoop(&frame.region->front());
  if (trace.tracesTwice()) {
    trace.restore(frame);
    trace.sweep(frame, [&](mlir::Value value) { return outside(value); });
    ++trace.repeats;
    WhileBodies again = traceLoop(&frame.region->emplaceBlock());
    --trace.repeats;
    SameCode same;
    const bool isSame = same.compare(*traced.before, *again.before) &&
                        same.compare(ArrayRef(traced.holds), ArrayRef(again.holds)) &&
                        same.compare(traced.afterCondition, again.afterCondition) &&
                        same.compare(*traced.after, *again.after) &&
                        same.compare(traced.afterBody, again.afterBody);
    noteTraces(trace, isSame, same, where, "this loop");
    trace.resume(frame, traced.afterBody, {again.before, again.after});
  }
  Block &before = *traced.before, &after = *traced.after;

  SmallVector<mlir::Value> inits, passed, yields;
  SmallVector<std::pair<mlir::Value, mlir::Value>> foldedBefore, foldedAfter;
  SmallVector<LoopVariable> variables;
  SmallVector<mlir::Value> afterArguments;
  unsigned next = 0;
  for (auto [entry, middle, now] :
       llvm::zip(frame.entries, traced.afterCondition, traced.afterBody)) {
    if (!entry.before)
      continue;
    mlir::Value argument = before.getArgument(next), afterArgument = after.getArgument(next);
    ++next;
    // A variable that lost its value keeps the one it came with, as its handle is escaped anyway.
    middle = middle ? middle : argument;
    now = now ? now : afterArgument;
    if (middle == argument && now == afterArgument) {
      foldedBefore.push_back({argument, entry.before});
      foldedAfter.push_back({afterArgument, entry.before});
      outside.folded(argument, entry.before);
      outside.folded(afterArgument, entry.before);
      continue;
    }
    checkSame(entry.before.getType(), middle, "loop", where);
    checkSame(entry.before.getType(), now, "loop", where);
    variables.push_back({&entry, argument, now});
    afterArguments.push_back(afterArgument);
    inits.push_back(entry.before);
    passed.push_back(middle);
    yields.push_back(now);
  }
  builder.setInsertionPointToEnd(&before);
  scf::ConditionOp::create(builder, loc, traced.holds, passed);
  builder.setInsertionPointToEnd(&after);
  scf::YieldOp::create(builder, loc, yields);

  builder.restoreInsertionPoint(frame.outside);
  auto nothing = [](OpBuilder &, mlir::Location, ValueRange) {};
  SmallVector<mlir::Type> types(ValueRange(inits).getTypes());
  auto loop = scf::WhileOp::create(builder, loc, types, inits, nothing, nothing);
  outside.inside(loop.getBeforeBody());
  outside.inside(loop.getAfterBody());
  for (auto [i, variable] : llvm::enumerate(variables)) {
    foldedBefore.push_back({variable.argument, loop.getBeforeBody()->getArgument(i)});
    foldedAfter.push_back({afterArguments[i], loop.getAfterBody()->getArgument(i)});
  }
  moveBody(before, loop.getBeforeBody(), foldedBefore);
  moveBody(after, loop.getAfterBody(), foldedAfter);
  for (Trace::Frame::Entry &entry : frame.entries)
    if (entry.handle) {
      if (mlir::Value now = trace.valueOf(entry); now && !entry.before)
        trace.escape(entry, where);
      else if (now)
        trace.assign(entry, entry.before);
    }
  for (auto [variable, result] : llvm::zip(variables, loop.getResults()))
    trace.assign(*variable.entry, result);
  abandoning.done();
  trace.close(frame, [&](mlir::Value value) { return outside(value); });
}

} // namespace sectile::detail

//===-- range
//-------------------------------------------------------------------------------------===//

namespace sectile {

struct Range::State {
  detail::Location where;
  LoopOptions options;
  mlir::Value begin, end, step;
  detail::Trace *trace = nullptr;
  detail::Trace::Frame frame;
  /// While the body is traced again: what variables were after the first trace.
  SmallVector<mlir::Value> afterFirst;
  bool isRepeating = false;
  int exceptions = 0;
  enum class Phase { made, running, finished } phase = Phase::made;

  void enterBody();
  void repeat();
  void compareTraces();
};

Range::Range(detail::Operand begin, detail::Operand end, detail::Operand step, LoopOptions options,
             detail::Location where) {
  detail::Trace &trace = detail::Trace::current(where);
  if (options.stages < 0 || options.unroll < 0)
    detail::fail(where, "sc::range: stages and unroll are not negative");
  if (!step.value && step.literal.integer <= 0)
    detail::fail(where, "sc::range has a step of " + Twine(step.literal.integer) +
                            ": steps are positive; count upwards and subtract in the body");
  auto state = std::make_unique<State>();
  state->where = where;
  state->options = options;
  state->trace = &trace;
  mlir::Location loc = trace.location(where);
  mlir::Value bounds[] = {detail::scalarIndex(trace, begin, "sc::range: a bound"),
                          detail::scalarIndex(trace, end, "sc::range: a bound"),
                          detail::scalarIndex(trace, step, "sc::range: the step")};
  unsigned width = 32;
  for (mlir::Value bound : bounds)
    width = std::max(width, bound.getType().getIntOrFloatBitWidth());
  for (mlir::Value &bound : bounds)
    bound = detail::convert(trace, loc, bound, detail::Kind::index, detail::Kind::index,
                            trace.builder.getIntegerType(width));
  std::tie(state->begin, state->end, state->step) = std::tie(bounds[0], bounds[1], bounds[2]);
  state_ = state.release();
}

Range::~Range() {
  std::unique_ptr<State> state(state_);
  if (state->phase != State::Phase::running)
    return;
  state->trace->abandon(state->frame);
  // Left by an exception, or by a jump that traced code cannot take.
  if (std::uncaught_exceptions() > state->exceptions)
    return;
  state->trace->poison(std::make_exception_ptr(CompileError(
      state->where.file_name(), state->where.line(),
      "this loop over sc::range is left by break, return or goto: its body is traced only once, so "
      "it must run to its end; skip work with sc::when, or loop with sc::loop_while")));
}

void Range::start() {
  State &state = *state_;
  if (state.phase != State::Phase::made)
    detail::fail(state.where, "a range is looped over once: write sc::range in the for statement");
  detail::Trace &trace = *state.trace;
  state.exceptions = std::uncaught_exceptions();
  trace.open(state.frame, state.where);
  state.phase = State::Phase::running;
  state.enterBody();
}

void Range::State::enterBody() {
  Block &body = frame.region->back();
  trace->builder.setInsertionPointToEnd(&body);
  body.addArgument(begin.getType(), trace->location(where));
  trace->enterLoopBlock(frame, &body);
}

// The loop that the user wrote goes round once more.
void Range::State::repeat() {
  afterFirst = detail::valuesNow(*trace, frame);
  Block &body = frame.region->front();
  trace->restore(frame);
  detail::OutsideOf outside;
  outside.inside(&body);
  trace->sweep(frame, [&](mlir::Value value) { return outside(value); });
  frame.region->emplaceBlock();
  isRepeating = true;
  ++trace->repeats;
  enterBody();
}

void Range::State::compareTraces() {
  --trace->repeats;
  isRepeating = false;
  Block &first = frame.region->front(), &second = frame.region->back();
  detail::SameCode same;
  const bool isSame =
      same.compare(first, second) && same.compare(afterFirst, detail::valuesNow(*trace, frame));
  detail::noteTraces(*trace, isSame, same, where, "this loop");
  trace->resume(frame, afterFirst, {&second});
  trace->builder.setInsertionPointToEnd(&first);
}

Int Range::index() const {
  detail::Trace &trace = *state_->trace;
  return Int(trace.wrap(state_->frame.region->back().getArgument(0)));
}

bool Range::running() const { return state_->phase == State::Phase::running; }

void Range::finish() {
  State &state = *state_;
  detail::Trace &trace = *state.trace;
  trace.rethrowPoison();
  if (trace.tracesTwice())
    return state.repeat();
  if (state.isRepeating)
    state.compareTraces();
  detail::Trace::Frame &frame = state.frame;
  OpBuilder &builder = trace.builder;
  mlir::Location loc = trace.location(state.where);
  Block &body = frame.region->front();

  SmallVector<mlir::Value> inits, yields;
  SmallVector<std::pair<mlir::Value, mlir::Value>> folded;
  SmallVector<detail::LoopVariable> variables;
  unsigned next = 1; // after the induction variable
  for (auto [entry, now] : llvm::zip(frame.entries, detail::valuesNow(trace, frame))) {
    if (!entry.before)
      continue;
    mlir::Value argument = body.getArgument(next++);
    if (!now || now == argument) {
      folded.push_back({argument, entry.before});
      continue;
    }
    detail::checkSame(entry.before.getType(), now, "loop", state.where);
    variables.push_back({&entry, argument, now});
    inits.push_back(entry.before);
    yields.push_back(now);
  }
  scf::YieldOp::create(builder, loc, yields);

  builder.restoreInsertionPoint(frame.outside);
  auto loop = scf::ForOp::create(builder, loc, state.begin, state.end, state.step, inits,
                                 [](OpBuilder &, mlir::Location, mlir::Value, ValueRange) {});
  if (state.options.stages)
    loop->setAttr("cta.stages", builder.getI32IntegerAttr(state.options.stages));
  if (state.options.unroll)
    loop->setAttr("cta.unroll", builder.getI32IntegerAttr(state.options.unroll));
  if (state.options.flatten)
    loop->setAttr("cta.flatten", builder.getUnitAttr());
  if (state.options.warp_specialize)
    loop->setAttr("cta.warp_specialize", builder.getBoolAttr(*state.options.warp_specialize));
  if (state.options.disallow_acc_multi_buffer)
    loop->setAttr("cta.one_accumulator", builder.getUnitAttr());
  detail::OutsideOf outside;
  outside.inside(&body);
  outside.inside(loop.getBody());
  for (auto [argument, before] : folded)
    outside.folded(argument, before);
  folded.push_back({body.getArgument(0), loop.getInductionVar()});
  for (auto [variable, argument] : llvm::zip(variables, loop.getRegionIterArgs()))
    folded.push_back({variable.argument, argument});
  // Captured values first: a handle may hold an argument that is about to be replaced.
  detail::moveBody(body, loop.getBody(), folded);
  for (detail::Trace::Frame::Entry &entry : frame.entries)
    if (entry.handle) {
      if (mlir::Value now = trace.valueOf(entry); now && !entry.before)
        trace.escape(entry, state.where);
      else if (now)
        trace.assign(entry, entry.before);
    }
  for (auto [variable, result] : llvm::zip(variables, loop.getResults()))
    trace.assign(*variable.entry, result);
  state.phase = State::Phase::finished;
  trace.close(frame, [&](mlir::Value value) { return outside(value); });
}

StaticRange static_range(detail::Extent begin, detail::Extent end, detail::Extent step) {
  if (step.number == 0)
    detail::fail(step.where, "sc::static_range has a step of 0: it would never end");
  return {begin.number, end.number, step.number};
}

StaticRange static_range(detail::Extent end) { return static_range(0, end); }

} // namespace sectile
