// CUDA devices, through the driver's interface.
#ifndef SECTILE_RUNTIME_CUDA_CUDADEVICE_H
#define SECTILE_RUNTIME_CUDA_CUDADEVICE_H

#include "runtime/DeviceImpl.h"

namespace sectile::runtime {

/// How many CUDA devices there are; none where there is no driver.
unsigned cudaDeviceCount();

/// Opens a device; throws DeviceError with the reason when that cannot be.
std::shared_ptr<DeviceImpl> openCudaDevice(unsigned index);

/// The same on a context that another library made.
std::shared_ptr<DeviceImpl> openCudaContext(const std::string &name, void *context);

} // namespace sectile::runtime

#endif
