// The static estimate and the compiling of candidates.
#include "autotune/Prepare.h"
#include "autotune/Measure.h"
#include "autotune/Predict.h"
#include "jit/CodeAccess.h"
#include "jit/CompileTimes.h"
#include "runtime/LaunchAccess.h"
#include <algorithm>

namespace sectile::autotune {

using runtime::CodeAccess, runtime::LaunchAccess;

static TuningKey keyOf(const detail::BoundLaunch &reference, std::string code,
                       const std::string &product, const AutotuneOptions &options) {
  TuningKey key;
  key.kernel = std::string(reference.kernel->name());
  key.code = std::move(code);
  key.device = product;
  for (const detail::ArgSpec &spec : reference.kernel->arguments()) {
    key.dtypes += key.dtypes.empty() ? "" : " ";
    key.dtypes += spec.kind == detail::ArgKind::index ? "index" : name_of(spec.dtype);
  }
  key.shape = options.bucket({reference.kernel->arguments(), reference.words.data()});
  return key;
}

TuningKey keyOf(const detail::BoundLaunch &reference, const Device &device,
                const AutotuneOptions &options) {
  return keyOf(reference, CodeAccess::hash(reference, device),
               device.name().starts_with("virtual:") ? device.name() : device.description(),
               options);
}

TuningKey keyOf(const detail::BoundLaunch &reference, const Chip &chip, const std::string &product,
                const AutotuneOptions &options) {
  return keyOf(reference, CodeAccess::hash(reference, chip), product, options);
}

Toolchain toolchainOf(const Device &device) {
  return {compilerVersion(), device.impl()->driverVersion()};
}

Preparation::Preparation(const TuningTask &task, const Device &device, unsigned threads)
    : task(task), device(device),
      threads(threads ? threads : std::max(1u, std::thread::hardware_concurrency())),
      prepared(task.names.size()), done(task.names.size()) {}

void Preparation::estimate(const std::vector<size_t> &candidates,
                           const std::function<bool(size_t, const std::string &)> &isKnown,
                           const std::function<bool()> &over,
                           const std::function<void(size_t)> &progress) {
  std::atomic<size_t> begun = 0, finished = 0;
  auto work = [&](bool shows) {
    for (size_t i; !over() && (i = begun++) < candidates.size();) {
      look(candidates[i], isKnown);
      ++finished;
      if (shows)
        progress(finished);
    }
  };
  const size_t most = std::min<size_t>(threads, candidates.size());
  const auto others = startThreads(most ? most - 1 : 0, [&] { work(false); });
  work(true);
}

void Preparation::look(size_t candidate,
                       const std::function<bool(size_t, const std::string &)> &isKnown) {
  Prepared &result = prepared[candidate];
  result.looked = true;
  try {
    const detail::BoundLaunch launch = task.bind(candidate);
    const CompileOptions options = LaunchAccess::options(launch);
    result.stages = options.stages;
    result.irHash = CodeAccess::hash(launch, device);
    if (isKnown(candidate, result.irHash))
      return;
    const Target target = llvm::cantFail(Target::get(device.target()));
    CodeAccess::trace(launch, target, [&](mlir::ModuleOp module) {
      llvm::Expected<ResourceEstimate> estimate = estimateResources(module, target, options);
      if (!estimate) // compiling says it better
        return llvm::consumeError(estimate.takeError());
      result.sharedBytes = estimate->sharedBytes;
      result.registers = estimate->registers;
      result.plainDots = estimate->plainDots;
      result.excess = estimate->excess;
      if (!result.excess.empty())
        return;
      result.cost = task.predict ? task.predict(candidate) : 0;
      if (result.cost > 0)
        return;
      LaunchProfile profile;
      profile.counters = predictCounters(module, launch, target);
      profile.threads = estimate->threads;
      profile.sharedBytes = estimate->sharedBytes;
      profile.registers = estimate->registers;
      profile.stages = options.stages;
      profile.footprint = footprintOf(launch);
      result.cost = estimateMicroseconds(machineModel(target), target, profile);
    });
  } catch (...) {
    result.error = std::current_exception();
  }
}

void Preparation::start(std::vector<size_t> candidates) {
  order = std::move(candidates);
  next = 0;
  stopped = false;
  const auto work = [this] {
    for (size_t i; !stopped && (i = next++) < order.size();) {
      compile(order[i]);
      std::lock_guard lock(mutex);
      done[order[i]] = true;
      changed.notify_all();
    }
  };
  workers = startThreads(std::min<size_t>(threads, order.size()), work);
  if (workers.empty()) // Whoever waits would wait for ever.
    work();
}

void Preparation::compile(size_t candidate) {
  Prepared &result = prepared[candidate];
  if (result.error)
    return;
  try {
    CompileTimes times;
    {
      runtime::RecordCompileTimes record(times);
      result.kernel = LaunchAccess::load(task.bind(candidate), device);
    }
    double milliseconds = 0;
    for (const auto &[stage, time] : times)
      milliseconds += time;
    // Where there is no more than a trace, the code was there already.
    result.compileMilliseconds = times.size() > 1 ? milliseconds : 0;
    result.sharedBytes = result.kernel->sharedBytes;
  } catch (...) {
    result.error = std::current_exception();
  }
}

void Preparation::wait(size_t candidate) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done[candidate]; });
}

bool Preparation::isDone(size_t candidate) {
  std::lock_guard lock(mutex);
  return done[candidate];
}

void Preparation::finish(const std::function<bool()> &over) {
  {
    std::unique_lock lock(mutex);
    auto finished = [&] {
      return std::all_of(order.begin(), order.end(), [&](size_t i) { return done[i]; });
    };
    // Nobody says when it is over.
    while (!over() && !changed.wait_for(lock, std::chrono::milliseconds(50), finished))
      ;
  }
  stop();
}

void Preparation::stop() {
  stopped = true;
  workers.clear();
}

} // namespace sectile::autotune
