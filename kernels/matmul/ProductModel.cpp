// The model of a product's time, and the choice of a configuration by it.
#include "kernels/matmul/ProductModel.h"
#include "kernels/calls/Use.h"
#include "runtime/MachineModel.h"
#include <bit>
#include <cmath>

using namespace sectile;

namespace {

// Fitted to the products of docs/performance.md, an H100's: microseconds, and bytes in one of them.
constexpr double launch = 3;      // with the first bytes' way from memory
constexpr double prologue = 1.2;  // of a tile: its first step's copies
constexpr double stored = 77e3;   // of a tile, by one multiprocessor
constexpr double exposed = 0.35;  // of both, where another tile's steps hide them
constexpr double fetched = 290e3; // by one multiprocessor, beside its products
constexpr double uncrowded = 0.2; // part of the chip whose programs fetch without waiting
constexpr double arrival = 1.2;   // of a step's copies, by as many as are in flight
constexpr double handover = 0.1;  // of a slot, by as many as the ring has copies in flight
constexpr double promotion = 0.4e-3, scaling = 1.5e-3; // of one sum of each thread
constexpr double turning = 0.1;                        // threads turn a step's numbers and meet
constexpr double turned = 87e3;                        // of these numbers, by one multiprocessor
constexpr double readIntoRegisters = 221e3;            // of such numbers, beside products
constexpr double pairOfTiles = 1.6;  // the programs of a cluster wait for each other, each tile
constexpr double pairOfSlots = 0.02; // and each step
constexpr double exchange = 2.5;     // programs of a stream share sums, with one other each
constexpr double exchanged = 25e3;   // of sums, by the last of these programs
constexpr double adding = 1.5;       // splits are added up by a launch of its own
constexpr double addingOne = 0.2;    // each, one after another
constexpr double added = 3e6;        // of parts, through the L2 cache

constexpr double portBytesPerClock = 64; // from the L2 cache into one multiprocessor
// Parts of the published bandwidths that these kernels reach. Of the L2 cache's it is more than
// one: multiprocessors that ask for one line at one time share an answer.
constexpr double memoryReached = 0.84, cacheReached = 1.28;
// Requests for a line that begins within one of the cache's.
constexpr double misaligned = 2.5;
// Columns that fill lines of shared memory by halves, as 160 and 224 do, make steps longer by these
// factors, the second where b's lines lie along them, and storing a tile by the third.
constexpr double halfLines = 1.06, halfLinesOfB = 1.11, halfLinesStored = 3;

// Warps that multiply fewer rows each on their own reach this part of the rate (docs/autotuner.md).
constexpr std::int64_t warpgroupRows = 64;
constexpr double warpsReach = 0.625;

constexpr std::int64_t group = 8; // tile rows that neighbouring programs share

const MachineModel &machineOf(const std::string &target) {
  return machineModel(Chip::known(target));
}

double microsecondsOf(const ProductShape &shape, const ProductConfig &config,
                      const MachineModel &machine) {
  const double cycles = machine.gigahertz * 1e3;
  const auto bytes = double(shape.bytes), m = double(config.m), n = double(config.n),
             k = double(config.k), cluster = double(config.cluster);
  // At least one tile, of no rows maybe: what is divided below is not 0.
  const std::int64_t pairs =
                         ceilDiv(std::max<std::int64_t>(shape.rows, 1), config.m * config.cluster),
                     tileRows = pairs * config.cluster,
                     tileColumns = ceilDiv(std::max<std::int64_t>(shape.columns, 1), config.n),
                     tiles = std::max<std::int64_t>(shape.batches, 1) * tileRows * tileColumns,
                     programs = tiles * config.splits, units = machine.units,
                     beside = std::min(programs, units);
  const auto waves =
                 shape.streamed ? double(tiles) / double(units) : double(ceilDiv(programs, units)),
             steps = double(ceilDiv(ceilDiv(shape.inner, config.k), config.splits));

  // A step multiplies, fetches and hands slots over, and is no shorter than the L2 cache takes for
  // all programs. Numbers of 8 bits are multiplied at twice the rate of 16 bits, of 32 at half.
  const double perClock =
      double(machine.f16) * 2 / bytes * (config.m % warpgroupRows ? warpsReach : 1);
  const double inFlight = double(config.stages - 1 + config.persistent);
  const double crowd =
      std::max(0.0, (double(beside) / double(units) - uncrowded) / (1 - uncrowded));
  double step = m * n * k / (perClock * cycles) + crowd * (m + n / cluster) * k * bytes / fetched +
                handover / std::max(inFlight, 1.0);
  const std::int64_t line = 128 / shape.bytes;
  const bool hasHalves = config.n > line && config.n % line != 0;
  if (hasHalves)
    step *= shape.acrossK ? halfLinesOfB : halfLines;
  if (config.cluster > 1)
    step += pairOfSlots;
  if (shape.promotes)
    step += (promotion + (shape.scales ? scaling : 0)) * m * n / double(config.warps * 32);
  if (config.persistent || programs <= units) // others hide a wait behind each other's products
    step = std::max(step, arrival / std::max(inFlight, 1.0));
  // Of the L2 cache all programs ask at once; what others fetched comes through the same port.
  const double asked = (m + (shape.isAligned ? 1 : misaligned) * n / cluster) * k * bytes;
  step = std::max({step, (m + n) * k * bytes / (portBytesPerClock * cycles),
                   asked * double(beside) / (machine.cacheBytesPerClock * cycles * cacheReached)});
  // Words of short lines share banks when they are read.
  const auto turns = [&](double extent) {
    return extent * k * bytes * (1 + std::max(1.0, 128 / (extent * bytes))) / 2;
  };
  // One operand goes to registers as it lies, which takes the chip's left one: the other way round
  // where it is b, if its columns are rows of warpgroups then.
  const bool readsA = shape.turnsA,
             readsB = shape.turnsB && !shape.turnsA &&
                      config.n % (warpgroupRows * config.warps / 4) == 0,
             turnsB = shape.turnsB && !readsB;
  if (turnsB)
    step += turning + turns(n) / turned;
  // Other products run beside a read but those whose sums threads wait for.
  if ((readsA || readsB) && (shape.bytes == 4 || shape.promotes))
    step += (readsA ? m : n) * k * bytes / readIntoRegisters;

  const auto result = double(shape.resultBytes);
  const double edges = prologue + (hasHalves ? halfLinesStored : 1) * m * n * result / stored;
  double computing =
      waves * steps * step + (config.persistent ? edges + std::max(waves - 1, 0.0) * exposed * edges
                                                : std::max(waves, 1.0) * edges);
  if (config.cluster > 1)
    computing += waves * pairOfTiles;
  // From memory comes each operand once, and again for each wave what the L2 cache cannot hold of
  // the rows and columns that the wave's tiles lie in.
  const auto batches = double(shape.batches),
             inner = double(shape.inner) * bytes / std::max(double(shape.repeats), 1.0),
             sums = double(shape.rows) * double(shape.columns) * batches * result,
             once = batches * double(shape.rows + shape.columns) * inner;
  const std::int64_t waveRows = std::min(group, tileRows),
                     waveColumns = std::min(ceilDiv(beside, waveRows), tileColumns);
  const double again = std::max(1.0, double(tiles) / double(units)) * inner *
                       (double(waveRows) * m + double(waveColumns) * n);
  const double missed = std::max(0.0, 1 - machine.cacheMegabytes * 1e6 / (once + sums));
  const double moving = (once + std::max(0.0, again - once) * missed + sums) /
                        (machine.memoryGigabytes * 1e3 * memoryReached);
  double sharing = 0;
  if (shape.streamed) // the first and the last of a program's tiles
    sharing = exchange + 2 * m * n * sizeof(float) / exchanged;
  else if (config.splits > 1)
    sharing = adding + addingOne * double(config.splits) +
              double(programs) * m * n * sizeof(float) / added;
  // The two overlap, but not perfectly.
  return launch + std::pow(std::pow(computing, 4) + std::pow(moving, 4), 0.25) + sharing;
}

// Products of few rows wait for b. Fitted to 658 products of 1 to 32 rows on an H200: microseconds,
// bytes in one of them, and multiplications.
namespace few {
constexpr double arrival = 0.64;              // of what is asked for, where nothing else is
constexpr double leastStep = 0.22;            // no step is shorter
constexpr double received = 64e3;             // by one multiprocessor
constexpr double multiplied = 1.5e6;          // by one multiprocessor
constexpr double multiplied32 = 0.27e6;       // of 32 bits
constexpr double edges = 1.6;                 // of a program: its first step and its stores
constexpr double split = 0.5, parts = 0.84e6; // a launch that adds up, and what it adds up
constexpr double whole = 256, broken = 0.16;  // shorter reads take up to so much longer
} // namespace few

double microsecondsOfFewRows(const ProductShape &shape, const ProductConfig &config,
                             const std::string &target) {
  const Chip &chip = Chip::known(target);
  const MachineModel &machine = machineModel(chip);
  const std::int64_t units = machine.units, deep = config.k * shape.bytes,
                     ofB = config.n * deep, // of one step
      ofBoth = ofB + config.m * deep,
                     beside = std::clamp<std::int64_t>(
                         chip.sharedBytesPerUnit / (ofBoth * config.stages + 1024), 1, 8),
                     programs = shape.batches * ceilDiv(shape.rows, config.m) *
                                ceilDiv(shape.columns, config.n) * config.splits,
                     steps = ceilDiv(ceilDiv(shape.inner, config.k), config.splits);
  const double multiplications = double(config.m * config.n * config.k),
               each = std::max(double(ofBoth) / few::received,
                               multiplications /
                                   (shape.bytes == 4 ? few::multiplied32 : few::multiplied));
  // Programs that are on the chip at once.
  const auto wave = [&](std::int64_t count) {
    if (count == 0)
      return 0.0;
    const double step =
                     std::max({each * double(ceilDiv(count, units)),
                               few::arrival / double(std::max<std::int64_t>(config.stages - 1, 1)),
                               few::leastStep}),
                 memory =
                     double(count) * double(ofB) / (machine.memoryGigabytes * 1e3 * memoryReached);
    return few::edges + double(steps) * std::pow(std::pow(step, 4) + std::pow(memory, 4), 0.25);
  };
  const std::int64_t most = units * beside;
  const double reading = double(programs / most) * wave(most) + wave(programs % most),
               line = double(shape.acrossK ? config.n * shape.bytes : deep),
               broken = few::broken * std::max(0.0, 1 - line / few::whole),
               sums = double(programs * config.m * config.n) * sizeof(float);
  return reading * (1 + broken) + (config.splits > 1 ? few::split + sums / few::parts : 0);
}

} // namespace

