// Variables of the host that bodies change. A body is traced once, so `++n` on a C++ int happens
// once, however often its loop runs, and whether its branch is taken or not.
//
// Two more traces find what changes the code's numbers, or the values that it uses. One traces the
// bodies of loops and functions twice: each has to build the same code again, and so has all that
// follows. The other leaves the bodies of branches out: what follows has to stay as it is. C++
// would do the same with real loops and branches, so a body that changes nothing but traced values
// passes.
//
// A kernel whose operations the host draws at random would not pass: it says so, by
// trust_host_variables(). Nor would one whose channels have other uses in flight in each iteration;
// the check of channels tells more of that, so other operations are not judged beside channels.
#include "dsl/SameCode.h"
#include "dsl/Trace.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace sectile::detail {

void noteTraces(Trace &trace, bool isSame, const SameCode &compared, Location where,
                StringRef what) {
  TracedFunctions &functions = *trace.functions;
  functions.isNotJudged |= !isSame && functions.hasChannels;
  if ((!isSame || compared.otherNumbers) && !functions.hostVariable)
    functions.hostVariable.emplace(
        where.file_name(), where.line(),
        "the body of " + what.str() +
            " builds other code when it is traced again: it changes a C++ variable that it "
            "depends on, and as a body is traced once, the variable changes once, not in "
            "each iteration; make it a traced value, as in sc::Int n = 0");
  if (isSame && compared.otherValues && !functions.otherVariables)
    functions.otherVariables.emplace(
        where.file_name(), where.line(),
        "the body of " + what.str() +
            " uses other variables when it is traced again: it changes a C++ pointer, index or "
            "container that it finds them by, and as a body is traced once, that happens once, "
            "not in each iteration; exchange the traced values, as in std::swap(*a, *b)");
}

static func::FuncOp kernelOf(ModuleOp module) {
  return *llvm::find_if(module.getOps<func::FuncOp>(),
                        [](func::FuncOp function) { return !function.isPrivate(); });
}

/// Throws at the first operation that differs.
static void compareKernels(const TracedFunctions &functions, ModuleOp traced, ModuleOp other,
                           Location where, const Twine &message) {
  if (functions.isNotJudged)
    return;
  if (functions.otherVariables)
    throw *functions.otherVariables;
  if (functions.hostVariable)
    throw *functions.hostVariable;
  SameCode same;
  const bool isSame = same.compare(kernelOf(traced).getBody(), kernelOf(other).getBody());
  if (!isSame && functions.hasChannels)
    return;
  Operation *culprit = same.otherNumbers    ? same.otherNumbers
                       : same.otherOperands ? same.otherOperands
                                            : same.otherOperation;
  if (isSame && !culprit)
    return;
  if (auto line = culprit ? culprit->getLoc()->findInstanceOf<FileLineColLoc>() : FileLineColLoc())
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
    // A variable of the host may keep a tile from one trace of a body to the next.
    if (functions.usesEscaped || functions.isNotJudged)
      return {};
    if (functions.hostVariable)
      throw *functions.hostVariable;
    if (functions.otherVariables)
      throw *functions.otherVariables;
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
  compareKernels(twice, traced, *repeated, kernel.where,
                 "this line depends on a C++ variable that the body of a loop before it changes: "
                 "a body is traced once, so the variable changes once, however often the loop "
                 "runs; make it a traced value, as in sc::Int n = 0");
  if (twice.branches.empty() || twice.isNotJudged)
    return;

  TracedFunctions without;
  without.longAxis = longAxis;
  without.bodies = Bodies::LeftOut;
  without.branches = std::move(twice.branches);
  without.traced = std::move(twice.traced);
  if (auto outside = traceOtherwise(without, kernel, specializations, config, context))
    compareKernels(without, *repeated, *outside, kernel.where,
                   "this line depends on a C++ variable that the body of a sc::when before it "
                   "changes: a body is always traced, so the variable changes whether the "
                   "condition holds or not; make it a traced value, as in sc::Bool flag = false");
}

} // namespace sectile::detail
