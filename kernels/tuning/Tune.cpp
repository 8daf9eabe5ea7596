// Tuning the library's kernels.
#include "kernels/tuning/Tune.h"
#include "autotune/Measure.h"
#include "autotune/Session.h"
#include "kernels/calls/Execute.h"
#include "kernels/calls/Use.h"
#include <memory>
#include <mutex>
#include <sectile/error.h>
#include <unordered_map>

using namespace sectile;
using autotune::Database, autotune::TuningKey, autotune::TuningTask;

namespace {

std::vector<detail::Memory> makeArguments(const Invocation &call, const Device &device) {
  const std::vector<HostArray> inputs = sampleInputs(call, 1);
  std::vector<detail::Memory> memory;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const auto &[dtype, shape, strides, present] = call.tensors[i];
    if (!present) {
      memory.emplace_back();
      continue;
    }
    HostArray array = i < inputs.size() ? inputs[i] : HostArray(dtype, shape);
    if (array.data.empty())
      throw InputError(call.kernel->name + ": '" + call.kernel->arguments[i].name +
                       "' has no elements, there is nothing to tune");
    if (call.kernel->arguments[i].output)
      std::fill(array.data.begin(), array.data.end(), std::byte{0xff});
    memory.emplace_back(device, array.data.size()).upload(array.data.data());
  }
  return memory;
}

// Where something is tuned: a device, or a chip whose device is elsewhere.
struct TunedOn {
  explicit TunedOn(const Device &device) : device(&device), target(device.target()) {}
  TunedOn(const Chip &chip, const std::string &product)
      : chip(&chip), target(chip.name), product(product) {}

  const Device *device = nullptr;
  const Chip *chip = nullptr;
  std::string target, product;
};

// The code is that of the kernel's own choice for typical extents: the same for all shapes. None
// where neither they nor the call need such a launch.
std::optional<TuningKey> keyFor(const Invocation &call, const SearchSpace &space,
                                const TunedOn &on) {
  std::map<std::string, std::int64_t> extents;
  for (const char *width : {"D", "Dk", "Dv"}) // of heads: decide what the code holds
    if (call.extents.contains(width))
      extents[width] = call.extent(width);
  const Invocation typical = [&] {
    try {
      return typicalOf(call, extents);
    } catch (const InputError &) {
      return call; // typical extents need not go with all options
    }
  }();
  AutotuneOptions rule;
  rule.bucket = [&](const LaunchArguments &) { return bucketOf(call); };
  BoundKernel bound = bindKernel(typical, call.kernel->defaults(typical, on.target));
  if (!bound.find(space.part))
    bound = bindKernel(call, call.kernel->defaults(call, on.target));
  if (!bound.find(space.part))
    return {};
  const detail::BoundLaunch &part = bound.part(space.part);
  TuningKey key = on.device ? autotune::keyOf(part, *on.device, rule)
                            : autotune::keyOf(part, *on.chip, on.product, rule);
  // Another kernel's launch does not do here what it does there.
  if (!key.kernel.starts_with(call.kernel->name))
    key.kernel = call.kernel->name + ", " + key.kernel;
  return key;
}

std::vector<std::string> namesOf(const KernelSpec &kernel, std::span<const Config> configs) {
  std::vector<std::string> names;
  for (const Config &config : configs)
    names.push_back(describe(kernel, config));
  return names;
}

std::vector<std::string> ordersOf(const KernelSpec &kernel, std::span<const Config> configs) {
  std::vector<std::string> orders;
  for (const Config &config : configs)
    orders.push_back(orderOf(kernel, config));
  return orders;
}

// What the database knows of the search spaces for the calls of one bucket.
struct Known {
  std::vector<std::optional<TuningKey>> keys;    // none: they do without this space
  std::vector<std::vector<KnownConfig>> bySpace; // fastest first
};

std::vector<std::optional<TuningKey>> keysOf(const Invocation &call, const TunedOn &on) {
  std::vector<std::optional<TuningKey>> keys;
  for (const SearchSpace &space : call.kernel->spaces)
    keys.push_back(keyFor(call, space, on));
  return keys;
}

