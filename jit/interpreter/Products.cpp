// The inner loops of matrix products of floats.
#include "jit/interpreter/Products.h"
#include <cmath>
#include <vector>

namespace sectile::interpreter {

// Products of operands of up to 24 bits are exact in double, and each sum is rounded once.
void multiply(const Matrices &x, const FloatFormat &format, uint64_t *sums) {
  std::vector<double> row(x.n);
  for (size_t i = 0; i < x.m; ++i) {
    for (size_t j = 0; j < x.n; ++j)
      row[j] = format.decode(sums[i * x.n + j]);
    for (size_t l = 0; l < x.k; ++l) {
      const double left = x.a[i * x.k + l];
      const double *right = x.b + l * x.n;
      if (&format == &f64Format)
        for (size_t j = 0; j < x.n; ++j)
          row[j] = std::fma(left, right[j], row[j]);
      else if (&format == &f32Format)
        for (size_t j = 0; j < x.n; ++j)
          row[j] = static_cast<float>(multiplyAddToOdd(left, right[j], row[j]));
      else
        for (size_t j = 0; j < x.n; ++j)
          row[j] = format.decode(format.encode(multiplyAddToOdd(left, right[j], row[j])));
    }
    for (size_t j = 0; j < x.n; ++j)
      sums[i * x.n + j] = format.encode(row[j]);
  }
}

} // namespace sectile::interpreter
