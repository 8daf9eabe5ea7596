// Functions of bitcode libraries compiled for this host, for the interpreter to call.
#ifndef SECTILE_CODEGEN_VIRTUAL_HOSTLIBRARIES_H
#define SECTILE_CODEGEN_VIRTUAL_HOSTLIBRARIES_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace sectile::vgpu {

class HostLibraries {
public:
  /// Takes the bits of the arguments, gives those of the result.
  using Function = void (*)(const uint64_t *arguments, uint64_t *result);

  /// Every function that the module calls; nothing where it calls none. KernelError where a library
  /// is not what the kernel says.
  static llvm::Expected<std::unique_ptr<HostLibraries>> compile(mlir::ModuleOp module);
  ~HostLibraries();

  /// Of a `tile.extern_call`.
  Function function(mlir::Operation &call) const;

private:
  HostLibraries();
  std::unique_ptr<llvm::orc::LLJIT> jit;
  llvm::StringMap<Function> functions;
};

} // namespace sectile::vgpu

#endif
