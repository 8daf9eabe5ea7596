// Machine code of PTX, made once for all processes and kept in the compile cache.
#ifndef SECTILE_RUNTIME_CUDA_MACHINECODE_H
#define SECTILE_RUNTIME_CUDA_MACHINECODE_H

#include "codegen/Artifact.h"
#include <optional>
#include <string>

namespace sectile::runtime {

/// The chip and the driver that machine code is for.
struct MachineCodeUser {
  unsigned major, minor;     ///< the chip's compute capability
  std::string driverVersion; ///< "CUDA 13.0"
  std::string driverBuild;
};

/// The machine code of a kernel's PTX: from the compile cache, else made by a ptxas of the driver's
/// release and kept there. Nothing where there is no such ptxas, no folder to keep it in, or ptxas
/// fails: then the driver compiles the PTX. The driver's linker is no substitute: it compiles
/// relocatable code, which takes more registers and ignores setmaxnreg.
std::optional<std::string> machineCodeOf(const Artifact &ptx, const MachineCodeUser &user);

} // namespace sectile::runtime

#endif
