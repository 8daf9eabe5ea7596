// speculative_verify: which of a row's draft tokens d the target model keeps, and the token after
// them (Leviathan et al., arXiv 2211.17192). With p of the target and q of the draft model, token i
// is kept while u[i] q_i(d[i]) < p_i(d[i]). The token after those is drawn from max(p_i - q_i, 0)
// where one was not kept, else from the last p, as a race (Race.h). Without draft_probs, drafts
// were certain: q is 1 at d and 0 elsewhere. Where no probability is left, it is drawn from p_i
// itself. A draft that is no token is never kept. A row whose p there has a NaN, an infinity or a
// negative number gives the token -1.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/references/Sample.h"
#include "kernels/sampling/Cuts.h"
#include "kernels/sampling/Family.h"
#include "kernels/sampling/Race.h"
#include "kernels/sampling/References.h"

using namespace sectile;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t mostDrafts = 1024;

struct VerifyConfig {
  int block = 2048, warps = 4;
  int slots = 64; // for the parts of a row
  int drafts = 8; // for the N + 1 tokens of a row
  bool hasDrafts = true;
  bool draft_probs = false, seeds = false, offsets = false;
};

struct VerifyArguments {
  View<const std::int32_t, 2> draft_tokens;
  View<const float, 3> target_probs, draft_probs;
  View<const float, 2> u;
  View<const std::int64_t, 1> seeds, offsets;
  Tile<std::int64_t> seed;
  View<float, 3> bests;         // [B, 3, parts]: of what is left, of p itself, 1 where p is none
  View<std::int32_t, 3> places; // [B, 2, parts]
  View<std::int32_t, 2> tokens;
  View<std::int32_t, 1> accepted, emitted;
};

// A row's drafts, and how many are kept.
struct Drafts {
  Int row, count, kept;
  Tile<std::int32_t> tokens; // -1 behind the last
  Tile<bool> accepted;

  Drafts(const VerifyArguments &a, const VerifyConfig &config, const Int &row)
      : row(row), count(a.draft_tokens.extent(1)) {
    const int n = config.drafts;
    const Int place = arange(0, n);
    tokens = a.draft_tokens.at(row).tile(n).padding(-1).load(0);
    const auto isToken = tokens >= 0 && cast<Index>(tokens) < a.target_probs.extent(2);
    const auto probabilityOf = [&](const View<const float, 3> &probs) {
      const auto of = probs.at(row);
      return load(of.ptr() + cast<std::int64_t>(place) * of.stride(0) +
                      cast<std::int64_t>(tokens) * of.stride(1),
                  isToken, 0.0f);
    };
    const Tile<float> p = probabilityOf(a.target_probs),
                      q = config.draft_probs ? probabilityOf(a.draft_probs) : full<float>(1, n);
    const auto isThere = place < count;
    accepted = isThere && a.u.at(row).tile(n).load(0) * q < p;
    kept = min(where(isThere && !accepted, place, count), 0);
  }
};

Kernel verifyParts{
    "speculative_verify_parts", [](const VerifyArguments &a, const VerifyConfig &config) {
      const int n = config.block;
      const Int part = program_id(0);
      const Drafts drafts(a, config, program_id(1));
      const Int row = drafts.row;
      const RowSeed seed(row, a.seed, a.seeds, config.seeds, a.offsets, config.offsets);
      const auto p = a.target_probs.at(row, drafts.kept).tile(n).load(part);
      const auto index = cast<std::int32_t>(part * n + arange(0, n));
      auto left = p;
      if (config.hasDrafts) {
        const Int first = minimum(drafts.kept, drafts.count - 1);
        const Bool isShort = drafts.kept < drafts.count;
        if (config.draft_probs) {
          left = p - where(isShort, a.draft_probs.at(row, first).tile(n).load(part), 0.0f);
        } else {
          const auto refused =
              load(a.draft_tokens.at(row).ptr() + first * a.draft_tokens.stride(1));
          left = where(isShort && index == refused, 0.0f, p);
        }
      }
      const auto numbers = seed.numbers(part, n);
      const auto put = [&](int which, const Tile<float> &weights) {
        const auto value = where(weights > 0.0f, log(weights) + numbers, -infinity);
        const auto winner = winnerOf(value, index, value);
        store(a.bests.at(row, which).ptr() + part, winner.value);
        store(a.places.at(row, which).ptr() + part, winner.index);
      };
      put(0, left);
      put(1, p);
      store(a.bests.at(row, 2).ptr() + part, where(all(p >= 0.0f && p < infinity), 0.0f, 1.0f));
    }};

