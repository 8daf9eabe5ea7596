// Running and keeping a kernel's launches.
#include "kernels/calls/Use.h"
#include "kernels/calls/Updates.h"
#include "kernels/calls/Workspace.h"
#include "runtime/LaunchAccess.h"
#include <algorithm>
#include <ranges>
#include <sectile/error.h>

using namespace sectile;

Shape sectile::stridesOf(const TensorType &type) {
  if (!type.strides.empty())
    return type.strides;
  Shape strides(type.shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = strides.size(); i-- > 0; stride *= std::max<std::int64_t>(type.shape[i], 1))
    strides[i] = stride;
  return strides;
}

const detail::BoundLaunch *BoundKernel::find(std::string_view names) const {
  if (names.empty())
    return launches.size() == 1 ? &launches.front() : nullptr;
  const auto isNamed = [&](std::string_view name) {
    return std::ranges::any_of(std::views::split(names, std::string_view(", ")),
                               [&](const auto &one) { return std::ranges::equal(one, name); });
  };
  const auto found = std::ranges::find_if(
      launches, [&](const detail::BoundLaunch &launch) { return isNamed(launch.kernel->name()); });
  return found == launches.end() ? nullptr : &*found;
}

const detail::BoundLaunch &BoundKernel::part(std::string_view names) const {
  if (const detail::BoundLaunch *launch = find(names))
    return *launch;
  throw std::logic_error(names.empty()
                             ? "there is not one launch, but " + std::to_string(launches.size())
                             : "there is no launch " + std::string(names));
}

Invocation sectile::callOn(const KernelSpec &kernel, const NamedTensors &inputs,
                           const KernelOptions &options, const NamedTensors &outputs) {
  for (const NamedTensors *tensors : {&inputs, &outputs})
    for (const auto &[name, tensor] : *tensors)
      if (tensor.strides.size() != tensor.extents.size() && !tensor.strides.empty())
        throw InputError(kernel.name + ": " + name + " has the extents " +
                         toString(tensor.extents) + ", but the strides " +
                         toString(tensor.strides) +
                         ": it needs one for each axis, or none where "
                         "elements lie row by row");
  std::map<std::string, GivenTensor> types;
  for (const auto &[name, tensor] : inputs) {
    if (std::ranges::any_of(tensor.extents, [](std::int64_t extent) { return extent < 0; }))
      throw InputError(kernel.name + ": " + name + " has the extents " + toString(tensor.extents) +
                       ", but an extent is not negative");
    types[name] = {{tensor.dtype, tensor.extents}, ""};
  }
  Invocation call = resolve(kernel, types, {options.begin(), options.end()});
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const ArgumentSpec &spec = kernel.arguments[i];
    TensorType &type = call.tensors[i];
    if (!type.present)
      continue;
    const NamedTensors &given = spec.output ? outputs : inputs;
    const auto place = given.find(spec.name);
    if (place == given.end())
      continue;
    const AnyTensor &tensor = place->second;
    if (std::ranges::find(spec.also, tensor.dtype) != spec.also.end())
      type.dtype = tensor.dtype;
    if (tensor.dtype != type.dtype || tensor.extents != type.shape)
      throw InputError(kernel.name + ": " + spec.name + " is given as " +
                       std::string(name_of(tensor.dtype)) + " " + toString(tensor.extents) +
                       ", but is " + std::string(name_of(type.dtype)) + " " + toString(type.shape));
    type.strides = tensor.strides;
  }
  for (const auto &[name, tensor] : outputs)
    if (std::none_of(kernel.arguments.begin(), kernel.arguments.end(), [&](const auto &spec) {
          return spec.output && spec.name == name && call.has(name);
        }))
      throw InputError(kernel.name + ": there is no output '" + name + "' in this call");
  return call;
}

Placement sectile::placeArguments(const Invocation &call, const NamedTensors &inputs,
                                  NamedTensors &outputs,
                                  const std::function<AnyTensor(const TensorType &)> &allocate) {
  Placement placed;
  placed.memory.reserve(call.tensors.size());
  placed.addresses.reserve(call.tensors.size());
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const ArgumentSpec &spec = call.kernel->arguments[i];
    const TensorType &type = call.tensors[i];
    if (!type.present) {
      placed.memory.emplace_back();
      placed.addresses.push_back(0);
      continue;
    }
    const AnyTensor *tensor = nullptr;
    if (spec.output) {
      auto place = outputs.find(spec.name);
      if (place == outputs.end())
        place = outputs.emplace(spec.name, allocate(type)).first;
      tensor = &place->second;
      if (tensor->read_only)
        refuse(call, spec.name, " is an output, but the tensor given for it is read-only");
    } else {
      tensor = &inputs.find(spec.name)->second;
    }
    placed.memory.push_back(tensor->memory);
    placed.addresses.push_back(tensor->address);
  }
  return placed;
}

