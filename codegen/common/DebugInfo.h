// Line tables from MLIR locations, so that profilers and sanitizers point at the kernel's lines.
#ifndef SECTILE_CODEGEN_COMMON_DEBUGINFO_H
#define SECTILE_CODEGEN_COMMON_DEBUGINFO_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/DIBuilder.h"
#include "llvm/IR/Function.h"

namespace sectile {

/// The file and line that a location names, if it names one.
mlir::FileLineColLoc lineOf(mlir::Location location);

class KernelDebugInfo {
public:
  explicit KernelDebugInfo(llvm::Module &module) : builder(module) {}

  /// Describes the kernel; without a line of its own it gets no line table.
  void begin(llvm::Function &kernel, mlir::Location location,
             llvm::DICompileUnit::DebugEmissionKind kind);
  llvm::DebugLoc at(mlir::Location location);
  void finish();

private:
  llvm::DIFile *file(llvm::StringRef path);

  llvm::DIBuilder builder;
  llvm::DISubprogram *subprogram = nullptr;
  llvm::DenseMap<mlir::StringAttr, llvm::DIScope *> scopes; ///< by file name
  llvm::DenseMap<mlir::Location, llvm::DebugLoc> locations;
};

} // namespace sectile

#endif
