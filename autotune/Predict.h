// What the virtual GPU would count of a launch, foreseen from the kernel's IR: enough to try the
// likely candidates first where running them all takes too long.
#ifndef SECTILE_AUTOTUNE_PREDICT_H
#define SECTILE_AUTOTUNE_PREDICT_H

#include "ir/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "vgpu/Counters.h"
#include <sectile/kernel.h>

namespace sectile::autotune {

/// The counters of a launch of a kernel whose shared memory is placed. Loops run as often as the
/// arguments say, for the program in the middle of the grid. Accesses are taken to be coalesced and
/// free of bank conflicts.
vgpu::Counters predictCounters(mlir::ModuleOp module, const detail::BoundLaunch &launch,
                               const Target &target);

} // namespace sectile::autotune

#endif