void sectile::withUse(const Invocation &call, const Config &config, const Stream &stream,
                      const std::function<void(Use &)> &launch,
                      std::span<const detail::Memory> memory,
                      std::span<const std::uint64_t> addresses) {
  const std::shared_ptr<Workspace> workspace = Workspace::of(stream);
  const std::unique_lock lock = workspace->begin();
  const runtime::LaunchesOfCall one;
  Use::State state{
      .memories = memory, .addresses = addresses, .stream = &stream, .arena = workspace.get()};
  Use use(call, config, state);
  copyUpdated(use);
  launch(use);
}

void sectile::launchKernel(const Invocation &call, const Config &config,
                           std::span<const detail::Memory> memory, const Stream &stream,
                           std::span<const std::uint64_t> addresses) {
  withUse(call, config, stream, call.kernel->apply, memory, addresses);
}

BoundKernel sectile::bindKernel(const Invocation &call, const Config &config,
                                std::span<const detail::Memory> memory,
                                std::span<const detail::Memory> workspaces) {
  BoundKernel bound;
  Use::State state{.memories = memory, .bound = &bound, .workspaces = workspaces};
  Use use(call, config, state);
  copyUpdated(use);
  call.kernel->apply(use);
  return bound;
}

BoundKernel sectile::bindCall(const Invocation &call, const Placement &placed, const Config &config,
                              const Device &device) {
  BoundKernel bound;
  Use::State state{
      .memories = placed.memory, .addresses = placed.addresses, .bound = &bound, .device = &device};
  Use use(call, config, state);
  copyUpdated(use);
  call.kernel->apply(use);
  return bound;
}

std::int64_t Use::extent(std::string_view axis) const {
  return axis == "..." ? elementCount(call.leading) : call.extent(axis);
}

void Use::refuseNumber(std::string_view field, std::int64_t number, std::size_t bytes) const {
  refuse(call, field, " is ", number, ", but a kernel keeps it in ", 8 * bytes, " bits");
}

std::optional<std::int64_t> Use::fieldByName(std::string_view prefix, std::string_view name,
                                             OptionSpec::Kind kind) const {
  if (const auto chosen = config.find(std::string(prefix) + std::string(name));
      chosen != config.end())
    return chosen->second;
  const KernelSpec &spec = *call.kernel;
  for (const OptionSpec &option : spec.options)
    if (option.name == name && option.kind == kind && call.options.given(option.name)) {
      const std::string &value = call.options.choice(option.name);
      switch (kind) {
      case OptionSpec::flag:
        return value == "true";
      case OptionSpec::integer:
        return call.options.integer(option.name);
      case OptionSpec::choice:
        return std::find(option.choices.begin(), option.choices.end(), value) -
               option.choices.begin();
      default:
        return std::nullopt; // no field of a configuration holds it
      }
    }
  for (std::size_t i = 0; i < spec.arguments.size(); ++i)
    if (kind == OptionSpec::flag && spec.arguments[i].optional && spec.arguments[i].name == name)
      return call.tensors[i].present;
  return std::nullopt;
}

detail::Memory Use::memory(std::size_t argument) const {
  return state.memories.empty() ? detail::Memory() : state.memories[argument];
}

std::uint64_t Use::address(std::size_t argument) const {
  return state.addresses.empty() ? memory(argument).address() : state.addresses[argument];
}

// Throws Error where a description takes an argument for what it is not.
static void requireType(const Invocation &call, std::size_t argument, DType dtype, std::size_t axes,
                        bool orMore, bool isRank) {
  const TensorType &type = call.tensors[argument];
  if (type.dtype == dtype && isRank)
    return;
  throw Error(call.kernel->name + ": its description takes " +
              call.kernel->arguments[argument].name + " as " + std::string(name_of(dtype)) +
              " with " + std::to_string(axes) + (axes == 1 ? " axis" : " axes") +
              (orMore ? " or more" : "") + ", but it is " + std::string(name_of(type.dtype)) + " " +
              toString(type.shape));
}

