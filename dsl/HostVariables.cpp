// Variables of the host that bodies change. A body is traced once, so `++n` on a C++ int happens
// once, however often its loop runs, and whether its branch is taken or not.
//
// Two more traces find what changes the code. One traces the bodies of loops and functions twice:
// each has to build the same code again, and so has all that follows. The other leaves the bodies
// of branches out: what follows has to stay as it is. C++ would do the same with real loops and
// branches, so a body that changes nothing but traced values passes.
#include "dsl/SameCode.h"
#include "dsl/Trace.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace sectile::detail {

void failOfHostVariable(Trace &trace, Location where, StringRef what) {
  trace.functions->foundHostVariable = true;
  fail(where, "the body of " + what +
                  " builds other code when it is traced again: it changes a C++ variable that it "
                  "depends on, and as a body is traced once, the variable changes once, not in "
                  "each iteration; make it a traced value, as in sc::Int n = 0");
}

static func::FuncOp kernelOf(ModuleOp module) {
  return *llvm::find_if(module.getOps<func::FuncOp>(),
                        [](func::FuncOp function) { return !function.isPrivate(); });
}

/// Throws at the first operation that differs.
static void compareKernels(ModuleOp traced, ModuleOp other, Location where, const Twine &message) {
  SameCode same;
  if (same.compare(kernelOf(traced).getBody(), kernelOf(other).getBody()))
    return;
  if (same.different)
    if (auto line = same.different->getLoc()->findInstanceOf<FileLineColLoc>())
      throw CompileError(line.getFilename().str(), line.getLine(), message.str());
  fail(where, message);
}

/// Traces the kernel with bodies in another number; nothing where that says nothing.
static OwningOpRef<ModuleOp> traceOtherwise(TracedFunctions &functions, const KernelDesc &kernel,
                                            ArrayRef<ArgSpecialization> specializations,
                                            const void *config, MLIRContext *context) {
  try {
    return traceWith(functions, kernel, specializations, config, context);
  } catch (const CompileError &error) {
    if (functions.foundHostVariable)
      throw;
    // A variable of the host may keep a tile from one trace of a body to the next.
    if (functions.usesEscaped)
      return {};
    throw CompileError(error.file(), error.line(),
                       "a body changes a C++ variable that this line depends on: a body is traced "
                       "once, and when it is traced again or left out, " +
                           messageOf(error));
  } catch (...) {
    // The kernel's own, or what the host throws at variables that no body has set.
    return {};
  }
}

void checkHostVariables(const KernelDesc &kernel, ArrayRef<ArgSpecialization> specializations,
                        const void *config, MLIRContext *context, ModuleOp traced,
                        unsigned longAxis) {
  TracedFunctions twice;
  twice.longAxis = longAxis;
  twice.bodies = Bodies::Twice;
  auto repeated = traceOtherwise(twice, kernel, specializations, config, context);
  if (!repeated)
    return;
  compareKernels(traced, *repeated, kernel.where,
                 "this line depends on a C++ variable that the body of a loop before it changes: "
                 "a body is traced once, so the variable changes once, however often the loop "
                 "runs; make it a traced value, as in sc::Int n = 0");
  if (twice.branches.empty())
    return;

  TracedFunctions without;
  without.longAxis = longAxis;
  without.bodies = Bodies::LeftOut;
  without.branches = std::move(twice.branches);
  without.traced = std::move(twice.traced);
  if (auto outside = traceOtherwise(without, kernel, specializations, config, context))
    compareKernels(*repeated, *outside, kernel.where,
                   "this line depends on a C++ variable that the body of a sc::when before it "
                   "changes: a body is always traced, so the variable changes whether the "
                   "condition holds or not; make it a traced value, as in sc::Bool flag = false");
}

} // namespace sectile::detail
