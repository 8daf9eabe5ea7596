// What integers can be: the interval of numbers that every element of a value lies in.
#ifndef SECTILE_PASSES_ANALYSIS_INTERVALS_H
#define SECTILE_PASSES_ANALYSIS_INTERVALS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace sectile {

/// Numbers from `low` to `high`, wide enough for whatever 64 bits hold.
struct Interval {
  __extension__ using Number = __int128;
  Number low, high;

  bool fits(unsigned bits) const {
    Number limit = Number(1) << (bits - 1);
    return low >= -limit && high < limit;
  }
  static Interval ofBits(unsigned bits) {
    Number limit = Number(1) << (bits - 1);
    return {-limit, limit - 1};
  }
};

/// Intervals of values as signed numbers, found when they are asked for.
class Intervals {
public:
  Interval of(mlir::Value value);
  /// What the operation's only result would be if its type had no limits.
  Interval exact(mlir::Operation *op);

private:
  Interval infer(mlir::Value value);

  llvm::DenseMap<mlir::Value, Interval> known;
};

} // namespace sectile

#endif
