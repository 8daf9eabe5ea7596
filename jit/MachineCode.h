// Machine code of PTX, made once for all processes and kept in the compile cache.
#ifndef SECTILE_JIT_MACHINECODE_H
#define SECTILE_JIT_MACHINECODE_H

#include "runtime/CompilerLink.h"
#include <optional>
#include <string>

namespace sectile::runtime {

/// As CompilerLink::machineCodeOf.
std::optional<std::string> machineCodeOf(const Artifact &ptx, const MachineCodeUser &user);

} // namespace sectile::runtime

#endif
