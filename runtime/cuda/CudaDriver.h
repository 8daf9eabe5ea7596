// The CUDA driver, opened at run time: the few types and functions of it that Sectile uses,
// declared here, so that neither a CUDA header nor a CUDA library is needed to build or to start.
#ifndef SECTILE_RUNTIME_CUDA_CUDADRIVER_H
#define SECTILE_RUNTIME_CUDA_CUDADRIVER_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace sectile::runtime {

namespace driver {
struct PoolProperties;
struct PoolAccess;
} // namespace driver

// Handles are void *, as the interface of devices has them; contexts, too.

// Values of the driver's enumerations, part of its binary interface.
namespace cuda {
inline constexpr int attributeMaxThreads = 1, attributeMaxGridX = 5, attributeWarpSize = 10,
                     attributeMultiprocessors = 16, attributeMemoryClock = 36,
                     attributeMemoryBusWidth = 37, attributeMajor = 75, attributeMinor = 76,
                     attributeMaxSharedOptIn = 97;
inline constexpr int functionLocalBytes = 3, functionRegisters = 4, functionMaxDynamicShared = 8;
inline constexpr int jitInfoLog = 3, jitInfoLogSize = 4, jitErrorLog = 5, jitErrorLogSize = 6;
inline constexpr int launchClusterDimension = 4, launchProgrammaticSerialization = 6;
inline constexpr int tensorUint8 = 0, tensorUint16 = 1, tensorUint32 = 2, tensorUint64 = 4,
                     tensorFloat16 = 6, tensorFloat32 = 7, tensorBfloat16 = 9;
inline constexpr int tensorNotInterleaved = 0, tensorFillsZeros = 0, tensorFillsNaN = 1,
                     tensorPromotesNothing = 0, tensorPromotes256Bytes = 3;
inline constexpr int tensorSwizzle0 = 0, tensorSwizzle32 = 1, tensorSwizzle64 = 2,
                     tensorSwizzle128 = 3;
} // namespace cuda

/// CUlaunchAttribute and CUlaunchConfig, of which we set one attribute.
struct CudaLaunchAttribute {
  int id;
  alignas(8) union {
    char all[64];
    unsigned clusterDimension[3];
    int programmaticSerializationAllowed;
  } value;
};
static_assert(sizeof(CudaLaunchAttribute) == 72 && offsetof(CudaLaunchAttribute, value) == 8);
struct CudaLaunchConfig {
  unsigned gridX, gridY, gridZ, threadsX, threadsY, threadsZ, sharedBytes;
  void *stream;
  CudaLaunchAttribute *attributes;
  unsigned attributeCount;
};
static_assert(sizeof(CudaLaunchConfig) == 56 && offsetof(CudaLaunchConfig, stream) == 32);

/// CUtensorMap.
struct alignas(64) CudaTensorMap {
  uint64_t words[16];
};

struct CudaDriver {
#define CUDA_FUNCTION(name, symbol, parameters) int(*name) parameters = nullptr;
#define CUDA_NEWER_FUNCTION CUDA_FUNCTION ///< null where the driver is older
#include "runtime/cuda/CudaDriver.def"
#undef CUDA_NEWER_FUNCTION
#undef CUDA_FUNCTION

  /// Empty when the driver is there and started; else why it cannot be used.
  std::string missing;

  /// The driver of this process. It is opened once, from libcuda.so.1 or what SECTILE_CUDA_LIBRARY
  /// names.
  static const CudaDriver &get();

  /// "CUDA_ERROR_OUT_OF_MEMORY: out of memory".
  std::string describe(int error) const;
};

} // namespace sectile::runtime

#endif