void Use::lengths(std::size_t argument, DType dtype, std::size_t rank, std::int64_t *extents,
                  std::int64_t *strides) const {
  const TensorType &type = call.tensors[argument];
  if (!type.present)
    return;
  requireType(call, argument, dtype, rank, false, type.shape.size() == rank);
  const Shape steps = stridesOf(type);
  const std::vector<std::size_t> places = call.stored_axes(argument);
  for (std::size_t i = 0; i < rank; ++i) {
    extents[i] = type.shape[places[i]];
    strides[i] = steps[places[i]];
  }
}

void Use::mergedLengths(std::size_t argument, DType dtype, std::size_t rank, std::size_t place,
                        std::int64_t *extents, std::int64_t *strides) const {
  const TensorType &type = call.tensors[argument];
  if (!type.present)
    return;
  requireType(call, argument, dtype, rank - 1, true, type.shape.size() + 1 >= rank && place < rank);
  const Shape steps = stridesOf(type);
  const std::size_t end = type.shape.size() + 1 - rank + place; // behind the axes that become one
  for (std::size_t i = 0; i < rank; ++i) {
    if (i == place)
      continue;
    const std::size_t from = i < place ? i : end + i - place - 1;
    extents[i] = type.shape[from];
    strides[i] = steps[from];
  }
  // Neighbouring axes are one where a step of the first is as long as the whole second.
  std::int64_t &extent = extents[place], &stride = strides[place];
  extent = 1;
  // One row is as far from the next as if there were one: no code of its own for it.
  stride = end > place        ? steps[end - 1]
           : place + 1 < rank ? extents[place + 1] * strides[place + 1]
                              : 1;
  for (std::size_t i = end; i-- > place;) {
    if (type.shape[i] == 1)
      continue;
    if (extent == 1)
      stride = steps[i];
    else if (extent != 0 && steps[i] != stride * extent)
      refuse(call, "axes ", place, " to ", end - 1, " of ", call.kernel->arguments[argument].name,
             " must lie evenly, but its strides are ", toString(steps));
    extent *= type.shape[i];
  }
}

std::size_t Use::placeOfDots(std::size_t argument) const {
  const std::vector<std::string> &axes = call.kernel->arguments[argument].axes;
  return static_cast<std::size_t>(std::find(axes.begin(), axes.end(), "...") - axes.begin());
}

detail::Memory Use::allocate(std::size_t bytes, bool zero) {
  detail::Memory memory;
  if (state.stream) {
    memory = state.arena->take(*state.stream, bytes);
  } else if (const std::size_t place = state.bound ? state.bound->workspaces.size() : 0;
             place < state.workspaces.size() && state.workspaces[place].bytes() >= bytes) {
    state.bound->workspaces.push_back(state.workspaces[place]);
    return state.workspaces[place].slice(0, bytes);
  } else if (state.bound && state.device) {
    memory = detail::Memory(*state.device, bytes);
    state.bound->workspaces.push_back(memory);
  } else if (state.bound) {
    for (const detail::Memory &argument : state.memories)
      if (argument.owner()) {
        memory = detail::Memory(argument.device(), bytes);
        state.bound->workspaces.push_back(memory);
        break;
      }
  }
  if (zero && memory.owner() && bytes) {
    const unsigned char byte = 0;
    memory.fill(&byte, 1, state.stream);
  }
  return memory;
}

void Use::launchOrKeep(const detail::KernelBase &kernel, const Grid &grid,
                       const detail::PackedLaunch &packed) {
  if (state.stream)
    kernel.launchPacked(*state.stream, grid, packed);
  else
    state.bound->launches.push_back(kernel.keepPacked(grid, packed));
}

void Use::run(std::string_view kernel, const NamedTensors &inputs, const KernelOptions &options,
              NamedTensors outputs, const Config &chosen) {
  const Invocation inner = callOn(findKernel(kernel), inputs, options, outputs);
  const Placement placed =
      placeArguments(inner, inputs, outputs, [&](const TensorType &) -> AnyTensor {
        throw std::logic_error(std::string(kernel) + ": a part's outputs must all be given");
      });
  Use::State part = state;
  part.memories = placed.memory;
  part.addresses = placed.addresses;
  Use partUse(inner, chosen, part);
  inner.kernel->apply(partUse);
}
