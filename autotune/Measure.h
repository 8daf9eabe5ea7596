// Measuring one candidate: on a device by its events, on a virtual one by the cost model.
#ifndef SECTILE_AUTOTUNE_MEASURE_H
#define SECTILE_AUTOTUNE_MEASURE_H

#include "autotune/CostModel.h"
#include "autotune/Outputs.h"
#include "runtime/DeviceImpl.h"

namespace sectile::autotune {

struct Timing {
  double median = 0, spread = 0; ///< microseconds
  unsigned runs = 0;             ///< 0: the cost model's estimate
};

/// A candidate that is compiled.
struct LoadedCandidate {
  detail::BoundLaunch launch; ///< on the copies of the outputs
  const runtime::LoadedKernel *kernel;
  unsigned registers; ///< of one thread; 0 where nobody knows
  unsigned stages;
};

class Stopwatch {
public:
  Stopwatch(const Stream &stream, const OutputCopies &copies, uint64_t footprint);

  /// Runs it once and gives what it left in the outputs.
  OutputBytes run(const LoadedCandidate &candidate);

  /// Whether times are the cost model's. Then they follow from the run before.
  bool estimates() const { return isVirtual; }

  /// Adds `count` runs to what is known of a candidate, and says what that comes to.
  Timing time(const LoadedCandidate &candidate, unsigned count, std::vector<double> &samples);

private:
  void flush() const;

  Stream stream;
  const OutputCopies &copies;
  uint64_t footprint;
  bool isVirtual;
  Target target;
  detail::Memory flushed;  ///< larger than L2
  vgpu::Counters counters; ///< of the last run on a virtual device
};

/// Median and interquartile range.
Timing summarize(std::vector<double> samples);

} // namespace sectile::autotune

#endif
