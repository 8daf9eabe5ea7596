// Tuning the library's kernels.
#include "kernels/Tune.h"
#include "autotune/Session.h"
#include "kernels/InputError.h"
#include "kernels/Use.h"

using namespace sectile;
using autotune::Database, autotune::TuningKey, autotune::TuningTask;

namespace {

// Numbers between -1 and 1, the same on every machine.
class Noise {
public:
  double next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 40) / (1 << 23) - 1;
  }

private:
  std::uint64_t state = 1;
};

std::vector<detail::Memory> makeArguments(const Invocation &call, const Device &device) {
  Noise noise;
  std::vector<detail::Memory> memory;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const auto &[dtype, shape] = call.tensors[i];
    HostArray array(dtype, shape);
    if (array.data.empty())
      throw InputError(call.kernel->name + ": '" + call.kernel->arguments[i].name +
                       "' has no elements, there is nothing to tune");
    if (call.kernel->arguments[i].output)
      std::fill(array.data.begin(), array.data.end(), std::byte{0xff});
    else
      withType(dtype, [&]<class T>(T) {
        for (T &value : array.as<T>())
          value = static_cast<T>(static_cast<float>(noise.next()));
      });
    memory.emplace_back(device, array.data.size()).upload(array.data.data());
  }
  return memory;
}

detail::BoundLaunch boundLaunch(const Invocation &call, const Config &config,
                                std::span<const detail::Memory> memory) {
  std::optional<detail::BoundLaunch> launch;
  Use use;
  use.bound = &launch;
  call.kernel->apply(call, config, memory, use);
  return std::move(*launch);
}

// The code is that of the kernel's own choice for typical extents: the same for all shapes.
TuningKey keyFor(const Invocation &call, const Device &device) {
  Assignments options;
  for (const auto &[name, value] : call.options.values)
    if (!value.empty())
      options.emplace_back(name, value);
  std::map<std::string, std::int64_t> extents;
  if (call.extents.contains("D")) // of attention: decides what the code holds
    extents["D"] = call.extent("D");
  const Invocation typical =
      resolveTypical(*call.kernel, name_of(call.tensors[0].dtype), extents, options);
  const std::vector<detail::Memory> none(call.tensors.size());
  AutotuneOptions rule;
  rule.bucket = [&](const LaunchArguments &) { return bucketOf(call); };
  return autotune::keyOf(
      boundLaunch(typical, call.kernel->defaults(typical, device.target()), none), device, rule);
}

std::vector<std::string> namesOf(const KernelSpec &kernel, std::span<const Config> configs) {
  std::vector<std::string> names;
  for (const Config &config : configs)
    names.push_back(describe(kernel, config));
  return names;
}

} // namespace

std::vector<Config> sectile::candidatesFor(const Invocation &call, const std::string &target) {
  const SearchSpace &space = call.kernel->space;
  std::vector<Config> result{call.kernel->defaults(call, target)};
  if (space.axes.empty())
    return result;
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

TuneReport sectile::tuneKernel(const Invocation &call, const Device &device,
                               AutotuneOptions options) {
  const std::vector<Config> configs = candidatesFor(call, device.target());
  const std::vector<detail::Memory> memory = makeArguments(call, device);
  options.bucket = [&](const LaunchArguments &) { return bucketOf(call); };
  options.outputs.reset();
  const TuningTask task{device.stream(), keyFor(call, device), namesOf(*call.kernel, configs),
                        [&](std::size_t i) { return boundLaunch(call, configs[i], memory); }};
  constexpr std::chrono::hours patience{1};
  const autotune::Lease lease = Database::get().claim(task.key, patience);
  return autotune::tune(task, options, Database::get());
}

std::optional<Config> sectile::bestKnown(const Invocation &call, const Device &device) {
  const TuningKey key = keyFor(call, device);
  const std::vector<Config> configs = candidatesFor(call, device.target());
  const std::vector<std::string> names = namesOf(*call.kernel, configs);
  if (const auto best = autotune::bestOf(names, Database::get().lookup(key)))
    return configs[*best];
  if (const auto nearest = Database::get().nearest(key))
    if (const auto best = autotune::bestOf(names, nearest->measurements))
      return configs[*best];
  return std::nullopt;
}
