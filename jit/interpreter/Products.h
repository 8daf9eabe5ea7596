// The inner loops of matrix products of floats.
#ifndef SECTILE_JIT_INTERPRETER_PRODUCTS_H
#define SECTILE_JIT_INTERPRETER_PRODUCTS_H

#include "jit/interpreter/Floats.h"

namespace sectile::interpreter {

/// Operands as doubles, a[M, K] and b[K, N], of one of several matrices.
struct Matrices {
  const double *a, *b;
  size_t m, n, k;
};

/// Adds a · b to sums[M, N] of that format, in the order of k. Each product is exact and each sum
/// rounded once.
void multiply(const Matrices &x, const FloatFormat &format, uint64_t *sums);

} // namespace sectile::interpreter

#endif
