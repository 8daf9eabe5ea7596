// Runs of one candidate.
#include "autotune/Measure.h"
#include "runtime/LaunchAccess.h"
#include "runtime/virtual/VirtualDevice.h"
#include <algorithm>

namespace sectile::autotune {

Stopwatch::Stopwatch(const Stream &stream, const OutputCopies &copies, uint64_t footprint)
    : stream(stream), copies(copies), footprint(footprint),
      isVirtual(dynamic_cast<runtime::VirtualDevice *>(stream.device().impl().get())),
      target(llvm::cantFail(Target::get(stream.device().target()))) {
  if (isVirtual)
    return;
  constexpr double leastMegabytes = 64;
  const double bytes = std::max(leastMegabytes, 2 * machineModel(target).cacheMegabytes) * 1e6;
  flushed = detail::Memory(stream.device(), static_cast<size_t>(bytes) / 16 * 16);
}

OutputBytes Stopwatch::run(const LoadedCandidate &candidate) {
  copies.restore(stream);
  {
    runtime::VirtualDevice::RecordCounters record(counters);
    runtime::LaunchAccess::launch(candidate.launch, stream);
  }
  stream.synchronize();
  return copies.download();
}

Timing Stopwatch::time(const LoadedCandidate &candidate, unsigned count,
                       std::vector<double> &samples) {
  if (isVirtual) {
    LaunchProfile profile;
    profile.counters = counters;
    profile.threads = candidate.kernel->threads;
    profile.sharedBytes = candidate.kernel->sharedBytes;
    profile.registers = candidate.registers;
    profile.stages = candidate.stages;
    profile.footprint = footprint;
    return {estimateMicroseconds(machineModel(target), target, profile), 0, 0};
  }
  std::vector<std::pair<Event, Event>> marks;
  for (unsigned i = 0; i < count; ++i) {
    copies.restore(stream);
    flush();
    Event from = stream.record();
    runtime::LaunchAccess::launch(candidate.launch, stream);
    marks.emplace_back(std::move(from), stream.record());
  }
  stream.synchronize();
  for (const auto &[from, to] : marks)
    samples.push_back(1e3 * elapsed_ms(from, to));
  return summarize(samples);
}

// What a run before it left in L2 is not there any more.
void Stopwatch::flush() const {
  const uint32_t pattern = 0;
  flushed.fill(&pattern, sizeof pattern, &stream);
}

Timing summarize(std::vector<double> samples) {
  if (samples.empty())
    return {};
  std::sort(samples.begin(), samples.end());
  auto at = [&](double part) {
    const double place = part * static_cast<double>(samples.size() - 1);
    const size_t below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, samples.size() - 1);
    return samples[below] +
           (place - static_cast<double>(below)) * (samples[above] - samples[below]);
  };
  return {at(0.5), at(0.75) - at(0.25), static_cast<unsigned>(samples.size())};
}

} // namespace sectile::autotune
