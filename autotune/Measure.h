// Measuring one candidate: on a device by its events, on a virtual one by the cost model.
#ifndef SECTILE_AUTOTUNE_MEASURE_H
#define SECTILE_AUTOTUNE_MEASURE_H

#include "autotune/CostModel.h"
#include "autotune/Outputs.h"
#include "runtime/DeviceImpl.h"
#include <optional>
#include <span>

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

/// Takes what a run left in L2 out of it.
class CacheFlush {
public:
  explicit CacheFlush(const Device &device);
  void run(const Stream &stream) const;

private:
  detail::Memory larger; ///< than L2
};

/// Seconds that a run may take where nobody says so, and nothing has run yet.
constexpr double firstDeadline = 600;

/// Launches it and waits, but no longer than that: then it throws DeadlinePassed, and a real device
/// is given up. What a virtual device counts is handed over.
void runWithin(double seconds, const detail::BoundLaunch &launch, const Stream &stream,
               vgpu::Counters *counters = nullptr);

class Stopwatch {
public:
  /// `allowed`: seconds that a run may take, or 0 for what AutotuneOptions::deadline says of that.
  Stopwatch(const Stream &stream, const OutputCopies &copies, uint64_t footprint, double allowed);

  /// Runs it once and gives what it left in the outputs, which hold what the user's memory does
  /// before, or other bytes. This and `time` throw DeadlinePassed where a run takes too long; a
  /// real device is given up then.
  OutputBytes run(const LoadedCandidate &candidate, const OutputBytes *before = nullptr);

  /// Whether times are the cost model's. Then they follow from the run before.
  bool estimates() const { return isVirtual; }

  /// Adds `count` runs to what is known of a candidate, and says what that comes to.
  Timing time(const LoadedCandidate &candidate, unsigned count, std::vector<double> &samples);

private:
  double deadline() const;

  Stream stream;
  const OutputCopies &copies;
  uint64_t footprint;
  double allowed;
  std::optional<double> fastest; ///< run so far, in seconds of the host's clock
  bool isVirtual;
  Target target;
  std::optional<CacheFlush> flush; ///< on a real device
  vgpu::Counters counters;         ///< of the last run on a virtual device
};

/// Bytes of all buffers that a launch's arguments are in.
uint64_t footprintOf(const detail::BoundLaunch &launch);

/// Of sorted samples, one at least, between the two next to it.
double quantile(std::span<const double> samples, double part);

/// Median and interquartile range.
Timing summarize(std::vector<double> samples);

} // namespace sectile::autotune

#endif
