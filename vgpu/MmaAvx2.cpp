// Matrix-unit arithmetic for x86-64 with AVX2, FMA and F16C: compiled with the flags for them.
#if defined(__x86_64__)
#include "vgpu/MmaKernels.h"
#define SECTILE_MMA_TABLE mmaKernelsAvx2
#include "vgpu/MmaKernels.inc"
#endif