// Asks the database. Calls of one bucket may differ in what suits them: so a few are kept, of the
// bucket or of its neighbours.
void look(const KernelSpec &kernel, Database &database, Known &known) {
  constexpr std::size_t mostOfOne = 8, mostOfAll = 64;
  known.bySpace.assign(known.keys.size(), {});
  for (std::size_t i = 0; i < known.keys.size(); ++i) {
    if (!known.keys[i])
      continue;
    std::vector<KnownConfig> &best = known.bySpace[i];
    const auto take = [&](const std::vector<autotune::Measurement> &measurements) {
      const std::size_t most = best.size() + mostOfOne;
      for (const autotune::Measurement &measurement : measurements)
        if (measurement.verdict == autotune::Verdict::Good && best.size() < most)
          if (std::optional<Config> config = parseDescribed(kernel, measurement.config))
            best.push_back({std::move(*config), measurement.numerics});
    };
    take(database.lookup(*known.keys[i]));
    if (best.empty())
      database.nearby(*known.keys[i], [&](const Database::Neighbour &neighbour) {
        take(neighbour.measurements);
        return best.size() < mostOfAll;
      });
  }
}

// What the database knew when it was last asked, by bucket.
class Buckets {
public:
  static Buckets &get() {
    static Buckets buckets;
    return buckets;
  }

  std::shared_ptr<const Known> find(const Invocation &call, const Device &device) {
    const std::string key = keyOf(call, device);
    const std::uint64_t now = Database::get().generation();
    std::shared_ptr<const Known> old;
    {
      std::lock_guard lock(mutex);
      if (const auto found = buckets.find(key); found != buckets.end()) {
        if (found->second.generation == now)
          return found->second.known;
        old = found->second.known;
      }
    }
    auto known = std::make_shared<Known>(old ? *old : Known{keysOf(call, TunedOn(device)), {}});
    look(*call.kernel, Database::get(), *known);
    std::lock_guard lock(mutex);
    if (buckets.size() >= mostBuckets && !buckets.contains(key))
      buckets.clear();
    buckets[key] = {now, known};
    return known;
  }

  std::size_t size() {
    std::lock_guard lock(mutex);
    return buckets.size();
  }

private:
  static std::string keyOf(const Invocation &call, const Device &device) {
    std::string key = call.kernel->name + "\n" + device.name() + kindOf(call);
    for (const auto &[axis, extent] : bucketOf(call))
      key += "\n" + axis + "=" + std::to_string(extent);
    return key;
  }

  struct Bucket {
    std::uint64_t generation; // of the database
    std::shared_ptr<const Known> known;
  };
  std::mutex mutex; // guards what follows
  std::unordered_map<std::string, Bucket> buckets;
};

// The kernel's outputs among those of this launch: scratch memory may hold anything. Where it has
// none, all that it writes is for the launches after it.
std::optional<std::vector<std::size_t>> outputsOf(const Invocation &call,
                                                  const detail::BoundLaunch &launch,
                                                  std::span<const detail::Memory> memory) {
  std::vector<std::size_t> positions;
  const std::span<const detail::ArgSpec> specs = launch.kernel->arguments();
  for (std::size_t i = 0; i < specs.size(); ++i)
    for (std::size_t j = 0; j < memory.size() && !specs[i].readonly; ++j)
      if (call.kernel->arguments[j].output && memory[j].owner() &&
          launch.owners[i].device == memory[j].owner() &&
          launch.owners[i].address == memory[j].address()) {
        positions.push_back(i);
        break;
      }
  if (positions.empty())
    return std::nullopt;
  return positions;
}

} // namespace

std::vector<Config> sectile::candidatesFor(const Invocation &call, const SearchSpace &space,
                                           const std::string &target) {
  std::vector<Config> result{ownChoice(call, target)};
  const bool fixed = numerics() == Numerics::fixed;
  const std::string order = orderOf(*call.kernel, result.front());
  std::vector<std::size_t> place(space.axes.size());
  for (bool more = true; more;) {
    Config config = result.front();
    for (std::size_t i = 0; i < place.size(); ++i)
      config[space.axes[i].first] = space.axes[i].second[place[i]];
    if (config != result.front() && (!space.where || space.where(call, target, config)) &&
        (!fixed || orderOf(*call.kernel, config) == order))
      result.push_back(std::move(config));
    more = false;
    for (std::size_t i = place.size(); i-- > 0 && !more;) {
      more = ++place[i] < space.axes[i].second.size();
      if (!more)
        place[i] = 0;
    }
  }
  return result;
}

