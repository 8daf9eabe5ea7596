// Where the code of launches comes from in a program that has the compiler.
#ifndef SECTILE_JIT_CODESOURCE_H
#define SECTILE_JIT_CODESOURCE_H

#include "codegen/Compiler.h"
#include "runtime/CompilerLink.h"

namespace sectile::runtime {

/// A device that has a compiler of its own.
class CompilesItself {
public:
  virtual ~CompilesItself() = default;
  /// Compiles what was traced; the module is changed.
  virtual llvm::Expected<Artifact> compile(mlir::ModuleOp module, const CompileOptions &options,
                                           CompileTimes *times) const = 0;
};

/// Compiles what was traced for a device; the module is changed.
llvm::Expected<Artifact> compileFor(const DeviceImpl &device, mlir::ModuleOp module,
                                    const CompileOptions &options, CompileTimes *times = nullptr);

/// The code that a launch needs, compiled unless the cache has it.
std::shared_ptr<const Artifact> compiledCode(const CodeRequest &request);

/// The code of a launch on a virtual device, for those of any machine.
std::shared_ptr<const Artifact> codeForBundle(const CodeRequest &request);

} // namespace sectile::runtime

#endif
