// sample: the next token of each row of logits. Of logits x, with what a row is told of bias,
// tokens that occurred and tokens that are allowed,
//   x' = x + bias; where a token occurred x' / r or x' r, whichever is less; - frequency n -
//   presence
// the tokens are in the order of x', the largest first and of equals the lowest index. Their
// weights are e^((x' - max) / temperature). A token stays if it is among the first top_k, if the
// weights before it sum to less than top_p of all (of the top_k's with the order `k_first`), and if
// its own is at least min_p of the largest. Of those that stay one is drawn by its weight; with a
// temperature below 1e-5 it is the first.
//
// Nothing is sorted. Each token's number in a race (Race.h) is fixed, so whoever wins among all
// wins among those that stay, if it is one of them. That takes one pass, and another to find what
// is before the winner. If it does not stay, neither does anything behind it, and the race is run
// again among those ahead, as in the rejection of FlashInfer's sampler (Ye et al., arXiv
// 2501.01005), which draws anew. The result does not depend on the search: it is that of a sort.
//
// Flat rows of which few tokens stay would take many such races. So tokens that top_k and min_p may
// leave are listed, too, as soon as a bound is known: of any groups of tokens the k-th largest of
// their maxima is one for the k-th largest logit. A list that fits one tile is sorted, and all cuts
// are made at once.
#include "kernels/Sample.h"
#include "kernels/sampling/Cuts.h"
#include "kernels/sampling/Family.h"
#include "kernels/sampling/Race.h"
#include "kernels/sampling/References.h"
#include <sectile/error.h>

using namespace sectile;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct SampleConfig {
  int block = 2048, warps = 4;          // of parts
  int row_block = 8192, row_warps = 16; // of a row by one program
  int slots = 64;                       // for the parts of a row
  int groups = 16;                      // of a part, with a maximum each
  int list = 1024;                      // tokens that a list has room for
  bool joint = false, logprobs = false;
  bool logit_bias = false, counts = false, penalties = false, bitmask = false, temperatures = false,
       top_ks = false, top_ps = false, min_ps = false, seeds = false, offsets = false;
  bool draws = true;      // a temperature may be above 0
  bool cuts = false;      // tokens may be left out
  bool cutsTwice = false; // by a top_p of the top_k
  bool lists = false;     // by top_k or min_p
};
SECTILE_CONFIG(SampleConfig, block, warps, row_block, row_warps, slots, groups, list, joint,
               logprobs, logit_bias, counts, penalties, bitmask, temperatures, top_ks, top_ps,
               min_ps, seeds, offsets, draws, cuts, cutsTwice, lists)

template <class T> struct SampleArguments {
  View<const T, 2> logits;
  View<const float, 2> logit_bias;
  View<const std::int32_t, 2> counts;
  View<const float, 2> penalties;
  View<const std::int32_t, 2> bitmask;
  View<const float, 1> temperatures;
  View<const std::int32_t, 1> top_ks;
  View<const float, 1> top_ps, min_ps;
  View<const std::int64_t, 1> seeds, offsets;
  Tile<std::int64_t> seed;
  Float temperature, top_p, min_p, repetition, frequency, presence;
  Int top_k;
  View<float, 3> sums; // [B, 5, parts]: largest, total, best of a race, its logit, mass ahead
  View<std::int32_t, 3> places; // [B, 2, parts]: where the best is, tokens ahead of it
  View<float, 2> maxima;        // [B, parts * groups], of groups of tokens
  View<float, 1> bounds;        // [B]: tokens below it do not stay
  View<std::int32_t, 1> listed; // [B]: how many are not below it
  View<std::uint64_t, 2> list;  // [B, list]: of these, as long as they fit
  View<std::int32_t, 1> token, rank;
  View<float, 1> logprob;
};
template <class T>
SECTILE_STRUCT(SampleArguments<T>, logits, logit_bias, counts, penalties, bitmask, temperatures,
               top_ks, top_ps, min_ps, seeds, offsets, seed, temperature, top_p, min_p, repetition,
               frequency, presence, top_k, sums, places, maxima, bounds, listed, list, token, rank,
               logprob)

// A row, of which a program holds so many logits at once.
template <class T>
struct SampledRow {
  const SampleArguments<T> &a;
  const SampleConfig &config;
  int n;
  Int row, tokens;
  Float divisor; // the temperature, 1 where nothing is drawn
  Bool isDrawn;
  RowSeed seed;

