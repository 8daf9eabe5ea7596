// Checks of integer inputs that several kernels have.
#include "kernels/registry/Contents.h"
#include "kernels/references/HostArray.h"
#include "kernels/references/Sample.h"
#include <map>
#include <sectile/error.h>

using namespace sectile;

ArgumentRow sectile::packedArgument(const std::string &axis) {
  return {"cu_seqlens?: [" + axis + "] i32",
          "packed sequences (B is 1): sequence s is steps cu_seqlens[s] to cu_seqlens[s + 1] - 1; "
          "from 0 to T, never falling",
          {.sample = sampleBoundaries("T")}};
}

void sectile::checkPacked(const Invocation &call, const std::string &axis) {
  if (!call.has("cu_seqlens"))
    return;
  if (call.extent("B") != 1)
    refuse(call, "with cu_seqlens B must be 1, but is ", call.extent("B"));
  if (call.extent(axis) < 1)
    refuse(call, "cu_seqlens has one element more than there are sequences, but has none");
  if (call.extent(axis) == 1 && call.extent("T") != 0)
    refuse(call, call.kernel->arguments.front().name, " has steps, but there is no sequence");
}

void sectile::checkBoundaries(const Invocation &call, std::span<const HostArray> inputs,
                              std::string_view argument, std::int64_t end) {
  if (!call.has(argument))
    return;
  const auto bounds = inputs[call.index(argument)].as<std::int32_t>();
  const std::string name = call.kernel->name + ": " + std::string(argument);
  if (bounds.front() != 0 || bounds.back() != end)
    throw InputError(name + " is from " + std::to_string(bounds.front()) + " to " +
                     std::to_string(bounds.back()) + ", but must begin with 0 and end with " +
                     std::to_string(end));
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s)
    if (bounds[s + 1] < bounds[s])
      throw InputError(name + " falls from " + std::to_string(bounds[s]) + " to " +
                       std::to_string(bounds[s + 1]) + " at sequence " + std::to_string(s));
}

void sectile::checkRows(const Invocation &call, std::span<const HostArray> inputs,
                        std::string_view argument, std::int64_t rows) {
  if (!call.has(argument))
    return;
  const auto places = inputs[call.index(argument)].as<std::int32_t>();
  std::map<std::int32_t, std::size_t> seen;
  for (std::size_t s = 0; s < places.size(); ++s) {
    if (places[s] < 0)
      continue;
    const std::string name =
        std::string(argument) + "[" + std::to_string(s) + "] is " + std::to_string(places[s]);
    if (places[s] >= rows)
      refuse(call, name + ", but there are " + std::to_string(rows) + " rows");
    if (const auto [other, isNew] = seen.emplace(places[s], s); !isNew)
      refuse(call, name + ", and so is that of sequence " + std::to_string(other->second) +
                       ": each has a row of its own");
  }
}
