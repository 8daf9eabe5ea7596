// Timing work: by the device's events, or by the cost model where there is no time.
#include "autotune/Measure.h"
#include "vgpu/VirtualDevice.h"
#include <algorithm>
#include <cmath>
#include <sectile/bench.h>

namespace sectile::bench {
namespace {

constexpr unsigned fewestRuns = 5, mostRuns = 10000;

Timing estimate(const Stream &stream, const std::function<void()> &work) {
  const Target target = llvm::cantFail(Target::get(stream.device().target()));
  const MachineModel &machine = machineModel(target);
  double microseconds = 0;
  runtime::VirtualDevice::WatchLaunches watch(
      [&](const runtime::LoadedKernel &kernel, const vgpu::Counters &counters) {
        autotune::LaunchProfile profile;
        profile.counters = counters;
        profile.threads = kernel.threads;
        profile.sharedBytes = kernel.sharedBytes;
        profile.stages = 2; // A launch does not say; the least that copies ahead.
        microseconds += autotune::estimateMicroseconds(machine, target, profile);
      });
  work();
  stream.synchronize();
  return {microseconds, microseconds, microseconds, 0};
}

} // namespace

Timing time(const Stream &stream, const std::function<void()> &work, const TimingOptions &options) {
  const Device device = stream.device();
  if (device == Device::interpreter())
    throw Error("the interpreter has no time: it says what a kernel does, not how");
  if (dynamic_cast<runtime::VirtualDevice *>(device.impl().get()))
    return estimate(stream, work);

  const autotune::CacheFlush flush(device);
  work(); // compiles, and whatever else only the first run does
  stream.synchronize();
  // How many runs, with the flush ahead of each, fit.
  const auto runsIn = [&](double milliseconds, bool flushed) {
    constexpr unsigned trial = 5;
    const Event from = stream.record_timed();
    for (unsigned i = 0; i < trial; ++i) {
      if (flushed)
        flush.run(stream);
      work();
    }
    const double once = std::max(1e-3, double(elapsed_ms(from, stream.record_timed())) / trial);
    return static_cast<unsigned>(
        std::clamp(std::ceil(milliseconds / once), double(fewestRuns), double(mostRuns)));
  };
  for (unsigned i = 0, runs = runsIn(options.warmup_ms, false); i < runs; ++i)
    work();
  std::vector<std::pair<Event, Event>> marks;
  for (unsigned i = 0, runs = runsIn(options.total_ms, options.flush_l2); i < runs; ++i) {
    if (options.flush_l2)
      flush.run(stream);
    Event start = stream.record_timed();
    work();
    marks.emplace_back(std::move(start), stream.record_timed());
  }
  stream.synchronize();
  std::vector<double> samples;
  for (const auto &[start, end] : marks)
    samples.push_back(1e3 * elapsed_ms(start, end));
  std::sort(samples.begin(), samples.end());
  return {autotune::quantile(samples, 0.5), autotune::quantile(samples, 0.2),
          autotune::quantile(samples, 0.8), static_cast<unsigned>(samples.size())};
}

Peak peak_of(const Device &device) {
  if (device == Device::interpreter())
    throw Error("the interpreter is no machine with a peak");
  const MachineModel &machine = machineModel(llvm::cantFail(Target::get(device.target())));
  const bool isVirtual = dynamic_cast<runtime::VirtualDevice *>(device.impl().get());
  const double units = isVirtual ? machine.units : device.limits().multiprocessors;
  const double gigabytes = device.limits().memory_gigabytes;
  return {2e-3 * machine.publishedF16 * units * machine.gigahertz,
          gigabytes > 0 ? gigabytes : machine.memoryGigabytes};
}

} // namespace sectile::bench
