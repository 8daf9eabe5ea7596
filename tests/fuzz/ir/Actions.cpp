// Parsing, printing, passes and emission as sectile-opt does them.
#include "tests/fuzz/ir/Actions.h"
#include "codegen/Optimizer.h"
#include "codegen/common/Emitter.h"
#include "ir/Dialects.h"
#include "ir/Target.h"
#include "ir/cta/Cta.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "tests/fuzz/Isolation.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using llvm::StringRef;

namespace sectile::fuzz {

/// Each pass of the pipeline by itself, as the text of a pipeline.
static const std::vector<std::string> &singlePasses() {
  static const std::vector<std::string> passes = [] {
    std::string text;
    llvm::raw_string_ostream out(text);
    OpPassManager manager(ModuleOp::getOperationName());
    buildPipeline(manager, Stage::Cta);
    manager.printAsTextualPipeline(out);
    // builtin.module(pass,func.func(pass,pass))
    std::vector<std::string> result;
    auto [outer, inner] = StringRef(text).split("func.func(");
    llvm::SmallVector<StringRef> names;
    outer.split('(').second.split(names, ',', -1, /*KeepEmpty=*/false);
    for (StringRef name : names)
      result.push_back("builtin.module(" + name.str() + ")");
    names.clear();
    inner.take_until([](char c) { return c == ')'; }).split(names, ',');
    for (StringRef name : names)
      result.push_back("builtin.module(func.func(" + name.str() + "))");
    return result;
  }();
  return passes;
}

std::string Action::command(StringRef file) const {
  std::string text = "sectile-opt ";
  if (!passes.empty())
    text += "--pass-pipeline='" + passes + "' ";
  text += file;
  if (!emit.empty())
    text += (passes.empty() ? "" : " -o placed.mlir; sectile-opt") + (" --emit-" + emit) +
            (passes.empty() ? " " + file.str() : " placed.mlir");
  return text;
}

Action someAction(std::mt19937_64 &random) {
  auto pick = [&](unsigned n) { return random() % n; };
  auto emission = [&]() -> std::string {
    unsigned which = pick(30);
    return which == 0 ? "assembly" : which == 1 ? "optimized" : "llvm";
  };
  switch (pick(10)) {
  case 0:
    return {"", emission()};
  case 1:
  case 2:
  case 3:
  case 4:
    return {singlePasses()[pick(singlePasses().size())]};
  default:
    return {"builtin.module(sectile-pipeline)", pick(2) ? emission() : ""};
  }
}

namespace {

/// Says which pass made IR that does not verify of IR that does.
class VerifyAfter : public PassInstrumentation {
public:
  VerifyAfter(std::optional<std::string> &broken, std::string &said) : broken(broken), said(said) {}
  void runAfterPass(Pass *pass, Operation *op) override {
    if (broken || pass->getArgument().empty() || succeeded(verify(op)))
      return;
    broken = "the pass " + pass->getArgument().str() + " makes IR that does not verify";
    llvm::errs() << said << '\n';
  }

private:
  std::optional<std::string> &broken;
  std::string &said;
};

std::string print(ModuleOp module, bool generic) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, generic ? OpPrintingFlags().printGenericOpForm() : OpPrintingFlags());
  return text;
}

std::optional<std::string> emit(ModuleOp module, StringRef form) {
  auto name = module->getAttrOfType<StringAttr>(cta::targetAttr);
  if (!name)
    return std::nullopt;
  auto target = Target::get(name.getValue());
  if (!target) {
    llvm::consumeError(target.takeError());
    return std::nullopt;
  }
  llvm::LLVMContext context;
  auto emitted = emitLLVM(module, *target, context);
  if (failed(emitted) || form == "llvm")
    return std::nullopt;
  auto machine = createTargetMachine(*target);
  if (!machine)
    return llvm::toString(machine.takeError());
  optimize(**emitted, **machine);
  if (form == "optimized")
    return std::nullopt;
  llvm::consumeError(emitAssembly(**emitted, **machine).takeError());
  return std::nullopt;
}

} // namespace

bool isIr(StringRef text) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  return bool(parseSourceString<ModuleOp>(text, &context));
}

std::optional<std::string> perform(const Action &action, StringRef text) {
  DialectRegistry registry;
  registerDialects(registry);
  // As in sectile-opt, dialects are loaded as the text or the passes ask for them.
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    said = diagnostic.str();
    for (Diagnostic &note : diagnostic.getNotes())
      said += "; " + note.str();
    return success();
  });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return std::nullopt;
  reachedDepth();
  for (bool generic : {false, true}) {
    OwningOpRef<ModuleOp> again = parseSourceString<ModuleOp>(print(*module, generic), &context);
    if (!again) {
      llvm::errs() << said << '\n';
      return "what was printed does not parse";
    }
  }
  std::optional<std::string> broken;
  if (!action.passes.empty()) {
    auto manager = parsePassPipeline(action.passes);
    if (failed(manager))
      return "no such pipeline: " + action.passes;
    PassManager passes(&context);
    passes.enableVerifier(false);
    static_cast<OpPassManager &>(passes) = std::move(*manager);
    passes.addInstrumentation(std::make_unique<VerifyAfter>(broken, said));
    bool done = succeeded(passes.run(*module));
    if (broken || !done)
      return broken;
    (void)print(*module, false);
  }
  return action.emit.empty() ? std::nullopt : emit(*module, action.emit);
}

} // namespace sectile::fuzz
