// What stands behind Autotuner: the choice of a candidate for a launch, by bucket.
#include "autotune/Session.h"
#include "runtime/Activities.h"
#include "runtime/DeviceImpl.h"
#include <algorithm>
#include <iostream>
#include <map>
#include <mutex>
#include <sectile/autotune.h>
#include <shared_mutex>

namespace sectile {

using autotune::Database, autotune::Measurement, autotune::TuningKey;

const std::uint64_t *LaunchArguments::of(std::size_t argument) const {
  if (argument >= specs_.size())
    throw LaunchError("a bucket rule or a space's predicate asks for argument " +
                      std::to_string(argument) + " of a kernel that has " +
                      std::to_string(specs_.size()));
  const std::uint64_t *word = words_;
  for (std::size_t i = 0; i < argument; ++i)
    word += detail::flattenedCount(specs_[i]);
  return word;
}

std::int64_t LaunchArguments::extent(std::size_t argument, int axis) const {
  const std::uint64_t *words = of(argument);
  if (specs_[argument].kind != detail::ArgKind::view || axis < 0 || axis >= specs_[argument].rank)
    throw LaunchError("a bucket rule or a space's predicate asks for extent " +
                      std::to_string(axis) + " of argument " + std::to_string(argument) +
                      ", which is no view of such a rank");
  return static_cast<std::int64_t>(words[1 + axis]);
}

static bool isInteger(const detail::ArgSpec &spec) {
  return spec.kind == detail::ArgKind::index ||
         (spec.kind == detail::ArgKind::scalar && spec.dtype >= DType::int8 &&
          spec.dtype <= DType::uint64);
}

std::int64_t LaunchArguments::value(std::size_t argument) const {
  const std::uint64_t word = *of(argument);
  const detail::ArgSpec &spec = specs_[argument];
  if (!isInteger(spec))
    throw LaunchError("a bucket rule or a space's predicate asks for the value of argument " +
                      std::to_string(argument) + ", which is no integer");
  const unsigned unused = 64 - 8 * static_cast<unsigned>(size_of(spec.dtype));
  if (spec.dtype >= DType::uint8)
    return static_cast<std::int64_t>(word << unused >> unused);
  return static_cast<std::int64_t>(word << unused) >> unused;
}

// Extents of views and integers, as `rounded` has them.
static NamedExtents extentsOf(const LaunchArguments &arguments, const std::string &prefix,
                              std::int64_t (*rounded)(std::int64_t)) {
  NamedExtents extents;
  for (std::size_t i = 0; i < arguments.specs().size(); ++i) {
    const detail::ArgSpec &spec = arguments.specs()[i];
    const std::string name = prefix + std::to_string(i);
    if (spec.kind == detail::ArgKind::view)
      for (int axis = 0; axis < spec.rank; ++axis)
        extents.emplace_back(name + "." + std::to_string(axis), rounded(arguments.extent(i, axis)));
    else if (isInteger(spec))
      extents.emplace_back(name, rounded(arguments.value(i)));
  }
  return extents;
}

NamedExtents power_of_two_bucket(const LaunchArguments &arguments) {
  return extentsOf(arguments, "", next_power_of_two);
}

// A bucket for each shape. Its names are others than those of rounded extents.
static NamedExtents exactBucket(const LaunchArguments &arguments) {
  return extentsOf(arguments, "exactly ", [](std::int64_t extent) { return extent; });
}

namespace detail {

struct AutotunerBase::State {
  const KernelBase &kernel;
  AutotuneOptions options;
  const AutotuneMode mode;
  const Numerics numerics;
  // Of all candidates.
  std::vector<std::string> names, orders; // what orders their sums
  Holds holds;
  bool captures = false; // nothing is known of a shape from another one
  bool isSingle = false; // no launch has a choice

  // A candidate that some launches of a bucket may take.
  struct Ranked {
    std::size_t candidate;
    std::string order;
  };
  using Place = std::pair<const runtime::DeviceImpl *, NamedExtents>;
  struct Settled {
    std::vector<Ranked> ranking; // the best first; it ends with all candidates
    std::uint64_t generation;    // of the database, when it was asked
  };
  static constexpr std::size_t mostPlaces = 1024;
  mutable std::shared_mutex mutex; // guards what follows
  std::map<Place, Settled> settled;

  State(const KernelBase &kernel, AutotuneOptions given)
      : kernel(kernel), options(std::move(given)),
        mode(options.mode ? *options.mode : autotune_mode()),
        numerics(options.numerics ? *options.numerics : sectile::numerics()) {}

