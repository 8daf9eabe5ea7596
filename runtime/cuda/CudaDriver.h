// The CUDA driver, opened at run time: the few types and functions of it that Sectile uses,
// declared here, so that neither a CUDA header nor a CUDA library is needed to build or to start.
#ifndef SECTILE_RUNTIME_CUDA_CUDADRIVER_H
#define SECTILE_RUNTIME_CUDA_CUDADRIVER_H

#include <cstddef>
#include <string>

namespace sectile::runtime {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CudaContext *;
using CUstream = struct CudaStream *;
using CUevent = struct CudaEvent *;
using CUmodule = struct CudaModule *;
using CUfunction = struct CudaFunction *;
using CUgraph = struct CudaGraph *;
using CUgraphExec = struct CudaGraphExec *;

// Values of the driver's enumerations, part of its binary interface.
namespace cuda {
inline constexpr CUresult success = 0, errorOutOfMemory = 2, errorNotReady = 600;
inline constexpr int attributeMaxThreads = 1, attributeMaxGridX = 5, attributeWarpSize = 10,
                     attributeMultiprocessors = 16, attributeMemoryClock = 36,
                     attributeMemoryBusWidth = 37, attributeMajor = 75, attributeMinor = 76,
                     attributeMaxSharedOptIn = 97;
inline constexpr int functionLocalBytes = 3, functionRegisters = 4, functionMaxDynamicShared = 8;
inline constexpr int jitInfoLog = 3, jitInfoLogSize = 4, jitErrorLog = 5, jitErrorLogSize = 6;
inline constexpr int captureThreadLocal = 1;
inline constexpr int launchProgrammaticSerialization = 6;
} // namespace cuda

/// CUlaunchAttribute and CUlaunchConfig, of which we set one attribute.
struct CudaLaunchAttribute {
  int id;
  alignas(8) union {
    char all[64];
    int programmaticSerializationAllowed;
  } value;
};
static_assert(sizeof(CudaLaunchAttribute) == 72 && offsetof(CudaLaunchAttribute, value) == 8);
struct CudaLaunchConfig {
  unsigned gridX, gridY, gridZ, threadsX, threadsY, threadsZ, sharedBytes;
  CUstream stream;
  CudaLaunchAttribute *attributes;
  unsigned attributeCount;
};
static_assert(sizeof(CudaLaunchConfig) == 56 && offsetof(CudaLaunchConfig, stream) == 32);

struct CudaDriver {
#define CUDA_FUNCTION(name, symbol, parameters) CUresult(*name) parameters = nullptr;
#include "runtime/cuda/CudaDriver.def"
#undef CUDA_FUNCTION

  /// Empty when the driver is there and started; else why it cannot be used.
  std::string missing;

  /// The driver of this process. It is opened once, from libcuda.so.1 or what SECTILE_CUDA_LIBRARY
  /// names.
  static const CudaDriver &get();

  /// "CUDA_ERROR_OUT_OF_MEMORY: out of memory".
  std::string describe(CUresult error) const;
};

} // namespace sectile::runtime

#endif
