// Calls of sc::Function: each is traced into a function of the module the first time, in a trace of
// its own, so that it cannot see the values of its caller.
#include "dsl/SameCode.h"
#include "dsl/Trace.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/ScopeExit.h"
#include <atomic>
#include <sectile/function.h>

using namespace mlir;

namespace sectile::detail {

std::uint64_t newFunctionId() {
  static std::atomic<std::uint64_t> count = 0;
  return ++count;
}

static std::string lineText(Location where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

std::string messageOf(const CompileError &error) {
  std::string line =
      error.file().empty() ? "" : error.file() + ":" + std::to_string(error.line()) + ": ";
  return error.what() + line.size();
}

/// Traces the body into a new function at the end of the module.
static func::FuncOp traceFunction(TracedFunctions &functions, unsigned indexWidth,
                                  const FunctionDesc &function, ArrayRef<mlir::Type> types,
                                  const FunctionBody &body, size_t resultCount) {
  OpBuilder builder = OpBuilder::atBlockEnd(functions.module.getBody());
  // MLIR prints no symbol without a name.
  const std::string base = function.name.empty() ? "unnamed" : function.name;
  std::string name = base;
  for (unsigned i = 1; functions.module.lookupSymbol(name); ++i)
    name = base + "_" + std::to_string(i);
  mlir::Location loc = FileLineColLoc::get(builder.getContext(), function.where.file_name(),
                                           function.where.line(), function.where.column());
  auto made = func::FuncOp::create(builder, loc, name, builder.getFunctionType(types, {}));
  made.setPrivate();
  llvm::scope_exit undo([&] { made.erase(); });

  Trace trace(builder.getContext(), &functions);
  trace.indexWidth = indexWidth;
  Block *entry = made.addEntryBlock();
  trace.builder.setInsertionPointToEnd(entry);
  SmallVector<void *> values;
  for (mlir::Value argument : entry->getArguments())
    values.push_back(argument.getAsOpaquePointer());
  std::vector<Value> out(resultCount);
  body.call(body.object, TraceArguments(trace, values.data()), out.data());
  trace.rethrowPoison();
  SmallVector<mlir::Value> results;
  for (const Value &value : out)
    results.push_back(trace.get(value, function.where));
  func::ReturnOp::create(trace.builder, loc, results);
  made.setFunctionType(builder.getFunctionType(types, ValueRange(results).getTypes()));
  undo.release();
  return made;
}

void callFunction(const FunctionDesc &function, std::span<const Value *const> arguments,
                  std::span<const std::uint64_t> constants, const FunctionBody &body,
                  std::span<Value> results, Location where) {
  Trace &trace = Trace::current(where);
  TracedFunctions &functions = *trace.functions;
  functions.stateless &= function.stateless;
  SmallVector<mlir::Value> values;
  for (const Value *argument : arguments)
    values.push_back(trace.get(*argument, where));
  TracedFunctions::Key key{function.id, {}, {constants.begin(), constants.end()}};
  for (mlir::Value value : values)
    key.types.push_back(value.getType().getAsOpaquePointer());
  // An Int is as wide as the kernel's wherever a function makes one, so the width is no part of it.
  auto known = functions.traced.find(key);
  if (known == functions.traced.end()) {
    if (llvm::is_contained(functions.open, function.id))
      fail(where, "the function '" + Twine(function.name) + "' at " + lineText(function.where) +
                      " calls itself: a kernel has no stack to recurse on; loop with sc::range or "
                      "sc::loop_while, or unroll with a plain C++ function");
    functions.open.push_back(function.id);
    llvm::scope_exit leave([&] { functions.open.pop_back(); });
    try {
      SmallVector<mlir::Type> types(ValueRange(values).getTypes());
      auto traceIt = [&] {
        return traceFunction(functions, trace.indexWidth, function, types, body, results.size());
      };
      func::FuncOp made = traceIt();
      if (trace.tracesTwice()) {
        func::FuncOp again = traceIt();
        SameCode same;
        const bool isSame = same.compare(made.getBody(), again.getBody());
        noteTraces(trace, isSame, same, function.where, "this function");
        again.erase();
      }
      known = functions.traced.emplace(std::move(key), made.getOperation()).first;
    } catch (const CompileError &error) {
      throw CompileError(error.file(), error.line(),
                         messageOf(error) + "; in the function '" + function.name + "' of " +
                             lineText(function.where) + ", called at " + lineText(where));
    }
  }
  auto call = func::CallOp::create(trace.builder, trace.location(where),
                                   cast<func::FuncOp>(known->second), values);
  for (auto [result, value] : llvm::zip_equal(results, call.getResults()))
    result = trace.wrap(value);
}

} // namespace sectile::detail
