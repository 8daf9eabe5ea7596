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
/// Code may be the same but for its numbers: constants, attributes and extents. Or it may be the
/// same but for the values that it uses and gives, as where pointers to variables were exchanged.
class SameCode {
public:
  /// Whether the code is the same, or differs in numbers and values only.
  bool compare(mlir::Region &a, mlir::Region &b);
  bool compare(mlir::Block &a, mlir::Block &b);
  /// The values of variables after code that has been compared; none where one has none.
  bool compare(llvm::ArrayRef<mlir::Value> a, llvm::ArrayRef<mlir::Value> b);
  /// The first operation of the second one that has other numbers than its counterpart, the first
  /// that uses other values, and the one from which on operations differ.
  mlir::Operation *otherNumbers = nullptr, *otherOperands = nullptr, *otherOperation = nullptr;
  bool otherValues = false; ///< are used or given

private:
  bool compare(mlir::Operation &a, mlir::Operation &b);
  /// Whether it is the same kind of operation, of values of the same kinds.
  bool isAlike(mlir::Operation &a, mlir::Operation &b);
  bool isSame(mlir::Value a, mlir::Value b) const;
  llvm::DenseMap<mlir::Value, mlir::Value> map;
};

/// Notes what traces of one body have shown: a body that builds other code when it is traced again
/// depends on a variable of the host that it changes.
void noteTraces(Trace &trace, bool isSame, const SameCode &compared, Location where,
                llvm::StringRef what);

} // namespace sectile::detail

#endif
