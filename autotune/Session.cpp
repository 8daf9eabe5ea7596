// One tuning. What cannot fit is dropped by the static estimate, the rest is compiled by all cores
// while this thread measures what is ready, in order.
#include "autotune/Session.h"
#include "autotune/Interrupt.h"
#include "autotune/Prepare.h"
#include "autotune/Progress.h"
#include "autotune/Runner.h"
#include "runtime/Activities.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <limits>
#include <numeric>
#include <tuple>

namespace sectile::autotune {
namespace {

constexpr unsigned fewRuns = 3, manyRuns = 20;
constexpr double longEnough = 3e5;     // microseconds that all runs of a candidate take
constexpr double hopelessFactor = 1.5; // slower than the best by this, after a few runs

using Clock = std::chrono::steady_clock;

std::string timeText(double microseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g us", microseconds);
  return text;
}

/// A sequence that is the same on every machine.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  size_t below(size_t bound) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % bound;
  }

private:
  uint64_t state;
};

/// Times on one device are taken one at a time.
std::mutex &measuring() {
  static std::mutex mutex;
  return mutex;
}

/// How many runs follow the first few.
unsigned moreRuns(double median) {
  const double runs = longEnough / std::max(median, 1.0) - fewRuns;
  return static_cast<unsigned>(std::clamp<double>(runs, 0, manyRuns - fewRuns));
}

/// Of so many candidates that fit, beside the reference, those that are measured.
size_t howMany(size_t fitting, const AutotuneOptions &options) {
  constexpr size_t fewest = 8; // worth halving
  if (options.candidates)
    return std::min(fitting, options.candidates);
  return options.strategy == Strategy::halving ? std::min(fitting, std::max(fewest, fitting / 2))
                                               : fitting;
}

/// How far apart two configurations are: the doublings between their fields, of which both have the
/// same; 1 for a field that differs and has no number above 0 in both.
double distance(llvm::StringRef one, llvm::StringRef other) {
  double sum = 0;
  while (!one.empty() && !other.empty()) {
    llvm::StringRef a, b;
    std::tie(a, one) = one.split(' ');
    std::tie(b, other) = other.split(' ');
    double x = 0, y = 0;
    const bool areNumbers =
        !a.split('=').second.getAsDouble(x) && !b.split('=').second.getAsDouble(y);
    if (areNumbers && x > 0 && y > 0)
      sum += std::abs(std::log2(x / y));
    else if (a != b)
      ++sum;
  }
  return sum;
}

class Session {
public:
  Session(const TuningTask &task, const AutotuneOptions &options, Database &store)
      : task(task), options(options), store(store), device(task.stream.device()),
        toolchain(toolchainOf(device)), outputs(outputsOf(task.bind(0), device, options)),
        progress(options.quiet ? Progress::Style::Silent : Progress::usualStyle(),
                 task.key.kernel + " " + describe(task.key.shape)),
        earlier(task.names.size()), results(task.names.size()), isKnown(task.names.size()),
        samples(task.names.size()) {}

  TuneReport run();

private:
  bool over() {
    return interrupt.caught() || !problem.empty() ||
           (options.seconds > 0 &&
            std::chrono::duration<double>(Clock::now() - start).count() > options.seconds);
  }
  void readStore();
  void look(Preparation &preparation, std::vector<size_t> candidates);
  std::vector<size_t> chosen(Preparation &preparation);
  void sortByPromise(std::vector<size_t> &order) const;
  void measureAll(Preparation &preparation, const std::vector<size_t> &left);
  void measureReference(Preparation &preparation);
  void chooseMemory(const LoadedCandidate &reference, const OutputBytes &written);
  void check(Preparation &preparation, size_t candidate);
  void time(Preparation &preparation, size_t candidate, unsigned runs);
  void timeMany(Preparation &preparation, size_t candidate);
  void halve(Preparation &preparation, std::vector<size_t> left);
  void fail(size_t candidate, const std::exception &error);
  bool isVirtual() const { return device.name().starts_with("virtual:"); }
  std::unique_ptr<Runner> makeRunner();
  std::unique_ptr<Runner> makeRunnerHere() const {
    return runHere(task.stream, outputs, footprintOf(task.bind(0)), options.deadline);
  }
  void sayHere(const std::string &why) const;
  OutputBytes runReference(const LoadedCandidate &reference);

