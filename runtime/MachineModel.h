// What is known of a chip beyond its limits: published speeds of the usual product.
#ifndef SECTILE_RUNTIME_MACHINEMODEL_H
#define SECTILE_RUNTIME_MACHINEMODEL_H

#include "runtime/Chip.h"

namespace sectile {

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

/// The model of this chip. Every chip has one.
const MachineModel &machineModel(const Chip &chip);

} // namespace sectile

#endif
