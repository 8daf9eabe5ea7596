// Where the time of compiling a kernel of the library goes.
#ifndef SECTILE_BENCH_COMPILE_H
#define SECTILE_BENCH_COMPILE_H

#include "codegen/Compiler.h"

namespace sectile::bench {

struct CompileCost {
  std::string kernel, target;
  CompileTimes stages; ///< milliseconds, in order; of the fastest of several warm compiles
};

/// Some kernels of the library for some targets of each vendor, as far as the driver wants them:
/// with ptxas where that is installed.
std::vector<CompileCost> measureCompiles();

} // namespace sectile::bench

#endif
