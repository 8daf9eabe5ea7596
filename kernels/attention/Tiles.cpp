// The tables of tiles, and how a call is matched against them. Figures behind the rows for
// warpgroups: docs/performance-attention.md.
#include "kernels/attention/Tiles.h"
#include "kernels/attention/Options.h"
#include <algorithm>
#include <sectile/tuning.h>

namespace sectile::tiles {

namespace {

using enum Units;
using enum Schedule;

constexpr const char *lambdaMark = "lambda"; // among the options of a call, which has none so named

constexpr double infinite = std::numeric_limits<double>::infinity();

constexpr unsigned blocks = bias | mask;               // read by the block, as keys are
constexpr unsigned scores = blocks | softcap | lambda; // dropout changes weights
constexpr unsigned options = scores | dropout;

constexpr Row forward[] = {
    // A second warpgroup would leave multiprocessors idle, or compute rows in vain.
    {warpgroups, 128, {.keysUpTo = 32, .single = true}, {64, 32, 4}},
    {warpgroups, 128, {.single = true}, {64, 64, 4}},
    {warpgroups, any, {.single = true}, {64, 32, 4}},

    // Sequences of different lengths: all programs get as much to do.
    {warpgroups,
     64,
     {.without = scores, .spread = infinite, .packed = true},
     {128, 128, 8, persistent}},
    {warpgroups, 128, {.without = blocks, .spread = 384, .packed = true}, {128, 128, 8, prompt}},
    {warpgroups,
     128,
     {.without = blocks, .spread = infinite, .packed = true},
     {128, 128, 8, persistent}},
    {warpgroups,
     any,
     {.without = blocks, .spread = 1024, .packed = true},
     {128, 64, 8, persistent}},

    // Rows that see many keys: one block of 160 keys beats two blocks of 96.
    {warpgroups, 64, {.without = scores, .keys = 2048, .spread = 2048}, {128, 160, 8, persistent}},
    {warpgroups, 64, {.without = scores, .keys = 2048}, {128, 160, 8, overlapped}},
    // Few keys: the next block's are fetched while this one is stored.
    {warpgroups, 64, {.without = scores, .spread = 2048}, {128, 128, 8, persistent}},
    // Two blocks share a multiprocessor: one multiplies while the other does not.
    {warpgroups, 64, {.without = blocks | dropout | lambda}, {128, 96, 8}},
    // Scores that take long.
    {warpgroups, 64, {}, {128, 128, 8, overlapped}},

    // Few steps: what is put off to the next would be zeros in one of them.
    {warpgroups, 128, {.without = blocks, .spread = 640}, {128, 128, 8, prompt}},
    // Programs wait long for their first keys, longest up to 80, where they come in lines of 32
    // bytes: two blocks share a multiprocessor.
    {warpgroups, 80, {.without = options, .keysUpTo = 1024}, {128, 64, 8}},
    {warpgroups, 128, {.without = blocks, .spread = 2048}, {128, 128, 8, persistent}},
    // Bias and mask take the room of half the keys.
    {warpgroups, 128, {.with = blocks}, {128, 64, 8, overlapped}},
    {warpgroups, 128, {}, {128, 128, 8, overlapped}},

    {warpgroups, any, {.without = blocks, .spread = 640}, {128, 64, 8, persistent}},
    {warpgroups, any, {}, {128, 64, 8, overlapped}},

    // Registers do not hold 64 keys, nor 64 rows of more than 64 elements. A warp of 32 rows reads
    // keys and values half as often from shared memory as one of 16: where there are blocks enough.
    // A step of the narrowest rows is few bytes, so one more is in flight.
    {wmma, 16, {.queries = 1024}, {128, 32, 4, plain, 3}},
    {wmma, 64, {.queries = 1024}, {128, 32, 4}},
    {wmma, 64, {}, {64, 32, 4}},
    {wmma, 128, {}, {32, 32, 4}},
    {wmma, any, {}, {32, 32, 8}},

    // Registers hold 64 keys here.
    {matrices, 16, {.queries = 1024}, {128, 64, 4, plain, 3}},
    {matrices, 64, {.queries = 1024}, {128, 64, 4}},
    {matrices, 128, {}, {64, 64, 4}},
    {matrices, any, {}, {32, 32, 4}},

    // f32 takes twice the registers.
    {matrices32, 128, {}, {32, 32, 4}},
    {matrices32, any, {}, {32, 16, 4}},

    // The interpreter alone multiplies these without matrix units.
    {threads, 64, {}, {64, 64, 4}},
    {threads, any, {}, {32, 32, 4}},
    {threads32, 128, {}, {32, 32, 4}},
    {threads32, any, {}, {32, 16, 4}},
};

constexpr Row queryGradients[] = {
    // Blocks that share a multiprocessor do as well as overlap.
    {warpgroups, 64, {}, {64, 64, 4}},
    {warpgroups, 128, {.without = options, .queries = 1024}, {128, 128, 8, overlapped}},
    // Options take the registers of half the keys.
    {warpgroups, 128, {.queries = 1024}, {128, 64, 8, overlapped}},
    {warpgroups, 128, {.without = options, .queries = 512, .keys = 512}, {128, 64, 8, overlapped}},
    {warpgroups, 128, {}, {64, 64, 4}},
    {warpgroups, 192, {}, {128, 64, 8, overlapped}},
    // Two warpgroups do not hold the gradients of 128 rows.
    {warpgroups, any, {}, {64, 64, 8, overlapped}},

    {wmma, 64, {}, {64, 32, 4}},
    // Registers of four warps do not hold these.
    {wmma, 128, {}, {64, 32, 8}},
    {wmma, any, {}, {16, 16, 8}},

    {matrices, 128, {}, {64, 32, 4}},
    {matrices, any, {}, {32, 16, 4}},

    {matrices32, 64, {}, {32, 32, 4}},
    {matrices32, 128, {}, {32, 16, 4}},
    {matrices32, any, {}, {16, 16, 4, plain, 1}},
    // Each thread holds the odd factor of a width whole.
    {threads, 64, {}, {32, 32, 4}},
    {threads, any, {}, {16, 16, 4}},
    {threads32, 64, {}, {32, 32, 4}},
    // Dropout draws for 16 keys at least.
    {threads32, 128, {.with = dropout}, {16, 16, 4}},
    {threads32, any, {.with = dropout}, {16, 16, 4, plain, 1}},
    {threads32, 128, {}, {16, 8, 4}},
    {threads32, any, {}, {16, 8, 4, plain, 1}},
};

constexpr Row keyGradients[] = {
    // The wait for dq is most of a step of narrow rows: one more step in flight.
    {warpgroups, 64, {.with = dropout, .unordered = true}, {32, 128, 8, fused, 4}},
    {warpgroups, 64, {.unordered = true}, {64, 128, 8, fused, 4}},
    // Long loops have a warp that copies; dropout takes the registers of half the queries.
    {warpgroups, 64, {.with = dropout, .queries = 2048}, {32, 128, 8, overlapped, 3}},
    {warpgroups, 64, {.queries = 2048}, {64, 128, 8, overlapped, 3}},
    // Blocks that share a multiprocessor do as well in short ones.
    {warpgroups, 64, {}, {64, 64, 4, plain, 3}},

    // One warpgroup does not hold the gradients of 64 wide rows.
    {warpgroups, 128, {.without = options, .unordered = true}, {64, 128, 8, fused, 3}},
    // So does what scores need until their gradients come.
    {warpgroups, 128, {.with = dropout, .queries = 1024}, {32, 128, 8, overlapped, 3}},
    {warpgroups, 128, {.with = lambda, .queries = 1024}, {32, 128, 8, overlapped, 3}},
    {warpgroups, 128, {.with = bias | softcap, .queries = 1024}, {32, 128, 8, overlapped, 3}},
    {warpgroups, 128, {.with = mask | softcap, .queries = 1024}, {32, 128, 8, overlapped, 3}},
    {warpgroups, 128, {.queries = 1024}, {64, 128, 8, overlapped, 3}},
    {warpgroups,
     128,
     {.without = options, .queries = 512, .keys = 512},
     {64, 128, 8, overlapped, 3}},
    {warpgroups, 128, {}, {64, 128, 8, plain, 3}},
    {warpgroups, any, {.with = dropout}, {32, 64, 8, overlapped}},
    {warpgroups, any, {}, {64, 64, 8, overlapped}},

    {wmma, 64, {}, {64, 64, 4, plain, 3}},
    // Registers of four warps do not hold these.
    {wmma, 128, {}, {16, 64, 8}},
    {wmma, any, {}, {16, 16, 8}},

    {matrices, 64, {}, {64, 64, 4, plain, 3}},
    {matrices, 128, {}, {16, 64, 4, plain, 3}},
    {matrices, any, {}, {16, 32, 4}},

    {matrices32, 64, {}, {32, 32, 4}},
    {matrices32, 128, {}, {16, 32, 4}},
    {matrices32, any, {}, {16, 16, 4, plain, 1}},
    // Each thread holds the odd factor of a width whole.
    {threads, 64, {}, {32, 32, 4}},
    {threads, any, {}, {16, 16, 4}},
    {threads32, 64, {}, {32, 32, 4}},
    // Dropout draws for 16 queries at least.
    {threads32, 128, {.with = dropout}, {16, 16, 4}},
    {threads32, any, {.with = dropout}, {16, 16, 4, plain, 1}},
    {threads32, 128, {}, {8, 16, 4}},
    {threads32, any, {}, {8, 16, 4, plain, 1}},
};

struct Situation {
  Units units = threads;
  std::int64_t width = 0, queries = 0;
  unsigned options = 0;
  double keys = 0;        // that a row of scores sees, in the mean
  bool single = false;    // one warpgroup for each program, not two that share keys
  bool spread = false;    // persistent programs would all take as long, and do more than one block
  bool packed = false;    // the mean of sequences that are packed
  bool unordered = false; // dq may be summed in any order, and there is enough to do
};

Units unitsOf(DType dtype, const std::string &target) {
  const bool wide = dtype == DType::float32;
  if (hasWarpgroupUnits(target, dtype))
    return warpgroups;
  if (!hasMatrixUnits(target, dtype))
    return wide ? threads32 : threads;
  if (target.starts_with("gfx1"))
    return wmma;
  return wide ? matrices32 : matrices;
}

// What decides how warpgroups share the forward pass.
void lookAtBlocks(Situation &situation, const Invocation &call, const std::string &target) {
  const bool narrow = situation.width <= 64, causal = call.options.flag("causal");
  // Of packed sequences, many of these would be shorter than a block of two warpgroups.
  situation.single = situation.packed && situation.queries < (narrow ? 2048 : 112);
  situation.keys = keysSeen(call);
  if (situation.single)
    return;
  const std::int64_t queries = situation.queries,
                     heads = extentOr0(call, "B") * extentOr0(call, "Hq"),
                     count = ceilDiv(queries, 128) * heads, units = multiprocessors(target);
  // In causal order the first 64 rows of a single block would see keys in vain.
  const bool filled = queries >= 256 || (2 * ceilDiv(queries, 128) == ceilDiv(queries, 64) &&
                                         (queries > 128 || !causal));
  situation.single = queries < 1024 && (narrow || !filled || count < units);
  if (situation.single)
    return;
  // Causal blocks are as long in pairs: of any two heads of a batch, of a packed sequence.
  situation.spread = count > units &&
                     (!causal || (situation.packed ? call.extent("Hq") : heads) % 2 == 0) &&
                     (!situation.packed || call.extent("B") <= mostPlannedSequences);
}

// Whether programs for dk and dv may add to the same rows of dq: five products in place of seven.
// What clears and converts the sums takes longer than that where there is little to do.
bool sumsInAnyOrder(const Invocation &call) {
  constexpr double enough = 1e10; // multiplications of one product
  return allowsAnyOrder(call) && numerics() == Numerics::any && extentOr0(call, "Sq") >= 2048 &&
         visiblePairs(call) * double(call.extent("D") + call.extent("Dv")) / 2 >= enough;
}

// Where a packed sequence lies takes registers that others have for options and wide rows.
void leaveRegisters(Situation &situation, Pass pass) {
  if (pass == Pass::keyGradients && (situation.options & scores))
    situation.options |= bias | softcap;
}

Situation situationOf(Pass pass, const Invocation &given, const std::string &target) {
  const Units units = unitsOf(operandType(given), target);
  const Invocation call = units == warpgroups ? asBatch(given) : given;
  Situation situation{.units = units,
                      .width = std::max(call.extent("D"), call.extent("Dv")),
                      .queries = extentOr0(call, "Sq"),
                      .packed = call.extents.contains("Tq")};
  const std::pair<const char *, Option> names[] = {
      {"bias", bias}, {"mask", mask}, {"softcap", softcap}, {"dropout", dropout}};
  for (const auto &[name, option] : names)
    if (takes(call, name))
      situation.options |= option;
  if (call.options.values.contains(lambdaMark))
    situation.options |= lambda;
  if (pass == Pass::forward && situation.units == warpgroups)
    lookAtBlocks(situation, call, target);
  else if (situation.units == warpgroups)
    situation.keys = keysSeen(call);
  if (pass == Pass::keyGradients)
    situation.unordered = sumsInAnyOrder(call);
  if (units == warpgroups && situation.packed)
    leaveRegisters(situation, pass);
  return situation;
}

bool fits(const Row &row, const Situation &situation) {
  const Conditions &when = row.when;
  return row.units == situation.units && situation.width <= row.width &&
         (situation.options & when.with) == when.with && !(situation.options & when.without) &&
         situation.queries >= when.queries && situation.keys >= when.keys &&
         situation.keys <= when.keysUpTo &&
         (!when.spread || (situation.spread && situation.keys <= when.spread)) &&
         (situation.single || !when.single) && (situation.packed || !when.packed) &&
         (situation.unordered || !when.unordered);
}

} // namespace

std::span<const Row> rows(Pass pass) {
  switch (pass) {
  case Pass::forward:
    return forward;
  case Pass::queryGradients:
    return queryGradients;
  default:
    return keyGradients;
  }
}

void markLambda(Invocation &call) { call.options.values[lambdaMark] = "true"; }

const Row &rowFor(Pass pass, const Invocation &call, const std::string &target) {
  const Situation situation = situationOf(pass, call, target);
  // The last row for each kind of units fits everything.
  return *std::ranges::find_if(rows(pass), [&](const Row &row) { return fits(row, situation); });
}

Config fields(const Row &row, const std::string &prefix) {
  const Tile &tile = row.tile;
  return {{prefix + "m", tile.m},
          {prefix + "n", tile.n},
          {prefix + "warps", tile.warps},
          {prefix + "stages", tile.stages},
          {prefix + "overlap", tile.schedule == prompt ? 2 : tile.schedule != plain}};
}

} // namespace sectile::tiles
