// Runs of one candidate.
#include "autotune/Measure.h"
#include "runtime/LaunchAccess.h"
#include "vgpu/VirtualDevice.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <thread>

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

Launchable launchableOf(detail::BoundLaunch launch) {
  std::string kernel(launch.kernel->name());
  return {std::move(kernel), [launch = std::move(launch)](const Stream &stream) {
            runtime::LaunchAccess::launch(launch, stream);
          }};
}

Launchable launchableOf(detail::BoundLaunch launch,
                        std::shared_ptr<const runtime::LoadedKernel> code) {
  std::string kernel(launch.kernel->name());
  return {std::move(kernel),
          [launch = std::move(launch), code = std::move(code)](const Stream &stream) {
            runtime::LaunchAccess::launch(launch, *code, stream);
          }};
}

double Deadline::seconds() const {
  constexpr double first = 600, least = 10, factor = 100;
  if (allowed > 0)
    return allowed;
  return fastest ? std::max(least, factor * *fastest) : first;
}

Stopwatch::Stopwatch(const Stream &stream, const OutputCopies &copies, uint64_t footprint)
    : stream(stream), copies(copies), footprint(footprint),
      isVirtual(dynamic_cast<runtime::VirtualDevice *>(stream.device().impl().get())),
      target(llvm::cantFail(Target::get(stream.device().target()))) {
  if (!isVirtual)
    flush.emplace(stream.device());
}

// Asks now and then: who waits in the driver for what never ends comes never back.
static void wait(double seconds, const Event &event, const std::string &kernel,
                 const Stream &stream) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  constexpr std::chrono::microseconds shortest{10}, longest{1000};
  for (auto pause = shortest; !event.done(); pause = std::min(2 * pause, longest)) {
    if (Clock::now() > end) {
      char text[64];
      std::snprintf(text, sizeof text, "%g s", seconds);
      const std::string why = "a run of kernel '" + kernel + "' did not end within " + text;
      const Device device = stream.device();
      device.impl()->abandon(why);
      throw runtime::DeadlinePassed(device.name() + ": " + why);
    }
    std::this_thread::sleep_for(pause);
  }
}

void runWithin(double seconds, const Launchable &launch, const Stream &stream,
               vgpu::Counters *counters) {
  {
    runtime::VirtualDevice::WatchLaunches watch(
        [&](const runtime::LoadedKernel &, const vgpu::Counters &counted) {
          if (counters)
            *counters = counted;
        },
        seconds);
    launch.launch(stream);
  }
  wait(seconds, stream.record(), launch.kernel, stream);
  stream.synchronize();
}

bool works(const Device &device) {
  try {
    const detail::Memory memory(device, 4);
    const uint32_t word = 0x5ec711e;
    uint32_t back = 0;
    memory.upload(&word);
    memory.download(&back);
    return back == word;
  } catch (const DeviceError &) {
    return false;
  }
}

OutputBytes Stopwatch::run(const Launchable &launch, double deadline, const OutputBytes *before) {
  copies.restore(stream);
  if (before)
    copies.upload(*before);
  runWithin(deadline, launch, stream, &counters);
  return copies.download();
}

Timing Stopwatch::estimate(const CodeProfile &code) const {
  LaunchProfile profile;
  profile.counters = counters;
  profile.threads = code.threads;
  profile.sharedBytes = code.sharedBytes;
  profile.registers = code.registers;
  profile.stages = code.stages;
  profile.footprint = footprint;
  return {estimateMicroseconds(machineModel(target), target, profile), 0, 0};
}

std::vector<double> Stopwatch::time(const Launchable &launch, double deadline, unsigned count) {
  std::vector<std::pair<Event, Event>> marks;
  for (unsigned i = 0; i < count; ++i) {
    copies.restore(stream);
    flush->run(stream);
    Event from = stream.record_timed();
    launch.launch(stream);
    marks.emplace_back(std::move(from), stream.record_timed());
  }
  for (const auto &[from, to] : marks)
    wait(deadline, to, launch.kernel, stream);
  stream.synchronize();
  std::vector<double> samples;
  for (const auto &[from, to] : marks)
    samples.push_back(1e3 * elapsed_ms(from, to));
  return samples;
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
