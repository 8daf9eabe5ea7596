// What stands behind Autotuner: the choice of a candidate for a launch, by bucket.
#include "autotune/Session.h"
#include "runtime/Activities.h"
#include "runtime/DeviceImpl.h"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sectile/autotune.h>
#include <shared_mutex>

namespace sectile {

using autotune::Database, autotune::Measurement, autotune::TuningKey;

AutotuneMode autotune_mode() {
  const char *value = std::getenv("SECTILE_AUTOTUNE");
  const std::string_view text = value ? value : "";
  if (text == "off")
    return AutotuneMode::off;
  if (text.empty() || text == "cached")
    return AutotuneMode::cached;
  if (text == "on")
    return AutotuneMode::on;
  throw LaunchError("SECTILE_AUTOTUNE is '" + std::string(text) + "'; it can be off, cached or on");
}

static std::atomic<int> chosenNumerics = -1; // -1: the environment says it

Numerics numerics() {
  if (const int chosen = chosenNumerics; chosen >= 0)
    return static_cast<Numerics>(chosen);
  const char *value = std::getenv("SECTILE_NUMERICS");
  const std::string_view text = value ? value : "";
  if (text == "fixed")
    return Numerics::fixed;
  if (text.empty() || text == "any")
    return Numerics::any;
  throw LaunchError("SECTILE_NUMERICS is '" + std::string(text) + "'; it can be any or fixed");
}

void set_numerics(Numerics numerics) { chosenNumerics = static_cast<int>(numerics); }

const std::uint64_t *LaunchArguments::of(std::size_t argument) const {
  if (argument >= specs_.size())
    throw LaunchError("a bucket rule asks for argument " + std::to_string(argument) +
                      " of a kernel that has " + std::to_string(specs_.size()));
  const std::uint64_t *word = words_;
  for (std::size_t i = 0; i < argument; ++i)
    word += detail::flattenedCount(specs_[i]);
  return word;
}

std::int64_t LaunchArguments::extent(std::size_t argument, int axis) const {
  const std::uint64_t *words = of(argument);
  if (specs_[argument].kind != detail::ArgKind::view || axis < 0 || axis >= specs_[argument].rank)
    throw LaunchError("a bucket rule asks for extent " + std::to_string(axis) + " of argument " +
                      std::to_string(argument) + ", which is no view of such a rank");
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
    throw LaunchError("a bucket rule asks for the value of argument " + std::to_string(argument) +
                      ", which is no integer");
  const unsigned unused = 64 - 8 * static_cast<unsigned>(size_of(spec.dtype));
  if (spec.dtype >= DType::uint8)
    return static_cast<std::int64_t>(word << unused >> unused);
  return static_cast<std::int64_t>(word << unused) >> unused;
}

NamedExtents power_of_two_bucket(const LaunchArguments &arguments) {
  NamedExtents bucket;
  for (std::size_t i = 0; i < arguments.specs().size(); ++i) {
    const detail::ArgSpec &spec = arguments.specs()[i];
    if (spec.kind == detail::ArgKind::view)
      for (int axis = 0; axis < spec.rank; ++axis)
        bucket.emplace_back(std::to_string(i) + "." + std::to_string(axis),
                            next_power_of_two(arguments.extent(i, axis)));
    else if (isInteger(spec))
      bucket.emplace_back(std::to_string(i), next_power_of_two(arguments.value(i)));
  }
  return bucket;
}

namespace detail {

struct AutotunerBase::State {
  const KernelBase &kernel;
  const AutotuneOptions options;
  const AutotuneMode mode;
  const Numerics numerics;
  // Of the candidates those that may be chosen, and what orders their sums.
  std::vector<std::size_t> eligible;
  std::vector<std::string> names, orders;

  using Place = std::pair<const runtime::DeviceImpl *, NamedExtents>;
  struct Settled {
    std::size_t candidate;
    std::uint64_t generation; // of the database, when it was asked
  };
  static constexpr std::size_t mostPlaces = 1024;
  mutable std::shared_mutex mutex; // guards what follows
  std::map<Place, Settled> settled;

  State(const KernelBase &kernel, AutotuneOptions given)
      : kernel(kernel), options(std::move(given)),
        mode(options.mode ? *options.mode : autotune_mode()),
        numerics(options.numerics ? *options.numerics : sectile::numerics()) {}

