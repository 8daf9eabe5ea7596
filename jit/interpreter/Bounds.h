// How far off a device may be: bounds on the difference of each element from what the interpreter
// computes, that follow from what the language leaves open. Sums may be taken in another order,
// products and sums be contracted, functions be off by some units of the last place.
#ifndef SECTILE_JIT_INTERPRETER_BOUNDS_H
#define SECTILE_JIT_INTERPRETER_BOUNDS_H

#include "jit/interpreter/Run.h"
#include <limits>

namespace sectile::interpreter {

/// The bound of an element that may be anything: undefined by the language, or decided by
/// comparing numbers that are closer to each other than their bounds.
inline constexpr double anything = std::numeric_limits<double>::infinity();

/// Thrown where the program's course, or which memory it touches, is not certain.
struct Uncertain {
  mlir::Operation *op;
};

void setBound(Elements &result, size_t element, double bound);

/// Gives the results of an operation that was just run their bounds.
void addBounds(Run &run, mlir::Operation &op);

/// Bounds of sums of floats in any order, from those of the summands. Sums of numbers that are few
/// bits apart are exact: what every number is a multiple of decides.
class SumBound {
public:
  explicit SumBound(const FloatFormat &format) : format(&format) {}
  void add(double value, double bound);
  /// The bound of a sum that may be computed in any order, here with this result.
  double of(double result) const;

private:
  const FloatFormat *format;
  double magnitudes = 0, infinite = 0; ///< of the summands, apart from those that are no numbers
  double errors = 0;
  int lowestBit = std::numeric_limits<int>::max();
  size_t count = 0;
};

/// The lowest bit that is set in a number: it is an odd multiple of 2 to that. Of zero the largest
/// int.
int lowestBitOf(double value);

} // namespace sectile::interpreter

#endif