  LoadedCandidate loaded(const Preparation &preparation, size_t candidate) const {
    const Prepared &prepared = preparation.at(candidate);
    return {task.bindAhead ? task.bindAhead(candidate) : std::vector<detail::BoundLaunch>(),
            task.bind(candidate),
            prepared.kernel,
            {prepared.kernel->threads, prepared.kernel->sharedBytes, prepared.registers,
             prepared.stages}};
  }
  // So many runs more.
  void takeRuns(Measurement &measurement, const LoadedCandidate &ready, size_t candidate,
                unsigned runs) {
    std::optional<Timing> timing = runner->estimate(ready);
    if (!timing) {
      const std::vector<double> more = runner->time(ready, runs);
      samples[candidate].insert(samples[candidate].end(), more.begin(), more.end());
      timing = summarize(samples[candidate]);
    }
    measurement.median = timing->median;
    measurement.spread = timing->spread;
    measurement.runs = timing->runs;
  }
  Measurement &result(const Preparation &preparation, size_t candidate);
  void record(size_t candidate) { store.record(task.key, stamped(*results[candidate])); }
  void recordBegun(size_t candidate);
  static Measurement &stamped(Measurement &measurement);
  template <class Measure> void measure(size_t candidate, Measure &&measure);
  std::optional<double> bestTime() const;
  std::string bestText() const;

  const TuningTask &task;
  const AutotuneOptions &options;
  Database &store;
  const Device device;
  const Toolchain toolchain;
  const std::vector<OutputMemory> outputs;
  std::unique_ptr<Runner> runner; ///< from the reference on
  Progress progress;
  CatchInterrupt interrupt;
  const Clock::time_point start = Clock::now();

  std::vector<std::optional<Measurement>> earlier; ///< of an earlier tuning, maybe of other code
  std::vector<std::optional<Measurement>> results; ///< of every candidate that has one
  std::vector<bool> isKnown;                       ///< from the store
  std::vector<std::vector<double>> samples;
  ExpectedOutputs expected;
  std::optional<OutputBytes> spoiledMemory; ///< what candidates are checked on, if not the user's
  size_t done = 0, total = 0;               ///< that are measured
  std::string problem;
};

// What an earlier tuning found out with this toolchain, by candidate.
void Session::readStore() {
  for (Measurement &measurement : store.lookup(task.key)) {
    const auto found = std::find(task.names.begin(), task.names.end(), measurement.config);
    if (found == task.names.end() || measurement.toolchain != toolchain)
      continue;
    const auto candidate = static_cast<size_t>(found - task.names.begin());
    const std::string &numerics = task.numerics[candidate];
    // What another library thought of its order of sums is of no use here.
    if (measurement.verdict != Verdict::Good || measurement.numerics == numerics ||
        measurement.numerics == otherBits(numerics))
      earlier[candidate] = std::move(measurement);
  }
}

// Estimates what has not been looked at. What is known of the same code is taken over; what cannot
// fit is a result as well.
void Session::look(Preparation &preparation, std::vector<size_t> candidates) {
  std::erase_if(candidates, [&](size_t i) { return preparation.at(i).looked; });
  preparation.estimate(
      candidates,
      [&](size_t i, const std::string &irHash) {
        // The reference is run again, and halving weighs all candidates.
        return i != 0 && options.strategy != Strategy::halving && earlier[i] &&
               earlier[i]->irHash == irHash;
      },
      [&] { return over(); },
      [&](size_t count) { progress.show("looked at", count, candidates.size(), ""); });
  for (size_t i : candidates) {
    const Prepared &prepared = preparation.at(i);
    if (!prepared.looked)
      continue;
    if (earlier[i] && earlier[i]->irHash == prepared.irHash) {
      results[i] = earlier[i];
      isKnown[i] = true;
      continue;
    }
    std::string why = prepared.excess;
    if (why.empty() && prepared.plainDots > preparation.at(0).plainDots)
      why = "its tiles do not fit the matrix instructions that the reference configuration's do";
    if (i == 0 || why.empty())
      continue;
    Measurement &measurement = result(preparation, i);
    measurement.verdict = Verdict::DoesNotFit;
    measurement.message = why;
    record(i);
  }
}

Measurement &Session::result(const Preparation &preparation, size_t candidate) {
  std::optional<Measurement> &result = results[candidate];
  if (result)
    return *result;
  const Prepared &prepared = preparation.at(candidate);
  result.emplace();
  result->config = task.names[candidate];
  result->compileMilliseconds = prepared.compileMilliseconds;
  result->sharedBytes = prepared.sharedBytes;
  if (prepared.kernel) {
    result->registers = prepared.kernel->resources.registers;
    result->spillBytes = prepared.kernel->resources.spillBytes;
  }
  result->irHash = prepared.irHash;
  result->numerics = task.numerics[candidate];
  result->toolchain = toolchain;
  return *result;
}

