// Warps are the loop's, not the epilogue's.
// expect: warps and stages of a gemm are fields of GemmOptions::config
#include <sectile/gemm.h>
using namespace sectile;
struct Own {
  int warps = 4;
};
SECTILE_CONFIG(Own, warps)
void run(const Stream &stream, const Tensor<half, 2> &x) {
  gemm(stream, x, x, x,
       [](const Tile<float> &sums, const GemmPosition &, const Own &) { return sums; });
}
