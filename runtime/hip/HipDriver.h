// HIP, opened at run time: the few types and functions of it that Sectile uses, declared here, so
// that neither ROCm's headers nor its libraries are needed to build or to start.
#ifndef SECTILE_RUNTIME_HIP_HIPDRIVER_H
#define SECTILE_RUNTIME_HIP_HIPDRIVER_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace sectile::runtime {

namespace driver {
struct PoolProperties;
struct PoolAccess;
} // namespace driver

// Handles are void *, as the interface of devices has them, and addresses numbers: to HIP itself
// they are pointers, which are passed alike.

struct HipDriver {
#define HIP_FUNCTION(name, symbol, parameters) int(*name) parameters = nullptr;
#define HIP_NEWER_FUNCTION HIP_FUNCTION ///< null where the library is older
#include "runtime/hip/HipDriver.def"
#undef HIP_NEWER_FUNCTION
#undef HIP_FUNCTION
  const char *(*getErrorName)(int error) = nullptr;
  const char *(*getErrorString)(int error) = nullptr;
  /// Fills a structure whose layout differs between versions of ROCm. The product's name comes
  /// first in all of them; where the architecture's is, the next one says.
  int (*getDeviceProperties)(void *properties, int device) = nullptr;
  size_t architectureAt = 0;

  /// Empty when HIP is there and started; else why it cannot be used.
  std::string missing;

  /// HIP in this process. It is opened once, from libamdhip64.so or what SECTILE_HIP_LIBRARY names.
  static const HipDriver &get();

  /// "hipErrorOutOfMemory: out of memory".
  std::string describe(int error) const;
};

} // namespace sectile::runtime

#endif
