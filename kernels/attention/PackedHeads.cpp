// Attention whose queries are too few to fill a chip, as while a sequence is decoded or a long one
// goes on by a chunk. A block's rows are the queries of all heads that share a head of the keys,
// which is then read once, and the keys are split among programs, whose results a second launch
// merges in order (Flash-Decoding; Dao, Haziza, Massa and Sizov, 2023). Of packed sequences nothing
// but their mean length is known where that is decided.
#include "kernels/attention/Options.h"
#include "kernels/serving/Merge.h"
#include "runtime/Chip.h"
#include <algorithm>
#include <cmath>
#include <sectile/error.h>

using namespace sectile;

namespace {

// Whether programs take as long as it takes to read the keys. With more queries they multiply.
bool isReading(const Invocation &call) {
  return extentOr0(call, "Sq") <= 16 && extentOr0(call, "Sq") * headsOfBlock(call) <= 128;
}

std::int64_t blocksOfGroups(const Invocation &call, std::int64_t m) {
  return ceilDiv(extentOr0(call, "Sq") * headsOfBlock(call), m) * extentOr0(call, "B") *
         extentOr0(call, "Hq") / headsOfBlock(call);
}

std::int64_t splitsFor(const Invocation &call, const Config &config, const std::string &target) {
  const std::int64_t queries = extentOr0(call, "Sq"), keys = extentOr0(call, "Sk"),
                     heads = extentOr0(call, "B") * extentOr0(call, "Hq"),
                     blocks = blocksOfGroups(call, config.at("m"));
  const double seen = keysSeen(call),
               bytes = double(keyBytes(call)) * seen / double(std::max<std::int64_t>(keys, 1));
  return keyParts(blocks, static_cast<std::int64_t>(std::ceil(seen / double(config.at("n")))),
                  bytes * double(groupOf(call) * blocks),
                  8.0 * double(queries * heads * call.extent("Dv")), 0.01, target,
                  isReading(call) ? Work::reading : Work::multiplying);
}

// Without warpgroups and matrix units of AMD f32 operands are large: queries, scores, and keys and
// values of the steps in flight lie in shared memory together.
void fitShared(Config &config, const Invocation &call, const std::string &target) {
  const std::int64_t all = Chip::known(target).maxSharedBytes;
  std::int64_t &m = config["m"], &n = config["n"];
  const auto fits = [&] {
    const std::int64_t numbers = m * call.extent("D") + m * n +
                                 config.at("stages") * n * (call.extent("D") + call.extent("Dv"));
    return numbers * 4 <= all;
  };
  for (std::int64_t *extent : {&n, &m})
    while (!fits() && *extent > 16)
      *extent /= 2;
}

} // namespace

// As many parts as take least time by this count, in bytes that are read meanwhile. A program has a
// multiprocessor to itself, and fewer than three fifths of them read slower than all; multiplying,
// all of them take as long as one. A wave of programs begins with nothing in flight, a merge is a
// launch, and parts are written and read.
std::int64_t sectile::keyParts(std::int64_t blocks, std::int64_t steps, double bytes,
                               double partBytes, double slack, const std::string &target,
                               Work work) {
  constexpr double waveBytes = 3e6, mergeBytes = 12e6;
  const std::int64_t units = multiprocessors(target),
                     asOne = work == Work::reading ? units * 3 / 5 : units,
                     most = std::clamp<std::int64_t>(steps / 4, 1, 128);
  const auto time = [&](std::int64_t parts) {
    const std::int64_t programs = std::max<std::int64_t>(blocks, 1) * parts,
                       last = programs % units,
                       places = programs - last + (last ? std::max(last, asOne) : 0);
    return bytes * double(places) / double(programs) +
           double(ceilDiv(programs, units)) * waveBytes +
           (parts > 1 ? mergeBytes + double(parts) * partBytes : 0);
  };
  double least = time(1);
  for (std::int64_t parts = 2; parts <= most; ++parts)
    least = std::min(least, time(parts));
  std::int64_t parts = most;
  while (parts > 1 && time(parts) > least * (1 + slack))
    --parts;
  return parts;
}

