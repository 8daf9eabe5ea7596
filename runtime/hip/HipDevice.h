// HIP devices: AMD's chips.
#ifndef SECTILE_RUNTIME_HIP_HIPDEVICE_H
#define SECTILE_RUNTIME_HIP_HIPDEVICE_H

#include "runtime/DeviceImpl.h"

namespace sectile::runtime {

/// How many HIP devices there are; none where there is no HIP.
unsigned hipDeviceCount();

/// Opens a device; throws DeviceError with the reason when that cannot be.
std::shared_ptr<DeviceImpl> openHipDevice(unsigned index);

} // namespace sectile::runtime

#endif
