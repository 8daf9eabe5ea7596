// What stands behind Autotuner: the choice of a candidate for a launch, by bucket.
#include "autotune/Session.h"
#include "runtime/Activities.h"
#include "runtime/DeviceImpl.h"
#include <algorithm>
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
  if (text == "cached")
    return AutotuneMode::cached;
  if (text.empty() || text == "on")
    return AutotuneMode::on;
  throw LaunchError("SECTILE_AUTOTUNE is '" + std::string(text) + "'; it can be off, cached or on");
}

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
  std::vector<std::string> names;

  using Place = std::pair<const runtime::DeviceImpl *, NamedExtents>;
  mutable std::shared_mutex mutex; // guards what follows
  std::map<Place, std::size_t> settled;

  State(const KernelBase &kernel, AutotuneOptions given)
      : kernel(kernel), options(std::move(given)),
        mode(options.mode ? *options.mode : autotune_mode()) {}

  TuningKey keyOf(const BoundLaunch &reference, const Device &device) const {
    return autotune::keyOf(reference, device, options);
  }
  // The best that is known for this key; of the nearest where nothing is.
  std::size_t known(const TuningKey &key, const std::vector<Measurement> &exact) const {
    if (const auto best = autotune::bestOf(names, exact))
      return *best;
    if (const auto nearest = Database::get().nearest(key))
      if (const auto best = autotune::bestOf(names, nearest->measurements))
        return *best;
    return 0;
  }
  void settle(const BoundLaunch &reference, const Stream &stream, std::size_t candidate) {
    const NamedExtents bucket =
        options.bucket(LaunchArguments(kernel.arguments(), reference.words.data()));
    std::unique_lock lock(mutex);
    settled[{stream.impl()->device.get(), bucket}] = candidate;
  }
};

AutotunerBase::AutotunerBase(const KernelBase &kernel, AutotuneOptions options)
    : state_(std::make_unique<State>(kernel, std::move(options))) {}
AutotunerBase::~AutotunerBase() = default;

void AutotunerBase::setNames(std::vector<std::string> names) { state_->names = std::move(names); }

std::optional<std::size_t> AutotunerBase::settled(const Stream &stream,
                                                  const std::uint64_t *words) const {
  const State &state = *state_;
  if (state.mode == AutotuneMode::off || state.names.size() == 1)
    return 0;
  const State::Place place{stream.impl()->device.get(),
                           state.options.bucket({state.kernel.arguments(), words})};
  std::shared_lock lock(state.mutex);
  auto found = state.settled.find(place);
  return found == state.settled.end() ? std::nullopt : std::optional(found->second);
}

std::size_t AutotunerBase::settle(const Stream &stream, const Bind &bind) {
  State &state = *state_;
  const Device device = stream.device();
  if (device.name() == "interpreter") // takes no time that could be measured
    return 0;
  const BoundLaunch reference = bind(0);
  const TuningKey key = state.keyOf(reference, device);
  Database &store = Database::get();
  runtime::Activities activity(key.kernel, device.name(),
                               [&] { return autotune::describe(key.shape); });
  std::vector<Measurement> known = store.lookup(key);
  activity.done(Activity::Kind::tune, "lookup", std::to_string(known.size()) + " are known");
  std::size_t candidate = 0;
  const bool someRun = std::any_of(known.begin(), known.end(), [](const Measurement &measurement) {
    return measurement.verdict == autotune::Verdict::Unfinished;
  });
  if (state.mode == AutotuneMode::on &&
      (someRun || !autotune::isTuned(state.names, known, state.options))) {
    // Somebody else may be tuning it: look again once it is ours.
    constexpr std::chrono::hours patience{1};
    const auto lease =
        store.claim(key, state.options.wait ? patience : std::chrono::milliseconds(0));
    activity.done(Activity::Kind::tune, "wait", lease ? "" : "another process tunes it");
    known = store.lookup(key);
    if (!lease)
      return state.known(key, known);
    if (!autotune::isTuned(state.names, known, state.options)) {
      const TuneReport report =
          autotune::tune({stream, key, state.names, bind}, state.options, store);
      if (!report.problem.empty())
        throw DeviceError("tuning kernel '" + key.kernel + "': " + report.problem +
                          "; what was measured is kept, another process goes on from there");
      known = store.lookup(key);
    }
  }
  candidate = state.known(key, known);
  state.settle(reference, stream, candidate);
  return candidate;
}

TuneReport AutotunerBase::tune(const Stream &stream, const Bind &bind) {
  State &state = *state_;
  const BoundLaunch reference = bind(0);
  const TuningKey key = state.keyOf(reference, stream.device());
  Database &store = Database::get();
  constexpr std::chrono::hours patience{1};
  const auto lease = store.claim(key, patience);
  TuneReport report = autotune::tune({stream, key, state.names, bind}, state.options, store);
  if (state.mode != AutotuneMode::off)
    state.settle(reference, stream, state.known(key, store.lookup(key)));
  return report;
}

std::size_t AutotunerBase::bestKnown(const Stream &stream, const Bind &bind) const {
  const State &state = *state_;
  if (state.mode == AutotuneMode::off || state.names.size() == 1)
    return 0;
  const TuningKey key = state.keyOf(bind(0), stream.device());
  return state.known(key, Database::get().lookup(key));
}

} // namespace detail
} // namespace sectile
