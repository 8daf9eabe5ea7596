// Tuning the library's kernels.
#include "kernels/Tune.h"
#include "autotune/Measure.h"
#include "autotune/Session.h"
#include "kernels/Execute.h"
#include "kernels/Use.h"
#include <charconv>
#include <memory>
#include <mutex>
#include <sectile/error.h>
#include <sstream>
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

// The code is that of the kernel's own choice for typical extents: the same for all shapes. None
// where neither they nor the call need such a launch.
std::optional<TuningKey> keyFor(const Invocation &call, const SearchSpace &space,
                                const Device &device) {
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
  BoundKernel bound = bindKernel(typical, call.kernel->defaults(typical, device.target()));
  if (!bound.find(space.part))
    bound = bindKernel(call, call.kernel->defaults(call, device.target()));
  if (!bound.find(space.part))
    return {};
  TuningKey key = autotune::keyOf(bound.part(space.part), device, rule);
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

// What the database knows of a search space for the calls of one bucket.
struct KnownSpace {
  std::optional<TuningKey> key;                     // none: they do without it
  std::vector<std::pair<Config, std::string>> best; // and what orders its sums; fastest first
};

// "m=128 n=64" as describe() writes it; nothing where it is of other fields.
std::optional<Config> parseDescribed(const KernelSpec &kernel, const std::string &text) {
  Config config;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == word.npos)
      return std::nullopt;
    std::int64_t value = 0;
    const char *end = word.data() + word.size();
    if (std::from_chars(word.data() + equals + 1, end, value).ptr != end)
      return std::nullopt;
    config[word.substr(0, equals)] = value;
  }
  for (const ConfigSpec &field : kernel.config)
    if (!config.contains(field.name))
      return std::nullopt;
  return describe(kernel, config) == text ? std::optional(config) : std::nullopt;
}

std::vector<KnownSpace> keysOf(const Invocation &call, const Device &device) {
  std::vector<KnownSpace> spaces;
  for (const SearchSpace &space : call.kernel->spaces)
    spaces.push_back({keyFor(call, space, device), {}});
  return spaces;
}

// Asks the database. Calls of one bucket may differ in what suits them: so a few are kept, of the
// bucket or of its neighbours.
void look(const KernelSpec &kernel, std::vector<KnownSpace> &spaces) {
  constexpr std::size_t mostOfOne = 8, mostOfAll = 64;
  for (KnownSpace &space : spaces) {
    space.best.clear();
    if (!space.key)
      continue;
    const auto take = [&](const std::vector<autotune::Measurement> &measurements) {
      const std::size_t most = space.best.size() + mostOfOne;
      for (const autotune::Measurement &measurement : measurements)
        if (measurement.verdict == autotune::Verdict::Good && space.best.size() < most)
          if (std::optional<Config> config = parseDescribed(kernel, measurement.config))
            space.best.emplace_back(std::move(*config), measurement.numerics);
    };
    take(Database::get().lookup(*space.key));
    if (space.best.empty())
      Database::get().nearby(*space.key, [&](const Database::Neighbour &neighbour) {
        take(neighbour.measurements);
        return space.best.size() < mostOfAll;
      });
  }
}

// The best that is known and valid for this call.
std::optional<Config> choose(const Invocation &call, const std::string &target,
                             std::span<const KnownSpace> known, const Config &own) {
  const KernelSpec &kernel = *call.kernel;
  const bool fixed = numerics() == Numerics::fixed;
  const auto isOwnIn = [&](const SearchSpace &space, const Config &config) {
    return std::all_of(space.axes.begin(), space.axes.end(), [&](const auto &axis) {
      return config.at(axis.first) == own.at(axis.first);
    });
  };
  // Each space may ask for fields of others. The own choice need not be of any space.
  const auto holds = [&](const Config &config) {
    return std::all_of(kernel.spaces.begin(), kernel.spaces.end(), [&](const SearchSpace &space) {
      return isOwnIn(space, config) || !space.where || space.where(call, target, config);
    });
  };
  std::optional<Config> result;
  for (std::size_t i = 0; i < known.size(); ++i) {
    const SearchSpace &space = kernel.spaces[i];
    for (const auto &[config, order] : known[i].best) {
      Config alone = own, together = result.value_or(own);
      bool isOne = true;
      for (const auto &[field, values] : space.axes) {
        alone[field] = together[field] = config.at(field);
        isOne &= std::find(values.begin(), values.end(), config.at(field)) != values.end();
      }
      if (alone == config && (isOne || config == own) && holds(together) &&
          (!fixed || order == orderOf(kernel, own))) {
        result = std::move(together);
        break;
      }
    }
  }
  return result;
}

