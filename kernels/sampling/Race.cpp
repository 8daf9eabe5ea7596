// Races on the host, and what kernels that draw are told.
#include "kernels/sampling/Race.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/references/ReferencePhilox.h"
#include "kernels/registry/Registry.h"
#include <cmath>

using namespace sectile;

double sectile::raceUniform(std::uint64_t seed, std::uint64_t offset, std::uint32_t own,
                            std::int64_t index, Race race) {
  const auto words = philoxWords(
      seed, {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32),
             static_cast<std::uint32_t>(index / 4) | firstOf(race), own});
  const float word = static_cast<float>(words[static_cast<std::size_t>(index % 4)]) + 0.5f;
  return std::min(word * 0x1p-32f, 1 - 0x1p-24f);
}

HostRowSeed::HostRowSeed(const Invocation &call, const HostArray &seeds, const HostArray &offsets,
                         std::int64_t row)
    : seed(call.options.seed("seed")), offset(0), own(static_cast<std::uint32_t>(row)) {
  const auto at = static_cast<std::size_t>(row);
  if (call.has("seeds")) {
    seed = static_cast<std::uint64_t>(seeds.as<std::int64_t>()[at]);
    own = 0;
  }
  if (call.has("offsets"))
    offset = static_cast<std::uint64_t>(offsets.as<std::int64_t>()[at]);
}

double HostRowSeed::number(std::int64_t index, Race race) const {
  return -std::log(-std::log1p(-raceUniform(seed, offset, own, index, race)));
}

int sectile::groupOf(std::int64_t tokens) {
  constexpr std::int64_t least = 256, mostGroups = 4096;
  return static_cast<int>(powerAtLeast(std::max(least, ceilDiv(tokens, mostGroups))));
}

std::vector<ArgumentRow> sectile::seedArguments() {
  const auto some = [](const Invocation &, HostArray &array, std::mt19937_64 &random) {
    for (std::int64_t &value : array.as<std::int64_t>())
      value = static_cast<std::int64_t>(random());
  };
  return {
      {"seeds?: [B] i64",
       "of each row, whatever its place in the batch; without it rows draw by `seed` and their "
       "place",
       {.sample = some}},
      {"offsets?: [B] i64",
       "of each row's draw among those of its seed: the number of tokens so far; 0 if not given",
       {.sample = some}}};
}

OptionRow sectile::seedOption() {
  return {"seed: seed = 0 e.g. 7, 18446744073709551615", "of the random numbers; 64 bits"};
}

void sectile::checkTokens(const Invocation &call, std::int64_t vocabulary) {
  constexpr std::int64_t most = 1 << 24;
  if (vocabulary > most)
    refuse(call, "rows have ", vocabulary, " tokens, but at most ", most, " are taken");
  if (vocabulary == 0 && call.extent("B") != 0)
    refuse(call, "there are rows, but they have no tokens");
}
