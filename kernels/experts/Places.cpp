// Places of choices.
#include "kernels/experts/Places.h"
#include <algorithm>
#include <numeric>

using namespace sectile;

void sectile::samplePlaces(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  const auto places = array.as<std::int32_t>();
  const auto rows = static_cast<std::size_t>(call.extent("M"));
  std::vector<std::int32_t> all(std::max(rows + rows / 8, places.size()));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = i < rows ? static_cast<std::int32_t>(i) : -1;
  std::ranges::shuffle(all, random);
  std::copy_n(all.begin(), places.size(), places.begin());
}

void sectile::checkPlaces(const Invocation &call, std::span<const HostArray> inputs,
                          const char *argument, std::int64_t end) {
  for (const std::int32_t place : inputs[call.index(argument)].as<std::int32_t>())
    if (place >= end)
      refuse(call, argument, " has ", place, ", but must be below ", end);
}

void sectile::checkDistinct(const Invocation &call, std::span<const HostArray> inputs,
                            const char *argument) {
  const auto given = inputs[call.index(argument)].as<std::int32_t>();
  std::vector<std::int32_t> places(given.begin(), given.end());
  std::erase_if(places, [](std::int32_t place) { return place < 0; });
  std::ranges::sort(places);
  if (const auto twice = std::ranges::adjacent_find(places); twice != places.end())
    refuse(call, argument, " has ", *twice, " twice, but a row is of one choice");
}
