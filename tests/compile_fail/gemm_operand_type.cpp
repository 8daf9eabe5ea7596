// A matrix where the epilogue takes a vector.
// expect: a kernel's View<T, N> or View<const T, N> takes a Tensor<T, N>
#include <sectile/gemm.h>
using namespace sectile;
void run(const Stream &stream, const Tensor<half, 2> &x) {
  gemm(
      stream, x, x, x,
      [](const Tile<float> &sums, const GemmPosition &at, View<const half, 1> bias) {
        return sums + at.per_column(bias);
      },
      x);
}
