// What a driver's errors mean for the process.
#ifndef SECTILE_RUNTIME_LOST_H
#define SECTILE_RUNTIME_LOST_H

#include <sectile/error.h>
#include <string>

namespace sectile::runtime {

/// The driver gives this process nothing but errors for the device from now on.
class LostContext : public DeviceError {
public:
  using DeviceError::DeviceError;
};

namespace driver {

/// Throws LostContext for an error of CUDA's or HIP's that is the context's end, else DeviceError.
[[noreturn]] void throwDriverError(int error, const std::string &text);

} // namespace driver
} // namespace sectile::runtime

#endif