ProductConfig sectile::productConfig(const Config &fields) {
  const auto field = [&](const char *name, std::int64_t otherwise) {
    const auto found = fields.find(name);
    return found == fields.end() ? otherwise : found->second;
  };
  return {.m = fields.at("m"),
          .n = fields.at("n"),
          .k = fields.at("k"),
          .warps = fields.at("warps"),
          .stages = fields.at("stages"),
          .cluster = field("cluster", 1),
          .splits = field("splits", 1),
          .persistent = field("persistent", 0) != 0};
}

Config sectile::productFields(const Invocation &call, const ProductConfig &config,
                              const std::string &target) {
  const Config known{{"m", config.m},           {"n", config.n},
                     {"k", config.k},           {"group", group},
                     {"order", group},          {"warps", config.warps},
                     {"stages", config.stages}, {"cluster", config.cluster},
                     {"splits", config.splits}, {"persistent", config.persistent},
                     {"copy_first", 0},         {"programs", multiprocessors(target)}};
  Config fields;
  for (const ConfigSpec &field : call.kernel->config)
    if (const auto found = known.find(field.name); found != known.end())
      fields.insert(*found);
  return fields;
}

std::vector<ConfigSpec> sectile::productFieldSpecs(const char *order, const char *depth,
                                                   const std::vector<ConfigSpec> &others) {
  std::vector<ConfigSpec> fields{{"m", "rows of one program's tile"},
                                 {"n", "columns of one program's tile"},
                                 {"k", depth},
                                 {order, "tile rows that neighbouring programs share"},
                                 {"warps", "warps of one program"},
                                 {"stages", "steps in flight"}};
  fields.insert(fields.end(), others.begin(), others.end());
  return fields;
}

