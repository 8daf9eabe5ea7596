// Traces: the handles that are alive, the frames that are open.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include "mlir/IR/Location.h"

using namespace mlir;

namespace sectile::detail {

static thread_local Trace *running = nullptr;

void fail(Location where, const llvm::Twine &message) {
  throw CompileError(where.file_name(), where.line(), message.str());
}

//===-- Handles
//-----------------------------------------------------------------------------------===//

Value::Value() noexcept {
  if (running)
    running->link(*this);
}

Value::Value(const Value &other) noexcept : ir_(other.ir_), state_(other.state_) {
  if (other.trace_)
    other.trace_->link(*this);
}

Value &Value::operator=(const Value &other) noexcept {
  if (trace_ != other.trace_) {
    if (trace_)
      trace_->unlink(*this);
    if (other.trace_)
      other.trace_->link(*this);
  }
  ir_ = other.ir_;
  state_ = other.state_;
  return *this;
}

Value::~Value() {
  if (trace_)
    trace_->unlink(*this);
}

void Trace::link(Value &value) {
  value.trace_ = this;
  value.previous_ = last;
  value.next_ = nullptr;
  value.depth_ = frames.size();
  (last ? last->next_ : first) = &value;
  last = &value;
}

void Trace::unlink(Value &value) {
  (value.previous_ ? value.previous_->next_ : first) = value.next_;
  (value.next_ ? value.next_->previous_ : last) = value.previous_;
  value.trace_ = nullptr;
  // Only frames opened during the handle's life have it in their snapshot.
  for (size_t i = value.depth_; i < frames.size(); ++i)
    for (Frame::Entry &entry : frames[i]->entries)
      if (entry.handle == &value)
        entry.handle = nullptr;
}

//===-- The trace
//---------------------------------------------------------------------------------===//

Trace::Trace(MLIRContext *context, TracedFunctions *functions)
    : builder(context), functions(functions), outer(running) {
  running = this;
}

Trace::~Trace() {
  for (Value *value = first; value;) {
    Value *next = value->next_;
    value->state_ = Value::State::ended;
    value->ir_ = nullptr;
    value->trace_ = nullptr;
    value = next;
  }
  running = outer;
}

Trace *Trace::currentOrNull() { return running; }

Trace &Trace::current(Location where) {
  if (!running)
    fail(where,
         "this is an operation of a kernel, and no kernel is being traced here: call it in the "
         "kernel's lambda");
  running->rethrowPoison();
  return *running;
}

void Trace::poison(std::exception_ptr newFault) {
  if (!fault)
    fault = newFault;
}

void Trace::rethrowPoison() const {
  if (fault)
    std::rethrow_exception(fault);
}

mlir::Location Trace::location(Location where) {
  return FileLineColLoc::get(builder.getContext(), where.file_name(), where.line(), where.column());
}

Value Trace::wrap(mlir::Value value) {
  Value handle;
  handle.ir_ = value.getAsOpaquePointer();
  handle.state_ = Value::State::live;
  return handle;
}

mlir::Value Trace::get(const Value &handle, Location where) {
  switch (handle.state_) {
  case Value::State::empty:
    fail(where,
         "this value is used before anything is assigned to it: give it a value first, as in "
         "sc::Tile<float> x = sc::zeros<float>(64)");
  case Value::State::escaped:
    if (functions)
      functions->usesEscaped = true;
    fail(where,
         "this value was assigned inside the loop or branch at " +
             describe(mlir::Location::getFromOpaquePointer(handle.ir_)) +
             " and is used after it, but it had no value before: assign one before the loop or "
             "branch (sc::zeros, sc::full, a number), so that it is carried out of it");
  case Value::State::ended:
    fail(where,
         "this traced value belongs to a kernel or a function whose trace has ended: a value lives "
         "only in the call of the lambda that made it; pass it as an argument, or return it");
  case Value::State::live:
    break;
  }
  if (handle.trace_ != this)
    fail(where,
         functions && !functions->open.empty()
             ? "this traced value belongs to the caller of this function: pass it as an argument, "
               "and return what the function changes"
             : "this traced value belongs to another kernel, which is still being traced: pass it "
               "as an argument of the kernel instead");
  return mlir::Value::getFromOpaquePointer(handle.ir_);
}

//===-- Frames
//------------------------------------------------------------------------------------===//

void Trace::open(Frame &frame, Location where) {
  frame.where = where;
  frame.outside = builder.saveInsertionPoint();
  for (Value *value = first; value; value = value->next_)
    frame.entries.push_back({value, value->state_ == Value::State::live
                                        ? mlir::Value::getFromOpaquePointer(value->ir_)
                                        : mlir::Value()});
  frames.push_back(&frame);
  builder.setInsertionPointToEnd(&frame.region->emplaceBlock());
}

void Trace::enterLoopBlock(Frame &frame, Block *block) {
  mlir::Location loc = location(frame.where);
  for (Frame::Entry &entry : frame.entries)
    if (entry.before) {
      mlir::Value argument = block->addArgument(entry.before.getType(), loc);
      if (entry.handle)
        assign(entry, argument);
    }
}

void Trace::restore(Frame &frame) {
  for (Frame::Entry &entry : frame.entries)
    if (entry.handle) {
      if (entry.before)
        assign(entry, entry.before);
      else if (entry.handle->state_ == Value::State::live)
        entry.handle->state_ = Value::State::empty;
    }
}

mlir::Value Trace::valueOf(const Frame::Entry &entry) const {
  if (!entry.handle || entry.handle->state_ != Value::State::live || entry.handle->trace_ != this)
    return {};
  return mlir::Value::getFromOpaquePointer(entry.handle->ir_);
}

void Trace::assign(Frame::Entry &entry, mlir::Value value) {
  entry.handle->ir_ = value.getAsOpaquePointer();
  entry.handle->state_ = Value::State::live;
}

void Trace::escape(Frame::Entry &entry, Location where) {
  entry.handle->ir_ = const_cast<void *>(location(where).getAsOpaquePointer());
  entry.handle->state_ = Value::State::escaped;
}

void Trace::sweep(Frame &frame, llvm::function_ref<mlir::Value(mlir::Value)> outside) {
  for (Value *value = first; value; value = value->next_)
    if (value->depth_ >= frames.size() && value->state_ == Value::State::live) {
      Frame::Entry entry{value, {}};
      if (mlir::Value kept = outside(valueOf(entry)))
        assign(entry, kept);
      else
        escape(entry, frame.where);
    }
}

void Trace::resume(Frame &frame, llvm::ArrayRef<mlir::Value> values,
                   llvm::ArrayRef<Block *> repeated) {
  sweep(frame, [&](mlir::Value value) {
    return llvm::is_contained(repeated, value.getParentBlock()) ? mlir::Value() : value;
  });
  restore(frame);
  for (auto [entry, value] : llvm::zip_equal(frame.entries, values))
    if (entry.handle && value)
      assign(entry, value);
  for (Block *block : repeated)
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block))) {
      op.dropAllUses();
      op.erase();
    }
  for (Block *block : repeated)
    block->erase();
}

void Trace::close(Frame &frame, llvm::function_ref<mlir::Value(mlir::Value)> outside) {
  assert(frames.back() == &frame && "frames nest");
  sweep(frame, outside);
  frames.pop_back();
  for (Value *value = first; value; value = value->next_)
    value->depth_ = std::min<uint32_t>(value->depth_, frames.size());
  builder.restoreInsertionPoint(frame.outside);
}

void Trace::abandon(Frame &frame) {
  // Inner frames, abandoned already where they were open, come off with this one.
  while (frames.back() != &frame)
    frames.pop_back();
  frames.pop_back();
  builder.restoreInsertionPoint(frame.outside);
  // Handles may still point into it: it lives as long as the trace.
  abandoned.push_back(std::move(frame.region));
  for (Value *value = first; value; value = value->next_)
    value->depth_ = std::min<uint32_t>(value->depth_, frames.size());
}

} // namespace sectile::detail
