// Runs of one candidate.
#include "autotune/Measure.h"
#include "runtime/LaunchAccess.h"
#include "runtime/virtual/VirtualDevice.h"
#include <algorithm>
#include <set>

namespace sectile::autotune {

CacheFlush::CacheFlush(const Device &device) {
  constexpr double leastMegabytes = 64;
  const Target target = llvm::cantFail(Target::get(device.target()));
  const double bytes = std::max(leastMegabytes, 2 * machineModel(target).cacheMegabytes) * 1e6;
  larger = detail::Memory(device, static_cast<size_t>(bytes) / 16 * 16);
}

void CacheFlush::run(const Stream &stream) const {
  const uint32_t pattern = 0;
  larger.fill(&pattern, sizeof pattern, &stream);
}

Stopwatch::Stopwatch(const Stream &stream, const OutputCopies &copies, uint64_t footprint)
    : stream(stream), copies(copies), footprint(footprint),
      isVirtual(dynamic_cast<runtime::VirtualDevice *>(stream.device().impl().get())),
      target(llvm::cantFail(Target::get(stream.device().target()))) {
  if (!isVirtual)
    flush.emplace(stream.device());
}

OutputBytes Stopwatch::run(const LoadedCandidate &candidate, const OutputBytes *before) {
  copies.restore(stream);
  if (before)
    copies.upload(*before);
  {
    runtime::VirtualDevice::WatchLaunches watch(
        [&](const runtime::LoadedKernel &, const vgpu::Counters &counted) { counters = counted; });
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
    flush->run(stream);
    Event from = stream.record();
    runtime::LaunchAccess::launch(candidate.launch, stream);
    marks.emplace_back(std::move(from), stream.record());
  }
  stream.synchronize();
  for (const auto &[from, to] : marks)
    samples.push_back(1e3 * elapsed_ms(from, to));
  return summarize(samples);
}

uint64_t footprintOf(const detail::BoundLaunch &launch) {
  std::set<std::pair<uint64_t, size_t>> seen;
  uint64_t bytes = 0;
  for (const detail::Owner &owner : launch.owners)
    if (owner.bytes && seen.emplace(owner.address, owner.bytes).second)
      bytes += owner.bytes;
  return bytes;
}

double quantile(std::span<const double> samples, double part) {
  const double place = part * static_cast<double>(samples.size() - 1);
  const size_t below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (place - static_cast<double>(below)) * (samples[above] - samples[below]);
}

Timing summarize(std::vector<double> samples) {
  if (samples.empty())
    return {};
  std::sort(samples.begin(), samples.end());
  return {quantile(samples, 0.5), quantile(samples, 0.75) - quantile(samples, 0.25),
          static_cast<unsigned>(samples.size())};
}

} // namespace sectile::autotune
