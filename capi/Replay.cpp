// Finds out which words of a call's launches are addresses of its arguments, by asking twice.
#include "capi/Replay.h"

using namespace sectile;
using c::Replay;

namespace {

// Where an argument is made up to lie. In each of two rounds all arguments are in other places, at
// other distances, so that whatever follows from an address differs between the rounds.
constexpr std::uint64_t rooms = 40;
std::uint64_t madeUp(std::size_t round, std::size_t argument, std::uint64_t seen) {
  const std::uint64_t room = 2 * argument + 3 + round * (argument + 5);
  return (room << rooms) + (std::uint64_t{1} << (rooms - 1)) + seen;
}

struct Round {
  std::vector<std::uint64_t> addresses;
  BoundKernel bound;
};

Round ask(std::size_t round, const Invocation &call, const Config &config, const Device &device,
          std::span<const std::uint64_t> addresses) {
  Round result;
  Placement placed;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const TensorType &type = call.tensors[i];
    const std::uint64_t address =
        type.present ? madeUp(round, i, addresses[i] & Replay::seenBits) : 0;
    result.addresses.push_back(address);
    placed.addresses.push_back(address);
    placed.memory.push_back(type.present ? detail::Memory::borrow(device, address, 1)
                                         : detail::Memory());
  }
  result.bound = bindCall(call, placed, config, device);
  return result;
}

// The argument whose made-up place this is in.
std::optional<std::size_t> argumentAt(const Round &round, std::uint64_t word) {
  for (std::size_t i = 0; i < round.addresses.size(); ++i)
    if (round.addresses[i] && word >> rooms == round.addresses[i] >> rooms)
      return i;
  return std::nullopt;
}

bool alike(const detail::BoundLaunch &a, const detail::BoundLaunch &b) {
  return a.kernel == b.kernel && a.grid.x == b.grid.x && a.grid.y == b.grid.y &&
         a.grid.z == b.grid.z && a.words.size() == b.words.size() &&
         a.configWords == b.configWords && a.options.warps == b.options.warps &&
         a.options.stages == b.options.stages && a.options.debug == b.options.debug &&
         a.options.checked == b.options.checked &&
         a.options.max_registers == b.options.max_registers &&
         a.options.min_programs == b.options.min_programs;
}

} // namespace

std::optional<Replay> Replay::of(const Invocation &call, const Config &config, const Device &device,
                                 std::span<const std::uint64_t> addresses) {
  const Round first = ask(0, call, config, device, addresses),
              second = ask(1, call, config, device, addresses);
  if (!first.bound.workspaces.empty() || !second.bound.workspaces.empty() ||
      first.bound.launches.size() != second.bound.launches.size())
    return std::nullopt;
  Replay replay;
  for (std::size_t i = 0; i < first.bound.launches.size(); ++i) {
    const detail::BoundLaunch &a = first.bound.launches[i], &b = second.bound.launches[i];
    if (!alike(a, b))
      return std::nullopt;
    Launch &launch = replay.launches.emplace_back(Launch{a, {}});
    std::size_t word = 0;
    for (const detail::ArgSpec &spec : a.kernel->arguments()) {
      const bool isAddress =
          spec.kind == detail::ArgKind::pointer || spec.kind == detail::ArgKind::view;
      if (isAddress && a.words[word]) {
        const auto argument = argumentAt(first, a.words[word]);
        if (!argument || argument != argumentAt(second, b.words[word]))
          return std::nullopt;
        const auto offset = static_cast<std::int64_t>(a.words[word] - first.addresses[*argument]);
        if (static_cast<std::int64_t>(b.words[word] - second.addresses[*argument]) != offset)
          return std::nullopt;
        launch.places.push_back(
            {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(*argument), offset});
      } else if (a.words[word] != b.words[word]) {
        return std::nullopt;
      }
      const std::size_t end = word + static_cast<std::size_t>(detail::flattenedCount(spec));
      for (++word; word < end; ++word)
        if (a.words[word] != b.words[word])
          return std::nullopt;
    }
  }
  return replay;
}

void Replay::launch(const Stream &stream, const std::uint64_t *addresses) const {
  std::uint64_t words[detail::maxArguments + 1];
  const runtime::LaunchesOfCall one;
  for (const Launch &launch : launches) {
    const detail::BoundLaunch &bound = launch.bound;
    std::copy(bound.words.begin(), bound.words.end(), words);
    for (const Place &place : launch.places)
      words[place.word] = addresses[place.argument] + static_cast<std::uint64_t>(place.offset);
    detail::PackedLaunch packed = bound.packed();
    packed.words = words;
    runtime::LaunchAccess::launch(*bound.kernel, stream, bound.grid, packed);
  }
}
