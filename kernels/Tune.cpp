// Tuning the library's kernels.
#include "kernels/Tune.h"
#include "autotune/Measure.h"
#include "autotune/Session.h"
#include "kernels/Execute.h"
#include "kernels/InputError.h"
#include "kernels/Use.h"
#include <mutex>

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
  Assignments options;
  for (const auto &[name, value] : call.options.values)
    if (!value.empty())
      options.emplace_back(name, value);
  std::map<std::string, std::int64_t> extents;
  for (const char *width : {"D", "Dk", "Dv"}) // of heads: decide what the code holds
    if (call.extents.contains(width))
      extents[width] = call.extent(width);
  std::vector<std::string> with;
  std::string dtypes;
  for (const ArgumentSpec &spec : call.kernel->arguments) {
    if (spec.output)
      continue;
    if (spec.optional && call.has(spec.name))
      with.push_back(spec.name);
    dtypes += (dtypes.empty() ? "" : ",") + spec.name + "=";
    dtypes += name_of(call.dtype(spec.name));
  }
  const Invocation typical = [&] {
    try {
      return resolveTypical(*call.kernel, dtypes, extents, options, with);
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
  std::vector<Config> result{call.kernel->defaults(call, target)};
  std::vector<std::size_t> place(space.axes.size());
  for (bool more = true; more;) {
    Config config = result.front();
    for (std::size_t i = 0; i < place.size(); ++i)
      config[space.axes[i].first] = space.axes[i].second[place[i]];
    if (config != result.front() && (!space.where || space.where(call, target, config)))
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
  if (reports.empty() && !call.kernel->spaces.empty())
    throw InputError(
        call.kernel->name +
        ": with these extents it does without what is tuned, there is nothing to tune");
  return reports;
}

std::optional<Config> sectile::bestKnown(const Invocation &call, const Device &device) {
  std::optional<Config> result;
  for (const SearchSpace &space : call.kernel->spaces) {
    const std::optional<TuningKey> key = keyFor(call, space, device);
    if (!key)
      continue;
    const std::vector<Config> configs = candidatesFor(call, space, device.target());
    const std::vector<std::string> names = namesOf(*call.kernel, configs);
    std::optional<std::size_t> best = autotune::bestOf(names, Database::get().lookup(*key));
    if (!best)
      if (const auto nearest = Database::get().nearest(*key))
        best = autotune::bestOf(names, nearest->measurements);
    if (!best)
      continue;
    if (!result)
      result = configs.front();
    for (const auto &[field, values] : space.axes)
      (*result)[field] = configs[*best].at(field);
  }
  return result;
}