std::int64_t sectile::sumsOfThread(const Config &fields, const std::string &target) {
  return fields.at("m") * fields.at("n") / (fields.at("warps") * warpSize(target));
}

double sectile::productFlops(const Invocation &call, std::initializer_list<const char *> axes) {
  double flops = 2;
  for (const char *axis : axes)
    flops *= double(call.extent(axis));
  return flops;
}

double sectile::productMicroseconds(const ProductShape &shape, const ProductConfig &config,
                                    const std::string &target) {
  return microsecondsOf(shape, config, machineOf(target));
}

ProductConfig sectile::fastestProduct(std::span<const ProductTile> tiles, const ProductShape &shape,
                                      const ProductForms &forms, const std::string &target) {
  const MachineModel &machine = machineOf(target);
  const std::int64_t units = machine.units, line = 128 / shape.bytes;
  constexpr std::int64_t room = 226 * 1024, mostStages = 6;
  ProductConfig best{};
  double least = 0;
  const auto consider = [&](const ProductConfig &config) {
    const double time = microsecondsOf(shape, config, machine);
    if (least == 0 || time < least)
      best = config, least = time;
  };
  for (const ProductTile &tile : tiles) {
    ProductConfig config{.m = tile.m,
                         .n = tile.n,
                         .k = std::min<std::int64_t>(tile.lines * line, 128),
                         .warps = tile.warps,
                         .stages = tile.stages};
    const std::int64_t count =
        shape.batches * ceilDiv(shape.rows, tile.m) * ceilDiv(shape.columns, tile.n);
    // One slot fewer than there is room for: sums are stored through shared memory, too.
    const std::int64_t slots = room / ((tile.m + tile.n) * config.k * shape.bytes) - 1;
    const bool isAlone = count <= units && !shape.streamed;
    // Two sets of the largest tile's sums leave no registers for the copies' warp.
    if (forms.persistent != forms.never &&
        !(shape.promotes && tile.m * tile.n > 64 * 32 * tile.warps)) {
      config.persistent = true;
      // A program's only tile gains no more from a warp for copies than from a deeper ring.
      if (forms.persistent == forms.always || !isAlone || slots <= tile.stages)
        consider(config);
      // Smaller tiles share too little to wait for each other.
      if (forms.clusters && shape.batches == 1 && tile.warps == 8) {
        config.cluster = 2;
        consider(config);
        config.cluster = 1;
      }
      config.persistent = false;
    }
    const std::int64_t splits =
        std::clamp<std::int64_t>(std::min(units / std::max<std::int64_t>(count, 1),
                                          ceilDiv(shape.inner, line) / forms.leastLines),
                                 1, shape.streamed ? 1 : forms.mostSplits);
    const auto considerSplits = [&](std::int64_t count) {
      config.splits = count;
      // Beside the ring of a split, the launch that adds up has room for its first programs.
      if (forms.deeperRings && isAlone)
        config.stages = std::clamp(slots - (count > 1), tile.stages, mostStages);
      consider(config);
    };
    const bool isDone = forms.persistent == forms.always; // what has no splits
    for (std::int64_t count = isDone ? 2 : 1; count < splits; count *= 2)
      considerSplits(count);
    if (splits > 1 || !isDone)
      considerSplits(splits);
  }
  return best;
}

