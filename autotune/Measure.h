// Measuring one candidate: on a device by its events, on a virtual one by the cost model.
#ifndef SECTILE_AUTOTUNE_MEASURE_H
#define SECTILE_AUTOTUNE_MEASURE_H

#include "autotune/CostModel.h"
#include "autotune/Outputs.h"
#include "runtime/DeviceImpl.h"
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace sectile::autotune {

struct Timing {
  double median = 0, spread = 0; ///< microseconds
  unsigned runs = 0;             ///< 0: the cost model's estimate
};

/// A kernel with its arguments, as one launches it: in this process the launch that the user's
/// program bound, in one that only measures the code and the arguments' words.
struct Launchable {
  std::string kernel; ///< its name
  std::function<void(const Stream &)> launch;
};
Launchable launchableOf(detail::BoundLaunch launch);
/// With code that was loaded for it.
Launchable launchableOf(detail::BoundLaunch launch,
                        std::shared_ptr<const runtime::LoadedKernel> code);

/// What the cost model is told of a candidate, beside what a run counts.
struct CodeProfile {
  unsigned threads, sharedBytes;
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

/// How long a run may take, by what AutotuneOptions::deadline says of that.
class Deadline {
public:
  explicit Deadline(double allowed) : allowed(allowed) {}
  double seconds() const;
  /// A run took so many seconds of the host's clock.
  void took(double seconds) { fastest = std::min(seconds, fastest.value_or(seconds)); }

private:
  double allowed;
  std::optional<double> fastest;
};

/// Launches it and waits, but no longer than that: then it throws DeadlinePassed, and a real device
/// is given up. What a virtual device counts is handed over.
void runWithin(double seconds, const Launchable &launch, const Stream &stream,
               vgpu::Counters *counters = nullptr);

/// Whether a device still does anything after an error.
bool works(const Device &device);

/// Runs launches whose outputs are redirected into copies.
class Stopwatch {
public:
  Stopwatch(const Stream &stream, const OutputCopies &copies, uint64_t footprint);

  /// Runs it once and gives what it left in the outputs, which hold what the user's memory does
  /// before, or other bytes. This and `time` throw DeadlinePassed where a run takes longer than so
  /// many seconds; a real device is given up then.
  OutputBytes run(const Launchable &launch, double deadline, const OutputBytes *before = nullptr);

  /// Whether times are the cost model's. Then they follow from the run before.
  bool estimates() const { return isVirtual; }
  Timing estimate(const CodeProfile &code) const;

  /// Microseconds that each of so many runs takes.
  std::vector<double> time(const Launchable &launch, double deadline, unsigned count);

private:
  Stream stream;
  const OutputCopies &copies;
  uint64_t footprint;
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