// What the database knew when it was last asked, by bucket.
class Buckets {
public:
  static Buckets &get() {
    static Buckets buckets;
    return buckets;
  }

  std::shared_ptr<const std::vector<KnownSpace>> find(const Invocation &call,
                                                      const Device &device) {
    const std::string key = keyOf(call, device);
    const std::uint64_t now = Database::get().generation();
    std::shared_ptr<const std::vector<KnownSpace>> old;
    {
      std::lock_guard lock(mutex);
      if (const auto found = buckets.find(key); found != buckets.end()) {
        if (found->second.generation == now)
          return found->second.spaces;
        old = found->second.spaces;
      }
    }
    auto spaces = std::make_shared<std::vector<KnownSpace>>(old ? *old : keysOf(call, device));
    look(*call.kernel, *spaces);
    std::lock_guard lock(mutex);
    if (buckets.size() >= mostBuckets && !buckets.contains(key))
      buckets.clear();
    buckets[key] = {now, spaces};
    return spaces;
  }

  std::size_t size() {
    std::lock_guard lock(mutex);
    return buckets.size();
  }

private:
  static std::string keyOf(const Invocation &call, const Device &device) {
    std::string key = call.kernel->name + "\n" + device.name();
    for (const TensorType &tensor : call.tensors)
      key += tensor.present ? "\n" + std::string(name_of(tensor.dtype)) : "\n";
    for (const auto &[axis, extent] : bucketOf(call))
      key += "\n" + axis + "=" + std::to_string(extent);
    for (const char *width : {"D", "Dk", "Dv"})
      if (call.extents.contains(width))
        key += "\n" + std::to_string(call.extent(width));
    for (const auto &[name, value] : call.options.values)
      key += "\n" + name + "=" + value;
    return key;
  }

  struct Bucket {
    std::uint64_t generation; // of the database
    std::shared_ptr<const std::vector<KnownSpace>> spaces;
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

std::string sectile::describe(const KernelSpec &kernel, const Config &config) {
  std::string text;
  for (const ConfigSpec &field : kernel.config)
    text += (text.empty() ? "" : " ") + field.name + "=" + std::to_string(config.at(field.name));
  return text;
}

std::string sectile::orderOf(const KernelSpec &kernel, const Config &config) {
  return autotune::numericsOf(describe(kernel, config), kernel.neutral);
}

NamedExtents sectile::bucketOf(const Invocation &call) {
  NamedExtents bucket;
  for (const auto &[axis, extent] : call.extents)
    if (axis != "...")
      bucket.emplace_back(axis, next_power_of_two(extent));
  if (!call.leading.empty())
    bucket.emplace_back("...", next_power_of_two(elementCount(call.leading)));
  return bucket;
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
    const std::optional<TuningKey> key = keyFor(call, space, device);
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

std::optional<Config> sectile::bestKnown(const Invocation &call, const Device &device) {
  std::vector<KnownSpace> known = keysOf(call, device);
  look(*call.kernel, known);
  return choose(call, device.target(), known, ownChoice(call, device.target()));
}

Config sectile::configFor(const Invocation &call, const Device &device) {
  Config own = ownChoice(call, device.target());
  if (device.name() == "interpreter" || autotune_mode() == AutotuneMode::off)
    return own;
  const auto known = Buckets::get().find(call, device);
  return choose(call, device.target(), *known, own).value_or(std::move(own));
}

std::uint64_t sectile::choicesRecorded() { return Database::get().generation(); }
