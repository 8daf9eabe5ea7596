// Whether two traces built the same code.
#ifndef SECTILE_DSL_SAMECODE_H
#define SECTILE_DSL_SAMECODE_H

#include "dsl/Trace.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Region.h"
#include "llvm/ADT/DenseMap.h"

namespace sectile::detail {

/// What stands for a branch whose body a trace left out: only its operands and results count.
constexpr const char *bodyLeftOut = "sectile.body_left_out";

/// Compares operations in order. Values from outside of what is compared are the same ones in both.
class SameCode {
public:
  bool compare(mlir::Region &a, mlir::Region &b);
  bool compare(mlir::Block &a, mlir::Block &b);
  bool compare(mlir::Value a, mlir::Value b) const;
  /// The first operation that has no equal: of the second one, or of the first if that has less.
  mlir::Operation *different = nullptr;

private:
  bool compare(mlir::Operation &a, mlir::Operation &b);
  llvm::DenseMap<mlir::Value, mlir::Value> map;
};

/// For a body that builds other code when it is traced again.
[[noreturn]] void failOfHostVariable(Trace &trace, Location where, llvm::StringRef what);

} // namespace sectile::detail

#endif
