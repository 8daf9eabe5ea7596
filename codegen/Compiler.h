// The compiler driver: from the tile IR that a kernel traced to, to code for a chip or for the
// virtual GPU.
#ifndef SECTILE_CODEGEN_COMPILER_H
#define SECTILE_CODEGEN_COMPILER_H

#include "codegen/KernelError.h"
#include "ir/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/Artifact.h"
#include "runtime/CompileOptions.h"
#include <string>
#include <utility>
#include <vector>

namespace sectile {

/// What code can be had as, in the order of compilation. VirtualShared is Virtual for bundles: for
/// any processor, and linked.
enum class Form { Tile, Cta, Llvm, Ptx, Cubin, Amdgcn, Hsaco, Virtual, VirtualShared };

/// "tile", "cta", "llvm", "ptx", "cubin", "amdgcn", "hsaco", "virtual" for both.
llvm::StringRef formName(Form form);
/// The form of that name for this target, or an error that lists the target's forms.
llvm::Expected<Form> formByName(llvm::StringRef name, const Target &target);

/// A context with every dialect that kernels need loaded, taken from a pool and given back at the
/// end of the lease: making one costs milliseconds, more than tracing and all passes of a small
/// kernel.
class ContextLease {
public:
  ContextLease();
  ~ContextLease();
  ContextLease(const ContextLease &) = delete;
  ContextLease &operator=(const ContextLease &) = delete;
  mlir::MLIRContext &operator*() const { return *context; }
  mlir::MLIRContext *operator->() const { return context.get(); }
  mlir::MLIRContext *get() const { return context.get(); }
  /// How many contexts this process has made.
  static unsigned created();

private:
  std::unique_ptr<mlir::MLIRContext> context;
};

/// Compiles a module with one kernel as far as `form` and gives its text or bytes. The module is
/// changed. Errors are KernelError where the kernel or the chip's limits are the cause. A failure
/// of the compiler itself writes a reproducer for sectile-opt and names it. Remarks are added to
/// `remarks`, each once.
llvm::Expected<std::string> compileTo(mlir::ModuleOp module, const Target &target,
                                      const CompileOptions &options, Form form,
                                      CompileTimes *times = nullptr,
                                      std::vector<Remark> *remarks = nullptr);

/// The lines of a traced kernel's operations, in order, by which its remarks are found again.
using OperationLines = std::vector<std::pair<std::string, unsigned>>;
OperationLines linesOf(mlir::ModuleOp traced);
/// Notes at each remark which operation it is about.
void attach(std::vector<Remark> &remarks, const OperationLines &lines);
/// The remarks with the lines that those operations come from here.
std::vector<Remark> relocated(std::vector<Remark> remarks, const OperationLines &lines);

/// What compiled code runs on.
enum class CodeFor {
  Chip,                  ///< PTX for NVIDIA's driver, a code object for AMD's
  VirtualDevice,         ///< of this process: an object for this machine's processor
  VirtualDeviceAnywhere, ///< of any process: a shared object
};

/// Compiles for a device.
llvm::Expected<Artifact> compile(mlir::ModuleOp module, const Target &target,
                                 const CompileOptions &options, CodeFor device,
                                 CompileTimes *times = nullptr);

/// What a kernel will need of the chip, before code is made for it.
struct ResourceEstimate {
  unsigned threads = 0;         ///< of one block
  unsigned sharedBytes = 0;     ///< of one block; exact
  unsigned fewestRegisters = 0; ///< of one thread: with many fewer it spills
  unsigned registers = 0;       ///< of one thread, as compilers usually make of that
  unsigned plainDots = 0;       ///< products that no matrix instruction computes
  std::string excess;           ///< why the chip cannot hold a block; empty where it can
};

/// Runs the passes until shared memory has its places, and leaves the module there. For NVIDIA's
/// chips a copy goes on to optimised LLVM IR, for its registers. Errors as those of compileTo().
llvm::Expected<ResourceEstimate> estimateResources(mlir::ModuleOp module, const Target &target,
                                                   const CompileOptions &options);

/// The linker's hash of this library's contents, as runtimeBuildId() of the runtime's.
const std::string &libraryBuildId();

/// Everything about this compiler that its output depends on: versions and builds of Sectile, and
/// of the LLVM and MLIR that are loaded. Part of cache keys.
std::string compilerVersion();

} // namespace sectile

#endif