  SampledRow(const SampleArguments<T> &a, const SampleConfig &config, int n, const Int &row)
      : a(a), config(config), n(n), row(row), tokens(a.logits.extent(1)),
        seed(row, a.seed, a.seeds, config.seeds, a.offsets, config.offsets) {
    const Float temperature = ofRow(a.temperatures, config.temperatures, a.temperature);
    isDrawn = temperature >= 1e-5f;
    divisor = where(isDrawn, temperature, 1.0f);
  }

  template <class U>
  Tile<U> ofRow(const View<const U, 1> &each, bool given, const Tile<U> &otherwise) const {
    return given ? load(each.ptr() + row * each.stride(0)) : otherwise;
  }
  Tile<std::int32_t> indices(const Int &block) const {
    return cast<std::int32_t>(block * n + arange(0, n));
  }

  // The logits x'; -inf behind the last.
  Tile<float> take(const Int &block) const {
    Tile<float> x = cast<float>(a.logits.at(row).tile(n).padding(-infinity).load(block));
    if (config.logit_bias)
      x = x + a.logit_bias.at(row).tile(n).load(block);
    if (config.counts) {
      const auto penalty = [&](int which, const Float &ofAll) {
        return config.penalties ? load(a.penalties.ptr() + row * a.penalties.stride(0) +
                                       which * a.penalties.stride(1))
                                : ofAll;
      };
      const Float repetition = penalty(0, a.repetition), frequency = penalty(1, a.frequency),
                  presence = penalty(2, a.presence);
      const auto count = a.counts.at(row).tile(n).load(block);
      x = where(count != 0, where(x > 0, x / repetition, x * repetition), x);
      x = where(count > 0, x - frequency * cast<float>(count) - presence, x);
    }
    if (config.bitmask) {
      const auto words = a.bitmask.at(row).tile(n / 32).load(block);
      x = where(unpack_bits(bitcast<std::uint32_t>(words)), x, -infinity);
    }
    return x;
  }
  // Their numbers in the race.
  Tile<float> race(const Tile<float> &x, const Int &block) const {
    if (!config.draws)
      return x;
    return x / divisor + where(isDrawn, seed.numbers(block, n), 0.0f);
  }
  Tile<float> weights(const Tile<float> &x, const Float &largest) const {
    return exp((x - largest) / divisor);
  }
  // Of the parts of the row, where each has one.
  Tile<float> ofParts(int which, float none) const {
    return a.sums.at(row, which).tile(config.slots).padding(none).load(0);
  }
};

// What the first launch finds of a row.
struct Found {
  Float largest, total; // of the logits, and of the weights
  Winner winner;        // weight: its logit

  template <class T> explicit Found(const SampledRow<T> &row) {
    const auto each = row.ofParts(0, -infinity);
    largest = max(each, 0, Nan::propagate);
    const Float base = where(largest == -infinity, 0.0f, largest);
    total = sum(row.ofParts(1, 0) * row.weights(each, base), 0);
    const auto at = row.a.places.at(row.row, 0).tile(row.config.slots).padding(noIndex).load(0);
    winner = winnerOf(row.ofParts(2, -infinity), at, row.ofParts(3, -infinity));
  }
  // There is something to draw from: no NaN, no infinity, and not only -inf.
  Bool isProper() const { return largest < infinity && largest > -infinity; }
};

// Whether a logit comes before this one.
Bool isAhead(const Tile<float> &x, const Tile<std::int32_t> &index, const Float &logit,
             const Tile<std::int32_t> &place) {
  return x > logit || (x == logit && index < place);
}

// Tokens as numbers in their order, the first the largest.
Tile<std::uint64_t> keysOf(const Tile<float> &x, const Tile<std::int32_t> &index) {
  return (cast<std::uint64_t>(bitsInOrder(x)) << 32u) |
         cast<std::uint64_t>(bitcast<std::uint32_t>(~index));
}
Tile<float> logitsOf(const Tile<std::uint64_t> &keys) {
  return numberOf(cast<std::uint32_t>(keys >> 32u));
}
Tile<std::int32_t> indicesOf(const Tile<std::uint64_t> &keys) {
  return ~bitcast<std::int32_t>(cast<std::uint32_t>(keys));
}

