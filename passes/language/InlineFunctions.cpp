// Puts the body of every called function where it is called, since later passes look at one kernel.
//
// MLIR's inliner does not serve: it weighs what to inline, and leaves recursion and calls without a
// body as they are. Here each call goes, or is an error at the user's line.
#include "mlir/IR/IRMapping.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"

namespace sectile {
#define GEN_PASS_DEF_INLINEFUNCTIONS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;

namespace {

class Inliner {
public:
  explicit Inliner(ModuleOp module) : symbols(module), functions(module.getOps<func::FuncOp>()) {}

  LogicalResult run() {
    for (func::FuncOp function : functions)
      if (!states.contains(function) && failed(inlineCalls(function)))
        return failure();
    for (func::FuncOp function : functions)
      if (function.isPrivate() && states[function] == State::Inlined)
        function.erase();
    return success();
  }

private:
  enum class State { Open, Done, Inlined };

  LogicalResult inlineCalls(func::FuncOp function) {
    states[function] = State::Open;
    for (func::CallOp call : sectile::allIn<func::CallOp>(function)) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (!callee || !callee.getBody().hasOneBlock())
        return call.emitError("calls '")
               << call.getCallee() << "', of which the module has no body to put here";
      auto state = states.find(callee);
      if (state != states.end() && state->second == State::Open)
        return call.emitError("calls '")
               << call.getCallee() << "' while that is being called: a kernel cannot recurse";
      if (state == states.end() && failed(inlineCalls(callee)))
        return failure();
      states[callee] = State::Inlined;
      put(callee, call);
    }
    states[function] = State::Done;
    return success();
  }

  /// A clone of the body in front of the call, which its results replace. What is wrong with an
  /// operation is then told with both lines.
  static void put(func::FuncOp callee, func::CallOp call) {
    OpBuilder builder(call);
    IRMapping mapping;
    Block &body = callee.getBody().front();
    mapping.map(body.getArguments(), call.getOperands());
    for (Operation &op : body.without_terminator()) {
      Operation *copy = builder.clone(op, mapping);
      copy->walk([&](Operation *inner) {
        inner->setLoc(CallSiteLoc::get(inner->getLoc(), call.getLoc()));
      });
    }
    for (auto [result, value] :
         llvm::zip_equal(call.getResults(), body.getTerminator()->getOperands()))
      result.replaceAllUsesWith(mapping.lookupOrDefault(value));
    call.erase();
  }

  SymbolTable symbols;
  SmallVector<func::FuncOp> functions;
  llvm::DenseMap<Operation *, State> states;
};

struct InlineFunctions : sectile::impl::InlineFunctionsBase<InlineFunctions> {
  void runOnOperation() override {
    if (failed(Inliner(getOperation()).run()))
      signalPassFailure();
  }
};

} // namespace