Measurement &Session::stamped(Measurement &measurement) {
  measurement.when = std::chrono::duration_cast<std::chrono::seconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
  return measurement;
}

// What stays in the store should the candidate take this process with it: whoever tunes next leaves
// it alone.
void Session::recordBegun(size_t candidate) {
  if (runner->isApart())
    return;
  Measurement begun = *results[candidate];
  begun.verdict = Verdict::Unfinished;
  begun.message = "it ended the process that ran it, unless that is at it still";
  begun.median = begun.spread = 0;
  begun.runs = 0;
  store.record(task.key, stamped(begun));
}

std::optional<double> Session::bestTime() const {
  std::optional<double> best;
  for (const auto &result : results)
    if (result && result->verdict == Verdict::Good && (!best || result->median < *best))
      best = result->median;
  return best;
}

std::string Session::bestText() const {
  const Measurement *best = nullptr;
  for (const auto &result : results)
    if (result && result->verdict == Verdict::Good && (!best || result->median < best->median))
      best = &*result;
  return best ? timeText(best->median) + " " + best->config : "";
}

// A limit may leave out the last ones. So those come first that a model of the kernel says are
// fast, or that are near the reference configuration, which was chosen for such calls.
void Session::sortByPromise(std::vector<size_t> &order) const {
  std::vector<std::tuple<double, double, size_t>> keys;
  for (size_t i : order) {
    const double time = task.predict ? task.predict(i) : 0;
    keys.emplace_back(time > 0 ? time : std::numeric_limits<double>::infinity(),
                      distance(task.names[i], task.names[0]), i);
  }
  std::sort(keys.begin(), keys.end());
  std::transform(keys.begin(), keys.end(), order.begin(),
                 [](const auto &key) { return std::get<size_t>(key); });
}

// What is to be measured, in order, after the reference.
std::vector<size_t> Session::chosen(Preparation &preparation) {
  std::vector<size_t> order(task.names.size() - 1);
  std::iota(order.begin(), order.end(), size_t{1});
  if (options.strategy == Strategy::random) {
    Random random(options.seed);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random.below(i)]);
  } else if (options.strategy == Strategy::exhaustive) {
    sortByPromise(order);
  }
  auto fits = [&](size_t i) {
    return preparation.at(i).looked && (!results[i] || results[i]->verdict != Verdict::DoesNotFit);
  };
  std::vector<size_t> left;
  if (options.strategy == Strategy::halving) {
    look(preparation, order);
    std::copy_if(order.begin(), order.end(), std::back_inserter(left), fits);
    std::sort(left.begin(), left.end(), [&](size_t a, size_t b) {
      return std::pair(preparation.at(a).cost, a) < std::pair(preparation.at(b).cost, b);
    });
    left.resize(howMany(left.size(), options));
  } else {
    // As many as are wanted, and more where some of them do not fit.
    const size_t wanted = howMany(order.size(), options);
    for (auto next = order.begin(); next != order.end() && left.size() < wanted && !over();) {
      const auto end = next + std::min<ptrdiff_t>(order.end() - next, wanted - left.size());
      look(preparation, {next, end});
      std::copy_if(next, end, std::back_inserter(left), fits);
      next = end;
    }
  }
  std::erase_if(left, [&](size_t i) { return results[i].has_value(); });
  return left;
}

void Session::fail(size_t candidate, const std::exception &error) {
  Measurement &measurement = *results[candidate];
  measurement.verdict =
      dynamic_cast<const runtime::DeadlinePassed *>(&error) ? Verdict::TimedOut : Verdict::Failed;
  measurement.message = error.what();
  if (dynamic_cast<const DeviceError *>(&error) && !runner->works())
    problem = std::string("after '") + task.names[candidate] +
              "' the device can do no more: " + error.what();
}

// Another process measures where it can: what hangs or faults is nothing to this one then. A
// virtual device bears everything.
std::unique_ptr<Runner> Session::makeRunner() {
  if (options.apart && !isVirtual())
    try {
      return runApart(device, outputs, task.bind(0), options.deadline);
    } catch (const Error &error) {
      sayHere(error.what());
    }
  return makeRunnerHere();
}

void Session::sayHere(const std::string &why) const {
  if (!options.quiet)
    std::cerr << "sectile: kernel '" << task.key.kernel << "' is measured in this process: " << why
              << std::endl;
}

// What the reference cannot do in another process, as where its memory holds addresses, it may well
// do here: that is what would run without a tuning.
OutputBytes Session::runReference(const LoadedCandidate &reference) {
  try {
    return runner->run(reference);
  } catch (const runtime::DeadlinePassed &) {
    throw;
  } catch (const Error &error) {
    if (!runner->isApart())
      throw;
    sayHere(error.what());
  }
  runner = makeRunnerHere();
  return runner->run(reference);
}