ProductConfig sectile::fastestOfFewRows(const ProductShape &shape, const std::string &target) {
  // A step's columns and bytes of their depth. The deepest is for long sums: a ring that holds most
  // of a sum delays the first step and hides nothing. The shallowest reads b by short lines, where
  // those lie along K.
  struct Tile {
    std::int64_t n, bytes, stages, leastSteps = 0;
    bool isAcrossK = false;
  };
  constexpr Tile tiles[] = {{32, 512, 6, 16},
                            {32, 256, 6},
                            {64, 256, 4},
                            {128, 256, 4},
                            {256, 64, 6, 0, /*isAcrossK=*/true}};
  constexpr std::int64_t shallowest = 32, deepest = 256, mostSplits = 16, leastStepsOfSplit = 8;
  const auto inner = static_cast<std::uint64_t>(std::max(shape.inner, shallowest));
  ProductConfig best{};
  double least = 0;
  for (const auto &[n, bytes, stages, leastSteps, isAcrossK] : tiles) {
    // Bytes that lie across K are read in pairs of columns, 16 to a warp.
    const bool areBytesAcrossK = shape.bytes == 1 && shape.acrossK;
    if ((isAcrossK && !shape.acrossK) || (n < 64 && areBytesAcrossK) ||
        (n == 64 && !areBytesAcrossK))
      continue;
    const std::int64_t m = shape.rows <= narrowRows ? narrowRows : fewRows,
                       k = std::min({bytes / shape.bytes, deepest,
                                     static_cast<std::int64_t>(std::bit_ceil(inner))}),
                       slots = Chip::known(target).maxSharedBytes / ((m + n) * k * shape.bytes),
                       steps = ceilDiv(shape.inner, k);
    ProductConfig config{.m = m,
                         .n = n,
                         .k = k,
                         .warps = 4,
                         .stages = std::clamp<std::int64_t>(std::min(slots, steps), 2, stages)};
    for (; config.splits <= mostSplits; config.splits *= 2) {
      const std::int64_t each = steps / config.splits;
      if (each < leastSteps || (config.splits > 1 && each < leastStepsOfSplit))
        break;
      const double time = microsecondsOfFewRows(shape, config, target);
      if (least == 0 || time < least)
        best = config, least = time;
    }
  }
  return best;
}