// Of one part of each row: the largest logit, the sum of the weights and who wins.
template <class T>
Kernel sampleParts{"sample_parts", [](const SampleArguments<T> &a, const SampleConfig &config) {
                     const Int part = program_id(0);
                     const SampledRow<T> row(a, config, config.block, program_id(1));
                     const auto x = row.take(part);
                     const Float largest = max(x, 0, Nan::propagate);
                     const Float base = where(largest == -infinity, 0.0f, largest);
                     const auto winner = winnerOf(row.race(x, part), row.indices(part), x);
                     const auto put = [&](int which, const Float &value) {
                       store(a.sums.at(row.row, which).ptr() + part, value);
                     };
                     put(0, largest);
                     put(1, sum(row.weights(x, base), 0));
                     put(2, winner.value);
                     put(3, winner.weight);
                     store(a.places.at(row.row, 0).ptr() + part, winner.index);
                     if (config.lists)
                       a.maxima.at(row.row)
                           .tile(config.groups)
                           .store(part, max(reshape(x, config.block / config.groups, config.groups),
                                            0, Nan::propagate));
                   }};

// Of each row: a bound that no token is below that stays.
template <class T>
Kernel sampleBounds{
    "sample_bounds", [](const SampleArguments<T> &a, const SampleConfig &config) {
      const SampledRow<T> row(a, config, config.slots * config.groups, program_id(0));
      wait_dependencies();
      const Found found(row);
      const auto k = row.ofRow(a.top_ks, config.top_ks, cast<std::int32_t>(a.top_k));
      const Float least = row.ofRow(a.min_ps, config.min_ps, a.min_p);
      const int n = config.slots * config.groups;
      const auto maxima =
          sort(a.maxima.at(row.row).tile(n).padding(-infinity).load(0), 0, /*descending=*/true);
      const Float kth = max(where(arange(0, n) == k - 1, maxima, -infinity), 0);
      // Lower by more than what the exponential and the logarithm are off.
      const Float lowest =
          found.largest + row.divisor * (log(least) - 1e-3f) - 1e-5f * abs(found.largest);
      Bool counts = least > 0.0f;
      // A top_p of the top_k is of the weights of all of these.
      if (config.cutsTwice)
        counts = counts && (k <= 0 || row.ofRow(a.top_ps, config.top_ps, a.top_p) >= 1.0f);
      const Float bound = maximum(where(k > 0, kth, -infinity), where(counts, lowest, -infinity));
      store(a.bounds.ptr() + row.row,
            where(found.isProper(), minimum(bound, found.largest), infinity));
      store(a.listed.ptr() + row.row, 0);
    }};

// Of one part of each row: how many tokens come before the one that won, and their weights.
template <class T>
Kernel sampleAhead{"sample_ahead", [](const SampleArguments<T> &a, const SampleConfig &config) {
                     const Int part = program_id(0);
                     const SampledRow<T> row(a, config, config.block, program_id(1));
                     const auto x = row.take(part); // in flight while the launch before ends
                     wait_dependencies();
                     const Found found(row);
                     const auto ahead =
                         isAhead(x, row.indices(part), found.winner.weight, found.winner.index);
                     store(a.places.at(row.row, 1).ptr() + part, cast<std::int32_t>(sum(ahead, 0)));
                     store(a.sums.at(row.row, 4).ptr() + part,
                           sum(where(ahead, row.weights(x, found.largest), 0.0f), 0));
                     if (!config.lists)
                       return;
                     const auto may = x >= load(a.bounds.ptr() + row.row) && x > -infinity;
                     const auto upTo = cumsum(cast<std::int32_t>(may), 0);
                     const auto count = cast<std::int32_t>(sum(may, 0));
                     // Whoever comes first takes the first places: the list is sorted in any case.
                     when(count > 0, [&] {
                       const auto first = atomic_add(a.listed.ptr() + row.row, count);
                       const auto place = first + upTo - 1;
                       store(a.list.at(row.row).ptr() + place, keysOf(x, row.indices(part)),
                             may && place < config.list);
                     });
                   }};

// Whether a token stays, by what comes before it.
struct Cuts {
  Tile<std::int32_t> k;
  Float p, least; // p of `total`, and of the largest weight
  Float total;

