// Candidates in this process.
#include "autotune/Runner.h"
#include "runtime/LaunchAccess.h"
#include <chrono>

namespace sectile::autotune {
namespace {

class Here : public Runner {
public:
  Here(const Stream &stream, const std::vector<OutputMemory> &outputs, uint64_t footprint,
       double allowed)
      : stream(stream), copies(stream.device(), outputs), stopwatch(stream, copies, footprint),
        deadline(allowed) {}

  OutputBytes before() override {
    copies.restore(stream);
    stream.synchronize();
    return copies.download();
  }

  OutputBytes run(const LoadedCandidate &candidate, const OutputBytes *before) override {
    const Launchable launch = ready(candidate);
    const auto start = std::chrono::steady_clock::now();
    OutputBytes written = stopwatch.run(launch, deadline.seconds(), before);
    deadline.took(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return written;
  }

  std::vector<double> time(const LoadedCandidate &candidate, unsigned count) override {
    return stopwatch.time(ready(candidate), deadline.seconds(), count);
  }

  std::optional<Timing> estimate(const LoadedCandidate &candidate) const override {
    if (!stopwatch.estimates())
      return std::nullopt;
    return stopwatch.estimate(candidate.code);
  }
  bool works() override { return autotune::works(stream.device()); }

private:
  // What comes before it runs where it lies.
  Launchable ready(const LoadedCandidate &candidate) {
    for (const detail::BoundLaunch &launch : candidate.ahead)
      runWithin(deadline.seconds(), launchableOf(launch), stream);
    return launchableOf(copies.redirected(candidate.launch), candidate.kernel);
  }

  const Stream stream;
  const OutputCopies copies;
  Stopwatch stopwatch;
  Deadline deadline;
};

} // namespace

std::unique_ptr<Runner> runHere(const Stream &stream, const std::vector<OutputMemory> &outputs,
                                uint64_t footprint, double deadline) {
  return std::make_unique<Here>(stream, outputs, footprint, deadline);
}

} // namespace sectile::autotune
