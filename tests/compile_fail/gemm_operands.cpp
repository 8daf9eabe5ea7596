// One operand less than the epilogue has parameters for.
// expect: a gemm is given one operand for each parameter of its epilogue
#include <sectile/gemm.h>
using namespace sectile;
void run(const Stream &stream, const Tensor<half, 2> &x) {
  gemm(stream, x, x, x,
       [](const Tile<float> &sums, const GemmPosition &at, View<const half, 1> bias) {
         return sums + at.per_column(bias);
       });
}