  Tile<bool> keeps(const Tile<std::int32_t> &count, const Tile<float> &mass,
                   const Tile<float> &weight) const {
    return count == 0 ||
           ((k <= 0 || count < k) && (p >= 1.0f || mass < p * total) && weight >= least);
  }
};

// The rest, by one program for each row.
template <class T>
Kernel samplePick{
    "sample_pick", [](const SampleArguments<T> &a, const SampleConfig &config) {
      const SampledRow<T> row(a, config, config.row_block, program_id(0));
      const Int blocks = cdiv(row.tokens, config.row_block);
      const Found found(row);
      Float logit = found.winner.weight;
      Tile<std::int32_t> index = found.winner.index, count = 0;
      Float mass = 0.0f;
      if (config.cuts || config.logprobs) {
        count = cast<std::int32_t>(sum(a.places.at(row.row, 1).tile(config.slots).load(0), 0));
        mass = sum(row.ofParts(4, 0), 0);
      }
      const Bool isProper = found.isProper();

      if (config.cuts) {
        const int n = config.row_block;
        Cuts cuts{row.ofRow(a.top_ks, config.top_ks, cast<std::int32_t>(a.top_k)),
                  row.ofRow(a.top_ps, config.top_ps, a.top_p),
                  row.ofRow(a.min_ps, config.min_ps, a.min_p), found.total};
        Bool isListed = false;
        if (config.lists) {
          const auto listed = load(a.listed.ptr() + row.row);
          isListed = isProper && listed <= config.list;
          when(isListed, [&] {
            const auto at = cast<std::int32_t>(arange(0, config.list));
            const auto keys =
                sort(load(a.list.at(row.row).ptr() + at, at < listed, std::uint64_t(0)), 0,
                     /*descending=*/true);
            const auto x = where(at < listed, logitsOf(keys), -infinity);
            const auto places = indicesOf(keys);
            const auto weights = where(at < listed, row.weights(x, found.largest), 0.0f);
            if (config.cutsTwice)
              cuts.total = where(cuts.k > 0 && cuts.p < 1.0f,
                                 sum(where(at < cuts.k, weights, 0.0f), 0), cuts.total);
            const auto stay = at < listed && cuts.keeps(at, cumsum(weights, 0) - weights, weights);
            const auto values =
                x / row.divisor + where(row.isDrawn, row.seed.numbersAt(places), 0.0f);
            const auto winner = winnerOf(where(stay, values, -infinity), places, x);
            logit = winner.weight;
            index = winner.index;
            count = cast<std::int32_t>(sum(at < listed && isAhead(x, places, logit, index), 0));
          });
        }
        if (config.cutsTwice)
          when(isProper && !isListed && cuts.k > 0 && cuts.k < cast<std::int32_t>(row.tokens) &&
                   cuts.p < 1.0f,
               [&] {
                 cuts.total = weightOfFirst(
                     cuts.k, blocks, n, [&](const Int &block) { return row.take(block); },
                     [&](const Tile<float> &x) { return row.weights(x, found.largest); });
               });
        const auto weightOf = [&](const Float &x) {
          return exp((x - found.largest) / row.divisor);
        };
        Bool stays = !isProper || isListed || cuts.keeps(count, mass, weightOf(logit));
        // Whether all that do not come before this logit and place are known to leave.
        Float bound = logit;
        Tile<std::int32_t> boundAt = index;
        loop_while([&] { return !stays; },
                   [&] {
                     auto best = full<float>(-infinity, n), bestLogits = full<float>(-infinity, n);
                     auto bestAt = full<std::int32_t>(noIndex, n);
                     for (auto block : range(0, blocks)) {
                       const auto x = row.take(block);
                       const auto at = row.indices(block);
                       const auto value =
                           where(isAhead(x, at, bound, boundAt), row.race(x, block), -infinity);
                       const auto better = value > best;
                       best = where(better, value, best);
                       bestLogits = where(better, x, bestLogits);
                       bestAt = where(better, at, bestAt);
                     }
                     const auto winner = winnerOf(best, bestAt, bestLogits);
                     logit = winner.weight;
                     index = winner.index;
                     // What comes before the winner, and before all logits up to one further up,
                     // which ends the search sooner where few stay.
                     const Float further = 0.5f * (logit + found.largest);
                     auto counts = zeros<std::int32_t>(n), furtherCounts = zeros<std::int32_t>(n);
                     auto masses = zeros<float>(n), furtherMasses = zeros<float>(n);
                     for (auto block : range(0, blocks)) {
                       const auto x = row.take(block);
                       const auto weights = row.weights(x, found.largest);
                       const auto ahead = isAhead(x, row.indices(block), logit, index);
                       const auto above = x > further;
                       counts += cast<std::int32_t>(ahead);
                       furtherCounts += cast<std::int32_t>(above);
                       masses += where(ahead, weights, 0.0f);
                       furtherMasses += where(above, weights, 0.0f);
                     }
                     count = cast<std::int32_t>(sum(counts, 0));
                     mass = sum(masses, 0);
                     stays = cuts.keeps(count, mass, weightOf(logit));
                     const Bool skips = !cuts.keeps(cast<std::int32_t>(sum(furtherCounts, 0)),
                                                    sum(furtherMasses, 0), weightOf(further));
                     bound = where(skips, further, logit);
                     boundAt = where(skips, 0, index);
                   });
      }
      store(a.token.ptr() + row.row * a.token.stride(0), where(isProper, index, -1));
      if (config.logprobs) {
        const Float logarithm = (logit - found.largest) / row.divisor - log(found.total);
        store(a.logprob.ptr() + row.row * a.logprob.stride(0),
              where(isProper, logarithm, std::numeric_limits<float>::quiet_NaN()));
        store(a.rank.ptr() + row.row * a.rank.stride(0), where(isProper, count + 1, 0));
      }
    }};