  // Its numbers are those of the eligible candidates.
  autotune::TuningTask task(const Stream &stream, const TuningKey &key, const Bind &bind) const {
    return {stream, key, names, orders, [&](std::size_t i) { return bind(eligible[i]); }};
  }
  TuningKey keyOf(const BoundLaunch &reference, const Device &device) const {
    return autotune::keyOf(reference, device, options);
  }
  std::optional<std::size_t> bestOf(const std::vector<Measurement> &known) const {
    const auto best = autotune::bestOf(
        names, known, numerics == Numerics::fixed ? std::optional(orders.front()) : std::nullopt);
    return best ? std::optional(eligible[*best]) : std::nullopt;
  }
  // The best that is known for this key; of the nearest where nothing is.
  std::size_t known(const TuningKey &key, const std::vector<Measurement> &exact) const {
    if (const auto best = bestOf(exact))
      return *best;
    if (const auto nearest = Database::get().nearest(key))
      if (const auto best = bestOf(nearest->measurements))
        return *best;
    return 0;
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
  Place placeOf(const Stream &stream, const std::uint64_t *words) const {
    return {stream.impl()->device.get(), options.bucket({kernel.arguments(), words})};
  }
  void settle(Place place, std::size_t candidate, std::uint64_t generation) {
    std::unique_lock lock(mutex);
    if (settled.size() >= mostPlaces && !settled.contains(place))
      settled.clear();
    settled[std::move(place)] = {candidate, generation};
  }
};

AutotunerBase::AutotunerBase(const KernelBase &kernel, AutotuneOptions options)
    : state_(std::make_unique<State>(kernel, std::move(options))) {}
AutotunerBase::~AutotunerBase() = default;

void AutotunerBase::setNames(std::vector<std::string> names) {
  State &state = *state_;
  const std::string reference = autotune::numericsOf(names.front(), state.options.neutral);
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::string order = autotune::numericsOf(names[i], state.options.neutral);
    if (state.numerics == Numerics::fixed && order != reference)
      continue;
    state.eligible.push_back(i);
    state.names.push_back(std::move(names[i]));
    state.orders.push_back(std::move(order));
  }
}

std::optional<std::size_t> AutotunerBase::settled(const Stream &stream,
                                                  const std::uint64_t *words) const {
  const State &state = *state_;
  if (state.mode == AutotuneMode::off || state.names.size() == 1)
    return 0;
  const State::Place place = state.placeOf(stream, words);
  const std::uint64_t generation = Database::get().generation();
  std::shared_lock lock(state.mutex);
  auto found = state.settled.find(place);
  if (found == state.settled.end() || found->second.generation != generation)
    return std::nullopt;
  return found->second.candidate;
}

std::size_t AutotunerBase::settle(const Stream &stream, const Bind &bind) {
  State &state = *state_;
  const Device device = stream.device();
  if (device.name() == "interpreter") // takes no time that could be measured
    return 0;
  const BoundLaunch reference = bind(0);
  const TuningKey key = state.keyOf(reference, device);
  State::Place place = state.placeOf(stream, reference.words.data());
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
      (someRun || !autotune::isTuned(state.names, known, state.options))) {
    // Somebody else may be tuning it: look again once it is ours.
    constexpr std::chrono::hours patience{1};
    const auto lease =
        store.claim(key, state.options.wait ? patience : std::chrono::milliseconds(0));
    activity.done(Activity::Kind::tune, "wait", lease ? "" : "another process tunes it");
    known = state.lookup(key);
    if (!lease)
      return state.known(key, known);
    if (!autotune::isTuned(state.names, known, state.options)) {
      const TuneReport report = autotune::tune(state.task(stream, key, bind), state.options, store);
      if (!report.problem.empty())
        throw DeviceError("tuning kernel '" + key.kernel + "': " + report.problem +
                          "; what was measured is kept, another process goes on from there");
    }
    generation = store.generation();
    known = state.lookup(key);
  }
  const std::size_t candidate = state.known(key, known);
  state.settle(std::move(place), candidate, generation);
  return candidate;
}

TuneReport AutotunerBase::tune(const Stream &stream, const Bind &bind) {
  State &state = *state_;
  const BoundLaunch reference = bind(0);
  const TuningKey key = state.keyOf(reference, stream.device());
  Database &store = Database::get();
  constexpr std::chrono::hours patience{1};
  const auto lease = store.claim(key, patience);
  TuneReport report = autotune::tune(state.task(stream, key, bind), state.options, store);
  const std::uint64_t generation = store.generation();
  if (state.mode != AutotuneMode::off)
    state.settle(state.placeOf(stream, reference.words.data()), state.known(key, state.lookup(key)),
                 generation);
  return report;
}

std::size_t AutotunerBase::bestKnown(const Stream &stream, const Bind &bind) const {
  const State &state = *state_;
  if (state.mode == AutotuneMode::off || state.names.size() == 1)
    return 0;
  const TuningKey key = state.keyOf(bind(0), stream.device());
  return state.known(key, state.lookup(key));
}

} // namespace detail
} // namespace sectile