std::vector<TuneReport> sectile::tuneKernel(const Invocation &call, const Device &device,
                                            AutotuneOptions options) {
  if (call.kernel->spaces.empty())
    throw InputError(call.kernel->name + ": it has no search space, there is nothing to tune");
  const std::vector<detail::Memory> memory = makeArguments(call, device);
  options.bucket = [&](const LaunchArguments &) { return bucketOf(call); };
  std::vector<TuneReport> reports;
  for (const SearchSpace &space : call.kernel->spaces) {
    const std::vector<Config> configs = candidatesFor(call, space, device.target());
    const BoundKernel reference = bindKernel(call, configs.front(), memory);
    if (space.part.empty() && reference.launches.size() > 1)
      throw InputError(call.kernel->name + ": this call has " +
                       std::to_string(reference.launches.size()) +
                       " launches; its search space has to name the one that is tuned, as 'part'");
    const std::optional<TuningKey> key = keyFor(call, space, TunedOn(device));
    if (!key || !reference.find(space.part))
      continue;
    options.outputs = outputsOf(call, reference.part(space.part), memory);
    std::mutex mutex;
    // Workspaces that are larger than the reference's, by candidate.
    std::map<std::size_t, std::vector<detail::Memory>> larger;
    const auto bindAll = [&](std::size_t i) {
      std::lock_guard lock(mutex);
      std::vector<detail::Memory> &own = larger.try_emplace(i, reference.workspaces).first->second;
      BoundKernel bound = bindKernel(call, configs[i], memory, own);
      own = bound.workspaces;
      return bound;
    };
    const auto bindAhead = [&](std::size_t i) {
      BoundKernel bound = bindAll(i);
      bound.launches.resize(
          static_cast<std::size_t>(&bound.part(space.part) - bound.launches.data()));
      return bound.launches;
    };
    const TuningTask task{device.stream(),
                          *key,
                          namesOf(*call.kernel, configs),
                          ordersOf(*call.kernel, configs),
                          [&](std::size_t i) { return bindAll(i).part(space.part); },
                          bindAhead,
                          [&](std::size_t i) {
                            const auto &predict = call.kernel->predict;
                            return predict ? predict(call, device.target(), configs[i]) : 0;
                          }};
    // The tuning keeps what outputs hold before the launch.
    for (const detail::BoundLaunch &launch : bindAhead(0))
      autotune::runWithin(autotune::Deadline(options.deadline).seconds(),
                          autotune::launchableOf(launch), device.stream());
    constexpr std::chrono::hours patience{1};
    const autotune::Lease lease = Database::get().claim(task.key, patience);
    reports.push_back(autotune::tune(task, options, Database::get()));
    if (reports.back().interrupted || !reports.back().problem.empty())
      break;
  }
  if (reports.empty())
    throw InputError(
        call.kernel->name +
        ": with these extents it does without what is tuned, there is nothing to tune");
  return reports;
}

std::size_t sectile::bucketsRemembered() { return Buckets::get().size(); }

Strategy sectile::strategyNamed(const std::string &name, const std::string &who) {
  if (name == "exhaustive")
    return Strategy::exhaustive;
  if (name == "random")
    return Strategy::random;
  if (name == "halving")
    return Strategy::halving;
  throw InputError(who + ": '" + name + "' is none of exhaustive, random, halving");
}

std::optional<Config> sectile::bestKnown(const Invocation &call, const Device &device) {
  Known known{keysOf(call, TunedOn(device)), {}};
  look(*call.kernel, Database::get(), known);
  return chooseKnown(call, device.target(), known.bySpace, ownChoice(call, device.target()));
}

std::optional<Config> sectile::bestKnown(const Invocation &call, const Chip &chip,
                                         const std::string &product, Database &database) {
  Known known{keysOf(call, TunedOn(chip, product)), {}};
  look(*call.kernel, database, known);
  return chooseKnown(call, chip.name, known.bySpace, ownChoice(call, chip.name));
}

Config sectile::configFor(const Invocation &call, const Device &device) {
  Config own = ownChoice(call, device.target());
  if (device.name() == "interpreter" || autotune_mode() == AutotuneMode::off)
    return own;
  const auto known = Buckets::get().find(call, device);
  return chooseKnown(call, device.target(), known->bySpace, own).value_or(std::move(own));
}

std::uint64_t sectile::choicesRecorded() { return Database::get().generation(); }