void check(const Invocation &call) {
  const std::int64_t tokens = call.extent("V");
  checkTokens(call, tokens);
  checkCuts(call);
  const auto least = [&](const char *option, double bound) {
    if (!(call.options.number(option) >= bound))
      refuse(call, std::string("option '") + option + "' is " + call.options.choice(option) +
                       ", but must be at least " + (bound == 0 ? "0" : "1e-3"));
  };
  least("temperature", 0);
  least("min_p", 0);
  least("repetition", 1e-3);
  const bool penalised = call.options.number("repetition") != 1 ||
                         call.options.number("frequency") != 0 ||
                         call.options.number("presence") != 0 || call.has("penalties");
  if (penalised && !call.has("counts"))
    refuse(call, "there are penalties, but no counts of the tokens that they are for");
  if (call.has("bitmask") && call.extent("words") != ceilDiv(tokens, 32))
    refuse(call, "bitmask has " + std::to_string(call.extent("words")) +
                     " words in a row, but must have " + std::to_string(ceilDiv(tokens, 32)) +
                     ", with a bit for each of the " + std::to_string(tokens) + " tokens");
}

SampleConfig configOf(const Use &use) {
  auto config = use.config_as<SampleConfig>();
  const auto number = [&](const char *name) { return use.call.options.number(name); };
  config.joint = use.call.options.choice("order") == "joint";
  config.draws = config.temperatures || number("temperature") >= 1e-5;
  const bool k = config.top_ks || use.call.options.integer("top_k") > 0,
             p = config.top_ps || number("top_p") < 1, least = config.min_ps || number("min_p") > 0;
  // The largest stays in any case.
  config.cuts = config.draws && (k || p || least);
  config.cutsTwice = config.cuts && k && p && !config.joint;
  config.slots = slotsFor(use.extent("V"), config.block);
  config.lists = config.cuts && (k || least);
  config.groups = std::clamp(4096 / config.slots, 1, 16);
  config.list = static_cast<int>(powerAtLeast(std::clamp<std::int64_t>(use.extent("V"), 32, 1024)));
  return config;
}

} // namespace