Kernel verifyRows{
    "speculative_verify", [](const VerifyArguments &a, const VerifyConfig &config) {
      const Drafts drafts(a, config, program_id(0));
      const Int row = drafts.row;
      wait_dependencies(); // the parts' winners are there now
      const int slots = config.slots;
      const auto of = [&](int which) {
        const auto value = a.bests.at(row, which).tile(slots).padding(-infinity).load(0);
        return winnerOf(value, a.places.at(row, which).tile(slots).padding(noIndex).load(0), value);
      };
      const Winner left = of(0), plain = of(1);
      const Bool isImproper =
          max(a.bests.at(row, 2).tile(slots).load(0), 0) > 0.0f || plain.value == -infinity;
      const auto next = where(left.value > -infinity, left.index, plain.index);
      const int n = config.drafts;
      const Int place = arange(0, n);
      a.tokens.at(row).tile(n).store(0,
                                     where(place < drafts.kept, drafts.tokens,
                                           where(place == drafts.kept && !isImproper, next, -1)));
      store(a.accepted.ptr() + row * a.accepted.stride(0),
            cast<std::int32_t>(sum(drafts.accepted, 0)));
      store(a.emitted.ptr() + row * a.emitted.stride(0), cast<std::int32_t>(drafts.kept));
    }};

} // namespace

KernelSpec sectile::speculativeVerifySpec() {
  KernelSpec spec;
  spec.name = "speculative_verify";
  spec.summary = "the draft tokens that the target model keeps, and the token after them";
  const auto tokens = [](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    for (std::int32_t &token : array.as<std::int32_t>())
      token = static_cast<std::int32_t>(
          random() % static_cast<std::uint64_t>(std::max<std::int64_t>(call.extent("V"), 1)));
  };
  const auto probabilities = sampleUniform(0, 1); // drafts are kept or not, whatever their sum
  spec.add_arguments(
      {{"draft_tokens: [B, N] i32", "of each row", {.sample = tokens}},
       {"target_probs: [B, most, V] f32",
        "[B, N + 1, V] of the target model: where each draft stands, and after the last",
        {.sample = probabilities}},
       {"u: [B, N] f32", "numbers drawn evenly from [0, 1)", {.sample = sampleUniform(0, 1)}},
       {"draft_probs?: [B, N, V] f32",
        "that drafts were drawn from; if not given, they were certain",
        {.sample = probabilities}}});
  spec.add_arguments(seedArguments());
  spec.add_arguments(
      {{"-> tokens: [B, most] i32", "the drafts that are kept, the token after them, and -1"},
       {"-> accepted: [B] i32", "drafts that would be kept by themselves, whatever those before"},
       {"-> emitted: [B] i32", "drafts that are kept"}});
  spec.add_options({seedOption()});
  spec.config = {{"block", "tokens of a part of a row", 32, 1 << 15},
                 {"warps", "warps of one program"}};
  spec.typical = {{"B", 64}, {"N", 4}, {"V", 128256}};
  spec.small = {{"B", 5}, {"N", 3}, {"V", 300}};
  spec.follow = [](Invocation &call) { call.extents["most"] = call.extent("N") + 1; };
  spec.check = [](const Invocation &call) {
    const std::int64_t drafts = call.extent("N");
    if (call.extent("most") != drafts + 1)
      refuse(call, "target_probs has ", call.extent("most"),
             " rows of probabilities, but must have one more than the ", drafts, " drafts");
    if (drafts > mostDrafts)
      refuse(call, "rows have ", drafts, " drafts, but at most ", mostDrafts, " are taken");
    checkTokens(call, call.extent("V"));
  };
  spec.reference = speculativeVerifyReference;
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const Config all = rowsInParts(call.extent("V"), target);
    return Config{{"block", all.at("block")}, {"warps", all.at("warps")}};
  };
  spec.spaces = {partSpaces("speculative_verify_parts", "").front()};
  spec.apply = [](Use &use) {
    auto config = use.config_as<VerifyConfig>();
    const std::int64_t rows = use.extent("B"), drafts = use.extent("N"),
                       parts = ceilDiv(use.extent("V"), config.block);
    config.hasDrafts = drafts > 0;
    config.drafts = static_cast<int>(powerAtLeast(drafts + 1));
    config.slots = slotsFor(use.extent("V"), config.block);
    const auto bests = use.workspace<float, 3>({rows, 3, parts});
    const auto places = use.workspace<std::int32_t, 3>({rows, 2, parts});
    const auto seed = static_cast<std::int64_t>(use.call.options.seed("seed"));
    use(verifyParts, Grid(parts, rows), config,
        {{"bests", bests}, {"places", places}, {"seed", seed}});
    VerifyConfig merging = config;
    merging.warps = 1;
    use(verifyRows, rows, merging, {{"bests", bests}, {"places", places}, {"seed", seed}});
  };
  return spec;
}