  bool isValid(std::size_t candidate, const std::uint64_t *words) const {
    return !holds || holds(candidate, {kernel.arguments(), words});
  }
  // The reference configuration of a launch.
  std::size_t reference(const std::uint64_t *words) const {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (isValid(i, words))
        return i;
    throw LaunchError("kernel '" + std::string(kernel.name()) +
                      "': the predicates of its space hold for no " +
                      "configuration of a launch with " +
                      autotune::describe(extentsOf({kernel.arguments(), words}, "",
                                                   [](std::int64_t extent) { return extent; })) +
                      "; add one that is valid for all launches");
  }
  // Whether a launch with this reference configuration may take the candidate.
  bool isEligible(std::size_t candidate, const std::string &order, std::size_t reference,
                  const std::uint64_t *words) const {
    return (numerics == Numerics::any || order == orders[reference]) && isValid(candidate, words);
  }
  // The first of the ranking that this launch may take.
  std::size_t choose(const std::vector<Ranked> &ranking, const std::uint64_t *words) const {
    const std::size_t first = reference(words);
    for (const Ranked &each : ranking)
      if (isEligible(each.candidate, each.order, first, words))
        return each.candidate;
    return first;
  }

  // The candidates that a launch may take, its reference configuration first.
  struct Eligible {
    std::vector<std::size_t> candidates;
    std::vector<std::string> names, orders;
  };
  Eligible eligible(const std::uint64_t *words) const {
    Eligible result;
    const std::size_t first = reference(words);
    for (std::size_t i = first; i < names.size(); ++i)
      if (isEligible(i, orders[i], first, words)) {
        result.candidates.push_back(i);
        result.names.push_back(names[i]);
        result.orders.push_back(orders[i]);
      }
    return result;
  }
  autotune::TuningTask task(const Stream &stream, const TuningKey &key, const Bind &bind,
                            const Eligible &eligible) const {
    return {stream, key, eligible.names, eligible.orders,
            [&](std::size_t i) { return bind(eligible.candidates[i]); }};
  }
  // The kernel's own configuration stands for its code, whatever a launch may take.
  TuningKey keyOf(const BoundLaunch &own, const Device &device) const {
    return autotune::keyOf(own, device, options);
  }
  // What is known of this bucket, then of others by their distance, then all candidates in order.
  // The last may be chosen unmeasured; the launch's reference configuration is the first of them.
  std::vector<Ranked> rank(const TuningKey &key, const std::vector<Measurement> &exact) const {
    std::vector<Ranked> ranking;
    // Launches have the same choice, so that one good candidate is enough.
    const auto isDone = [&] {
      return !holds && std::any_of(ranking.begin(), ranking.end(), [&](const Ranked &each) {
        return numerics == Numerics::any || each.order == orders.front();
      });
    };
    const auto take = [&](const std::vector<Measurement> &known) {
      for (const Measurement &measurement : known) { // the best first
        const auto name = std::find(names.begin(), names.end(), measurement.config);
        if (measurement.verdict == autotune::Verdict::Good && name != names.end())
          ranking.push_back({static_cast<std::size_t>(name - names.begin()), measurement.numerics});
      }
    };
    take(exact);
    if (!captures && !isDone())
      Database::get().nearby(key, [&](const Database::Neighbour &neighbour) {
        take(neighbour.measurements);
        return !isDone();
      });
    for (std::size_t i = 0; i < names.size(); ++i)
      ranking.push_back({i, orders[i]});
    return ranking;
  }
  // All that is of use here; the order of sums may not be known of what is old.
  std::vector<Measurement> lookup(const TuningKey &key) const {
    std::vector<Measurement> known = Database::get().lookup(key);
    if (numerics == Numerics::fixed)
      std::erase_if(known, [](const Measurement &measurement) {
        return measurement.verdict == autotune::Verdict::Good && measurement.numerics.empty();
      });
    return known;
  }
  TuneReport tune(const Stream &stream, const TuningKey &key, const Bind &bind,
                  const Eligible &eligible) const {
    if (captures && !options.quiet)
      std::cerr << "sectile: kernel '" << key.kernel << "' is tuned for each shape by itself, "
                << "because a predicate of its space captures variables; one that takes the "
                << "LaunchArguments shares what is measured" << std::endl;
    return autotune::tune(task(stream, key, bind, eligible), options, Database::get());
  }
  Place placeOf(const Stream &stream, const std::uint64_t *words) const {
    return {stream.impl()->device.get(), options.bucket({kernel.arguments(), words})};
  }
  void remember(Place place, std::vector<Ranked> ranking, std::uint64_t generation) {
    std::unique_lock lock(mutex);
    if (settled.size() >= mostPlaces && !settled.contains(place))
      settled.clear();
    settled[std::move(place)] = {std::move(ranking), generation};
  }
};

AutotunerBase::AutotunerBase(const KernelBase &kernel, AutotuneOptions options)
    : state_(std::make_unique<State>(kernel, std::move(options))) {}
AutotunerBase::~AutotunerBase() = default;

void AutotunerBase::setCandidates(std::vector<std::string> names, Holds holds, bool captures) {
  State &state = *state_;
  for (const std::string &name : names)
    state.orders.push_back(autotune::numericsOf(name, state.options.neutral));
  state.names = std::move(names);
  state.holds = std::move(holds);
  state.captures = captures;
  if (captures)
    state.options.bucket = exactBucket;
  state.isSingle = state.names.size() == 1 || (!state.holds && state.numerics == Numerics::fixed &&
                                               std::count(state.orders.begin(), state.orders.end(),
                                                          state.orders.front()) == 1);
}

std::optional<std::size_t> AutotunerBase::settled(const Stream &stream,
                                                  const std::uint64_t *words) const {
  const State &state = *state_;
  if (state.mode == AutotuneMode::off || state.isSingle)
    return state.reference(words);
  const State::Place place = state.placeOf(stream, words);
  const std::uint64_t generation = Database::get().generation();
  std::shared_lock lock(state.mutex);
  auto found = state.settled.find(place);
  if (found == state.settled.end() || found->second.generation != generation)
    return std::nullopt;
  return state.choose(found->second.ranking, words);
}

std::size_t AutotunerBase::choose(const Stream &stream, const std::uint64_t *words,
                                  const Bind &bind) {
  State &state = *state_;
  const Device device = stream.device();
  if (device.name() == "interpreter") // takes no time that could be measured
    return state.reference(words);
  const State::Eligible eligible = state.eligible(words);
  const TuningKey key = state.keyOf(bind(0), device);
  State::Place place = state.placeOf(stream, words);
  Database &store = Database::get();
  runtime::Activities activity(key.kernel, device.name(),
                               [&] { return autotune::describe(key.shape); });
  std::uint64_t generation = store.generation();
  std::vector<Measurement> known = state.lookup(key);
  activity.done(Activity::Kind::tune, "lookup", std::to_string(known.size()) + " are known");
  const bool someRun = std::any_of(known.begin(), known.end(), [](const Measurement &measurement) {
    return measurement.verdict == autotune::Verdict::Unfinished;
  });
  const bool isNew = [&] { // else somebody recorded something since, which is no reason to tune
    std::shared_lock lock(state.mutex);
    return !state.settled.contains(place);
  }();
  if (state.mode == AutotuneMode::on && isNew &&
      (someRun || !autotune::isTuned(eligible.names, known, state.options))) {
    // Somebody else may be tuning it: look again once it is ours.
    constexpr std::chrono::hours patience{1};
    const auto lease =
        store.claim(key, state.options.wait ? patience : std::chrono::milliseconds(0));
    activity.done(Activity::Kind::tune, "wait", lease ? "" : "another process tunes it");
    known = state.lookup(key);
    if (!lease)
      return state.choose(state.rank(key, known), words);
    if (!autotune::isTuned(eligible.names, known, state.options)) {
      const TuneReport report = state.tune(stream, key, bind, eligible);
      if (!report.problem.empty())
        throw DeviceError("tuning kernel '" + key.kernel + "': " + report.problem +
                          "; what was measured is kept, another process goes on from there");
    }
    generation = store.generation();
    known = state.lookup(key);
  }
  std::vector<State::Ranked> ranking = state.rank(key, known);
  const std::size_t candidate = state.choose(ranking, words);
  state.remember(std::move(place), std::move(ranking), generation);
  return candidate;
}

TuneReport AutotunerBase::tune(const Stream &stream, const Bind &bind) {
  State &state = *state_;
  const BoundLaunch own = bind(0);
  const std::uint64_t *words = own.words.data();
  const State::Eligible eligible = state.eligible(words);
  const TuningKey key = state.keyOf(own, stream.device());
  Database &store = Database::get();
  constexpr std::chrono::hours patience{1};
  const auto lease = store.claim(key, patience);
  TuneReport report = state.tune(stream, key, bind, eligible);
  const std::uint64_t generation = store.generation();
  if (state.mode != AutotuneMode::off)
    state.remember(state.placeOf(stream, words), state.rank(key, state.lookup(key)), generation);
  return report;
}

std::size_t AutotunerBase::bestKnown(const Stream &stream, const Bind &bind) const {
  const State &state = *state_;
  const BoundLaunch own = bind(0);
  const std::uint64_t *words = own.words.data();
  if (state.mode == AutotuneMode::off || state.isSingle)
    return state.reference(words);
  const TuningKey key = state.keyOf(own, stream.device());
  return state.choose(state.rank(key, state.lookup(key)), words);
}

} // namespace detail
} // namespace sectile
