// batched_matmul: matrix products side by side, each with matmul's formula and epilogue, as
// torch.bmm and torch.baddbmm.
#include "kernels/matmul/Family.h"
#include "kernels/matmul/Gemm.h"

using namespace sectile;

KernelSpec sectile::batchedMatmulSpec() {
  KernelSpec spec;
  spec.name = "batched_matmul";
  spec.summary = "c[i] = act(alpha a[i] b[i] + beta residual[i] + bias)";
  specifyGemm(spec, true);
  spec.typical = {{"B", 16}, {"M", 1024}, {"N", 1024}, {"K", 1024}};
  spec.small = {{"B", 3}, {"M", 70}, {"N", 50}, {"K", 40}};
  spec.apply = [](Use &use) { launchGemm(use, true); };
  return spec;
}
