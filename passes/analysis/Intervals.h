// Interval arithmetic over the operations that compute indices: how small and how large a result
// can be. The contiguity analysis carries intervals through programs.
#ifndef SECTILE_PASSES_ANALYSIS_INTERVALS_H
#define SECTILE_PASSES_ANALYSIS_INTERVALS_H

#include "mlir/IR/Operation.h"

namespace sectile {

/// Signed numbers from `low` to `high`, wide enough for sums and products of whatever 64 bits hold.
struct Interval {
  __extension__ using Number = __int128;
  Number low, high;

  bool operator==(const Interval &) const = default;
  bool isNonNegative() const { return low >= 0; }
  bool fits(unsigned bits) const {
    Interval all = ofBits(bits);
    return low >= all.low && high <= all.high;
  }
  static Interval ofBits(unsigned bits) {
    Number limit = Number(1) << (bits - 1);
    return {-limit, limit - 1};
  }
  /// Everything that a value of this type, or an element of it, can be. 64 bits for what is no
  /// integer.
  static Interval ofType(mlir::Type type);
};

/// The operation by which a reduction or a scan combines two elements, both of which it takes; null
/// where there are several, or there is another one.
mlir::Operation *onlyCombination(mlir::Region &combiner);

/// What the operation's only result would be if its type had no limits, given what its operands can
/// be. The type's own interval where no rule knows the operation.
Interval exactInterval(mlir::Operation &op, llvm::ArrayRef<Interval> operands);

} // namespace sectile

#endif
