// The arithmetic of matrix units, compiled once for plain x86-64 and once for AVX2. Nothing but C
// types here: the two copies must not share inline functions.
#pragma once
#include <stdint.h>

namespace sectile::vgpu {

constexpr unsigned mmaMaxM = 16, mmaN = 8, mmaMaxK = 64;

// One matrix-unit operation on whole matrices. A is row major with k columns; B is kept by column,
// k rows each. `rawA` and `rawB` hold the operands in their own format.
struct MmaKernels {
  // d[m][8] = sum over ascending k of a*b + d, each step one fused multiply-add in the
  // accumulator's type.
  void (*f16)(const uint16_t *rawA, const uint16_t *rawB, float *d, unsigned m, unsigned k);
  void (*bf16)(const uint16_t *rawA, const uint16_t *rawB, float *d, unsigned m, unsigned k);
  void (*tf32)(const uint32_t *rawA, const uint32_t *rawB, float *d, unsigned m, unsigned k);
  void (*f32)(const float *a, const float *b, float *d, unsigned m, unsigned k);
  void (*fp8)(const uint8_t *rawA, const uint8_t *rawB, const float *tableA, const float *tableB,
              float *d, unsigned m, unsigned k);
  void (*f64)(const double *a, const double *b, double *d, unsigned m, unsigned k);
  // d = a*b + d, wrapping, or clamped once at the end.
  void (*int8)(const uint8_t *rawA, const uint8_t *rawB, bool signedA, bool signedB, int32_t *d,
               unsigned m, unsigned k, bool saturate);
};

// The best copy that this processor can run.
const MmaKernels &mmaKernels();

extern const MmaKernels mmaKernelsBaseline;
#if defined(__x86_64__)
extern const MmaKernels mmaKernelsAvx2;
#endif

} // namespace sectile::vgpu
