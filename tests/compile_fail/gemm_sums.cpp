// Sums of half are float.
// expect: the sums that a gemm's epilogue takes are a Tile<float>
#include <sectile/gemm.h>
using namespace sectile;
void run(const Stream &stream, const Tensor<half, 2> &x) {
  gemm(stream, x, x, x, [](const Tile<half> &sums, const GemmPosition &) { return sums; });
}
