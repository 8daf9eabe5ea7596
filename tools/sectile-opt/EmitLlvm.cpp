// sectile-opt --emit-llvm: code generation alone, without the passes before it.
#include "tools/sectile-opt/EmitLlvm.h"
#include "codegen/Optimizer.h"
#include "codegen/common/Emitter.h"
#include "ir/Dialects.h"
#include "ir/cta/Cta.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"

namespace sectile {

static int fail(const llvm::Twine &message) {
  llvm::errs() << "sectile-opt: " << message << '\n';
  return 1;
}

int emitLlvmMain(int argc, char **argv) {
  llvm::StringRef stage = argv[1];
  if (argc != 3 ||
      (stage != "--emit-llvm" && stage != "--emit-optimized" && stage != "--emit-assembly"))
    return fail("use --emit-llvm, --emit-optimized or --emit-assembly, then one file");
  std::string why;
  auto file = mlir::openInputFile(argv[2], &why);
  if (!file)
    return fail(why);

  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry);
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  mlir::SourceMgrDiagnosticHandler handler(*sources, &context);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
  if (!module)
    return 1;
  auto name = (*module)->getAttrOfType<mlir::StringAttr>(cta::targetAttr);
  if (!name)
    return fail("the module has no cta.target");
  auto target = Target::get(name.getValue());
  if (!target)
    return fail(llvm::toString(target.takeError()));

  llvm::LLVMContext llvmContext;
  auto emitted = emitLLVM(*module, *target, llvmContext);
  if (mlir::failed(emitted))
    return 1;
  if (stage == "--emit-llvm") {
    llvm::outs() << **emitted;
    return 0;
  }
  auto machine = createTargetMachine(*target);
  if (!machine)
    return fail(llvm::toString(machine.takeError()));
  optimize(**emitted, **machine);
  if (stage == "--emit-optimized") {
    llvm::outs() << **emitted;
    return 0;
  }
  auto assembly = emitAssembly(**emitted, **machine);
  if (!assembly)
    return fail(llvm::toString(assembly.takeError()));
  llvm::outs() << *assembly;
  return 0;
}

} // namespace sectile