void Session::measureReference(Preparation &preparation) {
  preparation.wait(0);
  if (preparation.at(0).error)
    std::rethrow_exception(preparation.at(0).error);
  std::lock_guard lock(measuring());
  runner = makeRunner();
  const LoadedCandidate reference = loaded(preparation, 0);
  const OutputBytes written = runReference(reference);
  expected = ExpectedOutputs(outputs, written);
  chooseMemory(reference, written);
  if (results[0])
    return;
  measure(0, [&] {
    Measurement &measurement = result(preparation, 0);
    takeRuns(measurement, reference, 0, fewRuns);
    if (const unsigned runs = isVirtual() ? 0 : moreRuns(measurement.median))
      takeRuns(measurement, reference, 0, runs);
  });
}

// The user's memory may hold what is right already, of an earlier launch: then a candidate that
// writes nothing would not be noticed. So candidates find it spoiled wherever the reference writes
// the same whatever was there.
void Session::chooseMemory(const LoadedCandidate &reference, const OutputBytes &written) {
  const OutputBytes before = runner->before(), spoil = spoiled(outputs, before);
  if (spoil == before)
    return;
  try {
    const OutputBytes other = runner->run(reference, &spoil);
    spoiledMemory = spoiledWhereWritten(before, written, spoil, other, outputs);
    if (!expected.compare(runner->run(reference, &*spoiledMemory), options.tolerance))
      return;
  } catch (const DeviceError &) { // it read what was spoiled
    if (!runner->works())
      throw;
  }
  spoiledMemory.reset();
  runner->run(reference);
}

// Runs it once, and holds what it wrote against what the reference wrote.
void Session::check(Preparation &preparation, size_t candidate) {
  preparation.wait(candidate);
  Measurement &measurement = result(preparation, candidate);
  std::lock_guard lock(measuring());
  try {
    if (preparation.at(candidate).error)
      std::rethrow_exception(preparation.at(candidate).error);
    recordBegun(candidate);
    const LoadedCandidate ready = loaded(preparation, candidate);
    const OutputBytes written = runner->run(ready, spoiledMemory ? &*spoiledMemory : nullptr);
    if (auto why = expected.compare(written, options.tolerance)) {
      measurement.verdict = Verdict::Wrong;
      measurement.message = *why;
      return;
    }
    if (measurement.numerics == task.numerics[0] && !expected.sameBits(written))
      measurement.numerics = otherBits(measurement.numerics);
    takeRuns(measurement, ready, candidate, fewRuns);
  } catch (const std::exception &error) {
    fail(candidate, error);
  }
}

// One candidate's turn: what comes of it is recorded, shown and told.
template <class Measure> void Session::measure(size_t candidate, Measure &&measure) {
  runtime::Activities activity(task.key.kernel, device.name(),
                               [&] { return task.names[candidate]; });
  measure();
  record(candidate);
  const Measurement &measurement = *results[candidate];
  activity.done(Activity::Kind::tune, "candidate",
                measurement.verdict == Verdict::Good
                    ? timeText(measurement.median)
                    : std::string(name(measurement.verdict)) + ": " + measurement.message);
  progress.show("measured", ++done, total, bestText());
}

void Session::timeMany(Preparation &preparation, size_t candidate) {
  const std::optional<double> best = bestTime();
  check(preparation, candidate);
  Measurement &measurement = *results[candidate];
  if (measurement.verdict != Verdict::Good || isVirtual())
    return;
  if (best && measurement.median > hopelessFactor * *best) {
    measurement.verdict = Verdict::Hopeless;
    measurement.message = "after " + std::to_string(measurement.runs) + " runs at " +
                          timeText(measurement.median) + ", the best at " + timeText(*best);
    return;
  }
  if (const unsigned runs = moreRuns(measurement.median))
    time(preparation, candidate, runs);
}

void Session::time(Preparation &preparation, size_t candidate, unsigned runs) {
  std::lock_guard lock(measuring());
  try {
    takeRuns(*results[candidate], loaded(preparation, candidate), candidate, runs);
  } catch (const std::exception &error) {
    fail(candidate, error);
  }
}

