// CodeAccess: what the compiler says of a kept launch, beside the code that it runs.
#ifndef SECTILE_JIT_CODEACCESS_H
#define SECTILE_JIT_CODEACCESS_H

#include "codegen/Compiler.h"
#include "jit/CacheEntry.h"
#include "runtime/Bundle.h"
#include "runtime/LaunchAccess.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace sectile::runtime {

struct CodeAccess {
  /// Hash of the kernel's IR, of whatever arguments, without source lines.
  static std::string hash(const detail::BoundLaunch &launch, const Device &device);
  static std::string hash(const detail::BoundLaunch &launch, const Chip &chip);
  /// Under which the compile cache keeps what it runs.
  static CacheKey cacheKey(const detail::BoundLaunch &launch, const Device &device);
  /// Its code in this form ("ptx"). Throws CompileError.
  static std::string emit(const detail::BoundLaunch &launch, std::string_view target,
                          std::string_view form);
  /// The same as a bundle keeps it, for a device with this chip or for its virtual device, and what
  /// it is for.
  static std::pair<BundleKey, Artifact> bundled(const detail::BoundLaunch &launch, const Chip &chip,
                                                bool forVirtualDevice);
  /// Traces the kernel as for this chip, and hands the module to `use`, which may change it.
  static void trace(const detail::BoundLaunch &launch, const Chip &chip,
                    llvm::function_ref<void(mlir::ModuleOp)> use);
};

} // namespace sectile::runtime

#endif
