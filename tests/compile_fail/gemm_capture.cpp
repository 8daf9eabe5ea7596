// An epilogue that captures: its kernel, which is compiled once, would keep the first value.
// expect: a gemm's epilogue captures nothing
#include <sectile/gemm.h>
using namespace sectile;
void run(const Stream &stream, const Tensor<half, 2> &x, float scale) {
  gemm(stream, x, x, x,
       [scale](const Tile<float> &sums, const GemmPosition &) { return sums * scale; });
}