int sectile::headsOfBlock(const Invocation &call) {
  return takes(call, "dropout") ? 1 : static_cast<int>(std::max<std::int64_t>(groupOf(call), 1));
}

std::optional<ConfigValues> sectile::packedDefaults(const Invocation &given,
                                                    const std::string &target) {
  const Invocation call = asBatch(given);
  const bool isPacked = given.extents.contains("Tq");
  const std::int64_t rows = extentOr0(call, "Sq") * headsOfBlock(call);
  const std::int64_t d = std::max(call.extent("D"), call.extent("Dv"));
  const bool engine = hasWarpgroupUnits(target, operandType(call));
  if (rows < 1 || extentOr0(call, "Sk") < 256)
    return std::nullopt;
  const bool wide = d > (takes(call, "bias") || takes(call, "mask") ? 64 : 128),
             reading = isReading(call);
  Config config{{"m", engine       ? (rows <= 64 ? 64 : 128)
                      : rows <= 16 ? 16
                      : rows <= 32 ? 32
                                   : 64},
                {"n", engine && rows > 64 ? (wide ? 64 : 128)
                      : d > 128           ? 32
                      : d > 64            ? 64
                                          : 128},
                {"warps", engine && rows > 64 ? 8 : 4},
                {"stages", 2},
                {"overlap", engine},
                {"persistent", 0},
                {"programs", multiprocessors(target)},
                {"packed", 1}};
  // Programs of one head each do as well where they fill the chip, but for those that read the same
  // keys in blocks that are not full.
  const std::int64_t queries = extentOr0(call, "Sq"), units = multiprocessors(target),
                     blocks = blocksOfGroups(call, config.at("m")),
                     ofOneHead =
                         ceilDiv(queries, 64) * extentOr0(call, "B") * extentOr0(call, "Hq");
  const bool fillsBlocks = engine && !wide && groupOf(call) > 1 && queries <= 256 &&
                           ofOneHead >= units && keysSeen(call) >= 3 * double(queries);
  if (!reading && !fillsBlocks && blocks >= units)
    return std::nullopt;
  if (operandType(call) == DType::float32 && !engine && target != "interpreter" &&
      !target.starts_with("gfx9"))
    fitShared(config, call, target);
  std::int64_t &splits = config["splits"] = splitsFor(call, config, target);
  if (!reading && !fillsBlocks && splits == 1)
    return std::nullopt;
  // The longest of several sequences is longer than the mean.
  if (isPacked && blocks < 2 * units && extentOr0(call, "Sk") >= 16 * config.at("n"))
    splits = std::max<std::int64_t>(splits, 2);
  return config;
}

void sectile::launchPacked(Use &use, const AttentionNumbers &numbers, bool modified,
                           const AttentionTensors &tensors, const flash::detail::Launcher &launch) {
  const Invocation &call = use.call;
  const std::int64_t batches = call.extent("B"), heads = call.extent("Hq"),
                     queries = call.extent("Sq"), parts = use.field("splits");
  flash::LoopConfig chosen = forwardConfig(use, numbers, modified);
  chosen.group = headsOfBlock(call);
  const flash::detail::Launch packed{.of = flash::detail::Launch::Of::parts,
                                     .grid = Grid(parts * ceilDiv(queries * chosen.group, chosen.m),
                                                  heads / chosen.group, batches),
                                     .config = chosen,
                                     .numbers = launchNumbers(use, numbers, groupOf(call)),
                                     .sinks = sinksOf(use)};
  for_dtype<half, bfloat16, float>(tensors.o.dtype, [&]<class T>(T) {
    const auto o = tensors.o.as<T, 4>();
    const auto lse = tensors.lse.as<float, 3>();
    launchParts(use, packed, parts, o, lse, launch, [&](const auto &partial, const auto &logs) {
      use(mergeStates<float, T>, Grid(queries, heads, batches), partial, logs, o, lse,
          mergeRowConfig(parts, chosen.valueWidth));
    });
  });
}
