// Matrices of two types, and of one that is not multiplied.
// expect: a and b of a gemm have elements of one type
// expect: a gemm multiplies half, bfloat16, float
// expect: a gemm's result is no Tensor of const elements
#include <sectile/gemm.h>
using namespace sectile;
constexpr auto epilogue = [](const Tile<float> &sums, const GemmPosition &) { return sums; };
void run(const Stream &stream, const Tensor<half, 2> &x, const Tensor<float, 2> &y,
         const Tensor<double, 2> &z, const Tensor<const half, 2> &c) {
  gemm(stream, x, y, x, epilogue);
  gemm(stream, z, z, z, epilogue);
  gemm(stream, x, x, c, epilogue);
}
