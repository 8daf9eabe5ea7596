// HIP, opened at run time: the few types and functions of it that Sectile uses, declared here, so
// that neither ROCm's headers nor its libraries are needed to build or to start.
#ifndef SECTILE_RUNTIME_HIP_HIPDRIVER_H
#define SECTILE_RUNTIME_HIP_HIPDRIVER_H

#include <cstddef>
#include <string>

namespace sectile::runtime {

using hipError = int;
using hipStream = struct HipStream *;
using hipEvent = struct HipEvent *;
using hipModule = struct HipModule *;
using hipFunction = struct HipFunction *;
using hipGraph = struct HipGraph *;
using hipGraphExec = struct HipGraphExec *;

namespace hip {
inline constexpr hipError success = 0, errorOutOfMemory = 2, errorNotReady = 600;
inline constexpr int captureThreadLocal = 1;
} // namespace hip

struct HipDriver {
#define HIP_FUNCTION(name, parameters) hipError(*name) parameters = nullptr;
#include "runtime/hip/HipDriver.def"
#undef HIP_FUNCTION
  const char *(*hipGetErrorName)(hipError error) = nullptr;
  const char *(*hipGetErrorString)(hipError error) = nullptr;
  /// Fills a structure whose layout differs between versions of ROCm; in all of them the product's
  /// name comes first.
  hipError (*hipGetDeviceProperties)(void *properties, int device) = nullptr;

  /// Empty when HIP is there and started; else why it cannot be used.
  std::string missing;

  /// HIP in this process. It is opened once, from libamdhip64.so or what SECTILE_HIP_LIBRARY names.
  static const HipDriver &get();

  /// "hipErrorOutOfMemory: out of memory".
  std::string describe(hipError error) const;
};

} // namespace sectile::runtime

#endif
