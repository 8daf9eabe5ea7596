// IR after every pass, as the environment variable SECTILE_DUMP asks.
#include "passes/Dump.h"
#include "ir/cta/Cta.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "runtime/Symbol.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

using namespace mlir;

namespace sectile {

namespace {

/// What the files of one compilation begin with: kernel and target.
std::string stemOf(ModuleOp module) {
  std::string stem;
  for (func::FuncOp func : module.getOps<func::FuncOp>())
    if (func->hasAttr(tile::kernelAttr)) {
      stem = symbolOf(func.getName()) + ".";
      break;
    }
  if (auto target = module->getAttrOfType<StringAttr>(cta::targetAttr))
    stem += target.getValue().str() + ".";
  return stem;
}

struct DumpAfterPasses : PassInstrumentation {
  DumpAfterPasses(ModuleOp module, StringRef where)
      : module(module), where(where), stem(stemOf(module)) {}

  void runAfterPass(Pass *pass, Operation *) override { dump(pass, ""); }
  void runAfterPassFailed(Pass *pass, Operation *) override { dump(pass, "-failed"); }

  void dump(Pass *pass, StringRef suffix) {
    // Adaptors only run other passes.
    if (pass->getArgument().empty())
      return;
    std::string name =
        llvm::formatv("{0}{1,0+2}-{2}{3}", stem, ++count, pass->getArgument(), suffix);
    OpPrintingFlags flags;
    flags.enableDebugInfo(false);
    if (where == "stderr") {
      llvm::errs() << "// " << name << "\n";
      module.print(llvm::errs(), flags);
      return;
    }
    SmallString<128> path(where);
    llvm::sys::path::append(path, name + ".mlir");
    std::error_code error = llvm::sys::fs::create_directories(where);
    if (!error) {
      llvm::raw_fd_ostream file(path, error);
      if (!error)
        module.print(file, flags);
    }
    if (error)
      llvm::errs() << "SECTILE_DUMP: cannot write " << path << ": " << error.message() << "\n";
  }

  ModuleOp module;
  std::string where, stem;
  unsigned count = 0;
};

} // namespace

void dumpIfAsked(PassManager &manager, ModuleOp module) {
  const char *where = std::getenv("SECTILE_DUMP");
  if (!where || !*where)
    return;
  // A pass on one function must not change the module while another's is printed.
  manager.getContext()->disableMultithreading();
  manager.addInstrumentation(std::make_unique<DumpAfterPasses>(module, where));
}

} // namespace sectile
