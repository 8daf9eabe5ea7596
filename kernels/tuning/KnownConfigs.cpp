// Which known configuration a call may take.
#include "kernels/tuning/KnownConfigs.h"
#include "autotune/Records.h"
#include <algorithm>
#include <charconv>

using namespace sectile;

std::string sectile::describe(const KernelSpec &kernel, const Config &config) {
  std::string text;
  for (const ConfigSpec &field : kernel.config)
    text += (text.empty() ? "" : " ") + field.name + "=" + std::to_string(config.at(field.name));
  return text;
}

std::optional<Config> sectile::parseDescribed(const KernelSpec &kernel, std::string_view text) {
  Config config;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const std::size_t equals = word.find('=');
    if (equals == word.npos)
      return std::nullopt;
    std::int64_t value = 0;
    const char *end = word.data() + word.size();
    if (std::from_chars(word.data() + equals + 1, end, value).ptr != end)
      return std::nullopt;
    config[std::string(word.substr(0, equals))] = value;
  }
  for (const ConfigSpec &field : kernel.config)
    if (!config.contains(field.name))
      return std::nullopt;
  return describe(kernel, config) == text ? std::optional(config) : std::nullopt;
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

std::string sectile::kindOf(const Invocation &call) {
  std::string kind;
  for (const TensorType &tensor : call.tensors)
    kind += tensor.present ? "\n" + std::string(name_of(tensor.dtype)) : "\n";
  for (const char *width : {"D", "Dk", "Dv"}) // of heads: decide what the code holds
    if (call.extents.contains(width))
      kind += "\n" + std::to_string(call.extent(width));
  for (const auto &[name, value] : call.options.values)
    kind += "\n" + name + "=" + value;
  return kind;
}

namespace {

// Whether a configuration has what the kernel itself chose of a space.
bool isOwnIn(const SearchSpace &space, const Config &config, const Config &own) {
  return std::ranges::all_of(
      space.axes, [&](const auto &axis) { return config.at(axis.first) == own.at(axis.first); });
}

// Whether it is a point of the space.
bool isIn(const SearchSpace &space, const Config &config) {
  return std::ranges::all_of(space.axes, [&](const auto &axis) {
    return std::ranges::find(axis.second, config.at(axis.first)) != axis.second.end();
  });
}

// Each space may ask for fields of others. The own choice need not be of any space.
bool holds(const Invocation &call, const std::string &target, const Config &config,
           const Config &own) {
  return std::ranges::all_of(call.kernel->spaces, [&](const SearchSpace &space) {
    return isOwnIn(space, config, own) || !space.where || space.where(call, target, config);
  });
}

bool hasOrderOf(const KernelSpec &kernel, const KnownConfig &known, const Config &own) {
  return numerics() != Numerics::fixed || known.order == orderOf(kernel, own);
}

} // namespace

std::optional<Config> sectile::chooseKnown(const Invocation &call, const std::string &target,
                                           std::span<const std::vector<KnownConfig>> bySpace,
                                           const Config &own) {
  const KernelSpec &kernel = *call.kernel;
  std::optional<Config> result;
  for (std::size_t i = 0; i < bySpace.size(); ++i) {
    const SearchSpace &space = kernel.spaces[i];
    for (const KnownConfig &known : bySpace[i]) {
      Config alone = own, together = result.value_or(own);
      for (const auto &[field, values] : space.axes)
        alone[field] = together[field] = known.config.at(field);
      if (alone == known.config && (isIn(space, alone) || alone == own) &&
          holds(call, target, together, own) && hasOrderOf(kernel, known, own)) {
        result = std::move(together);
        break;
      }
    }
  }
  return result;
}

bool sectile::mayTake(const Invocation &call, const std::string &target, const KnownConfig &known,
                      const Config &own) {
  const KernelSpec &kernel = *call.kernel;
  Config varied = own;
  for (const SearchSpace &space : kernel.spaces)
    for (const auto &[field, values] : space.axes)
      varied[field] = known.config.at(field);
  return varied == known.config &&
         std::ranges::all_of(kernel.spaces,
                             [&](const SearchSpace &space) {
                               return isIn(space, varied) || isOwnIn(space, varied, own);
                             }) &&
         holds(call, target, varied, own) && hasOrderOf(kernel, known, own);
}
