// The virtual GPU of programs without the compiler: a library of its own, libsectile_vgpu, which
// the runtime opens when a program asks for such a device.
#ifndef SECTILE_RUNTIME_VIRTUALGPU_H
#define SECTILE_RUNTIME_VIRTUALGPU_H

#include "runtime/DeviceImpl.h"

/// The one function of libsectile_vgpu: a new virtual device of a chip ("sm_90a"), the caller's to
/// delete. Throws sectile::DeviceError.
extern "C" sectile::runtime::DeviceImpl *sectile_open_virtual_device(const char *target);

#endif
