// Seeds from the lit tests and the kernels, also as the pipeline leaves them after each pass.
#include "tests/fuzz/ir/Seeds.h"
#include "ir/Target.h"
#include "ir/cta/Cta.h"
#include "kernels/calls/Emit.h"
#include "kernels/registry/Registry.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

namespace sectile::fuzz {

namespace {

/// Keeps the module as it is after each pass.
class Keep : public PassInstrumentation {
public:
  Keep(std::vector<Seed> &seeds, std::string name) : seeds(seeds), name(std::move(name)) {}
  void runAfterPass(Pass *pass, Operation *op) override {
    if (pass->getArgument().empty())
      return;
    while (op->getParentOp())
      op = op->getParentOp();
    std::string text;
    llvm::raw_string_ostream(text) << *op;
    if (seeds.empty() || seeds.back().text != text)
      seeds.push_back({name + " after " + pass->getArgument().str(), text});
  }

private:
  std::vector<Seed> &seeds;
  std::string name;
};

void add(MLIRContext &context, std::string name, StringRef text, std::vector<Seed> &seeds) {
  seeds.push_back({name, text.str()});
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return;
  std::string generic;
  llvm::raw_string_ostream stream(generic);
  module->print(stream, OpPrintingFlags().printGenericOpForm());
  seeds.push_back({name + " in generic form", generic});
  auto target = (*module)->getAttrOfType<StringAttr>(cta::targetAttr);
  if (!target)
    (*module)->setAttr(cta::targetAttr, StringAttr::get(&context, "sm_80"));
  PassManager manager(&context);
  buildPipeline(manager, Stage::Cta);
  manager.addInstrumentation(std::make_unique<Keep>(seeds, name));
  (void)manager.run(*module);
}

std::string readFile(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  return file ? (*file)->getBuffer().str() : std::string();
}

} // namespace

std::vector<Seed> collectSeeds(MLIRContext &context, llvm::StringRef litFolder) {
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  std::vector<Seed> seeds;
  std::vector<std::string> files;
  std::error_code error;
  for (llvm::sys::fs::recursive_directory_iterator file(litFolder, error), end;
       file != end && !error; file.increment(error))
    if (StringRef(file->path()).ends_with(".mlir"))
      files.push_back(file->path());
  llvm::sort(files);
  for (const std::string &file : files) {
    std::string text = readFile(file);
    llvm::SmallVector<StringRef> parts;
    StringRef(text).split(parts, StringRef(text).contains("//--- ") ? "//--- " : "// -----");
    std::string name = StringRef(file).drop_front(litFolder.size()).ltrim('/').str();
    for (auto [i, part] : llvm::enumerate(parts)) {
      // What is behind a separator on its line is a file's name.
      StringRef content = i ? part.drop_front(std::min(part.find('\n'), part.size())) : part;
      if (!content.trim().empty())
        add(context, name + " #" + std::to_string(i), content, seeds);
    }
  }
  for (const KernelSpec &kernel : kernelRegistry()) {
    Invocation call = resolveTypical(kernel, "", {}, {});
    for (const auto &[name, code] :
         emitKernel(call, completeConfig(call, "sm_80", {}), "sm_80", "tile"))
      add(context, "kernel " + name, code, seeds);
  }
  return seeds;
}

} // namespace sectile::fuzz
