// Matrix-unit arithmetic for any host.
#include "vgpu/MmaKernels.h"
#define SECTILE_MMA_TABLE mmaKernelsBaseline
#include "vgpu/MmaKernels.inc"

namespace sectile::vgpu {

const MmaKernels &mmaKernels() {
#if defined(__x86_64__)
  static const MmaKernels &best = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                          __builtin_cpu_supports("f16c")
                                      ? mmaKernelsAvx2
                                      : mmaKernelsBaseline;
  return best;
#else
  return mmaKernelsBaseline;
#endif
}

} // namespace sectile::vgpu
