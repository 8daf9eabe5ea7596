// The virtual devices of programs that compile.
#ifndef SECTILE_JIT_VIRTUALCOMPILER_H
#define SECTILE_JIT_VIRTUALCOMPILER_H

#include "jit/CodeSource.h"
#include "vgpu/VirtualDevice.h"

namespace sectile::runtime {

/// "sm_90" or any other target's name. Throws DeviceError.
std::shared_ptr<DeviceImpl> openVirtualDevice(std::string_view target);

} // namespace sectile::runtime

#endif
