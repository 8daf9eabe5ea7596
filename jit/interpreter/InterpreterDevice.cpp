// The interpreter as a device: kernels come as bytecode of `tile` IR, with its locations.
#include "jit/interpreter/InterpreterDevice.h"
#include "codegen/KernelError.h"
#include "ir/tile/Tile.h"
#include "jit/interpreter/Watching.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/RegionUtils.h"
#include "passes/checks/Check.h"
#include <cstring>

using namespace mlir;

namespace sectile::runtime {
namespace {

class InterpretedKernel : public LoadedKernel {
public:
  explicit InterpretedKernel(const Artifact &artifact)
      : LoadedKernel(artifact), module(parse(artifact)), program(*module) {}

  /// A context of its own: other kernels change theirs while this one runs.
  ContextLease context;
  OwningOpRef<ModuleOp> module;
  interpreter::Program program;

private:
  OwningOpRef<ModuleOp> parse(const Artifact &artifact) {
    OwningOpRef<ModuleOp> parsed;
    if (artifact.kind == "interpreter")
      parsed = parseSourceString<ModuleOp>(artifact.bytes, context.get());
    if (!parsed)
      throw DeviceError("interpreter: cannot load kernel '" + artifact.entry +
                        "': its code is of the kind '" + artifact.kind + "'");
    return parsed;
  }
};

} // namespace

/// What no chip takes is refused here too, in the same words: tiles that the threads of a block
/// cannot share out, whether a warp has 32 or 64.
static llvm::Error checkTiles(ModuleOp module, unsigned warps) {
  llvm::Error refusal = llvm::Error::success();
  auto fits = [&](ModuleOp checked, unsigned warpSize) {
    std::optional<KernelError> first;
    ScopedDiagnosticHandler collect(checked.getContext(), [&](Diagnostic &diagnostic) {
      auto line = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>();
      if (!first)
        first.emplace(KernelError::Kind::Kernel, line ? line.getFilename().str() : "",
                      line ? line.getLine() : 0, diagnostic.str());
      return success();
    });
    for (auto function : checked.getOps<func::FuncOp>())
      if (failed(checkPartitions(function)) || failed(checkExtents(function, warps, warpSize)))
        break;
    llvm::consumeError(std::move(refusal));
    refusal = first ? llvm::make_error<KernelError>(*first) : llvm::Error::success();
    return !first;
  };
  auto fitsEither = [&](ModuleOp checked) { return fits(checked, 64) || fits(checked, 32); };
  if (!fitsEither(module)) {
    // A tile that nothing needs is not compiled.
    OwningOpRef<ModuleOp> needed = module.clone();
    IRRewriter rewriter(module.getContext());
    (void)runRegionDCE(rewriter, needed->getOperation()->getRegions());
    fitsEither(*needed);
  }
  return refusal;
}

InterpreterDevice::InterpreterDevice() {
  name = description = target = "interpreter";
  dlpackDevice = 1;
  limits.max_grid[1] = limits.max_grid[2] = limits.max_grid[0];
}

llvm::Expected<Artifact> InterpreterDevice::compile(ModuleOp module, const CompileOptions &options,
                                                    CompileTimes *) const {
  if (!options.debug)
    module.walk([](Operation *op) {
      if (isa<tile::AssertOp, tile::PrintOp>(op))
        op->erase();
    });
  if (llvm::Error refusal = checkTiles(module, options.warps))
    return refusal;
  if (auto libraries = vgpu::HostLibraries::compile(module); !libraries)
    return libraries.takeError();
  interpreter::Program program(module);
  if (program.problem())
    return llvm::createStringError(*program.problem());
  Artifact artifact;
  artifact.target = target;
  artifact.kind = "interpreter";
  artifact.entry = program.name();
  artifact.plan.threads = 1;
  llvm::raw_string_ostream out(artifact.bytes);
  if (failed(writeBytecodeToFile(module, out)))
    return llvm::createStringError("the kernel's trace cannot be written");
  return artifact;
}

std::shared_ptr<LoadedKernel> InterpreterDevice::load(const Artifact &artifact) {
  return std::make_shared<InterpretedKernel>(artifact);
}

size_t InterpreterDevice::argumentCount(const LoadedKernel &kernel) const {
  return static_cast<const InterpretedKernel &>(kernel).program.argumentCount();
}

void InterpreterDevice::run(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
                            void *stream) {
  std::vector<uint64_t> words(argumentCount(kernel));
  for (size_t i = 0; i < words.size(); ++i)
    std::memcpy(&words[i], arguments[i], sizeof(uint64_t));
  interpreter::Options options;
  interpreter::watchAsAsked(options);
  interpreter::Outcome outcome = static_cast<const InterpretedKernel &>(kernel).program.run(
      {grid, words, theMemory.ranges()}, options);
  if (outcome.assertion)
    debugLogs.post(stream, AssertionError(std::move(*outcome.assertion), outcome.failed - 1));
  if (outcome.finding)
    throw FoundFault(name, std::move(*outcome.finding));
}

std::shared_ptr<DeviceImpl> openInterpreterDevice() {
  return std::make_shared<InterpreterDevice>();
}

} // namespace sectile::runtime
