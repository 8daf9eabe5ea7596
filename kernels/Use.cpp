// Running, keeping and emitting a kernel's launches.
#include "kernels/Use.h"
#include "kernels/InputError.h"
#include "kernels/Workspace.h"
#include <cassert>

using namespace sectile;

namespace {

Shape stridesOf(const TensorType &type) {
  if (!type.strides.empty())
    return type.strides;
  Shape strides(type.shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = strides.size(); i-- > 0; stride *= std::max<std::int64_t>(type.shape[i], 1))
    strides[i] = stride;
  return strides;
}

} // namespace

const detail::BoundLaunch &BoundKernel::part(std::string_view name) const {
  for (const detail::BoundLaunch &launch : launches)
    if (name.empty() || launch.kernel->name() == name)
      return launch;
  throw std::logic_error("there is no launch " + std::string(name));
}

void sectile::launchKernel(const Invocation &call, const Config &config,
                           std::span<const detail::Memory> memory, const Stream &stream,
                           std::span<const std::uint64_t> addresses) {
  const std::shared_ptr<Workspace> workspace = Workspace::of(stream);
  const std::unique_lock lock = workspace->begin();
  Use use(call, config, memory);
  use.addresses = addresses;
  use.stream = &stream;
  use.arena = workspace.get();
  call.kernel->apply(use);
}

BoundKernel sectile::bindKernel(const Invocation &call, const Config &config,
                                std::span<const detail::Memory> memory,
                                std::span<const detail::Memory> workspaces) {
  BoundKernel bound;
  Use use(call, config, memory);
  use.workspaces = workspaces;
  use.bound = &bound;
  call.kernel->apply(use);
  return bound;
}

std::vector<KernelCode> sectile::emitKernel(const Invocation &call, const Config &config,
                                            const std::string &target, const std::string &form) {
  std::vector<KernelCode> codes;
  Use use(call, config, {});
  use.codes = &codes;
  use.target = target;
  use.form = form;
  call.kernel->apply(use);
  return codes;
}

void Use::lengths(std::size_t argument, std::size_t rank, std::int64_t *extents,
                  std::int64_t *strides) const {
  const TensorType &type = call.tensors[argument];
  if (!type.present)
    return;
  assert(type.shape.size() == rank);
  const Shape steps = stridesOf(type);
  const std::vector<std::size_t> places = call.storedAxes(argument);
  for (std::size_t i = 0; i < rank; ++i) {
    extents[i] = type.shape[places[i]];
    strides[i] = steps[places[i]];
  }
}

void Use::collapsedLengths(std::size_t argument, std::size_t rank, std::int64_t *extents,
                           std::int64_t *strides) const {
  const TensorType &type = call.tensors[argument];
  if (!type.present)
    return;
  const Shape steps = stridesOf(type);
  assert(type.shape.size() + 1 >= rank);
  const std::size_t inner = rank - 1, outer = type.shape.size() - inner;
  for (std::size_t i = 0; i < inner; ++i) {
    extents[i + 1] = type.shape[outer + i];
    strides[i + 1] = steps[outer + i];
  }
  // Neighbouring axes are one where a step of the first is as long as the whole second.
  extents[0] = 1;
  // One row is as far from the next as if there were one: no code of its own for it.
  strides[0] = outer ? steps[outer - 1] : inner ? extents[1] * strides[1] : 1;
  for (std::size_t i = outer; i-- > 0;) {
    if (type.shape[i] == 1)
      continue;
    if (extents[0] == 1)
      strides[0] = steps[i];
    else if (extents[0] != 0 && steps[i] != strides[0] * extents[0])
      throw InputError(call.kernel->name + ": the axes of " +
                       call.kernel->arguments[argument].name + " before its last " +
                       std::to_string(inner) + " must lie evenly, but its strides are " +
                       toString(steps));
    extents[0] *= type.shape[i];
  }
}

detail::Memory Use::allocate(std::size_t bytes, bool zero) {
  detail::Memory memory;
  if (stream) {
    memory = arena->take(stream->device(), bytes);
  } else if (const std::size_t place = bound ? bound->workspaces.size() : 0;
             place < workspaces.size() && workspaces[place].bytes() >= bytes) {
    bound->workspaces.push_back(workspaces[place]);
    return workspaces[place].slice(0, bytes);
  } else if (bound) {
    for (const detail::Memory &argument : memories)
      if (argument.owner()) {
        memory = detail::Memory(argument.device(), bytes);
        bound->workspaces.push_back(memory);
        break;
      }
  }
  if (zero && memory.owner() && bytes) {
    const unsigned char byte = 0;
    memory.fill(&byte, 1, stream);
  }
  return memory;
}
