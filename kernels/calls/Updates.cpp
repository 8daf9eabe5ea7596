// Copies of inputs that a kernel updates, for calls that give the output other memory. Any strides,
// up to six axes, elements of any size: bits are copied.
#include "kernels/calls/Updates.h"
#include "kernels/calls/Use.h"
#include <array>
#include <sectile/error.h>

using namespace sectile;

namespace {

constexpr int most = 6; // axes

struct UpdateConfig {
  int block = 2048, warps = 4;
};

// Rows along the last axis, counted through the others, of which there may be more than programs.
template <class T>
Kernel copyInput{"update_copy", [](View<const T, most> from, View<T, most> to, Int rows,
                                   const UpdateConfig &config) {
                   for (auto number : range(program_id(0), rows, num_programs(0))) {
                     Int row = number;
                     std::array<Int, most - 1> at;
                     for (int axis = most - 2; axis >= 0; --axis) {
                       at[static_cast<std::size_t>(axis)] = row % from.extent(axis);
                       row = row / from.extent(axis);
                     }
                     const auto rowOf = [&](const auto &view) {
                       return view.at(at[0], at[1], at[2]).at(at[3], at[4]).tile(config.block);
                     };
                     rowOf(to).store(program_id(1), rowOf(from).load(program_id(1)));
                   }
                 }};
constexpr std::int64_t mostPrograms = 1 << 20;

// Where an argument lies, with axes of one element before its own.
struct Place {
  std::array<std::int64_t, most> extents, strides;
};
Place placeOf(const Invocation &call, std::size_t argument) {
  const TensorType &type = call.tensors[argument];
  const Shape strides = stridesOf(type);
  const std::vector<std::size_t> stored = call.stored_axes(argument);
  if (stored.size() > most)
    throw Error(call.kernel->name + ": an argument that is updated has more than " +
                std::to_string(most) + " axes");
  Place place{};
  place.extents.fill(1);
  for (std::size_t axis = 0; axis < stored.size(); ++axis) {
    place.extents[most - stored.size() + axis] = type.shape[stored[axis]];
    place.strides[most - stored.size() + axis] = strides[stored[axis]];
  }
  return place;
}

template <class T> void copy(Use &use, const std::string &input, const std::string &output) {
  const Place from = placeOf(use.call, use.call.index(input)),
              to = placeOf(use.call, use.call.index(output));
  const auto source = use.shaped<T, most>(input, from.extents, from.strides),
             target = use.shaped<T, most>(output, to.extents, to.strides);
  if (source.data() == target.data() && source.data() != nullptr)
    return;
  std::int64_t rows = 1;
  for (std::size_t axis = 0; axis + 1 < most; ++axis)
    rows *= from.extents[axis];
  UpdateConfig config;
  config.block = static_cast<int>(std::bit_ceil(
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(from.extents.back(), 32, config.block))));
  config.warps = std::clamp(config.block / 512, 1, 4);
  use(copyInput<T>, Grid(std::min(rows, mostPrograms), ceilDiv(from.extents.back(), config.block)),
      source, target, rows, config);
}

} // namespace

void sectile::copyUpdated(Use &use) {
  for (const ArgumentSpec &spec : use.call.kernel->arguments) {
    if (!spec.updates || !use.has(spec.over.front()))
      continue;
    const std::string &input = spec.over.front();
    switch (size_of(use.call.dtype(input))) {
    case 1:
      copy<std::uint8_t>(use, input, spec.name);
      break;
    case 2:
      copy<std::uint16_t>(use, input, spec.name);
      break;
    case 4:
      copy<std::uint32_t>(use, input, spec.name);
      break;
    default:
      copy<std::uint64_t>(use, input, spec.name);
    }
  }
}
