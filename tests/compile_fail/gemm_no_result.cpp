// An epilogue that returns nothing, with a result that it should return.
// expect: a gemm with a result needs an epilogue that returns it
#include <sectile/gemm.h>
using namespace sectile;
void run(const Stream &stream, const Tensor<half, 2> &x) {
  gemm(stream, x, x, x, [](const Tile<float> &, const GemmPosition &) {});
}