KernelSpec sectile::sampleSpec() {
  KernelSpec spec;
  spec.name = "sample";
  spec.summary = "the next token of each row of logits: top-k, top-p, min-p, penalties, masks";
  const auto bits = [](const Invocation &, HostArray &array, std::mt19937_64 &random) {
    for (std::int32_t &word : array.as<std::int32_t>())
      word = static_cast<std::int32_t>(random() | random());
  };
  const auto occurred = [](const Invocation &, HostArray &array, std::mt19937_64 &random) {
    fillDrawn(array, [&] { return random() % 8 ? 0.0 : static_cast<double>(random() % 5) - 1; });
  };
  spec.add_arguments(
      {{"logits: [B, V] f32|f16|bf16", "of each row's next token", {.sample = sampleNormal(2)}},
       {"logit_bias?: [1|B, V] f32", "added to the logits"},
       {"counts?: [B, V] i32",
        "how often each token was generated; negative: it occurs in the prompt alone, where "
        "`repetition` counts and the others do not",
        {.sample = occurred}},
       {"penalties?: [B, 3] f32",
        "repetition, frequency and presence of each row, in place of the options",
        {.sample = sampleUniform(0.5, 1.5)}},
       {"bitmask?: [1|B, words] i32",
        "[.., V / 32], rounded up: bit v % 32 of word v / 32 is 1 for tokens that are allowed",
        {.sample = bits}},
       {"temperatures?: [B] f32",
        "of each row, in place of the option",
        {.sample = sampleUniform(0, 1.5)}},
       {"top_ks?: [B] i32", "likewise", {.sample = sampleIntegers(0, 40)}},
       {"top_ps?: [B] f32", "likewise", {.sample = sampleUniform(0.2, 1.1)}},
       {"min_ps?: [B] f32", "likewise", {.sample = sampleUniform(0, 0.2)}}});
  spec.add_arguments(seedArguments());
  spec.add_arguments(
      {{"-> token: [B] i32", "-1 in rows of a NaN or of inf, and where all logits are -inf"},
       {"-> logprob: [B] f32 with logprobs",
        "logarithm of the token's probability at this temperature, before tokens are left out"},
       {"-> rank: [B] i32 with logprobs", "1 for the token of the largest logit"}});
  spec.add_options(
      {{"temperature: number = 1 e.g. 0, 0.7", "logits are divided by it; 0: the largest logit"}});
  spec.add_options(cutOptions());
  spec.add_options(
      {{"min_p: number = 0 e.g. 0.05", "least probability that stays, of the largest one"},
       {"repetition: number = 1 e.g. 1.3",
        "divides positive logits of tokens that occurred, times others"},
       {"frequency: number = 0 e.g. 0.2",
        "taken from logits for each time that the token was generated"},
       {"presence: number = 0 e.g. -0.5", "taken from logits of tokens that were generated"},
       seedOption(),
       {"logprobs: flag = false", "logprob and rank are wanted"}});
  spec.config = partFields();
  spec.typical = {{"B", 64}, {"V", 128256}};
  spec.small = {{"B", 5}, {"V", 300}};
  spec.follow = [](Invocation &call) { call.extents["words"] = ceilDiv(call.extent("V"), 32); };
  spec.check = check;
  spec.reference = sampleReference;
  spec.defaults = [](const Invocation &call, const std::string &target) {
    return rowsInParts(call.extent("V"), target);
  };
  spec.spaces = partSpaces("sample_parts", "sample_pick");
  spec.apply = [](Use &use) {
    const SampleConfig config = configOf(use);
    const std::int64_t rows = use.extent("B"), parts = ceilDiv(use.extent("V"), config.block);
    const auto sums = use.workspace<float, 3>({rows, 5, parts});
    const auto places = use.workspace<std::int32_t, 3>({rows, 2, parts});
    const std::int64_t listed = config.lists ? rows : 0;
    const auto maxima = use.workspace<float, 2>({listed, parts * config.groups});
    const auto bounds = use.workspace<float, 1>({listed});
    const auto counts = use.workspace<std::int32_t, 1>({listed});
    const auto list = use.workspace<std::uint64_t, 2>({listed, config.list});
    SampleConfig ofRows = config;
    ofRows.warps = config.row_warps;
    const auto seed = static_cast<std::int64_t>(use.call.options.seed("seed"));
    for_dtype<float, half, bfloat16>(use.call.dtype("logits"), [&]<class T>(T) {
      const auto launch = [&](auto &kernel, Grid grid, const SampleConfig &with) {
        use(kernel, grid, with,
            {{"sums", sums},
             {"places", places},
             {"maxima", maxima},
             {"bounds", bounds},
             {"listed", counts},
             {"list", list},
             {"seed", seed}});
      };
      launch(sampleParts<T>, Grid(parts, rows), config);
      if (config.lists)
        launch(sampleBounds<T>, rows, config);
      if (config.cuts || config.logprobs)
        launch(sampleAhead<T>, Grid(parts, rows), config);
      launch(samplePick<T>, rows, ofRows);
    });
  };
  return spec;
}
