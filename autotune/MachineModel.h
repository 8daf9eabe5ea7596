// What the cost model knows of a chip beyond its Target: published speeds of the usual product.
#ifndef SECTILE_AUTOTUNE_MACHINEMODEL_H
#define SECTILE_AUTOTUNE_MACHINEMODEL_H

#include "ir/Target.h"

namespace sectile::autotune {

struct MachineModel {
  const char *product;
  unsigned units;            ///< multiprocessors or compute units
  double gigahertz;          ///< boost
  double memoryGigabytes;    ///< per second
  double cacheBytesPerClock; ///< from L2, the whole chip
  double cacheMegabytes;     ///< L2
  unsigned lanes;            ///< threads' instructions that a unit begins per clock
  unsigned maxThreads;       ///< resident on a unit
  unsigned maxBlocks;        ///< resident on a unit
  /// Multiply-adds per clock and unit of matrix instructions; 0: none. As the
  /// instructions that the compiler takes reach them.
  unsigned f16, tf32, int8, fp8, f64, f32;
  unsigned publishedF16; ///< the same for f16, of the best instructions that the chip has

  unsigned perClock(MmaElement element) const;
};

/// The model of this target. Every target has one.
const MachineModel &machineModel(const Target &target);

} // namespace sectile::autotune

#endif
