// Runner: where candidates run, in this process or in one that only measures.
#ifndef SECTILE_AUTOTUNE_RUNNER_H
#define SECTILE_AUTOTUNE_RUNNER_H

#include "autotune/Measure.h"
#include <memory>
#include <string>
#include <vector>

namespace sectile::autotune {

/// A candidate that is compiled.
struct LoadedCandidate {
  std::vector<detail::BoundLaunch> ahead; ///< that come before it and leave something behind for it
  detail::BoundLaunch launch;
  std::shared_ptr<const runtime::LoadedKernel> kernel;
  CodeProfile code;
};

/// All that runs throws DeadlinePassed where a run takes too long, else what the device said.
class Runner {
public:
  virtual ~Runner() = default;

  /// What the outputs hold before a run.
  virtual OutputBytes before() = 0;
  /// Runs it once and gives what it left in the outputs, which held that before, or other bytes.
  virtual OutputBytes run(const LoadedCandidate &candidate,
                          const OutputBytes *before = nullptr) = 0;
  /// Microseconds that each of so many runs takes.
  virtual std::vector<double> time(const LoadedCandidate &candidate, unsigned count) = 0;
  /// Nothing where times are measured, else what the run before took by the cost model.
  virtual std::optional<Timing> estimate(const LoadedCandidate &) const { return std::nullopt; }
  /// After an error: whether others can run.
  virtual bool works() = 0;
  /// Whether what a run does to its process and to the device is nothing to this process.
  virtual bool isApart() const { return false; }
};

std::unique_ptr<Runner> runHere(const Stream &stream, const std::vector<OutputMemory> &outputs,
                                uint64_t footprint, double deadline);

/// In another process, on copies of all memory that `reference` names. Throws Error where that
/// cannot be: there is no program for it, the device does not open twice, memory does not suffice
/// or is of unknown size.
std::unique_ptr<Runner> runApart(const Device &device, const std::vector<OutputMemory> &outputs,
                                 const detail::BoundLaunch &reference, double deadline);

} // namespace sectile::autotune

#endif