// Compiles and measures, the reference first. Where the model gives times, what is compiled is
// measured while the rest still is. On a device compiling would disturb: it comes first, or in
// parts where time is limited.
void Session::measureAll(Preparation &preparation, const std::vector<size_t> &left) {
  std::vector<size_t> order = left;
  order.insert(order.begin(), 0);
  total = left.size() + !results[0];
  const bool disturbs = !isVirtual();
  const size_t part =
      disturbs && options.seconds > 0 ? size_t{4} * preparation.threadCount() : order.size();
  for (size_t begin = 0; begin < order.size(); begin += part) {
    const size_t end = std::min(order.size(), begin + part);
    preparation.start({order.begin() + ptrdiff_t(begin), order.begin() + ptrdiff_t(end)});
    if (disturbs)
      preparation.finish([&] { return over(); });
    for (size_t i = begin; i < end; ++i) {
      if (order[i] != 0 ? over() : disturbs && !preparation.isDone(0))
        return;
      if (order[i] == 0)
        measureReference(preparation);
      else if (options.strategy == Strategy::halving)
        measure(order[i], [&] { check(preparation, order[i]); });
      else
        measure(order[i], [&] { timeMany(preparation, order[i]); });
    }
    preparation.stop();
  }
}

// Twice the runs for the better half, until two are left.
void Session::halve(Preparation &preparation, std::vector<size_t> left) {
  std::erase_if(left,
                [&](size_t i) { return !results[i] || results[i]->verdict != Verdict::Good; });
  for (unsigned runs = 2 * fewRuns; left.size() > 2; runs *= 2) {
    std::sort(left.begin(), left.end(), [&](size_t a, size_t b) {
      return std::pair(results[a]->median, a) < std::pair(results[b]->median, b);
    });
    const double best = results[left.front()]->median;
    const size_t keep = (left.size() + 1) / 2;
    for (size_t i = keep; i < left.size(); ++i) {
      Measurement &measurement = *results[left[i]];
      measurement.verdict = Verdict::Hopeless;
      measurement.message = "in the slower half after " + std::to_string(measurement.runs) +
                            " runs; the best then took " + timeText(best);
      record(left[i]);
    }
    left.resize(keep);
    for (size_t candidate : left) {
      if (over())
        return;
      recordBegun(candidate);
      time(preparation, candidate, runs);
      record(candidate);
    }
    std::erase_if(left, [&](size_t i) { return results[i]->verdict != Verdict::Good; });
  }
}

TuneReport Session::run() {
  Preparation preparation(task, device, options.threads);
  readStore();
  std::vector<size_t> known{0};
  for (size_t i = 1; i < earlier.size(); ++i)
    if (earlier[i])
      known.push_back(i);
  look(preparation, known);
  std::vector<size_t> left = chosen(preparation);
  if (!preparation.at(0).looked)
    left.clear(); // there was not even time for that
  else if (!left.empty() || !results[0])
    measureAll(preparation, left);
  if (options.strategy == Strategy::halving && !isVirtual())
    halve(preparation, std::move(left));

  TuneReport report;
  report.kernel = task.key.kernel;
  report.device = task.key.device;
  report.bucket = task.key.shape;
  report.interrupted = interrupt.caught();
  report.problem = problem;
  const Measurement *best = nullptr;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i])
      continue;
    const Measurement &m = *results[i];
    if (m.verdict == Verdict::Good &&
        (!best || std::tie(m.median, m.config) < std::tie(best->median, best->config))) {
      best = &m;
      report.best = report.rows.size();
    }
    report.rows.push_back({m.config, m.numerics, static_cast<TuneVerdict>(m.verdict), m.message,
                           m.median, m.spread, m.runs, m.compileMilliseconds, m.registers,
                           m.spillBytes, m.sharedBytes, isKnown[i]});
  }
  return report;
}

} // namespace

TuneReport tune(const TuningTask &task, const AutotuneOptions &options, Database &store) {
  if (task.stream.device().name() == "interpreter")
    throw LaunchError("the interpreter takes no time that could be measured: tune on a device or a "
                      "virtual one, as in virtual:sm_90a");
  if (task.stream.impl()->device->captureOf(task.stream.native()))
    throw LaunchError("kernel '" + task.key.kernel +
                      "' would be tuned in a capture, which tuning would end: tune or prepare it "
                      "before (sectile::prepare), or set SECTILE_AUTOTUNE=cached");
  return Session(task, options, store).run();
}

bool isTuned(const std::vector<std::string> &names, const std::vector<Measurement> &known,
             const AutotuneOptions &options) {
  size_t measured = 0, fitting = names.size();
  for (const std::string &name : names)
    for (const Measurement &measurement : known)
      if (measurement.config == name && measurement.verdict == Verdict::DoesNotFit)
        --fitting;
      else if (measurement.config == name)
        ++measured;
  if (options.seconds > 0)
    return measured > 0;
  return measured >= 1 + howMany(fitting - 1, options);
}

} // namespace sectile::autotune
